//! The line of a schedule in an export.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use tubewell::{Missed, Overlap, Put, Schedule};

use crate::args::PutOptions;
use crate::record::{ScheduleRecord, Time};
use crate::store::is_timed;
use crate::{duration, moment};
use tubewell_json::put;

/// A schedule of an export. Which of the options of its runs apply depends on the driver.
pub struct ExportedSchedule {
    pub key: String,
    pub tube: String,
    pub id: Option<u64>,
    schedule: Schedule,
    body: Vec<u8>,
    options: PutOptions,
    runs: u64,
    skipped: u64,
}

impl ExportedSchedule {
    /// The schedule and its task for a tube of this driver. `id`: its id in the store; `None` is the
    /// next one.
    pub fn restore(self, driver: &str, id: Option<u64>) -> (Schedule, Put<Vec<u8>>) {
        let mut options = self.options;
        if !is_timed(driver) {
            let PutOptions { sub_queue, max_attempts, tags, .. } = options;
            options = PutOptions { sub_queue, max_attempts, tags, ..PutOptions::default() };
        }
        let put = options.apply(Put::new(self.body));
        (self.schedule.restored(id, self.runs, self.skipped), put)
    }
}

pub(super) fn exported_schedule(line: ScheduleRecord<'_>) -> Result<ExportedSchedule, String> {
    let body = put::body(line.data, line.data_base64)?;
    let schedule = match (line.every, line.cron, line.zone) {
        (Some(seconds), None, None) => Schedule::every(&*line.schedule, time("every", seconds)?),
        (None, Some(expression), Some(zone)) => Schedule::cron(&*line.schedule, expression, zone),
        _ => return Err("a schedule has either every, or cron and zone".into()),
    };
    let next: SystemTime = moment::parse(&line.next).map_err(|why| format!("next: {why}"))?;
    let mut schedule = schedule.starting(next);
    schedule = line.times.into_iter().fold(schedule, Schedule::times);
    if let Some(missed) = line.missed {
        let missed: Missed = missed.parse().map_err(|why| format!("missed: {why}"))?;
        schedule = schedule.missed(missed);
    }
    if let Some(seconds) = line.within {
        schedule = schedule.within(time("within", seconds)?);
    }
    if let Some(overlap) = line.overlap {
        let overlap: Overlap = overlap.parse().map_err(|why| format!("overlap: {why}"))?;
        schedule = schedule.overlap(overlap);
    }
    let delay = time("delay", line.delay)?;
    let options = PutOptions {
        priority: line.priority,
        ttl: line.ttl.map(|ttl| either("ttl", ttl)).transpose()?,
        ttr: line.ttr.map(|ttr| either("ttr", ttr)).transpose()?,
        delay: (!delay.is_zero()).then_some(delay),
        not_before: None,
        sub_queue: line.sub_queue.map(Cow::into_owned),
        max_attempts: line.max_attempts,
        max_runtime: line.max_runtime.map(|most| either("max_runtime", most)).transpose()?,
        tags: line.tags.into_owned(),
        traceparent: None,
    };
    Ok(ExportedSchedule {
        key: line.schedule.into_owned(),
        tube: line.tube.into_owned(),
        id: line.id,
        schedule,
        body,
        options,
        runs: line.runs,
        skipped: line.skipped,
    })
}

fn time(name: &str, seconds: f64) -> Result<Duration, String> {
    duration::from_seconds(seconds).map_err(|why| format!("{name}: {why}"))
}

pub(super) fn either(name: &str, value: Time) -> Result<Duration, String> {
    match value {
        Time::Seconds(seconds) => time(name, seconds),
        Time::Text(text) => duration::parse(&text).map_err(|why| format!("{name}: {why}")),
    }
}
