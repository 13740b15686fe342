//! Timeouts, a storage whose flushes can be blocked, and wakers that run a closure.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{FIFO, Storage, Store, Tube, TubeOptions};

/// Far longer than any test takes that does not deadlock.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a test, which must end in time.
pub fn with_timeout(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    let runner = thread::spawn(move || {
        let _done = done;
        test();
    });
    let ended = is_done.recv_timeout(TIMEOUT);
    assert!(ended != Err(mpsc::RecvTimeoutError::Timeout), "the test deadlocks");
    if let Err(panic) = runner.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Spins until the condition is true; `with_timeout` limits how long.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A disk in memory whose flushes can be blocked.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
    flushes: AtomicU64,
    pub is_closed: AtomicBool,
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Disk {
    pub fn block_flushes(&self) {
        *self.is_blocked.lock().unwrap() = true;
    }

    pub fn unblock_flushes(&self) {
        *self.is_blocked.lock().unwrap() = false;
        self.unblocked.notify_all();
    }

    /// Makes a call whose flush is blocked. Returns when that flush has begun.
    pub fn block_flush_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.block_flushes();
        let before = self.flushes.load(Ordering::SeqCst);
        let result = call();
        wait_until(|| self.flushes.load(Ordering::SeqCst) > before);
        result
    }
}

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.0.bytes.lock().unwrap(), usize::try_from(offset).unwrap());
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let blocked = self.0.is_blocked.lock().unwrap();
        self.0.flushes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// A new store on a new disk, with the tube `work`.
pub fn new_store() -> (Arc<Disk>, Store, Tube) {
    let disk = Arc::new(Disk::default());
    let store = Store::options().open_on(Box::new(DiskStorage(disk.clone()))).unwrap();
    let tube = create_tube(&store, "work");
    (disk, store, tube)
}

pub fn create_tube(store: &Store, name: &str) -> Tube {
    store.create_tube(name, FIFO, TubeOptions::new()).unwrap()
}

struct CallOnWake<F>(F);

impl<F: Fn() + Send + Sync> Wake for CallOnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that makes this call when it is woken.
pub fn waker_calling(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(CallOnWake(call)).into()
}

/// Polls a future, which must be pending.
pub fn poll_pending(future: &mut (impl Future + Unpin), waker: &Waker) {
    let polled = Pin::new(future).poll(&mut Context::from_waker(waker));
    assert!(matches!(polled, Poll::Pending));
}

/// A value whose drop panics, except during a panic.
pub struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        assert!(thread::panicking(), "this value panics when it is dropped");
    }
}
