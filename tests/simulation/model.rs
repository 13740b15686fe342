//! The model: the expected tasks of a store in the order of their puts, each with its stored state
//! and its claim, and the edits of calls that may not be in the file yet.
//!
//! Delays and ttls are evaluated when a task is read: a task delayed until now is ready, a task
//! whose ttl elapses now is removed. Claims and sessions end in [`Model::expire`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tubewell::Durability;

pub type Micros = u64;
/// The position of a task in the order of puts. Ids increase with it.
pub type Seq = u64;
pub type TubeNo = u64;
pub type SessionNo = u64;
pub type ClaimNo = u64;

pub const NEVER: Micros = Micros::MAX;
/// The store's own session.
pub const STORE_SESSION: SessionNo = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tube {
    pub name: String,
    pub driver: &'static str,
    pub timed: bool,
    pub sub_queued: bool,
    /// 0 for no limit.
    pub capacity: usize,
    pub temporary: bool,
    /// `None` for that of the store.
    pub durability: Option<Durability>,
}

/// When an answered change is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Temporary,
    Relaxed,
    Written,
    Flushed,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Temporary => "temporary",
            Level::Relaxed => "relaxed",
            Level::Written => "written",
            Level::Flushed => "flushed",
        }
    }
}

/// An accepted call whose edits may not be flushed yet.
#[derive(Debug)]
struct Call {
    edits: Vec<Edit>,
    /// When the store must have flushed it, unless its storage fails.
    flush_by: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredState {
    Ready,
    Delayed(Micros),
    Buried,
}

/// The state of a task in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub state: StoredState,
    pub expires_at: Micros,
    pub ttr: Micros,
}

impl Stored {
    /// Its state at this time, or `None` if its ttl has elapsed.
    pub fn at(self, now: Micros) -> Option<Stored> {
        if self.expires_at <= now {
            return None;
        }
        match self.state {
            StoredState::Delayed(until) if until <= now => {
                Some(Stored { state: StoredState::Ready, ..self })
            }
            _ => Some(self),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub no: ClaimNo,
    pub session: SessionNo,
    pub until: Micros,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub tube: TubeNo,
    pub body: String,
    pub pri: u32,
    pub sub: Option<String>,
    /// Known once an answer has returned it.
    pub id: Option<u64>,
    pub stored: Option<Stored>,
    pub claim: Option<Claim>,
    /// Whether its put was acknowledged.
    pub acknowledged: bool,
    /// Whether a deferred change of it has no answer yet.
    pub in_flight: bool,
}

/// One edit of the file: a task's new state, `None` if it is removed, or whether a tube exists.
#[derive(Clone, Debug)]
pub enum Edit {
    Task(Seq, Option<Stored>),
    Tube(TubeNo, bool),
}

#[derive(Clone, Debug, Default)]
struct File {
    tasks: BTreeMap<Seq, Stored>,
    tubes: BTreeSet<TubeNo>,
}

impl File {
    fn apply(&mut self, edits: &[Edit]) {
        for edit in edits {
            match edit {
                Edit::Task(seq, Some(stored)) => {
                    self.tasks.insert(*seq, *stored);
                }
                Edit::Task(seq, None) => {
                    self.tasks.remove(seq);
                }
                Edit::Tube(no, true) => {
                    self.tubes.insert(*no);
                }
                Edit::Tube(no, false) => {
                    self.tubes.remove(no);
                }
            }
        }
    }
}

/// What was found in an opened store: the names of its tubes, and its tasks with their tube's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub tubes: BTreeSet<String>,
    pub tasks: BTreeMap<Seq, (String, Stored)>,
}

#[derive(Debug, Default)]
pub struct Model {
    pub now: Micros,
    /// All tubes ever created.
    pub tubes: BTreeMap<TubeNo, Tube>,
    /// The tubes that exist.
    pub names: BTreeMap<String, TubeNo>,
    pub tasks: BTreeMap<Seq, Task>,
    /// Sessions that are alive; with the end of the grace period if all handles are dropped.
    pub sessions: BTreeMap<SessionNo, Option<Micros>>,
    /// The durability of the store in this run.
    pub durability: Durability,
    /// What is in the file for certain, even after a power cut.
    file: File,
    /// All later calls. They are numbered over all runs of the store.
    pending: VecDeque<Call>,
    /// The number of the first pending call.
    first_pending: u64,
    /// The number of the first call that a kill may lose.
    first_unwritten: u64,
    /// As `first_unwritten`, before the power was cut.
    first_unwritten_before_cut: u64,
}

/// The calls that an opened store does not have.
pub struct Lost {
    pub calls: usize,
    /// Those among them that a kill would not have lost.
    pub written: u64,
}

impl Model {
    // ---- queries

    pub fn level(&self, tube: TubeNo) -> Level {
        let tube = &self.tubes[&tube];
        match tube.durability.unwrap_or(self.durability) {
            _ if tube.temporary => Level::Temporary,
            Durability::Relaxed { .. } => Level::Relaxed,
            Durability::Write { .. } => Level::Written,
            Durability::Flush => Level::Flushed,
        }
    }

    /// How long after a change in this tube its flush begins. A change that waits for its flush has
    /// no such time: the flush may fail.
    fn flush_within(&self, tube: TubeNo) -> Micros {
        let tube = &self.tubes[&tube];
        match tube.durability.unwrap_or(self.durability) {
            Durability::Relaxed { max_delay: within }
            | Durability::Write { flush_within: within }
                if !tube.temporary =>
            {
                u64::try_from(within.as_micros()).unwrap_or(NEVER)
            }
            _ => NEVER,
        }
    }

    pub fn stored(&self, seq: Seq) -> Option<Stored> {
        self.tasks.get(&seq)?.stored?.at(self.now)
    }

    /// The tasks of a tube that are stored and not expired.
    pub fn live_tasks(&self, tube: TubeNo) -> impl Iterator<Item = (Seq, &Task, Stored)> {
        let of_tube = self.tasks.iter().filter(move |(_, task)| task.tube == tube);
        of_tube.filter_map(|(seq, task)| Some((*seq, task, task.stored?.at(self.now)?)))
    }

    /// The key by which takes are ordered.
    pub fn order_key(&self, seq: Seq) -> (u32, Seq) {
        let task = &self.tasks[&seq];
        (if self.tubes[&task.tube].timed { task.pri } else { 0 }, seq)
    }

    /// Whether a take may return this task.
    pub fn is_takeable(&self, seq: Seq) -> bool {
        let Some(task) = self.tasks.get(&seq) else { return false };
        let free = task.claim.is_none() && !task.in_flight;
        let ready = self.stored(seq).is_some_and(|stored| stored.state == StoredState::Ready);
        free && ready && !self.is_blocked(task)
    }

    fn is_blocked(&self, task: &Task) -> bool {
        self.tubes[&task.tube].sub_queued
            && self
                .live_tasks(task.tube)
                .any(|(_, other, _)| other.sub == task.sub && other.claim.is_some())
    }

    /// The task that a take must return.
    pub fn next_task(&self, tube: TubeNo) -> Option<Seq> {
        let takeable =
            self.live_tasks(tube).map(|(seq, ..)| seq).filter(|seq| self.is_takeable(*seq));
        takeable.min_by_key(|seq| self.order_key(*seq))
    }

    /// Whether this claim is still valid.
    pub fn has_claim(&self, seq: Seq, claim_no: ClaimNo) -> bool {
        self.tasks[&seq].claim.is_some_and(|claim| claim.no == claim_no)
    }

    pub fn is_alive(&self, session: SessionNo) -> bool {
        session == STORE_SESSION || self.sessions.contains_key(&session)
    }

    pub fn taken_count(&self, tube: TubeNo) -> usize {
        self.live_tasks(tube).filter(|(_, task, _)| task.claim.is_some()).count()
    }

    /// Records the id of a task. Ids increase in the order of puts, and none is used twice.
    #[track_caller]
    pub fn record_id(&mut self, seq: Seq, id: u64) {
        let known = |(seq, task): (&Seq, &Task)| task.id.map(|id| (*seq, id));
        let before = self.tasks.range(..seq).rev().find_map(known);
        let after = self.tasks.range(seq + 1..).find_map(known);
        assert!(
            before.is_none_or(|(_, other)| other < id),
            "task {seq} has id {id}; before it {before:?}"
        );
        assert!(
            after.is_none_or(|(_, other)| other > id),
            "task {seq} has id {id}; after it {after:?}"
        );
        let task = self.tasks.get_mut(&seq).unwrap();
        assert!(
            task.id.is_none_or(|known| known == id),
            "task {seq} has id {id}, and had {:?}",
            task.id
        );
        task.id = Some(id);
    }

    // ---- time

    /// Ends claims and sessions that have expired.
    pub fn expire(&mut self) {
        let now = self.now;
        self.sessions.retain(|_, until| until.is_none_or(|until| until > now));
        let alive: BTreeSet<SessionNo> = self.sessions.keys().copied().collect();
        for task in self.tasks.values_mut() {
            let gone = task.stored.is_none_or(|stored| stored.at(now).is_none());
            let ended = |claim: &Claim| {
                claim.until <= now
                    || (claim.session != STORE_SESSION && !alive.contains(&claim.session))
            };
            if !task.in_flight && (gone || task.claim.as_ref().is_some_and(ended)) {
                task.claim = None;
            }
        }
    }

    /// The next time at which a task, a claim or a session expires or a delay elapses.
    pub fn next_due(&self) -> Micros {
        let of_tasks = self.tasks.values().flat_map(|task| {
            let stored = task.stored.filter(|stored| stored.expires_at > self.now);
            let ready = match stored.map(|stored| stored.state) {
                Some(StoredState::Delayed(until)) => until,
                _ => NEVER,
            };
            let expires = stored.map_or(NEVER, |stored| stored.expires_at);
            [ready, expires, task.claim.map_or(NEVER, |claim| claim.until)]
        });
        let of_sessions = self.sessions.values().map(|until| until.unwrap_or(NEVER));
        of_tasks.chain(of_sessions).filter(|due| *due > self.now).min().unwrap_or(NEVER)
    }

    // ---- changes

    /// Records the edits of an accepted call. Returns the call's number.
    pub fn record_call(&mut self, edits: &[Edit]) -> u64 {
        let stored = edits.iter().filter(|edit| match edit {
            Edit::Task(seq, _) => !self.tubes[&self.tasks[seq].tube].temporary,
            Edit::Tube(..) => true,
        });
        let within = edits.iter().map(|edit| match edit {
            Edit::Task(seq, _) => self.flush_within(self.tasks[seq].tube),
            Edit::Tube(..) => NEVER,
        });
        let flush_by = self.now.saturating_add(within.min().unwrap_or(NEVER));
        self.pending.push_back(Call { edits: stored.cloned().collect(), flush_by });
        self.first_pending + self.pending.len() as u64 - 1
    }

    /// A call that changed this tube has returned.
    pub fn mark_answered(&mut self, call: u64, tube: TubeNo) {
        match self.level(tube) {
            Level::Temporary | Level::Relaxed => {}
            // A record has everything that was decided before it.
            Level::Written => self.first_unwritten = self.first_unwritten.max(call + 1),
            Level::Flushed => self.mark_durable(call),
        }
    }

    /// Makes the edits of a call visible. Claims are not changed.
    pub fn make_visible(&mut self, edits: &[Edit]) {
        for edit in edits {
            match edit {
                Edit::Task(seq, stored) => {
                    let task = self.tasks.get_mut(seq).unwrap();
                    task.stored = *stored;
                    task.in_flight = false;
                }
                Edit::Tube(no, exists) => {
                    let name = self.tubes[no].name.clone();
                    if *exists {
                        self.names.insert(name, *no);
                    } else {
                        self.names.remove(&name);
                    }
                }
            }
        }
    }

    /// Moves the edits of all calls up to this one into the file.
    pub fn mark_durable(&mut self, call: u64) {
        while self.first_pending <= call
            && let Some(call) = self.pending.pop_front()
        {
            self.first_pending += 1;
            self.file.apply(&call.edits);
        }
    }

    /// The clock has advanced and the storage works: calls whose flush was due are flushed.
    pub fn mark_due_flushes(&mut self) {
        if let Some(last) = self.pending.iter().rposition(|call| call.flush_by <= self.now) {
            self.mark_durable(self.first_pending + last as u64);
        }
    }

    /// The power was cut: written changes that were not flushed may be lost.
    pub fn cut_power(&mut self) {
        self.first_unwritten_before_cut = self.first_unwritten;
        self.first_unwritten = self.first_pending;
    }

    pub fn mark_all_durable(&mut self) {
        self.mark_durable(u64::MAX - 1);
    }

    /// Ends a run of the store: claims, sessions and temporary tasks are lost.
    pub fn end_run(&mut self) {
        self.sessions.clear();
        for task in self.tasks.values_mut() {
            task.claim = None;
            task.in_flight = false;
            if self.tubes[&task.tube].temporary {
                task.stored = None;
                // A temporary tube shows a task before its put is answered. If the put never was,
                // the next run may use the id again.
                task.id = task.id.filter(|_| task.acknowledged);
            }
        }
    }

    /// Compares what was found in an opened store: it must be the file with the edits of the first
    /// pending calls, at least of those that were written. Returns the others, which were lost.
    #[track_caller]
    pub fn recover(&mut self, found: &Found) -> Lost {
        let mut file = self.file.clone();
        let mut matching = (self.visible_contents(&file) == *found).then_some((0, file.clone()));
        for (kept, call) in self.pending.iter().enumerate() {
            file.apply(&call.edits);
            // If several states match, the latest is assumed: the file cannot tell them apart.
            if self.visible_contents(&file) == *found {
                matching = Some((kept + 1, file.clone()));
            }
        }
        let Some((kept, file)) = matching else {
            panic!(
                "found {found:#?}\nwhich matches no call; in the file: {:#?}\npending: {:#?}",
                self.visible_contents(&self.file),
                self.pending
            );
        };
        let first_lost = self.first_pending + kept as u64;
        let lost = Lost {
            calls: self.pending.len() - kept,
            written: self.first_unwritten_before_cut.saturating_sub(first_lost),
        };
        let written = self.first_unwritten.saturating_sub(self.first_pending);
        assert!(
            kept as u64 >= written,
            "{written} pending calls were written, {kept} were found: {:#?}",
            self.pending
        );
        self.first_pending += self.pending.len() as u64;
        self.first_unwritten = self.first_pending;
        self.pending.clear();
        for (seq, task) in &mut self.tasks {
            if !self.tubes[&task.tube].temporary {
                task.stored = file.tasks.get(seq).copied();
            }
        }
        self.names = file.tubes.iter().map(|no| (self.tubes[no].name.clone(), *no)).collect();
        self.file = file;
        lost
    }

    /// What a store with this file would show.
    fn visible_contents(&self, file: &File) -> Found {
        let name = |seq: &Seq| self.tubes[&self.tasks[seq].tube].name.clone();
        let tasks = file.tasks.iter();
        Found {
            tubes: file.tubes.iter().map(|no| self.tubes[no].name.clone()).collect(),
            tasks: tasks
                .filter_map(|(seq, stored)| Some((*seq, (name(seq), stored.at(self.now)?))))
                .collect(),
        }
    }
}
