//! Pauses, limits of taken tasks, and limits that tubes share.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MS, NAMES, NEVER, Simulation, Status};
use crate::model::Micros;
use crate::rng::Rng;

/// What keeps tasks from being taken: until when tubes and sub-queues are paused, and the limits that
/// tubes share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gates {
    pub(super) tubes: BTreeMap<usize, Micros>,
    pub(super) sub_queues: BTreeMap<(usize, &'static str), Micros>,
    pub(super) limits: BTreeMap<&'static str, u32>,
}

impl Gates {
    /// Without the pauses that have ended.
    pub(super) fn at(&self, now: Micros) -> Gates {
        let mut gates = self.clone();
        gates.tubes.retain(|_, until| *until > now);
        gates.sub_queues.retain(|_, until| *until > now);
        gates
    }
}

impl Simulation {
    pub(super) fn change_gates(&mut self, nth: usize, rng: &mut Rng) {
        let (mut gates, name) = (self.gates.clone(), rng.pick(&NAMES));
        let time = rng.pick(&[0, 0, 5 * MS, 20 * MS, NEVER]);
        let until = if time == 0 { 0 } else { self.world.now.saturating_add(time) };
        let pause = if time == NEVER { Duration::MAX } else { Duration::from_micros(time) };
        let tube = &self.world.tubes[nth];
        let (verb, answer) = match rng.below(6) {
            0 => {
                gates.tubes.insert(nth, until);
                (
                    "pause",
                    if time == 0 { tube.admin().unpause() } else { tube.admin().pause_for(pause) },
                )
            }
            1..4 => {
                gates.sub_queues.insert((nth, name), until);
                ("pause a sub-queue", tube.admin().pause_sub_queue(name, pause))
            }
            _ if gates.limits.remove(name).is_some() => {
                ("remove a limit", self.world.store.admin().remove_limit(name))
            }
            _ => {
                let most = 1 + u32::try_from(rng.below(3)).unwrap();
                gates.limits.insert(name, most);
                ("set a limit", self.world.store.admin().set_limit(name, most))
            }
        };
        let has_changed = gates.at(self.world.now) != self.gates.at(self.world.now);
        let (answer, is_applied) = self.world.done(verb, answer);
        if is_applied {
            self.gates = gates;
        }
        match answer {
            // Its flush contains all calls before it.
            Some(()) if has_changed => self.unflushed.clear(),
            Some(()) => {}
            None => self.are_gates_unknown = true,
        }
    }

    /// Whether a gate of its tube or a limit of its sub-queue holds a task back.
    pub(super) fn is_shut(&self, nth: usize, id: u64) -> bool {
        let (policy, gates) = (self.policies[nth], self.gates.at(self.world.now));
        let name = self.tasks[&id].sub_queue;
        let taken = self.of(nth, Status::Taken).len() as u64;
        let shared = gates.limits.get(name).filter(|_| policy.is_shared);
        gates.tubes.contains_key(&nth)
            || gates.sub_queues.contains_key(&(nth, name))
            || policy.max_taken.is_some_and(|most| taken >= most)
            || self.holders(nth, name) >= u64::from(*shared.unwrap_or(&policy.sub_queue_limit))
    }

    /// How many tasks of a sub-queue are taken, in all tubes that share its limit.
    pub(super) fn holders(&self, nth: usize, name: &str) -> u64 {
        let is_shared = self.policies[nth].is_shared;
        let shares = |other: usize| other == nth || is_shared && self.policies[other].is_shared;
        let taken = self.tasks.values().filter(|task| task.status == Some(Status::Taken));
        taken.filter(|task| task.sub_queue == name && shares(task.tube)).count() as u64
    }
}
