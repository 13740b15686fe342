//! The lines of an export.

use tubewell::expert::SpawnedBy;
use tubewell::{Error, OnKey, Store, Tube, TubeOptions};

use super::batches::{Import, Target, Task};
use super::exported::{self, Exported, ExportedTask};
use super::exported_schedule::ExportedSchedule;
use super::exported_tube::ExportedTube;
use super::ids::Place;
use super::stop::Refusal;
use crate::failure::Failure;
use crate::store;

impl Import<'_> {
    /// The task of a line of an export; `None` if it has none, or one that is stored last.
    pub(super) fn parse_exported(
        &mut self,
        line: u64,
        text: &[u8],
    ) -> Result<Option<Task>, Refusal> {
        match exported::exported(text).map_err(Refusal::Line)? {
            None => Ok(None),
            Some(Exported::Limit { name, most }) => {
                let set = self.store.admin().set_limit(&name, most);
                set.map_err(|error| Refusal::Line(Failure::from(error).message))?;
                Ok(None)
            }
            Some(Exported::Tube(tube)) => {
                self.store_batch().map_err(Refusal::Store)?;
                let tube = self.create_tube(tube);
                let tube = tube.map_err(|error| Refusal::Line(Failure::from(error).message))?;
                self.tubes += 1;
                self.target = Some(self.target_of(tube));
                Ok(None)
            }
            Some(Exported::Schedule(schedule)) => self.exported_schedule(line, *schedule),
            Some(Exported::Task { tube, task }) => self.exported_task((line, text), &tube, task),
        }
    }

    fn create_tube(&self, tube: ExportedTube) -> tubewell::Result<Tube> {
        let ExportedTube { name, driver, options, pause, paused_sub_queues } = tube;
        let tube = self.open_or_create(&name, options.driver(&driver))?;
        pause.map_or(Ok(()), |time| tube.admin().pause_for(time))?;
        for (name, time) in &paused_sub_queues {
            tube.admin().pause_sub_queue(name, *time)?;
        }
        Ok(tube)
    }

    /// A tube that exists is not altered: it must be the one that was exported.
    fn open_or_create(&self, name: &str, options: TubeOptions) -> tubewell::Result<Tube> {
        match self.store.create_tube(name, options.clone()) {
            Err(Error::TubeExists { .. }) => {}
            created => return created,
        }
        let tube = self.store.find_tube(name)?;
        let wanted = Store::in_memory()?.create_tube(name, options)?.info()?;
        let differs = |what| Err(Error::TubeDiffers { name: name.into(), what });
        let existing = tube.info()?;
        if existing.driver != wanted.driver {
            let (is, not) = (existing.driver, wanted.driver);
            return differs(format!("its driver is {is}, not {not}"));
        }
        let values = existing.option_values().into_iter().zip(wanted.option_values());
        for ((option, is), (_, not)) in values {
            if is != not {
                return differs(format!("its {option} is {is}, not {not}"));
            }
        }
        Ok(tube)
    }

    fn exported_task(
        &mut self,
        (line, text): (u64, &[u8]),
        tube: &str,
        mut task: ExportedTask,
    ) -> Result<Option<Task>, Refusal> {
        self.direct_to(tube)?;
        task.spawned_by = task.spawned_by.and_then(|run| self.own_run(run));
        let Some(target) = &self.target else { return Ok(None) };
        let driver = target.driver.clone();
        if task.is_done() && !target.keeps_done {
            self.left_out += 1;
            if let Some(id) = task.id {
                self.ids.add(id, Place::Done);
            }
            return Ok(None);
        }
        // Where the tasks are that its steps have put is known at the end.
        if task.waits() || (task.has_spawned() && task.id.is_some()) {
            let waits = self.wait_for_parents((line, text), &task);
            return waits.map(|()| None).map_err(Refusal::Store);
        }
        let (old, new) = (task.id, self.new_id(task.id));
        let is_expired = task.is_expired(&driver);
        if let Some(old) = old.filter(|_| is_expired) {
            self.ids.add(old, Place::Expired);
        }
        let id = old.filter(|_| !is_expired);
        Ok(Some(Task { line, id, restore: task.restore(&driver, new, self.on_key()) }))
    }

    /// Stores a schedule.
    fn exported_schedule(
        &mut self,
        line: u64,
        schedule: ExportedSchedule,
    ) -> Result<Option<Task>, Refusal> {
        self.direct_to(&schedule.tube)?;
        // The ids of the tasks before it come first.
        self.store_batch().map_err(Refusal::Store)?;
        let Some(target) = &self.target else { return Ok(None) };
        let (number, driver) = (target.number, target.driver.clone());
        let new = self.new_id(schedule.id);
        let Some(tube) = self.target.as_ref().map(|target| target.tube.clone()) else {
            return Ok(None);
        };
        let (old, on_key) = (schedule.id, self.on_key());
        let key = schedule.key.clone();
        let (schedule, task) = schedule.restore(&driver, new);
        let stored = match tube.schedule(schedule, task).wait() {
            Err(Error::KeyInUse { id, .. }) if on_key == OnKey::Keep => Ok(id),
            stored => stored.map(|receipt| receipt.id),
        };
        let id = stored.map_err(|error| {
            Refusal::Line(format!("schedule {key:?}: {}", Failure::from(error).message))
        })?;
        if let Some(old) = old {
            self.ids.add(old, Place::Stored { tube: number, id });
        }
        (self.stored, self.last) = (self.stored + 1, line);
        Ok(None)
    }

    /// The run of a schedule, with the id that the schedule has in this store; `None` if it is not
    /// known.
    fn own_run(&self, run: SpawnedBy) -> Option<SpawnedBy> {
        match self.ids.get(run.schedule) {
            Some(Place::Stored { id, .. }) => Some(SpawnedBy::new(id, run.run, run.moment)),
            _ => Some(run).filter(|_| self.keeps_ids),
        }
    }

    /// The tasks that follow go to this tube.
    pub(super) fn direct_to(&mut self, name: &str) -> Result<(), Refusal> {
        if self.target.as_ref().is_some_and(|target| target.name == name) {
            return Ok(());
        }
        self.store_batch().map_err(Refusal::Store)?;
        // An import that goes on in the middle of a tube does not read its line again.
        let found = store::tube(self.store, name);
        let found = found.map_err(|failure| Refusal::Line(failure.message))?;
        self.target = Some(self.target_of(found));
        Ok(())
    }

    pub(super) fn target_of(&mut self, tube: Tube) -> Target {
        let next = u32::try_from(self.tubes_by_number.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(tube.name().to_owned()).or_insert(next);
        let target = Target {
            name: tube.name().to_owned(),
            driver: tube.driver().to_owned(),
            keeps_done: tube.info().is_ok_and(|info| info.keep_done.is_some()),
            tube: tube.to_async(),
            number,
        };
        if number == next {
            self.tubes_by_number.push(tube);
        }
        target
    }

    /// The id of the next task that the export has with this one.
    pub(super) fn new_id(&mut self, old: Option<u64>) -> Option<u64> {
        if self.keeps_ids {
            return old;
        }
        let id = self.next_id?;
        self.next_id = Some(id + 1);
        Some(id)
    }
}
