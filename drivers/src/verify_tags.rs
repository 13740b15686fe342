//! Verification of the tags: each of their rows is one that its task yields, and the count of each tag
//! is the number of its rows.

use crate::keys;
use crate::tables::{Reads, Table, Value};
use crate::verify_groups::count_finding;
use crate::verify_rows::{MAX_FINDINGS, RowVerifier};

impl<R: Reads> RowVerifier<'_, R> {
    /// The row of a task with a tag.
    pub(crate) fn tagged(&mut self, key: &[u8], value: &Value) -> Result<(), R::Error> {
        let (Ok((tag, id)), Ok(space)) = (keys::split_tagged(key), keys::tagged_space(value))
        else {
            self.found.push("the row of a tag cannot be read".into());
            return Ok(());
        };
        self.count_tag(tag)?;
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        let position = self.position(&tube, id)?;
        self.expect_yielded(&tube, (id, position), (Table::Index, key, value))
    }

    /// The row of the count of a tag. If the tag has a task, the count is compared when the rows of
    /// the tag have been read.
    pub(crate) fn tag_count(&mut self, tag: &str) -> Result<(), R::Error> {
        let prefix = keys::tag_prefix(tag);
        let first = self.rows.scan(Table::Index, &prefix, &keys::end_of(&prefix), 1)?;
        if first.is_empty() {
            self.found.push(format!("tag {tag:?} has a count and no task"));
        }
        Ok(())
    }

    fn count_tag(&mut self, tag: &str) -> Result<(), R::Error> {
        match &mut self.tag {
            Some((name, count)) if name == tag => *count += 1,
            _ => {
                self.end_of_tag()?;
                self.tag = Some((tag.to_owned(), 1));
            }
        }
        Ok(())
    }

    /// All rows of a tag have been read: compares their number with the count.
    pub(crate) fn end_of_tag(&mut self) -> Result<(), R::Error> {
        let Some((tag, count)) = self.tag.take() else { return Ok(()) };
        if self.found.len() >= MAX_FINDINGS {
            // The rows have not been read to the end.
            return Ok(());
        }
        let row = self.rows.get(Table::Index, &keys::tag_count(&tag))?;
        self.found.extend(count_finding(format_args!("tag {tag:?}"), row.as_deref(), count));
        Ok(())
    }
}
