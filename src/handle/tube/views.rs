//! The views of a tube: `Query` reads, `Admin` and `Schedules` have the calls of an operator.

use std::fmt::{Debug, Formatter, Result};

use super::Tube;
use crate::{Blocking, Bytes, Mode};

/// Looks at the tasks of a tube, and changes nothing. From [`Tube::query`].
///
/// No call takes a task, or waits for one. [`task`](Query::task), [`task_info`](Query::task_info),
/// [`history`](Query::history), [`steps`](Query::steps) and [`first_steps`](Query::first_steps) wait for the flush of a
/// change of their task. The other calls do not block, and include changes whose flush is not done.
///
/// # Example
/// ```
/// use tubewell::{Store, TaskState};
///
/// let store = Store::in_memory()?;
/// let jobs = store.tube("jobs")?;
/// jobs.put_many(["a", "b", "c"])?;
/// jobs.admin().bury(1, None)?;
/// assert_eq!(jobs.query().next(1)?[0].id, 0); // the next take gets it
/// assert_eq!(jobs.query().tasks(TaskState::Buried, None, 10)?.items[0].body, b"b");
/// # Ok::<(), tubewell::Error>(())
/// ```
#[must_use = "a query does nothing by itself; call one of its methods"]
pub struct Query<'a, T: 'static = Bytes, M: Mode = Blocking> {
    pub(super) tube: &'a Tube<T, M>,
}

/// Changes a tube, and tasks in any state, whichever session has taken them. From [`Tube::admin`].
///
/// These are the calls of an operator, and of a program that repairs or arranges a queue: pauses, other
/// options, priorities, tags, parents and entries of histories; moves, deletes and kicks of many tasks;
/// ends without a claim ([`resolve`](Admin::resolve), [`forget`](Admin::forget)), restores, and the end
/// of claims of any session. What producers and workers call is on [`Tube`] and [`Claim`](crate::Claim),
/// and so are the calls on one task by its id that any program makes: `kick`, `delete`, `cancel` and
/// `update`.
///
/// # Example: pause a tube while its server is down, and retry what has failed
/// ```
/// use tubewell::{Failure, Filter, Store};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
/// mails.put("to: ann")?;
/// mails.try_take()?.unwrap().bury(Failure::new("smtp", "connection refused"))?;
///
/// let admin = mails.admin();
/// admin.pause()?;
/// assert_eq!(admin.kick(Filter::new().group("smtp"))?, 1);
/// assert!(mails.try_take()?.is_none());
/// admin.unpause()?;
/// assert_eq!(mails.try_take()?.unwrap().body(), b"to: ann");
/// # Ok::<(), tubewell::Error>(())
/// ```
#[must_use = "this view does nothing by itself; call one of its methods"]
pub struct Admin<'a, T: 'static = Bytes, M: Mode = Blocking> {
    pub(in crate::handle) tube: &'a Tube<T, M>,
}

/// The schedules of a tube, which are stored with [`Tube::schedule`]. From [`Tube::schedules`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::{Schedule, Store};
///
/// let store = Store::in_memory()?;
/// let reports = store.tube("reports")?;
/// let hour = Duration::from_secs(3600);
/// reports.schedule(Schedule::every("report", hour), "sales")?;
///
/// let schedules = reports.schedules();
/// schedules.change(Schedule::every("report", hour * 24))?;
/// assert_eq!(schedules.list(None, 10)?.items[0].key, "report");
/// schedules.remove("report")?;
/// assert!(schedules.list(None, 10)?.items.is_empty());
/// # Ok::<(), tubewell::Error>(())
/// ```
#[must_use = "this view does nothing by itself; call one of its methods"]
pub struct Schedules<'a, T: 'static = Bytes, M: Mode = Blocking> {
    pub(super) tube: &'a Tube<T, M>,
}

impl<T, M: Mode> Tube<T, M> {
    /// The calls that look at its tasks: lists of them, their histories, steps, parents and failure
    /// groups, and its numbers by day.
    pub fn query(&self) -> Query<'_, T, M> {
        Query { tube: self }
    }

    /// The calls of an operator: pauses, other options, and changes of tasks in any state.
    pub fn admin(&self) -> Admin<'_, T, M> {
        Admin { tube: self }
    }

    /// The calls that find, list, change and remove its schedules.
    pub fn schedules(&self) -> Schedules<'_, T, M> {
        Schedules { tube: self }
    }
}

impl<T, M: Mode> Debug for Query<'_, T, M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_tuple("Query").field(self.tube).finish()
    }
}

impl<T, M: Mode> Debug for Admin<'_, T, M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_tuple("Admin").field(self.tube).finish()
    }
}

impl<T, M: Mode> Debug for Schedules<'_, T, M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_tuple("Schedules").field(self.tube).finish()
    }
}
