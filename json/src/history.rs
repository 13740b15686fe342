//! The entries of a history as JSON, in both directions.
#![expect(missing_docs, reason = "docs/command.md documents the fields")]

use std::borrow::Cow;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tubewell::expert::HistoryEntry;
use tubewell::{EventKind, TaskState};

use crate::moment;

/// An entry.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Entry))]
#[serde(deny_unknown_fields)]
pub struct EntryRecord<'a> {
    number: u64,
    at: String,
    what: Cow<'a, str>,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::TaskState))]
    state: TaskState,
    tube: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
}

impl EntryRecord<'_> {
    pub fn new(entry: &HistoryEntry) -> EntryRecord<'_> {
        EntryRecord {
            number: entry.number,
            at: moment::show(entry.at),
            what: entry.what.as_str().into(),
            state: entry.state,
            tube: entry.tube.as_str().into(),
            owner: entry.owner.as_deref().map(Cow::from),
            text: entry.text.as_deref().map(Cow::from),
        }
    }

    /// The entry of this line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn entry(self) -> Result<HistoryEntry, String> {
        let at: SystemTime =
            moment::parse(&self.at).map_err(|why| format!("at of its history: {why}"))?;
        let what: EventKind =
            self.what.parse().map_err(|why| format!("what of its history: {why}"))?;
        let entry = HistoryEntry::new(self.number, at, self.tube, what, self.state);
        Ok(entry.owner(self.owner.map(Cow::into_owned)).text(self.text.map(Cow::into_owned)))
    }
}
