//! The results of a run, as they are written to JSON.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::queue::{About, Shape, Work};

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
    /// Number of tasks of a wake-up row, and mean time between them.
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

/// One arrangement of callers. Jobs are a row of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub shape: Shape,
    /// The work of the row; empty for wake-ups.
    pub works: Vec<Work>,
    pub measures: Vec<Measure>,
    pub wake: Option<Wake>,
    /// Bodies that were wrong, lost or duplicated, in all rounds.
    pub faults: u64,
    /// Descriptions of the first faults.
    pub fault_examples: Vec<String>,
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

/// Microseconds from the return of the put until the consumer has the task; negative if the
/// consumer has it first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    pub p50_us: Spread,
    pub p99_us: Spread,
}

/// One figure per round, in the order of the rounds.
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

/// One figure to be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub what: String,
    pub wanted: String,
    /// The median over the rounds, if all that it needs was measured.
    pub got: Option<f64>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Met,
    Missed,
    /// A peer that the target refers to was not measured.
    NotMeasured,
}

/// The median of sorted figures. For an even number of figures, the mean of the two middle ones.
pub fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The smallest of sorted figures that `percent` per cent of them do not exceed (nearest rank).
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

impl Report {
    /// The row of a peer with this shape that is not of jobs.
    pub fn row(&self, peer: &str, shape: Shape) -> Option<&Row> {
        let peer = self.peers.iter().find(|candidate| candidate.about.name == peer)?;
        peer.rows.iter().find(|row| row.shape == shape && !row.is_of_jobs())
    }

    /// The median over all rows of the rate of the fastest round divided by that of the slowest:
    /// little more than 1 on a machine without other work.
    pub fn variation(&self) -> f64 {
        let rows = self.peers.iter().flat_map(|peer| &peer.rows);
        let rates = rows.flat_map(|row| &row.measures).map(|measure| &measure.tasks_per_second);
        let ratios = rates.filter(|rate| rate.min > 0.0).map(|rate| rate.max / rate.min);
        Spread::new(ratios.collect()).median
    }
}

impl Row {
    pub fn new(shape: Shape, works: Vec<Work>) -> Row {
        Row {
            shape,
            works,
            measures: Vec::new(),
            wake: None,
            faults: 0,
            fault_examples: Vec::new(),
            failed: None,
        }
    }

    pub fn is_of_jobs(&self) -> bool {
        self.works.contains(&Work::Job)
    }

    /// The figures of this work, if the row is valid.
    pub fn measure(&self, work: Work) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.work == work).filter(|_| self.is_valid())
    }

    pub fn is_valid(&self) -> bool {
        self.faults == 0 && self.failed.is_none()
    }
}

#[cfg(test)]
pub mod tests {
    use super::{
        Measure, PeerReport, Report, Row, Settings, Spread, Target, Verdict, Wake, median,
        percentile,
    };
    use crate::machine::Machine;
    use crate::queue::{About, Class, Losses, Shape, Work};

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert!(median(&[]).abs() < f64::EPSILON);
        assert!((median(&[1.0, 5.0, 9.0]) - 5.0).abs() < f64::EPSILON);
        assert!((median(&[1.0, 4.0, 6.0, 9.0]) - 5.0).abs() < f64::EPSILON);
    }

    #[test]
    fn spread_keeps_the_order_of_the_rounds() {
        let spread = Spread::new(vec![3.0, -1.0, 2.0]);
        assert_eq!(
            spread,
            Spread { median: 2.0, min: -1.0, max: 3.0, rounds: vec![3.0, -1.0, 2.0] }
        );
    }

    #[test]
    fn percentile_uses_the_nearest_rank() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&[7], 50), Some(7));
        assert_eq!(percentile(&[1, 2, 3], 99), Some(3));
        assert_eq!(percentile::<i64>(&[], 50), None);
    }

    #[test]
    fn variation_is_the_fastest_round_divided_by_the_slowest() {
        assert!((sample().variation() - 1.1 / 0.9).abs() < 1e-9);
    }

    #[test]
    fn report_survives_json() -> Result<(), serde_json::Error> {
        let report = sample();
        let text = serde_json::to_string_pretty(&report)?;
        assert_eq!(serde_json::from_str::<Report>(&text)?, report);
        Ok(())
    }

    /// Three peers that ran and one that did not.
    pub fn sample() -> Report {
        let ran = |name: &str, class, cycle: f64| PeerReport {
            about: about(name, class),
            skipped: None,
            rows: vec![
                measured(Shape::Callers(1), Work::Job, cycle / 2.0),
                measured(Shape::Callers(1), Work::Cycle, cycle),
                measured(Shape::Callers(64), Work::Cycle, cycle * 20.0),
                wake(cycle / 100.0),
            ],
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
            loses: Losses::nothing(),
            callers: "threads".into(),
            waits: "condition variable".into(),
            note: String::new(),
        }
    }

    fn measured(shape: Shape, work: Work, rate: f64) -> Row {
        let measure = Measure {
            work,
            tasks_per_second: Spread::new(vec![rate, rate * 1.1, rate * 0.9]),
            flushes_per_task: Some(Spread::new(vec![2.0])),
            bytes_per_task: None,
        };
        Row { measures: vec![measure], ..Row::new(shape, vec![work]) }
    }

    fn wake(p50: f64) -> Row {
        let wake = Wake { p50_us: Spread::new(vec![p50]), p99_us: Spread::new(vec![p50 * 5.0]) };
        Row { wake: Some(wake), ..Row::new(Shape::WakeUp, Vec::new()) }
    }
}
