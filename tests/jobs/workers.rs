//! Threads that put, take, ack, release, bury, kick and delete at random, and a model that replays
//! the events of the tube.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use tubewell::{Error, Event, EventKind, Filter, Put, TaskState, Tube};

use super::rng::Rng;
use super::support::*;

const THREADS: u64 = 3;
const STEPS: u64 = 400;
const SUB_QUEUES: u64 = 5;
const PRIORITIES: u64 = 3;

/// What decides the place of a task: its priority and its sub-queue.
#[derive(Clone)]
struct Known {
    priority: u32,
    sub_queue: Option<String>,
}

fn random_task(case: &Case, rng: &mut Rng) -> (Put, Known) {
    let (mut put, mut known) = (Put::new("x".into()), Known { priority: 0, sub_queue: None });
    if case.timed() {
        known.priority = u32::try_from(rng.below(PRIORITIES)).unwrap();
        put = put.priority(known.priority);
    }
    if case.sub_queued() {
        let name = format!("s{}", rng.below(SUB_QUEUES));
        known.sub_queue = Some(name.clone());
        put = put.sub_queue(name);
    }
    (put, known)
}

/// What the calls of one or all threads have returned.
#[derive(Default)]
struct Log {
    put: Vec<(u64, Known)>,
    acked: Vec<u64>,
    deleted: Vec<u64>,
    /// The tasks whose claim had ended before the thread ended it.
    lost: Vec<u64>,
}

impl Log {
    fn add(&mut self, other: Log) {
        self.put.extend(other.put);
        self.acked.extend(other.acked);
        self.deleted.extend(other.deleted);
        self.lost.extend(other.lost);
    }
}

/// One thread: random calls in a session of its own.
fn work(case: &Case, mut rng: Rng) -> Log {
    let tube = case.tube_in_new_session();
    let mut log = Log::default();
    for _ in 0..STEPS {
        match rng.below(12) {
            0..=3 => {
                let (put, known) = random_task(case, &mut rng);
                log.put.push((tube.put(put).unwrap().id, known));
            }
            4 => drop(tube.admin().kick(Filter::new().limit(1 + rng.below(3))).unwrap()),
            5 => {
                let id = rng.below(case.store.admin().next_id().unwrap() + 1);
                match tube.delete(id) {
                    Ok(_) => log.deleted.push(id),
                    Err(error) => assert_eq!(error, Error::NotFound { id }),
                }
            }
            _ => take_and_end(&tube, &mut rng, &mut log),
        }
    }
    log
}

/// Takes a task, if one is ready, and acks, buries or releases it.
fn take_and_end(tube: &Tube, rng: &mut Rng, log: &mut Log) {
    let Some(claim) = tube.try_take().unwrap() else { return };
    let id = claim.id();
    let ended = match rng.below(5) {
        0 | 1 => claim.ack(),
        2 => claim.bury(None),
        3 => claim.release(),
        _ => return drop(claim),
    };
    match ended {
        Ok(receipt) if receipt.state == TaskState::Done => log.acked.push(id),
        Ok(_) => {}
        Err(error) => {
            assert_eq!(error, Error::NotTaken { id });
            log.lost.push(id);
        }
    }
}

/// The tasks as the events describe them.
struct Model {
    known: BTreeMap<u64, Known>,
    /// The tasks that were deleted at any time. Between a delete and its event, a task is neither
    /// ready nor removed.
    deleted: BTreeSet<u64>,
    states: BTreeMap<u64, TaskState>,
    ready: BTreeSet<(u32, u64)>,
    busy: BTreeSet<String>,
}

impl Model {
    fn apply(&mut self, event: &Event) {
        let known = self.known[&event.id].clone();
        let before = self.states.insert(event.id, event.state);
        let (from, to): (&[Option<TaskState>], TaskState) = match event.kind {
            EventKind::Put => (&[None], TaskState::Ready),
            EventKind::Take => (&[Some(TaskState::Ready)], TaskState::Taken),
            EventKind::Ack => (&[Some(TaskState::Taken)], TaskState::Done),
            EventKind::Release => (&[Some(TaskState::Taken)], TaskState::Ready),
            EventKind::Bury => (&[Some(TaskState::Taken)], TaskState::Buried),
            EventKind::Kick => (&[Some(TaskState::Buried)], TaskState::Ready),
            EventKind::Delete => (
                &[Some(TaskState::Ready), Some(TaskState::Taken), Some(TaskState::Buried)],
                TaskState::Done,
            ),
            other => panic!("unexpected {other:?} of task {}", event.id),
        };
        assert!(from.contains(&before) && to == event.state, "{before:?}, then {event:?}");

        let place = (known.priority, event.id);
        if event.kind == EventKind::Take {
            assert_eq!(self.first(place), Some(place), "{event:?} is out of order");
            self.busy.extend(known.sub_queue.clone());
        } else if before == Some(TaskState::Taken) {
            let _was_busy = known.sub_queue.is_some_and(|name| self.busy.remove(&name));
        }
        if to == TaskState::Ready {
            self.ready.insert(place);
        } else {
            self.ready.remove(&place);
        }
    }

    /// The ready task that a take should have returned: the first one, by priority and id, whose
    /// sub-queue has no taken task. A task that is being deleted may be skipped, and in a sub-queue
    /// those behind it too.
    fn first(&self, taken: (u32, u64)) -> Option<(u32, u64)> {
        let mut may_wait = BTreeSet::new();
        for place in &self.ready {
            let sub_queue = self.known[&place.1].sub_queue.as_ref();
            if sub_queue.is_some_and(|name| self.busy.contains(name)) {
                continue;
            }
            let is_held = sub_queue.is_some_and(|name| may_wait.contains(name));
            if *place == taken || !(is_held || self.deleted.contains(&place.1)) {
                return Some(*place);
            }
            may_wait.extend(sub_queue);
        }
        None
    }
}

/// I04
#[test]
fn concurrent_calls_lose_no_task_ack_none_twice_and_keep_order() {
    for_each_driver(all_or_few(), |case| {
        let events = Events::of(&case.store, Filter::new(), 100_000);
        let logs: Vec<Log> = thread::scope(|scope| {
            let run = |seed| scope.spawn(move || work(case, Rng::new(seed)));
            let threads: Vec<_> = (0..THREADS).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut log = Log::default();
        for one in logs {
            log.add(one);
        }
        assert!(log.acked.len() > 50 && log.deleted.len() > 10, "the threads did too little");

        // Each task has one end at most.
        let acked: BTreeSet<u64> = log.acked.iter().copied().collect();
        let deleted: BTreeSet<u64> = log.deleted.iter().copied().collect();
        assert_eq!((acked.len(), deleted.len()), (log.acked.len(), log.deleted.len()));
        assert!(acked.is_disjoint(&deleted));
        assert!(log.lost.iter().all(|id| deleted.contains(id)), "{:?}", log.lost);

        // The others are all there.
        let known: BTreeMap<u64, Known> = log.put.into_iter().collect();
        let has_ended = |id: &u64| acked.contains(id) || deleted.contains(id);
        let left: BTreeSet<u64> = known.keys().copied().filter(|id| !has_ended(id)).collect();
        assert_eq!(case.tube.statistics().unwrap().tasks.total, left.len() as u64);
        case.tube.admin().kick(Filter::new()).unwrap();
        let mut drained = BTreeSet::new();
        while let Some(claim) = case.tube.try_take().unwrap() {
            drained.insert(claim.id());
            claim.ack().unwrap();
        }
        assert_eq!(drained, left);
        assert_eq!(case.tasks(), counts([("done", known.len() as u64)]));

        let mut model = Model {
            known,
            deleted,
            states: BTreeMap::new(),
            ready: BTreeSet::new(),
            busy: BTreeSet::new(),
        };
        let received = events.read();
        for event in &received {
            model.apply(event);
        }
        assert!(received.len() > 1000);
        assert!(model.states.values().all(|state| *state == TaskState::Done));
        assert_eq!(model.states.len(), model.known.len());
    });
}
