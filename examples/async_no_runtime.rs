//! Futures without a runtime: the standard library is enough to wait for tasks and tickets.
//!
//! `cargo run --example async_no_runtime`

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tubewell::{Error, FIFO, Store, Tube, TubeOptions, WhenFull};

/// Wakes the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs one future on this thread, which sleeps whenever there is nothing to do.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Looks at a future once. `None` if it has no answer yet.
fn look<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Works until the store is closed; answers with the bodies in the order in which they came.
async fn consume(jobs: Tube) -> tubewell::Result<Vec<String>> {
    let mut seen = Vec::new();
    loop {
        match jobs.take_async(None).await {
            Ok(Some(job)) => {
                seen.push(String::from_utf8_lossy(job.data()).into_owned());
                job.ack_deferred(WhenFull::Block)?.await?;
            }
            Ok(None) | Err(Error::Closed) => return Ok(seen),
            Err(error) => return Err(error),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;

    // A future stands in line from its first poll on, and leaves the line when it is dropped, even
    // if it was given a task by then: the task goes back and nothing is lost.
    let mut wait = jobs.take_async(None);
    if look(&mut wait).is_some() {
        return Err("there was nothing to take".into());
    }
    jobs.put("first")?; // handed to the future at once
    if jobs.try_take()?.is_some() {
        return Err("a take overtook the one that waited".into());
    }
    drop(wait);
    println!("given back: {} ready", jobs.statistics()?.tasks.ready);

    let consumer = std::thread::spawn({
        let jobs = jobs.clone();
        move || block_on(consume(jobs))
    });
    block_on(async {
        let deferred = jobs.deferred(WhenFull::Block);
        let second = deferred.put("second")?;
        let third = deferred.put("third")?; // both under way, one flush for both
        second.await?;
        third.await.map(|_| ())
    })?;

    // Let it finish, then end its wait.
    let events = store.subscribe(100);
    let patience = Duration::from_secs(30);
    while jobs.statistics()?.tasks.total > 0 && events.recv_timeout(patience).is_some() {}
    store.close()?;
    let seen = consumer.join().map_err(|_| "the consumer panicked")??;
    println!("consumed {}", seen.join(", "));
    if seen != ["first", "second", "third"] {
        return Err("a job was lost, or came out of order".into());
    }
    Ok(())
}
