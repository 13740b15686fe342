//! An embedded, persistent task queue: tubes of tasks inside your own process, in one file.
//!
//! There is no server, no runtime and no polling. A put or an ack that has returned is on the disk,
//! and callers at the same time share one flush; a take writes nothing; an idle store does nothing at
//! all. What follows is all that most programs need, in five minutes.
//!
//! # Open, put, take, ack
//!
//! A [`Store`] is a file that one process owns. It holds tubes: a [`Tube`] is a named queue that a
//! driver runs, here the plainest one, [`FIFO`].
//!
//! ```
//! use std::time::Duration;
//! use tubewell::{FIFO, Store, TubeOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("app.tubewell");
//! let store = Store::open(&path)?;
//! let mail = store.create_tube("mail", FIFO, TubeOptions::new().if_not_exists(true))?;
//!
//! mail.put("to: ann")?; // on the disk when this returns
//! mail.put_many(["to: bob", "to: cem"])?; // both or neither, with one flush
//!
//! while let Some(task) = mail.take(Duration::ZERO)? {
//!     println!("sending {}", String::from_utf8_lossy(task.data()));
//!     task.ack()?; // done, and gone for good
//! }
//! # assert_eq!(mail.statistics()?.tasks.done, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handles are cheap to clone and may be used from any thread. A body is bytes; [`Tube::typed`] puts
//! values of any serde type on top.
//!
//! # If the worker fails
//!
//! [`take`](Tube::take) hands out a [`Claim`]. Dropped without an [`ack`](Claim::ack), as by a `?` or a
//! panic, it gives the task back. [`release`](Claim::release) does so on purpose, and
//! [`bury`](Claim::bury) sets aside what would only fail again, until somebody [kicks](Tube::kick) it.
//!
//! ```
//! # use std::time::Duration;
//! # use tubewell::{FIFO, State, Store, TubeOptions};
//! # let store = Store::in_memory()?;
//! # let mail = store.create_tube("mail", FIFO, TubeOptions::new())?;
//! mail.put("to: nobody")?;
//!
//! let task = mail.try_take()?.unwrap();
//! drop(task); // the task is ready again, in its old place
//!
//! let task = mail.try_take()?.unwrap();
//! assert_eq!(task.takes(), 2);
//! task.bury()?;
//! assert!(mail.try_take()?.is_none());
//! assert_eq!(mail.list(State::Buried, None, 10)?.tasks.len(), 1);
//!
//! mail.kick(1)?;
//! # assert!(mail.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! If the whole process dies, the task is ready at the next open: a task is delivered at least once,
//! and the work should bear to be done twice. If a worker hangs, its hold ends (the *ttr* below), and
//! whatever it says afterwards is refused with [`NotTaken`](Error::NotTaken): it cannot finish a task
//! that somebody else has by now. Long work [renews](Claim::renew) its hold.
//!
//! # Waiting
//!
//! A take waits as long as it is told, and `None` is for ever. Who waits is served in order of
//! arrival and wakes within microseconds; [`close`](Store::close) ends every wait.
//!
//! ```
//! # use std::time::Duration;
//! # use tubewell::{Error, FIFO, Store, TubeOptions};
//! # let store = Store::in_memory()?;
//! # let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
//! std::thread::scope(|scope| {
//!     let worker = scope.spawn(|| {
//!         loop {
//!             match jobs.take(None) {
//!                 Ok(Some(job)) => job.ack()?,
//!                 Ok(None) | Err(Error::Closed) => return Ok(()),
//!                 Err(error) => return Err(error),
//!             };
//!         }
//!     });
//!     jobs.put("one")?;
//!     jobs.put("two")?;
//! #   let events = store.subscribe(100);
//! #   while jobs.statistics()?.tasks.total > 0 && events.recv().is_some() {}
//!     store.close()?;
//!     worker.join().unwrap()
//! })
//! # .map(|()| assert_eq!(store.statistics()["jobs"].tasks.done, 2))
//! # ?; Ok::<(), Error>(())
//! ```
//!
//! [`take_async`](Tube::take_async) is the same as a future, for any runtime or none;
//! [`take_any`](Store::take_any) waits in several tubes.
//!
//! # Priorities, delays, times to live
//!
//! The timed drivers, such as [`FIFOTTL`], know four options, each for a task or as the default of its
//! tube: *pri*, 0 first; *delay* before it is ready; *ttl*, how long it lives; and *ttr*, how
//! long a take may hold it.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::{FIFOTTL, Put, Store, TubeOptions};
//!
//! # let store = Store::in_memory()?;
//! let options = TubeOptions::new().pri(100).ttr(Duration::from_secs(30));
//! let jobs = store.create_tube("jobs", FIFOTTL, options)?;
//! jobs.put("some time")?;
//! jobs.put(Put::new("at once").pri(0))?;
//! jobs.put(Put::new("tomorrow").delay(Duration::from_secs(86_400)))?;
//! jobs.put(Put::new("today or never").ttl(Duration::from_secs(86_400)))?;
//!
//! let job = jobs.try_take()?.unwrap();
//! assert_eq!(job.data(), b"at once");
//! job.release(Duration::from_secs(10))?; // it failed: again in ten seconds
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Sub-queues and capacity
//!
//! In a [`UTUBE`] or a [`UTUBETTL`] at most one task of each sub-queue is taken at a time: one page of
//! a host, one order of a customer. A [`LIMFIFOTTL`] has a capacity, and [`put_wait`](Tube::put_wait)
//! waits for room. For other rules, write a [`Driver`].
//!
//! ```
//! use tubewell::{Put, Store, TubeOptions, UTUBE};
//!
//! # let store = Store::in_memory()?;
//! let pages = store.create_tube("pages", UTUBE, TubeOptions::new())?;
//! pages.put(Put::new("/a").sub_queue("example.org"))?;
//! pages.put(Put::new("/b").sub_queue("example.org"))?;
//! pages.put(Put::new("/c").sub_queue("example.com"))?;
//!
//! let first = pages.try_take()?.unwrap();
//! let second = pages.try_take()?.unwrap();
//! assert_eq!((first.data(), second.data()), (&b"/a"[..], &b"/c"[..]));
//! assert!(pages.try_take()?.is_none()); // /b waits for /a
//! first.ack()?;
//! assert!(pages.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Sessions
//!
//! Claims belong to a [`Session`], by default to the store's own. One of its own is for a client whose
//! end is to give back what it held, however many tasks that is: a connection, a plug-in, a window.
//!
//! ```
//! # use tubewell::{FIFO, Store, TubeOptions};
//! # let store = Store::in_memory()?;
//! # let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
//! jobs.put_many(["one", "two"])?;
//! let client = store.session();
//! let theirs = client.tube("jobs")?;
//! let one = theirs.try_take()?.unwrap().detach(); // the session's now, to be acked by its id
//! let _two = theirs.try_take()?.unwrap().detach();
//! theirs.ack(one.info.id)?;
//!
//! client.end()?; // or when its last handle is gone, at once or after a grace
//! assert_eq!(jobs.statistics()?.tasks.ready, 1);
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Many calls on one thread
//!
//! A [deferred](Tube::deferred) call is decided at once and answers with a [`Ticket`], to be waited for
//! or awaited. One thread can have hundreds under way, which share their flushes.
//!
//! ```
//! use tubewell::WhenFull;
//! # use tubewell::{FIFO, Store, TubeOptions};
//! # let store = Store::in_memory()?;
//! # let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
//!
//! let deferred = jobs.deferred(WhenFull::Block);
//! let tickets: Vec<_> = (0..500).map(|n| deferred.put(format!("job {n}"))).collect();
//! for ticket in tickets {
//!     ticket?.wait()?; // on the disk
//! }
//! # assert_eq!(jobs.statistics()?.tasks.ready, 500);
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # What may be lost
//!
//! By default nothing that was acknowledged: not by a killed process, not by a power cut. Where a
//! little may be lost, say so: a [relaxed](Durability::Relaxed) tube answers at once and flushes
//! within 50 ms, or as you set it, and a [temporary](TubeOptions::temporary) one lives in memory.
//!
//! ```
//! use tubewell::Durability;
//! # use tubewell::{FIFO, Store, TubeOptions};
//! # let store = Store::in_memory()?;
//!
//! let options = TubeOptions::new().durability(Durability::relaxed());
//! let clicks = store.create_tube("clicks", FIFO, options)?;
//! clicks.put("at 3, 4")?; // does not wait
//! store.flush()?; // now it is on the disk
//! store.close()?; // flushes too, and says if that failed
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Time in tests
//!
//! A [`ManualClock`] stands still until it is moved, and then all that falls due on the way is done
//! before the call returns. Nothing sleeps, and a day takes no time.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
//!
//! let clock = ManualClock::new();
//! let store = Store::options().clock(&clock).open_in_memory()?;
//! let calls = store.create_tube("calls", FIFOTTL, TubeOptions::new())?;
//! calls.put(Put::new("wake up").delay(Duration::from_secs(8 * 3600)))?;
//!
//! assert!(calls.try_take()?.is_none());
//! clock.advance(Duration::from_secs(8 * 3600));
//! assert!(calls.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Further
//!
//! [`Statistics`] are exact and cost nothing; [`Store::subscribe`] and [`Tube::on_task_change`] tell
//! what happens; [`Store::verify`] checks the file, and [`StoreOptions::compact`] shrinks it;
//! [`Store::backup`] copies it, and [`StoreOptions::salvage`] reads what is left of a damaged one. An
//! [`Error`] says what is true after it. Every verb's states, waits, losses and errors are in
//! `docs/semantics.md`, and whole programs in `examples/`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod backup;
mod claim;
mod clock;
mod codec;
mod commit;
mod core;
mod deferred;
mod error;
mod events;
mod handle;
mod id_map;
mod micros;
mod options;
mod pipeline;
mod random;
mod salvage;
mod session;
mod session_id;
mod statistics;
mod storage;
mod store;
mod sync;
mod task;
mod tube;
mod typed;
mod user_code;
mod wait;

/// What a driver of your own needs; see [`Store::register_driver`].
pub mod driver {
    pub use tubewell_drivers::{
        Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Load, Traits, UTUBE, UTUBETTL,
    };
}

/// Time as `tests/schedules` moves it.
#[cfg(shuttle)]
#[doc(hidden)]
pub mod explored {
    pub use crate::sync::explored::{begin, pass};
}

pub use claim::Claim;
pub use clock::{Clock, ManualClock};
pub use deferred::{Deferred, Refused, Ticket};
pub use driver::{Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Load, Traits, UTUBE, UTUBETTL};
pub use error::{Error, Result};
pub use events::{Callback, Event, EventKind, EventStream, Subscription};
pub use options::{Durability, TubeOptions, WhenFull};
pub use salvage::{Salvaged, SalvagedTube};
pub use session::Session;
pub use session_id::SessionId;
pub use statistics::{CallCounts, Statistics, TaskCounts, TubeInfo};
pub use storage::Storage;
pub use store::{ClockReport, Counters, Store, StoreOptions};
pub use task::{Cursor, Page, Put, Receipt, State, Task, TaskInfo};
pub use tube::Tube;
pub use tubewell_drivers::{
    BODY_MAX as MAX_BODY, SUB_QUEUE_MAX as MAX_SUB_QUEUE, TUBE_NAME_MAX as MAX_TUBE_NAME,
};
#[cfg(feature = "json")]
pub use typed::Json;
pub use typed::{Bincode, Codec, TypedClaim, TypedDeferred, TypedTask, TypedTube};
pub use wait::{CallFuture, TakeFuture};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/reliability.md")]
struct Reliability;

#[cfg(doctest)]
#[doc = include_str!("../docs/semantics.md")]
struct Semantics;
