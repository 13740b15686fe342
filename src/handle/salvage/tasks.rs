//! The tasks of a tube, with what belongs to them.

use tubewell_drivers::keys::{self, NoteRow};
use tubewell_drivers::{
    Header, NEVER, Note, Record, RecurRule, StepNumbers, Table, check_body, check_note, check_step,
};

use super::{Salvage, Salvaged};
use crate::base::moment::system_time;
use crate::core::{Clocks, decode_entry, decode_failure, decode_step, describe, describe_schedule};
use crate::values::ending::LastFailure;
use crate::values::history::HistoryEntry;
use crate::values::step::Step;
use crate::values::task::Task;
use crate::{Bytes, Error, OnParent, Result, TaskState};

/// A task's id, and the key of its row.
type TaskKey = (u64, Box<[u8]>);

impl Salvage<'_> {
    /// Reports the tasks of a tube.
    pub(super) fn tasks(&mut self, tube: &str, space: u32, found: Vec<Vec<u8>>) -> Result<()> {
        let mut tasks: Vec<TaskKey> = Vec::with_capacity(found.len());
        for key in found {
            match keys::order_and_id(&key) {
                Ok((_, id)) => tasks.push((id, key.into())),
                Err(_) => {
                    self.report_lost(format!("a task of tube {tube:?} (its key is damaged)"))?;
                }
            }
        }
        tasks.sort_unstable();
        for (id, key) in tasks {
            match self.task((tube, space), id, &key) {
                Ok((task, header)) if task.info.state == TaskState::Recurring => {
                    self.report_schedule(tube, task, &header)?;
                }
                Ok((task, header)) => self.report_task(tube, space, task, &header)?,
                Err(error) => self.report_lost(format!("in tube {tube:?}: {error}"))?,
            }
        }
        Ok(())
    }

    /// Reports a task with its notes and its parents, and those of them that are lost.
    fn report_task(
        &mut self,
        name: &str,
        space: u32,
        mut task: Task,
        header: &Header,
    ) -> Result<()> {
        let mut lost = Vec::new();
        let id = task.info.id;
        let failure = self.failure(space, id, header);
        task.info.failure = failure.unwrap_or_else(|why| {
            lost.push(why);
            None
        });
        let result = self.note(space, id, header, Note::Result).unwrap_or_else(|why| {
            lost.push(why);
            None
        });
        let (history, damaged) = self.history(space, id, header);
        if damaged > 0 {
            let what = format!("task {id}: {damaged} entries of its history cannot be read");
            lost.push(Error::corrupt(what));
        }
        let (steps, damaged) = self.steps(space, id, header);
        if damaged > 0 {
            lost.push(Error::corrupt(format!("task {id}: {damaged} of its steps cannot be read")));
            // As the task is reported.
            task.info.has_steps = !steps.is_empty();
        }
        let parents = self.parents(&mut task.info, header);
        match u64::from(task.info.open_parents).saturating_sub(parents.len() as u64) {
            0 => {}
            number => lost
                .push(Error::corrupt(format!("task {id}: {number} of its parents cannot be read"))),
        }
        let (tube, on_parent) = (name.to_owned(), OnParent::of(header));
        task.result = result;
        self.report(Salvaged::Task { tube, task, parents, on_parent, history, steps })?;
        lost.into_iter().try_for_each(|why| self.report_lost(format!("in tube {name:?}: {why}")))
    }

    fn report_schedule(&mut self, tube: &str, task: Task, header: &Header) -> Result<()> {
        let id = task.info.id;
        match describe_schedule(tube, id, header, self.clocks().left(header)) {
            Some(mut schedule) => {
                // An import reads moments of the wall clock. That of an interval is one of the timeline.
                let next = header.recur().filter(|it| matches!(it.rule, RecurRule::Every(_)));
                if let Some(next) = next.map(|it| it.next).filter(|next| *next != NEVER) {
                    schedule.next = system_time(self.clocks().shown(next));
                }
                let (tube, body) = (tube.to_owned(), task.body);
                self.report(Salvaged::Schedule { tube, schedule, body })
            }
            None => {
                self.report_lost(format!("in tube {tube:?}: what schedule {id} says of its runs"))
            }
        }
    }

    /// A task without its notes, and its header.
    fn task(&mut self, (tube, space): (&str, u32), id: u64, key: &[u8]) -> Result<(Task, Header)> {
        let missing = || Error::corrupt(format!("task {id}: its record cannot be read"));
        let (_, shelf) = keys::space_and_shelf(key)?;
        let record = Record::decode(id, self.reader.get(Table::Tasks, key).ok_or_else(missing)?)?;
        let row = match record.header.body_checksum {
            None => record.row().clone(),
            Some(_) => {
                let body = self.reader.get(Table::Bodies, &keys::by_id(space, id));
                let missing = || Error::corrupt(format!("task {id}: its body cannot be read"));
                let body = body.ok_or_else(missing)?;
                check_body(id, &record.header, &body)?;
                body
            }
        };
        let info = describe(tube, id, TaskState::on_shelf(shelf), &record.header, self.clocks());
        let body = Bytes::tail(row, record.header.size);
        Ok((Task::of(info, body), record.header))
    }

    /// The last failure of a task, if it has one.
    fn failure(&mut self, space: u32, id: u64, header: &Header) -> Result<Option<LastFailure>> {
        let note = self.note(space, id, header, Note::Failure)?;
        note.map(|note| decode_failure(id, note, self.now)).transpose()
    }

    /// The history of a task, and how many of its entries cannot be read.
    fn history(&mut self, space: u32, id: u64, header: &Header) -> (Vec<HistoryEntry>, usize) {
        let Some(stored) = header.history() else { return (Vec::new(), 0) };
        let rows: Vec<_> = stored
            .numbers()
            .map(|number| {
                let key = keys::history_entry(space, id, number);
                (number, self.reader.get(Table::Notes, &key))
            })
            .collect();
        let clocks = self.clocks();
        let entries = rows
            .iter()
            .filter_map(|(number, row)| decode_entry(id, *number, row.as_ref()?, clocks).ok());
        let entries: Vec<HistoryEntry> = entries.collect();
        let damaged = rows.len() - entries.len();
        (entries, damaged)
    }

    /// The steps of a task that can be read, and how many cannot, as far as the others say.
    fn steps(&mut self, space: u32, id: u64, header: &Header) -> (Vec<Step>, usize) {
        if !header.has_steps() {
            return (Vec::new(), 0);
        }
        let Clocks { now, wall } = self.clocks();
        let wall = wall.at(now);
        let found = self.reader.keys_of_task(Table::Notes, &keys::steps(space, id));
        let mut steps = Vec::with_capacity(found.len());
        let mut numbers = StepNumbers::default();
        for key in found {
            let Ok((_, _, NoteRow::Step(name))) = keys::split_note(&key) else { continue };
            let row = self.reader.get(Table::Notes, &key);
            numbers.add(check_step(id, name, row.as_ref()).ok().map(|step| step.number));
            let step = row.and_then(|row| decode_step(id, name.to_owned(), &row, now, wall).ok());
            steps.extend(step);
        }
        let damaged = numbers.expected().saturating_sub(steps.len());
        (steps, damaged)
    }

    /// A note of a task, if it has one of this kind.
    fn note(
        &mut self,
        space: u32,
        id: u64,
        header: &Header,
        kind: Note,
    ) -> Result<Option<Vec<u8>>> {
        if !kind.is_in(header) {
            return Ok(None);
        }
        let row = self.reader.get(Table::Notes, &keys::note(space, id, kind));
        Ok(Some(check_note(id, kind, row.as_ref())?.to_vec()))
    }
}
