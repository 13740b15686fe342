//! `backup`, and `export` with `import --all`: a store, or what can be read of it, in another file.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::served::serve;
use crate::support::{Sandbox, run};

/// A store with every driver, every state and every option, and sub-queues.
fn store_with_everything() -> Sandbox {
    let sandbox = Sandbox::with(&["one", "two"]);
    sandbox.ok("create plain --driver fifo");
    sandbox.ok("create sites --driver utube");
    sandbox.ok("create crawl --driver utubettl --ttl 1d --priority 4");
    sandbox.ok("create small --driver limfifottl --capacity 5 --ttr 30s");
    sandbox.ok("create memory --driver fifo --temporary");
    sandbox.feed("put plain -", b"\xff\0 bytes").expect(0);
    sandbox.feed("put plain -", "large ".repeat(2000).as_bytes()).expect(0);
    for n in 0..6 {
        sandbox.ok(&format!("put sites a{n} --sub-queue s{}", n % 3));
        sandbox.ok(&format!("put crawl b{n} --sub-queue s{} --priority {}", n % 2, n % 4));
    }
    sandbox.ok("put crawl unnamed --ttl never --ttr 90s");
    sandbox.ok("put small soon --delay 2h --ttl 3h --priority 1");
    sandbox.ok("put small now --ttr never");
    sandbox.ok("put mail later --delay 1d");
    sandbox.ok("bury mail 1");
    sandbox.ok("bury plain 3");
    let crawl = sandbox.json("list crawl")[1]["id"].as_u64().unwrap();
    sandbox.ok(&format!("bury crawl {crawl}"));
    // Two takes for some tasks, one for others, none for those that are not ready.
    sandbox.fails("work mail crawl --once -- false", 7);
    sandbox.fails("work crawl --once -- false", 7);
    sandbox
}

/// The tubes, and the tasks with their bodies and options. Times are in minutes, rounded up.
fn contents(sandbox: &Sandbox) -> Vec<Value> {
    let mut all = sandbox.json("tubes");
    let names: Vec<String> =
        all.iter().map(|tube| tube["tube"].as_str().unwrap().to_owned()).collect();
    for name in names {
        let mut tasks = sandbox.tasks(&format!("list {name} --all"));
        for task in &mut tasks {
            for time in ["ttl_left", "due_in"] {
                if let Some(seconds) = task[time].as_f64() {
                    // All of them are hours; a slow machine takes less than a minute.
                    task[time] = json!((seconds / 60.0).ceil());
                }
            }
        }
        all.extend(tasks);
    }
    all
}

/// The contents without the ids, which an import into a store that has had tasks does not keep.
fn contents_without_ids(sandbox: &Sandbox) -> Vec<Value> {
    let mut all = contents(sandbox);
    for object in &mut all {
        object.as_object_mut().unwrap().remove("id");
    }
    all
}

/// The bodies of all tasks of a tube in the order of takes.
fn popped(sandbox: &Sandbox, tube: &str) -> Vec<Value> {
    sandbox.ok(&format!("kick {tube} --all"));
    let mut bodies = Vec::new();
    loop {
        let done = sandbox.run(&format!("pop {tube} --json"));
        if done.status.code() == Some(3) {
            return bodies;
        }
        bodies.push(done.expect(0).objects()[0].get("data").cloned().unwrap_or(Value::Null));
    }
}

#[test]
fn import_into_a_new_store_restores_an_export() {
    let sandbox = store_with_everything();
    let exported = sandbox.ok("export all.jsonl");
    assert_eq!(exported, "exported 20 tasks of 6 tubes\n");
    let lines = std::fs::read(sandbox.dir.path().join("all.jsonl")).unwrap();
    let other = Sandbox::empty();
    let done = other.feed("import --all", &lines).expect(0);
    assert_eq!((done.text(), done.err.as_str()), ("stored 20 tasks in 6 tubes\n", ""));
    assert_eq!(contents(&other), contents(&sandbox));
    let takes: Vec<Value> =
        other.json("list crawl").iter().map(|task| task["takes"].clone()).collect();
    assert!(takes.contains(&json!(2)) && takes.contains(&json!(0)), "{takes:?}");
    let ids: Vec<u64> = ["mail", "plain", "sites", "crawl", "small"]
        .iter()
        .flat_map(|tube| other.ids(&format!("list {tube}")))
        .collect();
    let next = sandbox.json("put mail next")[0]["id"].as_u64().unwrap();
    assert_eq!(other.json("put mail next")[0]["id"], next);
    assert!(ids.len() == 20 && ids.iter().all(|id| *id < next));
    assert!(other.ok("verify").starts_with("sound"));
    for tube in ["mail", "plain", "sites", "crawl", "small"] {
        let order = popped(&sandbox, tube);
        assert!(!order.is_empty());
        assert_eq!(popped(&other, tube), order, "{tube}");
    }
}

#[test]
fn imported_task_has_the_time_of_its_put() {
    let sandbox = Sandbox::with(&["one"]);
    let lines = String::from_utf8(sandbox.run("export -").expect(0).out).unwrap();
    let mut task: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    task["id"] = json!(1);
    task["put_at"] = json!("2020-02-29T12:00:00.000001Z");
    // Earlier exports do not have the time.
    let mut early = task.clone();
    early["id"] = json!(2);
    early.as_object_mut().unwrap().remove("put_at");
    let other = Sandbox::empty();
    let all = format!("{lines}{task}\n{early}\n");
    other.feed("import --all", all.as_bytes()).expect(0);
    let listed = other.json("list mail");
    assert_eq!(listed[0]["put_at"], sandbox.json("peek mail 0")[0]["put_at"]);
    assert_eq!(listed[1]["put_at"], "2020-02-29T12:00:00.000001Z");
    let years = |task: &Value| task["age"].as_f64().unwrap() / 31_557_600.0;
    assert!(years(&listed[1]) > 6.0 && years(&listed[0]) < 1.0 && years(&listed[2]) < 1.0);

    task["put_at"] = json!("yesterday");
    let wrong = format!("{lines}{task}\n");
    let message = Sandbox::empty().feed("import --all", wrong.as_bytes()).expect(7).err;
    assert!(message.contains("line 3: put_at: write a date and a time"), "{message}");
}

#[test]
fn import_skips_buried_tasks_whose_ttl_has_elapsed() {
    let sandbox = Sandbox::with(&["sound"]);
    sandbox.ok("put mail brief --ttl 1h");
    sandbox.ok("bury mail 0 1");
    let lines = String::from_utf8(sandbox.run("export -").expect(0).out).unwrap();
    // An export after the ttl has elapsed writes this: it removes no tasks.
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
    let other = Sandbox::empty();
    let done = other.feed("import --all", lines.join("\n").as_bytes()).expect(0);
    assert_eq!(done.text(), "stored 2 tasks in 1 tube\n");
    assert_eq!(other.counts(), (0, 0, 1));
}

#[test]
fn import_restores_a_delay_without_end() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail parked --delay never --ttl 1h");
    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.run("export -").expect(0).out, lines);
    assert_eq!(other.json("peek mail 0")[0]["due_in"], json!(null));
    // A missing delay is not the same as null: it is none.
    let line = r#"{"tube":"mail","state":"ready","priority":0,"data":"x"}"#;
    other.feed("import --all", line.as_bytes()).expect(0);
    assert_eq!(other.ok("pop mail"), "x");
}

#[test]
fn import_restores_tubes_of_an_application() {
    use tubewell::TubeOptions;

    let sandbox = Sandbox::empty();
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    let forever = Duration::MAX;
    let precise = Duration::from_micros(3_155_695_212_345_671);
    // In the order of an export, so that the ids of both stores are the same.
    for (name, options) in [
        ("long", TubeOptions::new().ttl(forever).ttr(precise)),
        ("precise", TubeOptions::new().ttl(precise)),
        ("short", TubeOptions::new().ttl(Duration::from_micros(1)).priority(u32::MAX)),
    ] {
        let tube = store.create_tube(name, options.driver(tubewell::FIFOTTL)).unwrap();
        tube.put(tubewell::Put::new("x").ttl(forever)).unwrap();
    }
    store.close().unwrap();
    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    // Existing tubes with the same options are used.
    sandbox.feed("import --all", &lines).expect(0);
    let exported =
        |sandbox: &Sandbox| String::from_utf8(sandbox.run("export -").expect(0).out).unwrap();
    assert_eq!(exported(&other), String::from_utf8(lines).unwrap());
}

#[test]
fn export_with_an_untrusted_clock_keeps_ttls() {
    let sandbox = Sandbox::of_2001();
    let done = sandbox.run("export -").expect(0);
    assert_eq!(done.objects()[1]["ttl"], json!(86_400.0));
    assert!(done.err.contains("give --trust-wall-clock"), "{}", done.err);
    let done = sandbox.run("export - --trust-wall-clock").expect(0);
    assert_eq!(done.objects()[1]["ttl"], json!(0.0));
    assert!(!done.err.contains("wall clock"), "{}", done.err);
}

#[test]
fn export_to_standard_output_prints_only_lines() {
    let sandbox = Sandbox::with(&["one"]);
    let put_at = &sandbox.json("peek mail 0")[0]["put_at"];
    let done = sandbox.run("export -").expect(0);
    let objects = done.objects();
    assert_eq!(objects[0], json!({ "tube": "mail", "driver": "fifottl" }));
    assert_eq!(
        objects[1],
        json!({
            "tube": "mail", "id": 0, "state": "ready", "put_at": put_at, "priority": 100, "ttl": null,
            "ttr": null, "delay": 0.0, "sub_queue": null, "takes": 0, "data": "one",
        })
    );
    assert_eq!((objects.len(), done.err.as_str()), (2, "exported 1 task of 1 tube\n"));
    assert_eq!(sandbox.json("export x"), [json!({"tubes": 1, "tasks": 1, "lost": 0})]);
    assert!(sandbox.fails("export x", 6).contains("already exists"));
}

#[test]
fn export_reports_damaged_tasks_and_writes_the_others() {
    let sandbox = Sandbox::with(&[]);
    let lines: Vec<String> = (0..500).map(|n| format!("<task {n}>")).collect();
    sandbox.feed("import mail", lines.join("\n").as_bytes()).expect(0);
    let mut file = std::fs::read(sandbox.store()).unwrap();
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
    std::fs::write(sandbox.store(), &file).unwrap();
    let done = sandbox.run("export all.jsonl --json").expect(7);
    assert_eq!(done.objects(), [json!({"tubes": 1, "tasks": 498, "lost": 2})]);
    for id in [7, 250] {
        assert!(done.err.contains(&format!("task {id}: its record")), "{}", done.err);
    }
    assert!(done.err.contains("2 items could not be read"), "{}", done.err);
    assert!(std::fs::read(sandbox.store()).unwrap() == file, "an export only reads");
    let lines = std::fs::read(sandbox.dir.path().join("all.jsonl")).unwrap();
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    let bodies: Vec<Value> =
        other.json("list mail --all").iter().map(|t| t["data"].clone()).collect();
    let expected = (0..500).filter(|n| ![7, 250].contains(n)).map(|n| json!(format!("<task {n}>")));
    assert!(bodies.into_iter().eq(expected));
}

#[test]
fn export_of_an_unreadable_file_fails() {
    let sandbox = Sandbox::with(&["one"]);
    let mut file = std::fs::read(sandbox.store()).unwrap();
    // The header of the database, behind the journal.
    file[(1 << 20) + 20..(1 << 20) + 320].fill(0xEE);
    std::fs::write(sandbox.store(), &file).unwrap();
    let done = sandbox.run("export -");
    assert!([1, 4].contains(&done.status.code().unwrap()), "{done:?}");
    assert!(done.out.is_empty() && !done.err.contains("panicked"), "{}", done.err);
    assert!(std::fs::read(sandbox.store()).unwrap() == file);
}

#[test]
fn import_all_stops_at_a_wrong_line_and_can_go_on() {
    let sandbox = store_with_everything();
    let lines = sandbox.run("export -").expect(0).out;
    let mut lines: Vec<&str> = std::str::from_utf8(&lines).unwrap().lines().collect();
    let other = Sandbox::empty();
    let good = std::mem::replace(&mut lines[10], "{\"tube\": 5}");
    let done = other.feed("import --all --json", lines.join("\n").as_bytes()).expect(7);
    assert_eq!(done.objects()[0]["failed_line"], 11);
    assert!(done.err.contains("line 11: ") && done.err.contains("tail -n +11"), "{}", done.err);
    assert!(done.err.contains("| tubewell import --all, which gives new ids"), "{}", done.err);
    lines[10] = good;
    let done = other.feed("import --all", lines[10..].join("\n").as_bytes()).expect(0);
    assert!(done.err.contains("the imported tasks get new ids"), "{}", done.err);
    assert_eq!(contents_without_ids(&other), contents_without_ids(&sandbox));

    let different = Sandbox::with(&[]);
    let tube = r#"{"tube":"mail","driver":"fifo","ttl":null,"ttr":null,"temporary":false,"durability":"flush"}"#;
    let done = different.feed("import --all", tube.as_bytes()).expect(7);
    assert!(done.err.contains("its driver is fifottl, not fifo"), "{}", done.err);
    for words in
        ["import", "import mail --all", "import --all --format json", "import --all --priority 1"]
    {
        different.fails(words, 2);
    }
}

#[test]
fn backup_is_a_store() {
    let sandbox = store_with_everything();
    let text = sandbox.ok("backup copy.tubewell");
    assert!(text.starts_with("copied 20 tasks to copy.tubewell ("), "{text}");
    let made = sandbox.json("backup other.tubewell");
    assert_eq!((&made[0]["file"], &made[0]["tasks"]), (&json!("other.tubewell"), &json!(20)));
    assert!(made[0]["bytes"].as_u64().unwrap() > 0);
    let message = sandbox.fails("backup copy.tubewell", 6);
    assert!(message.contains("already exists") && message.contains("name a new file"), "{message}");
    let other = Sandbox::empty();
    std::fs::copy(sandbox.dir.path().join("copy.tubewell"), other.store()).unwrap();
    assert!(other.ok("verify").starts_with("sound: 20 tasks"));
    assert_eq!(contents(&other), contents(&sandbox));
}

/// An export and a backup have all bodies, as the store has.
#[cfg(unix)]
#[test]
fn exports_and_backups_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with(&["one"]);
    sandbox.ok("export all.jsonl");
    sandbox.ok("backup copy.tubewell");
    for name in ["all.jsonl", "copy.tubewell"] {
        let mode = sandbox.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}: {mode:o}");
    }
}

/// Regression: `backup` and `verify` left out the tasks that are done, and the schedules, and counted what is in memory only.
#[test]
fn tasks_are_counted_alike_by_backup_export_verify_import_and_drop() {
    let sandbox = Sandbox::with_jobs("--keep-done age=1d", &["ready", "done", "buried"]);
    sandbox.ok("resolve jobs 1");
    sandbox.ok("bury jobs 2");
    sandbox.ok("schedule jobs daily x --every 1d"); // and its first run
    sandbox.ok("create memory --driver fifo --temporary");
    let (mut owner, _) = serve(&sandbox, "");
    sandbox.ok("put memory gone");
    for served in [true, false] {
        if !served {
            owner.signal(Signal::TERM);
            assert_eq!(owner.ends(), 0);
        }
        let name = format!("{served}");
        let copied = sandbox.ok(&format!("backup {name}.copy"));
        assert!(copied.starts_with("copied 5 tasks to "), "{copied}");
        assert_eq!(sandbox.ok(&format!("export {name}.jsonl")), "exported 5 tasks of 2 tubes\n");
        assert_eq!(sandbox.ok("verify"), "sound: 5 tasks\n");
    }
    let copied = sandbox.json("backup json.copy").remove(0);
    let exported = sandbox.json("export json.jsonl").remove(0);
    let verified = sandbox.json("verify").remove(0);
    for answer in [copied, exported, verified] {
        assert_eq!(answer["tasks"], json!(5), "{answer}");
    }
    let other = Sandbox::empty();
    let lines = std::fs::read(sandbox.path("true.jsonl")).unwrap();
    assert_eq!(other.feed("import --all", &lines).expect(0).text(), "stored 5 tasks in 2 tubes\n");
    assert_eq!(other.ok("drop jobs"), "dropped tube jobs with 5 tasks\n");
    assert_eq!(sandbox.ok("truncate jobs"), "removed 5 tasks from jobs\n");
}

#[test]
fn killed_backup_leaves_no_file_of_its_name() {
    let sandbox = Sandbox::with(&[]);
    let line = format!("{}\n", "x".repeat(1000));
    sandbox.feed("import mail", line.repeat(60_000).as_bytes()).expect(0);
    let mut command = sandbox.command(&["backup", "copy.tubewell"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let partial = || {
        let names = std::fs::read_dir(sandbox.dir.path()).unwrap();
        names.filter_map(Result::ok).any(|entry| {
            entry.file_name().to_string_lossy().ends_with(".partial")
                && entry.metadata().is_ok_and(|file| file.len() > 0)
        })
    };
    while !partial() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before a .partial file was seen");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(partial());
    assert!(!sandbox.dir.path().join("copy.tubewell").exists());
    // The next backup succeeds.
    assert!(sandbox.ok("backup copy.tubewell").contains("60000 tasks"));
    let verify = run(sandbox.command(&["verify", "--store", "copy.tubewell"]), b"").expect(0);
    assert_eq!(verify.text(), "sound: 60000 tasks\n");
}

#[test]
fn import_into_a_used_store_gives_new_ids_and_keeps_takes() {
    let sandbox = Sandbox::with(&["one", "two"]);
    sandbox.fails("work mail --once -- false", 7);
    sandbox.ok("bury mail 1");
    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::with(&["removed"]);
    other.ok("pop mail");
    let done = other.feed("import --all", &lines).expect(0);
    let note = "the store is not new, so the imported tasks get new ids\n";
    assert_eq!((done.text(), done.err.as_str()), ("stored 2 tasks in 1 tube\n", note));
    let tasks: Vec<Value> = other
        .json("list mail")
        .iter()
        .map(|task| json!([task["id"], task["state"], task["takes"], task["data"]]))
        .collect();
    assert_eq!(tasks, [json!([1, "ready", 1, "one"]), json!([2, "buried", 1, "two"])]);
    assert!(other.ok("verify").starts_with("sound"));
}

#[test]
fn import_into_a_new_store_refuses_an_id_twice() {
    let sandbox = Sandbox::with(&["one", "two"]);
    let lines = sandbox.run("export -").expect(0).out;
    let lines = String::from_utf8(lines).unwrap();
    let other = Sandbox::empty();
    let twice = format!("{lines}{lines}");
    let done = other.feed("import --all --json", twice.as_bytes()).expect(7);
    assert_eq!(done.objects(), [json!({"tubes": 2, "stored": 2, "failed_line": 5})]);
    assert!(done.err.contains("line 5: id 0 cannot be restored"), "{}", done.err);
    assert_eq!(other.ids("list mail"), [0, 1]);
    // Ids that a store does not know, and tasks without one, get the next ones.
    let line = r#"{"tube":"mail","state":"ready","priority":100,"delay":0,"data":"x"}"#;
    other.feed("import --all", line.as_bytes()).expect(0);
    assert_eq!(other.ids("list mail"), [0, 1, 2]);
}

#[test]
fn import_keeps_ids_of_tubes_that_interleave() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other");
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    let (mail, other) = (store.find_tube("mail").unwrap(), store.find_tube("other").unwrap());
    for n in 0..3000 {
        let tube = if n % 3 == 0 { &other } else { &mail };
        drop(tube.to_async().put(format!("task {n}")));
    }
    for id in (0..3000).step_by(7) {
        let tube = if id % 3 == 0 { &other } else { &mail };
        tube.delete(id).unwrap();
    }
    drop((mail, other));
    store.close().unwrap();
    let lines = sandbox.run("export -").expect(0).out;
    let copy = Sandbox::empty();
    copy.feed("import --all", &lines).expect(0);
    assert_eq!(copy.run("export -").expect(0).out, lines);
    for tube in ["mail", "other"] {
        let all = format!("list {tube} --all");
        assert_eq!(copy.ids(&all), sandbox.ids(&all));
    }
    assert!(copy.ok("verify").starts_with("sound: 2571 tasks"));
    // 2,999 was the last id that was given.
    assert_eq!(copy.json("put mail next")[0]["id"], 3000);
}
