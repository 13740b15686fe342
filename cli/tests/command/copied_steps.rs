//! `peek` shows how many steps a task has; `export` and `import --all` keep them, with the tasks that they
//! have put.

use serde_json::{Value, json};
use tubewell::expert::{Restore, Step, StepKind};
use tubewell::{Error, FIFO, Store, TubeOptions};

use crate::support::Sandbox;

/// When a sleep ends, in microseconds since 1970.
const UNTIL: u64 = 4_000_000_000_000_000;

/// A store with tasks whose steps have put others: before and behind them in the export, one that waits
/// for its own child, and one that is over.
fn store_with_steps() -> Sandbox {
    let sandbox = Sandbox::empty();
    let store = Store::open(sandbox.store()).unwrap();
    let make = |name| store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap();
    let (early, jobs, parts) = (make("early"), make("jobs"), make("parts"));
    parts.put("filler").unwrap(); // 0
    let id = jobs.put("render").unwrap().id; // 1
    let job = jobs.claim(id).unwrap();
    job.step("split", || Ok::<_, Error>("3 parts".to_owned())).unwrap();
    job.step("bytes", || Ok::<_, Error>(vec![0xff_u8; 3])).unwrap();
    let children = [("before", &early), ("behind", &parts), ("over", &parts)];
    let [_, behind, over] = children.map(|(name, tube)| job.spawn(name, tube, name).unwrap()); // 2 3 4
    drop(job);
    parts.claim(over).unwrap().ack().unwrap();
    let sleep = Step::new("rest", StepKind::Sleep, UNTIL.to_be_bytes());
    let join = Step::new("wait", StepKind::Join, []);
    let other = Step::new("other", StepKind::Spawned, id.to_be_bytes());
    // What an earlier program has stored need not be text.
    let zip = Step::new("zip", StepKind::Value, [0xff; 3]);
    jobs.admin()
        .restore_many([Restore::new("blocked").steps(vec![sleep, join, other, zip])])
        .unwrap(); // 5
    jobs.admin().add_parents(5, &parts, &[behind]).unwrap();
    store.close().unwrap();
    sandbox
}

/// The steps of a task, with the tasks that they have put by their bodies.
fn steps(sandbox: &Sandbox, body: &str) -> Vec<Value> {
    let store = Store::open(sandbox.store()).unwrap();
    let jobs = store.find_tube("jobs").unwrap();
    let listed = sandbox_tasks(&store);
    let (id, _) = listed.iter().rev().find(|(_, text)| text == body).unwrap();
    let found = jobs.query().steps(*id).unwrap().into_iter().map(|step| {
        let child = step.spawned().map(|child| {
            let found = listed.iter().find(|(id, _)| *id == child);
            found.map_or("none".to_owned(), |(_, text)| text.clone())
        });
        let value = if step.kind == StepKind::Spawned { Vec::new() } else { step.value };
        json!([step.name, step.kind.to_string(), value, child])
    });
    let found = found.collect();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
    found
}

/// All tasks of a store, with their bodies.
fn sandbox_tasks(store: &Store) -> Vec<(u64, String)> {
    let mut tasks = Vec::new();
    for info in store.tubes().unwrap() {
        let tube = store.find_tube(&info.name).unwrap();
        for state in [tubewell::TaskState::Ready, tubewell::TaskState::Blocked] {
            for task in tube.query().list(state, None, 100).unwrap().items {
                let body = tube.query().task(task.id).unwrap().body.to_vec();
                tasks.push((task.id, String::from_utf8(body).unwrap()));
            }
        }
    }
    tasks
}

#[test]
fn peek_shows_how_many_steps_are_stored() {
    let sandbox = store_with_steps();
    assert!(sandbox.ok("peek jobs 1").contains("steps     5 done"));
    assert_eq!(sandbox.json("peek jobs 1")[0]["steps"], 5);
    assert!(!sandbox.ok("peek parts 0").contains("steps"));
    assert_eq!(sandbox.json("peek parts 0")[0].get("steps"), None);
}

#[test]
fn import_restores_steps_and_the_tasks_that_they_have_put() {
    let sandbox = store_with_steps();
    let export = sandbox.run("export -").expect(0).out;
    let text = String::from_utf8(export.clone()).unwrap();
    let line = text.lines().find(|line| line.contains("render")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        line["steps"][3],
        json!({"name": "over", "kind": "spawned", "value": "\0\0\0\0\0\0\0\u{4}"})
    );
    assert_eq!(
        line["steps"][2],
        json!({"name": "bytes", "kind": "value", "value": "[255,255,255]"})
    );
    let line = text.lines().find(|line| line.contains("\"zip\"")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["steps"][3], json!({"name": "zip", "kind": "value", "value_base64": "////"}));
    let expected = |over: &str| {
        let render = json!([
            ["before", "spawned", [], "before"],
            ["behind", "spawned", [], "behind"],
            ["bytes", "value", b"[255,255,255]", null],
            ["over", "spawned", [], over],
            ["split", "value", b"\"3 parts\"", null],
        ]);
        let blocked = json!([
            ["other", "spawned", [], "render"],
            ["rest", "sleep", UNTIL.to_be_bytes(), null],
            ["wait", "join", [], null],
            ["zip", "value", [255, 255, 255], null],
        ]);
        (render, blocked)
    };
    let found =
        |sandbox: &Sandbox| (json!(steps(sandbox, "render")), json!(steps(sandbox, "blocked")));
    let close = |found: (Value, Value)| {
        // The end of a sleep is measured: it may differ by the time of the import.
        let (render, mut blocked) = found;
        let end = |value: &Value| -> u64 {
            let bytes: Vec<u8> = serde_json::from_value(value.clone()).unwrap();
            u64::from_be_bytes(bytes.try_into().unwrap())
        };
        let slept = end(&blocked[1][2]);
        assert!(slept.abs_diff(UNTIL) < 60_000_000, "{slept}");
        blocked[1][2] = json!(UNTIL.to_be_bytes());
        (render, blocked)
    };
    assert_eq!(close(found(&sandbox)), expected("none"));
    // An empty store keeps the ids, another one gives new ones.
    let other = Sandbox::empty();
    for round in 0..2 {
        other.feed("import --all", &export).expect(0);
        assert_eq!(close(found(&other)), expected("none"), "round {round}");
        assert!(other.ok("verify").starts_with("sound"));
    }
    assert_eq!(other.json("stats jobs")[0]["total"], 4);
}

#[test]
fn steps_that_cannot_be_restored_are_refused() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs");
    for (steps, why) in [
        (json!([{"name": "a", "kind": "value"}]), "neither value nor value_base64"),
        (json!([{"name": "a", "kind": "values", "value": ""}]), "not a kind of step"),
        (json!([{"name": "a", "kind": "sleep", "value": "x"}]), "1 bytes are no value"),
        (json!([{"name": "", "kind": "value", "value": ""}]), "1 to 255 bytes"),
        (json!([{"name": "a", "kind": "value", "value": "", "value_base64": ""}]), "both"),
    ] {
        let line = json!({"tube": "jobs", "state": "ready", "priority": 0, "ttl": null, "ttr": null,
            "delay": 0, "data": "x", "steps": steps});
        let refused = sandbox.feed("import --all", line.to_string().as_bytes());
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    assert_eq!(sandbox.json("stats jobs")[0]["total"], 0);
}
