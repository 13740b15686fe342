//! `backup`, and `export` with `import --all`: a store in another file, whole or what is left of it.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Bench, run};

/// A store with every driver, every state and every option, and sub-queues.
fn full() -> Bench {
    let bench = Bench::with(&["one", "two"]);
    bench.ok("create plain --driver fifo");
    bench.ok("create sites --driver utube");
    bench.ok("create crawl --driver utubettl --ttl 1d --pri 4");
    bench.ok("create small --driver limfifottl --capacity 5 --ttr 30s");
    bench.ok("create memory --driver fifo --temporary");
    bench.feed("put plain -", b"\xff\0 bytes").expect(0);
    bench.feed("put plain -", "large ".repeat(2000).as_bytes()).expect(0);
    for n in 0..6 {
        bench.ok(&format!("put sites a{n} --sub-queue s{}", n % 3));
        bench.ok(&format!("put crawl b{n} --sub-queue s{} --pri {}", n % 2, n % 4));
    }
    bench.ok("put crawl unnamed --ttl never --ttr 90s");
    bench.ok("put small soon --delay 2h --ttl 3h --pri 1");
    bench.ok("put small now --ttr never");
    bench.ok("put mail later --delay 1d");
    bench.ok("bury mail 1");
    bench.ok("bury plain 3");
    let crawl = bench.json("list crawl")[1]["id"].as_u64().unwrap();
    bench.ok(&format!("bury crawl {crawl}"));
    bench
}

/// Everything about the tubes and tasks but ids, what has been counted, and time that passed.
fn contents(bench: &Bench) -> Vec<Value> {
    let mut all = bench.json("tubes");
    let names: Vec<String> =
        all.iter().map(|tube| tube["tube"].as_str().unwrap().to_owned()).collect();
    for name in names {
        let mut tasks = bench.json(&format!("list {name} --all"));
        for task in &mut tasks {
            for time in ["ttl_left", "due_in"] {
                if let Some(seconds) = task[time].as_f64() {
                    // All of these are hours; a minute is for a slow machine.
                    task[time] = json!((seconds / 60.0).ceil());
                }
            }
            task["id"].take();
            task["takes"].take();
        }
        all.extend(tasks);
    }
    all
}

/// The order in which everything is taken, by tube.
fn drained(bench: &Bench, tube: &str) -> Vec<Value> {
    bench.ok(&format!("kick {tube} --all"));
    let mut taken = Vec::new();
    loop {
        let done = bench.run(&format!("take {tube} --json"));
        if done.status.code() == Some(3) {
            return taken;
        }
        taken.push(done.expect(0).objects()[0].get("data").cloned().unwrap_or(Value::Null));
    }
}

#[test]
fn what_was_exported_comes_back_as_it_was() {
    let bench = full();
    let told = bench.ok("export all.jsonl");
    assert_eq!(told, "exported 20 tasks of 6 tubes\n");
    let lines = std::fs::read(bench.dir.path().join("all.jsonl")).unwrap();
    let other = Bench::empty();
    let done = other.feed("import --all", &lines).expect(0);
    assert_eq!(done.text(), "stored 20 tasks in 6 tubes\n");
    assert_eq!(contents(&other), contents(&bench));
    assert!(other.ok("verify").starts_with("sound"));
    for tube in ["mail", "plain", "sites", "crawl", "small"] {
        let order = drained(&bench, tube);
        assert!(!order.is_empty());
        assert_eq!(drained(&other, tube), order, "{tube}");
    }
}

#[test]
fn buried_tasks_whose_lives_are_over_do_not_stop_an_import() {
    let bench = Bench::with(&["sound"]);
    bench.ok("put mail brief --ttl 1h");
    bench.ok("bury mail 0 1");
    let lines = String::from_utf8(bench.run("export -").expect(0).out).unwrap();
    // As if it had been exported after the end of its life, which is not swept away by a reader.
    let lines: Vec<String> = lines
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["data"] == "brief" {
                line["ttl"] = json!(0.0);
            }
            line.to_string()
        })
        .collect();
    let other = Bench::empty();
    let done = other.feed("import --all", lines.join("\n").as_bytes()).expect(0);
    assert_eq!(done.text(), "stored 2 tasks in 1 tube\n");
    assert_eq!(other.counts(), (0, 0, 1));
}

#[test]
fn a_delay_without_an_end_comes_back_without_one() {
    let bench = Bench::with(&[]);
    bench.ok("put mail parked --delay never --ttl 1h");
    let lines = bench.run("export -").expect(0).out;
    let other = Bench::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.run("export -").expect(0).out, lines);
    assert_eq!(other.json("peek mail 0")[0]["due_in"], json!(null));
    // One that is missing is no delay for ever.
    let line = r#"{"tube":"mail","state":"ready","pri":0,"data":"x"}"#;
    let said = other.feed("import --all", line.as_bytes()).expect(7).err;
    assert!(said.contains("missing field `delay`"), "{said}");
}

#[test]
fn whatever_an_application_made_of_its_tubes_comes_back() {
    use tubewell::{Durability, TubeOptions};

    let bench = Bench::empty();
    let store = tubewell::Store::open(bench.store()).unwrap();
    let forever = Duration::MAX;
    let odd = Duration::from_micros(3_155_695_212_345_671);
    // By name, so that the ids are the same in the end.
    for (name, options) in [
        (
            "at once",
            TubeOptions::new().durability(Durability::Relaxed { max_delay: Duration::ZERO }),
        ),
        ("long", TubeOptions::new().ttl(forever).ttr(odd)),
        ("never", TubeOptions::new().durability(Durability::Relaxed { max_delay: forever })),
        ("odd", TubeOptions::new().ttl(odd)),
        ("short", TubeOptions::new().ttl(Duration::from_micros(1)).pri(u32::MAX)),
    ] {
        let tube = store.create_tube(name, tubewell::FIFOTTL, options).unwrap();
        tube.put(tubewell::Put::new("x").ttl(forever)).unwrap();
    }
    store.close().unwrap();
    let lines = bench.run("export -").expect(0).out;
    let other = Bench::empty();
    other.feed("import --all", &lines).expect(0);
    // The tubes are the same, and so theirs may be used again.
    bench.feed("import --all", &lines).expect(0);
    let told = |bench: &Bench| String::from_utf8(bench.run("export -").expect(0).out).unwrap();
    assert_eq!(told(&other), String::from_utf8(lines).unwrap());
}

#[test]
fn an_export_by_a_clock_that_is_not_believed_ends_no_lives() {
    let bench = Bench::of_2001();
    let done = bench.run("export -").expect(0);
    assert_eq!(done.objects()[1]["ttl"], json!(86_400.0));
    assert!(done.err.contains("give --trust-wall-clock"), "{}", done.err);
    let done = bench.run("export - --trust-wall-clock").expect(0);
    assert_eq!(done.objects()[1]["ttl"], json!(0.0));
    assert!(!done.err.contains("wall clock"), "{}", done.err);
}

#[test]
fn an_export_to_standard_output_is_nothing_but_lines() {
    let bench = Bench::with(&["one"]);
    let done = bench.run("export -").expect(0);
    let objects = done.objects();
    assert_eq!(
        objects[0],
        json!({
            "tube": "mail", "driver": "fifottl", "ttl": null, "ttr": null, "pri": 0,
            "capacity": 0, "temporary": false, "durability": null,
        })
    );
    assert_eq!(
        objects[1],
        json!({
            "tube": "mail", "id": 0, "state": "ready", "pri": 0, "ttl": null, "ttr": null,
            "delay": 0.0, "sub_queue": null, "takes": 0, "data": "one",
        })
    );
    assert_eq!((objects.len(), done.err.as_str()), (2, "exported 1 task of 1 tube\n"));
    assert_eq!(bench.json("export x"), [json!({"tubes": 1, "tasks": 1, "lost": 0})]);
    assert!(bench.fails("export x", 6).contains("exists already"));
}

#[test]
fn damaged_tasks_are_named_and_the_others_exported() {
    let bench = Bench::with(&[]);
    let lines: Vec<String> = (0..500).map(|n| format!("<task {n}>")).collect();
    bench.feed("import mail", lines.join("\n").as_bytes()).expect(0);
    let mut file = std::fs::read(bench.store()).unwrap();
    let hit: Vec<usize> = ["<task 7>", "<task 250>"]
        .iter()
        .flat_map(|text| {
            let text = text.as_bytes();
            let found = file.windows(text.len()).enumerate().filter(|(_, at)| *at == text);
            found.map(|(at, _)| at).collect::<Vec<_>>()
        })
        .collect();
    for at in hit {
        file[at] ^= 1;
    }
    std::fs::write(bench.store(), &file).unwrap();
    let done = bench.run("export all.jsonl --json").expect(7);
    assert_eq!(done.objects(), [json!({"tubes": 1, "tasks": 498, "lost": 2})]);
    for id in [7, 250] {
        assert!(done.err.contains(&format!("task {id}: its record")), "{}", done.err);
    }
    assert!(done.err.contains("2 things could not be read"), "{}", done.err);
    assert!(std::fs::read(bench.store()).unwrap() == file, "an export only reads");
    let lines = std::fs::read(bench.dir.path().join("all.jsonl")).unwrap();
    let other = Bench::empty();
    other.feed("import --all", &lines).expect(0);
    let bodies: Vec<Value> =
        other.json("list mail --all").iter().map(|t| t["data"].clone()).collect();
    let expected = (0..500).filter(|n| ![7, 250].contains(n)).map(|n| json!(format!("<task {n}>")));
    assert!(bodies.into_iter().eq(expected));
}

#[test]
fn a_file_that_is_beyond_reading_says_so() {
    let bench = Bench::with(&["one"]);
    let mut file = std::fs::read(bench.store()).unwrap();
    // The header of the database, behind the journal.
    file[(1 << 20) + 20..(1 << 20) + 320].fill(0xEE);
    std::fs::write(bench.store(), &file).unwrap();
    let done = bench.run("export -");
    assert!([1, 4].contains(&done.status.code().unwrap()), "{done:?}");
    assert!(done.out.is_empty() && !done.err.contains("panicked"), "{}", done.err);
    assert!(std::fs::read(bench.store()).unwrap() == file);
}

#[test]
fn an_import_of_an_export_stops_at_a_wrong_line_and_can_go_on() {
    let bench = full();
    let lines = bench.run("export -").expect(0).out;
    let mut lines: Vec<&str> = std::str::from_utf8(&lines).unwrap().lines().collect();
    let other = Bench::empty();
    let good = std::mem::replace(&mut lines[10], "{\"tube\": 5}");
    let done = other.feed("import --all --json", lines.join("\n").as_bytes()).expect(7);
    assert_eq!(done.objects()[0]["failed_line"], 11);
    assert!(done.err.contains("line 11: ") && done.err.contains("tail -n +11"), "{}", done.err);
    lines[10] = good;
    other.feed("import --all", lines[10..].join("\n").as_bytes()).expect(0);
    assert_eq!(contents(&other), contents(&bench));

    let different = Bench::with(&[]);
    let tube = r#"{"tube":"mail","driver":"fifo","ttl":null,"ttr":null,"pri":0,"capacity":0,"temporary":false,"durability":"flush"}"#;
    let done = different.feed("import --all", tube.as_bytes()).expect(7);
    assert!(done.err.contains("its driver is fifottl, not fifo"), "{}", done.err);
    for words in
        ["import", "import mail --all", "import --all --format json", "import --all --pri 1"]
    {
        different.fails(words, 2);
    }
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let bench = full();
    let told = bench.ok("backup copy.tubewell");
    assert!(told.starts_with("copied 20 tasks to copy.tubewell ("), "{told}");
    let made = bench.json("backup other.tubewell");
    assert_eq!((&made[0]["file"], &made[0]["tasks"]), (&json!("other.tubewell"), &json!(20)));
    assert!(made[0]["bytes"].as_u64().unwrap() > 0);
    let said = bench.fails("backup copy.tubewell", 6);
    assert!(said.contains("exists already") && said.contains("name a new file"), "{said}");
    let other = Bench::empty();
    std::fs::copy(bench.dir.path().join("copy.tubewell"), other.store()).unwrap();
    assert!(other.ok("verify").starts_with("sound: 20 tasks"));
    assert_eq!(contents(&other), contents(&bench));
}

#[test]
fn a_backup_that_is_killed_leaves_nothing_under_its_name() {
    let bench = Bench::with(&[]);
    let line = format!("{}\n", "x".repeat(1000));
    bench.feed("import mail", line.repeat(60_000).as_bytes()).expect(0);
    let mut command = bench.command(&["backup", "copy.tubewell"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let partial = || {
        let names = std::fs::read_dir(bench.dir.path()).unwrap();
        names.filter_map(Result::ok).any(|entry| {
            entry.file_name().to_string_lossy().ends_with(".partial")
                && entry.metadata().is_ok_and(|file| file.len() > 0)
        })
    };
    while !partial() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was seen at work");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(partial());
    assert!(!bench.dir.path().join("copy.tubewell").exists());
    // And the next one is none the worse for it.
    assert!(bench.ok("backup copy.tubewell").contains("60000 tasks"));
    let verify = run(bench.command(&["verify", "--store", "copy.tubewell"]), b"").expect(0);
    assert_eq!(verify.text(), "sound: 60000 tasks\n");
}
