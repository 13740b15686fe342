//! A line of JSON as a task, and a line of an export as a tube or a task.

use std::time::Duration;

use serde::Deserialize;
use tubewell::{Durability, FIFOTTL, LIMFIFOTTL, Put, TubeOptions, UTUBETTL};

use crate::args::PutOptions;
use crate::commands::with_options;
use crate::{duration, record};

/// A task as a line gives it. An unknown field is a mistake that must not pass in silence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    data: Option<String>,
    data_base64: Option<String>,
    pri: Option<u32>,
    ttl: Option<Time>,
    ttr: Option<Time>,
    delay: Option<Time>,
    sub_queue: Option<String>,
}

/// Seconds, or a duration as on the command line.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a duration is a number of seconds or a text such as \"10m\"")]
enum Time {
    Seconds(f64),
    Text(String),
}

/// A line of an export that has a driver.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TubeLine {
    tube: String,
    driver: String,
    ttl: Option<f64>,
    ttr: Option<f64>,
    pri: u32,
    capacity: u64,
    temporary: bool,
    durability: Option<Flushes>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a durability is \"flush\", a number of seconds, or null")]
enum Flushes {
    Within(f64),
    Always(Flush),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flush {
    Flush,
}

/// Any other line of an export.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskLine {
    tube: String,
    #[serde(rename = "id")]
    _id: Option<u64>,
    state: Shelf,
    pri: u32,
    ttl: Option<f64>,
    ttr: Option<f64>,
    /// Unlike the other times it cannot be left out: that would be for ever.
    #[serde(deserialize_with = "Option::deserialize")]
    delay: Option<f64>,
    sub_queue: Option<String>,
    #[serde(rename = "takes")]
    _takes: Option<u32>,
    data: Option<String>,
    data_base64: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Shelf {
    Ready,
    Taken,
    Delayed,
    Buried,
}

/// What a line of an export stands for.
pub enum Exported {
    Tube { name: String, driver: String, options: TubeOptions },
    Task { tube: String, task: ExportedTask },
}

/// A task that is still to get its options: which, depends on the tube.
pub struct ExportedTask {
    pub buried: bool,
    put: Put,
    pri: u32,
    ttl: Duration,
    ttr: Duration,
    delay: Duration,
}

impl ExportedTask {
    /// The task for a tube of this driver: what it does not have is left out, what it has is not
    /// left to the tube.
    pub fn put(self, driver: &str) -> Put {
        if !is_timed(driver) {
            return self.put;
        }
        self.put.pri(self.pri).ttl(self.ttl).ttr(self.ttr).delay(self.delay)
    }
}

fn is_timed(driver: &str) -> bool {
    [FIFOTTL, UTUBETTL, LIMFIFOTTL].contains(&driver)
}

/// The tube or task of a line of an export; `None` for an empty line.
pub fn exported(line: &[u8]) -> Result<Option<Exported>, String> {
    /// Of all lines, those of tubes alone have a driver.
    #[derive(Deserialize)]
    struct Kind {
        driver: Option<serde::de::IgnoredAny>,
    }
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    check_object(line)?;
    let kind: Kind = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    if kind.driver.is_some() {
        let line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
        return exported_tube(line).map(Some);
    }
    let line: TaskLine = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    let body = body(line.data, line.data_base64)?;
    let mut put = Put::new(body);
    if let Some(name) = line.sub_queue {
        put = put.sub_queue(name);
    }
    let task = ExportedTask {
        buried: line.state == Shelf::Buried,
        put,
        pri: line.pri,
        ttl: life("ttl", line.ttl)?,
        ttr: life("ttr", line.ttr)?,
        delay: life("delay", line.delay)?,
    };
    Ok(Some(Exported::Task { tube: line.tube, task }))
}

fn exported_tube(line: TubeLine) -> Result<Exported, String> {
    let mut options = TubeOptions::new().temporary(line.temporary).if_not_exists(true);
    if is_timed(&line.driver) {
        let (ttl, ttr) = (life("ttl", line.ttl)?, life("ttr", line.ttr)?);
        options = options.pri(line.pri).ttl(ttl).ttr(ttr);
    }
    if line.capacity > 0 {
        options = options.capacity(line.capacity);
    }
    options = match line.durability {
        None => options,
        Some(Flushes::Always(Flush::Flush)) => options.durability(Durability::Flush),
        Some(Flushes::Within(seconds)) => {
            let seconds = Some(seconds).filter(|seconds| *seconds < duration::LONGEST);
            let max_delay = life("durability", seconds)?;
            options.durability(Durability::Relaxed { max_delay })
        }
    };
    Ok(Exported::Tube { name: line.tube, driver: line.driver, options })
}

/// A time of an export, where null is for ever.
fn life(name: &str, seconds: Option<f64>) -> Result<Duration, String> {
    let time = seconds.map_or(Ok(Duration::MAX), duration::from_seconds);
    time.map_err(|why| format!("{name}: {why}"))
}

fn body(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(text)) => record::from_base64(&text)
            .ok_or_else(|| "data_base64 is not base64 (the standard alphabet)".into()),
        (None, None) => Err("it has neither data nor data_base64".into()),
        (Some(_), Some(_)) => Err("it has both data and data_base64".into()),
    }
}

/// The task of a line; `None` for an empty one. What the line does not say is as the command line
/// says.
pub fn task(line: &[u8], defaults: &PutOptions) -> Result<Option<Put>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    check_object(line)?;
    let line: Line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    let body = body(line.data, line.data_base64)?;
    let options = PutOptions {
        pri: line.pri.or(defaults.pri),
        ttl: time("ttl", line.ttl)?.or(defaults.ttl),
        ttr: time("ttr", line.ttr)?.or(defaults.ttr),
        delay: time("delay", line.delay)?.or(defaults.delay),
        sub_queue: line.sub_queue.or_else(|| defaults.sub_queue.clone()),
    };
    Ok(Some(with_options(Put::new(body), &options)))
}

fn time(name: &str, time: Option<Time>) -> Result<Option<Duration>, String> {
    let time = match time {
        None => return Ok(None),
        Some(Time::Seconds(seconds)) => duration::from_seconds(seconds),
        Some(Time::Text(text)) => duration::parse(&text),
    };
    time.map(Some).map_err(|why| format!("{name}: {why}"))
}

/// To the parser an array of the fields would do as well.
fn check_object(line: &[u8]) -> Result<(), String> {
    if line.trim_ascii_start().starts_with(b"{") {
        return Ok(());
    }
    Err("it is no JSON object, which begins with {".into())
}

/// What the parser says, without its idea of lines: each line is a text of its own to it.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    match error.column() {
        0 => what.to_owned(),
        column => format!("{what} (column {column})"),
    }
}
