//! Waits until a tube is drained.

use tubewell::driver::FIFO;
use tubewell::{Error, Filter, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::support::*;
use super::wait::*;
use crate::stores;

#[test]
fn wait_drained_returns_when_no_task_is_ready_taken_or_delayed() {
    for options in [TubeOptions::new(), TubeOptions::new().temporary(true)] {
        for_each_driver_with(ALL, options, |case| {
            assert_eq!(case.tube.wait_drained(NO_TIMEOUT), Ok(true));
            assert_eq!(block_on(case.tube.to_async().wait_drained(ZERO)), Ok(true));
            case.put_all([0, 1]);
            assert_eq!(case.tube.wait_drained(ZERO), Ok(false));
            let drained = [wait_drained(&case.tube), wait_drained(&case.tube_in_new_session())];
            let timed = Wait::begin(case.tube.to_async().wait_drained(secs(1)));
            assert_eq!(case.take_all(), [0, 1]);
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
            case.advance(1_000);
            assert_eq!(timed.answer(), Ok(false));
            case.tube.claimed(1).and_then(tubewell::Claim::release).unwrap();
            drained.iter().for_each(Wait::assert_waits);
            case.tube.admin().bury(1, None).unwrap();
            for wait in drained {
                assert_eq!(wait.answer(), Ok(true));
            }
            case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            let wait = wait_drained(&case.tube);
            case.tube.admin().truncate().unwrap();
            assert_eq!(wait.answer(), Ok(true));
            case.put("x");
            let wait = wait_drained(&case.tube);
            case.store.drop_tube("case").unwrap();
            assert_eq!(wait.answer(), Ok(true));
            let dropped = case.tube.wait_drained(ZERO);
            assert_eq!(dropped, Err(Error::TubeDropped { name: "case".into() }));
        });
    }
}

#[test]
fn delayed_task_keeps_its_tube_from_being_drained() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").delay(secs(1)).ttl(secs(1)));
        let wait = wait_drained(&case.tube);
        case.advance(1_999);
        wait.assert_waits();
        case.advance(1);
        assert_eq!(wait.answer(), Ok(true));
    });
}

/// Changes that become visible together: the tube is never seen empty in between.
#[test]
fn wait_drained_sees_no_state_within_a_flush() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(FIFO);
        tube.put("first").unwrap();
        let first = tube.try_take().unwrap().unwrap();
        let drained = wait_drained(&tube);
        let ballast = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let deferred = tube.to_async().refuse_when_full();
        let flush = disk.block_flush_of(|| ballast.to_async().refuse_when_full().put("flushed"));
        let ack = first.into_async().ack();
        let put = deferred.put("second");
        stores::settle(&store);
        disk.unblock_flushes();
        flush.wait().unwrap();
        ack.wait().unwrap();
        assert_eq!(put.wait().unwrap().id, 2);
        drained.assert_waits();
        tube.delete(2).unwrap();
        assert_eq!(end_of(drained), Ok(true));
        assert_sound(&store);
    });
}
