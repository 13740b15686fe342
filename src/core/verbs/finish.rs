//! Finish: the end of a task, and everything that follows from it, with one commit.
//!
//! A task ends with a result or goes on in another tube (advance), and any number of tasks are put.
//! All checks come before the first edit.

use std::collections::BTreeMap;

use tubewell_drivers::{Header, Shelf};

use crate::commit::{Change, Keeping};
use crate::core::state::{ClaimKey, Core, Decided, FinishRequest, PutInto};
use crate::{Ending, Error, EventKind, Receipt, Result, State};

impl Core {
    /// Ends a task for its holder, or lets it go on in another tube, and puts tasks.
    pub(in crate::core) fn finish(
        &mut self,
        key: ClaimKey,
        finish: &FinishRequest,
    ) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        if finish.targets().next().is_none() {
            return self.ack(key, finish.result());
        }
        self.check_claim(key)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        let headers = self.headers_after(number, &header, finish)?;
        let bytes = finish.targets().map(|into| into.request.bytes()).sum();
        self.check_disk_space(number, bytes, headers.len())?;
        let mut numbers: Vec<u32> = finish.targets().map(|into| into.tube).collect();
        numbers.push(number);
        numbers.sort_unstable();
        numbers.dedup();
        let mut visibility = self.common_visibility(&numbers);
        if !finish.puts().is_empty() {
            let next_id = self.ids.next.saturating_add(finish.puts().len() as u64);
            visibility = self.visibility_with_ids(visibility, next_id);
        }
        let (end, tasks) = self.atomically_in(&numbers, |core| {
            let end = core.store_end_or_leave(number, id, &header, finish)?;
            Ok((end, core.insert_after(id, finish, headers)?))
        })?;
        self.remove_claim(id);
        for (task, into) in tasks.iter().zip(finish.targets()) {
            self.occupy(into.tube);
            if task.id != id {
                self.note_id(task.id, false);
            }
        }
        match finish.result() {
            Some(result) => self
                .note_ending_as(visibility, id, || Ending::Done { result: Some(result.to_vec()) }),
            None if finish.next().is_some() => self.note_freed(number, &header),
            None => {}
        }
        let is_kept = end.keeping == Keeping::Kept;
        let state = tasks.last().filter(|task| task.id == id).map_or(end.to, |task| task.to);
        self.publish_together(|core| {
            for change in [end].into_iter().chain(tasks) {
                core.make_visible(change, visibility);
            }
            if is_kept {
                core.trim(number, Shelf::Done, visibility);
            }
        });
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    /// Checks the tasks of a finish and returns their headers: those of the new ones, then that of
    /// the one that goes on. Edits nothing.
    fn headers_after(
        &self,
        number: u32,
        header: &Header,
        finish: &FinishRequest,
    ) -> Result<Vec<Header>> {
        // The first task that is put into the tube of the finished one takes its place.
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        let headers = finish.targets().map(|PutInto { tube: to, name, request }| {
            let tube = self.tube(*to, name)?;
            self.check_one_buffer(number, *to)?;
            let header = self.new_header(*to, request, None)?;
            let (before, freed) = (before.entry(*to).or_default(), u64::from(*to == number));
            if *before >= freed {
                let driver = tube.driver(|| self.known_drivers())?;
                tube.check_capacity(driver, *before - freed)?;
            }
            *before += 1;
            Ok(header)
        });
        let mut headers = headers.collect::<Result<Vec<Header>>>()?;
        if let (Some(_), Some(advanced)) = (finish.next(), headers.last_mut()) {
            advanced.created = header.created;
        }
        Ok(headers)
    }

    /// Stores the end of a task, or removes it from its tube if it goes on.
    fn store_end_or_leave(
        &mut self,
        number: u32,
        id: u64,
        header: &Header,
        finish: &FinishRequest,
    ) -> Result<Change> {
        let from = State::Taken;
        if finish.next().is_some() {
            self.edit(number, |ledger| ledger.remove(id, Shelf::Ready, header))?;
            return Ok(self.leave(number, id, EventKind::Advance, from, header.clone()));
        }
        let keeping = self.store_end(number, id, Shelf::Ready, header, finish.result())?;
        let (kind, to) = (EventKind::Ack, State::Done);
        let end = self.change(number, id, kind, Some(from), to, Some(header.clone()));
        Ok(Change { keeping, ..end })
    }

    /// Stores the new tasks, and the one that goes on.
    fn insert_after(
        &mut self,
        id: u64,
        finish: &FinishRequest,
        headers: Vec<Header>,
    ) -> Result<Vec<Change>> {
        let mut headers = headers.into_iter();
        let mut changes = Vec::with_capacity(headers.len());
        for (PutInto { tube, request, .. }, header) in finish.puts().iter().zip(&mut headers) {
            let new_id = self.ids.next.saturating_add(changes.len() as u64);
            changes.push(self.insert_task(*tube, new_id, request, header)?);
        }
        if let (Some(next), Some(header)) = (finish.next(), headers.next()) {
            let arrival = self.insert_task(next.tube, id, &next.request, header)?;
            changes.push(Change { kind: EventKind::Advance, ..arrival });
        }
        Ok(changes)
    }
}
