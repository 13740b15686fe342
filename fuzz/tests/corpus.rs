//! Runs the targets on the corpora, with the same functions that the fuzzer calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tubewell_fuzz::calls::Counts;
use tubewell_fuzz::{Oracle, TARGETS, Target};

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    files
}

/// What became of the requests in the corpus of `calls`, by their variants.
static REQUESTS: LazyLock<BTreeMap<String, Counts>> = LazyLock::new(|| {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for file in corpus("calls") {
        for (name, met) in tubewell_fuzz::calls::met(&fs::read(file).unwrap()) {
            let counts = all.entry(name).or_default();
            counts.malformed += met.malformed;
            counts.refused += met.refused;
            counts.carried_out += met.carried_out;
        }
    }
    all
});

/// Which of two threads is first is not the same in each run, and neither is then what an input does.
/// Of each request the corpus has at least three inputs that carry it out whichever is first.
#[test]
fn corpus_of_calls_carries_out_every_request_for_peers() {
    let verbs = include_str!("../../src/core/kinds.txt");
    let requests = [
        "Take",
        "WaitReady",
        "Claim",
        "ClaimEnd",
        "Heartbeat",
        "BeginSession",
        "ResumeSession",
        "EndSession",
        "DropSession",
        "ResumeClaim",
    ];
    let requests = requests.map(|name| format!("Request::{name}"));
    let names = verbs.lines().map(|line| line.split_once(' ').unwrap().1);
    let names: Vec<&str> = names.chain(requests.iter().map(String::as_str)).collect();
    assert!(names.len() > 90, "{names:?}");
    let mut missed = Vec::new();
    for name in names {
        let counts = REQUESTS.get(name).copied().unwrap_or_default();
        if counts.carried_out == 0 {
            missed.push((name, counts));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn most_requests_in_the_corpus_of_calls_are_carried_out() {
    let counts = REQUESTS[""];
    let all = counts.malformed + counts.refused + counts.carried_out;
    assert!(counts.carried_out * 2 > all, "{counts:?}");
    assert!(counts.malformed > 0 && counts.refused > 0, "{counts:?}");
}

/// All transitions of tasks in the corpus of `operations`, or of those with limited attempts.
fn transitions(limited: bool) -> BTreeSet<String> {
    let inputs = corpus("operations").into_iter().map(|file| fs::read(file).unwrap());
    inputs.flat_map(|bytes| tubewell_fuzz::operations::transitions(&bytes, limited)).collect()
}

fn assert_reached(reached: &BTreeSet<String>, wanted: &[&str]) {
    let missed: Vec<_> = wanted.iter().filter(|wanted| !reached.contains(**wanted)).collect();
    assert!(missed.is_empty(), "not reached: {missed:?}");
}

#[test]
fn corpus_of_operations_parks_and_resumes_tasks_with_limited_attempts() {
    let wanted = [
        "Taken Parked Parked",
        "Parked Resumed Taken",
        "Parked Verb(Ttr) Ready",
        "Parked Verb(Ttr) Delayed",
        "Parked Verb(Ttr) Buried",
        "Parked Verb(Ttl) Done",
        "Parked Reopened Parked",
        "Parked Killed Parked",
        "Taken Killed Parked",
    ];
    assert_reached(&transitions(true), &wanted);
}

#[test]
fn corpus_of_operations_restores_tasks_in_every_state() {
    let wanted = [
        "New Restored Ready",
        "New Restored Delayed",
        "New Restored Buried",
        "New Restored Kept",
        "Kept Aged Done",
        "Kept Trimmed Done",
        "Kept Verb(Forget) Done",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_edits_tasks_in_every_state() {
    let wanted = [
        "Ready Verb(Update) Ready",
        "Ready Verb(Update) Delayed",
        "Delayed Verb(Update) Ready",
        "Delayed Verb(Update) Delayed",
        "Taken Verb(Update) Taken",
        "Parked Verb(Update) Parked",
        "Buried Verb(Update) Buried",
        "Kept Verb(Update) Kept",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_sets_the_wall_clock_while_tasks_wait_for_moments() {
    let wanted = [
        "Taken Verb(Release) Delayed",
        "Taken ClaimDropped Delayed",
        "Taken ReleaseAll Delayed",
        "Taken Revoked Delayed",
        "Taken RevokeAll Delayed",
        "Taken Reopened Delayed",
        "Buried Verb(Kick) Delayed",
        "Blocked Verb(Unblock) Delayed",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_restores_tasks_with_keys() {
    let inputs = corpus("operations").into_iter().map(|file| fs::read(file).unwrap());
    let met: BTreeSet<&str> =
        inputs.flat_map(|bytes| tubewell_fuzz::operations::restored_keys(&bytes)).collect();
    assert_eq!(met, BTreeSet::from(["in use", "kept", "new", "replaced"]));
}

#[test]
fn corpus_of_operations_makes_puts_again_with_their_tokens() {
    let inputs = corpus("operations").into_iter().map(|file| fs::read(file).unwrap());
    let met: BTreeSet<&str> =
        inputs.flat_map(|bytes| tubewell_fuzz::operations::met_tokens(&bytes)).collect();
    assert_eq!(met, BTreeSet::from(["forgotten", "seen"]));
}

#[test]
fn corpus_of_operations_moves_tasks_to_other_tubes() {
    let wanted = [
        "Ready Verb(Move) Done",
        "Delayed Verb(Move) Done",
        "Taken Verb(Move) Done",
        "Buried Verb(Move) Done",
        "Taken Verb(Advance) Done",
        "New Verb(Advance) Delayed",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_replaces_tasks_with_keys_in_every_state() {
    let wanted = [
        "Ready Replaced Ready",
        "Ready Replaced Delayed",
        "Delayed Replaced Ready",
        "Delayed Replaced Delayed",
        "Taken Replaced Ready",
        "Taken Replaced Delayed",
        "Parked Replaced Ready",
        "Buried Replaced Ready",
        "Buried Replaced Delayed",
        "Kept Replaced Ready",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_has_tasks_that_wait_for_others() {
    let wanted = [
        "New Verb(Put) Blocked",
        "Delayed Verb(Block) Blocked",
        "Blocked Verb(Block) Blocked",
        "Blocked Verb(Unblock) Ready",
        "Blocked Verb(Unblock) Delayed",
        "Blocked Verb(Unblock) Blocked",
        "Blocked Verb(Bury) Buried",
        "Blocked Verb(Resolve) Done",
        "Blocked Verb(Resolve) Kept",
        "Blocked Verb(Ttl) Done",
        "Blocked Truncated Done",
        "Blocked ParentDone Ready",
        "Blocked ParentLeft Ready",
        "Blocked ParentBuried Buried",
        "Blocked ParentGone Buried",
        "Ready Replaced Blocked",
        "Blocked Replaced Blocked",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_has_schedules_and_their_runs() {
    let wanted = [
        "New Verb(Schedule) Recurring",
        "New Verb(Spawn) Ready",
        "New Verb(Spawn) Delayed",
        "Recurring Verb(Schedule) Recurring",
        "Recurring Verb(Move) Done",
        "Recurring Verb(Delete) Done",
        "Recurring ScheduleEnded Done",
        "Recurring Truncated Done",
        "Recurring Reopened Done",
    ];
    assert_reached(&transitions(false), &wanted);
}

#[test]
fn corpus_of_operations_shuts_sub_queues_in_every_way() {
    let inputs = corpus("operations").into_iter().map(|file| fs::read(file).unwrap());
    let shut = inputs.flat_map(|bytes| tubewell_fuzz::operations::shut_sub_queues(&bytes));
    let shut: BTreeSet<String> = shut.map(str::to_owned).collect();
    assert_reached(&shut, &["own limit", "shared limit", "paused", "rate", "cooldown"]);
}

/// Events are no calls of the target: they have no end.
#[test]
fn http_makes_every_call_that_the_server_describes() {
    let mut described = tubewell_fuzz::http::described();
    assert!(described.remove("GET /v1/events"));
    let calls: BTreeSet<String> = tubewell_fuzz::http::calls().map(str::to_owned).collect();
    assert_eq!(described.difference(&calls).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn corpus_of_http_has_every_call_carried_out_and_refused() {
    let inputs = corpus("http").into_iter().map(|file| fs::read(file).unwrap());
    let met: BTreeSet<String> = inputs.flat_map(|bytes| tubewell_fuzz::http::met(&bytes)).collect();
    let never_done = ["GET /v1/nothing", "TRACE /v1/tubes"];
    let done = tubewell_fuzz::http::calls().filter(|call| !never_done.contains(call));
    let done: Vec<String> = done.map(|call| format!("{call} true")).collect();
    assert_reached(&met, &done.iter().map(String::as_str).collect::<Vec<_>>());
    let refused: Vec<_> = met.iter().filter(|call| call.ends_with(" false")).collect();
    assert!(refused.len() > 25, "{refused:?}");
}

/// The files of the corpus on which the target fails.
fn failing((name, check): Target, oracle: Oracle) -> Vec<PathBuf> {
    let fails = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap();
        catch_unwind(|| check(&bytes, oracle)).is_err()
    };
    corpus(name).into_iter().filter(fails).collect()
}

#[test]
fn corpora_have_no_finding() {
    for target in TARGETS {
        assert_eq!(failing(target, Oracle::Correct), Vec::<PathBuf>::new(), "{}", target.0);
    }
}

#[test]
fn corpora_detect_every_faulty_oracle() {
    for target in TARGETS {
        assert!(
            !failing(target, Oracle::Faulty).is_empty(),
            "{} does not detect the faulty oracle",
            target.0
        );
    }
}
