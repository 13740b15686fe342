//! The shortest program with a queue: open, create, put, take, ack.
//!
//! `cargo run --example hello`. Run it again: the store still exists. If it is killed between `take`
//! and `ack`, the next run takes the same task. It shows the verbs without a `Worker`, which takes and
//! acks for a program.

use tubewell::Store;

fn main() -> tubewell::Result<()> {
    let path = std::env::temp_dir().join("hello.tubewell");
    let store = Store::open(&path)?;
    let mail = store.tube("mail")?;

    mail.put("to: ann")?; // on the disk when this returns
    mail.put("to: bob")?;

    while let Some(task) = mail.try_take()? {
        println!("sending {}", String::from_utf8_lossy(task.body()));
        task.ack()?; // removes the task; dropping the claim instead makes it ready again
    }
    Ok(())
}
