//! The expected contents of a store: tubes and tasks in maps, and how due times change them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::expert::{HistoryEntry, PausedSubQueue};
use tubewell::{
    ClaimToken, Counting, DEFAULT_PRIORITY, Durability, Ending, FIFO, FIFOTTL, LIMFIFOTTL,
    TaskInfo, TaskState, TubeInfo, TubeOptions, UTUBE, UTUBETTL,
};

use crate::entries::random_limit;
use crate::gates::Gates;
use crate::outcomes::Retention;
use crate::rng::Rng;

/// A time that never comes. All times are microseconds since 1970.
pub const NEVER: u64 = u64::MAX;

pub const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, UTUBE, UTUBETTL, LIMFIFOTTL];

/// The durabilities that a load uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    All,
    /// Only written tubes.
    Written,
}

impl Levels {
    /// The durability of a store.
    pub fn of_store(self, rng: &mut Rng) -> Durability {
        match rng.below(8) {
            0 if self == Levels::All => Durability::relaxed(),
            2.. if self == Levels::All => Durability::Flush,
            _ => Durability::write(),
        }
    }

    /// The durability of a tube; `None` for that of the store.
    fn of_tube(self, rng: &mut Rng) -> Option<Durability> {
        let time = Duration::from_secs(20);
        let drawn = match (self, rng.below(8)) {
            (_, 0) | (Levels::All, 1) => return None,
            (Levels::All, 2 | 3) => Durability::Flush,
            (Levels::All, 4) => Durability::relaxed(),
            (Levels::All, 5) => Durability::Relaxed { max_delay: time },
            (_, 1..=6) => Durability::Write { flush_within: time },
            _ => Durability::write(),
        };
        Some(drawn)
    }
}

/// From when on a power cut keeps a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survival {
    /// From the answer on.
    FromAnswer,
    /// From the flush on that follows within this time.
    Within(Duration),
    /// From some later flush on, or the change is not in the file.
    #[default]
    Unknown,
}

/// A tube's driver and options.
#[derive(Clone, Debug)]
pub struct Kind {
    pub driver: &'static str,
    pub temporary: bool,
    pub durability: Option<Durability>,
    pub ttl: Option<Duration>,
    pub ttr: Option<Duration>,
    pub priority: u32,
    pub capacity: u64,
    pub limit: Option<Limit>,
    pub keep_done: Option<Retention>,
    pub keep_buried: Option<Retention>,
    pub gates: Gates,
    pub history: u32,
}

/// The limit of attempts of a tube.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub attempts: u32,
    pub counting: Counting,
}

impl Kind {
    pub fn random(driver: &'static str, temporary: bool, levels: Levels, rng: &mut Rng) -> Kind {
        let durability = levels.of_tube(rng);
        let mut plain = Kind { temporary, durability, ..Kind::plain(driver) };
        if !temporary {
            plain.keep_done = Retention::of_done(rng);
            plain.keep_buried = Retention::of_buried(rng);
            plain.history = random_limit(rng);
        }
        if !temporary && rng.one_in(3) {
            // Without times: the claims of tasks with a ttr end on running time.
            plain.limit = Some(Limit::random(rng));
            return plain;
        }
        if !plain.timed() {
            return plain;
        }
        let seconds = |rng: &mut Rng| rng.one_in(3).then(|| Duration::from_secs(5 + rng.below(60)));
        Kind {
            ttl: seconds(rng),
            ttr: seconds(rng),
            priority: u32::try_from(rng.below(3)).unwrap(),
            capacity: if driver == LIMFIFOTTL { 4 + rng.below(12) } else { 0 },
            ..plain
        }
    }

    /// A tube with default options.
    pub fn plain(driver: &'static str) -> Kind {
        Kind {
            driver,
            temporary: false,
            durability: None,
            ttl: None,
            ttr: None,
            priority: DEFAULT_PRIORITY,
            capacity: 0,
            limit: None,
            keep_done: None,
            keep_buried: None,
            gates: Gates::default(),
            history: 0,
        }
    }

    pub fn timed(&self) -> bool {
        [FIFOTTL, UTUBETTL, LIMFIFOTTL].contains(&self.driver)
    }

    pub fn sub_queued(&self) -> bool {
        [UTUBE, UTUBETTL].contains(&self.driver)
    }

    /// From when on a power cut keeps a change of this tube.
    pub fn survival(&self, store: Durability) -> Survival {
        match self.durability.unwrap_or(store) {
            _ if self.temporary => Survival::Unknown,
            Durability::Flush => Survival::FromAnswer,
            Durability::Write { flush_within: time } | Durability::Relaxed { max_delay: time } => {
                Survival::Within(time)
            }
        }
    }

    pub fn options(&self) -> TubeOptions {
        let mut options = TubeOptions::new().temporary(self.temporary);
        if let Some(durability) = self.durability {
            options = options.durability(durability);
        }
        if self.timed() {
            options = options.priority(self.priority);
        }
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        if let Some(ttr) = self.ttr {
            options = options.ttr(ttr);
        }
        if self.capacity > 0 {
            options = options.capacity(self.capacity);
        }
        if let Some(Limit { attempts, counting }) = self.limit {
            options = options.max_attempts(attempts).count_takes(counting);
        }
        // Every second tube counts.
        let is_counted = self.priority.is_multiple_of(2);
        let options = options.metrics(if is_counted { 3 } else { 0 });
        self.with_gates(self.with_retention(options.history(self.history)))
    }

    fn differs(&self, info: &TubeInfo, now: u64) -> bool {
        let ttr = self.ttr.or(self.ttl);
        let limit = self.limit.map(|limit| (limit.attempts, limit.counting));
        if limit != info.max_attempts.map(|attempts| (attempts, info.count_takes))
            || self.retention_differs(info)
            || self.history != info.history
            || self.gates_differ(info, now)
        {
            return true;
        }
        (self.driver, self.temporary, self.priority, self.capacity, self.ttl, ttr)
            != (&*info.driver, info.temporary, info.priority, info.capacity, info.ttl, info.ttr)
    }
}

/// The tags of a task.
pub type Tags = &'static [&'static str];

/// Tags for a task with a body of this size: none for most.
pub fn tags_for(size: usize) -> Tags {
    const TAGS: [Tags; 6] = [&[], &["red", "blue"], &[], &["blue"], &[], &["green", "red", "new"]];
    TAGS[size % TAGS.len()]
}

/// A stored task. Claims that were never parked are left out, since they end with the process.
#[derive(Clone, Debug)]
pub struct Task {
    pub tube: &'static str,
    pub state: TaskState,
    pub priority: u32,
    pub sub_queue: Option<String>,
    pub key: Option<&'static str>,
    pub tags: Tags,
    pub body: Arc<[u8]>,
    /// When its ttl elapses.
    pub expires_at: u64,
    /// When its delay elapses, if it is delayed.
    pub ready_at: u64,
    /// The moment of the wall clock before which it is not ready.
    pub not_before: Option<u64>,
    /// Its ttr in microseconds.
    pub ttr: u64,
    /// Its claim in the file, if it was parked and has not ended. It may be resumed.
    pub parked: Option<Parked>,
    /// How many attempts it has, if their number is limited.
    pub limit: Option<u32>,
    /// The attempts so far, if their number is limited.
    pub attempts: u32,
    /// Whether the file has the claim on it since its take was counted.
    pub is_counted: bool,
    /// The group of its last failure.
    pub failure: Option<&'static str>,
    /// The group in which it is buried.
    pub group: Option<&'static str>,
    /// Its result, if it is done and was given one.
    pub result: Option<Arc<[u8]>>,
    /// When it was done or buried, if it is.
    pub ended: u64,
    /// Until when it is kept, if it is done or buried.
    pub kept_until: u64,
    /// The last entry of the load in its history.
    pub logged: Option<u64>,
}

/// What the file has of a claim.
#[derive(Clone, Debug)]
pub struct Parked {
    /// When it ends.
    pub until: u64,
    pub token: ClaimToken,
}

impl Task {
    /// When its state changes.
    pub fn next_change(&self) -> u64 {
        self.due().min(self.parked_until())
    }

    /// When its delay or its ttl elapses, or it is no longer kept.
    fn due(&self) -> u64 {
        match self.state {
            TaskState::Delayed => self.ready_at,
            TaskState::Buried => self.expires_at.min(self.kept_until),
            TaskState::Done => self.kept_until,
            _ => self.expires_at,
        }
    }

    /// What a list shows as the time at which its ttl elapses.
    fn ttl_until(&self) -> u64 {
        if self.state == TaskState::Done { self.kept_until } else { self.expires_at }
    }

    /// When its claim ends, if it was parked.
    pub fn parked_until(&self) -> u64 {
        self.parked.as_ref().map_or(NEVER, |parked| parked.until)
    }

    /// What a list shows as the time at which its state changes.
    fn state_until(&self) -> u64 {
        if self.state == TaskState::Delayed { self.ready_at } else { self.parked_until() }
    }

    fn differs(&self, tube: &str, info: &TaskInfo, body: Option<&[u8]>, now: u64) -> bool {
        let left = |until: u64| Duration::from_micros(until.saturating_sub(now));
        let expected = (
            self.tube,
            self.state,
            self.priority,
            (&self.sub_queue, self.key),
            self.body.len() as u64,
            (self.ttl_until() != NEVER).then(|| left(self.ttl_until())),
            (self.ttr != NEVER).then(|| Duration::from_micros(self.ttr)),
            (self.state_until() != NEVER).then(|| left(self.state_until())),
        );
        let found = (
            tube,
            info.state,
            info.priority,
            (&info.sub_queue, info.key.as_deref()),
            info.size,
            info.ttl_left,
            info.ttr,
            info.due_in,
        );
        let failure = info.failure.as_ref().map(|failure| &*failure.group);
        let failure = (failure, info.group.as_deref());
        let attempts = self.limit.map(|limit| (self.attempts, limit - self.attempts));
        let found_attempts = self.limit.and(info.attempts_left.map(|left| (info.attempts, left)));
        let has_tags = info.tags.iter().eq(self.tags);
        (expected, (self.failure, self.group), attempts) != (found, failure, found_attempts)
            || self.moment_differs(info)
            || !has_tags
            || body.is_some_and(|body| *body != *self.body)
    }
}

/// The contents of a store after some call.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub tubes: BTreeMap<&'static str, Arc<Kind>>,
    /// Without tasks of temporary tubes, which must not be in the file.
    pub tasks: BTreeMap<u64, Arc<Task>>,
    /// The limits that are set.
    pub limits: BTreeMap<&'static str, u32>,
    /// The time of the latest call, in microseconds.
    pub now: u64,
}

impl Contents {
    /// Changes a task; returns false if it is not stored.
    pub fn change(&mut self, id: u64, change: impl FnOnce(&mut Task)) -> bool {
        self.tasks.get_mut(&id).map(|task| change(Arc::make_mut(task))).is_some()
    }

    pub fn park(&mut self, id: u64, parked: Parked) -> bool {
        self.change(id, |task| (task.state, task.parked) = (TaskState::Taken, Some(parked)))
    }

    /// Ends the claim on a task if it was parked; returns whether it was.
    pub fn unpark(&mut self, id: u64) -> bool {
        let was_parked = self.tasks.get(&id).is_some_and(|task| task.parked.is_some());
        was_parked && self.change(id, |task| (task.state, task.parked) = (TaskState::Ready, None))
    }

    /// Whether the parked claims in the sub-queue of a task, or its pause, allow no take.
    pub fn is_busy(&self, task: &Task, now: u64) -> bool {
        let is_same =
            |other: &&Arc<Task>| (other.tube, &other.sub_queue) == (task.tube, &task.sub_queue);
        let kind = self.tubes.get(task.tube).filter(|kind| kind.sub_queued());
        let parked = self.tasks.values().filter(is_same).filter(|other| other.parked.is_some());
        let name = task.sub_queue.as_deref().unwrap_or_default();
        kind.is_some_and(|kind| parked.count() >= kind.limit_of(name, now))
    }

    pub fn remove_tasks(&mut self, tube: &str) {
        self.tasks.retain(|_, task| task.tube != tube);
    }

    /// Applies the first change that is due by then; returns false if there is none.
    ///
    /// An open store processes each moment of its clock in turn, from `from` on, where everything
    /// overdue is due. At one moment it ends parked claims first.
    pub fn apply_next_due(&mut self, from: u64, by: u64) -> bool {
        let dues = self.tasks.iter().flat_map(|(id, task)| {
            let due = |time: u64, is_of_claim: bool| (time.max(from), !is_of_claim, time, *id);
            [due(task.parked_until(), true), due(task.due(), false)]
        });
        let first = dues.min().filter(|(moment, ..)| *moment <= by);
        let Some((_, is_of_task, _, id)) = first else { return false };
        if !is_of_task {
            return self.unpark(id);
        }
        if self.tasks[&id].state == TaskState::Delayed {
            self.change(id, |task| task.state = TaskState::Ready);
        } else {
            self.tasks.remove(&id);
        }
        true
    }

    /// Describes the first difference from what was found in a store, if any.
    pub fn difference(&self, found: &Found, now: u64) -> Option<String> {
        let names: Vec<&str> = found.tubes.iter().map(|info| &*info.name).collect();
        if !names.iter().eq(self.tubes.keys()) {
            return Some(format!("tubes {names:?}, not {:?}", self.tubes.keys()));
        }
        for (info, kind) in found.tubes.iter().zip(self.tubes.values()) {
            if kind.differs(info, now) {
                return Some(format!("{info:?}, not {kind:?}"));
            }
        }
        for (id, (tube, info, body)) in &found.tasks {
            match self.tasks.get(id) {
                None => return Some(format!("unexpected task in {tube:?}: {info:?}")),
                Some(task) if task.differs(tube, info, body.as_deref(), now) => {
                    let body = body.as_ref().map_or("unread", |body| {
                        if **body == *task.body { "right" } else { "wrong" }
                    });
                    return Some(format!(
                        "in {tube:?} {info:?}, body {body}, not {task:?} at {now}"
                    ));
                }
                Some(_) => {}
            }
        }
        let missing = self.tasks.iter().find(|(id, _)| !found.tasks.contains_key(id));
        if let Some((id, task)) = missing {
            let (tube, state) = (task.tube, task.state.as_char());
            return Some(format!("task {id} is missing in {tube:?}, state {state}"));
        }
        let others = self.difference_of_limits(found, now);
        let others = others.or_else(|| self.difference_of_outcomes(found));
        others.or_else(|| self.difference_of_histories(found))
    }
}

/// What was found in a store: tubes, and tasks with their tube. Tasks have a body if it was read,
/// see [`crate::check::read_contents`].
#[derive(Debug, Default)]
pub struct Found {
    pub tubes: Vec<TubeInfo>,
    pub limits: Vec<tubewell::Limit>,
    /// Those of each tube.
    pub paused_sub_queues: BTreeMap<String, Vec<PausedSubQueue>>,
    pub tasks: BTreeMap<u64, (String, TaskInfo, Option<Vec<u8>>)>,
    /// How those of the done tasks whose body was read have ended.
    pub endings: BTreeMap<u64, Option<Ending>>,
    /// The histories of those tasks whose body was read.
    pub histories: BTreeMap<u64, Vec<HistoryEntry>>,
    /// The failure groups of each tube, with their counts and their tasks.
    pub groups: BTreeMap<String, BTreeMap<String, (u64, Vec<u64>)>>,
}
