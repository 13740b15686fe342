//! Tasks to put, as JSON.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tubewell::{Put, ScheduleInfo};

use crate::record::{Time, bytes};
use crate::{duration, moment};

/// A task. An unknown field is an error: it may be a misspelt option.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewTask))]
#[serde(deny_unknown_fields)]
pub struct Fields<'a> {
    data: Option<Cow<'a, str>>,
    data_base64: Option<Cow<'a, str>>,
    priority: Option<u32>,
    ttl: Option<Time>,
    ttr: Option<Time>,
    delay: Option<Time>,
    not_before: Option<String>,
    sub_queue: Option<String>,
    key: Option<String>,
    idempotency_key: Option<String>,
    max_attempts: Option<u32>,
    max_runtime: Option<Time>,
    tags: Option<Vec<String>>,
    traceparent: Option<String>,
}

/// The options of a task that the object need not have.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "they are those of `Put`")]
pub struct PutOptions {
    pub priority: Option<u32>,
    pub ttl: Option<Duration>,
    pub ttr: Option<Duration>,
    pub delay: Option<Duration>,
    pub not_before: Option<SystemTime>,
    pub sub_queue: Option<String>,
    pub max_attempts: Option<u32>,
    pub max_runtime: Option<Duration>,
    pub tags: Vec<String>,
    pub traceparent: Option<String>,
}

impl PutOptions {
    /// The options of the runs of a schedule.
    pub fn of_runs(schedule: &ScheduleInfo) -> PutOptions {
        PutOptions {
            priority: schedule.priority,
            ttl: schedule.ttl,
            ttr: schedule.ttr,
            delay: (!schedule.delay.is_zero()).then_some(schedule.delay),
            not_before: None,
            sub_queue: schedule.sub_queue.clone(),
            max_attempts: schedule.max_attempts,
            max_runtime: schedule.max_runtime,
            tags: schedule.tags.clone(),
            traceparent: None,
        }
    }

    /// The options without the one with this name, if it is one.
    #[must_use]
    pub fn without(mut self, name: &str) -> PutOptions {
        match name {
            "priority" => self.priority = None,
            "ttl" => self.ttl = None,
            "ttr" => self.ttr = None,
            "delay" => self.delay = None,
            "not_before" => self.not_before = None,
            "sub_queue" => self.sub_queue = None,
            "max_attempts" => self.max_attempts = None,
            "max_runtime" => self.max_runtime = None,
            "tags" => self.tags.clear(),
            _ => {}
        }
        self
    }

    /// The task with the options that are given here.
    pub fn apply<B>(&self, mut task: Put<B>) -> Put<B> {
        if let Some(priority) = self.priority {
            task = task.priority(priority);
        }
        if let Some(ttl) = self.ttl {
            task = task.ttl(ttl);
        }
        if let Some(ttr) = self.ttr {
            task = task.ttr(ttr);
        }
        if let Some(delay) = self.delay {
            task = task.delay(delay);
        }
        if let Some(moment) = self.not_before {
            task = task.not_before(moment);
        }
        if let Some(name) = &self.sub_queue {
            task = task.sub_queue(name.as_str());
        }
        if let Some(limit) = self.max_attempts {
            task = task.max_attempts(limit);
        }
        if let Some(most) = self.max_runtime {
            task = task.max_runtime(most);
        }
        if let Some(traceparent) = &self.traceparent {
            task = task.traceparent(traceparent.as_str());
        }
        self.tags.iter().fold(task, |task, tag| task.tag(tag.as_str()))
    }
}

/// The task of a line; `None` for an empty line. `defaults` are the options that the line need not have.
///
/// # Errors
/// What is wrong with the line.
pub fn task(line: &[u8], defaults: &PutOptions) -> Result<Option<Put<Vec<u8>>>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    check_object(line)?;
    let line: Fields<'_> = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    let body = body(line.data, line.data_base64)?;
    let options = PutOptions {
        priority: line.priority.or(defaults.priority),
        ttl: time("ttl", line.ttl)?.or(defaults.ttl),
        ttr: time("ttr", line.ttr)?.or(defaults.ttr),
        delay: time("delay", line.delay)?.or(defaults.delay),
        not_before: not_before(line.not_before)?.or(defaults.not_before),
        sub_queue: line.sub_queue.or_else(|| defaults.sub_queue.clone()),
        max_attempts: line.max_attempts.or(defaults.max_attempts),
        max_runtime: time("max_runtime", line.max_runtime)?.or(defaults.max_runtime),
        tags: line.tags.unwrap_or_else(|| defaults.tags.clone()),
        traceparent: line.traceparent.or_else(|| defaults.traceparent.clone()),
    };
    let put = options.apply(Put::new(body));
    let put = line.key.into_iter().fold(put, Put::key);
    Ok(Some(line.idempotency_key.into_iter().fold(put, Put::idempotency_key)))
}

/// The body of a line.
///
/// # Errors
/// It has none, or both forms of it, or no base64.
pub fn body(text: Option<Cow<'_, str>>, base64: Option<Cow<'_, str>>) -> Result<Vec<u8>, String> {
    let body = bytes("data", text, base64)?;
    body.ok_or_else(|| "it has neither data nor data_base64".into())
}

/// The moment of a field.
///
/// # Errors
/// The text is not a moment.
pub fn not_before(text: Option<String>) -> Result<Option<SystemTime>, String> {
    let moment = text.map(|text| moment::parse(&text)).transpose();
    moment.map_err(|why| format!("not_before: {why}"))
}

/// The time of the field with this name.
///
/// # Errors
/// It is none.
pub fn time(name: &str, time: Option<Time>) -> Result<Option<Duration>, String> {
    let time = match time {
        None => return Ok(None),
        Some(Time::Seconds(seconds)) => duration::from_seconds(seconds),
        Some(Time::Text(text)) => duration::parse(&text),
    };
    time.map(Some).map_err(|why| format!("{name}: {why}"))
}

/// The parser would accept an array of the fields, too.
///
/// # Errors
/// It is no object.
pub fn check_object(line: &[u8]) -> Result<(), String> {
    if line.trim_ascii_start().starts_with(b"{") {
        return Ok(());
    }
    Err("it is not a JSON object, which begins with {".into())
}

/// The message of the parser without its line number, which is always 1.
pub fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    match error.column() {
        0 => what.to_owned(),
        column => format!("{what} (column {column})"),
    }
}
