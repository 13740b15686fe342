//! The runs of schedules, put by the sweeper.

use std::sync::Arc;

use tubewell_drivers::{Body, Found, Header, NEVER, Recur, Shelf};

use super::moments::{DueRun, set_due};
use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::state::{Core, PutRequest};
use crate::core::verbs::{KeyLookUp, key_of};
use crate::{Error, EventKind, Result, TaskState};

/// How long a run waits that could not be put, in microseconds.
const RETRY: u64 = 1_000_000;

/// A run that can be put: its request and its header.
type Run = (PutRequest, Header);

impl Core {
    /// Puts the next run of a schedule that is due, or leaves it out, and moves the schedule to its next
    /// moment.
    pub(in crate::core) fn run_schedule(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<()> {
        // A schedule that says nothing is reported by `verify`, and one that stands still goes on
        // when it is looked at again.
        let Some(recur) = found.record.header.recur() else { return Ok(()) };
        if self.stopped(number, recur).is_some() {
            return Ok(());
        }
        if let Some(left) = self.ids.restore_time_left(self.now.running) {
            let due = self.time_of(&recur.rule).saturating_add(left);
            return self.move_on(number, id, found, recur.clone(), due);
        }
        let DueRun { run: moment, next } = match self.due_run(recur) {
            Err(Error::Invalid { .. }) => return Ok(()),
            due_run => due_run?,
        };
        let mut recur = recur.clone();
        recur.covered = recur.covered.filter(|covered| *covered >= next);
        let Some(moment) = moment else {
            recur.next = next;
            return self.move_on(number, id, found, recur, next);
        };
        if recur.skips_overlap && self.is_last_run_open(number, id, found, &recur)? {
            (recur.next, recur.fired, recur.skipped) =
                (next, Some(moment), recur.skipped.saturating_add(1));
            return self.move_on(number, id, found, recur, next);
        }
        let has_waited = recur.fired == Some(moment);
        match self.prepare_run(number, id, found, &recur, moment)? {
            Ok(run) => {
                (recur.next, recur.fired, recur.runs) =
                    (next, Some(moment), recur.runs.saturating_add(1));
                self.put_run(number, id, found, recur, run)
            }
            Err(Error::Full { .. } | Error::DiskFull { .. }) if !has_waited => {
                let retry = self.time_of(&recur.rule).saturating_add(RETRY);
                (recur.next, recur.fired) = (moment, Some(moment));
                self.move_on(number, id, found, recur, retry)
            }
            Err(_) => {
                (recur.next, recur.fired, recur.skipped) =
                    (next, Some(moment), recur.skipped.saturating_add(1));
                self.move_on(number, id, found, recur, next)
            }
        }
    }

    /// Whether the task of the last run is not over, in whichever tube it is.
    fn is_last_run_open(
        &mut self,
        number: TubeNo,
        id: u64,
        schedule: &Found,
        recur: &Recur,
    ) -> Result<bool> {
        let now = self.now.timeline;
        let last = self.last_run(number, schedule, recur)?;
        Ok(last.is_some_and(|found| {
            let header = &found.record.header;
            let spawned_by = header.more.as_ref().and_then(|more| more.spawned_by);
            spawned_by.is_some_and(|(schedule, ..)| schedule == id)
                && !matches!(found.shelf, Shelf::Buried | Shelf::Done)
                && !header.is_expired(found.shelf, now)
        }))
    }

    /// The task of the last run. One that is not in the tube of its schedule is found by its key. One
    /// without a key is looked for in the tubes that may have it: if this run of the store has put it,
    /// only those with tasks that have moved. The last run of a restored schedule is known by its key
    /// only.
    fn last_run(
        &mut self,
        number: TubeNo,
        schedule: &Found,
        recur: &Recur,
    ) -> Result<Option<Found>> {
        if let Some(last) = recur.last
            && let Some(found) = self.run_in(number, last)?
        {
            return Ok(Some(found));
        }
        let key = key_of(&schedule.record.header).map(|key| key_of_run(key, recur.runs));
        let by_key = match key.map(|key| self.look_up_key(&key)) {
            Some(Ok(KeyLookUp::Task(keyed))) => Some(keyed),
            None | Some(Ok(KeyLookUp::Free(_)) | Err(Error::Corrupt { .. })) => None,
            Some(Err(error)) => return Err(error),
        };
        if let Some(last) = recur.last
            && by_key.as_ref().is_none_or(|keyed| keyed.id != last)
        {
            let is_of_this_run = self.ids.is_of_this_run(last);
            for other in self.other_tubes(number, is_of_this_run) {
                if let Some(found) = self.run_in(other, last)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(by_key.map(|keyed| keyed.found))
    }

    /// A task of a tube. One that is damaged cannot be taken, and counts as none.
    fn run_in(&mut self, number: TubeNo, id: u64) -> Result<Option<Found>> {
        match self.edit(number, |ledger| ledger.find(id)) {
            Err(Error::Corrupt { .. }) => Ok(None),
            found => found,
        }
    }

    /// Checks the next run. Edits nothing but the row of a key that is left over. The inner error is the
    /// refusal of its task.
    fn prepare_run(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        recur: &Recur,
        moment: u64,
    ) -> Result<Result<Run>> {
        let header = &found.record.header;
        let body = Body::new(self.edit(number, |ledger| ledger.body(id, found))?);
        let mut request = request_of_run(header, recur, body);
        let run = recur.runs.saturating_add(1);
        if let Some(key) = key_of(header) {
            let key: Arc<str> = key_of_run(key, run).into();
            match self.live_key(&key) {
                Ok(KeyLookUp::Free(left_over)) => {
                    self.clear_key(number, &key, left_over);
                    request.key = Some(key);
                }
                Ok(KeyLookUp::Task(_)) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let checked = self.check_no_waiting_put(number);
        let checked = checked.and_then(|()| self.new_header(number, &request, Some(0)));
        let checked = checked.and_then(|header| {
            self.check_disk_space(number, request.bytes(), 1)?;
            Ok(header)
        });
        Ok(match checked {
            Ok(mut header) => {
                header.edit_more(|more| more.spawned_by = Some((id, run, moment)));
                Ok((request, header))
            }
            Err(
                refused @ (Error::Full { .. }
                | Error::DiskFull { .. }
                | Error::Invalid { .. }
                | Error::Unsupported { .. }),
            ) => Err(refused),
            Err(error) => return Err(error),
        })
    }

    /// Puts a run, and moves its schedule on: all or nothing.
    fn put_run(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        mut recur: Recur,
        (request, header): Run,
    ) -> Result<()> {
        let run = self.ids.next();
        let next = recur.next;
        let ends = recur.times.is_some_and(|times| recur.runs >= times) || next == NEVER;
        recur.last = Some(run);
        let visibility = self.put_visibility(number, run.saturating_add(1));
        let change = self.atomically(number, |core| {
            let change =
                core.insert_task_as((number, run), EventKind::Spawn, &request, header, None)?;
            core.write_schedule(number, id, found, recur, (!ends).then_some(next))?;
            Ok(change)
        })?;
        self.note_id(run, false);
        self.publish_together(|core| {
            core.make_put_visible(change, visibility);
            if ends {
                core.end_schedule(number, id, found, visibility);
            }
        });
        if visibility == Visibility::Flushed {
            // No caller waits for the run: the writer thread leads its commit.
            let buffer = self.buffer_of(number);
            self.buffers[buffer].has_waiters = true;
            self.effects.call_writer = true;
        }
        Ok(())
    }

    /// Moves a schedule to another time without a run. A crash may forget it, and then it is done
    /// again. A schedule without a further moment ends.
    fn move_on(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        recur: Recur,
        due: u64,
    ) -> Result<()> {
        let ends = recur.next == NEVER;
        self.write_schedule(number, id, found, recur, (!ends).then_some(due))?;
        if ends {
            self.end_schedule(number, id, found, self.sweep_visibility(number));
        }
        Ok(())
    }

    /// Writes when a schedule is due, or removes it if it has no further moment.
    pub(super) fn write_schedule(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        recur: Recur,
        due: Option<u64>,
    ) -> Result<()> {
        let old = &found.record.header;
        let Some(due) = due else {
            return self.edit(number, |ledger| ledger.remove(id, found.shelf, old));
        };
        let mut header = old.clone();
        self.note_aligned(number, &recur.rule);
        set_due(&mut header, recur, due);
        self.edit(number, |ledger| {
            ledger.rewrite(id, found, &header);
            Ok(())
        })?;
        // Its row may be the one that was just read: a run has waited until the next one is due, or
        // the clock was set back.
        let shelf = Shelf::Recurring;
        let (due, moment) = (header.due(shelf), header.moment(shelf));
        let buffer = self.buffer_of(number);
        self.buffers[buffer].include_dues(due.unwrap_or(NEVER), moment.unwrap_or(NEVER));
        Ok(())
    }

    /// Makes the end of a schedule visible whose rows are removed.
    fn end_schedule(&mut self, number: TubeNo, id: u64, found: &Found, visibility: Visibility) {
        self.note_freed(number, &found.record.header);
        self.note_header(id, &found.record.header);
        let (kind, from) = (EventKind::Forget, Some(TaskState::Recurring));
        let change = self.change(number, id, kind, from, TaskState::Done, None);
        self.make_visible(change, visibility);
    }
}

/// The put of a run with this body, without its key.
pub(super) fn request_of_run(header: &Header, recur: &Recur, body: Body) -> PutRequest {
    PutRequest {
        priority: recur.priority,
        ttl: recur.ttl,
        ttr: recur.ttr,
        delay: recur.delay,
        tags: recur.tags.clone(),
        ..PutRequest::like(header, body)
    }
}

/// The key of a run.
fn key_of_run(key: &str, run: u64) -> String {
    format!("{key}-{run}")
}
