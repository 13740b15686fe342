//! Assertions for the tests of applications: which tasks a tube must have.
//!
//! [`expect()`] names a tube and, by a [`Filter`](crate::Filter), tasks of it. The methods of [`Expect`] add
//! conditions that a filter does not have. [`one`](Expect::one), [`none`](Expect::none) and
//! [`times`](Expect::times) assert how many tasks meet all conditions, and return these tasks. A test opens a store
//! in memory, with a [`ManualClock`](crate::ManualClock) if it is about time; `docs/testing.md` is the guide.
//!
//! # Example: a mail was put
//! ```
//! use std::time::Duration;
//! use serde::{Deserialize, Serialize};
//! use tubewell::testing::expect;
//! use tubewell::{Filter, ManualClock, Put, Result, Store, TaskState, Tube};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Mail {
//!     to: String,
//! }
//!
//! /// The code to test.
//! fn sign_up(mails: &Tube<Mail>, user: &str) -> Result<()> {
//!     let mail = Mail { to: user.into() };
//!     mails.put(Put::new(&mail).tag("welcome"))?;
//!     let later = Put::new(mail).key(format!("survey {user}")).delay(Duration::from_secs(86_400));
//!     mails.put(later).map(drop)
//! }
//!
//! let store = Store::options().clock(&ManualClock::new()).open_in_memory()?;
//! let mails = store.tube("mails")?.typed::<Mail>();
//! expect(&mails, Filter::new()).none();
//!
//! sign_up(&mails, "ann")?;
//! let welcome = Filter::new().state(TaskState::Ready).tag("welcome");
//! expect(&mails, welcome).value(&Mail { to: "ann".into() }).one();
//! expect(&mails, Filter::new().key("survey ann")).delay(Duration::from_secs(86_400)).one();
//! expect(&mails, Filter::new()).times(2);
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # What a failed assertion says
//! It panics at the line of the test. The message has the expectation in words and the tasks of the tube, those
//! that differ least first, at most 20 of them. Each task has a line that says in what it differs:
//!
//! ```should_panic
//! # use tubewell::testing::expect;
//! # use tubewell::{Put, Store, TaskState};
//! # let store = Store::in_memory().unwrap();
//! let mails = store.tube("mails").unwrap().typed::<String>();
//! mails.put(Put::new("to: bob").key("mail 7")).unwrap();
//! expect(&mails, TaskState::Ready).value("to: ann").one();
//! // tube "mails": expected one task that is ready and has the value "to: ann", found none
//! // the tube has one task:
//! //   task 0 is ready, key "mail 7", body "to: bob"
//! //     differs: value "to: bob"
//! ```
//!
//! An error of the store panics, too, with its text.
//!
//! # How tasks have ended
//! A tube keeps tasks that are done only with [`keep_done`](crate::TubeOptions::keep_done). An expectation of
//! done tasks in a tube without it panics and says so, also with [`none`](Expect::none).
//!
//! A [`Worker`](crate::Worker) does the work of a test: [`run_until_idle`](crate::Worker::run_until_idle) returns
//! when nothing is left to do, and with [`limit(1)`](crate::Worker::limit) after one job.
//!
//! ```
//! use tubewell::testing::expect;
//! use tubewell::{Failure, Filter, Job, Keep, Outcome, Store, TaskState, TubeOptions, Worker};
//!
//! fn halve(job: &Job<u32>) -> Result<Outcome, Failure> {
//!     match job.value() {
//!         odd if odd % 2 == 1 => Err(Failure::new("odd", format!("{odd} has no half"))),
//!         even => Ok(Outcome::value(&(even / 2))),
//!     }
//! }
//!
//! let store = Store::in_memory()?;
//! let options = TubeOptions::new().max_attempts(1).keep_done(Keep::new());
//! let numbers = store.open_tube("numbers", options)?.typed::<u32>();
//! numbers.put_many([4, 5])?;
//!
//! Worker::new(&store).on(&numbers, halve).limit(1).run_until_idle()?; // one job
//! expect(&numbers, TaskState::Done).value(&4).result(&2).one();
//! expect(&numbers, TaskState::Ready).value(&5).one();
//!
//! Worker::new(&store).on(&numbers, halve).run_until_idle()?; // all that are left
//! let dead = expect(&numbers, Filter::new().group("odd")).one();
//! assert_eq!(dead.info.failure.unwrap().message, "5 has no half");
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # When it looks
//! An expectation does not wait. While a started worker or another thread changes the tube, a
//! test waits first: for the end of a task ([`wait_done`](crate::Tube::wait_done)), of all tasks
//! ([`wait_drained`](crate::Tube::wait_drained)), or of the worker
//! ([`WorkerHandle::stop`](crate::worker::WorkerHandle::stop)).

mod builder;
mod condition;
mod expectation;
mod message;
mod parts;

pub use expectation::{Expect, expect};
