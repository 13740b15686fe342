//! What a tube does with its tasks beyond its driver. Policies do not depend on the driver, except
//! that those with a time need a timed one.

use std::time::Duration;

use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use tubewell_drivers::{HISTORY_MAX, NEVER};

use crate::micros::{duration, micros_ceil};
use crate::policy::LONGEST_BACKOFF;
use crate::{Backoff, Counting, Error, Keep, Rate, Result, TubeOptions};

/// The most days that a tube keeps its numbers. A truncate copies their rows with one commit.
const METRICS_MAX: u32 = 1000;

/// The policies of a tube. The default is none of them, and takes no bytes in the catalog. Times are
/// microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// How long one claim may last.
    pub(crate) max_runtime: Option<u64>,
    /// How many attempts a task has.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) count_takes: Counting,
    pub(crate) backoff: Backoff,
    /// How long the holder of a claim that has expired may still end it.
    pub(crate) reclaim_delay: u64,
    pub(crate) keep_done: Option<Keep>,
    pub(crate) keep_buried: Option<Keep>,
    /// How many tasks may be taken at a time.
    pub(crate) max_taken: Option<u64>,
    /// How many tasks of a sub-queue may be taken at a time, if it is not one.
    pub(crate) sub_queue_limit: Option<u32>,
    /// The names of the sub-queues are names of limits of the store.
    pub(crate) shared_limits: bool,
    /// How many tasks of a sub-queue may be taken in a time.
    pub(crate) sub_queue_rate: Option<Rate>,
    pub(crate) rate: Option<Rate>,
    /// How many entries the history of a task has.
    pub(crate) history: u32,
    /// How many days its numbers are kept.
    pub(crate) metrics: Option<u32>,
    /// Until when no task may be taken, on the timeline; `NEVER` without an end. It is a state of the
    /// tube and no option: an alter leaves it as it is.
    pub(crate) paused: Option<u64>,
}

/// A policy as the catalog stores it. The order is part of the format, and a new one raises it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum Policy {
    MaxRuntime(u64),
    MaxAttempts(u32),
    /// 0 for `Lazily`, 1 for `Flushed`.
    CountTakes(u8),
    Backoff {
        first: u64,
        factor: u32,
        cap: u64,
        jitter: u32,
    },
    ReclaimDelay(u64),
    KeepDone(Option<u64>, Option<u64>),
    KeepBuried(Option<u64>, Option<u64>),
    MaxTaken(u64),
    Paused(u64),
    /// Takes in a time.
    Rate(u32, u64),
    SubQueueLimit(u32),
    SharedLimits,
    /// Takes in a time.
    SubQueueRate(u32, u64),
    History(u32),
    Metrics(u32),
}

impl Policies {
    pub(crate) fn new(options: &TubeOptions) -> Result<Policies> {
        let max_runtime = options.max_runtime.map(micros_ceil);
        if max_runtime == Some(0) {
            return Err(Error::invalid(
                "the max_runtime of a tube must be above zero; leave it out for no limit",
            ));
        }
        check_max_attempts(options.max_attempts)?;
        options.backoff.check()?;
        if options.max_taken == Some(0) {
            return Err(Error::invalid(
                "max_taken must be above zero; leave it out for no limit, or pause the tube",
            ));
        }
        if options.sub_queue_limit == Some(0) {
            return Err(Error::invalid(
                "sub_queue_limit must be above zero; leave it out for one, or pause the sub-queue",
            ));
        }
        options.rate.into_iter().chain(options.sub_queue_rate).try_for_each(|rate| rate.check())?;
        if options.history > HISTORY_MAX {
            return Err(Error::invalid(format!(
                "a history has at most {HISTORY_MAX} entries; this is {}",
                options.history
            )));
        }
        if options.metrics > METRICS_MAX {
            return Err(Error::invalid(format!(
                "a tube keeps its metrics for at most {METRICS_MAX} days, not {}",
                options.metrics
            )));
        }
        Ok(Policies {
            max_runtime: max_runtime.filter(|time| *time != NEVER),
            max_attempts: options.max_attempts,
            count_takes: options.count_takes,
            backoff: whole_micros(options.backoff),
            reclaim_delay: micros_ceil(options.reclaim_delay),
            keep_done: options.keep_done.map(whole),
            keep_buried: options.keep_buried.map(whole).filter(|keep| *keep != Keep::new()),
            max_taken: options.max_taken,
            sub_queue_limit: options.sub_queue_limit.filter(|limit| *limit != 1),
            shared_limits: options.shared_limits,
            sub_queue_rate: options.sub_queue_rate.map(whole_period),
            rate: options.rate.map(whole_period),
            history: options.history,
            metrics: Some(options.metrics).filter(|days| *days > 0),
            paused: None,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Policies::default()
    }

    /// Whether a gate may keep ready tasks from being taken.
    pub(crate) fn has_gates(&self) -> bool {
        self.max_taken.is_some() || self.paused.is_some() || self.rate.is_some()
    }

    /// The first of the policies that need a driver with times.
    pub(crate) fn timed(&self) -> Option<&'static str> {
        let given = [
            (self.max_runtime.is_some(), "a max_runtime"),
            (self.backoff != Backoff::none(), "a backoff"),
            (self.reclaim_delay > 0, "a reclaim delay"),
        ];
        given.into_iter().find_map(|(given, what)| given.then_some(what))
    }

    /// The first of the policies that need a driver with sub-queues.
    pub(crate) fn sub_queued(&self) -> Option<&'static str> {
        let given = [
            (self.sub_queue_limit.is_some(), "a sub_queue_limit"),
            (self.shared_limits, "shared limits"),
            (self.sub_queue_rate.is_some(), "a sub_queue_rate"),
        ];
        given.into_iter().find_map(|(given, what)| given.then_some(what))
    }

    /// Whether the sub-queues have other limits than one taken task each.
    pub(crate) fn has_sub_queue_limits(&self) -> bool {
        self.sub_queued().is_some()
    }

    pub(crate) fn has_same_limits(&self, other: &Policies) -> bool {
        let limits = |of: &Policies| (of.sub_queue_limit, of.shared_limits, of.sub_queue_rate);
        limits(self) == limits(other)
    }

    /// The first policy that differs: its name, and both values. A pause is no difference.
    pub(crate) fn difference(&self, other: &Policies) -> Option<(&'static str, String, String)> {
        let time = |time: Option<u64>, without: &str| {
            time.map_or(without.to_owned(), |time| format!("{:?}", duration(time)))
        };
        let limit = |limit: Option<u64>| limit.map_or("unlimited".into(), |n| n.to_string());
        let keep = |keep: Option<Keep>, without: &str| {
            keep.map_or(without.to_owned(), |keep| keep.to_string())
        };
        let texts = |of: &Policies| {
            [
                ("max_runtime", time(of.max_runtime, "unlimited")),
                ("max_attempts", limit(of.max_attempts.map(u64::from))),
                ("count_takes", of.count_takes.to_string()),
                ("backoff", of.backoff.to_string()),
                ("reclaim_delay", time(Some(of.reclaim_delay).filter(|time| *time > 0), "none")),
                ("keep_done", keep(of.keep_done, "none")),
                ("keep_buried", keep(of.keep_buried, "all")),
                ("max_taken", limit(of.max_taken)),
                ("sub_queue_limit", of.sub_queue_limit.unwrap_or(1).to_string()),
                ("option shared_limits", of.shared_limits.to_string()),
                (
                    "sub_queue_rate",
                    of.sub_queue_rate.map_or("unlimited".into(), |rate| rate.to_string()),
                ),
                ("rate", of.rate.map_or("unlimited".into(), |rate| rate.to_string())),
                ("history", of.history.to_string()),
                ("metrics", of.metrics.map_or("none".into(), |days| format!("{days} days"))),
            ]
        };
        let (mine, theirs) = (texts(self), texts(other));
        let mut pairs = mine.into_iter().zip(theirs);
        let ((what, mine), (_, theirs)) = pairs.find(|((_, mine), (_, theirs))| mine != theirs)?;
        Some((what, mine, theirs))
    }

    fn to_stored(&self) -> Vec<Policy> {
        let Policies { max_runtime, max_attempts, count_takes, .. } = self;
        let Backoff { first, factor, cap, jitter } = self.backoff;
        let mut stored = Vec::from_iter(max_runtime.map(Policy::MaxRuntime));
        stored.extend(max_attempts.map(Policy::MaxAttempts));
        match count_takes {
            Counting::Lazily => stored.push(Policy::CountTakes(0)),
            Counting::Flushed => stored.push(Policy::CountTakes(1)),
            Counting::Written => {}
        }
        if self.backoff != Backoff::none() {
            let (first, cap) = (micros_ceil(first), micros_ceil(cap));
            stored.push(Policy::Backoff { first, factor, cap, jitter });
        }
        if self.reclaim_delay > 0 {
            stored.push(Policy::ReclaimDelay(self.reclaim_delay));
        }
        let kept = |keep: Keep| (keep.count, keep.age.map(micros_ceil));
        stored.extend(self.keep_done.map(kept).map(|(count, age)| Policy::KeepDone(count, age)));
        let buried = self.keep_buried.map(kept);
        stored.extend(buried.map(|(count, age)| Policy::KeepBuried(count, age)));
        stored.extend(self.max_taken.map(Policy::MaxTaken));
        stored.extend(self.paused.map(Policy::Paused));
        stored.extend(self.sub_queue_limit.map(Policy::SubQueueLimit));
        stored.extend(self.shared_limits.then_some(Policy::SharedLimits));
        let rate = self.sub_queue_rate;
        stored.extend(rate.map(|rate| Policy::SubQueueRate(rate.count, rate.micros())));
        stored.extend(self.rate.map(|rate| Policy::Rate(rate.count, rate.micros())));
        stored.extend((self.history > 0).then_some(Policy::History(self.history)));
        stored.extend(self.metrics.map(Policy::Metrics));
        stored
    }

    fn from_stored(stored: Vec<Policy>) -> Policies {
        let mut policies = Policies::default();
        let keep = |count, age: Option<u64>| Some(Keep { count, age: age.map(duration) });
        for policy in stored {
            match policy {
                Policy::MaxRuntime(time) => policies.max_runtime = Some(time),
                Policy::MaxAttempts(limit) => policies.max_attempts = Some(limit),
                Policy::CountTakes(0) => policies.count_takes = Counting::Lazily,
                Policy::CountTakes(_) => policies.count_takes = Counting::Flushed,
                Policy::Backoff { first, factor, cap, jitter } => {
                    let (first, cap) = (duration(first), duration(cap));
                    policies.backoff = Backoff { first, factor, cap, jitter };
                }
                Policy::ReclaimDelay(time) => policies.reclaim_delay = time,
                Policy::KeepDone(count, age) => policies.keep_done = keep(count, age),
                Policy::KeepBuried(count, age) => policies.keep_buried = keep(count, age),
                Policy::MaxTaken(limit) => policies.max_taken = Some(limit),
                Policy::Paused(until) => policies.paused = Some(until),
                Policy::SubQueueLimit(limit) => policies.sub_queue_limit = Some(limit),
                Policy::SharedLimits => policies.shared_limits = true,
                Policy::SubQueueRate(count, period) => {
                    policies.sub_queue_rate = Some(Rate::per(count, duration(period)));
                }
                Policy::Rate(count, period) => {
                    policies.rate = Some(Rate::per(count, duration(period)));
                }
                Policy::History(count) => policies.history = count.min(HISTORY_MAX),
                Policy::Metrics(days) => policies.metrics = Some(days),
            }
        }
        policies
    }
}

/// Refuses a limit that no task could be taken with.
pub(crate) fn check_max_attempts(limit: Option<u32>) -> Result<()> {
    if limit == Some(0) {
        return Err(Error::invalid("max_attempts must be above zero; leave it out for no limit"));
    }
    Ok(())
}

/// The backoff with times as the catalog stores them.
fn whole_micros(backoff: Backoff) -> Backoff {
    let whole = |time: Duration| duration(micros_ceil(time.min(LONGEST_BACKOFF)));
    Backoff { first: whole(backoff.first), cap: whole(backoff.cap), ..backoff }
}

/// A rate with a period as the catalog stores it.
fn whole_period(rate: Rate) -> Rate {
    Rate::per(rate.count, duration(rate.micros()))
}

/// A limit with an age as the catalog stores it.
fn whole(keep: Keep) -> Keep {
    let age = keep.age.map(micros_ceil).filter(|age| *age != NEVER);
    Keep { age: age.map(duration), ..keep }
}

impl Encode for Policies {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        if self.is_empty() { Ok(()) } else { self.to_stored().encode(encoder) }
    }
}

impl<C> Decode<C> for Policies {
    /// Policies are the last field of a definition: without them the row ends here.
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Policies, DecodeError> {
        if decoder.reader().peek_read(1).is_none() {
            return Ok(Policies::default());
        }
        Vec::decode(decoder).map(Policies::from_stored)
    }
}

bincode::impl_borrow_decode!(Policies);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode_row, encode_row};

    #[test]
    fn definition_without_policies_has_no_bytes_for_them() {
        let with = |policies: Policies| encode_row(&(7u32, policies));
        assert_eq!(with(Policies::default()), encode_row(&7u32));
        let policies = Policies { max_runtime: Some(5_000_000), ..Policies::default() };
        let row = with(policies.clone());
        assert_eq!(decode_row::<(u32, Policies)>(&row), Some((7, policies)));
        assert_eq!(
            decode_row::<(u32, Policies)>(&encode_row(&7u32)),
            Some((7, Policies::default()))
        );
        assert_eq!(decode_row::<u32>(&row), None);
    }

    #[test]
    fn difference_names_both_values() {
        let difference = |one: TubeOptions, other: TubeOptions| {
            let [one, other] = [one, other].map(|options| Policies::new(&options).unwrap());
            let (what, one, other) = one.difference(&other).unwrap();
            format!("{what}: {one}, not {other}")
        };
        let second = Duration::from_secs(1);
        let options = TubeOptions::new;
        for (one, text) in [
            (options().max_runtime(second), "max_runtime: 1s, not unlimited"),
            (options().max_attempts(3), "max_attempts: 3, not unlimited"),
            (options().count_takes(Counting::Flushed), "count_takes: flushed, not written"),
            (options().backoff(Backoff::exponential(second)), "backoff: 1s,factor=2, not none"),
            (options().reclaim_delay(second * 90), "reclaim_delay: 90s, not none"),
            (options().keep_done(Keep::new()), "keep_done: all, not none"),
            (options().keep_buried(Keep::new().count(9)), "keep_buried: count=9, not all"),
            (options().max_taken(2), "max_taken: 2, not unlimited"),
            (options().sub_queue_limit(3), "sub_queue_limit: 3, not 1"),
            (options().shared_limits(true), "option shared_limits: true, not false"),
            (options().sub_queue_rate(Rate::per(3, second)), "sub_queue_rate: 3/1s, not unlimited"),
            (options().rate(Rate::per(5, second)), "rate: 5/1s, not unlimited"),
            (options().history(9), "history: 9, not 0"),
            (options().metrics(30), "metrics: 30 days, not none"),
        ] {
            assert_eq!(difference(one, options()), text);
        }
    }

    #[test]
    fn policies_read_back() {
        let minute = Duration::from_secs(60);
        let keep = Keep::new().count(3).age(minute);
        let options = || TubeOptions::new();
        for options in [
            options(),
            options().max_runtime(minute),
            options().max_attempts(3),
            options().max_attempts(3).count_takes(Counting::Lazily),
            options().max_attempts(3).count_takes(Counting::Flushed),
            options().backoff(Backoff::exponential(minute).factor(1.5).jitter(0.25)),
            options().reclaim_delay(minute).max_runtime(minute),
            options().keep_done(Keep::new()),
            options().keep_done(keep).keep_buried(keep),
            options().keep_buried(Keep::new()),
            options().max_taken(2),
            options().sub_queue_limit(2),
            options().sub_queue_limit(1),
            options().shared_limits(true).sub_queue_limit(u32::MAX),
            options().sub_queue_rate(Rate::per(7, minute / 7)).max_taken(2),
            options().rate(Rate::per(5, minute)).max_taken(2),
            options().history(1).max_taken(2),
            options().history(1000),
            options().metrics(30),
            options().metrics(0),
        ] {
            let policies = Policies::new(&options).unwrap();
            assert_eq!(decode_row(&encode_row(&policies)), Some(policies.clone()), "{options:?}");
            let paused = Policies { paused: Some(7), ..policies.clone() };
            assert_eq!(decode_row(&encode_row(&paused)), Some(paused.clone()), "{options:?}");
            assert_eq!(paused.difference(&policies), None);
        }
    }

    #[test]
    fn metrics_have_their_number_in_the_row() {
        let policies = Policies { metrics: Some(30), ..Policies::default() };
        assert_eq!(encode_row(&policies)[9..], [1, 14, 30]);
        let unknown = encode_row(&vec![(15_u8, 30_u8)]);
        assert_eq!(decode_row::<Policies>(&unknown), None);
    }
}
