//! A disk whose flushes can be blocked or fail, wakers that count or call, and a small executor.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tubewell::{
    Claim, Error, FIFO, ManualClock, Receipt, Storage, Store, StoreOptions, Ticket, Tube,
    TubeOptions, WhenFull,
};

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

/// A disk in memory. Its flushes can be blocked, and can be made to fail.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
    flushes: AtomicU64,
    fails: AtomicBool,
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

    pub fn fail_flushes(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Makes a call whose flush is blocked. Returns when that flush has begun.
    pub fn block_flush_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.block_flushes();
        let before = self.flushes.load(Ordering::SeqCst);
        let result = call();
        wait_until(|| self.flushes.load(Ordering::SeqCst) > before);
        result
    }

    pub fn open(self: &Arc<Disk>, options: StoreOptions) -> Store {
        options.open_on(Box::new(DiskStorage(Arc::clone(self)))).unwrap()
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.0.bytes.lock().unwrap(), position(offset));
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(position(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let blocked = self.0.is_blocked.lock().unwrap();
        self.0.flushes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the flush fails"));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = position(offset);
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// A store whose write buffer holds 20 rows, on a disk.
pub struct SmallBuffer {
    pub disk: Arc<Disk>,
    pub store: Store,
    pub tube: Tube,
}

impl SmallBuffer {
    pub fn new() -> SmallBuffer {
        let disk = Arc::new(Disk::default());
        let store = disk.open(Store::options().max_pending(20, 1 << 20));
        let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
        SmallBuffer { disk, store, tube }
    }

    /// Puts deferred tasks until the write buffer is full and a flush is blocked.
    pub fn fill(&self) -> Vec<Ticket<Receipt>> {
        let deferred = self.tube.deferred(WhenFull::Refuse);
        let mut tickets = vec![self.disk.block_flush_of(|| deferred.put("in flight").unwrap())];
        loop {
            match deferred.put("pending") {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => {
                    assert_eq!(error, Error::Overloaded);
                    return tickets;
                }
            }
        }
    }

    pub fn put_and_take(&self) -> Claim {
        self.tube.put("claimed").unwrap();
        self.tube.try_take().unwrap().unwrap()
    }

    pub fn assert_verified(&self) {
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
    }
}

/// Waits for all tickets, which must succeed.
pub fn wait_all<T>(tickets: impl IntoIterator<Item = Ticket<T>>) {
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

/// A store in memory with a manual clock.
pub fn timed_store() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    (Store::options().clock(&clock).open_in_memory().unwrap(), clock)
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

pub fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Polls a future, which must be pending.
pub fn poll_pending(future: &mut (impl Future + Unpin), waker: &Waker) {
    assert!(poll(future, waker).is_pending());
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

/// Counts how often its wakers are woken.
#[derive(Clone, Default)]
pub struct WakeCount(Arc<AtomicUsize>);

impl WakeCount {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub fn waker(&self) -> Waker {
        let count = self.0.clone();
        waker_calling(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    }
}
