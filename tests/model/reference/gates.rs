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
        self.tubes.entry(tube).and_modify(|tube| {
            if options.rate != old.rate {
                tube.filling_since = None;
            }
            if options.rate.is_none() {
                tube.taken_at.clear();
            }
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
        tubes.flat_map(openings).collect()
    }

    /// A run begins: no rate knows the takes before.
    pub(super) fn empty_buckets(&mut self) {
        for tube in self.tubes.values_mut() {
            tube.taken_at.clear();
            tube.filling_since = Some(self.now);
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
        }
    }

    /// Notes a take, if there is a rate.
    pub(super) fn note_take(&mut self, now: Micros) {
        if self.options.rate.is_some() {
            self.taken_at.push(now);
        }
    }

    /// Whether the rate allows a take at this time, if none comes before it.
    fn allows_take(&self, at: Micros) -> bool {
        let Some(Rate { count, period }) = self.options.rate else { return true };
        let used = self.taken_at.iter().filter(|taken| **taken + period > at).count() as u64;
        let filled = |since: Micros| since + (period * (used + 1)).div_ceil(count);
        used < count && self.filling_since.is_none_or(|since| filled(since) <= at)
    }

    /// When the rate allows the next take; `None` if it does now.
    fn next_take_at(&self, now: Micros) -> Option<Micros> {
        let Rate { count, period } = self.options.rate?;
        if self.allows_take(now) {
            return None;
        }
        let tokens = self.taken_at.iter().map(|taken| taken + period);
        let since = self.filling_since;
        let filled = since.into_iter().flat_map(|since| {
            (1..=count).map(move |tokens| since + (period * tokens).div_ceil(count))
        });
        let times = tokens.chain(filled).filter(|at| *at > now && self.allows_take(*at));
        times.min()
    }
}
