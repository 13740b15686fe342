//! `list`: pages, states, order and bodies.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use tubewell::expert::Restore;
use tubewell::{Put, TubeOptions};

use crate::support::{Sandbox, columns_of};

#[test]
fn list_prints_pages_by_state() {
    let bodies: Vec<String> = (0..1200).map(|n| format!("task {n}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let sandbox = Sandbox::with(&bodies);
    sandbox.ok("bury mail 3 4");
    let first = sandbox.run("list mail").expect(0);
    assert_eq!(first.text().lines().count(), 101);
    let note = "100 of 1200 tasks; for the next ones give --skip 100, for all --all\n";
    assert_eq!(first.err, note);
    assert_eq!(sandbox.ids("list mail --skip 2 --limit 3"), [2, 5, 6]);
    assert_eq!(sandbox.ids("list mail --state buried"), [3, 4]);
    assert_eq!(sandbox.ids("list mail --state buried,ready --skip 1197"), [1199, 3, 4]);
    assert_eq!(sandbox.ids("list mail --all").len(), 1200);
    assert!(sandbox.ok("list mail --state delayed").contains("no tasks"));
    assert!(sandbox.ok("list mail --skip 5000").contains("there are 1200"));
    // A body is one line of a table.
    sandbox.feed("put mail -", b"\x1b[31mred\nlines").expect(0);
    assert!(sandbox.ok("list mail --skip 1198 --limit 1").contains(" [31mred lines"));
}

#[test]
fn list_with_bodies_prints_whole_bodies() {
    let long = "long body ".repeat(50);
    let sandbox = Sandbox::with(&["first"]);
    sandbox.feed("put mail -", format!("{long}\nsecond line\n").as_bytes()).expect(0);
    sandbox.feed("put mail -", b"\xff\0 bytes").expect(0);
    sandbox.ok("put mail last --priority 107");
    // The ages go on.
    let without_ages = |shown: &[u8]| -> Vec<u8> {
        let is_age = |line: &&[u8]| line.starts_with(b"put       ") && line.ends_with(b" ago\n");
        let lines = shown.split_inclusive(|byte| *byte == b'\n');
        lines.filter(|line| !is_age(line)).flatten().copied().collect()
    };
    let shown = without_ages(&sandbox.run("list mail --bodies").expect(0).out);
    let block = |id: u64, priority: u64, size: &str, body: &[u8]| {
        let head = format!(
            "task      {id}\nstate     ready\npriority  {priority}\ntaken     0 times\nsize      {size}\n\n"
        );
        [head.as_bytes(), body].concat()
    };
    let expected = [
        block(0, 100, "5 B", b"first\n"),
        block(1, 100, "513 B", format!("{long}\nsecond line\n").as_bytes()),
        block(2, 100, "8 B", b"\\xff\\u{0} bytes\n"),
        block(3, 107, "4 B", b"last\n"),
    ];
    assert_eq!(shown, expected.join(&b'\n'), "{}", String::from_utf8_lossy(&shown));
    let page = sandbox.run("list mail --bodies --skip 1 --limit 1").expect(0);
    assert_eq!(without_ages(&page.out), expected[1]);
    assert!(page.err.contains("give --skip 2"), "{}", page.err);

    // JSON has whole bodies with or without the option.
    let tasks = sandbox.tasks("list mail --bodies");
    assert_eq!(tasks, sandbox.tasks("list mail"));
    assert_eq!(tasks[1]["data"], json!(format!("{long}\nsecond line\n")));
    assert_eq!(tasks[2]["data_base64"], "/wAgYnl0ZXM=");
    assert_eq!(sandbox.ok("list mail --state buried --bodies"), "no tasks\n");
}

#[test]
fn list_shows_how_long_ago_tasks_were_put() {
    let sandbox = Sandbox::empty();
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    let mail = store.create_tube("mail", TubeOptions::new().driver(tubewell::FIFO)).unwrap();
    let now = store.admin().clock_report().unwrap().wall;
    let restore = |age: u64| {
        let put_at = UNIX_EPOCH + now.saturating_sub(Duration::from_secs(age));
        Restore::new(Put::new("x").tag("t")).put_at(put_at)
    };
    mail.admin().restore_many([restore(200_000), restore(7300)]).unwrap();
    drop(mail);
    store.close().unwrap();
    for (words, column) in [("list mail", 2), ("tagged t", 3)] {
        let table = sandbox.ok(words);
        let columns = columns_of(&table);
        let ages = columns.iter().map(|row| row[column]);
        assert_eq!(ages.collect::<Vec<_>>(), ["AGE", "2d7h", "2h1m"], "{table}");
        let tasks = sandbox.json(words);
        let ages = tasks.iter().map(|task| task["age"].as_f64().unwrap());
        assert!(ages.zip([200_000.0, 7300.0]).all(|(age, old)| (old..old + 60.0).contains(&age)));
    }
    let peeked = sandbox.ok("peek mail 0");
    assert!(peeked.contains("Z, 2d7h ago\n"), "{peeked}");
}

#[test]
fn list_of_delayed_tasks_is_by_due_time() {
    let sandbox = Sandbox::with(&["ready"]);
    // The urgent ones are due last.
    for (hours, priority) in [("3h", 1), ("1h", 9), ("never", 0), ("2h", 5), ("1h", 1)] {
        sandbox.ok(&format!("put mail x --delay {hours} --priority {priority}"));
    }
    assert_eq!(sandbox.ids("list mail --state delayed"), [2, 5, 4, 1, 3]);
    assert_eq!(sandbox.ids("list mail --state delayed --limit 2"), [2, 5]);
    assert_eq!(sandbox.ids("list mail --state delayed --skip 1 --limit 2"), [5, 4]);
    assert_eq!(sandbox.ids("list mail --state delayed --skip 3 --all"), [1, 3]);
    assert_eq!(sandbox.ids("list mail --state delayed --limit 0"), [0_u64; 0]);
    let page = sandbox.run("list mail --state delayed --skip 1 --limit 1").expect(0);
    assert!(page.text().contains("ready in 59m") || page.text().contains("ready in 1h"));
    assert!(page.err.contains("1 of 5 tasks; for the next ones give --skip 2"), "{}", page.err);
    assert!(sandbox.ok("list mail --state delayed --skip 9").contains("there are 5"));
    // With other states they are by priority, then by age.
    assert_eq!(sandbox.ids("list mail"), [0, 3, 1, 5, 4, 2]);
    assert_eq!(sandbox.ids("list mail --state delayed,buried"), [3, 1, 5, 4, 2]);
}

#[test]
fn list_of_many_delayed_tasks_is_by_due_time() {
    let sandbox = Sandbox::with(&[]);
    // More than one page of the library, the last put due first.
    let lines: Vec<String> = (0..12_000_u64)
        .map(|n| json!({"data": n.to_string(), "delay": 90_000 - n}).to_string())
        .collect();
    sandbox.feed("import mail --format json", lines.join("\n").as_bytes()).expect(0);
    let ids = sandbox.ids("list mail --state delayed --all");
    assert!(ids.iter().copied().eq((0..12_000).rev()), "{:?}", &ids[..20]);
    assert_eq!(sandbox.ids("list mail --state delayed --limit 3"), [11_999, 11_998, 11_997]);
}

#[test]
fn list_prints_all_tasks_but_those_with_damaged_records() {
    let sandbox = Sandbox::with(&["<task 0>", "<task 1>", "<task 2>", "<task 3>"]);
    sandbox.damage("<task 2>");
    let done = sandbox.run("list mail --json").expect(1);
    let ids: Vec<_> = done.objects().iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, [0, 1, 3]);
    let done = sandbox.run("list mail").expect(1);
    assert!(done.text().contains("<task 3>"), "{}", done.text());
    assert!(done.err.contains("1 record of mail cannot be read"), "{}", done.err);
    assert!(done.err.contains("`tubewell verify`") && !done.err.contains("--skip"), "{}", done.err);
}

/// An empty column says nothing, and takes the space of the body.
#[test]
fn list_has_the_columns_that_have_content() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --driver utubettl");
    sandbox.ok("put mail ann");
    let head = |list: &str| -> Vec<String> {
        let shown = sandbox.ok(list);
        shown.lines().next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let plain = ["ID", "STATE", "AGE", "PRI", "TAKES", "ATTEMPTS", "SIZE", "BODY"];
    assert_eq!(head("list mail"), plain);
    sandbox.ok("put mail bob --key k7 --tag letter --sub-queue host");
    let more = [
        "ID",
        "STATE",
        "AGE",
        "PRI",
        "TAKES",
        "ATTEMPTS",
        "SIZE",
        "KEY",
        "TAGS",
        "SUB-QUEUE",
        "BODY",
    ];
    assert_eq!(head("list mail"), more);
    sandbox.ok("claim mail 0 --for 1h");
    let taken = sandbox.ok("list mail --state taken");
    assert!(taken.contains("OWNER") && taken.contains("(parked)"), "{taken}");
    let owners = sandbox.json("list mail --state taken");
    assert!(owners[0]["owner"].as_str().is_some_and(|id| taken.contains(&id[..8])), "{owners:?}");
    assert!(!taken.contains("KEY"), "{taken}");
}

#[test]
fn list_shows_its_head_again_with_a_column_that_later_tasks_need() {
    let bodies: Vec<String> = (0..600).map(|n| format!("task {n}")).collect();
    let sandbox = Sandbox::with(&bodies.iter().map(String::as_str).collect::<Vec<_>>());
    sandbox.ok("put mail last --key k7");
    let shown = sandbox.ok("list mail --all");
    let heads: Vec<&str> =
        shown.lines().filter(|line| line.trim_start().starts_with("ID ")).collect();
    assert_eq!(heads.len(), 2, "{heads:?}");
    assert!(!heads[0].contains("KEY") && heads[1].contains("KEY"), "{heads:?}");
}

#[test]
fn rows_of_a_long_list_begin_below_their_head() {
    let bodies: Vec<String> = (0..1100).map(|n| format!("task {n}")).collect();
    let sandbox = Sandbox::with(&bodies.iter().map(String::as_str).collect::<Vec<_>>());
    for command in ["list mail --all", "list --all-tubes --all"] {
        let (mut state, mut rows) = (0, 0);
        for line in sandbox.ok(command).lines() {
            if line.trim_start().starts_with("ID ") {
                state = line.find("STATE").unwrap();
            } else {
                assert!(line[state..].starts_with("ready "), "{line}");
                rows += 1;
            }
        }
        assert_eq!(rows, 1100, "{command}");
    }
}

#[test]
fn list_of_all_tubes_has_the_tasks_of_one_tube_after_the_other() {
    let sandbox = Sandbox::with(&["0", "1", "2"]);
    for name in ["a", "z"] {
        sandbox.ok(&format!("create {name}"));
        sandbox.ok(&format!("put {name} of-{name} --tag t"));
    }
    sandbox.ok("put a late --delay 1h");
    let token = sandbox.claim("mail");
    sandbox.ok(&format!("bury {token} --group dns"));
    assert_eq!(sandbox.ids("list --all-tubes"), [3, 1, 2, 4, 5, 0]);
    assert_eq!(sandbox.ids("list --all-tubes --state ready"), [3, 1, 2, 4]);
    assert_eq!(sandbox.ids("list --all-tubes --state ready --newest-first"), [4, 2, 1, 3]);
    assert_eq!(sandbox.ids("list --all-tubes --group dns"), [0]);
    assert_eq!(sandbox.ids("list --all-tubes --tag t"), [3, 4]);
    assert_eq!(sandbox.ids("list --all-tubes --skip 1 --limit 2"), [1, 2]);
    assert_eq!(sandbox.ids("list --all-tubes --state delayed"), [5]);
    assert_eq!(sandbox.tasks("list --all-tubes --tag t --limit 1"), sandbox.tasks("peek a 3"));
    let table = sandbox.ok("list --all-tubes");
    let columns = columns_of(&table);
    assert_eq!(columns[0][..3], ["ID", "TUBE", "STATE"]);
    assert_eq!(columns[1][..3], ["3", "a", "ready"]);
    assert!(sandbox.ok("list --all-tubes --group dns --bodies").starts_with("tube      mail\n"));
    let more = sandbox.run("list --all-tubes --limit 2").expect(0);
    assert!(more.err.contains("give --skip 2"), "{}", more.err);
    assert_eq!(sandbox.ok("list --all-tubes --group unknown"), "no tasks\n");
    assert_eq!(sandbox.ok("list --all-tubes --skip 9"), "no more tasks\n");
    sandbox.fails("list", 2);
    sandbox.fails("list mail --all-tubes", 2);
    sandbox.fails("list --all-tubes --soonest-first", 2);
}

#[test]
fn stats_show_schedules_and_pauses_where_there_are_some() {
    let sandbox = Sandbox::with(&["first"]);
    assert!(!sandbox.ok("stats").contains("SCHEDULES"));
    sandbox.ok("schedule mail hourly report --every 1h");
    sandbox.ok("pause mail --for 1h");
    let shown = sandbox.ok("stats");
    assert!(shown.contains("SCHEDULES") && shown.contains("paused for 59m"), "{shown}");
    let counts = sandbox.json("stats").remove(0);
    assert_eq!(counts["paused"], true);
    assert!((3500.0..=3600.0).contains(&counts["resumes_in"].as_f64().unwrap()), "{counts}");
}
