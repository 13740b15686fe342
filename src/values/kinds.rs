//! The kinds of events, and sets of them.

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The task was put.
    Put,
    /// The task was put anew by its key: it has the body and the options of the new put. If it was
    /// taken, `Lost` precedes it.
    Replace,
    /// The task was taken.
    Take,
    /// Its holder acked it.
    Ack,
    /// It was released: by its holder, or because the session ended.
    Release,
    /// Another caller ended the claim on it: it is ready again.
    Revoke,
    /// Its claim, ttr and ttl were extended.
    Touch,
    /// Its holder replaced its body.
    Checkpoint,
    /// Its holder reported [progress](crate::Claim::progress). At most ten times a second for each
    /// claim. No change of the task: it is not counted in the statistics.
    Progress,
    /// Its holder reported a failure. Its state is then ready, delayed or buried.
    Fail,
    /// It was released for a while, and the attempt is forgiven.
    Snooze,
    /// Its claim is overdue: its ttr elapsed, and its reclaim delay has begun. Or its process
    /// ended, or the task was put anew by its key.
    Lost,
    /// It was buried.
    Bury,
    /// It was kicked: it is ready again.
    Kick,
    /// It was deleted, or its ttl elapsed.
    Delete,
    /// Its ttl elapsed. Follows `Delete`.
    Ttl,
    /// The claim on it expired: its ttr elapsed, or its `max_runtime`, which is the cause then.
    Ttr,
    /// Its delay elapsed.
    Delay,
    /// It got parents that are not done: it is blocked.
    Block,
    /// Its last parent is done, or parents were removed: it is ready, delayed, or still blocked.
    Unblock,
    /// It is done, since a caller that does not hold it said so.
    Resolve,
    /// It was kept after its end, as done or buried, and is removed: its time has elapsed, there
    /// are newer ones, or a caller forgot it. Or it is a schedule that has put its last run.
    Forget,
    /// The schedule was stored, or changed.
    Schedule,
    /// It was put by a schedule: it is a run. Its state is then ready or delayed.
    Spawn,
    /// Its holder passed it on to another tube. An advance causes two events: one in the old tube with the
    /// state done, and one in the new tube with the state of the task there.
    Advance,
    /// A caller moved it to another tube. A move causes two events, as an advance does.
    Move,
    /// Its priority, its body, its tags, its delay or its moment was changed.
    Update,
    /// A program added an entry to its history.
    Log,
    /// Its holder stored a [step](crate::Claim::step) of the work.
    Step,
}

/// A set of kinds, as one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KindSet(u64);

impl KindSet {
    /// How many kinds there can be.
    pub(crate) const MOST: usize = u64::BITS as usize;
    pub(crate) const NONE: KindSet = KindSet(0);
    pub(crate) const ALL: KindSet = KindSet(u64::MAX);

    #[inline]
    pub(crate) fn contains(self, kind: EventKind) -> bool {
        self.has(kind as usize)
    }

    pub(crate) fn from_bits(bits: u64) -> KindSet {
        KindSet(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self == KindSet::NONE
    }

    /// The numbers of its kinds.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..KindSet::MOST).filter(move |number| self.has(*number))
    }

    #[inline]
    pub(crate) fn has(self, number: usize) -> bool {
        self.0 & 1 << number != 0
    }

    pub(crate) fn and(self, kind: EventKind) -> KindSet {
        self.with(kind as usize)
    }

    pub(crate) fn with(self, number: usize) -> KindSet {
        KindSet(self.0 | 1 << number)
    }

    pub(crate) fn without(self, number: usize) -> KindSet {
        KindSet(self.0 & !(1 << number))
    }

    pub(crate) fn union(self, other: KindSet) -> KindSet {
        KindSet(self.0 | other.0)
    }
}

impl FromIterator<EventKind> for KindSet {
    fn from_iter<T: IntoIterator<Item = EventKind>>(kinds: T) -> KindSet {
        kinds.into_iter().fold(KindSet::NONE, |set, kind| set.with(kind as usize))
    }
}
