//! Tasks of another store, to be put back as they were.

use std::time::SystemTime;

use crate::values::ending::LastFailure;
use crate::values::history::HistoryEntry;
use crate::values::put::{Encoded, of_bytes};
use crate::values::spawned_by::SpawnedBy;
use crate::values::step::Step;
use crate::{Bytes, IntoPut};

/// A task to be put back as it was in another store; see
/// [`Admin::restore_many`](crate::Admin::restore_many).
///
/// It is a [`Put`](crate::Put) with what a put cannot give: the id, the time of the put, how often the task was
/// taken, its last failure, and whether it is buried or done. An option that is left out is as in a put.
///
/// The put may have parents ([`Put::after`](crate::Put::after), [`Put::on_parent`](crate::Put::on_parent)), by their ids in the new store: the
/// task is then blocked, or waits for them when it is kicked if it is buried. The parents must be
/// restored first, or before the task in the same call; one that has no task any more counts as done.
/// A done task has no parents.
///
/// # Example
/// ```
/// use tubewell::expert::Restore;
/// use tubewell::Put;
///
/// let task = Restore::new(Put::new("to: ann").priority(3)).id(17).takes(2).buried(true);
/// # let _ = task;
/// ```
///
/// # Example: a task and its parent
/// ```
/// use tubewell::expert::Restore;
/// use tubewell::{Put, TaskState, Store};
///
/// let store = Store::in_memory()?;
/// let jobs = store.tube("jobs")?;
/// let child = Put::new("child").after(&jobs, [9]);
/// jobs.admin().restore_many([Restore::new("parent").id(9), Restore::new(child).id(4)])?;
/// assert_eq!(jobs.query().task(4)?.info.state, TaskState::Blocked);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub(crate) put: Encoded,
    pub(crate) id: Option<u64>,
    pub(crate) takes: u32,
    pub(crate) forgiven: u32,
    pub(crate) buried: bool,
    pub(crate) group: Option<String>,
    pub(crate) failure: Option<Box<LastFailure>>,
    pub(crate) spawned_by: Option<SpawnedBy>,
    /// For a task that is done.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) steps: Vec<Step>,
    pub(crate) put_at: Option<SystemTime>,
    pub(crate) ended_at: Option<SystemTime>,
}

/// The outcome of a task that is restored as done: its result, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) result: Option<Vec<u8>>,
}

impl Restore {
    /// A task with this body and these options, which gets a new id.
    pub fn new(put: impl IntoPut<Bytes>) -> Restore {
        Restore {
            put: of_bytes(put),
            id: None,
            takes: 0,
            forgiven: 0,
            buried: false,
            group: None,
            failure: None,
            spawned_by: None,
            outcome: None,
            history: Vec::new(),
            steps: Vec::new(),
            put_at: None,
            ended_at: None,
        }
    }

    /// Its id. Default the next one of the store.
    #[must_use]
    pub fn id(mut self, id: u64) -> Restore {
        self.id = Some(id);
        self
    }

    /// When it was put: [`TaskInfo::put_at`](crate::TaskInfo::put_at). Default now, which a later
    /// moment counts as. Its waiting time in the numbers of the tube begins with the restore.
    #[must_use]
    pub fn put_at(mut self, moment: SystemTime) -> Restore {
        self.put_at = Some(moment);
        self
    }

    /// When it was buried or done: [`TaskInfo::ended_at`](crate::TaskInfo::ended_at). For a task that is neither, it
    /// changes nothing. Default the moment of the last failure for a task of a failure group, and now otherwise, which a
    /// later moment counts as, too.
    #[must_use]
    pub fn ended_at(mut self, moment: SystemTime) -> Restore {
        self.ended_at = Some(moment);
        self
    }

    /// How often it was taken. Default 0.
    #[must_use]
    pub fn takes(mut self, takes: u32) -> Restore {
        self.takes = takes;
        self
    }

    /// How many of its takes do not count as attempts: [`takes`](crate::TaskInfo::takes) less
    /// [`attempts`](crate::TaskInfo::attempts). Default 0. At most the number of takes.
    #[must_use]
    pub fn forgiven(mut self, takes: u32) -> Restore {
        self.forgiven = takes;
        self
    }

    /// Whether it is buried. Default false. A buried task has no delay.
    #[must_use]
    pub fn buried(mut self, buried: bool) -> Restore {
        self.buried = buried;
        self
    }

    /// The failure group in which it is buried: [`TaskInfo::group`](crate::TaskInfo::group). Default
    /// none. The task must be [`buried`](Restore::buried).
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Restore {
        self.group = Some(name.into());
        self
    }

    /// Its [history](crate::Query::history). Default none: a history begins, if its tube keeps one.
    /// Entries that are too many for the tube are left out: the newest ones stay, and the first one.
    /// Their numbers increase; a gap that is not behind the first one is closed.
    #[must_use]
    pub fn history(mut self, entries: Vec<HistoryEntry>) -> Restore {
        self.history = entries;
        self
    }

    /// Its stored [steps](crate::Claim::step), as [`Query::steps`](crate::Query::steps) returns them.
    /// Default none. A done task has none. A step of kind
    /// [`Spawned`](crate::expert::StepKind::Spawned) names a task by the id that it has in this store.
    #[must_use]
    pub fn steps(mut self, steps: Vec<Step>) -> Restore {
        self.steps = steps;
        self
    }

    /// Its last failure. Default none.
    #[must_use]
    pub fn failure(mut self, failure: LastFailure) -> Restore {
        self.failure = Some(Box::new(failure));
        self
    }

    /// The schedule of which it is a run: [`TaskInfo::spawned_by`](crate::TaskInfo::spawned_by), with the
    /// id that the schedule has in this store. Default none.
    #[must_use]
    pub fn spawned_by(mut self, run: SpawnedBy) -> Restore {
        self.spawned_by = Some(run);
        self
    }

    /// Marks it as done, with this result if it has one. Default: it is not done. Its tube must
    /// [keep](crate::TubeOptions::keep_done) what is done. A done task is neither buried nor delayed.
    ///
    /// The [`ttl`](crate::Put::ttl) of the put, which a done task may have with every driver, is how long the
    /// task is still kept: its [`ttl_left`](crate::TaskInfo::ttl_left), and `Duration::MAX` for
    /// `None`. Without a ttl, the tube keeps the task as if it had been acked now. If the tube limits
    /// the age of what it keeps, the task counts as acked that age before the end of this time. The
    /// task takes no place of the tube's capacity.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::expert::Restore;
    /// use tubewell::{Ending, Keep, Put, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let sums = store.open_tube("sums", TubeOptions::new().keep_done(Keep::new()))?;
    /// let put = Put::new("1 + 1").ttl(Duration::from_secs(60));
    /// sums.admin().restore_many([Restore::new(put).id(17).done(Some(b"2".to_vec()))])?;
    /// assert_eq!(sums.ending(17)?, Some(Ending::Done { result: Some(b"2".to_vec()) }));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn done(mut self, result: Option<Vec<u8>>) -> Restore {
        self.outcome = Some(Outcome { result });
        self
    }
}
