//! tubewell in a tokio program: waits and tickets are plain futures, which work with `select!`,
//! `timeout` and `spawn`. tubewell itself depends on no runtime.
//!
//! `cargo run --example async_tokio`

use std::time::Duration;

use tokio::time::timeout;
use tubewell::{Store, Tube};

const ORDERS: u64 = 200;

/// Puts all orders and then awaits their flushes, which they share. No thread blocks: a put is
/// refused while too much waits to be written, and the caller then awaits some of its tickets.
async fn produce(orders: Tube) -> tubewell::Result<()> {
    let deferred = orders.to_async().refuse_when_full();
    let mut tickets = Vec::new();
    for number in 0..ORDERS {
        tickets.push(deferred.put(format!("order {number}")));
    }
    for ticket in tickets {
        ticket.await?; // the order is on the disk
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Opening and creating block for one or two flushes. No other call here blocks.
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path().join("orders.tubewell"))?;
    let orders = store.tube("orders")?;

    // A dropped ticket stops waiting. The timeout of the take itself returns `None`.
    if timeout(Duration::from_millis(20), orders.to_async().take_timeout(Duration::MAX))
        .await
        .is_ok()
    {
        return Err("the tube was not empty".into());
    }
    if orders.to_async().take_timeout(Duration::from_millis(20)).await?.is_some() {
        return Err("the tube was not empty".into());
    }
    println!("no orders yet");

    let mut producer = tokio::spawn(produce(orders.clone()));
    let mut acks = Vec::new();
    let mut producing = true;
    while producing || acks.len() < usize::try_from(ORDERS)? {
        tokio::select! {
            // `select!` drops the other future. A task already assigned to it is released.
            order = orders.to_async().take_timeout(Duration::from_secs(30)) => {
                let order = order?.ok_or("an order is missing")?;
                acks.push(order.ack());
            }
            put = &mut producer, if producing => {
                put??;
                producing = false;
            }
        }
    }
    for ack in acks {
        ack.await?; // the removal is on the disk
    }

    let tasks = orders.statistics()?.tasks;
    println!("{} orders done, {} left", tasks.done, tasks.total);
    if (tasks.done, tasks.total) != (ORDERS, 0) {
        return Err("an order was lost".into());
    }
    store.to_async().close().await?;
    Ok(())
}
