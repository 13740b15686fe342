//! Functions before the puts of a handle: `Tube::before_put`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::Restore;
use tubewell::{
    Error, Filter, OnKey, Outcome, Put, Schedule, TaskState, Tube, TubeOptions, Update,
};

use super::executor::{block_on, with_timeout};
use super::support::*;

/// The tag that the function of `tagged` gives.
const TENANT: &str = "tenant ann";

/// A handle that tags what it puts, and how often its function was called.
fn tagged(tube: &Tube) -> (Tube, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let tagged = tube.before_put(move |put| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(put.tag(TENANT))
    });
    (tagged, calls)
}

fn refusal() -> Error {
    Error::Invalid { what: "no such tenant".into() }
}

/// The bodies of the ready tasks of a tube, in their order.
fn bodies(tube: &Tube) -> Vec<String> {
    let tasks = tube.query().tasks(TaskState::Ready, None, 100).unwrap().items;
    tasks.iter().map(|task| task.body.text().into_owned()).collect()
}

#[test]
fn every_form_of_put_calls_the_function_once_for_each_task() {
    with_timeout(|| {
        for_each_driver(ALL, |case| {
            let (tube, calls) = tagged(&case.tube);
            let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
            let next = || {
                other.put("next").unwrap();
                other.try_take().unwrap().unwrap()
            };
            let put = || case.draft("x");
            let session = case.store.session("").unwrap();
            let forms: [&dyn Fn(); 12] = [
                &|| _ = tube.put(put()).unwrap(),
                &|| _ = tube.put_timeout(put(), ZERO).unwrap(),
                &|| _ = block_on(tube.to_async().put_timeout(put(), NO_TIMEOUT)).unwrap(),
                &|| _ = tube.put_many([put()]).unwrap(),
                &|| _ = tube.to_async().refuse_when_full().put(put()).wait().unwrap(),
                &|| _ = tube.put_and_wait(put(), ZERO).unwrap(),
                &|| _ = tube.requeue("k", put()).unwrap(),
                &|| _ = session.tube(&tube).unwrap().put(put()).unwrap(),
                &|| _ = tube.clone().to_bytes().typed::<u8>().put(7).unwrap(),
                &|| {
                    let claim = next();
                    _ = claim.spawn("step", &tube, put()).unwrap();
                    claim.ack().unwrap();
                },
                &|| _ = next().end(Outcome::done().and_put(&tube, put())).unwrap(),
                &|| _ = next().end(Outcome::advance(&tube, put())).unwrap(),
            ];
            for (n, form) in forms.iter().enumerate() {
                let requeued = case.add(case.draft("x").key("k"));
                form();
                assert_eq!(calls.swap(0, Ordering::SeqCst), 1, "form {n}");
                let put = case.store.list(Filter::new().tag(TENANT), None, 9).unwrap().items;
                assert_eq!((put.len(), &*put[0].tube), (1, "case"), "form {n}");
                case.tube.admin().delete(Filter::new().ids([put[0].id, requeued])).unwrap();
            }
            tube.put_many((0..9).map(|_| put())).unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), 9);
        });
    });
}

/// It puts no new task.
#[test]
fn other_calls_and_other_handles_call_no_function() {
    for_each_driver(ALL, |case| {
        let (tube, calls) = tagged(&case.tube);
        let id = case.put("x");
        tube.update(id, Update::new().body("y")).unwrap();
        let mut claim = tube.try_take().unwrap().unwrap();
        claim.checkpoint("z").unwrap();
        claim.release().unwrap();
        tube.admin().restore_many([Restore::new("restored")]).unwrap();
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        other.put("moved").unwrap();
        other.admin().move_to(&tube, Filter::new()).unwrap();
        case.store.find_tube("case").unwrap().put("x").unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn functions_are_called_in_the_order_in_which_they_were_set() {
    for_each_driver(ALL, |case| {
        let appends = |tube: &Tube, text: &'static str| {
            tube.before_put(move |put| {
                Ok(put.map(|mut body| {
                    body.extend(text.as_bytes());
                    body
                }))
            })
        };
        let one = appends(&case.tube, "1");
        let two = appends(&one, "2");
        two.put(case.draft("x")).unwrap();
        // A handle has those that were set before it, and not those of handles made of it.
        one.put(case.draft("y")).unwrap();
        case.put("z");
        assert_eq!(bodies(&case.tube), ["x12", "y1", "z"]);
    });
}

#[test]
fn function_sees_options_and_the_encoded_body() {
    for_each_driver(ALL, |case| {
        let numbers = case.tube.before_put(|put| {
            assert_eq!((&**put.get_body(), put.get_key()), (&b"[1,2]"[..], Some("k")));
            assert_eq!(put.get_tags(), ["a", "b"]);
            Ok(put.on_key(OnKey::Keep))
        });
        let numbers = numbers.typed::<Vec<u8>>();
        let put = || Put::new(vec![1, 2]).key("k").tag("a").tag("b");
        let id = numbers.put(put()).unwrap().id;
        assert_eq!(numbers.put(put()).map(|receipt| receipt.id), Ok(id));
        assert_eq!(*numbers.try_take().unwrap().unwrap().value(), [1, 2]);
    });
}

#[test]
fn error_of_a_function_refuses_the_put_and_is_returned() {
    with_timeout(|| {
        for_each_driver(ALL, |case| {
            let (tagged, calls) = tagged(&case.tube);
            let picky = case
                .tube
                .before_put(|put| if put.get_body() == b"bad" { Err(refusal()) } else { Ok(put) });
            // The function behind one that refuses is not called.
            let counted = calls.clone();
            let behind = picky.before_put(move |put| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(put)
            });
            let bad = || Put::new("bad");
            assert_eq!(behind.put(bad()), Err(refusal()));
            assert_eq!(calls.load(Ordering::SeqCst), 0);
            assert_eq!(picky.put_timeout(bad(), ZERO), Err(refusal()));
            assert_eq!(picky.put_and_wait(bad(), ZERO).err(), Some(refusal()));
            assert_eq!(picky.put_many([Put::new("good"), bad()]), Err(refusal()));
            assert_eq!(picky.requeue("k", bad()), Err(refusal()));
            assert_eq!(block_on(picky.to_async().put(bad())), Err(refusal()));
            assert_eq!(picky.schedule(Schedule::every("s", secs(1)), bad()), Err(refusal()));
            assert!(!case.tasks().contains_key("total"));

            let id = case.put("work");
            for outcome in [
                Outcome::done().and_put(&picky, bad()),
                Outcome::advance(&picky, bad()),
                Outcome::advance(&tagged, "good").and_put(&picky, bad()),
            ] {
                let claim = case.tube.try_take().unwrap().unwrap();
                assert_eq!(claim.end(outcome), Err(refusal()));
                assert_eq!(case.state(id), Some(TaskState::Ready));
            }
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.spawn("step", &picky, bad()), Err(refusal()));
            claim.release().unwrap();
        });
    });
}

#[test]
fn function_is_called_for_the_task_of_a_schedule_and_not_for_its_runs() {
    for_each_driver(TIMED, |case| {
        let (tube, calls) = tagged(&case.tube);
        tube.schedule(Schedule::every("s", secs(60)), case.draft("x")).unwrap();
        case.advance(0);
        case.advance(60_000);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let runs = case.store.list(Filter::new().tag(TENANT), None, 9).unwrap().items;
        assert_eq!(runs.len(), 2);
        tube.schedules().change(Schedule::every("s", secs(30))).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        tube.schedules().change_task("s", case.draft("y")).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        // The checks of the call hold for what the function returns.
        let keyed = case.tube.before_put(|put| Ok(put.key("k")));
        let refused = keyed.schedule(Schedule::every("t", secs(60)), case.draft("x"));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        let refused = keyed.requeue("another", case.draft("x"));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    });
}

/// It runs without a lock of the store: it may make calls, also with the handle of the put.
#[test]
fn function_may_make_calls_and_add_any_option() {
    with_timeout(|| {
        for_each_driver(&[FIFOTTL], |case| {
            let tube = case.tube.clone();
            let numbered = case.tube.before_put(move |put| {
                let total = tube.statistics()?.tasks.total;
                let parent = tube.put(format!("parent {total}"))?.id;
                let put = put.after(&tube, [parent]).priority(7).key(format!("n{total}"));
                Ok(put.idempotency_key(format!("n{total}")).max_runtime(secs(9)))
            });
            for n in 0..3_u64 {
                let receipt = numbered.put("x").unwrap();
                assert_eq!((receipt.id, receipt.state), (2 * n + 1, TaskState::Blocked));
                let info = case.tube.query().task(receipt.id).unwrap().info;
                assert_eq!((info.priority, info.key), (7, Some(format!("n{}", 2 * n))));
                assert_eq!(info.max_runtime, Some(secs(9)));
            }
        });
    });
}
