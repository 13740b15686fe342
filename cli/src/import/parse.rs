//! A line of JSON as a task.

use std::time::Duration;

use serde::Deserialize;
use tubewell::Put;

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

/// The task of a line; `None` for an empty one. What the line does not say is as the command line
/// says.
pub fn task(line: &[u8], defaults: &PutOptions) -> Result<Option<Put>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    let body = match (line.data, line.data_base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => {
            record::from_base64(&text).ok_or("data_base64 is not base64 (the standard alphabet)")?
        }
        (None, None) => return Err("it has neither data nor data_base64".into()),
        (Some(_), Some(_)) => return Err("it has both data and data_base64".into()),
    };
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

/// What the parser says, without its idea of lines: each line is a text of its own to it.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    match error.column() {
        0 => what.to_owned(),
        column => format!("{what} (column {column})"),
    }
}
