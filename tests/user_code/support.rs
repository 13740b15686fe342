//! What the tests share: patience, storage whose flushes can be held up, and wakers that do things.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{FIFO, Storage, Store, Tube, TubeOptions};

/// Far longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a story that must come to an end.
pub fn in_time(story: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    let teller = thread::spawn(move || {
        let _done = done;
        story();
    });
    let ended = is_done.recv_timeout(PATIENCE);
    assert!(ended != Err(mpsc::RecvTimeoutError::Timeout), "somebody waits for ever");
    if let Err(panic) = teller.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Waits until it is so; `in_time` sees to it that this does not last for ever.
pub fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        thread::yield_now();
    }
}

/// Bytes whose flushes can be held up.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    is_held: Mutex<bool>,
    let_go: Condvar,
    flushes: AtomicU64,
    pub is_closed: AtomicBool,
}

#[derive(Debug)]
struct Plugged(Arc<Disk>);

impl Disk {
    pub fn hold(&self) {
        *self.is_held.lock().unwrap() = true;
    }

    pub fn let_go(&self) {
        *self.is_held.lock().unwrap() = false;
        self.let_go.notify_all();
    }

    /// Holds up the flush of what is done now, and returns when it has begun.
    pub fn hold_up<T>(&self, call: impl FnOnce() -> T) -> T {
        self.hold();
        let before = self.flushes.load(Ordering::SeqCst);
        let answer = call();
        until(|| self.flushes.load(Ordering::SeqCst) > before);
        answer
    }
}

impl Storage for Plugged {
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
        let held = self.0.is_held.lock().unwrap();
        self.0.flushes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.let_go.wait_while(held, |held| *held).unwrap());
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

/// A store on such a disk, with a tube.
pub fn store() -> (Arc<Disk>, Store, Tube) {
    let disk = Arc::new(Disk::default());
    let store = Store::options().open_on(Box::new(Plugged(disk.clone()))).unwrap();
    let tube = tube(&store, "work");
    (disk, store, tube)
}

pub fn tube(store: &Store, name: &str) -> Tube {
    store.create_tube(name, FIFO, TubeOptions::new()).unwrap()
}

struct Doing<F>(F);

impl<F: Fn() + Send + Sync> Wake for Doing<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that does this when it wakes.
pub fn waker(what: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Doing(what)).into()
}

/// Polls a future that has to wait.
pub fn wait_with(future: &mut (impl Future + Unpin), waker: &Waker) {
    let polled = Pin::new(future).poll(&mut Context::from_waker(waker));
    assert!(matches!(polled, Poll::Pending));
}

/// Something whose drop panics.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(thread::panicking(), "what a caller owns panics when it is dropped");
    }
}
