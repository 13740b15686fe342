//! Async without a runtime: the standard library is enough to await tasks and tickets, and to run a worker.
//!
//! `cargo run --example async_no_runtime`

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tubewell::{AsyncJob, Store, Worker};

/// A waker that unparks the thread of `block_on`. The flag keeps a wake-up that comes while the
/// future blocks the thread, and parks it, in a call of its own.
struct Unpark {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs one future on this thread, which is parked while the future is pending.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let thread = std::thread::current();
    let unpark = Arc::new(Unpark { thread, is_woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => {
                while !unpark.is_woken.swap(false, Ordering::Acquire) {
                    std::thread::park();
                }
            }
        }
    }
}

/// Polls a future once. `None` if it is pending.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let jobs = store.tube("jobs")?;

    // A future waits from its first poll. Dropping it is safe: a task already assigned to it is
    // released.
    let mut waiting = jobs.to_async().take();
    if poll_once(&mut waiting).is_some() {
        return Err("the tube was not empty".into());
    }
    jobs.put("first")?; // assigned to the future immediately
    if jobs.try_take()?.is_some() {
        return Err("a take overtook the waiting taker".into());
    }
    drop(waiting);
    println!("released: {} ready", jobs.statistics()?.tasks.ready);

    let (sender, seen) = mpsc::channel();
    let consume = move |job: AsyncJob| {
        let sent = sender.send(job.value().text().into_owned());
        async move { sent }
    };
    let worker = Worker::new(&store).on_async(&jobs, consume);
    let stopper = worker.stopper();
    let worker = std::thread::spawn(move || block_on(worker.run_async()));
    block_on(async {
        let deferred = jobs.to_async();
        let second = deferred.put("second");
        let third = deferred.put("third"); // both in flight, one flush for both
        second.await?;
        third.await?;
        deferred.wait_drained(Duration::MAX).await
    })?;
    stopper.stop();
    worker.join().map_err(|_| "the worker panicked")??;
    store.close()?;
    let seen: Vec<String> = seen.try_iter().collect();
    println!("consumed {}", seen.join(", "));
    if seen != ["first", "second", "third"] {
        return Err("a job was lost or delivered out of order".into());
    }
    Ok(())
}
