//! Gates: pauses, limits of taken tasks, and rates of takes.

use super::{Answer, Micros, Model, NEVER, Options, Rate, Refusal, State, Tube, TubeNo};

impl Model {
    /// Pauses a tube for a time, or ends its pause with a time of zero.
    pub fn pause(&mut self, tube: TubeNo, time: Micros) -> Answer<()> {
        self.tube(tube)?;
        let until = self.now.saturating_add(time);
        self.tubes.entry(tube).and_modify(|tube| tube.paused_until = until);
        self.serve();
        Ok(())
    }

    /// Gives a tube other options. What it keeps of its tasks, and the time of its claims, stay.
    pub fn alter(&mut self, tube: TubeNo, options: &Options) -> Answer<()> {
        let Tube { driver, options: old, .. } = self.tube(tube)?.clone();
        super::check_options(driver, options)?;
        if options.temporary != old.temporary {
            return Err(Refusal::TubeDiffers);
        }
        let now = self.now;
        self.tubes.entry(tube).and_modify(|tube| {
            if options.rate.is_none() || old.rate.is_none() {
                tube.filling_since = None;
                tube.taken_at.clear();
            }
            tube.alter_sub_queues(options, now);
            tube.options = options.clone();
        });
        self.serve();
        Ok(())
    }

    /// Until when a tube is paused; `None` if it is not.
    pub fn paused_until(&self, tube: TubeNo) -> Option<Micros> {
        self.tubes.get(&tube).map(|tube| tube.paused_until).filter(|until| *until > self.now)
    }

    /// Whether no task of a tube may be taken now.
    pub(super) fn is_shut(&self, tube: TubeNo) -> bool {
        let limit = self.tubes[&tube].options.max_taken;
        self.paused_until(tube).is_some()
            || limit.is_some_and(|limit| self.count(tube, State::Taken) >= limit)
            || !self.tubes[&tube].allows_take(self.now)
    }

    /// The times at which a gate opens by itself.
    pub(super) fn gate_openings(&self) -> Vec<Micros> {
        let tubes = self.tubes.iter();
        let openings = |(no, tube): (&TubeNo, &Tube)| {
            let until = self.paused_until(*no).filter(|until| *until != NEVER);
            [until, tube.next_take_at(self.now)].into_iter().flatten().collect::<Vec<_>>()
        };
        let sub_queues = self.tubes.values().flat_map(|tube| tube.sub_queue_openings(self.now));
        tubes.flat_map(openings).chain(sub_queues).collect()
    }

    /// A run begins: no rate knows the takes before, and no cooldown the ends of claims.
    pub(super) fn empty_buckets(&mut self) {
        for tube in self.tubes.values_mut() {
            tube.taken_at.clear();
            tube.filling_since = Some(self.now);
            tube.sub_queues_taken_at.clear();
            tube.sub_queues_filling_since = Some(self.now);
            tube.sub_queues_ended_at.clear();
            tube.cooling_since = Some(self.now);
        }
    }
}

impl Tube {
    pub(super) fn new(name: String, driver: super::Driver, options: Options) -> Tube {
        Tube {
            name,
            driver,
            options,
            calls: std::collections::BTreeMap::new(),
            done: 0,
            paused_until: 0,
            taken_at: Vec::new(),
            filling_since: None,
            sub_queues_taken_at: std::collections::BTreeMap::new(),
            sub_queues_filling_since: None,
            sub_queues_ended_at: std::collections::BTreeMap::new(),
            cooling_since: None,
            paused_sub_queues: std::collections::BTreeMap::new(),
        }
    }

    /// Notes a take, if there is a rate. The takes before that do not count any more are forgotten, also
    /// for a longer period.
    pub(super) fn note_take(&mut self, sub_queue: Option<String>, now: Micros) {
        if let Some(rate) = self.options.rate {
            self.taken_at.retain(|taken| taken + rate.period > now);
            self.taken_at.push(now);
        }
        if let Some(rate) = self.options.sub_queue_rate {
            let counts = |taken: &Micros| taken + rate.period > now;
            self.sub_queues_taken_at.retain(|_, taken| taken.iter().any(counts));
            let taken = self.sub_queues_taken_at.entry(sub_queue).or_default();
            taken.retain(counts);
            taken.push(now);
        }
    }

    /// Whether the rate allows a take at this time, if none comes before it.
    fn allows_take(&self, at: Micros) -> bool {
        let rate = self.options.rate;
        rate.is_none_or(|rate| rate.allows_take(&self.taken_at, self.filling_since, at))
    }

    /// When the rate allows the next take; `None` if it does now.
    fn next_take_at(&self, now: Micros) -> Option<Micros> {
        self.options.rate?.next_take_at(&self.taken_at, self.filling_since, now)
    }
}

impl Rate {
    /// Whether a take is allowed at this time, after those of `taken`. `since`: the bucket was empty
    /// then.
    pub(super) fn allows_take(self, taken: &[Micros], since: Option<Micros>, at: Micros) -> bool {
        let Rate { count, period } = self;
        let used = taken.iter().filter(|taken| **taken + period > at).count() as u64;
        let filled = |since: Micros| since + (period * (used + 1)).div_ceil(count);
        used < count && since.is_none_or(|since| filled(since) <= at)
    }

    /// When the next take is allowed; `None` if it is now.
    pub(super) fn next_take_at(
        self,
        taken: &[Micros],
        since: Option<Micros>,
        now: Micros,
    ) -> Option<Micros> {
        let allows = |at| self.allows_take(taken, since, at);
        if allows(now) {
            return None;
        }
        let Rate { count, period } = self;
        let tokens = taken.iter().map(|taken| taken + period);
        let filled = since.into_iter().flat_map(|since| {
            (1..=count).map(move |tokens| since + (period * tokens).div_ceil(count))
        });
        tokens.chain(filled).filter(|at| *at > now && allows(*at)).min()
    }
}
