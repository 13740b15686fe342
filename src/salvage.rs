//! What can be read of a file, damaged or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tubewell_drivers::{FIFOTTL, Reads, Record, Row, Table, UTUBETTL, check_body, keys};

use crate::core::{
    Definition, UNTRUSTED, describe, durability_of, read_catalog, read_header, timeline_of_reader,
};
use crate::micros::micros_ceil;
use crate::storage::{Engine, Snapshot};
use crate::task::Task;
use crate::{Durability, Error, Result, State, StoreOptions, TubeInfo};

/// How often an unreadable range of keys is halved without finding a readable one.
const HALVINGS: u32 = 10;
/// No file is so damaged that trying more ranges would find more.
const RANGES_MAX: u32 = 20_000;

/// Something that [`StoreOptions::salvage`](crate::StoreOptions::salvage) has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Salvaged {
    /// A tube; its tasks follow, before the next tube.
    Tube(SalvagedTube),
    /// A task, whole and as it was put. Tasks that were taken are ready.
    Task {
        /// Its tube.
        tube: String,
        /// The task.
        task: Task,
    },
    /// The wall clock is so far beyond the store's last commit that it is not believed, as at an
    /// [open](crate::StoreOptions::wall_clock_limit): times are told as if none had passed since.
    UntrustedClock {
        /// How far.
        ahead: Duration,
    },
    /// Something that is damaged and was left out, in words.
    Lost {
        /// What it is, as far as that is known.
        what: String,
    },
}

/// A tube as it was created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTube {
    /// Name, driver and options. A tube whose definition is damaged is called `recovered-` and
    /// the number of its space, and has no options. `usable` tells whether the driver is one of
    /// tubewell's own.
    pub info: TubeInfo,
    /// Its own durability, if it was given one.
    pub durability: Option<Durability>,
    /// Whether its tasks have a priority, a ttl, a ttr and a delay.
    pub timed: bool,
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
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("app.tubewell");
    /// let store = Store::open(&path)?;
    /// store.create_tube("mail", FIFO, TubeOptions::new())?;
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

    /// Reads everything that can be read in the file of a closed store, damaged or not, and tells
    /// `each` of it: tubes, then the tasks of each in the order of their ids. The file is not
    /// written to.
    ///
    /// What is damaged is skipped and told as [`Lost`](Salvaged::Lost). Of the wall clock the same is
    /// made as at an open. Needs memory for the keys
    /// of the largest tube, some 60 bytes a task, and for the largest body.
    ///
    /// # Errors
    /// What `each` answers ends it; [`Corrupt`](Error::Corrupt) if not even the file's outermost
    /// structure can be read, and as [`open`](StoreOptions::open).
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
    let mut salvage = Salvage { engine, rows: engine.snapshot()?, now: wall, each };
    salvage.all(wall_limit)
}

/// The tubes of a file, by name; a definition that is damaged is left out.
fn read_tubes(engine: &Engine) -> Result<Vec<TubeInfo>> {
    let mut rows = engine.snapshot()?;
    read_header(&mut rows)?;
    let meta = rows.scan(Table::Meta, &[], &[u8::MAX; 300], usize::MAX)?;
    let (mut tubes, ..) = read_catalog(&meta);
    tubes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tubes.iter().map(|tube| described(tube).info).collect())
}

struct Salvage<'a> {
    engine: &'a Engine,
    rows: Snapshot,
    /// On the store's time line.
    now: u64,
    each: &'a mut dyn FnMut(Salvaged) -> Result<()>,
}

/// A task's id, and the key of its row.
type Located = (u64, Box<[u8]>);

impl Salvage<'_> {
    fn all(&mut self, wall_limit: u64) -> Result<()> {
        if let Some(lost) = self.engine.lost() {
            self.lost(format!("what came last ({lost})"))?;
        }
        match read_header(&mut self.rows) {
            Ok(header) => self.set_now(header.map(|header| header.timeline), wall_limit)?,
            Err(error @ Error::NewerFormat { .. }) => return Err(error),
            Err(error) => self.lost(format!("the store's header ({error})"))?,
        }
        let meta = self.keys(Table::Meta, &[], &[u8::MAX; 300])?;
        let meta: Vec<Row> = meta
            .into_iter()
            .filter_map(|key| Some((key.clone(), self.get(Table::Meta, &key)?)))
            .collect();
        let (mut tubes, purges, lost) = read_catalog(&meta);
        lost.into_iter().try_for_each(|what| self.lost(what))?;
        tubes.sort_by(|one, other| one.name.cmp(&other.name));
        let known: Vec<u32> = tubes.iter().map(|tube| tube.space).collect();
        for tube in &tubes {
            self.tell(Salvaged::Tube(described(tube)))?;
            let prefix = keys::space_prefix(tube.space);
            let found = self.keys(Table::Tasks, &prefix, &keys::end_of(&prefix))?;
            self.tasks(&tube.name, tube.space, found)?;
        }
        self.of_no_tube(&known, &purges)?;
        match self.engine.unreadable() {
            0 => Ok(()),
            pages => self.lost(format!("what is in {pages} pages that the disk cannot read")),
        }
    }

    /// As an open does, so that tasks do not come to their ends in a copy that live in the store.
    fn set_now(&mut self, floor: Option<u64>, wall_limit: u64) -> Result<()> {
        let untrusted = self.get(Table::Meta, UNTRUSTED);
        let (timeline, ahead) =
            timeline_of_reader(floor, self.now, untrusted.as_deref(), wall_limit);
        self.now = timeline;
        let Some(ahead) = ahead else { return Ok(()) };
        self.tell(Salvaged::UntrustedClock { ahead: Duration::from_micros(ahead) })
    }

    /// Tasks whose tube is damaged come under a name of their own.
    fn of_no_tube(&mut self, known: &[u32], purges: &[u32]) -> Result<()> {
        let mut bounds: Vec<u32> = known.iter().chain(purges).copied().collect();
        bounds.sort_unstable();
        let mut from = Vec::new();
        for bound in bounds.iter().map(|space| Some(*space)).chain([None]) {
            let to = bound.map_or(vec![u8::MAX; 5], keys::space_prefix);
            // Most stores have nothing in between.
            let mut spaces: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
            for key in self.keys(Table::Tasks, &from, &to)? {
                if let Some(space) = keys::space_of(&key) {
                    spaces.entry(space).or_default().push(key);
                }
            }
            for (space, found) in spaces {
                let tube = unknown(space, &found);
                let name = tube.info.name.clone();
                self.tell(Salvaged::Tube(tube))?;
                self.tasks(&name, space, found)?;
            }
            from = keys::end_of(&to);
        }
        Ok(())
    }

    fn tasks(&mut self, tube: &str, space: u32, found: Vec<Vec<u8>>) -> Result<()> {
        let mut located: Vec<Located> = Vec::with_capacity(found.len());
        for key in found {
            match keys::order_and_id(&key) {
                Ok((_, id)) => located.push((id, key.into())),
                Err(_) => self.lost(format!("a task of tube {tube:?} (its key is damaged)"))?,
            }
        }
        located.sort_unstable();
        for (id, key) in located {
            match self.task(space, id, &key) {
                Ok(task) => self.tell(Salvaged::Task { tube: tube.to_owned(), task })?,
                Err(error) => self.lost(format!("in tube {tube:?} {error}"))?,
            }
        }
        Ok(())
    }

    fn task(&mut self, space: u32, id: u64, key: &[u8]) -> Result<Task> {
        let missing = || Error::corrupt(format!("task {id}: its record is unreadable"));
        let (_, shelf) = keys::space_and_shelf(key)?;
        let record = Record::decode(id, self.get(Table::Tasks, key).ok_or_else(missing)?)?;
        let data = match record.header.apart {
            None => record.inline().to_vec(),
            Some(_) => {
                let body = self.get(Table::Bodies, &keys::by_id(space, id));
                let missing = || Error::corrupt(format!("task {id}: its body is unreadable"));
                let body = body.ok_or_else(missing)?;
                check_body(id, &record.header, &body)?;
                body.to_vec()
            }
        };
        Ok(Task { info: describe(id, State::on_shelf(shelf), &record.header, self.now), data })
    }

    /// A row; `None` also for one that cannot be read.
    fn get(&mut self, table: Table, key: &[u8]) -> Option<tubewell_drivers::Value> {
        self.rows.get(table, key).unwrap_or_else(|_| {
            self.renew();
            None
        })
    }

    /// The readable keys of a range. Where a part cannot be read, its halves are tried, and what
    /// is behind it from the other end.
    fn keys(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        let (mut gaps, mut tried) = (0, 0);
        let mut ranges = vec![(from.to_vec(), to.to_vec(), HALVINGS)];
        while let Some((mut from, mut to, halvings)) = ranges.pop() {
            tried += 1;
            let before = found.len();
            let mut whole = false;
            for backwards in [false, true] {
                let told = &mut |key: &[u8]| found.push(key.to_vec());
                let known = self.rows.keys(table, &from, &to, backwards, told).is_ok();
                if known {
                    whole = true;
                    break;
                }
                self.renew();
                match (found.len() > before, found.last()) {
                    (true, Some(last)) if backwards => to.clone_from(last),
                    (true, Some(last)) => from = keys::after(last),
                    _ => {}
                }
            }
            if whole {
                continue;
            }
            let left = if found.len() > before { HALVINGS } else { halvings.saturating_sub(1) };
            match middle(&from, &to).filter(|_| left > 0 && tried < RANGES_MAX) {
                Some(middle) => {
                    ranges.push((middle.clone(), to, left));
                    ranges.push((from, middle, left));
                }
                None => gaps += 1,
            }
        }
        if gaps > 0 {
            self.lost(format!("rows of {:?}: a page of the file is damaged", table.name()))?;
        }
        self.rows.overlay_keys(table, from, to, &mut found);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// After a failure in the engine nothing of the old snapshot is relied on.
    fn renew(&mut self) {
        if let Ok(rows) = self.engine.snapshot() {
            self.rows = rows;
        }
    }

    fn tell(&mut self, what: Salvaged) -> Result<()> {
        (self.each)(what)
    }

    fn lost(&mut self, what: String) -> Result<()> {
        self.tell(Salvaged::Lost { what })
    }
}

/// A key about half way between two others; `None` if there is none.
fn middle(from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let inner = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 16];
        let rest = key.get(inner..).unwrap_or_default();
        let length = rest.len().min(16);
        bytes[..length].copy_from_slice(&rest[..length]);
        u128::from_be_bytes(bytes)
    };
    let (low, high) = (number(from), number(to));
    let half = low.checked_add(high.checked_sub(low)? / 2)?;
    let mut middle = to[..inner].to_vec();
    middle.extend_from_slice(&half.to_be_bytes());
    (from < &middle[..] && &middle[..] < to).then_some(middle)
}

fn described(tube: &Definition) -> SalvagedTube {
    let stock = tubewell_drivers::Composed::ALL;
    let usable = stock.iter().any(|driver| tubewell_drivers::Driver::name(driver) == tube.driver);
    SalvagedTube { info: tube.info(usable), durability: durability_of(tube), timed: tube.timed }
}

/// A tube of which only tasks are left.
fn unknown(space: u32, found: &[Vec<u8>]) -> SalvagedTube {
    // Space, shelf, order and id; ready tasks have their sub-queue in between, if they have one.
    const PLAIN: usize = 21;
    let sub_queued = found.iter().any(|key| key.len() > PLAIN);
    SalvagedTube {
        info: TubeInfo {
            name: format!("recovered-{space}"),
            driver: if sub_queued { UTUBETTL } else { FIFOTTL }.to_owned(),
            usable: true,
            temporary: false,
            capacity: 0,
            ttl: None,
            ttr: None,
            pri: 0,
            waiting: 0,
            waiting_puts: 0,
        },
        durability: None,
        timed: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue");
        crate::Store::open(&path).unwrap().close().unwrap();
        let engine = Engine::open_unreadable(&path).unwrap();
        let mut told = Vec::new();
        let each = &mut |what| {
            told.push(what);
            Ok(())
        };
        salvage(&engine, 0, 0, each).unwrap();
        assert!(
            matches!(told.as_slice(), [Salvaged::Lost { what }] if what.contains("cannot read")),
            "{told:?}"
        );
    }

    #[test]
    fn the_middle_is_between() {
        assert_eq!(middle(&[1, 0], &[1, 4]).unwrap()[..2], [1, 2]);
        assert!(middle(&[], &[255; 5]).is_some());
        assert_eq!(middle(&[1, 2], &[1, 2]), None);
        let (mut low, high) = (vec![0; 21], vec![0, 0, 1]);
        for _ in 0..64 {
            let Some(next) = middle(&low, &high) else { return };
            assert!(low < next && next < high);
            low = next;
        }
    }
}
