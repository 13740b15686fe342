//! Verification of the failure groups: each of their rows is one that a task yields, and the count of
//! each group is the number of its rows.

use std::fmt::Display;

use crate::failure_groups::decode_count;
use crate::keys;
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::{GroupRows, MAX_FINDINGS, RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// A row of `index`.
    pub(crate) fn index(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        if let Ok((space, name, _, id)) = keys::split_group(key) {
            let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
            self.count_row(&tube, name)?;
            let position = self.position(&tube, id)?;
            self.expect_yielded(&tube, (id, position), (Table::Index, key, &value))
        } else if let Ok((space, name)) = keys::split_group_count(key) {
            let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
            // If it has a task, the count is compared when the rows of the tasks have been read.
            let prefix = keys::group_prefix(space, name);
            let first = self.rows.scan(Table::Index, &prefix, &keys::end_of(&prefix), 1)?;
            if first.is_empty() {
                self.report(tube.space, format_args!("failure group {name:?} has no task"));
            }
            Ok(())
        } else if let Ok((kind, id, other)) = keys::split_edge(key) {
            self.edge(kind, (id, other), &value)
        } else if let Ok((_, space, id)) = keys::split_moment(key) {
            self.timed(Table::Index, (space, id), key, &value)
        } else if key.first() == Some(&keys::TAG) {
            self.tagged(key, &value)
        } else if let Ok(tag) = keys::split_tag_count(key) {
            self.tag_count(tag)
        } else if key.first() == Some(&keys::TOKEN) {
            self.token(key, &value)
        } else if key.first() == Some(&keys::TOKEN_BY_TIME) {
            self.token_by_time(key)
        } else if keys::is_of_key(key) {
            self.key_of_task(key, &value)
        } else {
            self.found.push("a key of \"index\" cannot be read".into());
            Ok(())
        }
    }

    fn count_row(&mut self, tube: &TubeTotals, name: &str) -> Result<(), R::Error> {
        match &mut self.group {
            Some(group) if group.tube.space == tube.space && group.name == name => group.count += 1,
            _ => {
                self.end_of_group()?;
                self.group = Some(GroupRows { tube: tube.clone(), name: name.into(), count: 1 });
            }
        }
        Ok(())
    }

    /// All rows of a group have been read: compares their number with the count.
    pub(crate) fn end_of_group(&mut self) -> Result<(), R::Error> {
        let Some(GroupRows { tube, name, count }) = self.group.take() else { return Ok(()) };
        if self.found.len() >= MAX_FINDINGS {
            // The rows have not been read to the end.
            return Ok(());
        }
        let row = self.rows.get(Table::Index, &keys::group_count(tube.space, &name))?;
        let found = count_finding(format_args!("failure group {name:?}"), row.as_deref(), count);
        if let Some(finding) = found {
            self.report(tube.space, finding);
        }
        Ok(())
    }
}

/// Describes a count that is not the number of its rows.
pub(crate) fn count_finding(of: impl Display, stored: Option<&[u8]>, count: u64) -> Option<String> {
    match stored.map(decode_count) {
        Some(Some(stored)) if stored == count => None,
        Some(Some(stored)) => Some(format!("{of} has the count {stored} and {count} tasks")),
        Some(None) => Some(format!("the count of {of} cannot be read")),
        None => Some(format!("{of} has no count")),
    }
}
