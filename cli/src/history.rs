//! The entries of a history as JSON, in both directions.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tubewell::{EventKind, HistoryEntry};

use crate::{args, moment};

/// An entry.
#[derive(Debug, Serialize)]
pub struct EntryRecord<'a> {
    number: u64,
    at: String,
    what: &'static str,
    state: &'static str,
    tube: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// An entry of an exported task.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryLine {
    number: u64,
    at: String,
    what: String,
    state: args::State,
    tube: String,
    owner: Option<String>,
    text: Option<String>,
}

impl EntryRecord<'_> {
    pub fn new(entry: &HistoryEntry) -> EntryRecord<'_> {
        EntryRecord {
            number: entry.number,
            at: moment::show(entry.at),
            what: entry.what.as_str(),
            state: entry.state.as_str(),
            tube: &entry.tube,
            owner: entry.owner.as_deref(),
            text: entry.text.as_deref(),
        }
    }
}

impl EntryLine {
    /// The entry of this line.
    pub fn entry(self) -> Result<HistoryEntry, String> {
        let at: SystemTime =
            moment::parse(&self.at).map_err(|why| format!("at of its history: {why}"))?;
        let what: EventKind =
            self.what.parse().map_err(|why| format!("what of its history: {why}"))?;
        let entry = HistoryEntry::new(self.number, at, self.tube, what, self.state.into());
        Ok(entry.owner(self.owner).text(self.text))
    }
}
