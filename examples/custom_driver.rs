//! A custom driver: uploads, the smallest first, one at a time for each album.
//!
//! `cargo run --example custom_driver`. A driver names its traits and implements up to three hooks,
//! which are called for a task before it is put. Verbs, states and durability are those of every
//! other tube. The takes are by hand, to show the order and the limit of the driver; a `Worker` takes from
//! such a tube as from any other.

use std::borrow::Cow;
use std::time::Duration;

use tubewell::driver::{Draft, Driver, Load, Traits};
use tubewell::{Error, Store, TubeOptions};

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

    /// The task with the least order is taken first; among equals, the one that was put first.
    fn order(&self, task: &Draft<'_>) -> u64 {
        task.body.len() as u64
    }

    /// At most one task of a sub-queue is taken at a time. The sub-queue is the first component of
    /// the path, so the callers do not name it.
    fn sub_queue<'a>(&self, task: &Draft<'a>) -> Cow<'a, str> {
        let album = task.body.split(|byte| b"/\n".contains(byte)).next().unwrap_or_default();
        String::from_utf8_lossy(album)
    }

    /// A tube created without a capacity admits 1000 tasks.
    fn admit(&self, tube: &Load) -> bool {
        let capacity = if tube.capacity == 0 { 1000 } else { tube.capacity };
        tube.total < capacity
    }
}

fn main() -> tubewell::Result<()> {
    // The file stores the name and the traits of the driver, not its code: register the driver at
    // every open.
    let store = Store::options().driver(SmallestFirst).open_in_memory()?;
    let uploads =
        store.open_tube("uploads", TubeOptions::new().capacity(4).driver("smallest-first"))?;

    for (path, size) in
        [("alps/summit.jpg", 9000), ("alps/hut.jpg", 300), ("sea/wave.jpg", 5000), ("me.jpg", 7000)]
    {
        uploads.put([path.as_bytes(), b"\n", &vec![0; size]].concat())?;
    }
    match uploads.put("one/too-many.jpg\n") {
        Err(Error::Full { capacity, .. }) => println!("no room for more than {capacity}"),
        other => println!("there was space: {:?}", other?),
    }

    // One upload of each album is taken: the larger picture of `alps` waits for the smaller one.
    let mut claims = uploads.take_many(10, Duration::MAX)?;
    for claim in &claims {
        println!("uploading {}", path_of(claim.body()));
    }
    // After the ack the first album is free again.
    claims.remove(0).ack()?;
    if let Some(claim) = uploads.try_take()? {
        println!("then      {}", path_of(claim.body()));
    }
    Ok(())
}

fn path_of(body: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(body.split(|byte| *byte == b'\n').next().unwrap_or_default())
}
