//! Locks, threads and time whose schedule is chosen by shuttle, in the shape of the real ones.
//!
//! Only for `tests/schedules`. A timed wait never ends by itself in shuttle, so time is modelled
//! here: the system's clock stands still until [`pass`] moves it and wakes the sleepers whose time
//! is over. The engine's own locks are not explored, so nobody may be interrupted inside it.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::thread;

use crate::micros::micros_ceil;

/// A lock; as that of the real ones, it does not mind a panic.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Empty only while its owner waits for a condition.
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let Some(guard) = &self.0 else { unreachable!("nobody looks while he waits") };
        guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        let Some(guard) = &mut self.0 else { unreachable!("nobody looks while he waits") };
        guard
    }
}

/// A condition.
#[derive(Debug, Default)]
pub(crate) struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar::default()
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.0 =
            guard.0.take().map(|guard| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits at most until so much time has [passed](pass).
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) {
        let sleeper = TIME.with_borrow_mut(|time| time.begin_sleep(&self.0, most));
        self.wait(guard);
        TIME.with_borrow_mut(|time| time.parked.retain(|known| known.number != sleeper));
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock with many readers.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets others run here: what is on its way takes long.
pub(crate) fn pause() {
    // Not `yield_now`, by which a thread says that it has nothing to do.
    AtomicU64::new(0).load(Ordering::SeqCst);
}

/// The system's time, as the explored threads see it. All of them run on one real thread.
#[derive(Default)]
struct Time {
    now: u64,
    parked: Vec<Sleeper>,
    count: u64,
}

struct Sleeper {
    number: u64,
    until: u64,
    on: Arc<shuttle::sync::Condvar>,
}

impl Time {
    fn begin_sleep(&mut self, on: &Arc<shuttle::sync::Condvar>, most: Duration) -> u64 {
        self.count += 1;
        let until = self.now.saturating_add(micros_ceil(most));
        self.parked.push(Sleeper { number: self.count, until, on: on.clone() });
        self.count
    }

    fn slept_enough(&self) -> Option<Arc<shuttle::sync::Condvar>> {
        let over = self.parked.iter().find(|sleeper| sleeper.until <= self.now);
        over.map(|sleeper| sleeper.on.clone())
    }
}

thread_local! {
    static TIME: RefCell<Time> = RefCell::default();
}

/// Microseconds that have passed.
pub(crate) fn now() -> u64 {
    TIME.with_borrow(|time| time.now)
}

/// Starts time anew. To be called first in each schedule.
pub fn begin() {
    TIME.set(Time::default());
}

/// Lets time pass, and returns when everyone whose sleep is over has woken.
pub fn pass(by: Duration) {
    TIME.with_borrow_mut(|time| time.now = time.now.saturating_add(micros_ceil(by)));
    // Whoever has said that he will sleep may not sleep yet: once is not enough.
    while let Some(on) = TIME.with_borrow(Time::slept_enough) {
        on.notify_all();
        thread::yield_now();
    }
}
