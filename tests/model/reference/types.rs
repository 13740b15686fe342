//! Types of the model.

use std::collections::{BTreeMap, BTreeSet};

pub type Micros = u64;
pub type TubeNo = u64;
pub type TaskNo = u64;
pub type SessionNo = u64;
pub type ClaimNo = u64;
pub type WaitNo = u64;

/// A time that is never reached, or a duration without a limit.
pub const NEVER: Micros = Micros::MAX;

/// The priority of tasks without one, in tubes without one.
pub const DEFAULT_PRIORITY: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    Fifo,
    Fifottl,
    Limfifottl,
    Utube,
    Utubettl,
}

impl Driver {
    pub const ALL: [Driver; 5] =
        [Driver::Fifo, Driver::Fifottl, Driver::Limfifottl, Driver::Utube, Driver::Utubettl];

    pub fn timed(self) -> bool {
        matches!(self, Driver::Fifottl | Driver::Limfifottl | Driver::Utubettl)
    }

    pub fn sub_queued(self) -> bool {
        matches!(self, Driver::Utube | Driver::Utubettl)
    }

    pub fn bounded(self) -> bool {
        self == Driver::Limfifottl
    }

    /// Whether it knows all options of a task.
    pub(super) fn supports(self, draft: &Draft) -> bool {
        let timed = draft.priority.is_some() || draft.ttl.is_some() || draft.ttr.is_some();
        let timed = timed || draft.delay > 0 || draft.not_before.is_some();
        let timed = timed || draft.max_runtime.is_some();
        (self.timed() || !timed) && (self.sub_queued() || draft.sub_queue.is_none())
    }
}

/// When a take with a limited number of attempts is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    Lazily,
    #[default]
    Written,
    Flushed,
}

/// The delays after failed and lost attempts: `first`, then `factor` times the one before, up to
/// `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Micros,
    pub factor: u32,
    pub cap: Micros,
}

/// Which tasks are kept after their end: the newest ones, each for a time. `None` has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    pub count: Option<u64>,
    pub age: Option<Micros>,
}

/// At most `count` takes in any `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u64,
    pub period: Micros,
}

/// The options of a tube.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub priority: Option<u32>,
    pub capacity: Option<u64>,
    /// The longest time of a claim, from its take on.
    pub max_runtime: Option<Micros>,
    /// How often a task is attempted, unless the task has a limit of its own.
    pub max_attempts: Option<u32>,
    pub counting: Counting,
    pub backoff: Option<Backoff>,
    /// How long the holder of an expired claim may still end it.
    pub reclaim_delay: Micros,
    /// Which tasks that are done are kept; `None` for none.
    pub keep_done: Option<Keep>,
    /// Which buried tasks are kept; `None` for all.
    pub keep_buried: Option<Keep>,
    /// How many tasks may be taken at a time.
    pub max_taken: Option<u64>,
    pub rate: Option<Rate>,
    /// How many entries the history of a task has.
    pub history: usize,
    /// How many tasks of a sub-queue may be taken at a time. Default: 1.
    pub sub_queue_limit: Option<u64>,
    pub sub_queue_rate: Option<Rate>,
    /// How long no task of a sub-queue may be taken after the end of a claim.
    pub sub_queue_cooldown: Option<Micros>,
    /// The names of its sub-queues are names of limits that it shares.
    pub shared_limits: bool,
    /// It counts by days.
    pub metrics: bool,
    pub temporary: bool,
}

impl Options {
    pub(super) fn ttl(&self) -> Micros {
        self.ttl.unwrap_or(NEVER)
    }

    pub(super) fn ttr(&self) -> Micros {
        self.ttr.unwrap_or(self.ttl())
    }

    pub(super) fn priority(&self) -> u32 {
        self.priority.unwrap_or(DEFAULT_PRIORITY)
    }

    /// `None` if the tube is unbounded.
    pub(super) fn capacity(&self) -> Option<u64> {
        self.capacity.filter(|capacity| *capacity > 0)
    }

    pub(super) fn max_runtime(&self) -> Micros {
        self.max_runtime.unwrap_or(NEVER)
    }

    pub(super) fn sub_queue_limit(&self) -> u64 {
        self.sub_queue_limit.unwrap_or(1)
    }

    /// `None` if all are kept.
    pub fn keep_buried(&self) -> Option<Keep> {
        self.keep_buried.filter(|keep| *keep != Keep::default())
    }

    /// Whether both mean the same once defaults are applied.
    pub(super) fn same(&self, other: &Options) -> bool {
        let times = |it: &Options| (it.ttl(), it.ttr(), it.max_runtime());
        let others = |it: &Options| (it.priority(), it.capacity(), it.temporary, it.metrics);
        let attempts = |it: &Options| (it.max_attempts, it.counting, it.backoff, it.reclaim_delay);
        let kept = |it: &Options| (it.keep_done, it.keep_buried());
        let gates = |it: &Options| (it.max_taken, it.rate, it.history);
        let limits = |it: &Options| {
            (it.sub_queue_limit(), it.sub_queue_rate, it.sub_queue_cooldown, it.shared_limits)
        };
        times(self) == times(other)
            && others(self) == others(other)
            && kept(self) == kept(other)
            && gates(self) == gates(other)
            && limits(self) == limits(other)
            && attempts(self) == attempts(other)
    }
}

/// A task to be put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    pub data: Vec<u8>,
    pub priority: Option<u32>,
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub delay: Micros,
    /// The moment of the wall clock before which it is not ready; `NEVER` for none that comes.
    pub not_before: Option<Micros>,
    pub sub_queue: Option<String>,
    pub max_attempts: Option<u32>,
    pub max_runtime: Option<Micros>,
    pub key: Option<String>,
    pub on_key: OnKey,
    pub token: Option<String>,
    /// How long the token is remembered.
    pub unique_for: Option<Micros>,
    pub traceparent: Option<String>,
    pub tags: Vec<String>,
    pub after: After,
}

/// What a put says about parents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Tasks, each list with the name of the tube in which they are looked for first.
    pub parents: Vec<(String, Vec<TaskNo>)>,
    pub keys: Vec<String>,
    pub on_parent: OnParent,
}

/// What a blocked task does when a parent is buried or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnParent {
    #[default]
    Wait,
    Release,
    Bury,
}

/// What a put does if another task has its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnKey {
    #[default]
    Reject,
    Keep,
    Replace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Ready,
    Taken,
    Delayed,
    Blocked,
    Buried,
    Done,
    /// A schedule.
    Recurring,
}

/// A state, with two kinds of taken and of done tasks. Transitions lead from one stage to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Ready,
    Taken,
    /// Taken, by a claim that no session has.
    Parked,
    Delayed,
    Blocked,
    Buried,
    /// Done, and stored.
    Kept,
    /// Done, and not stored.
    Done,
    Recurring,
}

impl Stage {
    pub fn state(self) -> State {
        match self {
            Stage::Ready => State::Ready,
            Stage::Taken | Stage::Parked => State::Taken,
            Stage::Delayed => State::Delayed,
            Stage::Blocked => State::Blocked,
            Stage::Buried => State::Buried,
            Stage::Kept | Stage::Done => State::Done,
            Stage::Recurring => State::Recurring,
        }
    }
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotTaken,
    NotFound,
    NotReady,
    NotBuried,
    NotDone,
    KeyInUse,
    KeyNotFound,
    HasDependents,
    Cycle,
    WrongState,
    Unsupported,
    Full,
    TubeExists,
    TubeDiffers,
    TubeDropped,
    TubeNotFound,
    TubeBusy,
    SessionUnknown,
    SessionEnded,
    Closed,
    Invalid,
}

pub type Answer<T> = Result<T, Refusal>;

/// A call or due time that is counted and reported as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Put,
    Take,
    Ack,
    Resolve,
    Release,
    Fail,
    Snooze,
    /// The time of a claim has elapsed and its reclaim delay has not, or its process has died.
    Lost,
    Bury,
    Kick,
    Delete,
    Touch,
    Checkpoint,
    /// A step of the work is stored.
    Step,
    Ttl,
    Ttr,
    Delay,
    Forget,
    Update,
    /// A program adds an entry to its history.
    Log,
    /// A task gets parents.
    Block,
    /// A task has fewer parents.
    Unblock,
    /// These are of the tube that the task leaves, and of the one that it enters.
    Advance,
    Move,
    /// How the tube that it enters counts it.
    Arrive,
    /// A schedule is stored or changed.
    Schedule,
    /// A schedule puts a run.
    Spawn,
}

/// What changes the state of a task; more detailed than the counted verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The verb, or the elapsed time of that name.
    Verb(Verb),
    /// A put that waited for space.
    PutAfterWait,
    /// Counts as a put: the task was put anew by its key.
    Replaced,
    /// Counts as a put.
    Restored,
    /// These count as releases.
    ClaimDropped,
    SessionEnded,
    ReleaseAll,
    Revoked,
    RevokeAll,
    /// Counts as a bury: a take met a task without an attempt left.
    SpentAtTake,
    /// These count as unblocks: the last parent is done, or was buried or removed.
    ParentDone,
    ParentLeft,
    /// These count as buries.
    ParentBuried,
    ParentGone,
    /// These count as forgets: the time for which the task is kept has elapsed, or its tube keeps
    /// as many newer ones as it may.
    Aged,
    Trimmed,
    /// Counts as a forget: the schedule has put its last run.
    ScheduleEnded,
    /// These are not counted.
    AlreadyBuried,
    Renewed,
    Parked,
    Resumed,
    Reopened,
    Killed,
    Truncated,
    TubeDropped,
}

impl Cause {
    pub(super) fn counted_as(self) -> Option<Verb> {
        match self {
            Cause::Verb(verb) => Some(verb),
            Cause::PutAfterWait | Cause::Replaced | Cause::Restored => Some(Verb::Put),
            Cause::ClaimDropped
            | Cause::SessionEnded
            | Cause::ReleaseAll
            | Cause::Revoked
            | Cause::RevokeAll => Some(Verb::Release),
            Cause::ParentDone | Cause::ParentLeft => Some(Verb::Unblock),
            Cause::SpentAtTake | Cause::ParentBuried | Cause::ParentGone => Some(Verb::Bury),
            Cause::Aged | Cause::Trimmed | Cause::ScheduleEnded => Some(Verb::Forget),
            _ => None,
        }
    }
}

/// A transition of a driver's state machine. A put has no initial stage.
pub type Transition = (Driver, Option<Stage>, Cause, Stage);

/// An event that is delivered to subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub tube: TubeNo,
    pub task: TaskNo,
    pub verb: Verb,
    pub state: State,
}

#[derive(Clone, Debug)]
pub struct Tube {
    pub name: String,
    pub driver: Driver,
    pub options: Options,
    pub(super) calls: BTreeMap<Verb, u64>,
    /// How many tasks have ended with a call or at their time.
    pub(super) done: u64,
    /// No task may be taken before this time.
    pub(super) paused_until: Micros,
    /// The times of the takes of this run, if there is a rate.
    pub(super) taken_at: Vec<Micros>,
    /// When the bucket of the rate was empty and began to fill; `None` for a new tube.
    pub(super) filling_since: Option<Micros>,
    /// The takes of this run by their sub-queues, if these have a rate.
    pub(super) sub_queues_taken_at: BTreeMap<Option<String>, Vec<Micros>>,
    /// When the buckets of the sub-queues began to fill; `None` for a new rate.
    pub(super) sub_queues_filling_since: Option<Micros>,
    /// When the last claims of sub-queues have ended in this run, if there is a cooldown.
    pub(super) sub_queues_ended_at: BTreeMap<Option<String>, Micros>,
    /// When this run began; `None` for a new cooldown.
    pub(super) cooling_since: Option<Micros>,
    /// No task of these sub-queues may be taken before these times.
    pub(super) paused_sub_queues: BTreeMap<Option<String>, Micros>,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub tube: TubeNo,
    pub data: Vec<u8>,
    pub priority: u32,
    pub sub_queue: Option<String>,
    pub key: Option<String>,
    /// In the order in which they were added, each once.
    pub tags: Vec<String>,
    /// How often the task was taken.
    pub takes: u32,
    /// How many of the takes do not count as attempts.
    pub forgiven: u32,
    /// Its own limit of attempts, which overrides that of the tube.
    pub max_attempts: Option<u32>,
    /// Its own limit of a claim, which overrides that of the tube; `NEVER` for none.
    pub max_runtime: Option<Micros>,
    pub traceparent: Option<String>,
    pub failure: Option<LastFailure>,
    pub history: super::History,
    /// The values of the steps that have finished, by their names.
    pub steps: BTreeMap<u8, u64>,
    /// The failure group, if it was buried with a failure.
    pub group: Option<String>,
    /// The result, if it is done with one.
    pub result: Option<Vec<u8>>,
    /// When it was buried or done, and until when it is kept then.
    pub ended: Micros,
    pub kept_until: Micros,
    pub ttr: Micros,
    pub put_at: Micros,
    /// The time of the put, plus the ttl, plus all later additions to the ttl.
    pub expires_at: Micros,
    /// The moment of the wall clock before which it is not ready.
    pub not_before: Option<Micros>,
    /// When its moment was expected, if its ttl counts from there and has not begun.
    pub(super) ttl_from: Option<Micros>,
    /// The tasks that it waits for.
    pub parents: BTreeSet<TaskNo>,
    pub on_parent: OnParent,
    /// The schedule that has put it.
    pub spawned_by: Option<super::SpawnedBy>,
    pub(super) status: Status,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Status {
    Ready,
    /// `until`: of its delay; 0 if it waits for its moment only.
    Delayed {
        until: Micros,
    },
    Taken(Claim),
    /// `until`: of its delay; 0 without one.
    Blocked {
        until: Micros,
    },
    Buried,
    /// Done.
    Kept,
    Recurring(Box<super::Recur>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) no: ClaimNo,
    pub(super) session: SessionNo,
    /// When the claim expires.
    pub(super) until: Micros,
    /// The end that the `max_runtime` of the task or of the tube allows.
    pub(super) latest: Micros,
    /// How long after `until` the holder may still end it.
    pub(super) reclaim_delay: Micros,
    /// `until` has passed, and the reclaim delay has begun.
    pub(super) is_overdue: bool,
    /// The take was counted before the task was handed out.
    pub(super) is_counted: bool,
    /// No session has the claim. `session` is the one that parked it.
    pub(super) is_parked: bool,
    /// How the claim was parked last. It is parked in this way again after a reopen.
    pub(super) stored: Option<StoredClaim>,
}

/// What the file has of a claim that was parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredClaim {
    pub(super) session: SessionNo,
    pub(super) until: Micros,
}

/// The last failure that was recorded for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    pub group: String,
    /// What the worker reported; `None` if the store describes the loss of the attempt.
    pub message: Option<String>,
    /// The name of its kind.
    pub kind: &'static str,
    pub attempt: u32,
    /// The label of the session that had the claim.
    pub owner: Option<String>,
    pub at: Micros,
}

impl Task {
    /// The takes that were not forgiven.
    pub fn attempts(&self) -> u32 {
        self.takes.saturating_sub(self.forgiven)
    }

    pub fn state(&self) -> State {
        self.stage().state()
    }

    pub fn stage(&self) -> Stage {
        match &self.status {
            Status::Ready => Stage::Ready,
            Status::Delayed { .. } => Stage::Delayed,
            Status::Taken(claim) if claim.is_parked => Stage::Parked,
            Status::Taken(_) => Stage::Taken,
            Status::Blocked { .. } => Stage::Blocked,
            Status::Buried => Stage::Buried,
            Status::Kept => Stage::Kept,
            Status::Recurring(_) => Stage::Recurring,
        }
    }

    /// When its delay elapses, its claim expires, or it is looked at as a schedule, even if its ttl
    /// elapses before.
    pub fn due(&self) -> Micros {
        match &self.status {
            Status::Delayed { until } => *until,
            Status::Taken(claim) => claim.until,
            Status::Recurring(recur) => recur.due,
            Status::Ready | Status::Blocked { .. } | Status::Buried | Status::Kept => NEVER,
        }
    }

    /// Whether the session has a claim on the task.
    pub fn is_held_by(&self, session: SessionNo) -> bool {
        self.stage() == Stage::Taken && self.claim().is_some_and(|(_, holder)| holder == session)
    }

    /// The claim on the task, and the session that has it or has parked it.
    pub fn claim(&self) -> Option<(ClaimNo, SessionNo)> {
        match &self.status {
            Status::Taken(claim) => Some((claim.no, claim.session)),
            _ => None,
        }
    }
}

/// The caller of a verb that needs a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub session: SessionNo,
    /// This claim, or `None` for the current claim of the session on the task.
    pub claim: Option<ClaimNo>,
}

/// A taken task and its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub task: TaskNo,
    pub claim: ClaimNo,
}
