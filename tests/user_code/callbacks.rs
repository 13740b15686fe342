//! Callbacks and drivers, and what they own.

use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use tubewell::{Callback, Claim, Driver, Error, FIFO, Store, Traits, Tube, TubeOptions};

use super::support::{Bomb, in_time, store, until};

fn claim(tube: &Tube) -> Claim {
    tube.put("held").unwrap();
    tube.try_take().unwrap().unwrap()
}

/// A callback that does nothing and owns something.
fn owning(what: impl Send + Sync + 'static) -> Callback {
    Arc::new(move |_| {
        let _ = &what;
    })
}

fn with(store: &Store, name: &str, callback: Callback) -> Tube {
    let options = TubeOptions::new().on_task_change(move |event| callback(event));
    store.create_tube(name, FIFO, options).unwrap()
}

/// A callback that counts its events.
fn counting(count: &Arc<AtomicU64>) -> Callback {
    let count = count.clone();
    Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn a_callback_that_is_refused_gives_back_the_task_that_it_owns() {
    in_time(|| {
        let (_disk, store, tube) = store();
        let gone = store.create_tube("gone", FIFO, TubeOptions::new()).unwrap();
        store.drop_tube("gone").unwrap();
        let refused = gone.on_task_change(Some(owning(claim(&tube)))).map(drop);
        assert!(matches!(refused, Err(Error::TubeDropped { .. })), "{refused:?}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

/// A driver that owns something.
struct Owning(#[expect(dead_code, reason = "it is only dropped")] Claim);

impl Driver for Owning {
    fn name(&self) -> &'static str {
        FIFO
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }
}

#[test]
fn so_does_a_driver() {
    in_time(|| {
        let (_disk, store, tube) = store();
        let refused = store.register_driver(Owning(claim(&tube)));
        assert!(matches!(refused, Err(Error::DriverExists { .. })), "{refused:?}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

#[test]
fn a_panic_that_panics_once_more_when_it_is_dropped_does_not_end_the_callbacks() {
    in_time(|| {
        let (_disk, store, _tube) = store();
        let heard = Arc::default();
        let bad = with(&store, "bad", Arc::new(|_| panic_any(Bomb)));
        let good = with(&store, "good", counting(&heard));
        bad.put("x").unwrap();
        good.put("y").unwrap();
        until(|| heard.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn nor_does_a_callback_that_panics_when_its_last_call_drops_it() {
    in_time(|| {
        let (_disk, store, _tube) = store();
        let heard = Arc::default();
        let (go_on, wait) = mpsc::sync_channel::<()>(0);
        let owned = (Bomb, std::sync::Mutex::new(wait));
        let last_call: Callback = Arc::new(move |_| {
            let (_, wait) = &owned;
            wait.lock().unwrap().recv().unwrap();
        });
        let bad = store.create_tube("bad", FIFO, TubeOptions::new()).unwrap();
        bad.on_task_change(Some(last_call)).unwrap();
        let good = with(&store, "good", counting(&heard));
        bad.put("x").unwrap();
        drop(bad.on_task_change(None).unwrap());
        go_on.send(()).unwrap();
        good.put("y").unwrap();
        until(|| heard.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn a_tube_can_be_dropped_whose_callback_panics_then() {
    in_time(|| {
        let (_disk, store, tube) = store();
        with(&store, "bad", owning(Bomb));
        store.drop_tube("bad").unwrap();
        tube.put("the store goes on").unwrap();
    });
}

/// What a listener has gathered and not yet put: it does so at the end.
struct Rest(Tube);

impl Drop for Rest {
    fn drop(&mut self) {
        let put = self.0.put("what was gathered").map(drop);
        assert!(matches!(put, Ok(()) | Err(Error::Closed)), "{put:?}");
    }
}

#[test]
fn or_puts_something_into_another_one() {
    in_time(|| {
        let (_disk, store, log) = store();
        with(&store, "bad", owning(Rest(log.clone())));
        store.drop_tube("bad").unwrap();
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// One that calls the store has a handle of it, which the store has with it.
#[test]
fn a_closed_store_has_let_go_of_its_callbacks() {
    in_time(|| {
        let (_disk, store, tube) = store();
        let owned = Arc::new(());
        let watch = Arc::downgrade(&owned);
        tube.on_task_change(Some(owning((owned, tube.clone())))).unwrap();
        tube.put("x").unwrap();
        store.close().unwrap();
        assert!(watch.upgrade().is_none());
    });
}
