//! tubewell in a tokio program: waits, tickets and the worker are plain futures, which work with `select!`,
//! `timeout` and `spawn`. tubewell itself depends on no runtime.
//!
//! `cargo run --example async_tokio`

use std::time::Duration;

use tokio::time::timeout;
use tubewell::{AsyncJob, AsyncTube, Store, Worker};

const ORDERS: u64 = 200;

/// Puts all orders and then awaits their flushes, which they share. No thread blocks: a put is
/// refused while too much waits to be written, and the caller then awaits some of its tickets.
async fn produce(orders: AsyncTube<u64>) -> tubewell::Result<()> {
    let orders = orders.refuse_when_full();
    let tickets: Vec<_> = (0..ORDERS).map(|number| orders.put(number)).collect();
    for ticket in tickets {
        ticket.await?; // the order is on the disk
    }
    Ok(())
}

async fn ship(order: AsyncJob<u64>) -> tubewell::Result<()> {
    tokio::select! {
        () = tokio::task::yield_now() => Ok(()), // the work
        // `select!` drops the work. The order was deleted, or the worker stops: then it is ready again, and
        // the attempt does not count.
        () = order.cancelled() => order.check().await,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Opening and creating block for one or two flushes. No other call here blocks.
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path().join("orders.tubewell"))?;
    let tube = store.tube("orders")?.typed::<u64>();
    let orders = tube.to_async();

    // A dropped ticket stops waiting. The timeout of the wait itself returns `false`.
    let waits = timeout(Duration::from_millis(20), orders.wait_ready(Duration::MAX)).await;
    if waits.is_ok() || orders.wait_ready(Duration::from_millis(20)).await? {
        return Err("the tube was not empty".into());
    }
    println!("no orders yet");

    // Up to 100 orders at a time, polled by one task of tokio; `spawn_with` gives each a task of its own.
    let worker = Worker::new(&store).on_async(&tube, ship).concurrency(100);
    let stopper = worker.stopper();
    let worker = tokio::spawn(worker.run_async().stop_timeout(Duration::from_secs(5)));
    produce(orders.clone()).await?;
    orders.wait_drained(Duration::MAX).await?; // a service awaits a signal instead
    stopper.stop();
    let tally = worker.await??;

    let left = orders.statistics().await?.tasks.total;
    println!("{} orders done, {left} left", tally.done);
    if (tally.done, left) != (ORDERS, 0) {
        return Err("an order was lost".into());
    }
    store.to_async().close().await?;
    Ok(())
}
