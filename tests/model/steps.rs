//! The input of a run: its setup and its steps.

use tubewell::Durability;

use super::reference::{Driver, Micros, Missed, OnKey, OnParent, Options, State};

/// The tubes, session grace and workload of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    pub tubes: Vec<Definition>,
    pub grace: Micros,
    pub workload: Workload,
}

#[derive(Clone, Debug)]
pub struct Definition {
    pub driver: Driver,
    pub options: Options,
    /// `None` for that of the store.
    pub durability: Option<Durability>,
}

/// Which steps are most frequent. Together the workloads fill tubes, drain them, keep takers
/// waiting, bury many tasks, park many claims, and exceed the number of tasks that a tube's window
/// holds.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    MostlyPuts,
    MostlyTakes,
    MostlyWaits,
    MostlyBuries,
    MostlyParks,
    LargeBatches,
}

/// The number of the first name of a step that puts a task.
pub const SPAWNS: u8 = 100;

/// One step, and whether the woken take futures are polled after it.
#[derive(Clone, Debug)]
pub struct Step {
    pub action: Action,
    pub poll: bool,
}

#[derive(Clone, Debug)]
pub enum Action {
    Put {
        client: usize,
        tube: usize,
        template: TaskTemplate,
        deferred: bool,
    },
    /// A put anew of the task that has the key of the template.
    Requeue {
        client: usize,
        tube: usize,
        template: TaskTemplate,
        deferred: bool,
    },
    PutWait {
        client: usize,
        tube: usize,
        template: TaskTemplate,
        timeout: Micros,
    },
    PutMany {
        client: usize,
        tube: usize,
        templates: Vec<TaskTemplate>,
    },
    /// Puts tasks of another store back, all or none.
    Restore {
        client: usize,
        tube: usize,
        tasks: Vec<RestoredTemplate>,
        deferred: bool,
    },
    /// Stores a schedule. It has all terms: those that the template leaves out have their defaults.
    Schedule {
        client: usize,
        tube: usize,
        key: String,
        terms: TermsTemplate,
        restored: Option<RestoredRunsTemplate>,
        deferred: bool,
    },
    /// Changes when the runs of the schedule with a key are. The terms have no task.
    Reschedule {
        client: usize,
        tube: usize,
        key: String,
        terms: TermsTemplate,
        deferred: bool,
    },
    /// Changes what the runs of the schedule with a key put.
    ChangeTask {
        client: usize,
        tube: usize,
        key: String,
        task: TaskTemplate,
        deferred: bool,
    },
    Unschedule {
        tube: usize,
        key: String,
        deferred: bool,
    },
    /// One batch of `count` tasks without keys, made from the templates in turn. Every second task
    /// has a numbered sub-queue instead.
    PutBatch {
        client: usize,
        tube: usize,
        templates: Vec<TaskTemplate>,
        count: usize,
    },
    Take {
        client: usize,
        tube: usize,
        keep: bool,
    },
    /// A take of one task.
    Claim {
        client: usize,
        pick: Pick,
        keep: bool,
    },
    TakeMany {
        client: usize,
        tube: usize,
        max: usize,
    },
    TakeAny {
        tubes: Vec<usize>,
        keep: bool,
    },
    Wait {
        client: usize,
        tubes: Vec<usize>,
        timeout: Micros,
        keep: bool,
    },
    Cancel {
        wait: Choice,
    },
    /// Asks how a task has ended, and waits for its end if it has not.
    WaitDone {
        pick: Pick,
        waits: bool,
    },
    ById {
        client: usize,
        pick: Pick,
        verb: ById,
        deferred: bool,
    },
    AckMany {
        client: usize,
        tube: usize,
        picks: Vec<Pick>,
    },
    DeleteMany {
        client: usize,
        tube: usize,
        picks: Vec<Pick>,
    },
    DeleteWhere {
        tube: usize,
        state: State,
        limit: usize,
    },
    KickGroup {
        tube: usize,
        group: Group,
        limit: usize,
    },
    ByClaim {
        claim: Choice,
        verb: ByClaim,
    },
    /// Resumes a claim whose token is known: one that is parked, or with `any` any other, too.
    ResumeClaim {
        client: usize,
        token: Choice,
        any: bool,
        keep: bool,
    },
    AckClaims {
        claims: Vec<Choice>,
    },
    Kick {
        tube: usize,
        count: u64,
    },
    ReleaseAll {
        tube: usize,
        forgive: bool,
    },
    MoveAll {
        tube: usize,
        to: usize,
    },
    Truncate {
        tube: usize,
    },
    /// Zero ends a pause.
    Pause {
        tube: usize,
        time: Micros,
        deferred: bool,
    },
    /// Zero ends a pause.
    PauseSubQueue {
        tube: usize,
        name: &'static str,
        time: Micros,
        deferred: bool,
    },
    /// A limit that tubes share.
    SetLimit {
        name: &'static str,
        most: Option<u32>,
    },
    /// The policies of the definition, apart from those that say what is stored of a task.
    Alter {
        tube: usize,
        options: Options,
        by: Alter,
    },
    DropTube {
        tube: usize,
    },
    CreateTube {
        client: usize,
        tube: usize,
        definition: Definition,
        same: bool,
        opens: bool,
    },
    UseDroppedTube {
        tube: Choice,
    },
    EndSession {
        client: usize,
    },
    LeaveSession {
        client: usize,
    },
    ResumeSession {
        client: usize,
    },
    Advance {
        by: ClockMove,
    },
    /// Sets the wall clock. The time of the store goes on as before.
    SetWall {
        to: WallMove,
    },
    Reopen {
        closed_for: ClockMove,
    },
    /// The store as another process finds it after this one was killed.
    Kill {
        dead_for: ClockMove,
    },
}

/// Which call alters a tube.
#[derive(Clone, Copy, Debug)]
pub enum Alter {
    Tube,
    Deferred,
    Create,
}

#[derive(Clone, Debug)]
pub enum ById {
    Ack,
    AckWith {
        size: usize,
    },
    Release {
        delay: Micros,
    },
    Fail {
        delay: Option<Micros>,
        group: Group,
    },
    Snooze {
        delay: Micros,
    },
    BuryWith {
        group: Group,
    },
    Touch {
        by: Micros,
    },
    Renew {
        time_left: Micros,
    },
    Bury,
    Kick,
    Delete,
    Revoke,
    /// To the tube with this index.
    MoveTo {
        to: usize,
    },
    /// With a result of this size, or with none.
    Resolve {
        size: Option<usize>,
    },
    Forget,
    SetPriority {
        priority: u32,
    },
    /// Adds or removes tags.
    EditTags {
        tags: Vec<String>,
        adds: bool,
    },
    /// An entry of a program.
    Log,
    /// With a body of this size, or with the old one, and with another moment or with none.
    Update {
        size: Option<usize>,
        priority: Option<u32>,
        delay: Option<Micros>,
        #[allow(clippy::option_option, reason = "the outer one: whether it changes")]
        not_before: Option<Option<Moment>>,
    },
    Cancel,
    DeleteIf {
        state: State,
    },
    /// Tasks of the tube with the index `of`, or of another one.
    AddParents {
        of: usize,
        parents: Vec<Pick>,
    },
    /// One of the parents, or all.
    RemoveParents {
        parent: Option<Choice>,
    },
    Peek,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are few steps at a time")]
pub enum ByClaim {
    Ack {
        deferred: bool,
    },
    AckWith {
        size: usize,
        deferred: bool,
    },
    Release {
        delay: Micros,
    },
    Fail {
        delay: Option<Micros>,
        group: Group,
        deferred: bool,
    },
    Snooze {
        delay: Micros,
        deferred: bool,
    },
    BuryWith {
        group: Group,
        deferred: bool,
    },
    Touch {
        by: Micros,
    },
    Renew {
        time_left: Micros,
    },
    /// An entry in the history of the task.
    Log {
        deferred: bool,
    },
    Checkpoint {
        size: usize,
        deferred: bool,
    },
    /// A durable step of the work.
    RunStep {
        name: u8,
    },
    /// One that puts a task into a tube.
    Spawn {
        name: u8,
        to: (usize, TaskTemplate),
    },
    Park {
        hold: Micros,
        deferred: bool,
    },
    /// With a result of this size, and with tasks that are put into tubes.
    Finish {
        result: Option<usize>,
        puts: Vec<(usize, TaskTemplate)>,
        advance: Option<(usize, TaskTemplate)>,
        deferred: bool,
    },
    Bury,
    Drop,
    Detach,
}

/// The group of a reported failure.
#[derive(Clone, Copy, Debug)]
pub enum Group {
    Timeout,
    Longest,
    /// These are refused.
    Empty,
    TooLong,
}

impl Group {
    pub fn name(self) -> String {
        match self {
            Group::Timeout => "timeout".to_owned(),
            Group::Longest => "g".repeat(255),
            Group::Empty => String::new(),
            Group::TooLong => "g".repeat(256),
        }
    }
}

/// A task to be put. Options that the tube's driver does not support are left out, unless
/// `keep_unsupported` is set.
#[derive(Clone, Debug, Default)]
pub struct TaskTemplate {
    pub size: usize,
    pub priority: Option<u32>,
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub delay: Micros,
    pub not_before: Option<Moment>,
    pub sub_queue: Option<String>,
    pub max_attempts: Option<u32>,
    pub max_runtime: Option<Micros>,
    pub key: Option<String>,
    pub on_key: OnKey,
    pub token: Option<String>,
    /// How long the token is remembered, if there is one.
    pub unique_for: Option<Micros>,
    pub tags: Vec<String>,
    pub after: AfterTemplate,
    pub keep_unsupported: bool,
}

/// The tasks that a task waits for.
#[derive(Clone, Debug, Default)]
pub struct AfterTemplate {
    /// Those of tubes that exist.
    pub parents: Vec<Pick>,
    pub key: Option<String>,
    pub on_parent: OnParent,
}

/// What is said of a schedule.
#[derive(Clone, Debug, Default)]
#[allow(clippy::option_option, reason = "the outer one: whether it changes")]
pub struct TermsTemplate {
    pub every: Option<Micros>,
    pub starting: Option<Moment>,
    pub times: Option<Option<u64>>,
    pub missed: Option<Missed>,
    pub within: Option<Option<Micros>>,
    pub skips_overlap: Option<bool>,
    /// Without what a run cannot have, unless `keep_unsupported` is set.
    pub put: Option<TaskTemplate>,
}

/// What a schedule of another store brings along.
#[derive(Clone, Copy, Debug)]
pub struct RestoredRunsTemplate {
    /// How many ids are left out before its own; `None` to have the next id assigned.
    pub skipped_ids: Option<u64>,
    pub runs: u64,
    pub skipped: u64,
}

/// A task of another store to be put back. A buried and a done one have no delay, unless
/// `keep_unsupported` is set.
#[derive(Clone, Debug, Default)]
pub struct RestoredTemplate {
    pub put: TaskTemplate,
    /// How many ids are left out before its own; `None` to have the next id assigned.
    pub skipped_ids: Option<u64>,
    pub takes: u32,
    pub forgiven: u32,
    pub failure: Option<FailureTemplate>,
    /// When it was put.
    pub put_at: Option<Moment>,
    pub state: StateTemplate,
}

/// A failure that was recorded in another store.
#[derive(Clone, Debug)]
pub struct FailureTemplate {
    pub group: Group,
    pub attempt: u32,
    pub ago: Micros,
}

#[derive(Clone, Debug, Default)]
pub enum StateTemplate {
    #[default]
    Open,
    Buried {
        group: Option<Group>,
    },
    /// With a result of this size, or with none; kept for a time of its own, or as its tube says.
    Done {
        size: Option<usize>,
        ttl: Option<Micros>,
    },
}

/// Selects a task for a verb on a tube.
#[derive(Clone, Debug)]
pub struct Pick {
    pub tube: usize,
    pub among: Among,
    pub index: Choice,
}

#[derive(Clone, Copy, Debug)]
pub enum Among {
    /// Tasks of the tube that the session holds.
    Held,
    /// All tasks of the tube that are not over.
    Present,
    /// Tasks of the tube whose claim is parked, or all tasks if there are none.
    Parked,
    /// Tasks of the tube that are done and kept, or all tasks if there are none.
    Kept,
    /// Tasks of the tube that have parents, or all tasks if there are none.
    Children,
    /// Tasks of the tube that others wait for, or all tasks if there are none.
    Parents,
    /// Schedules of the tube, or all tasks if there are none.
    Schedules,
    /// All tasks ever put into any tube, removed ones and schedules included.
    EverPut,
}

/// A move of the clock.
#[derive(Clone, Debug)]
pub enum ClockMove {
    By(Micros),
    /// To the `nth` due time plus `offset` microseconds.
    ToDue {
        nth: usize,
        offset: i64,
    },
}

/// A moment of the wall clock, from what it shows when the step runs.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    In(Micros),
    Ago(Micros),
    Never,
}

impl Moment {
    /// When it is, if the wall clock shows this now.
    pub fn at(self, wall: Micros) -> Micros {
        match self {
            Moment::In(time) => wall.saturating_add(time),
            Moment::Ago(time) => wall.saturating_sub(time),
            Moment::Never => Micros::MAX,
        }
    }
}

/// What the wall clock is set to.
#[derive(Clone, Copy, Debug)]
pub enum WallMove {
    Ahead(Micros),
    Back(Micros),
    /// To the `nth` moment for which a task waits plus `offset` microseconds.
    ToMoment {
        nth: usize,
        offset: i64,
    },
    /// To what it would show if it had never been set.
    Right,
}

pub const TUBE_NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The keys of tasks.
pub const KEYS: [&str; 3] = ["k", "l", "m"];

/// The tokens of puts.
pub const TOKENS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Keys that runs of schedules with the keys of tasks get.
pub const KEYS_OF_RUNS: [&str; 4] = ["k-1", "k-2", "l-1", "m-3"];

/// The tags of tasks.
pub const TAGS: [&str; 3] = ["red", "blue", "green"];
pub const CLIENTS: usize = 3;

/// Selects one of the items that exist when the step runs. The number is a share of the
/// range of `usize`, so that it selects the same relative position in a list of any length.
#[derive(Clone, Copy, Debug)]
pub struct Choice(pub usize);

impl Choice {
    /// `among` must not be empty.
    pub fn get<T>(self, among: &[T]) -> &T {
        let at = (self.0 as u128 * among.len() as u128) >> usize::BITS;
        &among[usize::try_from(at).unwrap()]
    }
}
