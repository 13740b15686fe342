//! Owners of taken tasks and parked claims under simulation, in tubes of every durability: workers
//! that park claims, sessions that resume them, and administrators that revoke them. While the disk works, each
//! task has the owner of a model. After a fault, a kill or a power cut, every parked claim stands that
//! no answered call has ended, also one that a session has resumed, and none stands again that one has.

mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tubewell::{
    Claim, ClaimToken, Durability, Error, FIFOTTL, Filter, Owner, Session, TubeOptions,
};

use crate::model::{Micros, NEVER};
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::simulator::micros;
use crate::world::World;

const MS: Micros = 1000;
/// How long a claim lasts that is not parked.
const TTR: Micros = 60 * MS;
const LABELS: [&str; 2] = ["a", "b"];

/// Who has a task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    label: String,
    until: Micros,
    is_parked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    tube: usize,
    /// `None` if it is ready.
    holder: Option<Holder>,
}

/// A claim that was parked and has not ended. A session may have resumed it.
#[derive(Clone, Debug)]
struct Parked {
    label: String,
    until: Micros,
    /// The number of its token; `None` if the park had no answer.
    token: Option<usize>,
}

struct Simulation {
    world: World,
    durability: [Durability; 3],
    /// The sessions of this run of the store, one for each label.
    sessions: Vec<Session>,
    tasks: BTreeMap<u64, Task>,
    parked: BTreeMap<u64, Parked>,
    tokens: Vec<(u64, ClaimToken)>,
    /// The tasks whose end was answered, with their tubes.
    over: BTreeMap<u64, usize>,
    /// Held tasks of which it is not known whether they have a parked claim.
    unknown: BTreeSet<u64>,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x9A2C;
    const FLUSHES: bool = true;
    const CLOSED_FOR: Micros = 30 * MS;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        // In half of the runs a kill loses nothing that was answered.
        let durability = if rng.one_in(2) { [levels[0], levels[1], levels[0]] } else { levels };
        let ttr = Duration::from_micros(TTR);
        let options = durability.map(|level| TubeOptions::new().durability(level).ttr(ttr));
        let world = World::new(FIFOTTL, options);
        Simulation {
            sessions: begin_sessions(&world),
            world,
            durability,
            tasks: BTreeMap::new(),
            parked: BTreeMap::new(),
            tokens: Vec::new(),
            over: BTreeMap::new(),
            unknown: BTreeSet::new(),
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        match rng.below(40) {
            0..6 => self.put(nth),
            6..13 => self.take(nth, rng),
            13..19 => self.park(rng),
            19..25 => self.resume(rng),
            25..28 => self.end_claim(rng),
            28 => self.revoke(rng),
            29 => self.revoke_all(nth),
            30..34 => self.advance(rng.below(15 * MS)),
            34 => drop(self.world.store.flush()),
            35 => self.world.arm(rng),
            36..39 => self.crash(rng),
            _ => self.reopen(rng),
        }
        self.world.is_unsure |= self.world.disk.tripped();
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    fn put(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].put("work");
        if let (Some(receipt), _) = self.world.done("put", answer) {
            let old = self.tasks.insert(receipt.id, Task { tube: nth, holder: None });
            assert_eq!(old, None, "the id {} is used twice", receipt.id);
        }
    }

    fn take(&mut self, nth: usize, rng: &mut Rng) {
        let session = rng.index(LABELS.len());
        let tube = &self.world.tubes[nth];
        let answer = self.sessions[session].tube(tube).and_then(|tube| tube.try_take());
        let (Some(claim), _) = self.world.done("take", answer) else { return };
        let is_next = |task: &Task| task.tube == nth && task.holder.is_none();
        let next = self.tasks.iter().find(|(_, task)| is_next(task)).map(|(id, _)| *id);
        assert!(self.world.is_unsure || claim.as_ref().map(Claim::id) == next, "not task {next:?}");
        if let Some(claim) = claim {
            self.hold(claim, nth, session, self.world.now + TTR);
        }
    }

    /// A session has got this claim.
    fn hold(&mut self, claim: Claim, tube: usize, session: usize, until: Micros) {
        let (id, label) = (claim.id(), LABELS[session].to_owned());
        assert!(!self.over.contains_key(&id), "task {id} is over");
        let holder = Some(Holder { label, until, is_parked: false });
        self.tasks.insert(id, Task { tube, holder });
        self.world.claims.push(claim);
    }

    /// One of the claims that have not ended.
    fn random_claim(&mut self, rng: &mut Rng) -> Option<Claim> {
        if !self.world.is_unsure {
            self.world.claims.retain(|claim| claim.is_current().unwrap());
        }
        self.world.random_claim(rng)
    }

    fn park(&mut self, rng: &mut Rng) {
        let Some(claim) = self.random_claim(rng) else { return };
        let (id, hold) = (claim.id(), rng.pick(&[10 * MS, 30 * MS, 100 * MS, NEVER]));
        let until = self.world.now.saturating_add(hold);
        let hold = if hold == NEVER { Duration::MAX } else { Duration::from_micros(hold) };
        let answer = match claim.park(hold) {
            Err(Error::NotTaken { .. }) if self.world.is_unsure => return,
            answer => answer,
        };
        let (token, _) = self.world.done("park", answer);
        let Some(token) = token else {
            self.parked.remove(&id);
            return;
        };
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let Some(holder) = &mut task.holder else { return };
        (holder.until, holder.is_parked) = (until, true);
        let label = holder.label.clone();
        self.parked.insert(id, Parked { label, until, token: Some(self.tokens.len()) });
        self.unknown.remove(&id);
        self.tokens.push((id, token));
    }

    /// Gives a parked claim to a session. Most of its tokens are of claims that have ended.
    fn resume(&mut self, rng: &mut Rng) {
        let newest = self.tokens.len().saturating_sub(8)..self.tokens.len();
        if newest.is_empty() {
            return;
        }
        let (no, session) = (newest.start + rng.index(newest.len()), rng.index(LABELS.len()));
        let (id, token) = self.tokens[no].clone();
        let task = self.tasks.get(&id);
        let is_parked = task.and_then(|task| task.holder.as_ref()).is_some_and(|it| it.is_parked);
        let parked = self.parked.get(&id).filter(|_| is_parked).cloned();
        let answer = self.sessions[session].resume_claim(&token);
        let is_unsure = self.world.is_unsure || self.world.disk.tripped();
        let is_unnamed = parked.as_ref().is_some_and(|parked| parked.token.is_none());
        // A claim that is parked again is still the same: its earlier tokens name it, too.
        let named = parked.as_ref().and_then(|parked| parked.token).map(|no| &self.tokens[no].1);
        let must_stand = named == Some(&token);
        assert!(answer.is_err() || !self.over.contains_key(&id), "task {id} is over");
        if matches!(answer, Err(Error::NotTaken { .. })) {
            assert!(is_unsure || !must_stand, "the claim on task {id} has ended: {parked:?}");
            return self.world.cover("resume of a claim that has ended");
        }
        let (Some(claim), _) = self.world.done("resume", answer) else { return };
        assert!(is_unsure || must_stand || is_unnamed, "{id} was not parked so: {parked:?}");
        let (Some(parked), Some(task)) = (parked, self.tasks.get(&id)) else { return };
        self.hold(claim, task.tube, session, parked.until);
        self.parked.entry(id).and_modify(|parked| parked.token = Some(no));
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.random_claim(rng) else { return };
        let id = claim.id();
        let is_ack = rng.one_in(2);
        let answer = if is_ack { claim.ack() } else { claim.release() };
        let answer = match answer {
            Err(Error::NotTaken { .. }) if self.world.is_unsure => return,
            answer => answer,
        };
        let was_parked = self.parked.contains_key(&id);
        let verb = match (is_ack, was_parked) {
            (true, true) => "ack of a parked claim",
            (true, false) => "ack",
            (false, true) => "release of a parked claim",
            (false, false) => "release",
        };
        let (answer, _) = self.world.done(verb, answer);
        // A refused call drops its claim.
        self.free(id);
        if let Some(task) = self.tasks.get(&id).cloned().filter(|_| is_ack && answer.is_some()) {
            self.over.insert(id, task.tube);
            self.tasks.remove(&id);
        }
    }

    /// Ends the claim on a task, by any caller.
    fn revoke(&mut self, rng: &mut Rng) {
        let taken = self.tasks.iter().filter(|(_, task)| task.holder.is_some());
        let ids: Vec<u64> = taken.map(|(id, _)| *id).collect();
        if ids.is_empty() || self.world.is_unsure {
            return;
        }
        let id = rng.pick(&ids);
        let answer = self.world.tubes[self.tasks[&id].tube].admin().revoke(id);
        if self.world.done("revoke", answer).1 {
            self.free(id);
        }
    }

    fn revoke_all(&mut self, nth: usize) {
        if self.world.is_unsure {
            return;
        }
        let taken = self.tasks.iter().filter(|(_, it)| it.tube == nth && it.holder.is_some());
        let ids: Vec<u64> = taken.map(|(id, _)| *id).collect();
        // It waits for no flush.
        let flush = |revoked| self.world.store.flush().map(|_| revoked);
        let answer = self.world.tubes[nth].admin().revoke(Filter::new()).and_then(flush);
        let (revoked, _) = self.world.done("revoke_all", answer);
        if let Some(revoked) = revoked {
            assert_eq!(revoked, ids.len() as u64);
        } else {
            // Some of them may have ended.
            self.unknown.extend(&ids);
        }
        for id in ids {
            self.free(id);
        }
    }

    /// A task is ready: its claim has ended.
    fn free(&mut self, id: u64) {
        self.parked.remove(&id);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.holder = None;
        }
    }

    fn advance(&mut self, by: Micros) {
        self.world.advance(by);
        self.expire();
    }

    fn expire(&mut self) {
        let now = self.world.now;
        let has_ended = |holder: &Holder| holder.until <= now;
        let held =
            self.tasks.iter().filter(|(_, task)| task.holder.as_ref().is_some_and(has_ended));
        let ids: Vec<u64> = held.map(|(id, _)| *id).collect();
        for id in ids {
            let what = self.parked.contains_key(&id).then_some("parked claim that expires");
            self.world.cover(what.unwrap_or("claim that expires"));
            self.free(id);
        }
    }

    /// Checks that each claim knows its owner, and that no session has an ended one.
    fn check_claims(&self) {
        for claim in &self.world.claims {
            let Some(owner) = claim.owner().unwrap() else { continue };
            let task = &self.tasks[&claim.id()];
            assert_eq!(Some(self.holder(owner)), task.holder, "task {}", claim.id());
        }
    }

    fn holder(&self, owner: Owner) -> Holder {
        let left = owner.expires_in.map(micros);
        let until = left.map_or(NEVER, |left| self.world.now + left);
        let label = owner.label.unwrap_or_default().to_string();
        Holder { label, until, is_parked: owner.is_parked }
    }
}

/// The names of the sessions stay; a run of the store has new ones.
fn begin_sessions(world: &World) -> Vec<Session> {
    LABELS.iter().map(|label| world.store.session(*label).unwrap()).collect()
}

#[test]
fn owners_and_parked_claims_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put",
        "take",
        "park",
        "resume",
        "resume of a claim that has ended",
        "ack",
        "ack of a parked claim",
        "release",
        "release of a parked claim",
        "revoke",
        "revoke_all",
        "claim that expires",
        "parked claim that expires",
        "exact",
        "stands after a crash",
        "resumed claim is parked again",
    ];
    run_seeds::<Simulation>("owners_and_parked_claims_match", &wanted);
}
