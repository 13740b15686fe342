//! Verification of the tags: each of their rows is one that its task yields, and the count of each tag
//! is the number of its rows.

use crate::failure_groups::decode_count;
use crate::keys;
use crate::tables::{Reads, Table, Value};
use crate::verify_index::yields;
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
        let is_yielded = match self.position(&tube, id)? {
            None => false,
            Some(position) => self.row_at(&tube, &position)?.is_some_and(|record| {
                yields(&tube, &position, record, (Table::Index, key, value)) == Ok(true)
            }),
        };
        if !is_yielded {
            self.report_stray(&tube, Table::Index, id);
        }
        Ok(())
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
        let stored = row.as_deref().map(decode_count);
        if stored != Some(Some(count)) {
            self.found.push(match stored {
                Some(Some(stored)) => {
                    format!("tag {tag:?} has the count {stored} and {count} tasks")
                }
                Some(None) => format!("the count of tag {tag:?} cannot be read"),
                None => format!("tag {tag:?} has no count"),
            });
        }
        Ok(())
    }
}
