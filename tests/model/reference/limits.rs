//! The limits of sub-queues: how many tasks are taken at a time, how many in a time, pauses, and limits
//! that tubes share.

use std::collections::BTreeSet;

use super::{Answer, Micros, Model, NEVER, Options, Refusal, State, Tube, TubeNo};

impl Model {
    /// Pauses a sub-queue for a time, or ends its pause with a time of zero.
    pub fn pause_sub_queue(&mut self, tube: TubeNo, name: &str, time: Micros) -> Answer<()> {
        if !self.tube(tube)?.driver.sub_queued() {
            return Err(Refusal::Unsupported);
        }
        let until = self.now.saturating_add(time);
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        self.tubes.entry(tube).and_modify(|tube| _ = tube.paused_sub_queues.insert(name, until));
        self.serve();
        Ok(())
    }

    /// The paused sub-queues by name, and until when they are.
    pub fn paused_sub_queues(&self, tube: TubeNo) -> Vec<(String, Micros)> {
        let pauses = self.tubes[&tube].paused_sub_queues.iter();
        let pauses = pauses.filter(|(_, until)| **until > self.now);
        pauses.map(|(name, until)| (name.clone().unwrap_or_default(), *until)).collect()
    }

    /// Sets a limit that tubes share; `None` removes it.
    pub fn set_limit(&mut self, name: &str, most: Option<u64>) {
        match most {
            Some(most) => _ = self.limits.insert(name.to_owned(), most),
            None => _ = self.limits.remove(name),
        }
        self.serve();
    }

    /// The limits by name, and how many tasks hold each.
    pub fn limits(&self) -> Vec<(String, u64, u64)> {
        let limits = self.limits.iter();
        limits.map(|(name, most)| (name.clone(), *most, self.shared_holders(name))).collect()
    }

    /// What keeps ready tasks of sub-queues from being taken now.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn shut_sub_queues(&self) -> BTreeSet<&'static str> {
        let mut shut = BTreeSet::new();
        let ready = self.tasks.values().filter(|task| task.state() == State::Ready);
        for task in ready.filter(|task| self.tubes[&task.tube].driver.sub_queued()) {
            let tube = &self.tubes[&task.tube];
            let name = task.sub_queue.as_ref();
            let others = [
                (tube.is_sub_queue_paused(name, self.now), "paused"),
                (tube.has_sub_queue_no_token(name, self.now), "rate"),
            ];
            let full = if tube.options.shared_limits { "shared limit" } else { "own limit" };
            let is_full = (self.is_sub_queue_full(task.tube, name), full);
            shut.extend(others.into_iter().chain([is_full]).filter(|it| it.0).map(|it| it.1));
        }
        shut
    }

    /// Whether no task of a sub-queue may be taken now.
    pub(super) fn is_sub_queue_shut(&self, no: TubeNo, sub_queue: Option<&String>) -> bool {
        let tube = &self.tubes[&no];
        tube.driver.sub_queued()
            && (self.is_sub_queue_full(no, sub_queue)
                || tube.is_sub_queue_paused(sub_queue, self.now)
                || tube.has_sub_queue_no_token(sub_queue, self.now))
    }

    /// Whether as many tasks are taken as the limit of a sub-queue allows.
    fn is_sub_queue_full(&self, no: TubeNo, sub_queue: Option<&String>) -> bool {
        let options = &self.tubes[&no].options;
        let name = sub_queue.map_or("", String::as_str);
        let limit = options.sub_queue_limit();
        if options.shared_limits {
            let limit = self.limits.get(name).copied().unwrap_or(limit);
            self.shared_holders(name) >= limit
        } else {
            self.holders(no, name) >= limit
        }
    }

    fn shared_holders(&self, name: &str) -> u64 {
        let shared = self.tubes.iter().filter(|(_, tube)| tube.options.shared_limits);
        shared.map(|(no, _)| self.holders(*no, name)).sum()
    }

    fn holders(&self, tube: TubeNo, name: &str) -> u64 {
        let of_name = self.tasks(tube).filter(|(_, task)| {
            task.state() == State::Taken && task.sub_queue.as_deref().unwrap_or_default() == name
        });
        of_name.count() as u64
    }
}

impl Tube {
    pub(super) fn alter_sub_queues(&mut self, options: &Options) {
        if self.options.sub_queue_rate.is_none() || options.sub_queue_rate.is_none() {
            self.sub_queues_filling_since = None;
            self.sub_queues_taken_at.clear();
        }
    }

    fn is_sub_queue_paused(&self, sub_queue: Option<&String>, now: Micros) -> bool {
        self.paused_sub_queues.get(&sub_queue.cloned()).is_some_and(|until| *until > now)
    }

    fn has_sub_queue_no_token(&self, sub_queue: Option<&String>, now: Micros) -> bool {
        let Some(rate) = self.options.sub_queue_rate else { return false };
        let taken = self.sub_queues_taken_at.get(&sub_queue.cloned());
        let taken = taken.map_or(&[][..], Vec::as_slice);
        !rate.allows_take(taken, self.sub_queues_filling_since, now)
    }

    /// The times at which sub-queues open by themselves.
    pub(super) fn sub_queue_openings(&self, now: Micros) -> Vec<Micros> {
        let pauses = self.paused_sub_queues.values().copied();
        let mut openings: Vec<Micros> =
            pauses.filter(|until| *until > now && *until != NEVER).collect();
        let Some(rate) = self.options.sub_queue_rate else { return openings };
        let since = self.sub_queues_filling_since;
        openings.extend(rate.next_take_at(&[], since, now));
        let taken = self.sub_queues_taken_at.values();
        openings.extend(taken.filter_map(|taken| rate.next_take_at(taken, since, now)));
        openings
    }
}
