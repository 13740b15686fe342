//! Disk space: puts are refused before the disk is full, and ballast is held for when it is.
//!
//! Every commit writes new pages, an ack as well as a put. So the store refuses puts while there is
//! still space for the work that remains. It also reserves space as ballast, and releases it when a
//! write finds no space: takes, acks and the sweeper continue in it. The idea is from beanstalkd,
//! which reserves the space for a job's delete when the job is put.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::platform;
use crate::base::sync::InnerMutex;

/// A medium whose free space can be measured and reserved.
pub(super) trait DiskSpace: Debug + Send + Sync {
    /// As [`Storage::available`](super::backend::Storage::available).
    fn available(&self) -> io::Result<Option<u64>>;

    /// As [`Storage::hold_ballast`](super::backend::Storage::hold_ballast).
    fn hold_ballast(&self, bytes: u64) -> io::Result<()>;

    /// As [`Storage::drop_cache`](super::backend::Storage::drop_cache).
    fn drop_cache(&self) -> io::Result<()>;

    /// Reads around the cache of the operating system. Returns false if the medium cannot.
    fn read_from_disk(&self, offset: u64, out: &mut [u8]) -> io::Result<bool>;
}

/// The ballast of a medium, and the admission of puts by free space.
#[derive(Debug)]
pub(super) struct Ballast {
    space: Box<dyn DiskSpace>,
    /// The size of the ballast, and the bytes that must be free besides for a put to be admitted.
    reserve: u64,
    /// The bytes that may be put before the free space is measured again.
    budget: AtomicU64,
    is_held: AtomicBool,
    /// Locked while the ballast or the length changes.
    changing: InnerMutex<()>,
}

/// The free space is measured at least once in this many bytes.
const MAX_BUDGET: u64 = 8 << 20;

impl Ballast {
    /// A ballast of `reserve` bytes. With 0, every put is admitted.
    pub(super) fn new(space: Box<dyn DiskSpace>, reserve: u64) -> Ballast {
        Ballast {
            space,
            reserve,
            budget: AtomicU64::new(0),
            is_held: AtomicBool::new(false),
            changing: InnerMutex::new(()),
        }
    }

    /// Whether there is space for `bytes` more, besides the `uncommitted` bytes.
    pub(super) fn admits(&self, bytes: u64, uncommitted: u64) -> bool {
        if self.reserve == 0 {
            return true;
        }
        let budgeted = self
            .budget
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes));
        budgeted.is_ok() || self.measure(bytes, uncommitted)
    }

    /// Drops what the operating system has cached of the medium, where it can.
    pub(super) fn drop_cache(&self) {
        let _ = self.space.drop_cache();
    }

    /// Reads around the cache of the operating system. Returns false if the medium cannot.
    pub(super) fn read_from_disk(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.space.read_from_disk(offset, out)
    }

    /// Whether the ballast is held: no write has run out of space.
    pub(super) fn has_ballast(&self) -> bool {
        self.reserve == 0 || self.is_held.load(Ordering::Acquire)
    }

    /// The bytes that must be free for a put to be admitted.
    pub(super) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// The bytes that can be put before puts are refused; `None` if the free space is not known. Reserves
    /// nothing: a ballast that is not held, as before the first put, is subtracted.
    pub(super) fn headroom(&self) -> Option<u64> {
        let free = self.space.available().ok()??;
        let ballast = if self.has_ballast() { 0 } else { self.reserve };
        Some(free.saturating_sub(self.reserve).saturating_sub(ballast))
    }

    /// Whether space is short, or has not been measured recently.
    pub(super) fn is_short(&self) -> bool {
        self.reserve > 0 && (!self.has_ballast() || self.budget.load(Ordering::Acquire) == 0)
    }

    /// Runs a write. If it finds no space, releases the ballast and runs it again.
    pub(super) fn write<T>(&self, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match write() {
            Err(error) if is_full(&error) && self.release() => write(),
            outcome => outcome,
        }
    }

    /// Changes the length of the medium. The ballast is behind the end, so it is released first and
    /// reserved again afterwards.
    pub(super) fn resize(&self, resize: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let was_held = self.release();
        let _changing = self.changing.lock();
        let resized = resize();
        if was_held {
            self.hold();
        }
        resized
    }

    fn measure(&self, bytes: u64, uncommitted: u64) -> bool {
        let _changing = self.changing.lock();
        let held = self.is_held.load(Ordering::Acquire) || self.hold();
        let free = match self.space.available() {
            Ok(Some(free)) => free,
            // Unknown free space does not refuse a put.
            Ok(None) | Err(_) => u64::MAX,
        };
        let need = self.reserve.saturating_add(uncommitted).saturating_add(bytes);
        let left = free.checked_sub(need).filter(|_| held);
        self.budget.store(left.unwrap_or(0).min(MAX_BUDGET), Ordering::Release);
        left.is_some()
    }

    /// Reserves the ballast. A medium that cannot reserve space counts as holding it, so that it is
    /// not asked again.
    fn hold(&self) -> bool {
        let held = match self.space.hold_ballast(self.reserve) {
            Err(error) if is_full(&error) => false,
            Ok(()) | Err(_) => true,
        };
        self.is_held.store(held, Ordering::Release);
        held
    }

    fn release(&self) -> bool {
        let _changing = self.changing.lock();
        self.budget.store(0, Ordering::Release);
        self.is_held.swap(false, Ordering::AcqRel) && self.space.hold_ballast(0).is_ok()
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

    fn read_from_disk(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        platform::read_from_disk(self, offset, out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A disk with free and reserved bytes.
    #[derive(Debug, Default)]
    struct Disk {
        free: AtomicU64,
        held: AtomicU64,
        measured: AtomicU64,
    }

    impl DiskSpace for Arc<Disk> {
        fn available(&self) -> io::Result<Option<u64>> {
            self.measured.fetch_add(1, Ordering::SeqCst);
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

        fn read_from_disk(&self, _offset: u64, _out: &mut [u8]) -> io::Result<bool> {
            Ok(false)
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
    fn headroom_is_what_is_free_beside_reserve_and_ballast() {
        let (disk, ballast) = disk(1000);
        assert_eq!(ballast.headroom(), Some(800));
        assert!(ballast.admits(1, 0));
        assert_eq!((disk.free.load(Ordering::SeqCst), ballast.headroom()), (900, Some(800)));
    }

    #[test]
    fn admits_measures_once_while_space_is_plentiful() {
        let (disk, ballast) = disk(10_000);
        for _ in 0..50 {
            assert!(ballast.admits(10, 0));
        }
        assert_eq!(disk.measured.load(Ordering::SeqCst), 1);
        assert_eq!(disk.held.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn admits_needs_the_ballast_and_as_much_again_free() {
        let (disk, ballast) = disk(250);
        assert!(ballast.admits(20, 30));
        assert!(!ballast.admits(21, 30));
        assert!(ballast.has_ballast());
        disk.free.store(400, Ordering::SeqCst);
        assert!(ballast.admits(21, 30));
    }

    #[test]
    fn write_without_space_releases_the_ballast() {
        let (disk, ballast) = disk(210);
        assert!(ballast.admits(1, 0));
        ballast.write(|| disk.write(105)).unwrap();
        ballast.write(|| disk.write(40)).unwrap();
        assert!(!ballast.has_ballast());
        assert!(!ballast.admits(1, 0));
        assert!(ballast.write(|| disk.write(1000)).is_err());
        disk.free.store(1000, Ordering::SeqCst);
        assert!(ballast.admits(1, 0));
        assert!(ballast.has_ballast());
    }

    #[test]
    fn medium_with_unknown_space_admits_everything() {
        #[derive(Debug)]
        struct UnknownSpace;
        impl DiskSpace for UnknownSpace {
            fn available(&self) -> io::Result<Option<u64>> {
                Err(io::ErrorKind::Unsupported.into())
            }
            fn hold_ballast(&self, _bytes: u64) -> io::Result<()> {
                Err(io::ErrorKind::Unsupported.into())
            }
            fn drop_cache(&self) -> io::Result<()> {
                Ok(())
            }
            fn read_from_disk(&self, _offset: u64, _out: &mut [u8]) -> io::Result<bool> {
                Ok(false)
            }
        }
        let ballast = Ballast::new(Box::new(UnknownSpace), 100);
        assert!(ballast.admits(1 << 40, 0));
        assert_eq!(ballast.headroom(), None);
    }
}
