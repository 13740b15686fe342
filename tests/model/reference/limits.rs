//! The limits of sub-queues: how many tasks are taken at a time, how many in a time, cooldowns, pauses, and
//! limits that tubes share.

use std::collections::BTreeSet;

use super::{Answer, Micros, Model, NEVER, Options, Refusal, Stage, State, TaskNo, Tube, TubeNo};

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
                (tube.is_sub_queue_cooling(name, self.now), "cooldown"),
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
                || tube.has_sub_queue_no_token(sub_queue, self.now)
                || tube.is_sub_queue_cooling(sub_queue, self.now))
    }

    /// If the claim on a task ends with this change, the cooldown of its sub-queue begins.
    pub(super) fn note_claim_end(&mut self, id: TaskNo, from: Stage, to: Stage) {
        let is_claimed = |stage| matches!(stage, Stage::Taken | Stage::Parked);
        if !is_claimed(from) || is_claimed(to) {
            return;
        }
        let (no, sub_queue, now) =
            (self.tasks[&id].tube, self.tasks[&id].sub_queue.clone(), self.now);
        self.tubes.entry(no).and_modify(|tube| {
            if tube.options.sub_queue_cooldown.is_some() {
                tube.sub_queues_ended_at.insert(sub_queue, now);
            }
        });
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
    pub(super) fn alter_sub_queues(&mut self, options: &Options, now: Micros) {
        if self.options.sub_queue_rate.is_none() || options.sub_queue_rate.is_none() {
            self.sub_queues_filling_since = None;
            self.sub_queues_taken_at.clear();
        }
        // Cooldowns that have ended are not prolonged.
        let old = options.sub_queue_cooldown.and(self.options.sub_queue_cooldown).unwrap_or(0);
        self.cooling_since = self.cooling_since.filter(|since| since + old > now);
        self.sub_queues_ended_at.retain(|_, at| *at + old > now);
    }

    /// When the cooldowns of sub-queues end that have begun: with their last claims, and with the run.
    fn cooldown_ends(&self) -> impl Iterator<Item = (Option<&Option<String>>, Micros)> {
        let ends = self.sub_queues_ended_at.iter().map(|(name, at)| (Some(name), *at));
        let ends = ends.chain(self.cooling_since.map(|since| (None, since)));
        let time = self.options.sub_queue_cooldown;
        ends.filter_map(move |(name, at)| Some((name, at + time?)))
    }

    fn is_sub_queue_cooling(&self, sub_queue: Option<&String>, now: Micros) -> bool {
        let is_of = |name: Option<&Option<String>>| name.is_none_or(|it| it.as_ref() == sub_queue);
        self.cooldown_ends().any(|(name, end)| is_of(name) && end > now)
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
        openings.extend(self.cooldown_ends().map(|(_, end)| end).filter(|end| *end > now));
        let Some(rate) = self.options.sub_queue_rate else { return openings };
        let since = self.sub_queues_filling_since;
        openings.extend(rate.next_take_at(&[], since, now));
        let taken = self.sub_queues_taken_at.values();
        openings.extend(taken.filter_map(|taken| rate.next_take_at(taken, since, now)));
        openings
    }
}
