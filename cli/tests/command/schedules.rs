//! `schedule`, `reschedule`, `unschedule`, `schedules`, and the way of schedules through `export`,
//! `import` and `backup`.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Running, Sandbox, run, within_deadline};

/// The schedules of all tubes, as `--json` prints them.
fn schedules(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.json("schedules")
}

/// Runs words of which some have spaces.
fn ok(sandbox: &Sandbox, words: &[&str]) -> String {
    run(sandbox.command(words), b"").expect(0).text().to_owned()
}

#[test]
fn schedule_puts_its_first_run_and_is_listed() {
    let sandbox = Sandbox::with(&[]);
    assert_eq!(sandbox.ok("schedules"), "no schedules\n");
    let put = sandbox.ok("schedule mail report hello --every 1d --priority 3 --max-attempts 2");
    assert_eq!(put, "stored schedule report of mail\n");
    let run = sandbox.json("find report-1").remove(0);
    assert_eq!(
        (&run["data"], &run["priority"], &run["attempts_left"]),
        (&json!("hello"), &json!(3), &json!(2))
    );
    assert_eq!(run["spawned_by"]["schedule"], 0);
    assert_eq!(run["spawned_by"]["run"], 1);
    let listed = schedules(&sandbox).remove(0);
    assert_eq!(listed["schedule"], "report");
    assert_eq!((&listed["tube"], &listed["id"]), (&json!("mail"), &json!(0)));
    assert_eq!((&listed["every"], &listed["runs"]), (&json!(86_400.0), &json!(1)));
    assert_eq!((&listed["missed"], &listed["overlap"]), (&json!("1"), &json!("allow")));
    let table = sandbox.ok("schedules mail");
    assert!(table.starts_with("KEY") && table.contains("every 1d"), "{table}");
    assert_eq!(sandbox.json("stats mail")[0]["recurring"], 1);
    assert_eq!(sandbox.ids("list mail"), [1], "a schedule is not in the list");
    assert_eq!(sandbox.ids("list mail --state recurring"), [0]);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn schedule_is_changed_and_removed() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other");
    sandbox.ok("schedule mail report hello --every 1d --starting 2100-01-01T00:00:00Z");
    assert_eq!(schedules(&sandbox)[0]["next"], "2100-01-01T00:00:00Z");
    let changed =
        "reschedule other report --every 2h --times 7 --within 1h --body new --missed all";
    assert_eq!(sandbox.ok(changed), "changed schedule report of other\n");
    let listed = schedules(&sandbox).remove(0);
    assert_eq!((&listed["tube"], &listed["every"]), (&json!("other"), &json!(7200.0)));
    assert_eq!((&listed["times"], &listed["within"]), (&json!(7), &json!(3600.0)));
    assert_eq!(listed["missed"], "all");
    sandbox.ok("reschedule other report --times none --within none --overlap skip");
    let listed = schedules(&sandbox).remove(0);
    assert_eq!((&listed["times"], &listed["within"]), (&Value::Null, &Value::Null));
    assert_eq!(listed["overlap"], "skip");
    assert_eq!(sandbox.ok("unschedule report"), "removed schedule report of other\n");
    assert!(schedules(&sandbox).is_empty());
    for words in ["unschedule report", "reschedule mail report --every 1h"] {
        assert!(sandbox.fails(words, 3).contains("no schedule has the key \"report\""));
    }
    sandbox.ok("put mail x --key plain");
    sandbox.fails("unschedule plain", 6);
    sandbox.fails("schedule mail plain x --every 1h", 6);
}

/// The task of further runs is changed as a whole.
#[test]
fn options_of_runs_that_are_not_named_stay() {
    let sandbox = Sandbox::with(&[]);
    let options = "--ttl 2h --ttr 1m --delay 1s --max-attempts 3 --tag b --tag a --priority 7";
    sandbox.ok(&format!("schedule mail report hello --every 1d {options}"));
    let mut expected = schedules(&sandbox).remove(0);
    sandbox.ok("reschedule mail report --priority 5");
    expected["priority"] = json!(5);
    sandbox.ok("reschedule mail report --body longer");
    assert_eq!(sandbox.json("peek mail 0")[0]["data"], "longer");
    sandbox.ok("reschedule mail report --max-attempts 2 --times 9");
    (expected["max_attempts"], expected["times"]) = (json!(2), json!(9));
    let mut stored = schedules(&sandbox).remove(0);
    for value in [&mut stored, &mut expected] {
        value["due_in"] = Value::Null;
    }
    assert_eq!(stored, expected);
    sandbox.ok("put mail x --key plain");
    assert!(sandbox.fails("reschedule mail plain --body x", 6).contains("it is no schedule"));
    assert!(sandbox.fails("reschedule mail gone --body x", 3).contains("no schedule has the key"));
    // From one tube to another one, unless a part of the change is refused.
    sandbox.ok("create other");
    let before = schedules(&sandbox);
    for refused in ["--every 0s", "--times 1", "--cron 61", "--cron @daily --zone Europe/Atlantis"]
    {
        sandbox.fails(&format!("reschedule other report --body x {refused}"), 2);
    }
    assert_eq!(schedules(&sandbox)[0]["tube"], before[0]["tube"]);
    assert_eq!(sandbox.json("peek mail 0")[0]["data"], "longer");
    sandbox.ok("reschedule other report --tag c");
    let moved = schedules(&sandbox).remove(0);
    assert_eq!((&moved["tube"], &moved["tags"]), (&json!("other"), &json!(["c"])));
    assert_eq!(sandbox.json("peek other 0")[0]["data"], "longer");
}

#[test]
fn tags_of_a_schedule_are_those_of_its_runs() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("schedule mail report hello --every 1d --tag b --tag a --tag b");
    assert_eq!(schedules(&sandbox)[0]["tags"], json!(["b", "a"]));
    assert_eq!(sandbox.json("find report-1")[0]["tags"], json!(["b", "a"]));
    assert_eq!(sandbox.ids("tagged a"), [1], "the schedule is not found by them");
    sandbox.ok("reschedule mail report --body new");
    assert_eq!(schedules(&sandbox)[0]["tags"], json!(["b", "a"]));
    sandbox.ok("reschedule mail report --tag c --starting 2100-01-01T00:00:00Z");
    assert_eq!(schedules(&sandbox)[0]["tags"], json!(["c"]));
    assert_eq!(sandbox.json("find report-1")[0]["tags"], json!(["b", "a"]));
    sandbox.fails("add-tags mail 0 d", 6);
    sandbox.fails("reschedule mail report --tag=", 2);
    sandbox.fails("schedule mail other x --every 1d --tag=", 2);
    assert_eq!(schedules(&sandbox).len(), 1);
    assert_eq!(schedules(&sandbox)[0]["tags"], json!(["c"]));
    sandbox.fails("reschedule mail report --no-tags --tag d", 2);
    sandbox.ok("reschedule mail report --no-tags");
    assert!(schedules(&sandbox)[0].get("tags").is_none());
    sandbox.ok("reschedule mail report --tag c");
    sandbox.ok("schedule mail report hello --every 1d");
    assert!(schedules(&sandbox)[0].get("tags").is_none());
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn wrong_schedules_are_refused() {
    let sandbox = Sandbox::with(&[]);
    assert!(sandbox.fails("schedule mail k x", 2).contains("when its runs are"));
    for words in [
        "schedule mail k x --every 0",
        "schedule mail k x --every 1h --times 0",
        "schedule mail k x --every 1h --missed 0",
        "schedule mail k x --every 1h --missed some",
        "schedule mail k x --every 1h --overlap maybe",
        "schedule mail k x --every 1h --cron 1",
        "schedule mail k x --cron 1",
        "schedule mail k x --every 1h --zone UTC",
        "schedule mail k",
        "reschedule mail k --times 0",
    ] {
        sandbox.fails(words, 2);
    }
    let zone = ["schedule", "mail", "k", "x", "--cron", "0 9 * * *", "--zone", "Nowhere/At-All"];
    let unknown = run(sandbox.command(&zone), b"").expect(2);
    assert!(unknown.err.contains("Nowhere/At-All"), "{}", unknown.err);
    assert!(schedules(&sandbox).is_empty());
}

#[test]
fn cron_expression_is_stored_with_its_zone() {
    let sandbox = Sandbox::with(&[]);
    ok(&sandbox, &["schedule", "mail", "news", "to: bob", "--cron", "0 9 1 1 *"]);
    let listed = schedules(&sandbox).remove(0);
    assert_eq!((&listed["cron"], &listed["zone"]), (&json!("0 9 1 1 *"), &json!("UTC")));
    assert!(listed["next"].as_str().unwrap().ends_with("-01-01T09:00:00Z"), "{listed}");
    assert!(sandbox.ok("schedules").contains("cron 0 9 1 1 * in UTC"));
    ok(&sandbox, &["reschedule", "mail", "news", "--cron", "30 9 1 1 *", "--zone", "UTC"]);
    let listed = schedules(&sandbox).remove(0);
    assert!(listed["next"].as_str().unwrap().ends_with("-01-01T09:30:00Z"), "{listed}");
    assert!(sandbox.ok("verify").starts_with("sound"));
}

/// What an import keeps of schedules.
fn without_ids(sandbox: &Sandbox) -> Vec<Value> {
    let mut found = schedules(sandbox);
    for schedule in &mut found {
        for field in ["id", "last"] {
            schedule.as_object_mut().unwrap().remove(field);
        }
    }
    found
}

#[test]
fn exported_schedules_are_imported() {
    let sandbox = Sandbox::with(&["first"]);
    sandbox.ok("create plain --driver fifo");
    let full = "schedule mail full body --every 1.5h --times 9 --missed 3 --within 2h \
                --overlap skip --priority 4 --ttl 1h --ttr never --delay 1s --max-attempts 6 \
                --tag b --tag a";
    sandbox.ok(full);
    sandbox.ok("schedule plain bare x --every 1d --starting 2100-01-01T00:00:00Z");
    ok(&sandbox, &["schedule", "plain", "cron", "\n", "--cron", "0 9 1 1 *"]);
    sandbox.ok("put mail last");
    let exported = sandbox.run("export -").expect(0).out;
    let text = String::from_utf8(exported.clone()).unwrap();
    assert_eq!(text.matches("\"schedule\":\"").count(), 3, "{text}");

    let copy = Sandbox::empty();
    copy.feed("import --all", &exported).expect(0);
    assert_eq!(without_ids(&copy), without_ids(&sandbox));
    let ids = |sandbox: &Sandbox| -> Vec<Value> {
        schedules(sandbox).iter().map(|schedule| schedule["id"].clone()).collect()
    };
    assert_eq!(ids(&copy), ids(&sandbox));
    assert_eq!(without_ids(&copy)[0]["tags"], json!(["b", "a"]));
    let run = |sandbox: &Sandbox| sandbox.json("find full-1")[0]["spawned_by"].clone();
    let tagged = |sandbox: &Sandbox| {
        let found = sandbox.json("tagged a");
        found.into_iter().map(|run| json!([run["key"], run["tags"]])).collect::<Vec<_>>()
    };
    assert_eq!((tagged(&copy), tagged(&sandbox).len()), (tagged(&sandbox), 1));
    assert_eq!(run(&copy), run(&sandbox));
    assert_eq!(copy.ok("find full-1 --body"), "body");
    assert!(copy.ok("verify").starts_with("sound"));

    // A store that is in use gives them new ids; their keys are refused where they are in use.
    let other = Sandbox::with(&["its own"]);
    other.feed("import --all", &exported).expect(0);
    assert_eq!(without_ids(&other), without_ids(&sandbox));
    assert_eq!(run(&other)["schedule"], other.json("find full")[0]["id"]);
    let again = other.feed("import --all", &exported).expect(7);
    assert!(again.err.contains("schedule \"full\""), "{}", again.err);
    assert!(other.ok("verify").starts_with("sound"));
}

#[test]
fn import_refuses_wrong_lines_of_schedules() {
    let sandbox = Sandbox::with(&[]);
    let line = |fields: &str| {
        format!(
            r#"{{"schedule":"k","tube":"mail","next":"2100-01-01T00:00:00Z","data":"x"{fields}}}"#
        )
    };
    for (fields, why) in [
        ("", "either every, or cron and zone"),
        (r#","every":0"#, "at least a millisecond"),
        (r#","every":60,"cron":"* * * * *""#, "either every, or cron and zone"),
        (r#","every":60,"missed":"some""#, "missed: "),
        (r#","every":60,"overlap":"some""#, "overlap: "),
        (r#","every":60,"more":1"#, "unknown field"),
        (r#","every":60,"stopped":"x""#, "unknown field"),
    ] {
        let ended = sandbox.feed("import --all", line(fields).as_bytes()).expect(7);
        assert!(ended.err.contains(why) && ended.err.contains("line 1"), "{}", ended.err);
    }
    sandbox.feed("import --all", line(r#","every":60"#).as_bytes()).expect(0);
    assert_eq!(schedules(&sandbox)[0]["every"], 60.0);
}

#[test]
fn backup_has_the_schedules() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("schedule mail report hello --every 1d");
    sandbox.ok("backup copy.tubewell");
    let before = schedules(&sandbox);
    std::fs::rename(sandbox.path("copy.tubewell"), sandbox.store()).unwrap();
    assert_eq!(schedules(&sandbox), before);
    sandbox.ok("compact");
    assert_eq!(schedules(&sandbox), before);
}

const MINUTE: Duration = Duration::from_secs(60);

/// A store that was closed for three weeks, whose schedule makes up for all runs, one each `every`.
pub fn closed_for_weeks(every: Duration) -> Sandbox {
    let now = tubewell::Store::in_memory().unwrap().admin().clock_report().unwrap().wall;
    let then = now.checked_sub(MINUTE * (60 * 24 * 21 + 30)).unwrap();
    let (sandbox, clock) = (Sandbox::at(then), tubewell::ManualClock::at(then));
    let store = tubewell::Store::options().clock(&clock).open(sandbox.store()).unwrap();
    let tube = store.find_tube("mail").unwrap();
    let schedule = tubewell::Schedule::every("report", every).missed(tubewell::Missed::All);
    tube.schedule(schedule, "run").unwrap();
    drop(tube);
    store.close().unwrap();
    sandbox
}

/// As the first command after weeks.
#[test]
fn commands_that_stop_or_change_a_schedule_act_before_its_missed_runs_are_put() {
    for (command, runs) in [
        ("unschedule report", 0),
        ("truncate mail", 0),
        ("cancel mail 1", 0),
        ("delete mail 1", 0),
        ("reschedule mail report --missed 2", 2),
        ("reschedule mail report --missed skip", 0),
        ("schedule mail report run --every 1h --missed 1", 1),
    ] {
        let sandbox = closed_for_weeks(MINUTE * 60);
        sandbox.ok(command);
        assert_eq!(sandbox.json("stats mail")[0]["ready"], runs, "{command}");
    }
    let sandbox = closed_for_weeks(MINUTE * 60);
    sandbox.ok("drop mail");
    assert_eq!(sandbox.ok("tubes").lines().count(), 1);
    // These leave the runs to the next command.
    for command in ["pause mail", "alter mail --max-taken 1", "set-limit host 2"] {
        let sandbox = closed_for_weeks(MINUTE * 60);
        sandbox.ok(command);
        let copy = sandbox.ok("export -");
        assert!(!copy.contains("report-1"), "{command}: {copy}");
        let ready = sandbox.json("stats mail")[0]["ready"].as_u64().unwrap();
        assert!(ready > 500, "{command}: {ready}");
    }
}

/// A run each millisecond: a catch-up would take hours.
#[test]
fn catch_up_of_a_command_ends_on_a_signal_and_unschedule_is_not_kept_by_it() {
    let sandbox = closed_for_weeks(Duration::from_millis(1));
    let length = |sandbox: &Sandbox| std::fs::metadata(sandbox.store()).unwrap().len();
    for signal in [Signal::INT, Signal::TERM] {
        let before = length(&sandbox);
        let mut stats = Running::start(sandbox.command(&["stats"]));
        let path = sandbox.store();
        within_deadline("the first runs", move || {
            while std::fs::metadata(&path).unwrap().len() <= before {
                std::thread::yield_now();
            }
        });
        stats.signal(signal);
        assert_eq!(stats.ends(), -signal.as_raw());
    }
    sandbox.ok("unschedule report");
    assert_eq!(sandbox.ok("schedules"), "no schedules\n");
    // What was put before the signals is there, each run once.
    let put = sandbox.json("stats mail")[0]["ready"].as_u64().unwrap();
    assert!(put > 0);
    assert_eq!(sandbox.ids(&format!("find report-{put}")).len(), 1);
    sandbox.ok("verify");
}
