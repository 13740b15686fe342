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

/// The `traceparent` of a header of HTTP. Its standard wants one of another form to be ignored, and the ids of a newer
/// version to be read.
#[must_use]
pub fn traceparent_of_header(text: &str) -> Option<String> {
    let (version, rest) = text.trim().split_at_checked(2)?;
    let ids = rest.get(..53)?;
    let is_newer =
        version != "00" && version != "ff" && matches!(rest.as_bytes().get(53), None | Some(b'-'));
    let is_hex = |text: &str| text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = ids.strip_prefix('-')?.split('-').collect();
    let is_id =
        |id: &str, length| id.len() == length && is_hex(id) && id.bytes().any(|it| it != b'0');
    let [trace, span, flags] = parts[..] else { return None };
    let is_whole = is_id(trace, 32) && is_id(span, 16) && flags.len() == 2 && is_hex(flags);
    let is_known = version == "00" && rest.len() == 53;
    (is_whole && is_hex(version) && (is_known || is_newer)).then(|| format!("00{ids}"))
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

#[cfg(test)]
mod tests {
    use super::traceparent_of_header;

    #[test]
    fn traceparent_of_a_header_is_read_or_ignored() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = |text: &str| traceparent_of_header(text);
        assert_eq!(read(text).as_deref(), Some(text));
        assert_eq!(read(&format!(" {text}")).as_deref(), Some(text));
        for newer in [text.replacen("00", "cc", 1), text.replacen("00", "cc", 1) + "-more"] {
            assert_eq!(read(&newer).as_deref(), Some(text));
        }
        for other in [
            String::new(),
            "00".into(),
            text.to_uppercase(),
            text.replacen("00", "ff", 1),
            text.replacen("00", "zz", 1),
            format!("{text}-more"),
            text.replacen("00", "cc", 1) + "more",
            text.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            text.replace("00f067aa0ba902b7", &"0".repeat(16)),
            text.replace("00f067aa0ba902b7", "00f067aa0ba902é"),
            text.replace('-', "_"),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }
}
