//! `export` and `import --all` keep the parents of tasks, and what happens when they end.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tubewell::expert::Restore;
use tubewell::{FIFO, FIFOTTL, Put, Store, TubeOptions};

use crate::support::Sandbox;

/// A store with a diamond of blocked tasks, tasks that were buried with their parents, done parents
/// that are kept or gone, and a task whose parent comes later.
fn store_with_parents() -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok("create a");
    sandbox.ok("create b --driver fifo --keep-done all");
    for (id, words) in [
        (0, "a top"),
        (1, "b left --after 0 --after-tube a"),
        (2, "a right --after 0 --delay 2h --ttl 3h --priority 3 --key right"),
        (3, "b bottom --after 1 --after-key right --on-parent bury"),
        (4, "b kept"),
        (5, "a gone"),
        (6, "a waits-for-one --after 0,5 --on-parent release"),
        (7, "a free --after 4 --after-tube b --on-parent bury"),
        (8, "b buried"),
        (9, "b buried-with-it --after 8,1 --on-parent bury"),
        (10, "b buried-by-hand --after 1"),
        (11, "a early"),
        (12, "b late"),
    ] {
        let put = sandbox.json(&format!("put {words}"));
        assert_eq!(put[0]["id"], id, "{words}");
    }
    sandbox.ok("resolve b 4 --result 7");
    sandbox.ok("resolve a 5");
    sandbox.ok("bury b 8 10");
    sandbox.ok("add-parents a 11 12 --parent-tube b");
    assert_eq!(sandbox.json("peek b 9")[0]["group"], "parent-buried");
    sandbox
}

/// The lines of an export.
fn lines(sandbox: &Sandbox) -> Vec<String> {
    let text = String::from_utf8(sandbox.run("export -").expect(0).out).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The objects of an export. Times are in hours, rounded up, and failures have no age.
fn exported(sandbox: &Sandbox) -> Vec<Value> {
    let parsed = |line: String| {
        let mut object: Value = serde_json::from_str(&line).unwrap();
        for time in ["ttl", "delay"] {
            if let Some(seconds) = object[time].as_f64() {
                object[time] = json!((seconds / 3600.0).ceil());
            }
        }
        if let Some(failure) = object["failure"].as_object_mut() {
            failure.remove("ago");
        }
        object
    };
    lines(sandbox).into_iter().map(parsed).collect()
}

/// The objects with the places of tasks in place of their ids, without the moments of their ends.
fn with_places(mut objects: Vec<Value>) -> Vec<Value> {
    let places: HashMap<u64, usize> = objects
        .iter()
        .enumerate()
        .filter_map(|(place, object)| Some((object["id"].as_u64()?, place)))
        .collect();
    let place = |id: &Value| json!(places[&id.as_u64().unwrap()]);
    for object in &mut objects {
        object["ended_at"] = Value::Null;
        if !object["id"].is_null() {
            object["id"] = place(&object["id"]);
        }
        if let Some(parents) = object["parents"].as_array_mut() {
            for parent in parents.iter_mut() {
                *parent = place(parent);
            }
            parents.sort_by_key(Value::as_u64);
        }
    }
    objects
}

fn import(sandbox: &Sandbox, lines: &[String]) -> String {
    sandbox.feed("import --all", lines.join("\n").as_bytes()).expect(0).err
}

/// States and failure groups of tasks of a tube.
fn states<const N: usize>(sandbox: &Sandbox, tube: &str, ids: [u64; N]) -> [String; N] {
    ids.map(|id| {
        let task = sandbox.json(&format!("peek {tube} {id}")).remove(0);
        let group = task["group"].as_str().map(|group| format!(" {group}")).unwrap_or_default();
        format!("{}{group}", task["state"].as_str().unwrap())
    })
}

#[test]
fn import_into_a_new_store_restores_parents() {
    let sandbox = store_with_parents();
    let objects = exported(&sandbox);
    let task = |id: u64| objects.iter().find(|object| object["id"] == id).unwrap();
    let fields =
        |id: u64| ["state", "parents", "on_parent", "delay"].map(|name| task(id)[name].clone());
    assert_eq!(fields(0), [json!("ready"), json!(null), json!(null), json!(0.0)]);
    assert_eq!(fields(2), [json!("blocked"), json!([0]), json!(null), json!(2.0)]);
    assert_eq!(fields(3), [json!("blocked"), json!([1, 2]), json!("bury"), json!(0.0)]);
    assert_eq!(fields(6), [json!("blocked"), json!([0]), json!("release"), json!(0.0)]);
    assert_eq!(fields(7), [json!("ready"), json!(null), json!("bury"), json!(0.0)]);
    assert_eq!(fields(9), [json!("buried"), json!([1, 8]), json!("bury"), json!(0.0)]);
    assert_eq!(fields(10), [json!("buried"), json!([1]), json!(null), json!(0.0)]);
    assert_eq!(fields(11), [json!("blocked"), json!([12]), json!(null), json!(0.0)]);

    let other = Sandbox::empty();
    assert_eq!(import(&other, &lines(&sandbox)), "");
    assert_eq!(exported(&other), objects);
    for store in [&sandbox, &other] {
        assert!(store.ok("verify").starts_with("sound"));
        store.ok("resolve a 0");
        assert_eq!(states(store, "a", [2, 6, 11]), ["delayed", "ready", "blocked"]);
        store.ok("resolve b 1");
        store.ok("kick b 9 10");
        assert_eq!(states(store, "b", [3, 9, 10]), ["blocked", "blocked", "ready"]);
        store.ok("resolve a 2");
        store.ok("bury a 6");
        store.ok("resolve b 12");
        assert_eq!(states(store, "a", [11]), ["ready"]);
        assert_eq!(states(store, "b", [3]), ["ready"]);
        assert!(store.ok("verify").starts_with("sound"));
    }
    assert_eq!(with_places(exported(&other)), with_places(exported(&sandbox)));
}

#[test]
fn import_into_a_used_store_gives_parents_their_new_ids() {
    let sandbox = store_with_parents();
    let other = Sandbox::with(&["x", "y"]);
    other.ok("drop mail");
    let remark = import(&other, &lines(&sandbox));
    assert_eq!(remark, "the store is not new, so the imported tasks get new ids\n");
    assert_eq!(with_places(exported(&other)), with_places(exported(&sandbox)));
    assert!(other.ids("list a").iter().all(|id| *id >= 2));
    assert!(other.ok("verify").starts_with("sound"));
    // Among tasks of the same priority, blocked ones keep their age.
    let order = |sandbox: &Sandbox| {
        let store = Store::open(sandbox.store()).unwrap();
        let names = ["a", "b"].map(|name| store.find_tube(name).unwrap());
        let mut bodies = Vec::new();
        while let Some(claim) = names.iter().find_map(|tube| tube.try_take().unwrap()) {
            bodies.push(claim.body().to_vec());
            claim.ack().unwrap();
        }
        bodies
    };
    let bodies = order(&sandbox);
    assert!(bodies.len() > 5);
    assert_eq!(order(&other), bodies);
}

#[test]
fn chains_of_blocked_tasks_are_imported() {
    let sandbox = Sandbox::empty();
    let store = Store::open(sandbox.store()).unwrap();
    let tubes = [("a", FIFO), ("b", FIFOTTL)]
        .map(|(name, driver)| store.create_tube(name, TubeOptions::new().driver(driver)).unwrap());
    let waits = |id: u64, tube: usize, parent: u64| {
        Restore::new(Put::new("x").after(&tubes[tube], [parent])).id(id)
    };
    // Each waits for the task with the next higher id; then some that wait across two tubes.
    tubes[0].admin().restore_many([Restore::new("last").id(3000)]).unwrap();
    tubes[0].admin().restore_many((0..3000).rev().map(|id| waits(id, 0, id + 1))).unwrap();
    for id in 3001..3080 {
        let [tube, other] = if id % 2 == 0 { [0, 1] } else { [1, 0] };
        tubes[tube].admin().restore_many([waits(id, other, id - 1)]).unwrap();
    }
    drop(tubes);
    store.close().unwrap();
    let exported = lines(&sandbox);
    let other = Sandbox::empty();
    import(&other, &exported);
    assert_eq!(lines(&other), exported);
    let used = Sandbox::with(&["x"]);
    used.ok("drop mail");
    import(&used, &exported);
    assert_eq!(with_places(self::exported(&used)), with_places(self::exported(&sandbox)));
    for store in [&other, &used] {
        assert!(store.ok("verify").starts_with("sound: 3080 tasks"));
        assert_eq!(store.json("stats a")[0]["ready"], 1);
    }
    // No file is left beside the store.
    let files: Vec<_> = std::fs::read_dir(other.dir.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

/// It waits for nothing that could tell it apart from a task that must not run yet, so it is buried
/// even with the rule `release`.
#[test]
fn task_whose_parent_is_not_in_the_import_is_buried() {
    let sandbox = store_with_parents();
    let mut exported = lines(&sandbox);
    exported.retain(|line| !line.contains("\"id\":0,"));
    let other = Sandbox::empty();
    let remark = import(&other, &exported);
    assert_eq!(
        remark,
        "buried 3 tasks in the failure group parents-unknown: they wait for tasks that were not \
         imported\n"
    );
    let unknown = "buried parents-unknown";
    assert_eq!(states(&other, "a", [2, 6, 7, 11]), [unknown, unknown, "ready", "blocked"]);
    assert_eq!(states(&other, "b", [1, 3, 9]), [unknown, "blocked", "buried parent-buried"]);
    let task = other.json("peek b 1").remove(0);
    assert_eq!(task["failure"]["message"], "its parent, task 0 of the export, was not imported");
    assert_eq!(
        other.json("peek a 2")[0]["ttl_left"].as_f64().map(|s| s > 4.0 * 3600.0),
        Some(true)
    );
    other.ok("kick b 1");
    other.ok("resolve b 1");
    other.ok("kick a --group parents-unknown");
    other.ok("resolve a 2");
    assert_eq!(states(&other, "b", [3]), ["ready"]);
    assert!(other.ok("verify").starts_with("sound"));
}

/// A line of a task of the tube `mail`.
fn line(id: u64, fields: &str) -> String {
    format!(
        r#"{{"tube":"mail","id":{id},"priority":0,"ttr":null,"sub_queue":null,"takes":0,"data":"x",{fields}}}"#
    )
}

const READY: &str = r#""state":"ready","ttl":null,"delay":0.0"#;

/// A task that waits for these.
fn blocked(parents: &str) -> String {
    format!(r#""state":"blocked","ttl":null,"delay":0.0,"parents":{parents}"#)
}

#[test]
fn lines_with_wrong_or_lost_parents() {
    for (fields, why) in [
        (
            r#""state":"ready","ttl":null,"delay":0.0,"parents":[1]"#,
            "only a blocked or a buried task",
        ),
        (
            r#""state":"done","ttl":null,"delay":0.0,"parents":[1]"#,
            "only a blocked or a buried task",
        ),
        (r#""state":"blocked","ttl":null,"delay":0.0,"parents":["a"]"#, "invalid type"),
        (r#""state":"blocked","ttl":null,"delay":0.0,"on_parent":"x""#, "unknown variant `x`"),
    ] {
        let sandbox = Sandbox::with(&[]);
        let done = sandbox.feed("import --all", line(0, fields).as_bytes()).expect(7);
        assert!(done.err.contains(why) && done.err.contains("line 1"), "{fields}: {}", done.err);
    }
    let sandbox = Sandbox::with(&[]);
    let without_id = line(0, &blocked("[1]")).replace("\"id\":0,", "");
    let done = sandbox.feed("import --all", without_id.as_bytes()).expect(7);
    assert!(done.err.contains("line 1: a task that waits for others needs its id"), "{}", done.err);

    // Earlier previews wrote no parents; damaged ones are counted; a cycle cannot be resolved.
    let all = [
        line(1, READY),
        line(2, &blocked("[]")),
        line(3, &format!("{},\"parents_lost\":1", blocked("[1]"))),
        line(4, &blocked("[5]")),
        line(5, &blocked("[4]")),
        line(6, &blocked("[6]")),
    ];
    let remark = import(&sandbox, &all);
    assert!(remark.contains("buried 4 tasks"), "{remark}");
    let unknown = "buried parents-unknown";
    assert_eq!(
        states(&sandbox, "mail", [1, 2, 3, 4, 5, 6]),
        ["ready", unknown, unknown, "blocked", unknown, unknown]
    );
    sandbox.ok("kick mail 3");
    assert_eq!(states(&sandbox, "mail", [3]), ["blocked"]);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn parent_whose_ttl_has_elapsed_counts_as_removed() {
    let sandbox = Sandbox::with(&[]);
    let all = [
        line(0, r#""state":"ready","ttl":0.0,"delay":0.0"#),
        line(1, &blocked("[0]")),
        line(2, &format!("{},\"on_parent\":\"release\"", blocked("[0]"))),
    ];
    import(&sandbox, &all);
    assert_eq!(states(&sandbox, "mail", [1, 2]), ["buried parent-gone", "ready"]);
    let message = sandbox.json("peek mail 1").remove(0)["failure"]["message"].clone();
    assert_eq!(message, "its parent, task 0, was removed");
}

/// With the ids of two stores it is unclear which of two tasks is meant.
#[test]
fn id_that_occurs_twice_is_no_parent() {
    let sandbox = Sandbox::with(&["used"]);
    let all = [line(7, READY), line(8, &blocked("[7]")), line(9, READY), line(7, READY)];
    let all = [&all[..], &[line(1, &blocked("[9]"))]].concat();
    assert!(import(&sandbox, &all).contains("buried 1 task"));
    assert_eq!(states(&sandbox, "mail", [2, 5]), ["buried parents-unknown", "blocked"]);
    // Of the blocked ones, too, in either order.
    let all = [
        line(10, &blocked("[11]")),
        line(12, READY),
        line(11, &blocked("[12]")),
        line(11, &blocked("[12]")),
        line(13, &blocked("[11]")),
    ];
    assert!(import(&sandbox, &all).contains("buried 2 tasks"));
    let unknown = "buried parents-unknown";
    assert_eq!(
        states(&sandbox, "mail", [6, 7, 8, 9, 10]),
        [unknown, "ready", "blocked", "blocked", unknown]
    );
}

#[test]
fn task_waits_for_the_one_that_has_the_key_of_its_parent() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail old --key k");
    sandbox.ok("put mail older --key l");
    let all = [
        line(20, &format!("{READY},\"key\":\"k\"")),
        line(21, &blocked("[20]")),
        line(22, &format!("{},\"key\":\"l\"", blocked("[20]"))),
        line(23, &blocked("[22]")),
    ];
    let done = sandbox.feed("import --all --on-key keep", all.join("\n").as_bytes()).expect(0);
    assert_eq!(done.text(), "stored 4 tasks in 0 tubes\n");
    let of = |id: u64| {
        sandbox.json(&format!(
            "list mail --state {}",
            ["ready", "blocked"][usize::try_from(id).unwrap()]
        ))
    };
    assert_eq!((of(0).len(), of(1).len()), (2, 2));
    sandbox.ok("resolve mail 0");
    assert_eq!(of(1).len(), 1);
    sandbox.ok("resolve mail 1");
    assert_eq!(of(1).len(), 0);
}

#[test]
fn stopped_import_with_parents_can_go_on() {
    let sandbox = Sandbox::with(&[]);
    let mut all = [
        line(0, READY),
        line(1, &blocked("[0]")),
        line(2, &blocked("[1,5]")),
        line(3, READY),
        "wrong".to_owned(),
        line(5, READY),
        line(6, &blocked("[5]")),
        line(7, &blocked("[0,5]")),
    ];
    let done = sandbox.feed("import --all --json", all.join("\n").as_bytes()).expect(7);
    assert_eq!(done.objects(), [json!({"stored": 4, "failed_line": 5, "tubes": 0})]);
    assert!(done.err.contains("nothing from line 5 on was stored"), "{}", done.err);
    assert!(
        done.err.contains("buried 1 task in the failure group parents-unknown"),
        "{}",
        done.err
    );
    let unknown = "buried parents-unknown";
    assert_eq!(states(&sandbox, "mail", [0, 1, 2, 3]), ["ready", "blocked", unknown, "ready"]);

    all[4] = line(4, READY);
    let remark = import(&sandbox, &all[4..]);
    assert!(remark.contains("get new ids") && remark.contains("buried 1 task in"), "{remark}");
    assert_eq!(states(&sandbox, "mail", [4, 5, 6, 7]), ["ready", "ready", "blocked", unknown]);
    // What each waits for is known as far as it is in the same import.
    sandbox.ok("kick mail 2 7");
    assert_eq!(states(&sandbox, "mail", [2, 7]), ["blocked"; 2]);
    assert!(sandbox.ok("verify").starts_with("sound: 8 tasks"));
}

#[test]
fn blocked_task_that_is_refused_says_what_is_missing() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create small --driver limfifottl --capacity 3");
    let small = |line: String| line.replace("\"mail\"", "\"small\"");
    let all = [
        small(line(0, READY)),
        small(line(1, &blocked("[0]"))),
        small(line(2, &blocked("[1]"))),
        small(line(3, &blocked("[0]"))),
        small(line(4, &blocked("[3]"))),
        line(5, READY),
    ];
    let done = sandbox.feed("import --all --json", all.join("\n").as_bytes()).expect(7);
    assert_eq!(done.objects(), [json!({"stored": 4, "failed_line": 4, "tubes": 0})]);
    assert!(done.err.contains("line 4: tube"), "{}", done.err);
    assert!(done.err.contains("2 tasks of them are missing"), "{}", done.err);
    assert!(done.err.contains("import the whole file into a new store"), "{}", done.err);
    assert_eq!(sandbox.ids("list small"), [0, 1, 2]);
    assert_eq!(sandbox.ids("list mail"), [5]);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn waiting_lines_of_any_length_are_imported() {
    let sandbox = Sandbox::with(&[]);
    let body = "\u{1}".repeat(300_000);
    sandbox.ok("put mail parent");
    for number in 0..3 {
        let words = ["put", "mail", "--after", "0", "--key"];
        let key = format!("k{number}");
        let mut command = sandbox.command(&[&words[..], &[&key, "-"]].concat());
        command.env("LANG", "C");
        crate::support::run(command, format!("{body}{number}").as_bytes()).expect(0);
    }
    let other = Sandbox::empty();
    let exported = lines(&sandbox);
    import(&other, &exported);
    assert_eq!(lines(&other), exported);
    let mut text = String::new();
    writeln!(text, "{body}1").unwrap();
    assert_eq!(other.ok("find k1 --body"), text.trim_end());
}
