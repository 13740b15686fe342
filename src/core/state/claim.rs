//! Claims.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tubewell_drivers::{Header, NEVER, Table, Value};

use super::buffers::Buffer;
use super::decided::Wait;
use crate::SessionId;
use crate::base::micros::micros_ceil;
use crate::base::signal::Signal;
use crate::base::tube_no::TubeNo;
use crate::options::Policies;
use crate::values::task::Progress;

/// A claim: one take of one task. It is kept in memory and ends with the process, unless it was
/// parked.
#[derive(Clone, Debug)]
pub(crate) struct ClaimState {
    pub(crate) tube: TubeNo,
    pub(crate) session: SessionId,
    pub(crate) epoch: u64,
    /// When the task was taken, on running time.
    pub(crate) taken_at: u64,
    /// When the task was taken, on the timeline.
    pub(crate) taken_on: u64,
    /// When the claim expires, on running time; `NEVER` without a limit.
    pub(crate) deadline: u64,
    /// The latest deadline that its task or its tube, and its worker allow; `NEVER` without a limit.
    pub(crate) latest: u64,
    /// How long after its deadline the holder may still end the claim.
    pub(crate) reclaim_delay: u64,
    /// The deadline has passed, and the reclaim delay has begun.
    pub(crate) is_overdue: bool,
    /// The take was counted before the task was handed out: the claim has a row in `claims`.
    pub(crate) is_counted: bool,
    /// The claim was parked, and has a row in the table `claims`.
    pub(crate) parked: Option<Box<Parked>>,
    /// What its holder has reported.
    pub(in crate::core) progress: Option<Box<ReportedProgress>>,
    /// Raised when the claim has ended. Made when its holder first waits for that.
    pub(in crate::core) end_signal: Option<Arc<Signal>>,
    /// The steps of the task. `None` until its holder stores one.
    pub(in crate::core) steps: Option<KnownSteps>,
    /// The task's header. Its takes include this take; those of the stored header may not.
    pub(crate) header: Header,
}

/// What memory knows of the steps of a task: enough to store a further one without a read.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct KnownSteps {
    /// The hashes of their names.
    pub(in crate::core) names: BTreeSet<u64>,
    /// The number of the next one.
    pub(in crate::core) next: u32,
}

/// What memory has of a claim that was parked.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    /// When the claim ends, on the timeline. `None` once a session has resumed it.
    pub(crate) until: Option<u64>,
    /// The label of the session that parked it.
    pub(crate) label: Option<Arc<str>>,
}

/// Which time of a claim has elapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Ttr,
    /// That of its last renewal.
    Renewal,
    /// The `max_runtime` of its task, its tube or its worker.
    MaxRuntime,
    Parked,
}

/// What the holder of a claim has reported.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct ReportedProgress {
    pub(in crate::core) last: Progress,
    /// When the last event of a report was queued, on running time.
    pub(in crate::core) event_at: Option<u64>,
    /// Whether the last report has no event.
    pub(in crate::core) is_pending: bool,
}

impl ClaimState {
    /// How long a claim on a task may last in a tube with these policies; `NEVER` without a limit.
    #[inline]
    pub(in crate::core) fn longest(header: &Header, policies: Option<&Policies>) -> u64 {
        let of_tube = policies.and_then(|policies| policies.max_runtime);
        header.max_runtime(of_tube.map(micros_ceil))
    }

    /// A claim without a deadline, on a task of a tube with these policies, which nothing was reported of.
    #[inline]
    pub(in crate::core) fn new(
        tube: TubeNo,
        (session, epoch): (SessionId, u64),
        policies: Option<&Policies>,
        header: Header,
    ) -> ClaimState {
        let reclaim_delay = policies.and_then(|policies| policies.reclaim_delay);
        ClaimState {
            tube,
            session,
            epoch,
            taken_at: 0,
            taken_on: 0,
            deadline: NEVER,
            latest: NEVER,
            reclaim_delay: reclaim_delay.map_or(0, micros_ceil),
            is_overdue: false,
            is_counted: false,
            parked: None,
            progress: None,
            end_signal: None,
            steps: None,
            header,
        }
    }

    /// Whether it is the claim of this take and session. A session that resumes a parked claim gets the same epoch.
    #[inline]
    pub(crate) fn is(&self, key: ClaimKey) -> bool {
        self.epoch == key.epoch && self.session == key.session
    }

    /// When the claim ends, on running time.
    pub(crate) fn ends_at(&self) -> u64 {
        self.deadline.saturating_add(self.reclaim_delay)
    }

    /// How long its holder may still end it though its deadline has passed; `NEVER` without a limit. `None` if
    /// the deadline has not passed, or nothing follows it.
    pub(crate) fn reclaim_delay_left(&self, running: u64) -> Option<u64> {
        let is_overdue = self.deadline <= running && self.reclaim_delay > 0;
        let left = match self.ends_at() {
            NEVER => NEVER,
            ends_at => ends_at.saturating_sub(running),
        };
        is_overdue.then_some(left)
    }

    /// Which time ends it.
    pub(crate) fn expiry(&self) -> Expiry {
        if self.parked_until().is_some() {
            Expiry::Parked
        } else if self.deadline >= self.latest && self.latest != NEVER {
            Expiry::MaxRuntime
        } else if self.header.ttr != NEVER {
            Expiry::Ttr
        } else {
            Expiry::Renewal
        }
    }

    /// When its timer fires.
    pub(crate) fn timer_at(&self) -> u64 {
        if self.is_overdue { self.ends_at() } else { self.deadline }
    }

    /// Whether it has a row in the table `claims`.
    pub(crate) fn has_row(&self) -> bool {
        self.is_counted || self.parked.is_some()
    }

    /// When a parked claim ends, on the timeline; `None` if a session has the claim.
    pub(crate) fn parked_until(&self) -> Option<u64> {
        self.parked.as_ref()?.until
    }
}

/// A claim: the task, the tube that it was taken from, the session that must still have it, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimKey {
    pub(crate) tube: TubeNo,
    pub(crate) id: u64,
    pub(crate) session: SessionId,
    pub(crate) epoch: u64,
}

/// A new claim, as a take returns it. A take moves it through its callers, and a job shares it with its handler: it
/// is a pointer.
#[derive(Clone, Debug)]
pub(crate) struct Grant(Arc<Granted>);

/// The parts of a [`Grant`].
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) tube: TubeNo,
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) session: SessionId,
    pub(crate) header: Header,
    /// The write buffer, table and key of the row that ends with the body, unless `row` has it.
    pub(crate) buffer: Buffer,
    pub(crate) table: Table,
    pub(crate) key: Vec<u8>,
    /// The row that ends with the body, if it was in memory.
    pub(crate) row: Option<Value>,
    /// How many attempts are left after this one; `None` without a limit.
    pub(crate) attempts_left: Option<u32>,
    /// The task is handed out after this: its take is counted then.
    pub(crate) counted: Option<Box<Wait>>,
}

impl Grant {
    /// The claim, for calls that need it to be current.
    pub(crate) fn key(&self) -> ClaimKey {
        let Granted { tube, id, session, epoch, .. } = **self;
        ClaimKey { tube, id, session, epoch }
    }
}

impl From<Granted> for Grant {
    #[inline]
    fn from(granted: Granted) -> Grant {
        Grant(Arc::new(granted))
    }
}

impl Deref for Grant {
    type Target = Granted;

    #[inline]
    fn deref(&self) -> &Granted {
        &self.0
    }
}

impl DerefMut for Grant {
    #[inline]
    fn deref_mut(&mut self) -> &mut Granted {
        Arc::make_mut(&mut self.0)
    }
}
