//! Calls that are well-formed HTTP, with any names, options and contents.

use std::fmt::Write as _;

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Map, Value};

/// The calls, as their description names them. Further ones go to the end, so that inputs keep their meaning.
pub(super) const CALLS: [&str; 48] = [
    "GET /v1/tubes",
    "GET /v1/tubes/{tube}",
    "PUT /v1/tubes/{tube}",
    "PATCH /v1/tubes/{tube}",
    "DELETE /v1/tubes/{tube}",
    "POST /v1/tubes/{tube}/pause",
    "POST /v1/tubes/{tube}/resume",
    "POST /v1/tubes/{tube}/truncate",
    "GET /v1/tubes/{tube}/days",
    "POST /v1/tubes/{tube}/{change}",
    "GET /v1/tubes/{tube}/tasks",
    "POST /v1/tubes/{tube}/tasks",
    "POST /v1/tubes/{tube}/take",
    "POST /v1/claims/{claim}/{end}",
    "GET /v1/tasks",
    "GET /v1/tasks/{id}",
    "PATCH /v1/tasks/{id}",
    "DELETE /v1/tasks/{id}",
    "GET /v1/keys/{key}",
    "GET /v1/tasks/{id}/outcome",
    "GET /v1/tasks/{id}/history",
    "GET /v1/tasks/{id}/steps",
    "GET /v1/tasks/{id}/relations",
    "POST /v1/tasks/{id}/{change}",
    "GET /v1/schedules",
    "GET /v1/tubes/{tube}/schedules",
    "PUT /v1/tubes/{tube}/schedules/{key}",
    "PATCH /v1/schedules/{key}",
    "DELETE /v1/schedules/{key}",
    "POST /v1/schedules/{key}/run",
    "GET /v1/store",
    "GET /v1/groups",
    "GET /v1/tubes/{tube}/groups",
    "GET /v1/owners",
    "GET /v1/tags",
    "GET /v1/limits",
    "PUT /v1/limits/{name}",
    "DELETE /v1/limits/{name}",
    "POST /v1/all/kick",
    "POST /v1/all/delete",
    "GET /metrics",
    "HEAD /v1/tubes",
    "GET /",
    "GET /v1/nothing",
    "TRACE /v1/tubes",
    "GET /v1/store/backup",
    "POST /v1/store/verify",
    "GET /v1/backlog",
];

/// Options behind the `?`, and values.
const OPTIONS: &[&str] = &[
    "state",
    "tag",
    "group",
    "owner",
    "sub_queue",
    "limit",
    "after",
    "newest_first",
    "soonest_first",
    "to",
    "wait",
    "hold",
    "max",
    "worker",
    "delay",
    "for",
    "last",
    "on_key",
    "unique_for",
    "nothing",
];
const VALUES: &[&str] = &[
    "ready", "taken", "delayed", "blocked", "buried", "done", "t", "g", "a", "u", "jobs", "k", "1",
    "2", "7", "1000", "10m", "2s", "500ms", "0", "-1", "1e999", "NaN", "true", "keep", "replace",
    "%ff", "%", "a%20b", "never", "",
];
/// A call does not wait for longer than an input may take.
const WAITS: &[&str] = &["0", "1ms", "0.001", "-1", "301s", "1e999", "%ff", "never"];

/// Fields of objects, and their values.
const FIELDS: &[&str] = &[
    "data",
    "data_base64",
    "priority",
    "ttl",
    "ttr",
    "delay",
    "not_before",
    "sub_queue",
    "key",
    "max_attempts",
    "max_runtime",
    "tags",
    "tasks",
    "ids",
    "every",
    "cron",
    "zone",
    "starting",
    "times",
    "missed",
    "within",
    "overlap",
    "most",
    "driver",
    "group",
    "message",
    "keep_done",
    "max_taken",
    "history",
    "durability",
    "metrics",
    "nothing",
];
const TEXTS: &[&str] = &[
    "x",
    "10m",
    "1s",
    "never",
    "t",
    "k",
    "aGVsbG8=",
    "2030-01-01T00:00:00Z",
    "*/5 * * * *",
    "UTC",
    "Europe/Berlin",
    "all",
    "skip",
    "allow",
    "fifo",
    "utubettl",
    "write(50ms)",
    "",
    "ä",
    "\u{0}",
];

/// Contents that a call carries out.
const CONTENTS: &[&str] = &[
    r#"{"data": "x", "key": "n", "tags": ["t"], "idempotency_key": "i"}"#,
    r#"{"tasks": [{"data": "x"}, {"data": "y", "delay": "1h"}]}"#,
    r#"[{"data_base64": "/w=="}]"#,
    r#"{"every": "1h", "data": "x", "times": 3}"#,
    r#"{"cron": "*/5 * * * *", "zone": "UTC", "data": "x", "missed": "all"}"#,
    r#"{"times": null, "ttl": null, "priority": 7}"#,
    r#"{"most": 3}"#,
    r#"{"ttr": "5m", "max_attempts": 3}"#,
    r#"{"driver": "fifo", "keep_done": "1d"}"#,
    r#"{"priority": 1}"#,
    r#"{"delay": 5, "tags": ["u"], "data": "y"}"#,
    r#"{"ids": [0, 1, 2, 3]}"#,
    r#"{"group": "g", "message": "why"}"#,
    r#"{"data": "x", "data": "y"}"#,
];

#[derive(Debug)]
pub(super) struct Call {
    /// The method, and the path with the names of its parts.
    pub(super) name: String,
    /// The path with its options.
    target: String,
    headers: Vec<&'static str>,
    content: Vec<u8>,
}

impl Call {
    /// A call without options.
    pub(super) fn plain(name: &str) -> Call {
        let target = name.split_once(' ').unwrap().1.to_owned();
        Call { name: name.to_owned(), target, headers: Vec::new(), content: Vec::new() }
    }

    /// A put of these bytes.
    pub(super) fn put(body: &[u8]) -> Call {
        let mut call = Call::plain("POST /v1/tubes/jobs/tasks");
        call.headers.push("Content-Type: application/octet-stream");
        call.content = body.to_vec();
        call
    }

    /// A take of a task.
    pub(super) fn take() -> Call {
        let mut call = Call::plain("POST /v1/tubes/{tube}/take");
        call.target.replace_range(.., "/v1/tubes/jobs/take?hold=60s");
        call
    }

    pub(super) fn arbitrary(source: &mut Unstructured<'_>, claim: &str) -> Result<Call> {
        let name = match usize::from(u8::arbitrary(source)? % 64) {
            at if at < CALLS.len() => CALLS[at],
            47 => "PUT /v1/tubes/{tube}/schedules/{key}",
            48 | 49 => "POST /v1/all/delete",
            56.. => "POST /v1/claims/{claim}/{end}",
            _ => "POST /v1/tubes/{tube}/tasks",
        };
        let mut call = Call::plain(name);
        for (part, values) in [
            ("{tube}", &["jobs", "u", "new", "a%2Fb"][..]),
            ("{id}", &["0", "1", "2", "3", "4", "5", "6", "7", "99", "01"]),
            ("{key}", &["s", "k", "l", "new"]),
            ("{name}", &["a", "b"]),
            ("{claim}", &[claim, "1.1.YQ"]),
            (
                "{end}",
                &["ack", "release", "fail", "bury", "snooze", "renew", "checkpoint", "progress"],
            ),
            (
                "{change}",
                &[
                    "kick", "delete", "move", "release", "revoke", "bury", "cancel", "resolve",
                    "forget", "log",
                ],
            ),
        ] {
            if call.target.contains(part) {
                let value = chosen(source, values)?;
                call.target = call.target.replace(part, &value);
            }
        }
        call.add_options(source)?;
        call.headers = match u8::arbitrary(source)? % 5 {
            0 => vec![],
            1 => vec!["Content-Type: text/plain"],
            2 => vec!["Content-Type: application/json", "Idempotency-Key: \"a\""],
            _ => vec!["Content-Type: application/json"],
        };
        call.content = match u8::arbitrary(source)? % 8 {
            0 => text(source)?,
            1 => Vec::new(),
            2 | 3 => (*source.choose(CONTENTS)?).as_bytes().to_vec(),
            4 => value(source, 0)?.to_string().into_bytes(),
            _ => object(source, 0)?.to_string().into_bytes(),
        };
        Ok(call)
    }

    fn add_options(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        for number in 0..u8::arbitrary(source)? % 4 {
            let name = *source.choose(OPTIONS)?;
            let value = match name {
                "wait" => (*source.choose(WAITS)?).to_owned(),
                _ => chosen(source, VALUES)?,
            };
            let separator = if number == 0 { '?' } else { '&' };
            let _infallible = write!(self.target, "{separator}{name}={value}");
        }
        Ok(())
    }

    pub(super) fn method(&self) -> &str {
        self.name.split(' ').next().unwrap()
    }

    pub(super) fn bytes(&self, host: &str) -> Vec<u8> {
        let Call { target, headers, content, .. } = self;
        let headers = [&headers[..], &[""]].concat().join("\r\n");
        let head = format!(
            "{} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n{headers}\r\n",
            self.method(),
            content.len()
        );
        [head.as_bytes(), content].concat()
    }
}

/// One of these, or any text, with the escapes of a path.
fn chosen(source: &mut Unstructured<'_>, values: &[&str]) -> Result<String> {
    if !source.ratio(1, 8)? {
        return Ok((*source.choose(values)?).to_owned());
    }
    let mut escaped = String::new();
    for byte in text(source)? {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' => escaped.push(char::from(byte)),
            byte => drop(write!(escaped, "%{byte:02x}")),
        }
    }
    Ok(escaped)
}

/// Up to 255 bytes.
pub(super) fn text(source: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = usize::from(u8::arbitrary(source)?).min(source.len());
    Ok(source.bytes(length)?.to_vec())
}

fn object(source: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    let mut fields = Map::new();
    for _ in 0..u8::arbitrary(source)? % 4 {
        fields.insert((*source.choose(FIELDS)?).to_owned(), value(source, depth + 1)?);
    }
    // Most calls of a put have it.
    if depth == 0 && bool::arbitrary(source)? {
        fields.insert("data".to_owned(), "x".into());
    }
    Ok(fields.into())
}

fn value(source: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    Ok(match u8::arbitrary(source)? % if depth < 3 { 8 } else { 6 } {
        0 => Value::Null,
        1 => bool::arbitrary(source)?.into(),
        2 => i64::arbitrary(source)?.into(),
        3 => f64::arbitrary(source)?.into(),
        4 => u8::arbitrary(source)?.into(),
        5 => (*source.choose(TEXTS)?).into(),
        6 => {
            let count = u8::arbitrary(source)? % 4;
            let items = (0..count).map(|_| value(source, depth + 1));
            Value::Array(items.collect::<Result<_>>()?)
        }
        _ => object(source, depth + 1)?,
    })
}
