//! Answers of the server.

use std::io::BufRead;

use serde_json::Value;

use super::grammar::Call;

pub(super) struct Answer {
    pub(super) status: u16,
    kind: String,
    content: Vec<u8>,
    /// Whether the server closes the connection behind it.
    pub(super) closes: bool,
}

impl Answer {
    /// The next answer; `None` if the connection has ended.
    pub(super) fn read(stream: &mut impl BufRead, has_head_only: bool) -> Option<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_ascii_lowercase()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let value = |name: &str| {
            let values = lines.iter().filter_map(|line| line.strip_prefix(name));
            values.map(|value| value.trim_start_matches(':').trim().to_owned()).next()
        };
        let content = match value("content-length") {
            _ if has_head_only => Vec::new(),
            Some(length) => {
                let mut content = vec![0; length.parse().unwrap()];
                stream.read_exact(&mut content).unwrap();
                content
            }
            None if value("transfer-encoding").is_some() => chunks(stream),
            None => Vec::new(),
        };
        let kind = value("content-type").unwrap_or_default();
        let closes = value("connection").is_some_and(|value| value == "close");
        Some(Answer { status, kind, content, closes })
    }

    pub(super) fn is_done(&self) -> bool {
        self.status < 400
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.content).unwrap()
    }

    /// The claim on the first task of a take.
    pub(super) fn claim(&self) -> Option<String> {
        let content: Value = serde_json::from_slice(&self.content).ok()?;
        content["tasks"][0]["claim"].as_str().map(str::to_owned)
    }

    /// Is no failure of the server, says why a call was refused, and is JSON otherwise.
    pub(super) fn check(&self, call: &Call) {
        let shown = String::from_utf8_lossy(&self.content);
        assert!(self.status < 500 || self.status == 501, "{call:?}: {} {shown}", self.status);
        if call.method() == "HEAD" {
            return;
        }
        if !self.is_done() {
            assert_eq!(self.kind, "application/problem+json", "{call:?}: {} {shown}", self.status);
            let problem = self.json();
            assert_eq!(problem["status"], self.status, "{problem}");
            for field in ["kind", "detail", "title"] {
                assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
            }
        } else if self.kind == "application/json" {
            self.json();
        } else if !call.name.starts_with("GET /v1/store/") && !call.name.ends_with("/verify") {
            assert!(self.status == 204 || !call.name.contains("/v1"), "{call:?}: {}", self.kind);
        }
    }
}

/// A content that comes in chunks.
fn chunks(stream: &mut impl BufRead) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let mut length = String::new();
        stream.read_line(&mut length).unwrap();
        let length = usize::from_str_radix(length.trim_end(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).unwrap();
        if length == 0 {
            return content;
        }
        content.extend_from_slice(&chunk[..length]);
    }
}

/// The statuses of the answers in these bytes, up to the first that cannot be read.
pub(super) fn statuses(mut bytes: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    // An answer to HEAD ends it: its content is missing.
    while bytes.starts_with(b"HTTP/1.") {
        let status = String::from_utf8_lossy(&bytes[..bytes.len().min(12)]).into_owned();
        statuses.extend(status.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()));
        let Some(head) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { break };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let end = (head + 4).saturating_add(length.unwrap_or(0_usize));
        bytes = bytes.get(end..).unwrap_or_default();
    }
    statuses
}
