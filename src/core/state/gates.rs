//! What memory has of the gates of a tube.

use std::collections::BTreeSet;

use tubewell_drivers::NEVER;

use super::bucket::{Bucket, Fill};
use super::now::Now;
use crate::Rate;
use crate::base::tube_no::TubeNo;

/// The gates of a tube that its definition does not say.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// `None` without a rate.
    pub(in crate::core) rate: Option<Box<TakeRate>>,
    /// When a gate opens by itself, if takes wait for that.
    pub(in crate::core) alarm: Option<Alarm>,
}

/// When the gate of a tube opens by itself, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Alarm {
    /// The end of a pause.
    Timeline(u64),
    /// The next token of a rate.
    Running(u64),
}

impl Alarm {
    pub(in crate::core) fn is_due(self, now: Now) -> bool {
        match self {
            Alarm::Timeline(at) => at <= now.timeline,
            Alarm::Running(at) => at <= now.running,
        }
    }
}

/// The alarms of all tubes.
#[derive(Debug, Default)]
pub(in crate::core) struct Alarms {
    timeline: BTreeSet<(u64, TubeNo)>,
    running: BTreeSet<(u64, TubeNo)>,
}

impl Alarms {
    fn of(&mut self, alarm: Alarm) -> (u64, &mut BTreeSet<(u64, TubeNo)>) {
        match alarm {
            Alarm::Timeline(at) => (at, &mut self.timeline),
            Alarm::Running(at) => (at, &mut self.running),
        }
    }

    /// Replaces an alarm of a tube.
    pub(in crate::core) fn replace(
        &mut self,
        old: Option<Alarm>,
        new: Option<Alarm>,
        tube: TubeNo,
    ) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            let (at, alarms) = self.of(old);
            alarms.remove(&(at, tube));
        }
        if let Some(new) = new {
            let (at, alarms) = self.of(new);
            alarms.insert((at, tube));
        }
    }

    pub(in crate::core) fn contains(&self, alarm: Alarm, tube: TubeNo) -> bool {
        match alarm {
            Alarm::Timeline(at) => self.timeline.contains(&(at, tube)),
            Alarm::Running(at) => self.running.contains(&(at, tube)),
        }
    }

    pub(in crate::core) fn len(&self) -> usize {
        self.timeline.len() + self.running.len()
    }

    /// A tube whose alarm is due.
    pub(in crate::core) fn first_due(&self, now: Now) -> Option<TubeNo> {
        self.due(now).next()
    }

    /// The tubes whose alarms are due.
    pub(in crate::core) fn due(&self, now: Now) -> impl Iterator<Item = TubeNo> {
        let timeline = self.timeline.iter().take_while(move |(at, _)| *at <= now.timeline);
        let running = self.running.iter().take_while(move |(at, _)| *at <= now.running);
        timeline.chain(running).map(|(_, tube)| *tube)
    }

    /// The earliest alarms: on the timeline, and on running time.
    pub(in crate::core) fn first(&self) -> (u64, u64) {
        let first = |alarms: &BTreeSet<(u64, TubeNo)>| alarms.first().map_or(NEVER, |(at, _)| *at);
        (first(&self.timeline), first(&self.running))
    }
}

/// The rate of the takes of a tube.
#[derive(Clone, Debug)]
pub(in crate::core) struct TakeRate {
    fill: Fill,
    bucket: Bucket,
}

impl TakeRate {
    /// `since`: when the bucket was empty and began to fill; `None` for a full one.
    pub(in crate::core) fn new(rate: Rate, since: Option<u64>) -> TakeRate {
        TakeRate { fill: Fill::new(rate, since), bucket: Bucket::default() }
    }

    /// The earliest time, not before `now`, at which a task may be taken.
    pub(in crate::core) fn opens_at(&self, now: u64) -> u64 {
        self.bucket.opens_at(&self.fill, now)
    }

    /// Uses the token of a take.
    pub(in crate::core) fn take(&mut self, now: u64) {
        self.bucket.take(&self.fill, now);
    }
}

impl Gates {
    /// The gates of a tube whose rate has a full bucket.
    pub(in crate::core) fn new(rate: Option<Rate>) -> Gates {
        Gates { rate: rate.map(|rate| Box::new(TakeRate::new(rate, None))), alarm: None }
    }

    /// Changes the rate. The takes so far count for the new one, and a bucket that was empty at open
    /// goes on filling.
    pub(in crate::core) fn set_rate(&mut self, rate: Option<Rate>) {
        let old = self.rate.take();
        self.rate = rate.map(|rate| match old {
            Some(old) => Box::new(TakeRate { fill: old.fill.with_rate(rate), bucket: old.bucket }),
            None => Box::new(TakeRate::new(rate, None)),
        });
    }
}
