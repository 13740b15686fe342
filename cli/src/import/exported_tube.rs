//! The line of a tube in an export.

use std::time::Duration;

use tubewell::TubeOptions;

use crate::duration;
use crate::export_line::TubeLine;

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
    let options = line.options.over(TubeOptions::new())?;
    let pause = line.paused.then(|| exported_time("resumes_in", line.resumes_in)).transpose()?;
    let pauses = line.paused_sub_queues.into_iter();
    let paused_sub_queues = pauses
        .map(|(name, left)| Ok((name.into_owned(), exported_time("paused_sub_queues", left)?)))
        .collect::<Result<_, String>>()?;
    let (name, driver) = (line.tube.into_owned(), line.driver.into_owned());
    Ok(ExportedTube { name, driver, options, pause, paused_sub_queues })
}

/// A time of an export, where null is never.
pub(super) fn exported_time(name: &str, seconds: Option<f64>) -> Result<Duration, String> {
    let time = seconds.map_or(Ok(Duration::MAX), duration::from_seconds);
    time.map_err(|why| format!("{name}: {why}"))
}
