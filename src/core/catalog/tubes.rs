//! The catalog: tubes are created, found, truncated and dropped here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tubewell_drivers::{Counts, Driver, HeadCache, NEVER, TUBE_NAME_MAX, Table, purge_slice};

use super::rows::{count_key, encode, purge_key, tube_key};
use super::similar::similar;
use crate::core::state::window::Window;
use crate::core::state::{Core, Decided, Definition, FILE, MEMORY, TubeState};
use crate::micros::{duration, micros_ceil};
use crate::statistics::{Statistics, TaskCounts};
use crate::storage::{CACHE, Engine};
use crate::{Durability, Error, Result, TubeOptions};

/// Rows of a dead space that go with one commit: a few milliseconds of it.
const CLEAR_STEP: usize = 512;

/// A tube to be created.
pub(crate) struct TubeRequest {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) options: TubeOptions,
}

/// What a handle needs to know of its tube.
#[derive(Clone, Debug)]
pub(crate) struct TubeHead {
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
    pub(crate) driver: Arc<str>,
    pub(crate) buffer: usize,
}

impl Core {
    /// Creates a tube, or finds the one that is there if that will do.
    pub(crate) fn create_tube(&mut self, request: &TubeRequest) -> Result<Decided<TubeHead>> {
        self.check_open()?;
        check_name("a tube", &request.name)?;
        let driver = self.drivers.get(&request.driver).cloned().ok_or_else(|| {
            Error::DriverUnknown { name: request.driver.clone(), known: self.known_drivers() }
        })?;
        let definition = define(request, &*driver)?;
        if let Some(number) = self.names.get(&*request.name).copied() {
            return self.create_again(request, &definition, number);
        }
        if definition.temporary && self.buffers[MEMORY].engine().is_none() {
            let engine = Engine::open_memory(CACHE)?;
            self.buffers[MEMORY].set_engine(Arc::new(engine));
        }
        let number = self.new_space()?;
        let definition = Definition { space: number, ..definition };
        self.write_definition(&definition);
        let mut tube = self.tube_state(definition, Counts::default(), Some(driver));
        tube.callback.clone_from(&request.options.callback);
        self.add_tube(number, tube);
        Ok(self.catalog_changed(number))
    }

    fn create_again(
        &mut self,
        request: &TubeRequest,
        wanted: &Definition,
        number: u32,
    ) -> Result<Decided<TubeHead>> {
        if !request.options.if_not_exists {
            return Err(Error::TubeExists { name: request.name.clone() });
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            if let Some(what) = difference(&tube.definition, wanted) {
                return Err(Error::TubeDiffers { name: request.name.clone(), what });
            }
            // The first callback stays until it is replaced by on_task_change.
            if tube.callback.is_none() {
                tube.callback.clone_from(&request.options.callback);
            }
        }
        // Its creation may be on its way to the file still.
        if self.buffers[FILE].lookup(Table::Meta, &tube_key(&request.name)).is_some() {
            return Ok(self.catalog_changed(number));
        }
        Ok(Decided { answer: self.head(number), wait: None })
    }

    pub(crate) fn find_tube(&self, name: &str) -> Result<TubeHead> {
        self.check_open()?;
        match self.names.get(name) {
            Some(number) => Ok(self.head(*number)),
            None => {
                let similar = similar(name, self.names.keys().map(|known| &**known));
                Err(Error::TubeNotFound { name: name.into(), similar })
            }
        }
    }

    /// Forgets a tube nobody works on. Its rows go later.
    pub(crate) fn drop_tube(&mut self, name: &str) -> Result<Decided<()>> {
        let number = self.find_tube(name)?.number;
        let busy = |why: &str| Error::TubeBusy { name: name.into(), why: why.into() };
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        if !tube.taken.is_empty() {
            return Err(busy("there are taken tasks in it"));
        }
        if !tube.waiting_takes.is_empty() || !tube.waiting_puts.is_empty() {
            return Err(busy("somebody waits in it"));
        }
        let Some(tube) = self.tubes.remove(&number) else { return Err(Error::Closed) };
        self.names.remove(name);
        self.buffers[FILE].active.remove(Table::Meta, tube_key(name));
        self.effects.after_unlock.callbacks.extend(tube.callback);
        self.schedule_purge(tube.buffer, tube.definition.space);
        Ok(self.catalog_changed(number).map(|_| ()))
    }

    /// Empties a tube, whatever its tasks are doing. The rows go later.
    pub(crate) fn truncate(&mut self, number: u32) -> Result<Decided<()>> {
        let taken: Vec<u64> = match self.tubes.get(&number) {
            Some(tube) => tube.taken.iter().map(|(_, id)| *id).collect(),
            None => return Err(Error::Closed),
        };
        let space = self.new_space()?;
        for id in taken {
            self.remove_claim(id);
        }
        let Some(tube) = self.tubes.get_mut(&number) else { return Err(Error::Closed) };
        let (buffer, old) = (tube.buffer, std::mem::replace(&mut tube.definition.space, space));
        tube.counts = Counts::default();
        tube.places = 0;
        let done = tube.visible.tasks.done;
        tube.visible.tasks = TaskCounts { done, ..TaskCounts::default() };
        tube.window = Window::default();
        tube.head_cache.clear();
        tube.busy.clear();
        let definition = tube.definition.clone();
        self.schedule_purge(buffer, old);
        self.spaces.insert(space, number);
        self.buffers[buffer].dirty_counts.insert(number);
        self.write_definition(&definition);
        if let Err(error) = self.admit_waiting_puts(number) {
            // The tube is truncated all the same.
            self.fail_with(&error);
        }
        Ok(self.catalog_changed(number).map(|_| ()))
    }

    /// Registers a driver; tubes that waited for it come to life.
    pub(crate) fn register_driver(&mut self, driver: Arc<dyn Driver>) -> Result<()> {
        let name = driver.name().to_owned();
        // It goes into the definitions of tubes, which are not read back whatever their length.
        check_name("a driver", &name)?;
        if self.drivers.contains_key(&name) {
            return Err(Error::DriverExists { name });
        }
        let traits = driver.traits();
        let mut waiting = self.tubes.values_mut().filter(|tube| tube.definition.driver == name);
        if let Some(tube) = waiting.find(|tube| tube.definition.traits() != traits) {
            let was = tube.definition.traits();
            return Err(Error::invalid(format!(
                "driver {name:?} has {traits:?}, but tube {:?} was created with {was:?}",
                tube.definition.name
            )));
        }
        for tube in self.tubes.values_mut().filter(|tube| tube.definition.driver == name) {
            tube.driver = Some(driver.clone());
        }
        self.drivers.insert(name, driver);
        Ok(())
    }

    /// Whether rows of dead spaces wait for their removal.
    pub(crate) fn has_purges(&self) -> bool {
        !self.purges.is_empty()
    }

    /// Removes some rows of a space that no tube uses any more. Returns the lane that changed.
    pub(crate) fn purge_some(&mut self) -> Result<Option<usize>> {
        let Some((buffer, space)) = self.purges.front().copied() else { return Ok(None) };
        if purge_slice(&mut self.buffers[buffer], space, CLEAR_STEP)? {
            self.purges.pop_front();
            if buffer == FILE {
                self.buffers[FILE].active.remove(Table::Meta, purge_key(space));
            }
        }
        Ok(Some(buffer))
    }

    pub(crate) fn purges(&self, buffer: usize) -> Vec<u32> {
        self.purges.iter().filter(|(of, _)| *of == buffer).map(|(_, space)| *space).collect()
    }

    pub(in crate::core) fn head(&self, number: u32) -> TubeHead {
        match self.tubes.get(&number) {
            Some(tube) => TubeHead {
                number,
                name: tube.definition.name.clone(),
                driver: Arc::from(&*tube.definition.driver),
                buffer: tube.buffer,
            },
            None => TubeHead { number, name: "".into(), driver: "".into(), buffer: FILE },
        }
    }

    pub(in crate::core) fn add_tube(&mut self, number: u32, tube: TubeState) {
        self.spaces.insert(tube.definition.space, number);
        self.names.insert(tube.definition.name.clone(), number);
        self.tubes.insert(number, tube);
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
            buried: counts.buried,
            total: counts.total(),
            ..TaskCounts::default()
        };
        TubeState {
            driver,
            durability: durability_of(&definition).unwrap_or(self.config.durability),
            buffer: if definition.temporary { MEMORY } else { FILE },
            counts,
            visible: Statistics { tasks: visible, ..Statistics::default() },
            places: counts.total(),
            head_cache: HeadCache::default(),
            window: Window::default(),
            busy: HashMap::new(),
            taken: BTreeSet::new(),
            waiting_takes: BTreeSet::new(),
            waiting_puts: BTreeMap::new(),
            callback: None,
            definition,
        }
    }

    /// A number that no tube has had: rows of it may still be there.
    fn new_space(&mut self) -> Result<u32> {
        let space = self.next_space;
        let why = "it has no number left for a tube; one that it is imported into has";
        let next = space.checked_add(1).ok_or_else(|| Error::Unavailable { why: why.into() })?;
        self.next_space = next;
        Ok(space)
    }

    fn write_definition(&mut self, definition: &Definition) {
        let row = encode(definition);
        self.buffers[FILE].active.replace(Table::Meta, tube_key(&definition.name), row);
    }

    /// Nobody uses this space any more: marks it, so that its rows go, now or in a later life.
    fn schedule_purge(&mut self, buffer: usize, space: u32) {
        self.spaces.remove(&space);
        self.purges.push_back((buffer, space));
        self.effects.call_writer = true;
        if buffer == FILE {
            let active = &mut self.buffers[FILE].active;
            active.replace(Table::Meta, purge_key(space), Arc::from([].as_slice()));
            active.remove(Table::Meta, count_key(space));
        }
    }

    /// Changes of the catalog are always flushed, whatever the durability of tasks.
    fn catalog_changed(&self, number: u32) -> Decided<TubeHead> {
        let batch = self.buffers[FILE].batch.clone();
        Decided { answer: self.head(number), wait: Some((FILE, batch)) }
    }
}

fn check_name(of: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > TUBE_NAME_MAX {
        return Err(Error::invalid(format!(
            "{of}'s name has 1 to {TUBE_NAME_MAX} bytes, this one has {}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{of}'s name has no control characters")));
    }
    Ok(())
}

fn define(request: &TubeRequest, driver: &dyn Driver) -> Result<Definition> {
    let options = &request.options;
    let traits = driver.traits();
    let refuse =
        |what: &str| Err(Error::Unsupported { what: what.into(), driver: request.driver.clone() });
    if !traits.timed {
        for (what, given) in [
            ("a ttl", options.ttl.is_some()),
            ("a ttr", options.ttr.is_some()),
            ("a priority", options.pri.is_some()),
        ] {
            if given {
                return refuse(what);
            }
        }
    }
    if options.capacity.is_some() && !traits.bounded {
        return refuse("a capacity");
    }
    let ttl = options.ttl.map_or(NEVER, micros_ceil);
    Ok(Definition {
        name: Arc::from(&*request.name),
        space: 0,
        driver: request.driver.clone(),
        timed: traits.timed,
        sub_queued: traits.sub_queued,
        bounded: traits.bounded,
        ttl,
        ttr: options.ttr.map_or(ttl, micros_ceil),
        pri: options.pri.unwrap_or(0),
        capacity: options.capacity.unwrap_or(0),
        temporary: options.temporary,
        durability: options.durability.map(|durability| match durability {
            Durability::Flush => 0,
            Durability::Relaxed { max_delay } => micros_ceil(max_delay).saturating_add(1),
        }),
    })
}

/// The durability that a tube was created with.
pub(crate) fn durability_of(definition: &Definition) -> Option<Durability> {
    definition.durability.map(|stored| match stored.checked_sub(1) {
        None => Durability::Flush,
        Some(micros) => Durability::Relaxed { max_delay: duration(micros) },
    })
}

/// The first thing in which two tubes differ, in words.
fn difference(is: &Definition, wanted: &Definition) -> Option<String> {
    let say = |what: &str, is: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
        Some(format!("its {what} is {is}, not {wanted}"))
    };
    let time = |micros: u64| match micros {
        NEVER => "unlimited".to_owned(),
        micros => format!("{:?}", duration(micros)),
    };
    if is.driver != wanted.driver {
        return say("driver", &is.driver, &wanted.driver);
    }
    if is.ttl != wanted.ttl {
        return say("ttl", &time(is.ttl), &time(wanted.ttl));
    }
    if is.ttr != wanted.ttr {
        return say("ttr", &time(is.ttr), &time(wanted.ttr));
    }
    if is.pri != wanted.pri {
        return say("priority", &is.pri, &wanted.pri);
    }
    if is.capacity != wanted.capacity {
        return say("capacity", &is.capacity, &wanted.capacity);
    }
    if is.temporary != wanted.temporary {
        return say("being temporary", &is.temporary, &wanted.temporary);
    }
    if is.durability != wanted.durability {
        let name =
            |of: &Definition| durability_of(of).map_or("the store's".into(), |d| format!("{d:?}"));
        return say("durability", &name(is), &name(wanted));
    }
    None
}
