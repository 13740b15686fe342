//! How many tasks a second are put, taken, acked and failed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tubewell::{Statistics, TubeInfo};

/// The rates are those of about this time.
const WINDOW: Duration = Duration::from_secs(5);

/// The counts of puts, takes, acks and failures of a tube.
type Counts = [u64; 4];

/// What was counted in the last seconds.
#[derive(Debug, Default)]
pub struct Rates(VecDeque<(Duration, BTreeMap<String, Counts>)>);

impl Rates {
    /// Adds what has been counted up to a moment.
    pub fn add(&mut self, at: Duration, tubes: &[(TubeInfo, Statistics)]) {
        let counted = |(tube, counts): &(TubeInfo, Statistics)| {
            let calls = counts.calls;
            let failed = calls.fail.saturating_add(calls.lost);
            let put = calls.put.saturating_add(calls.spawn);
            (tube.name.clone(), [put, calls.take, calls.ack, failed])
        };
        self.push(at, tubes.iter().map(counted).collect());
    }

    /// Nothing has been counted since the last moment.
    pub fn pass(&mut self, now: Duration) {
        if let Some((_, last)) = self.0.back() {
            self.push(now, last.clone());
        }
    }

    fn push(&mut self, at: Duration, counts: BTreeMap<String, Counts>) {
        self.0.push_back((at, counts));
        // The first one is the last of those that are older than the window.
        while self.0.get(1).is_some_and(|(second, _)| *second + WINDOW <= at) {
            self.0.pop_front();
        }
    }

    /// The rates of a tube: puts, takes, acks and failures a second.
    pub fn of(&self, tube: &str) -> [f64; 4] {
        let (Some((begin, first)), Some((end, last))) = (self.0.front(), self.0.back()) else {
            return [0.0; 4];
        };
        let (Some(last), time) = (last.get(tube), end.saturating_sub(*begin).as_secs_f64()) else {
            return [0.0; 4];
        };
        let first = first.get(tube).copied().unwrap_or_default();
        if time <= 0.0 {
            return [0.0; 4];
        }
        std::array::from_fn(|nth| {
            // After the owner has opened the store anew, the counts are smaller.
            let counted = last[nth].saturating_sub(first[nth]);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let counted = counted as f64;
            counted / time
        })
    }

    /// Whether anything was counted in the last seconds.
    pub fn are_zero(&self) -> bool {
        self.0.front().map(|(_, counts)| counts) == self.0.back().map(|(_, counts)| counts)
    }
}
