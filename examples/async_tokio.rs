//! The queue in a tokio program: waits and tickets are plain futures, so they go into `select!`,
//! `timeout` and tasks like any other. tubewell itself depends on no runtime.
//!
//! `cargo run --example async_tokio`

use std::time::Duration;

use tokio::time::timeout;
use tubewell::{FIFO, Store, Tube, TubeOptions, WhenFull};

const ORDERS: u64 = 200;

/// Puts all orders and then awaits their flushes, which they share. No thread blocks: if too much
/// waits to be written, the put is refused, and the answer is to await what is under way.
async fn produce(orders: Tube) -> tubewell::Result<()> {
    let deferred = orders.deferred(WhenFull::Refuse);
    let mut tickets = Vec::new();
    for number in 0..ORDERS {
        tickets.push(deferred.put(format!("order {number}"))?);
    }
    for ticket in tickets {
        ticket.await?; // the order is on the disk
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Opening, creating and closing block for a flush or two; everything else here does not.
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path().join("orders.tubewell"))?;
    let orders = store.create_tube("orders", FIFO, TubeOptions::new())?;

    // A wait that is given up leaves the line. tubewell's own timeout says the same with `None`.
    if timeout(Duration::from_millis(20), orders.take_async(None)).await.is_ok() {
        return Err("there was nothing to take".into());
    }
    if orders.take_async(Duration::from_millis(20)).await?.is_some() {
        return Err("there was nothing to take".into());
    }
    println!("no orders yet");

    let mut producer = tokio::spawn(produce(orders.clone()));
    let mut acks = Vec::new();
    let mut producing = true;
    while producing || acks.len() < usize::try_from(ORDERS)? {
        tokio::select! {
            // The branch that loses is dropped. A task that it was just given goes back.
            order = orders.take_async(Duration::from_secs(30)) => {
                let order = order?.ok_or("an order is missing")?;
                acks.push(order.ack_deferred(WhenFull::Refuse)?);
            }
            put = &mut producer, if producing => {
                put??;
                producing = false;
            }
        }
    }
    for ack in acks {
        ack.await?; // the task is gone for good
    }

    let tasks = orders.statistics()?.tasks;
    println!("{} orders done, {} left", tasks.done, tasks.total);
    if (tasks.done, tasks.total) != (ORDERS, 0) {
        return Err("an order was lost".into());
    }
    // Closing waits for the last flush: not on a thread that runs futures.
    tokio::task::spawn_blocking(move || store.close()).await??;
    Ok(())
}
