//! The model: the expected tasks of a store in the order of their puts, each with its stored state
//! and its claim, and the edits of calls that may not be in the file yet.
//!
//! Delays and ttls are evaluated when a task is read: a task delayed until now is ready, a task
//! whose ttl elapses now is removed. Claims and sessions end in [`Model::expire`].

mod call_log;

use std::collections::{BTreeMap, BTreeSet};

use call_log::CallLog;
pub use call_log::{Found, Level};
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
    pub body: Body,
}

/// What the body of a task is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    pub version: u64,
    pub length: usize,
}

impl Body {
    /// The body of a task.
    pub fn text(self, seq: Seq) -> String {
        format!("{seq}.{}.{}", self.version, "x".repeat(self.length))
    }

    /// The task with this text as its body.
    #[track_caller]
    pub fn parse(text: &[u8]) -> (Seq, Body) {
        let text = std::str::from_utf8(text).unwrap();
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().unwrap();
        let (seq, version, length) =
            (next().parse().unwrap(), next().parse().unwrap(), next().len());
        let body = Body { version, length };
        assert!(body.text(seq) == text, "the body of task {seq} has changed");
        (seq, body)
    }
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
    pub priority: u32,
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
    log: CallLog,
}

impl Model {
    // ---- queries

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
        (if self.tubes[&task.tube].timed { task.priority } else { 0 }, seq)
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

    /// How long until this time; `None` if it never comes.
    pub fn time_until(&self, time: Micros) -> Option<Micros> {
        (time != NEVER).then(|| time.saturating_sub(self.now))
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
}
