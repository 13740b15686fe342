//! Room on the disk: noticing in time that it runs out, and ballast for when it has.
//!
//! Every commit writes pages anew, an ack's as well as a put's. So no task is let in while there
//! is still room for the work that remains, and some room is held apart, as a ballast that is
//! given up when a write finds none: on it takes, acks and the sweeper go on. The idea of ballast
//! is beanstalkd's, which reserves room for a job's delete when it is put.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::platform;
use crate::sync::InnerMutex;

/// Where room can be looked for and held apart.
pub(super) trait DiskSpace: Debug + Send + Sync {
    /// As [`Storage::available`].
    fn available(&self) -> io::Result<Option<u64>>;

    /// As [`Storage::hold_ballast`].
    fn hold_ballast(&self, bytes: u64) -> io::Result<()>;

    /// As [`Storage::drop_cache`].
    fn drop_cache(&self) -> io::Result<()>;
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ballast {
    space: Box<dyn DiskSpace>,
    /// The size of the ballast, and what must be free beside it for a task to be let in.
    reserve: u64,
    /// Bytes that may be put before the disk is asked again.
    budget: AtomicU64,
    ballast: AtomicBool,
    /// Held while the ballast or the length changes.
    changing: InnerMutex<()>,
}

/// The disk is asked at least once in so many bytes.
const LARGEST_BUDGET: u64 = 8 << 20;

impl Ballast {
    /// With a ballast of so many bytes; for 0, there is always room.
    pub(super) fn new(space: Box<dyn DiskSpace>, reserve: u64) -> Ballast {
        Ballast {
            space,
            reserve,
            budget: AtomicU64::new(0),
            ballast: AtomicBool::new(false),
            changing: InnerMutex::new(()),
        }
    }

    /// Whether `bytes` more can be let in, while so many are on their way already.
    pub(super) fn admits(&self, bytes: u64, on_their_way: u64) -> bool {
        if self.reserve == 0 {
            return true;
        }
        let budgeted = self
            .budget
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes));
        budgeted.is_ok() || self.ask(bytes, on_their_way)
    }

    /// Has reads answer what is on the disk itself, where that can be done.
    pub(super) fn drop_cache(&self) {
        let _ = self.space.drop_cache();
    }

    /// Whether the ballast is there: nothing has run out of room yet.
    pub(super) fn has_ballast(&self) -> bool {
        self.reserve == 0 || self.ballast.load(Ordering::Acquire)
    }

    /// Whether there is little room left, or nobody has asked for a while.
    pub(super) fn is_short(&self) -> bool {
        self.reserve > 0 && (!self.has_ballast() || self.budget.load(Ordering::Acquire) == 0)
    }

    /// Runs a write; one that finds no room is run again on the room of the ballast.
    pub(super) fn write<T>(&self, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match write() {
            Err(error) if is_full(&error) && self.give_up_ballast() => write(),
            outcome => outcome,
        }
    }

    /// Changes the length; the ballast lies behind the end.
    pub(super) fn resize(&self, resize: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let had = self.give_up_ballast();
        let _changing = self.changing.lock();
        let resized = resize();
        if had {
            self.take_ballast();
        }
        resized
    }

    fn ask(&self, bytes: u64, on_their_way: u64) -> bool {
        let _changing = self.changing.lock();
        let held = self.ballast.load(Ordering::Acquire) || self.take_ballast();
        let free = match self.space.available() {
            Ok(Some(free)) => free,
            // Nothing is known against it.
            Ok(None) | Err(_) => u64::MAX,
        };
        let need = self.reserve.saturating_add(on_their_way).saturating_add(bytes);
        let left = free.checked_sub(need).filter(|_| held);
        self.budget.store(left.unwrap_or(0).min(LARGEST_BUDGET), Ordering::Release);
        left.is_some()
    }

    /// Where no room can be held apart, there is nothing to be had by saying so again and again.
    fn take_ballast(&self) -> bool {
        let held = match self.space.hold_ballast(self.reserve) {
            Err(error) if is_full(&error) => false,
            Ok(()) | Err(_) => true,
        };
        self.ballast.store(held, Ordering::Release);
        held
    }

    fn give_up_ballast(&self) -> bool {
        let _changing = self.changing.lock();
        self.budget.store(0, Ordering::Release);
        self.ballast.swap(false, Ordering::AcqRel) && self.space.hold_ballast(0).is_ok()
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl DiskSpace for File {
    fn available(&self) -> io::Result<Option<u64>> {
        platform::available(self)
    }

    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        platform::hold_ballast(self, bytes)
    }

    fn drop_cache(&self) -> io::Result<()> {
        platform::drop_cache(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A disk with so many bytes left, some of them held.
    #[derive(Debug, Default)]
    struct Disk {
        free: AtomicU64,
        held: AtomicU64,
        asked: AtomicU64,
    }

    impl DiskSpace for Arc<Disk> {
        fn available(&self) -> io::Result<Option<u64>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(Some(self.free.load(Ordering::SeqCst)))
        }

        fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
            let all = self.free.load(Ordering::SeqCst) + self.held.load(Ordering::SeqCst);
            let left = all.checked_sub(bytes).ok_or(io::ErrorKind::StorageFull)?;
            self.free.store(left, Ordering::SeqCst);
            self.held.store(bytes, Ordering::SeqCst);
            Ok(())
        }

        fn drop_cache(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn write(&self, bytes: u64) -> io::Result<()> {
            let left = self.free.load(Ordering::SeqCst).checked_sub(bytes);
            self.free.store(left.ok_or(io::ErrorKind::StorageFull)?, Ordering::SeqCst);
            Ok(())
        }
    }

    fn disk(free: u64) -> (Arc<Disk>, Ballast) {
        let disk = Arc::new(Disk { free: AtomicU64::new(free), ..Disk::default() });
        (disk.clone(), Ballast::new(Box::new(disk), 100))
    }

    #[test]
    fn a_disk_with_room_is_not_asked_at_every_put() {
        let (disk, ballast_space) = disk(10_000);
        for _ in 0..50 {
            assert!(ballast_space.admits(10, 0));
        }
        assert_eq!(disk.asked.load(Ordering::SeqCst), 1);
        assert_eq!(disk.held.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn nothing_is_let_in_unless_the_ballast_is_held_and_as_much_again_is_free() {
        let (disk, ballast_space) = disk(250);
        assert!(ballast_space.admits(20, 30));
        assert!(!ballast_space.admits(21, 30));
        assert!(ballast_space.has_ballast());
        disk.free.store(400, Ordering::SeqCst);
        assert!(ballast_space.admits(21, 30));
    }

    #[test]
    fn a_write_that_finds_no_room_gets_that_of_the_ballast() {
        let (disk, ballast_space) = disk(210);
        assert!(ballast_space.admits(1, 0));
        ballast_space.write(|| disk.write(105)).unwrap();
        ballast_space.write(|| disk.write(40)).unwrap();
        assert!(!ballast_space.has_ballast());
        assert!(!ballast_space.admits(1, 0));
        assert!(ballast_space.write(|| disk.write(1000)).is_err());
        disk.free.store(1000, Ordering::SeqCst);
        assert!(ballast_space.admits(1, 0));
        assert!(ballast_space.has_ballast());
    }

    #[test]
    fn a_medium_that_knows_nothing_of_room_is_not_taken_for_full() {
        #[derive(Debug)]
        struct Odd;
        impl DiskSpace for Odd {
            fn available(&self) -> io::Result<Option<u64>> {
                Err(io::ErrorKind::Unsupported.into())
            }
            fn hold_ballast(&self, _bytes: u64) -> io::Result<()> {
                Err(io::ErrorKind::Unsupported.into())
            }
            fn drop_cache(&self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(Ballast::new(Box::new(Odd), 100).admits(1 << 40, 0));
    }
}
