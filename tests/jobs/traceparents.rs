//! Where a task belongs in a trace: `Put::traceparent`.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::{Restore, Salvaged};
use tubewell::{
    Error, Failure, Filter, OnKey, Outcome, Put, Schedule, StoreOptions, Tube, TubeOptions, Update,
};

use super::files::create_with;
use super::support::*;
use crate::stores;

pub(super) const HERE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const THERE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn traced() -> Put<&'static str> {
    Put::new("x").traceparent(HERE)
}

fn shown(tube: &Tube, id: u64) -> Option<String> {
    tube.query().task(id).unwrap().info.traceparent
}

#[test]
fn holder_of_a_task_reads_its_traceparent() {
    for_each_driver(ALL, |case| {
        let id = case.add(traced());
        let plain = case.put("plain");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.traceparent().as_deref()), (id, Some(HERE)));
        claim.ack().unwrap();
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.traceparent()), (plain, None));
    });
}

#[test]
fn other_texts_are_refused() {
    let other_version = HERE.replacen("00", "01", 1);
    let zeros = format!("00-{}-{}-01", "0".repeat(32), "1".repeat(16));
    let capitals = HERE.to_uppercase();
    let long = format!("{HERE}-{}", "x".repeat(10_000));
    for_each_driver(ALL, |case| {
        for text in ["", "4bf92f35", &other_version, &zeros, &capitals, &long] {
            let put = || case.draft("x").traceparent(text);
            for error in [
                case.tube.put(put()).unwrap_err(),
                case.tube.to_async().put(put()).wait().unwrap_err(),
                case.tube.put_many([case.draft("y"), put()]).unwrap_err(),
                case.tube.put_timeout(put(), ZERO).unwrap_err(),
                case.tube.put_and_wait(put(), ZERO).unwrap_err(),
                case.tube.requeue("k", put()).unwrap_err(),
                case.tube.schedule(Schedule::every("s", secs(1)), put()).unwrap_err(),
                case.tube.admin().restore_many([Restore::new(put())]).unwrap_err(),
            ] {
                let Error::Invalid { what } = &error else { panic!("{error:?}") };
                assert!(what.contains("is not a traceparent; write 00-<32 hex digits>-"), "{what}");
                assert!(what.len() < 300, "{what}");
            }
        }
        assert!(!case.tasks().contains_key("total"));
    });
}

#[test]
fn run_of_a_schedule_has_none() {
    for_each_driver(TIMED, |case| {
        let every = || Schedule::every("s", secs(60));
        let refused = case.tube.schedule(every(), traced()).unwrap_err();
        assert!(refused.to_string().contains("it begins a trace of its own"), "{refused}");
        case.tube.schedule(every(), case.draft("x")).unwrap();
        case.advance(0);
        assert_eq!(case.tube.try_take().unwrap().unwrap().traceparent(), None);
    });
}

#[test]
fn traceparent_stays_as_it_was_whatever_becomes_of_the_task() {
    for_each_driver(TIMED, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let id = case.add(traced().key("k"));
        let take = || case.tube.try_take().unwrap().unwrap();
        take().release().unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        take().fail(Failure::new("net", "no host")).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        take().checkpoint("half").unwrap();
        take().bury(None).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        case.tube.kick(id).unwrap();
        case.tube.update(id, Update::new().body("y").tags(["red"])).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(1));
        assert_eq!(shown(&other, id), Some(HERE.to_owned()));
        other.try_take().unwrap().unwrap().end(Outcome::advance(&case.tube, "z")).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        take().end(Outcome::advance_unchanged(&case.tube)).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        let next = Put::new("z").traceparent(THERE);
        take().end(Outcome::advance(&case.tube, next)).unwrap();
        assert_eq!(shown(&case.tube, id).as_deref(), Some(THERE));
    });
}

#[test]
fn put_that_replaces_the_task_replaces_its_traceparent() {
    for_each_driver(ALL, |case| {
        let id = case.add(traced().key("k"));
        let kept = case.draft("y").key("k").on_key(OnKey::Keep).traceparent(THERE);
        case.tube.put(kept).unwrap();
        assert_eq!(shown(&case.tube, id), Some(HERE.to_owned()));
        case.tube.requeue("k", case.draft("y").traceparent(THERE)).unwrap();
        assert_eq!(shown(&case.tube, id).as_deref(), Some(THERE));
        case.tube.put(case.draft("z").key("k").on_key(OnKey::Replace)).unwrap();
        assert_eq!(shown(&case.tube, id), None);
    });
}

#[test]
fn tasks_of_every_form_of_put_have_their_traceparent() {
    for_each_driver(ALL, |case| {
        let tube = &case.tube;
        tube.put_many([traced()]).unwrap();
        tube.put_timeout(traced(), ZERO).unwrap();
        tube.put_and_wait(traced(), ZERO).unwrap();
        tube.admin().restore_many([Restore::new(traced()).takes(3)]).unwrap();
        case.put("without");
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        other.put("x").unwrap();
        let claim = other.try_take().unwrap().unwrap();
        claim.spawn("child", tube, traced()).unwrap();
        claim.end(Outcome::done().and_put(tube, traced())).unwrap();
        let items = tube.query().list(Filter::new(), None, 10).unwrap().items;
        let traced = items.iter().filter(|task| task.traceparent.as_deref() == Some(HERE));
        assert_eq!((items.len(), traced.count()), (7, 6));
    });
}

#[test]
fn function_before_a_put_sees_and_sets_it() {
    for_each_driver(ALL, |case| {
        let tube = case.tube.before_put(|put| match put.get_traceparent() {
            None => Ok(put.traceparent(THERE)),
            Some(_) => Ok(put),
        });
        let own = tube.put(traced()).unwrap().id;
        let other = tube.put("x").unwrap().id;
        assert_eq!(shown(&tube, own), Some(HERE.to_owned()));
        assert_eq!(shown(&tube, other).as_deref(), Some(THERE));
    });
}

#[test]
fn traceparent_survives_a_restart_and_a_salvage() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFOTTL, TubeOptions::new());
    let id = tube.put(traced()).unwrap().id;
    let plain = tube.put("plain").unwrap().id;
    drop(tube);
    let store = file.reopen_after(store, secs(5));
    let tube = store.find_tube("case").unwrap();
    assert_eq!((shown(&tube, id), shown(&tube, plain)), (Some(HERE.to_owned()), None));
    assert_sound(&store);
    drop(tube);
    stores::close(&store);
    let mut found = Vec::new();
    StoreOptions::default()
        .clock(&file.clock)
        .salvage(file.path(), |what| {
            if let Salvaged::Task { task, .. } = what {
                found.push(task.info.traceparent);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(found, [Some(HERE.to_owned()), None]);
}
