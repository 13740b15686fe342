//! `--metrics` and `days`.

use serde_json::{Value, json};

use crate::support::Sandbox;

const NUMBERS: [&str; 7] = ["puts", "takes", "acks", "failures", "failed", "lost", "retried"];

fn numbers(day: &Value) -> [u64; 7] {
    NUMBERS.map(|name| day[name].as_u64().unwrap())
}

/// The sum of the numbers of all days: a test may run over midnight.
fn total(sandbox: &Sandbox) -> [u64; 7] {
    let days = sandbox.json("days mail");
    let mut total = [0; 7];
    for day in &days {
        assert_eq!(day["tube"], "mail");
        for (sum, number) in total.iter_mut().zip(numbers(day)) {
            *sum += number;
        }
    }
    total
}

fn with_mail() -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --metrics 30 --max-attempts 1");
    sandbox
}

#[test]
fn days_shows_what_happened_over_several_runs() {
    let sandbox = with_mail();
    assert_eq!(sandbox.ok("days mail"), "nothing was counted in the last 30 days\n");
    assert!(sandbox.json("days mail").is_empty());
    for body in ["a", "b", "c"] {
        sandbox.ok(&format!("put mail {body}"));
    }
    sandbox.ok("pop mail");
    let token = sandbox.ok("claim mail").lines().next().unwrap().to_owned();
    sandbox.ok(&format!("fail {token} --group timeout"));
    assert_eq!(total(&sandbox), [3, 2, 1, 1, 1, 0, 0]);
    sandbox.ok("kick mail --all");
    assert_eq!(total(&sandbox), [3, 2, 1, 1, 0, 0, 0]);

    let day = &sandbox.json("days mail")[0];
    let date = day["date"].as_str().unwrap();
    assert_eq!(date.len(), "2026-11-23".len());
    for name in ["count", "mean", "std", "max", "p50", "p90", "p99", "bins"] {
        assert!(!day["wait"][name].is_null() && !day["run"][name].is_null(), "{day}");
    }
    let table = sandbox.ok("days mail --last 7");
    assert!(table.starts_with("DAY") && table.contains(date) && table.contains("####"), "{table}");
    for plot in ["wait", "run"] {
        let table = sandbox.ok(&format!("days mail --plot {plot}"));
        assert!(
            table.contains("SHARE") && table.contains("100%") || table.contains("50%"),
            "{table}"
        );
        assert!(table.contains('#'), "{table}");
    }
}

#[test]
fn days_of_a_tube_without_metrics_says_how_to_begin() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail");
    let refused = sandbox.fails("days mail", 2);
    assert!(refused.contains("tubewell alter mail --metrics 30"), "{refused}");
    sandbox.ok("alter mail --metrics 30");
    assert!(sandbox.ok("tubes").contains("metrics 30"));
    assert_eq!(sandbox.json("tubes")[0]["metrics"], 30);
    sandbox.ok("put mail x");
    assert_eq!(total(&sandbox)[0], 1);
    sandbox.ok("alter mail --metrics 0");
    sandbox.fails("days mail", 2);
    assert!(sandbox.fails("create more --metrics 1001", 2).contains("1000"));
    sandbox.fails("days mail --last 0", 2);
}

#[test]
fn export_has_the_option_and_backup_the_numbers() {
    let sandbox = with_mail();
    sandbox.ok("create plain");
    sandbox.ok("put mail a");
    sandbox.ok("put mail b");
    sandbox.ok("pop mail");
    let lines = sandbox.run("export -").expect(0).out;
    let text = String::from_utf8(lines.clone()).unwrap();
    let plain = text.lines().find(|line| line.contains("\"plain\"")).unwrap();
    assert!(!plain.contains("metrics") && text.contains("\"metrics\":30"), "{text}");
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(total(&other), [1, 0, 0, 0, 0, 0, 0], "the import puts what is left");
    sandbox.ok("backup copy.tubewell");
    sandbox.ok("compact");
    assert_eq!(total(&sandbox), [2, 1, 1, 0, 0, 0, 0]);
    let copied = sandbox.json("days mail --store copy.tubewell");
    assert_eq!(copied, sandbox.json("days mail"));
    assert_eq!(copied[0]["wait"]["count"], json!(1));
}
