//! Salvage: reads all tasks that a damaged file still has.
//!
//! Invariant: the file is not written to, and everything that cannot be read is reported.

mod parents;
mod reader;
mod tasks;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tubewell_drivers::keys::{self, NoteRow};
use tubewell_drivers::{FIFOTTL, HISTORY_MAX, Reads, Row, Shelf, Table, UTUBETTL};

use crate::base::micros::micros_ceil;
use crate::core::{
    AHEAD, Clocks, Definition, ParentEnd, UNTRUSTED, WallClock, read_catalog, read_ended_parents,
    read_header, read_limits, timeline_of_reader,
};
use crate::options::Policies;
use crate::storage::Engine;
use crate::values::history::HistoryEntry;
use crate::values::limit::PausedSubQueue;
use crate::values::step::Step;
use crate::values::task::Task;
use crate::{Bytes, Error, Keep, Limit, OnParent, Result, ScheduleInfo, StoreOptions, TubeInfo};
use reader::Reader;

/// One item that [`StoreOptions::salvage`](crate::StoreOptions::salvage) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "most items are tasks, and a caller has one at a time"
)]
pub enum Salvaged {
    /// A tube. Its tasks follow, before the next tube.
    Tube(SalvagedTube),
    /// A complete task, as it was put. Tasks that were taken are ready, and those that are done are
    /// the ones that their tube [keeps](crate::TubeOptions::keep_done).
    Task {
        /// The name of its tube.
        tube: String,
        /// The task. `due_in` of a blocked one is what is left of its delay.
        task: Task,
        /// The tasks that it waits for, in the order of their ids: those of a blocked task, and those
        /// that a buried one will wait for when it is kicked. They may be in any tube, before or
        /// after this task. If their number is below `open_parents` of the task, the others are
        /// damaged, and reported as [`Lost`](Salvaged::Lost).
        parents: Vec<u64>,
        /// What happens to the task when a parent is buried or removed.
        on_parent: OnParent,
        /// Its history. Entries that are damaged are left out, and reported as [`Lost`](Salvaged::Lost).
        history: Vec<HistoryEntry>,
        /// Its stored [steps](crate::Claim::step), by name. Steps that are damaged are left out, and
        /// reported as [`Lost`](Salvaged::Lost): if the task is restored, they run again.
        steps: Vec<Step>,
    },
    /// A [schedule](crate::Tube::schedule), in its place among the tasks of its tube.
    Schedule {
        /// The name of its tube.
        tube: String,
        /// The schedule. `stopped` is left out.
        schedule: ScheduleInfo,
        /// The body of its runs.
        body: Bytes,
    },
    /// A [limit](crate::expert::StoreAdmin::set_limit) that tubes share. Limits are before the tubes.
    Limit(Limit),
    /// The wall clock is too far ahead of the store's last commit to be trusted, as at an
    /// [open](crate::StoreOptions::wall_clock_limit). The times of the tasks are computed as if no
    /// time had passed since that commit.
    UntrustedClock {
        /// How far the wall clock is ahead.
        ahead: Duration,
    },
    /// Damaged data that was skipped.
    Lost {
        /// A description, as far as it is known.
        what: String,
    },
}

/// The definition of a salvaged tube.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTube {
    /// Name, driver and options. A tube whose definition is damaged is named `recovered-` and the
    /// number of its space, and has no options but `keep_done`, if it has done tasks, and `history`, if
    /// a task has one. `usable` is true for tubewell's own drivers.
    pub info: TubeInfo,
    /// Whether its tasks have a priority, a ttl, a ttr and a delay.
    pub timed: bool,
    /// Its sub-queues that are [paused](crate::Admin::pause_sub_queue).
    pub paused_sub_queues: Vec<PausedSubQueue>,
}

impl StoreOptions {
    /// Reads which tubes a closed store has, by name. The file is not written to.
    ///
    /// No task is read, so the cost does not depend on how many there are. A file whose process was
    /// killed is recovered in memory first, which takes as long as an open.
    ///
    /// A tube is `usable` if its driver is one of tubewell's own. A tube whose definition is damaged
    /// is left out.
    ///
    /// # Errors
    /// As [`open`](StoreOptions::open), but [`InUse`](Error::InUse) without a wait: the call may
    /// complete a command line while a user types it. [`Io`](Error::Io) if there is no file.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("app.tubewell");
    /// let store = Store::open(&path)?;
    /// store.tube("mail")?;
    /// store.close()?;
    ///
    /// let tubes = Store::options().read_tubes(&path)?;
    /// assert_eq!(tubes[0].name, "mail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_tubes(self, path: impl AsRef<Path>) -> Result<Vec<TubeInfo>> {
        let engine = Engine::try_open_read_only(path.as_ref(), self.cache)?;
        read_tubes(&engine)
    }

    /// Reads everything that is readable in the file of a closed store, damaged or not, and calls
    /// `each` with it: each tube, followed by its tasks in the order of their ids.
    ///
    /// The file is not changed. Damaged data is skipped and reported as
    /// [`Lost`](Salvaged::Lost). The wall clock is checked as at an open. Salvage needs memory for
    /// the keys of the largest tube, some 60 bytes a task, and for the largest body.
    ///
    /// # Errors
    /// An error of `each` ends the salvage and is returned. [`Corrupt`](Error::Corrupt): the
    /// outermost structure of the file cannot be read. Otherwise those of
    /// [`open`](StoreOptions::open).
    ///
    /// # Example
    /// ```
    /// use tubewell::expert::Salvaged;
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("app.tubewell");
    /// # let store = Store::open(&path)?;
    /// # store.tube("mail")?.put("to: ann")?;
    /// # store.close()?;
    /// let mut bodies = Vec::new();
    /// Store::options().salvage(&path, |found| {
    ///     match found {
    ///         Salvaged::Task { task, .. } => bodies.push(task.body),
    ///         Salvaged::Lost { what } => eprintln!("lost: {what}"),
    ///         _ => {}
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(bodies, [b"to: ann"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn salvage(
        self,
        path: impl AsRef<Path>,
        mut each: impl FnMut(Salvaged) -> Result<()>,
    ) -> Result<()> {
        let engine = Engine::open_read_only(path.as_ref(), self.cache)?;
        let limit = if self.trust_wall { Duration::MAX } else { self.wall_limit };
        salvage(&engine, self.clock.wall(), micros_ceil(limit), &mut each)
    }
}

fn salvage(
    engine: &Engine,
    wall: u64,
    wall_limit: u64,
    each: &mut dyn FnMut(Salvaged) -> Result<()>,
) -> Result<()> {
    let mut salvage = Salvage {
        reader: Reader::new(engine)?,
        now: wall,
        wall: WallClock::new(wall_limit, move || wall),
        ended_parents: BTreeMap::new(),
        purges: Vec::new(),
        each,
    };
    salvage.all(wall_limit)
}

/// The tubes of a file, by name; a definition that is damaged is left out.
fn read_tubes(engine: &Engine) -> Result<Vec<TubeInfo>> {
    let mut rows = engine.snapshot()?;
    let now = read_header(&mut rows)?.map_or(0, |header| header.timeline);
    let meta = rows.scan(Table::Meta, &[], &[u8::MAX; 300], usize::MAX)?;
    let (mut tubes, ..) = read_catalog(&meta);
    tubes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tubes.iter().map(|tube| salvaged_tube(tube, now).info).collect())
}

struct Salvage<'a> {
    reader: Reader<'a>,
    /// The time on the store's timeline.
    now: u64,
    wall: WallClock,
    /// The parents whose children were not all told of their end.
    ended_parents: BTreeMap<u64, ParentEnd>,
    /// The spaces of dropped and truncated tubes.
    purges: Vec<u32>,
    each: &'a mut dyn FnMut(Salvaged) -> Result<()>,
}

impl Salvage<'_> {
    fn all(&mut self, wall_limit: u64) -> Result<()> {
        if let Some(damage) = self.reader.engine().journal_damage() {
            self.report_lost(format!("the newest commits ({damage})"))?;
        }
        match read_header(self.reader.rows()) {
            Ok(header) => self.set_now(header.map(|header| header.timeline), wall_limit)?,
            Err(error @ Error::NewerFormat { .. }) => return Err(error),
            Err(error) => self.report_lost(format!("the store's header ({error})"))?,
        }
        let meta = self.keys(Table::Meta, &[], &[u8::MAX; 300])?;
        let meta: Vec<Row> = meta
            .into_iter()
            .filter_map(|key| Some((key.clone(), self.reader.get(Table::Meta, &key)?)))
            .collect();
        let (mut tubes, purges, lost) = read_catalog(&meta);
        (self.ended_parents, self.purges) = (read_ended_parents(&meta), purges.clone());
        let (limits, mut pauses, lost_limits) = read_limits(&meta, self.now);
        lost.into_iter().chain(lost_limits).try_for_each(|what| self.report_lost(what))?;
        limits.into_iter().try_for_each(|limit| self.report(Salvaged::Limit(limit)))?;
        tubes.sort_by(|one, other| one.name.cmp(&other.name));
        let known: Vec<u32> = tubes.iter().map(|tube| tube.space).collect();
        for tube in &tubes {
            let of_tube = pauses.extract_if(.., |(name, _)| **name == *tube.name);
            let paused_sub_queues = of_tube.map(|(_, paused)| paused).collect();
            let salvaged = SalvagedTube { paused_sub_queues, ..salvaged_tube(tube, self.now) };
            self.report(Salvaged::Tube(salvaged))?;
            let prefix = keys::space_prefix(tube.space);
            let found = self.keys(Table::Tasks, &prefix, &keys::end_of(&prefix))?;
            self.tasks(&tube.name, tube.space, found)?;
        }
        self.tasks_without_tube(&known, &purges)?;
        match self.reader.engine().unreadable_pages() {
            0 => Ok(()),
            pages => {
                self.report_lost(format!("the rows of {pages} pages that the disk cannot read"))
            }
        }
    }

    fn clocks(&self) -> Clocks<'_> {
        Clocks { now: self.now, wall: &self.wall }
    }

    /// Sets the time as an open does, so that the ttl of a task that is alive in the store does not
    /// elapse here.
    fn set_now(&mut self, floor: Option<u64>, wall_limit: u64) -> Result<()> {
        let untrusted = self.reader.get(Table::Meta, UNTRUSTED);
        let ahead = self.reader.get(Table::Meta, AHEAD);
        let stored = (untrusted.as_deref(), ahead.as_deref());
        let (timeline, ahead) = timeline_of_reader(floor, self.now, stored, wall_limit);
        self.now = timeline;
        let Some(ahead) = ahead else { return Ok(()) };
        self.report(Salvaged::UntrustedClock { ahead: Duration::from_micros(ahead) })
    }

    /// Reports the tasks of spaces whose tube is not readable, each space as a tube of its own.
    fn tasks_without_tube(&mut self, known: &[u32], purges: &[u32]) -> Result<()> {
        let mut bounds: Vec<u32> = known.iter().chain(purges).copied().collect();
        bounds.sort_unstable();
        let mut from = Vec::new();
        for bound in bounds.iter().map(|space| Some(*space)).chain([None]) {
            let to = bound.map_or(vec![u8::MAX; 5], keys::space_prefix);
            // Empty in most stores.
            let mut spaces: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
            for key in self.keys(Table::Tasks, &from, &to)? {
                if let Some(space) = keys::space_of(&key) {
                    spaces.entry(space).or_default().push(key);
                }
            }
            for (space, found) in spaces {
                let mut tube = recovered_tube(space, &found);
                if self.has_history(space) {
                    tube.info.history = HISTORY_MAX;
                }
                let name = tube.info.name.clone();
                self.report(Salvaged::Tube(tube))?;
                self.tasks(&name, space, found)?;
            }
            from = keys::end_of(&to);
        }
        Ok(())
    }

    /// Whether a task of a space has a history, as far as that can be read.
    fn has_history(&mut self, space: u32) -> bool {
        let prefix = keys::space_prefix(space);
        let (notes, _) = self.reader.keys(Table::Notes, &prefix, &keys::end_of(&prefix));
        notes.iter().any(|key| matches!(keys::split_note(key), Ok((_, _, NoteRow::Entry(_)))))
    }

    /// The readable keys of a range. Reports the rows that are lost.
    fn keys(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (found, is_complete) = self.reader.keys(table, from, to);
        if !is_complete {
            let name = table.name();
            self.report_lost(format!("rows of {name:?} (a page of the file is damaged)"))?;
        }
        Ok(found)
    }

    fn report(&mut self, found: Salvaged) -> Result<()> {
        (self.each)(found)
    }

    fn report_lost(&mut self, what: String) -> Result<()> {
        self.report(Salvaged::Lost { what })
    }
}

fn salvaged_tube(tube: &Definition, now: u64) -> SalvagedTube {
    let stock = tubewell_drivers::Composed::ALL;
    let usable = stock.iter().any(|driver| tubewell_drivers::Driver::name(driver) == tube.driver);
    let info = tube.info(usable, now);
    SalvagedTube { info, timed: tube.timed, paused_sub_queues: Vec::new() }
}

/// A tube without a readable definition.
fn recovered_tube(space: u32, found: &[Vec<u8>]) -> SalvagedTube {
    // Space, shelf, order and id. Only keys of ready tasks in sub-queued tubes are longer.
    const KEY_LEN: usize = 21;
    let sub_queued = found.iter().any(|key| key.len() > KEY_LEN);
    let is_done = |key: &Vec<u8>| matches!(keys::space_and_shelf(key), Ok((_, Shelf::Done)));
    // Otherwise its done tasks could not be restored.
    let keep_done = found.iter().any(is_done).then(Keep::new);
    let driver = if sub_queued { UTUBETTL } else { FIFOTTL };
    let policies = Policies { keep_done, ..Policies::default() };
    SalvagedTube {
        info: policies.info(&format!("recovered-{space}"), driver, true),
        timed: true,
        paused_sub_queues: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salvage_reports_pages_that_the_disk_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue");
        crate::Store::open(&path).unwrap().close().unwrap();
        let engine = Engine::open_unreadable(&path).unwrap();
        let mut found = Vec::new();
        let each = &mut |item| {
            found.push(item);
            Ok(())
        };
        salvage(&engine, 0, 0, each).unwrap();
        assert!(
            matches!(found.as_slice(), [Salvaged::Lost { what }] if what.contains("cannot read")),
            "{found:?}"
        );
    }
}
