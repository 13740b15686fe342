//! The conditions of an expectation that a filter does not have.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::condition::Condition;
use super::expectation::Expect;
use super::message;
use crate::base::micros::{duration, micros_ceil};
use crate::base::moment::{micros_of, system_time};
use crate::text::{dates, durations};
use crate::{Ending, Task, TaskState};

/// How much of a delay may have passed when a test looks.
const PASSED: Duration = Duration::from_secs(1);

/// # Conditions that a filter does not have
impl<'a, T> Expect<'a, T> {
    /// The body equals this value. The value has the type of the tube, or a type that can be compared with
    /// it: `str` for `String`, text or bytes for [`Bytes`](crate::Bytes).
    ///
    /// # Example
    /// ```
    /// use tubewell::testing::expect;
    /// use tubewell::{Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let numbers = store.tube("numbers")?.typed::<u64>();
    /// numbers.put_many([7, 8])?;
    /// expect(&numbers, Filter::new()).value(&7).one();
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn value<V: Debug + ?Sized>(self, value: &'a V) -> Expect<'a, T>
    where
        T: PartialEq<V> + Debug,
    {
        self.with(Condition::new(format!("has the value {value:?}"), move |task| {
            Ok(match task.value() {
                Ok(found) if found == *value => None,
                Ok(found) => Some(format!("value {found:?}")),
                Err(error) => Some(format!("no value: {error}")),
            })
        }))
    }

    /// Its priority is this one.
    pub fn priority(self, priority: u32) -> Expect<'a, T> {
        self.with(Condition::new(format!("has the priority {priority}"), move |task| {
            let found = task.info.priority;
            Ok((found != priority).then(|| format!("priority {found}")))
        }))
    }

    /// It is delayed, and becomes ready after this time, by its delay, its moment or the backoff of its tube.
    ///
    /// Less than a second of it may have passed, since the clock of the machine goes on during a test. So a delay of
    /// less than a second is met by any shorter one: [`that`](Expect::that) compares
    /// [`TaskInfo::due_in`](crate::TaskInfo::due_in) exactly, with a [`ManualClock`](crate::ManualClock).
    ///
    /// # Example: the backoff after a failed attempt
    /// ```
    /// use std::time::Duration;
    /// use tubewell::testing::expect;
    /// use tubewell::{Backoff, Failure, Filter, ManualClock, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let minute = Duration::from_secs(60);
    /// let options = TubeOptions::new().backoff(Backoff::constant(minute));
    /// let pages = store.open_tube("pages", options)?;
    /// pages.put("/")?;
    /// pages.try_take()?.unwrap().fail(Failure::new("timeout", "no answer in 30 s"))?;
    /// expect(&pages, Filter::new()).delay(minute).one();
    /// clock.advance(minute);
    /// expect(&pages, Filter::new()).delay(minute).none();
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    ///
    /// # Panics
    /// The filter has another state.
    #[track_caller]
    pub fn delay(self, delay: Duration) -> Expect<'a, T> {
        self.needs_state(TaskState::Delayed, "a delay");
        let delay = duration(micros_ceil(delay));
        let words = format!("is delayed for {}", durations::text(delay));
        self.with(Condition::new(words, move |task| {
            let is_delayed = task.info.state == TaskState::Delayed;
            let Some(due_in) = task.info.due_in.filter(|_| is_delayed) else {
                return Ok(Some("not delayed".into()));
            };
            let is_met = delay.checked_sub(due_in).is_some_and(|passed| passed < PASSED);
            Ok((!is_met).then(|| format!("ready in {}", durations::text(due_in))))
        }))
    }

    /// It was put with this [moment](crate::Put::not_before). The moment may have passed.
    pub fn not_before(self, moment: SystemTime) -> Expect<'a, T> {
        // As the store keeps it.
        let moment = system_time(micros_of(moment));
        let words = format!("has the moment {}", dates::moment(moment));
        self.with(Condition::new(words, move |task| {
            Ok(match task.info.not_before {
                Some(found) if found == moment => None,
                Some(found) => Some(format!("moment {}", dates::moment(found))),
                None => Some("no moment".into()),
            })
        }))
    }

    /// Its last failure is in this group, whatever became of it since: it may wait for its next attempt, be buried,
    /// or be done. [`Filter::group`](crate::Filter::group) selects buried tasks only.
    ///
    /// # Example
    /// ```
    /// use tubewell::testing::expect;
    /// use tubewell::{Failure, Store, TaskState, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let pages = store.open_tube("pages", TubeOptions::new().max_attempts(2))?;
    /// pages.put("/")?;
    /// pages.try_take()?.unwrap().fail(Failure::new("timeout", "no answer in 30 s"))?;
    /// expect(&pages, TaskState::Ready).failure("timeout").one();
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn failure(self, group: &'a str) -> Expect<'a, T> {
        self.with(Condition::new(format!("has failed in the group {group:?}"), move |task| {
            Ok(match &task.info.failure {
                Some(found) if found.group == group => None,
                Some(found) => Some(format!("failed in the group {:?}", found.group)),
                None => Some("no failure".into()),
            })
        }))
    }

    /// It is done with this result, as JSON: what [`Outcome::value`](crate::Outcome::value) writes. A task that is
    /// done without a result has `()`. The tube must have [`keep_done`](crate::TubeOptions::keep_done).
    ///
    /// [`Tube::ending`](crate::Tube::ending) returns a result of other bytes.
    ///
    /// # Panics
    /// The value cannot be JSON, or the filter has another state than done.
    #[track_caller]
    pub fn result<R: Serialize + ?Sized>(mut self, result: &R) -> Expect<'a, T> {
        // By its text, as the result is read: the number of an `f32` depends on it.
        let text = serde_json::to_string(result);
        let expected: Value = match text.and_then(|text| serde_json::from_str(&text)) {
            Ok(expected) => expected,
            Err(error) => panic!("the result that is expected cannot be JSON: {error}"),
        };
        self.needs_state(TaskState::Done, "a result");
        self.filter.state.get_or_insert(TaskState::Done);
        let tube = self.tube.clone();
        self.with(Condition::new(format!("has the result {expected}"), move |task| {
            if task.info.state != TaskState::Done {
                return Ok(Some("no result".into()));
            }
            let Some(Ending::Done { result: found }) = tube.ending(task.info.id)? else {
                return Ok(Some("no result".into()));
            };
            let found = found.as_deref().unwrap_or(b"null");
            let is_met = serde_json::from_slice(found).is_ok_and(|found: Value| found == expected);
            Ok((!is_met).then(|| format!("result {}", message::bytes(found))))
        }))
    }

    /// It meets a condition of the test. The message has `words`, such as "is to ann".
    ///
    /// # Example
    /// ```
    /// use tubewell::testing::expect;
    /// use tubewell::{Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// mails.put(Put::new("to: ann\nhello").tag("a").tag("b"))?;
    /// expect(&mails, Filter::new())
    ///     .that("is to ann", |mail| mail.body.starts_with(b"to: ann\n"))
    ///     .that("has both tags", |mail| mail.info.tags == ["a", "b"])
    ///     .one();
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn that(self, words: &str, is_met: impl Fn(&Task<T>) -> bool + 'a) -> Expect<'a, T> {
        let words = words.to_owned();
        self.with(Condition::new(words.clone(), move |task| {
            Ok((!is_met(task)).then(|| format!("not: {words}")))
        }))
    }

    /// An expectation that no task can meet would make `none` true.
    #[track_caller]
    fn needs_state(&self, state: TaskState, what: &str) {
        if let Some(other) = self.filter.state.filter(|other| *other != state) {
            panic!("a task that is {other} has not {what}, only one that is {state} has");
        }
    }

    fn with(mut self, condition: Condition<'a, T>) -> Expect<'a, T> {
        self.conditions.push(condition);
        self
    }
}
