//! The words that the model speaks in.

use std::collections::BTreeMap;

pub type Micros = u64;
pub type TubeNo = u64;
pub type TaskNo = u64;
pub type SessionNo = u64;
pub type ClaimNo = u64;
pub type WaitNo = u64;

/// The end of time: what never comes, or lasts for ever.
pub const NEVER: Micros = Micros::MAX;

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
}

/// The options of a tube.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub pri: Option<u32>,
    pub capacity: Option<u64>,
    pub temporary: bool,
}

impl Options {
    pub(super) fn ttl(&self) -> Micros {
        self.ttl.unwrap_or(NEVER)
    }

    pub(super) fn ttr(&self) -> Micros {
        self.ttr.unwrap_or(self.ttl())
    }

    pub(super) fn pri(&self) -> u32 {
        self.pri.unwrap_or(0)
    }

    /// If there is a limit.
    pub(super) fn capacity(&self) -> Option<u64> {
        self.capacity.filter(|capacity| *capacity > 0)
    }

    /// Whether they come to the same.
    pub(super) fn same(&self, other: &Options) -> bool {
        let all = |it: &Options| (it.ttl(), it.ttr(), it.pri(), it.capacity(), it.temporary);
        all(self) == all(other)
    }
}

/// A task to be put.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub data: Vec<u8>,
    pub pri: Option<u32>,
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub delay: Micros,
    pub sub_queue: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Ready,
    Taken,
    Delayed,
    Buried,
    Done,
}

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotTaken,
    NotFound,
    Unsupported,
    Full,
    TubeExists,
    TubeDiffers,
    TubeDropped,
    TubeBusy,
    SessionUnknown,
    SessionEnded,
    Closed,
}

pub type Answer<T> = Result<T, Refusal>;

/// What is counted and reported about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Put,
    Take,
    Ack,
    Release,
    Bury,
    Kick,
    Delete,
    Touch,
    Ttl,
    Ttr,
    Delay,
}

/// What moves a task from state to state; finer than what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The verb itself, or the time over that it is named after.
    Verb(Verb),
    /// Put by who waited for room.
    LetIn,
    /// Releases that nobody asked for by that name.
    ClaimDropped,
    SessionEnded,
    ReleaseAll,
    /// Not counted.
    BuriedAlready,
    Renewed,
    Reopened,
    Truncated,
    TubeDropped,
}

impl Cause {
    pub(super) fn counted_as(self) -> Option<Verb> {
        match self {
            Cause::Verb(verb) => Some(verb),
            Cause::LetIn => Some(Verb::Put),
            Cause::ClaimDropped | Cause::SessionEnded | Cause::ReleaseAll => Some(Verb::Release),
            _ => None,
        }
    }
}

/// A transition of a driver's state machine; it begins nowhere for a put.
pub type Mark = (Driver, Option<State>, Cause, State);

/// What a subscriber is told.
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
}

#[derive(Clone, Debug)]
pub struct Task {
    pub tube: TubeNo,
    pub data: Vec<u8>,
    pub pri: u32,
    pub sub_queue: Option<String>,
    /// How often it was taken.
    pub takes: u32,
    pub ttr: Micros,
    /// When it was put, its ttl, and what was added to the ttl since, all together.
    pub dead: Micros,
    pub(super) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ready,
    Delayed { until: Micros },
    Taken(Claim),
    Buried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) no: ClaimNo,
    pub(super) session: SessionNo,
    /// When the hold ends.
    pub(super) until: Micros,
}

impl Task {
    pub fn state(&self) -> State {
        match self.place {
            Place::Ready => State::Ready,
            Place::Delayed { .. } => State::Delayed,
            Place::Taken(_) => State::Taken,
            Place::Buried => State::Buried,
        }
    }

    /// When it becomes ready by itself, or would if it lived.
    pub fn due(&self) -> Micros {
        match &self.place {
            Place::Delayed { until } => *until,
            Place::Taken(claim) => claim.until,
            Place::Ready | Place::Buried => NEVER,
        }
    }

    /// The claim on it and whose that is.
    pub fn claim(&self) -> Option<(ClaimNo, SessionNo)> {
        match &self.place {
            Place::Taken(claim) => Some((claim.no, claim.session)),
            _ => None,
        }
    }
}

/// Who says that he holds a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub session: SessionNo,
    /// This very claim, or else whichever claim the session has on the task now.
    pub claim: Option<ClaimNo>,
}

/// A task that was taken, and the claim on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub task: TaskNo,
    pub claim: ClaimNo,
}
