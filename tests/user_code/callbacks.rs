//! Callbacks, drivers, and the drop of what they own.

use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use tubewell::driver::{Driver, Traits};
use tubewell::expert::Callback;
use tubewell::{Claim, Error, FIFO, Store, Tube, TubeOptions};

use super::support::{PanicOnDrop, new_store, wait_until, with_timeout};

fn put_and_take(tube: &Tube) -> Claim {
    tube.put("claimed").unwrap();
    tube.try_take().unwrap().unwrap()
}

/// A callback that does nothing and owns a value.
fn callback_owning(value: impl Send + Sync + 'static) -> Callback {
    Arc::new(move |_| {
        let _ = &value;
    })
}

/// A callback that counts its events.
fn counting_callback(count: &Arc<AtomicU64>) -> Callback {
    let count = count.clone();
    Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

fn create_tube(store: &Store, name: &str, callback: Callback) -> Tube {
    let options = TubeOptions::new().on_task_change(move |event| callback(event));
    store.create_tube(name, options.driver(FIFO)).unwrap()
}

#[test]
fn refused_callback_releases_claim_that_it_owns() {
    with_timeout(|| {
        let (_disk, store, tube) = new_store();
        let dropped = store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
        store.drop_tube("dropped").unwrap();
        let callback = callback_owning(put_and_take(&tube));
        let refused = dropped.on_task_change(Some(callback)).map(drop);
        assert!(matches!(refused, Err(Error::TubeDropped { .. })), "{refused:?}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

/// A driver that owns a claim.
struct DriverWithClaim(#[expect(dead_code, reason = "it is only dropped")] Claim);

impl Driver for DriverWithClaim {
    fn name(&self) -> &'static str {
        FIFO
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }
}

#[test]
fn refused_driver_releases_claim_that_it_owns() {
    with_timeout(|| {
        let (_disk, store, tube) = new_store();
        let refused = store.admin().register_driver(DriverWithClaim(put_and_take(&tube)));
        assert!(matches!(refused, Err(Error::DriverExists { .. })), "{refused:?}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

#[test]
fn events_are_delivered_after_panic_payload_panics_on_drop() {
    with_timeout(|| {
        let (_disk, store, _tube) = new_store();
        let delivered = Arc::default();
        let bad = create_tube(&store, "bad", Arc::new(|_| panic_any(PanicOnDrop)));
        let good = create_tube(&store, "good", counting_callback(&delivered));
        bad.put("x").unwrap();
        good.put("y").unwrap();
        wait_until(|| delivered.load(Ordering::SeqCst) == 1);
    });
}

/// The callback is unset during its last call, which then drops it.
#[test]
fn events_are_delivered_after_callback_panics_on_drop() {
    with_timeout(|| {
        let (_disk, store, _tube) = new_store();
        let delivered = Arc::default();
        let (finish, is_finished) = mpsc::sync_channel::<()>(0);
        let owned = (PanicOnDrop, std::sync::Mutex::new(is_finished));
        let callback: Callback = Arc::new(move |_| {
            let (_, is_finished) = &owned;
            is_finished.lock().unwrap().recv().unwrap();
        });
        let bad = store.create_tube("bad", TubeOptions::new().driver(FIFO)).unwrap();
        bad.on_task_change(Some(callback)).unwrap();
        let good = create_tube(&store, "good", counting_callback(&delivered));
        bad.put("x").unwrap();
        drop(bad.on_task_change(None).unwrap());
        finish.send(()).unwrap();
        good.put("y").unwrap();
        wait_until(|| delivered.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn drop_tube_succeeds_when_its_callback_panics_on_drop() {
    with_timeout(|| {
        let (_disk, store, tube) = new_store();
        create_tube(&store, "bad", callback_owning(PanicOnDrop));
        store.drop_tube("bad").unwrap();
        tube.put("the store still works").unwrap();
    });
}

/// Puts a task when it is dropped, as a callback does that collects events in batches.
struct PutOnDrop(Tube);

impl Drop for PutOnDrop {
    fn drop(&mut self) {
        let put = self.0.put("last batch").map(drop);
        assert!(matches!(put, Ok(()) | Err(Error::Closed)), "{put:?}");
    }
}

#[test]
fn drop_tube_succeeds_when_its_callback_puts_on_drop() {
    with_timeout(|| {
        let (_disk, store, log) = new_store();
        create_tube(&store, "bad", callback_owning(PutOnDrop(log.clone())));
        store.drop_tube("bad").unwrap();
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// A callback with a handle of its own store is a reference cycle, which close must break.
#[test]
fn close_drops_callbacks() {
    with_timeout(|| {
        let (_disk, store, tube) = new_store();
        let owned = Arc::new(());
        let weak = Arc::downgrade(&owned);
        tube.on_task_change(Some(callback_owning((owned, tube.clone())))).unwrap();
        tube.put("x").unwrap();
        store.close().unwrap();
        assert!(weak.upgrade().is_none());
    });
}
