//! Workers: they take the tasks of tubes, call a function for each of them, and end the tasks as the
//! functions say.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::worker::{Job, Worker};
//! use tubewell::{FIFO, Store, TubeOptions};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #   let store = Store::in_memory()?;
//! #   let _ = || -> tubewell::Result<Store> {
//!     let store = Store::open("app.tubewell")?;
//! #   Ok(store) };
//!     let options = || TubeOptions::new().if_not_exists(true).max_attempts(5);
//!     let mails = store.create_tube("mails", FIFO, options())?.typed::<String>();
//!     let films = store.create_tube("films", FIFO, options())?;
//!     mails.put(&"to: ann".into())?;
//!     let send = |job: &Job<String>| println!("sending {}", job.value());
//!     let encode = |job: &Job| println!("encoding {} bytes", job.data().len());
//!     let worker = Worker::new(&store).on(&mails, send).on(&films, encode).concurrency(4).start()?;
//! #   while mails.statistics()?.tasks.done == 0 { std::thread::yield_now(); }
//!     worker.stop(Duration::from_secs(30))?; // for instance after a signal
//!     Ok(())
//! }
//! ```

mod builder;
mod ends;
mod future;
mod handle;
mod idle;
mod job;
mod lane;
mod order;
mod outcome;
mod pause;
mod pool;
mod report;
mod source;
mod spawned;
mod stopper;

pub use builder::Worker;
pub use future::WorkerFuture;
pub use handle::WorkerHandle;
pub use job::{Cancelled, Job};
pub use order::Order;
pub use outcome::{IntoOutcome, Outcome};
pub use report::{Ended, Left, Report, Tally};
pub use source::Source;
pub use stopper::Stopper;
