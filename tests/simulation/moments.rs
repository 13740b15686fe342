//! Moments and rates under simulation: tasks with delays and moments of a wall clock that is set, in
//! tubes with rates of takes for the tube and for each sub-queue. While the disk works, each take
//! gives the first task whose times have come and that no rate holds back. No period ever has more
//! takes than its rate allows. After a fault, a kill or a power cut, every task has the moment that
//! its last answered call has given it.

mod rates;
mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rates::{Limit, Take};
use tubewell::{Claim, Durability, Put, Result, TubeOptions, UTUBETTL, Update};

use crate::model::Micros;
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::World;

const MS: Micros = 1000;
const TUBES: usize = 2;
const NAMES: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Copy, Debug)]
struct Policy {
    durability: Durability,
    rate: Option<Limit>,
    sub_queue_rate: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// It waits for its times.
    Delayed,
    Ready,
    Taken,
    Buried,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    tube: usize,
    sub_queue: &'static str,
    status: Status,
    /// When its delay elapses, on the timeline of the store.
    delayed_until: Duration,
    /// The moment before which it is not ready, as the wall clock shows it.
    moment: Option<Duration>,
}

struct Simulation {
    world: World,
    policies: Vec<Policy>,
    /// The tasks that are stored, as far as their ids are known.
    tasks: BTreeMap<u64, Task>,
    /// All moments that calls have given to a task, whatever their answers.
    given: BTreeMap<u64, BTreeSet<Option<Duration>>>,
    /// The takes of this run of the store, and when its buckets were empty and began to fill.
    takes: Vec<Take>,
    filling_since: Option<Micros>,
    /// Tasks whose last call has failed, so that it is not known what became of them.
    unknown: BTreeSet<u64>,
    /// Tasks whose last call is answered and may not be flushed.
    unflushed: BTreeSet<u64>,
    /// Tasks whose claim was dropped before their moment. No caller waits until that is stored.
    dropped: BTreeSet<u64>,
    /// Whether a take has failed, which may have used up a token.
    are_rates_unknown: bool,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x3030;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let policies: Vec<Policy> = (0..TUBES).map(|_| random_policy(&mut rng)).collect();
        Simulation {
            world: World::new(UTUBETTL, policies.iter().map(|policy| policy.options())),
            policies,
            tasks: BTreeMap::new(),
            given: BTreeMap::new(),
            takes: Vec::new(),
            filling_since: None,
            unknown: BTreeSet::new(),
            unflushed: BTreeSet::new(),
            dropped: BTreeSet::new(),
            are_rates_unknown: false,
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(TUBES);
        match rng.below(40) {
            0..9 => self.put(nth, rng),
            9..19 => self.take(nth),
            19..26 => self.end_claim(rng),
            26..30 => self.administer(rng),
            30..33 => self.set_wall(nth, rng),
            33..36 => self.world.advance(rng.below(8 * MS)),
            36 => self.world.arm(rng),
            37..39 => self.crash(rng),
            _ => self.reopen(rng),
        }
        self.pass();
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    /// The timeline of the store, and what the wall clock shows.
    fn now(&self) -> (Duration, Duration) {
        let report = self.world.store.admin().clock_report().unwrap();
        (report.timeline, report.wall)
    }

    /// Makes the tasks ready for which no time is left to wait.
    fn pass(&mut self) {
        let now = self.now();
        for task in self.tasks.values_mut().filter(|task| task.status == Status::Delayed) {
            if !task.is_early(now) {
                task.status = Status::Ready;
            }
        }
    }

    /// A call that changes a task that exists, or removes it. Returns whether it took place.
    fn change<T>(
        &mut self,
        verb: &'static str,
        answer: Result<T>,
        id: u64,
        new: Option<Task>,
    ) -> bool {
        let nth = self.tasks[&id].tube;
        self.given.entry(id).or_default().extend(new.map(|task| task.moment));
        let (answer, is_applied) = self.world.done(verb, answer);
        if is_applied && let Some(task) = new {
            self.tasks.insert(id, task);
        } else if is_applied {
            self.tasks.remove(&id);
        }
        match answer {
            Some(_) => {
                self.dropped.remove(&id);
                self.answered(id, nth);
            }
            None => drop(self.unknown.insert(id)),
        }
        is_applied
    }

    /// A call on a task of this tube is answered. A flush contains all calls before it.
    fn answered(&mut self, id: u64, nth: usize) {
        if self.policies[nth].durability == Durability::Flush {
            self.unflushed.clear();
        } else {
            self.unflushed.insert(id);
        }
    }

    fn put(&mut self, nth: usize, rng: &mut Rng) {
        let (sub_queue, (now, wall)) = (rng.pick(&NAMES), self.now());
        let delay = Duration::from_micros(rng.pick(&[0, 0, 3 * MS, 9 * MS]));
        let moment = random_moment(wall, rng);
        let mut put = Put::new("x").sub_queue(sub_queue).delay(delay);
        put = moment.into_iter().fold(put, |put, moment| put.not_before(at(moment)));
        let (status, delayed_until) = (Status::Delayed, now + delay);
        let task = Task { tube: nth, sub_queue, status, delayed_until, moment };
        let answer = self.world.tubes[nth].put(put);
        if let (Some(receipt), _) = self.world.done("put", answer) {
            let old = self.tasks.insert(receipt.id, task);
            assert_eq!(old, None, "the id {} is used twice", receipt.id);
            self.given.entry(receipt.id).or_default().insert(moment);
            self.answered(receipt.id, nth);
        }
    }

    fn take(&mut self, nth: usize) {
        let before = self.next(nth);
        let answer = self.world.tubes[nth].try_take();
        self.are_rates_unknown |= answer.is_err();
        let (Some(claim), _) = self.world.done("take", answer) else { return };
        let id = claim.as_ref().map(Claim::id);
        if !self.world.is_unsure && !self.are_rates_unknown {
            // A take that finds none looks at the clocks.
            self.pass();
            let next = before.or_else(|| self.next(nth));
            assert_eq!(id, next, "not the next, {:?}", self.policies[nth]);
            let ready = self.ready(nth);
            if ready.first().is_some_and(|first| next != Some(*first)) {
                self.world.cover("take beside a rate");
            }
        }
        let Some(claim) = claim else { return };
        if let Some(task) = self.tasks.get_mut(&claim.id()) {
            task.status = Status::Taken;
            let (sub_queue, at) = (task.sub_queue, self.world.now);
            self.takes.push(Take { tube: nth, sub_queue, at });
            self.check_rates(nth, sub_queue);
        }
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let id = claim.id();
        let Some(old) = self.tasks.get(&id).copied().filter(|_| claim.is_current().unwrap()) else {
            return;
        };
        if rng.one_in(2) {
            let wall = self.now().1;
            let back = Duration::from_micros(rng.below(12 * MS));
            self.world.clock.set_wall(wall.saturating_sub(back));
        }
        let (now, _) = self.now();
        // It waits for its moment again, if the wall clock was set back.
        let released = Task { status: Status::Delayed, ..old };
        let is_applied = match rng.below(5) {
            0 | 1 => self.change("ack", claim.ack(), id, None),
            2 => {
                let buried = Task { status: Status::Buried, ..old };
                self.change("bury", claim.bury(None), id, Some(buried))
            }
            3 => {
                let delay = Duration::from_micros(5 * MS);
                let delayed = Task { delayed_until: now + delay, ..released };
                self.change("release later", claim.release_in(delay), id, Some(delayed))
            }
            _ => {
                drop(claim);
                false
            }
        };
        // A claim that was dropped, by a refused call too.
        if !is_applied && let Some(task) = self.tasks.get_mut(&id) {
            *task = released;
            if released.is_early(self.now()) {
                self.world.cover("released before its moment");
                self.dropped.insert(id);
            }
        }
    }

    /// A call on any task, by any caller.
    fn administer(&mut self, rng: &mut Rng) {
        let ids: Vec<u64> = self.tasks.keys().copied().collect();
        if ids.is_empty() || self.world.is_unsure {
            return;
        }
        let id = rng.pick(&ids);
        let (task, (now, wall)) = (self.tasks[&id], self.now());
        let tube = self.world.tubes[task.tube].clone();
        let delayed = Task { status: Status::Delayed, ..task };
        match (task.status, rng.below(4)) {
            (Status::Buried, _) => {
                let kicked = Task { delayed_until: now, ..delayed };
                self.change("kick", tube.kick(id), id, Some(kicked));
            }
            (_, 0) => {
                let buried = Task { status: Status::Buried, ..task };
                self.change("bury", tube.admin().bury(id, None), id, Some(buried));
            }
            (Status::Taken, _) => {
                let before = self.unflushed.clone();
                self.change("revoke", tube.admin().revoke(id), id, Some(delayed));
                if !task.is_early((now, wall)) {
                    self.unflushed = before; // It is ready again, which only memory knows.
                }
            }
            (_, 1) => drop(self.change("delete", tube.delete(id), id, None)),
            _ => {
                let (moment, delay) = (random_moment(wall, rng), rng.pick(&[None, Some(4 * MS)]));
                let delay = delay.map(Duration::from_micros);
                let update = Update::new().not_before(moment.map(at));
                let update = delay.into_iter().fold(update, Update::delay);
                let delayed_until = delay.map_or(task.delayed_until, |delay| now + delay);
                if (delayed_until, moment) == (task.delayed_until, task.moment) {
                    return; // It would change nothing, and flush nothing.
                }
                let updated = Task { delayed_until, moment, ..delayed };
                self.change("update", tube.update(id, update), id, Some(updated));
            }
        }
    }

    /// Sets the wall clock. The store notices it with a take that finds no task, or when the clock
    /// advances.
    fn set_wall(&mut self, nth: usize, rng: &mut Rng) {
        let wall = self.now().1;
        let by = Duration::from_micros(rng.below(12 * MS));
        let moments: Vec<Duration> = self.tasks.values().filter_map(|task| task.moment).collect();
        let to = match rng.below(4) {
            0 | 1 => wall.saturating_sub(by),
            2 if !moments.is_empty() => rng.pick(&moments),
            _ => wall + by,
        };
        self.world.clock.set_wall(to);
        self.world.cover(if to < wall { "set back" } else { "set forward" });
        if rng.one_in(2) {
            self.take(nth);
        }
        self.world.advance(0);
    }

    /// The tasks of a tube that are ready, in order of their ids.
    fn ready(&self, nth: usize) -> Vec<u64> {
        let of_tube = self.tasks.iter().filter(|(_, task)| task.tube == nth);
        of_tube.filter(|(_, task)| task.status == Status::Ready).map(|(id, _)| *id).collect()
    }
}

impl Task {
    /// Whether it still has to wait for a time. `now`: the timeline and the wall clock.
    fn is_early(&self, (now, wall): (Duration, Duration)) -> bool {
        self.delayed_until > now || self.moment.is_some_and(|moment| moment > wall)
    }
}

impl Policy {
    fn options(self) -> TubeOptions {
        let options = TubeOptions::new().durability(self.durability);
        let options = self.rate.map(Limit::rate).into_iter().fold(options, TubeOptions::rate);
        let rate = self.sub_queue_rate.map(Limit::rate);
        rate.into_iter().fold(options, TubeOptions::sub_queue_rate)
    }
}

fn random_policy(rng: &mut Rng) -> Policy {
    let limit = |count, period| Some(Limit { count, period });
    Policy {
        durability: rng.pick(&[Durability::Flush, Durability::write()]),
        rate: rng.pick(&[None, None, limit(2, 7 * MS), limit(3, 10 * MS)]),
        sub_queue_rate: rng.pick(&[None, limit(1, 6 * MS), limit(2, 9 * MS)]),
    }
}

/// Most are ahead of the wall clock.
fn random_moment(wall: Duration, rng: &mut Rng) -> Option<Duration> {
    let ahead = Duration::from_micros(rng.below(16 * MS));
    (!rng.one_in(4)).then(|| (wall + ahead).saturating_sub(Duration::from_micros(4 * MS)))
}

fn at(since_1970: Duration) -> SystemTime {
    UNIX_EPOCH + since_1970
}

#[test]
fn moments_and_rates_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put",
        "take",
        "take beside a rate",
        "ack",
        "bury",
        "release later",
        "released before its moment",
        "update",
        "kick",
        "revoke",
        "delete",
        "set back",
        "set forward",
        "exact",
        "learned",
    ];
    run_seeds::<Simulation>("moments_and_rates_match", &wanted);
}
