//! An expectation: its conditions, and how many tasks must meet them.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};

use super::condition::Condition;
use super::message::{self, Shown};
use super::parts::{parts, take_unlisted};
use crate::{
    Bytes, Cursor, Error, Filter, Keep, Mode, Page, Result, Task, TaskInfo, TaskState, Tube,
};

/// The maximum number of tasks of a page.
const PAGE: usize = 1000;

/// Begins an expectation: which tasks of a tube a test is about.
///
/// The filter may have the conditions of [`Query::list`](crate::Query::list), [`ids`](Filter::ids) and
/// [`key`](Filter::key); with several keys, a task has any of them. `Filter::new()` selects all tasks of the
/// tube: those that are done and kept, and its schedules, too. A [`TaskState`] selects those in this state.
///
/// The tube may be one of this process or of a connection, and its handle blocking or async. The expectation blocks
/// in both cases.
///
/// # Example
/// ```
/// use tubewell::testing::expect;
/// use tubewell::{Filter, Put, Store, TaskState};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
/// expect(&mails, Filter::new()).none();
/// let id = mails.put(Put::new("to: ann").tag("welcome"))?.id;
/// expect(&mails, TaskState::Ready).value("to: ann").one();
/// expect(&mails, Filter::new().ids([id]).tag("welcome")).one();
/// # Ok::<(), tubewell::Error>(())
/// ```
pub fn expect<'a, T, M: Mode>(tube: &Tube<T, M>, filter: impl Into<Filter>) -> Expect<'a, T> {
    let mut filter = filter.into();
    let conditions = take_unlisted(&mut filter);
    Expect { tube: tube.to_blocking(), filter, conditions }
}

/// The tasks that a test expects in a tube. From [`expect()`].
///
/// A task counts if it meets the filter and all further conditions. [`one`](Expect::one),
/// [`none`](Expect::none) and [`times`](Expect::times) look at the tube, at all pages of its tasks. They panic
/// if another number of tasks counts; the [module](crate::testing) shows the message.
#[must_use = "`one`, `none` and `times` look at the tube"]
pub struct Expect<'a, T: 'static = Bytes> {
    pub(super) tube: Tube<T>,
    /// The conditions by which the store selects tasks.
    pub(super) filter: Filter,
    /// The conditions that the store does not select by.
    pub(super) conditions: Vec<Condition<'a, T>>,
}

/// # How many
impl<'a, T> Expect<'a, T> {
    /// Asserts that exactly one task meets the conditions, and returns the task.
    ///
    /// # Panics
    /// There is none, or there are several; or an error of the store.
    ///
    /// # Example
    /// ```
    /// use tubewell::testing::expect;
    /// use tubewell::{Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?.typed::<String>();
    /// mails.put(Put::new("to: ann").key("mail 7").max_attempts(3))?;
    /// let mail = expect(&mails, Filter::new().key("mail 7")).one();
    /// assert_eq!((mail.value()?.as_str(), mail.info.attempts_left), ("to: ann", Some(3)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most tests need no more of the task")]
    #[track_caller]
    pub fn one(self) -> Task<T> {
        self.times(1).remove(0)
    }

    /// Asserts that no task meets the conditions.
    ///
    /// # Panics
    /// There are some; or an error of the store.
    #[track_caller]
    pub fn none(self) {
        self.times(0);
    }

    /// Asserts that exactly this many tasks meet the conditions, and returns them in the order of
    /// [`Query::list`](crate::Query::list): ready tasks in that of takes.
    ///
    /// # Panics
    /// There are fewer or more; or an error of the store.
    ///
    /// # Example
    /// ```
    /// use tubewell::testing::expect;
    /// use tubewell::{Put, Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?.typed::<String>();
    /// mails.put(Put::new("to: ann").priority(2))?;
    /// mails.put(Put::new("to: bob").priority(1))?;
    /// let tasks = expect(&mails, TaskState::Ready).times(2);
    /// assert_eq!([tasks[0].value()?, tasks[1].value()?], ["to: bob", "to: ann"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most tests need no more of the task")]
    #[track_caller]
    pub fn times(self, count: usize) -> Vec<Task<T>> {
        match self.look(count) {
            Ok(Ok(found)) => found,
            Ok(Err(message)) => panic!("{message}"),
            Err(error) => panic!("tube {:?}: {error}", self.tube.name()),
        }
    }

    /// The tasks that meet the conditions, if they are this many; otherwise the message.
    fn look(&self, count: usize) -> Result<Result<Vec<Task<T>>, String>> {
        let keeps_done =
            self.tube.info()?.keep_done.is_some_and(|keep| keep != Keep::new().count(0));
        if self.filter.state == Some(TaskState::Done) && !keeps_done {
            return Ok(Err(self.message(count, message::KEEPS_NO_DONE)));
        }
        let mut found = Vec::new();
        for task in self.tasks(&self.filter)? {
            if self.differences(&[], &task)?.is_empty() {
                found.push(task);
            }
        }
        if found.len() == count {
            return Ok(Ok(found));
        }
        let left = if keeps_done { 0 } else { self.tube.statistics()?.tasks.done };
        let details = message::details(found.len(), self.shown()?, left);
        Ok(Err(self.message(count, &details)))
    }

    fn message(&self, count: usize, details: &str) -> String {
        let parts = parts(&self.filter).into_iter();
        let of_filter = parts.map(|part| format!("{} {}", part.verb, part.rest));
        let others = self.conditions.iter().map(|condition| condition.words.clone());
        let words: Vec<String> = of_filter.chain(others).collect();
        let expected = message::expected(count, &words);
        format!("tube {:?}: {expected}, {details}", self.tube.name())
    }

    /// All tasks of the tube, with what is different in them.
    fn shown(&self) -> Result<Vec<Shown<T>>> {
        let mut of_filter = Vec::new();
        for part in parts(&self.filter) {
            let infos: Vec<TaskInfo> =
                all_pages(|after| self.tube.query().list(&part.filter, after, PAGE))?;
            let ids: BTreeSet<u64> = infos.iter().map(|info| info.id).collect();
            let is_met = move |task: &Task<T>| ids.contains(&task.info.id);
            of_filter.push(Condition::of_verb(part.verb, part.rest, is_met));
        }
        let shown = self.tasks(&Filter::new())?.into_iter().map(|task| {
            let differences = self.differences(&of_filter, &task)?;
            Ok(Shown { task, differences })
        });
        shown.collect()
    }

    /// What is different in a task, by the conditions `of_filter` and by all others.
    fn differences(&self, of_filter: &[Condition<'a, T>], task: &Task<T>) -> Result<Vec<String>> {
        let all = of_filter.iter().chain(&self.conditions);
        all.filter_map(|condition| condition.difference(task).transpose()).collect()
    }

    /// All tasks of the tube that a listing selects.
    fn tasks(&self, filter: &Filter) -> Result<Vec<Task<T>>> {
        all_pages(|after| self.tube.query().tasks(filter, after, PAGE))
    }
}

impl<T> Debug for Expect<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.conditions.iter().map(|it| it.words.as_str()).collect();
        f.debug_struct("Expect")
            .field("tube", &self.tube.name())
            .field("filter", &self.filter)
            .field("conditions", &words)
            .finish()
    }
}

/// The items of all pages of a listing.
fn all_pages<I>(mut page: impl FnMut(Option<Cursor>) -> Result<Page<I>>) -> Result<Vec<I>> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let Page { items: further, next, damaged } = page(after)?;
        if damaged > 0 {
            return Err(Error::corrupt(format!("{damaged} tasks of the tube cannot be read")));
        }
        items.extend(further);
        after = next;
        if after.is_none() {
            return Ok(items);
        }
    }
}
