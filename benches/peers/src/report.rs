//! What a run found, as it is written to JSON.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::queue::{About, Shape, Work};
use crate::targets::Target;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    pub settings: Settings,
    pub peers: Vec<PeerReport>,
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub body_bytes: usize,
    pub rounds: usize,
    pub phase_ms: u64,
    /// Tasks and mean pause of a wake-up row.
    pub wake_tasks: usize,
    pub wake_pause_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    #[serde(flatten)]
    pub about: About,
    /// Why it was not measured.
    pub skipped: Option<String>,
    pub rows: Vec<Row>,
}

/// One arrangement of callers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub shape: Shape,
    pub measures: Vec<Measure>,
    pub wake: Option<Wake>,
    /// Bodies that were wrong, lost or doubled, over all rounds, and the first few in words.
    pub faults: u64,
    pub told: Vec<String>,
    /// Why the row ended early.
    pub failed: Option<String>,
}

/// One kind of work of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    pub work: Work,
    pub tasks_per_second: Spread,
    pub flushes_per_task: Option<Spread>,
    pub bytes_per_task: Option<Spread>,
}

/// Microseconds from the return of the put to the task in hand; negative if it was there before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    pub p50_us: Spread,
    pub p99_us: Spread,
}

/// One figure of each round, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub rounds: Vec<f64>,
}

impl Spread {
    pub fn new(rounds: Vec<f64>) -> Spread {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted.first().copied(), sorted.last().copied());
        Spread {
            median: median(&sorted),
            min: min.unwrap_or_default(),
            max: max.unwrap_or_default(),
            rounds,
        }
    }
}

/// Of sorted figures; of an even number of them the mean of the two in the middle.
pub fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The smallest of sorted figures that so many per cent do not exceed (nearest rank).
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

impl Report {
    pub fn row(&self, peer: &str, shape: Shape) -> Option<&Row> {
        let peer = self.peers.iter().find(|candidate| candidate.about.name == peer)?;
        peer.rows.iter().find(|row| row.shape == shape)
    }

    /// How many times faster than its slowest round the fastest of a row was, in the middle of all
    /// rows: little more than 1 on a machine that does nothing else.
    pub fn unrest(&self) -> f64 {
        let rows = self.peers.iter().flat_map(|peer| &peer.rows);
        let rates = rows.flat_map(|row| &row.measures).map(|measure| &measure.tasks_per_second);
        let times = rates.filter(|rate| rate.min > 0.0).map(|rate| rate.max / rate.min);
        Spread::new(times.collect()).median
    }
}

impl Row {
    pub fn new(shape: Shape) -> Row {
        Row { shape, measures: Vec::new(), wake: None, faults: 0, told: Vec::new(), failed: None }
    }

    /// What was measured of this work, unless the row is not to be trusted.
    pub fn measure(&self, work: Work) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.work == work).filter(|_| self.is_sound())
    }

    pub fn is_sound(&self) -> bool {
        self.faults == 0 && self.failed.is_none()
    }
}

#[cfg(test)]
pub mod tests {
    use super::{Measure, PeerReport, Report, Row, Settings, Spread, Wake, median, percentile};
    use crate::machine::Machine;
    use crate::queue::{About, Class, Loses, Shape, Work};
    use crate::targets::{Target, Verdict};

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert!(median(&[]).abs() < f64::EPSILON);
        assert!((median(&[1.0, 5.0, 9.0]) - 5.0).abs() < f64::EPSILON);
        assert!((median(&[1.0, 4.0, 6.0, 9.0]) - 5.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_spread_sorts_but_keeps_the_order_of_the_rounds() {
        let spread = Spread::new(vec![3.0, -1.0, 2.0]);
        assert_eq!(
            spread,
            Spread { median: 2.0, min: -1.0, max: 3.0, rounds: vec![3.0, -1.0, 2.0] }
        );
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&[7], 50), Some(7));
        assert_eq!(percentile(&[1, 2, 3], 99), Some(3));
        assert_eq!(percentile::<i64>(&[], 50), None);
    }

    #[test]
    fn unrest_is_how_far_the_rounds_of_a_row_are_apart() {
        assert!((sample().unrest() - 1.1 / 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_report_survives_json() -> Result<(), serde_json::Error> {
        let report = sample();
        let text = serde_json::to_string_pretty(&report)?;
        assert_eq!(serde_json::from_str::<Report>(&text)?, report);
        Ok(())
    }

    /// Two peers that ran and one that did not.
    pub fn sample() -> Report {
        let ran = |name: &str, class, cycle: f64| PeerReport {
            about: about(name, class),
            skipped: None,
            rows: vec![cycles(1, cycle), cycles(64, cycle * 20.0), wake(cycle / 100.0)],
        };
        Report {
            machine: Machine::default(),
            settings: Settings {
                body_bytes: 128,
                rounds: 3,
                phase_ms: 500,
                wake_tasks: 100,
                wake_pause_ms: 5,
            },
            peers: vec![
                ran("tubewell/fifo", Class::Durable, 2000.0),
                ran("redb/leader", Class::Durable, 2500.0),
                ran("yaque", Class::ProcessSafe, 400_000.0),
                PeerReport {
                    about: about("absent", Class::Durable),
                    skipped: Some("not installed: absent".into()),
                    rows: Vec::new(),
                },
            ],
            targets: vec![Target {
                what: "a <cycle> & more".into(),
                wanted: "at least 0.95".into(),
                got: Some(0.8),
                verdict: Verdict::Missed,
            }],
        }
    }

    fn about(name: &str, class: Class) -> About {
        About {
            name: name.into(),
            version: "1".into(),
            class,
            loses: Loses::nothing(),
            callers: "threads".into(),
            waits: "condition variable".into(),
            note: String::new(),
        }
    }

    fn cycles(callers: usize, rate: f64) -> Row {
        let measure = Measure {
            work: Work::Cycle,
            tasks_per_second: Spread::new(vec![rate, rate * 1.1, rate * 0.9]),
            flushes_per_task: Some(Spread::new(vec![2.0])),
            bytes_per_task: None,
        };
        Row { measures: vec![measure], ..Row::new(Shape::Callers(callers)) }
    }

    fn wake(p50: f64) -> Row {
        let wake = Wake { p50_us: Spread::new(vec![p50]), p99_us: Spread::new(vec![p50 * 5.0]) };
        Row { wake: Some(wake), ..Row::new(Shape::WakeUp) }
    }
}
