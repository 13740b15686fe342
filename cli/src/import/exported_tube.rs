//! The line of a tube in an export.

use std::str::FromStr;
use std::time::Duration;

use tubewell::{Durability, Error, TubeOptions};

use crate::duration;
use crate::export_line::{StoredDurability, TubeLine};
use crate::store::is_timed;

/// The meaning of the line of a tube.
pub struct ExportedTube {
    pub name: String,
    pub driver: String,
    pub options: TubeOptions,
    /// The rest of its pause.
    pub pause: Option<Duration>,
    /// The paused sub-queues, each with the rest of its pause.
    pub paused_sub_queues: Vec<(String, Duration)>,
}

/// The tube of a line.
pub(super) fn exported_tube(line: TubeLine<'_>) -> Result<ExportedTube, String> {
    let mut options = TubeOptions::new().temporary(line.temporary).if_not_exists(true);
    if is_timed(&line.driver) {
        let (ttl, ttr) = (exported_time("ttl", line.ttl)?, exported_time("ttr", line.ttr)?);
        options = options.pri(line.pri).ttl(ttl).ttr(ttr);
    }
    options = exported_policies(&line, options)?;
    if line.capacity > 0 {
        options = options.capacity(line.capacity);
    }
    if let Some(durability) = line.durability {
        options = options.durability(exported_durability(durability)?);
    }
    let pause = line.paused.then(|| exported_time("resumes_in", line.resumes_in)).transpose()?;
    let pauses = line.paused_sub_queues.into_iter();
    let paused_sub_queues = pauses
        .map(|(name, left)| Ok((name.into_owned(), exported_time("paused_sub_queues", left)?)))
        .collect::<Result<_, String>>()?;
    let (name, driver) = (line.tube.into_owned(), line.driver.into_owned());
    Ok(ExportedTube { name, driver, options, pause, paused_sub_queues })
}

fn exported_policies(line: &TubeLine<'_>, mut options: TubeOptions) -> Result<TubeOptions, String> {
    if let Some(limit) = line.sub_queue_limit {
        options = options.sub_queue_limit(limit);
    }
    if let Some(rate) = &line.sub_queue_rate {
        options = options.sub_queue_rate(exported_text("sub_queue_rate", rate)?);
    }
    options = options.shared_limits(line.shared_limits);
    options = options.metrics(line.metrics.unwrap_or(0));
    if line.max_runtime.is_some() {
        options = options.max_runtime(exported_time("max_runtime", line.max_runtime)?);
    }
    if let Some(limit) = line.max_attempts {
        options = options.max_attempts(limit);
    }
    if let Some(counting) = &line.count_takes {
        options = options.count_takes(exported_text("count_takes", counting)?);
    }
    if let Some(backoff) = &line.backoff {
        options = options.backoff(exported_text("backoff", backoff)?);
    }
    if let Some(seconds) = line.reclaim_delay {
        options = options.reclaim_delay(exported_seconds("reclaim_delay", seconds)?);
    }
    if let Some(keep) = &line.keep_done {
        options = options.keep_done(exported_text("keep_done", keep)?);
    }
    if let Some(keep) = &line.keep_buried {
        options = options.keep_buried(exported_text("keep_buried", keep)?);
    }
    if let Some(limit) = line.max_taken {
        options = options.max_taken(limit);
    }
    if let Some(entries) = line.history {
        options = options.history(entries);
    }
    if let Some(rate) = &line.rate {
        options = options.rate(exported_text("rate", rate)?);
    }
    Ok(options)
}

fn exported_text<T: FromStr<Err = Error>>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|why| format!("{name}: {why}"))
}

fn exported_durability(durability: StoredDurability) -> Result<Durability, String> {
    match durability {
        StoredDurability::RelaxedSeconds(seconds) => {
            let max_delay = exported_seconds("durability", seconds)?;
            Ok(Durability::Relaxed { max_delay })
        }
        StoredDurability::Text(text) => exported_text("durability", &text),
    }
}

/// A time of an export, where null means that there is none, and a large number is never.
fn exported_seconds(name: &str, seconds: f64) -> Result<Duration, String> {
    exported_time(name, Some(seconds).filter(|seconds| *seconds < duration::NEVER_SECONDS))
}

/// A time of an export, where null is never.
pub(super) fn exported_time(name: &str, seconds: Option<f64>) -> Result<Duration, String> {
    let time = seconds.map_or(Ok(Duration::MAX), duration::from_seconds);
    time.map_err(|why| format!("{name}: {why}"))
}
