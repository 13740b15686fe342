//! A driver of one's own: uploads, the smallest first, one at a time for each album.
//!
//! `cargo run --example custom_driver`. A driver says which stock parts it is made of and answers
//! up to three questions about a task that is about to be put. The verbs, their states and what
//! survives a crash are those of every other tube: there is nothing to write for them.

use std::borrow::Cow;

use tubewell::{Draft, Driver, Error, Load, Store, Traits, TubeOptions};

/// Bodies are a path, a line feed, and the picture.
struct SmallestFirst;

impl Driver for SmallestFirst {
    fn name(&self) -> &'static str {
        "smallest-first"
    }

    /// With sub-queues and a capacity; without priorities, delays and times to live.
    fn traits(&self) -> Traits {
        Traits { timed: false, sub_queued: true, bounded: true }
    }

    /// The least is taken first; of equal ones, the one that was put first.
    fn order(&self, task: &Draft<'_>) -> u64 {
        task.body.len() as u64
    }

    /// Of tasks with the same answer one is taken at a time. The callers need not name a sub-queue:
    /// it is the first component of the path.
    fn sub_queue<'a>(&self, task: &Draft<'a>) -> Cow<'a, str> {
        let album = task.body.split(|byte| b"/\n".contains(byte)).next().unwrap_or_default();
        String::from_utf8_lossy(album)
    }

    /// A tube that was created without a capacity has room for a thousand tasks, not for any number.
    fn admit(&self, tube: &Load) -> bool {
        let capacity = if tube.capacity == 0 { 1000 } else { tube.capacity };
        tube.total < capacity
    }
}

fn main() -> tubewell::Result<()> {
    // The tube remembers the name of its driver only. A program that opens the store registers the
    // driver first, or the tube waits for it.
    let store = Store::options().driver(SmallestFirst).open_in_memory()?;
    let uploads = store.create_tube("uploads", "smallest-first", TubeOptions::new().capacity(4))?;

    for (path, size) in
        [("alps/summit.jpg", 9000), ("alps/hut.jpg", 300), ("sea/wave.jpg", 5000), ("me.jpg", 7000)]
    {
        uploads.put([path.as_bytes(), b"\n", &vec![0; size]].concat())?;
    }
    match uploads.put("one/too-many.jpg\n") {
        Err(Error::Full { capacity, .. }) => println!("no room for more than {capacity}"),
        other => println!("there was room: {:?}", other?),
    }

    // Three workers take at once: the larger picture of the alps waits for the smaller one.
    let mut held = uploads.take_many(10, None)?;
    for claim in &held {
        println!("uploading {}", path_of(claim.data()));
    }
    // The first is done; its album is free again.
    held.remove(0).ack()?;
    if let Some(claim) = uploads.try_take()? {
        println!("then      {}", path_of(claim.data()));
    }
    Ok(())
}

fn path_of(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(body.split(|byte| *byte == b'\n').next().unwrap_or_default())
}
