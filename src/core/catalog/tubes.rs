//! The tubes and drivers of the catalog: create, find, truncate, drop, register.
//!
//! Changes of the catalog are always flushed. A space number is never used again.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tubewell_drivers::{Counts, Driver, FIFOTTL, HeadCache, TUBE_NAME_MAX, Table};

use super::rows::{count_key, encode, purge_key, tube_key};
use crate::base::tube_no::TubeNo;
use crate::commit::DueCursor;
use crate::core::state::limits::SubQueueLimits;
use crate::core::state::window::Window;
use crate::core::state::{
    Buffer, Core, DayState, Decided, Definition, EmptyUpTo, Gates, PutIds, TubeState, mark_of_purge,
};
use crate::core::verb::{Decide, TubeName, TubeRef, verb};
use crate::core::wire::wire_struct;
use crate::options::Policies;
use crate::storage::{CACHE, Engine};
use crate::values::statistics::{Statistics, TaskCounts};
use crate::{Error, Result, TubeOptions};

verb! {
    /// Creates a tube. `opens`: one that exists is opened instead, and gets the options that are named.
    7 InStore Edit: CreateTube { name: String, options: TubeOptions, opens: bool } -> TubeHead {
        fn may_repeat(&self) -> bool {
            self.opens
        }

        fn check_sendable(&self) -> Result<()> {
            if self.options.callback.is_none() {
                return Ok(());
            }
            Err(Error::OwnerOnly { what: "a callback".into() })
        }

        fn adds_tube(&self) -> Option<&str> {
            Some(&self.name)
        }
    }
}

impl Decide for CreateTube {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<TubeHead>> {
        core.create_tube(self)
    }
}

verb! {
    /// Drops a tube without taken tasks and waiters.
    9 InStore Edit: DropTube { name: Box<str> } -> ()
}

impl Decide for DropTube {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<()>> {
        core.drop_tube(&self.name)
    }
}

/// What the handle of a tube keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct TubeHead {
    pub(crate) number: TubeNo,
    pub(crate) name: Arc<str>,
    pub(crate) driver: Arc<str>,
    pub(crate) buffer: Buffer,
}

impl From<&TubeHead> for TubeName {
    fn from(head: &TubeHead) -> TubeName {
        TubeName { number: head.number, name: head.name.clone() }
    }
}

wire_struct! { TubeHead { number, name, driver, buffer } }

verb! {
    /// Removes all tasks of a tube, in any state. Their rows are purged later.
    40 InTube Edit: Truncate {} -> ()
}

impl Decide for Truncate {
    fn decide(&self, core: &mut Core, TubeRef { number, .. }: TubeRef<'_>) -> Result<Decided<()>> {
        let taken: Vec<u64> = match core.tubes.get(number) {
            Some(tube) => tube.taken.iter().map(|(_, id)| *id).collect(),
            None => return Err(Error::Closed),
        };
        let space = core.tubes.new_space()?;
        let days = core.take_days(number)?;
        let may_have_edges = core.may_have_edges(number);
        for id in taken {
            core.remove_claim(id);
            core.forget_origin(id);
        }
        let Some(tube) = core.tubes.get_mut(number) else { return Err(Error::Closed) };
        let (buffer, old) = (tube.buffer, std::mem::replace(&mut tube.definition.space, space));
        tube.counts = Counts::default();
        tube.occupied = 0;
        let done = tube.visible.tasks.done;
        tube.visible.tasks = TaskCounts { done, ..TaskCounts::default() };
        tube.window = Window::default();
        tube.head_cache.clear();
        let definition = tube.definition.clone();
        core.schedule_purge(buffer, old, may_have_edges);
        core.tubes.set_space(space, number);
        core.put_days_back(number, days);
        core.buffers[buffer].dirty_counts.insert(number);
        core.write_definition(&definition);
        core.end_watches_of(number);
        // Before the storage can fail, which ends this wait with an error.
        let changed = core.catalog_changed(number);
        let freed = core.remove_all_holders(number);
        core.shared_limits_freed(&freed);
        if let Err(error) = core.admit_waiting_puts(number) {
            // The tube is truncated even if a waiting put fails.
            core.fail_with(&error);
        }
        Ok(changed.map(|_| ()))
    }
}

impl Core {
    fn create_tube(&mut self, request: &CreateTube) -> Result<Decided<TubeHead>> {
        self.check_open()?;
        check_name("a tube", &request.name)?;
        if let Some(number) = self.tubes.named(&request.name) {
            return self.open_existing(request, number);
        }
        let name = request.options.driver.as_deref().unwrap_or(FIFOTTL);
        let driver = self.tubes.driver(name).cloned().ok_or_else(|| Error::DriverUnknown {
            name: name.into(),
            known: self.tubes.known_drivers(),
        })?;
        let definition = define(&request.name, name, &request.options, &*driver)?;
        if definition.policies.temporary && self.buffers[Buffer::Memory].engine().is_none() {
            let engine = Engine::open_memory(CACHE)?;
            self.buffers[Buffer::Memory].set_engine(Arc::new(engine));
        }
        let space = self.tubes.new_space()?;
        let (number, definition) = (TubeNo(space), Definition { space, ..definition });
        self.write_definition(&definition);
        let mut tube = self.tube_state(definition, Counts::default(), Some(driver));
        tube.callback.clone_from(&request.options.callback);
        self.tubes.add(number, tube);
        Ok(self.catalog_changed(number))
    }

    fn open_existing(&mut self, request: &CreateTube, number: TubeNo) -> Result<Decided<TubeHead>> {
        if !request.opens {
            return Err(Error::TubeExists { name: request.name.clone() });
        }
        let decided = self.alter_named(number, &request.options)?;
        // The existing callback stays until `on_task_change` replaces it.
        if let Some(tube) = self.tubes.get_mut(number)
            && tube.callback.is_none()
        {
            tube.callback.clone_from(&request.options.callback);
        }
        Ok(decided)
    }

    /// What a handle keeps of a tube that was found before.
    pub(crate) fn head_of(&self, number: TubeNo, name: &str) -> Result<TubeHead> {
        self.tube(number, name)?;
        Ok(self.head(number))
    }

    /// The rows are purged later.
    fn drop_tube(&mut self, name: &str) -> Result<Decided<()>> {
        let number = self.find_tube(name)?.number;
        let busy = |why: &str| Error::TubeBusy { name: name.into(), why: why.into() };
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        if !tube.taken.is_empty() {
            return Err(busy("it has taken tasks"));
        }
        if !tube.waiting_takes.is_empty() || !tube.waiting_puts.is_empty() {
            return Err(busy("a take or a put waits in it"));
        }
        self.end_ready_watches(number, || Err(Error::TubeDropped { name: name.into() }));
        let may_have_edges = self.may_have_edges(number);
        let freed = self.remove_all_holders(number);
        let Some(tube) = self.tubes.remove(number) else { return Err(Error::Closed) };
        self.remove_pauses(&tube);
        self.buffers[Buffer::File].edits.active.remove(Table::Meta, tube_key(name));
        self.effects.after_unlock.deeds().callbacks.extend(tube.callback);
        self.schedule_purge(tube.buffer, tube.definition.space, may_have_edges);
        self.end_watches_of(number);
        // Before the storage can fail, which ends this wait with an error.
        let changed = self.catalog_changed(number);
        self.shared_limits_freed(&freed);
        Ok(changed.map(|_| ()))
    }

    /// Registers a driver. Tubes that were created with it become usable.
    pub(crate) fn register_driver(&mut self, driver: Arc<dyn Driver>) -> Result<()> {
        let name = driver.name().to_owned();
        // The name is stored in the definitions of tubes, whose rows have a maximum size.
        check_name("a driver", &name)?;
        if self.tubes.driver(&name).is_some() {
            return Err(Error::DriverExists { name });
        }
        let traits = driver.traits();
        let differs = |tube: &&TubeState| {
            tube.definition.driver == name && tube.definition.traits() != traits
        };
        if let Some(tube) = self.tubes.values().find(differs) {
            let was = tube.definition.traits();
            return Err(Error::invalid(format!(
                "driver {name:?} has {traits:?}, but tube {:?} was created with {was:?}",
                tube.definition.name
            )));
        }
        for tube in self.tubes.values_mut().filter(|tube| tube.definition.driver == name) {
            tube.driver = Some(driver.clone());
            if tube.counts.recurring > 0 {
                // Its schedules have stood still.
                self.buffers[tube.buffer].dues = DueCursor::default();
                self.buffers[tube.buffer].moments = DueCursor::default();
            }
        }
        self.tubes.add_driver(name, driver);
        Ok(())
    }

    pub(in crate::core) fn head(&self, number: TubeNo) -> TubeHead {
        match self.tubes.get(number) {
            Some(tube) => TubeHead {
                number,
                name: tube.definition.name.clone(),
                driver: Arc::from(&*tube.definition.driver),
                buffer: tube.buffer,
            },
            None => TubeHead { number, name: "".into(), driver: "".into(), buffer: Buffer::File },
        }
    }

    pub(in crate::core) fn tube_state(
        &self,
        definition: Definition,
        counts: Counts,
        driver: Option<Arc<dyn Driver>>,
    ) -> TubeState {
        let visible = TaskCounts {
            ready: counts.ready,
            delayed: counts.delayed,
            blocked: counts.blocked,
            buried: counts.buried,
            total: counts.total(),
            kept: counts.done,
            recurring: counts.recurring,
            ..TaskCounts::default()
        };
        TubeState {
            driver,
            durability: definition.policies.durability.unwrap_or(self.config.durability),
            buffer: if definition.policies.temporary { Buffer::Memory } else { Buffer::File },
            counts,
            visible: Statistics { tasks: visible, ..Statistics::default() },
            occupied: counts.total(),
            empty_up_to: EmptyUpTo::default(),
            put_ids: PutIds::default(),
            head_cache: HeadCache::default(),
            window: Window::default(),
            busy: HashMap::new(),
            limits: SubQueueLimits::of(&definition.policies),
            taken: BTreeSet::new(),
            waiting_takes: BTreeSet::new(),
            ready_watches: 0,
            waiting_puts: BTreeMap::new(),
            callback: None,
            unwanted: Cell::default(),
            gates: Gates::new(definition.policies.rate),
            days: DayState::new(&definition.policies),
            definition,
        }
    }

    pub(super) fn write_definition(&mut self, definition: &Definition) {
        let row = encode(definition);
        self.buffers[Buffer::File].edits.active.replace(
            Table::Meta,
            tube_key(&definition.name),
            row,
        );
    }

    /// Marks a space that no tube uses any more, so that its rows are purged in this run or a later
    /// one.
    fn schedule_purge(&mut self, buffer: Buffer, space: u32, may_have_edges: bool) {
        self.tubes.free_space(space);
        let mark = mark_of_purge(may_have_edges).into();
        self.chores.add_purge(buffer, space, may_have_edges);
        self.effects.call_writer = true;
        if buffer == Buffer::File {
            let active = &mut self.buffers[Buffer::File].edits.active;
            active.replace(Table::Meta, purge_key(space), mark);
            active.remove(Table::Meta, count_key(space));
        }
    }

    /// The answer to a change of the catalog: always after a flush, for every durability.
    pub(super) fn catalog_changed(&self, number: TubeNo) -> Decided<TubeHead> {
        Decided { answer: self.head(number), wait: Some(self.flush_of(Buffer::File)) }
    }
}

fn check_name(of: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > TUBE_NAME_MAX {
        return Err(Error::invalid(format!(
            "the name of {of} must have 1 to {TUBE_NAME_MAX} bytes; this one has {}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the name of {of} must not contain control characters"
        )));
    }
    Ok(())
}

/// The definition of a tube with these options.
fn define(
    name: &str,
    driver_name: &str,
    options: &TubeOptions,
    driver: &dyn Driver,
) -> Result<Definition> {
    let traits = driver.traits();
    Ok(Definition {
        name: Arc::from(name),
        space: 0,
        driver: driver_name.into(),
        timed: traits.timed,
        sub_queued: traits.sub_queued,
        bounded: traits.bounded,
        policies: Policies::new(options, driver_name, traits)?,
    })
}
