//! Progress: what the holder of a task reports while it works.

use tubewell::{Error, EventKind, FIFOTTL, Filter, Progress, Store, TubeOptions};

use super::support::*;

fn shown(case: &Case, id: u64) -> Option<String> {
    case.info(id).progress.map(|progress| progress.to_string())
}

#[test]
fn progress_is_shown_while_the_task_is_taken_and_goes_with_the_claim() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(shown(case, 0), None);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(shown(case, 0), None);
        claim.progress(3, 10).unwrap();
        assert_eq!(shown(case, 0).as_deref(), Some("3 of 10"));
        claim.progress_text("sound").unwrap();
        claim.progress(4, 0).unwrap();
        assert_eq!(shown(case, 0).as_deref(), Some("4: sound"));
        let page = case.tube.query().list(tubewell::TaskState::Taken, None, 10).unwrap();
        assert_eq!(page.items[0].progress, case.info(0).progress);
        claim.release().unwrap();
        assert_eq!(shown(case, 0), None);
        let again = case.tube.try_take().unwrap().unwrap();
        assert_eq!(shown(case, 0), None);
        again.progress_text("picture").unwrap();
        let task = again.detach();
        assert_eq!(task.info.progress.unwrap().to_string(), "picture");
    });
}

#[test]
fn fraction_is_between_zero_and_one() {
    let progress = |done, total| {
        let mut progress = Progress::default();
        (progress.done, progress.total) = (done, total);
        progress.fraction()
    };
    assert_eq!((progress(0, 0), progress(5, 0)), (None, None));
    assert_eq!(
        (progress(0, 4), progress(1, 4), progress(4, 4)),
        (Some(0.0), Some(0.25), Some(1.0))
    );
    assert_eq!(progress(u64::MAX, 1), Some(1.0));
}

#[test]
fn progress_needs_a_current_claim_and_a_short_text() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.progress_text(&"x".repeat(1024)).unwrap();
        let long = claim.progress_text(&"x".repeat(1025));
        assert!(matches!(long, Err(Error::Invalid { .. })), "{long:?}");
        assert_eq!(shown(case, 0).unwrap().len(), 1024);
        assert_eq!(case.tube.admin().revoke(0), Ok(1));
        assert_not_taken(claim.progress(1, 2), 0);
        assert_not_taken(claim.progress_text("x"), 0);
        assert_eq!(shown(case, 0), None);
    });
}

/// Ten a second for each claim.
#[test]
fn reports_cause_events_at_most_ten_times_a_second() {
    for_each_driver(ALL, |case| {
        let reports = Events::of(&case.store, Filter::new().kinds([EventKind::Progress]), 100);
        case.put_all([0, 1]);
        let [one, two] = [(); 2].map(|()| case.tube.try_take().unwrap().unwrap());
        for step in 0..100 {
            one.progress(step, 100).unwrap();
            two.progress(step, 100).unwrap();
            case.advance(10);
        }
        let events = reports.read();
        for id in [0, 1] {
            let done = events.iter().filter(|event| event.id == id);
            let done: Vec<u64> = done.map(|it| it.progress.as_ref().unwrap().done).collect();
            assert_eq!(done, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        }
        assert_eq!(shown(case, 0).as_deref(), Some("99 of 100"));
    });
}

/// The last report of a task that is done soon after it is not lost.
#[test]
fn report_without_an_event_gets_one_before_the_claim_ends() {
    for_each_driver(ALL, |case| {
        let kinds = [EventKind::Progress, EventKind::Ack, EventKind::Release, EventKind::Delete];
        let events = Events::of(&case.store, Filter::new().kinds(kinds), 100);
        case.put_all([0, 1, 2]);
        let claims = [(); 3].map(|()| case.tube.try_take().unwrap().unwrap());
        for claim in &claims {
            (1..=9).for_each(|step| claim.progress(step, 10).unwrap());
            claim.progress_text("last").unwrap();
        }
        let [acked, released, deleted] = claims;
        acked.ack().unwrap();
        released.release().unwrap();
        case.tube.delete(deleted.id()).unwrap();
        let said = |event: &tubewell::Event| {
            (event.id, event.kind, event.progress.as_ref().map(ToString::to_string))
        };
        let events = events.read();
        for (id, kind) in [(0, EventKind::Ack), (1, EventKind::Release), (2, EventKind::Delete)] {
            let of_task: Vec<_> = events.iter().filter(|it| it.id == id).map(said).collect();
            let report = |text: &str| (id, EventKind::Progress, Some(text.to_owned()));
            assert_eq!(of_task, [report("1 of 10"), report("9 of 10: last"), (id, kind, None)]);
        }
    });
}

/// Also of a parked claim, as long as the store is open.
#[test]
fn progress_writes_nothing() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put("x").unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    store.flush().unwrap();
    let written = |store: &Store| {
        let counters = store.admin().counters().unwrap();
        (counters.commits, counters.flushes, counters.writes, counters.rows)
    };
    let before = written(&store);
    for step in 0..1000 {
        claim.progress(step, 1000).unwrap();
        claim.progress_text("still at it").unwrap();
        file.clock.advance(ms(1));
    }
    store.flush().unwrap();
    assert_eq!(written(&store), before);
    assert_eq!(tube.statistics().unwrap().calls, {
        let mut calls = tubewell::expert::CallCounts::default();
        (calls.put, calls.take) = (1, 1);
        calls
    });
    let token = claim.park(secs(3600)).unwrap();
    assert_eq!(tube.query().task(0).unwrap().info.progress.unwrap().done, 999);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.query().task(0).unwrap().info.progress, None);
    store.resume_claim(&token).unwrap().ack().unwrap();
}
