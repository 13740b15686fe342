//! Reads the sources: every call that can block has a form that does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The public methods of a type and their signatures, from all `impl` blocks of `src` that name it.
fn methods(of: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), of, &mut found);
    assert!(!found.is_empty(), "no methods of {of}");
    found
}

fn collect(folder: &Path, of: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, of, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(methods_in(&fs::read_to_string(path).unwrap(), of));
        }
    }
}

fn methods_in(source: &str, of: &str) -> Vec<(String, String)> {
    let (mut found, mut is_in_impl) = (Vec::new(), false);
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("impl") && !line.contains(" for ") {
            is_in_impl = implemented_type(line) == of;
        } else if line == "}" {
            is_in_impl = false;
        } else if let Some(method) = method_on(line).filter(|_| is_in_impl) {
            let name = method.split(['(', '<']).next().unwrap().to_owned();
            let mut signature = method.to_owned();
            while !signature.trim_end().ends_with('{') {
                signature.push_str(lines.next().unwrap());
            }
            found.push((name, signature));
        }
    }
    found
}

/// The public method that begins on a line.
fn method_on(line: &str) -> Option<&str> {
    line.strip_prefix("    pub fn ").or_else(|| line.strip_prefix("    pub async fn "))
}

/// `Tube` of `impl<T, C> Tube<T> {`.
fn implemented_type(line: &str) -> &str {
    let line = line.trim_start_matches("impl");
    let after_parameters = if line.starts_with('<') {
        let mut depth = 0;
        let end = line.find(|character| {
            depth += match character {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
            depth == 0
        });
        &line[end.unwrap() + 1..]
    } else {
        line
    };
    after_parameters.trim_start().split([' ', '<']).next().unwrap()
}

/// Each public method of these types, and what an async task uses. A new method must be added here.
#[test]
fn every_call_that_can_block_has_a_form_that_does_not() {
    const NEVER_BLOCKS: &str = "";
    /// One method serves both modes.
    const ANSWER: &str = "M::Answer";
    let table = [
        ("Claim", "value into_parts into_async into_blocking", NEVER_BLOCKS),
        ("Claim", "id body tube takes priority sub_queue key tags epoch detach", NEVER_BLOCKS),
        ("Claim", "traceparent", NEVER_BLOCKS),
        ("Claim", "attempt attempts_left progress progress_text", NEVER_BLOCKS),
        ("Claim", "is_current expires_in owner", ANSWER),
        ("Claim", "ack end end_many release release_in bury fail", ANSWER),
        ("Claim", "park touch renew checkpoint log", ANSWER),
        // Methods of both kinds of claims, which borrow what they are called on.
        ("Claim", "step spawn steps", NEVER_BLOCKS),
        ("Session", "id tube to_async to_blocking", NEVER_BLOCKS),
        ("Session", "take_any describe undescribe end resume_claim", ANSWER),
        ("Store", "session resume_session resume_claim events", ANSWER),
        ("Store", "admin to_async to_blocking options today", NEVER_BLOCKS),
        ("StoreAdmin", "register_driver serve counters clock_report durability", NEVER_BLOCKS),
        (
            "Store",
            "tube open_tube create_tube find_tube drop_tube tubes owners statistics prometheus",
            ANSWER,
        ),
        (
            "Store",
            "backlog backlog_after take_any flush close by_key find list schedule tags",
            ANSWER,
        ),
        ("StoreAdmin", "capacity limits next_id remove_limit set_limit", ANSWER),
        ("StoreAdmin", "delete delete_with_dependents groups kick", ANSWER),
        // They read or write the whole store: for a blocking thread of the runtime.
        ("Store", "open in_memory", NEVER_BLOCKS),
        (
            "StoreAdmin",
            "verify verify_with backup backup_with catch_up catch_up_with",
            NEVER_BLOCKS,
        ),
        // They run a closure of the caller: for a blocking thread, too.
        ("Store", "transact view", NEVER_BLOCKS),
        // An async task has a stream of events instead.
        ("Events", "recv recv_timeout try_recv dropped", NEVER_BLOCKS),
        ("Events", "delivered", ANSWER),
    ];
    for of in ["Claim", "Session", "Store", "StoreAdmin", "Events"] {
        let listed: BTreeSet<String> = table
            .iter()
            .filter(|(name, ..)| *name == of)
            .flat_map(|(_, methods, _)| methods.split(' ').map(str::to_owned))
            .collect();
        assert_eq!(methods(of).into_keys().collect::<BTreeSet<_>>(), listed, "methods of {of}");
    }
    for (of, names, _) in table.iter().filter(|(_, _, form)| *form == ANSWER) {
        for name in names.split(' ') {
            let signature = &methods(of)[name];
            assert!(signature.contains("-> M::Answer<"), "{of}::{name}: {signature}");
        }
    }
    for (of, names, form) in
        table.iter().filter(|(_, _, form)| ![NEVER_BLOCKS, ANSWER].contains(form))
    {
        for name in names.split(' ') {
            let (owner, method) = match form.split_once("::") {
                Some((owner, "")) => (owner, name.to_owned()),
                Some((owner, method)) => (owner, method.to_owned()),
                None => (*of, format!("{name}{form}")),
            };
            assert!(methods(owner).contains_key(&method), "{of}::{name}: no {owner}::{method}");
        }
    }
}

/// Handles and tickets may go to another thread.
#[test]
fn handles_and_tickets_may_be_sent() {
    fn is_send<T: Send + 'static>() {}
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send::<tubewell::Ticket<tubewell::Receipt>>();
    is_send_and_sync::<tubewell::Events>();
    is_send_and_sync::<tubewell::Events<tubewell::Async>>();
    is_send_and_sync::<tubewell::Tube<u64>>();
    is_send_and_sync::<tubewell::AsyncTube<u64>>();
    is_send_and_sync::<tubewell::Claim<u64>>();
    is_send::<tubewell::AsyncClaim<u64>>();
    is_send::<tubewell::Ticket<tubewell::AsyncClaim<u64>>>();
}
