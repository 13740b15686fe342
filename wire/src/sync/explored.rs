//! Locks, threads and time under the control of shuttle, with the interface of the real ones.
//!
//! Only for `tests/schedules`, here and in tubewell. A timed wait in shuttle never times out, so time is
//! modelled here: the clock stands still until [`pass`] advances it and wakes the threads whose timeout has
//! elapsed.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

pub use shuttle::sync::atomic::AtomicBool;
use shuttle::sync::atomic::AtomicU64;
pub use shuttle::thread;

/// A mutex; like the real one, it is not poisoned by a panic.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex that guards `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    /// Blocks until this thread has the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// What it guards, for its only user.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock unless it is held.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(Some(guard))),
            Err(TryLockError::Poisoned(poisoned)) => Some(MutexGuard(Some(poisoned.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A locked mutex. `None` only while its owner waits for a condition variable.
pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let Some(guard) = &self.0 else { unreachable!("the guard is used while its owner waits") };
        guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        let Some(guard) = &mut self.0 else {
            unreachable!("the guard is used while its owner waits")
        };
        guard
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Waits until notified.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.0 =
            guard.0.take().map(|guard| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until notified, or until `most` has [passed](pass).
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) {
        let number = TIME.with_borrow_mut(|time| time.add_timed_wait(&self.0, most));
        self.wait(guard);
        TIME.with_borrow_mut(|time| time.waits.retain(|wait| wait.number != number));
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock that guards `value`.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    /// Blocks until this thread may read.
    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until this thread may write.
    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A point at which other threads may run: the commit that follows takes long.
pub fn switch_point() {
    // Not `yield_now`, which tells shuttle that the thread has nothing to do.
    AtomicU64::new(0).load(Ordering::SeqCst);
}

/// The clock of the explored threads, which all run on one real thread.
#[derive(Default)]
struct Time {
    now: Duration,
    waits: Vec<TimedWait>,
    count: u64,
}

struct TimedWait {
    number: u64,
    until: Duration,
    condvar: Arc<shuttle::sync::Condvar>,
}

impl Time {
    fn add_timed_wait(&mut self, condvar: &Arc<shuttle::sync::Condvar>, most: Duration) -> u64 {
        self.count += 1;
        let until = self.now.saturating_add(most);
        self.waits.push(TimedWait { number: self.count, until, condvar: condvar.clone() });
        self.count
    }

    fn first_elapsed(&self) -> Option<Arc<shuttle::sync::Condvar>> {
        let elapsed = self.waits.iter().find(|wait| wait.until <= self.now);
        elapsed.map(|wait| wait.condvar.clone())
    }
}

thread_local! {
    static TIME: RefCell<Time> = RefCell::default();
}

/// The time since [`begin`].
#[must_use]
pub fn now() -> Duration {
    TIME.with_borrow(|time| time.now)
}

/// Resets the clock to zero.
pub(crate) fn begin() {
    TIME.set(Time::default());
}

/// Advances the clock, and returns when every thread whose timeout has elapsed has woken.
pub fn pass(by: Duration) {
    TIME.with_borrow_mut(|time| time.now = time.now.saturating_add(by));
    // A thread that has registered its wait may not have begun it yet: notify until it has woken.
    while let Some(condvar) = TIME.with_borrow(Time::first_elapsed) {
        condvar.notify_all();
        thread::yield_now();
    }
}
