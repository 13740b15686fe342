//! What the file says about the store as a whole, and how a life of the store begins.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use bincode::{Decode, Encode};
use tubewell_drivers::{Books, Composed, Counts, Driver, NEVER, Reads, Row, Table, Value, keys};

use super::numbered::Numbered;
use super::{Config, Core, Definition, FILE, Ids, MEMORY, Now, Outbox};
use crate::pipeline::Lane;
use crate::storage::Engine;
use crate::{Error, Result};

/// The format that this release writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The key of the header.
pub(crate) const HEADER: &[u8] = b"header";

/// More than can be counted to in a million years, and a few of them can be added up.
const MOST: u64 = 1 << 61;

/// What is written with every commit.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct StoreHeader {
    /// First, so that every release can read it.
    format: u32,
    /// The number of this commit.
    commit: u64,
    next_id: u64,
    /// Ids below may have been given out, if the store was not closed.
    reserved: u64,
    next_space: u32,
    /// The store's time line at this commit: it never runs back.
    pub(crate) line: u64,
    /// Written at close, and by no other commit.
    closed: bool,
}

impl Core {
    /// Reads the catalog; nothing here depends on how many tasks there are. The caller begins the
    /// time line, from where the last life left it, which is returned.
    pub(crate) fn open(
        engine: Engine,
        config: Config,
        drivers: Vec<Arc<dyn Driver>>,
        epoch: u64,
    ) -> Result<(Core, Option<u64>)> {
        let mut file = Lane::new(Some(Arc::new(engine)), 0);
        let header = read_header(&mut file)?;
        if header.is_none() {
            check_empty(&mut file)?;
        }
        let commit = header.as_ref().map_or(0, |header| header.commit);
        let engine = file.take_engine();
        let mut core = Core {
            config,
            now: Now::default(),
            doubted: None,
            lanes: [Lane::new(engine, commit), Lane::new(None, 0)],
            tubes: Numbered::default(),
            names: BTreeMap::new(),
            spaces: Numbered::default(),
            next_space: header.as_ref().map_or(1, |header| header.next_space),
            dying: VecDeque::new(),
            drivers: BTreeMap::new(),
            claims: Numbered::default(),
            sessions: Numbered::default(),
            waiters: Numbered::default(),
            timers: BTreeSet::new(),
            unsettled: Numbered::default(),
            ids: first_ids(header.as_ref()),
            restored: HashSet::new(),
            room_inside: 0,
            epoch,
            arrivals: 0,
            listened: false,
            serving: false,
            together: None,
            halfway: 0,
            failed: None,
            closed: false,
            outbox: Outbox::default(),
            rest: super::rest::Rest::default(),
            held_up: 0,
            sweeper_wakes: NEVER,
        };
        let stock = Composed::ALL.map(|driver| Arc::new(driver) as Arc<dyn Driver>);
        for driver in stock.into_iter().chain(drivers) {
            core.register_driver(driver)?;
        }
        core.load_catalog()?;
        core.lanes[FILE].end_call();
        Ok((core, header.map(|header| header.line)))
    }

    fn load_catalog(&mut self) -> Result<()> {
        let rows = scan_all(&mut self.lanes[FILE])?;
        for (key, value) in &rows {
            if key.starts_with(b"tube/") {
                let definition: Definition = decode("a tube's definition", value)?;
                self.load_tube(definition)?;
            } else if let Some(space) = key.strip_prefix(b"dying/") {
                let space = keys::space_of(space)
                    .ok_or_else(|| Error::corrupt("a mark of a dropped tube"))?;
                self.dying.push_back((FILE, space));
            }
        }
        Ok(())
    }

    fn load_tube(&mut self, definition: Definition) -> Result<()> {
        let counts = match self.lanes[FILE].get(Table::Meta, &count_key(definition.space))? {
            Some(row) if !definition.temporary => decode_counts(&row)?,
            _ => Counts::default(),
        };
        if definition.temporary && self.lanes[MEMORY].engine().is_none() {
            let engine = Engine::open_memory(crate::options::CACHE)?;
            self.lanes[MEMORY].set_engine(Arc::new(engine));
        }
        let driver = self.drivers.get(&definition.driver).cloned();
        if let Some(driver) = &driver
            && driver.traits() != definition.traits()
        {
            return Err(Error::invalid(format!(
                "driver {:?} has {:?}, but tube {:?} was created with {:?}",
                definition.driver,
                driver.traits(),
                definition.name,
                definition.traits()
            )));
        }
        // A truncated tube has a space of its own; its number in memory is the space it has now.
        let number = definition.space;
        let tube = self.tube_state(definition, counts, driver);
        self.add_tube(number, tube);
        Ok(())
    }

    /// Adds to a lane's edits what every commit writes: the header, and the counts that changed.
    pub(crate) fn seal(&mut self, lane: usize, closing: bool) {
        let recounted = std::mem::take(&mut self.lanes[lane].recounted);
        for number in recounted {
            if let Some(tube) = self.tubes.get(&number) {
                let (key, row) = (count_key(tube.definition.space), encode(&tube.counts));
                self.lanes[lane].pending.replace(Table::Meta, key, row);
            }
        }
        if lane != FILE {
            return;
        }
        let header = StoreHeader {
            format: FORMAT,
            commit: self.lanes[FILE].batch.number,
            next_id: self.ids.next,
            reserved: self.reserve_ids(),
            next_space: self.next_space,
            line: self.now.line,
            closed: closing,
        };
        self.lanes[FILE].pending.replace(Table::Meta, HEADER.to_vec(), encode(&header));
    }
}

/// The key of a tube's definition.
pub(super) fn tube_key(name: &str) -> Vec<u8> {
    [b"tube/", name.as_bytes()].concat()
}

/// The key of the counts of a space.
pub(crate) fn count_key(space: u32) -> Vec<u8> {
    [b"count/".as_slice(), &space.to_be_bytes()].concat()
}

/// The key of the mark of a space whose rows are being removed.
pub(super) fn dying_key(space: u32) -> Vec<u8> {
    [b"dying/".as_slice(), &space.to_be_bytes()].concat()
}

/// A row of the catalog: a checksum, then bincode.
pub(super) fn encode(row: &impl Encode) -> Value {
    crate::codec::encode_row(row)
}

pub(crate) fn decode<T: Decode<()>>(what: &str, row: &Value) -> Result<T> {
    crate::codec::decode_row(row).ok_or_else(|| Error::corrupt(format!("{what} cannot be read")))
}

/// The books of all tubes in the file, and the spaces whose rows are being removed, as of one
/// commit.
pub(crate) fn stored_books<R: Reads<Error = Error>>(
    rows: &mut R,
) -> Result<(Vec<Books>, Vec<u32>)> {
    let (mut books, mut dying) = (Vec::new(), Vec::new());
    for (key, value) in scan_all(rows)? {
        if key.starts_with(b"tube/") {
            let definition: Definition = decode("a tube's definition", &value)?;
            let counts = match rows.get(Table::Meta, &count_key(definition.space))? {
                Some(row) if !definition.temporary => decode_counts(&row)?,
                _ => Counts::default(),
            };
            books.push(Books {
                name: definition.name,
                space: definition.space,
                sub_queued: definition.sub_queued,
                counts,
            });
        } else if let Some(space) = key.strip_prefix(b"dying/") {
            dying.extend(keys::space_of(space));
        }
    }
    Ok((books, dying))
}

/// The number of the last commit in a file; 0 if there is none yet.
pub(crate) fn last_commit(engine: &Engine) -> Result<u64> {
    Ok(read_header(&mut engine.snapshot()?)?.map_or(0, |header| header.commit))
}

/// Refuses a file of a newer format.
pub(crate) fn check_format(engine: &Engine) -> Result<()> {
    read_header(&mut engine.snapshot()?).map(|_| ())
}

/// What a file holds: its tubes, and the spaces whose rows are being removed; as far as it can be
/// read. What cannot be is named.
pub(crate) fn read_catalog(rows: &[Row]) -> (Vec<Definition>, Vec<u32>, Vec<String>) {
    let (mut tubes, mut dying, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in rows {
        if let Some(name) = key.strip_prefix(b"tube/") {
            match crate::codec::decode_row::<Definition>(value) {
                Some(definition) => tubes.push(definition),
                None => lost.push(format!("the definition of tube {:?}", text(name))),
            }
        } else if let Some(space) = key.strip_prefix(b"dying/") {
            dying.extend(keys::space_of(space));
        }
    }
    (tubes, dying, lost)
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

pub(crate) fn read_header<R: Reads<Error = Error>>(rows: &mut R) -> Result<Option<StoreHeader>> {
    let Some(row) = rows.get(Table::Meta, HEADER)? else {
        return Ok(None);
    };
    let found: u32 = crate::codec::decode_prefix(&row)
        .ok_or_else(|| Error::corrupt("the store's header cannot be read"))?;
    if found > FORMAT {
        return Err(Error::NewerFormat { what: "format", found, supported: FORMAT });
    }
    let header: StoreHeader = decode("the store's header", &row)?;
    credible("the store's header", &[header.commit, header.next_id, header.reserved])?;
    Ok(Some(header))
}

fn decode_counts(row: &Value) -> Result<Counts> {
    let counts: Counts = decode("a tube's counts", row)?;
    credible("a tube's counts", &[counts.ready, counts.delayed, counts.buried])?;
    Ok(counts)
}

/// Refuses numbers that no store comes to: they were not counted, and cannot be counted on.
fn credible(what: &str, numbers: &[u64]) -> Result<()> {
    if numbers.iter().all(|number| *number < MOST) {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} has numbers that no store comes to")))
}

/// Without a header a file is new. If it has rows, it has lost its header, and must not begin
/// again with the first id.
fn check_empty<R: Reads<Error = Error>>(rows: &mut R) -> Result<()> {
    for table in Table::ALL {
        if !rows.scan(table, &[], &[u8::MAX; 600], 1)?.is_empty() {
            return Err(Error::corrupt("the store's header is missing"));
        }
    }
    Ok(())
}

fn first_ids(header: Option<&StoreHeader>) -> Ids {
    let next = match header {
        None => 0,
        Some(header) if header.closed => header.next_id,
        // What the last life gave out beyond its last commit nobody knows: skip it all.
        Some(header) => header.reserved,
    };
    Ids { next, floor: next, reserved: next, reserving: next }
}

fn scan_all<R: Reads<Error = Error>>(rows: &mut R) -> Result<Vec<Row>> {
    rows.scan(Table::Meta, &[], &[u8::MAX; 300], usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::storage::{Footprint, Layer};

    #[test]
    fn a_file_of_a_newer_format_is_refused_by_both_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let newer = encode(&(FORMAT + 1, "whatever it will be"));
        let engine = Engine::open_file(&path, Footprint { cache: 1 << 20, reserve: 0 }).unwrap();
        let mut edit = Layer::default();
        edit.replace(Table::Meta, HEADER.to_vec(), newer);
        engine.commit(&edit, true, true).unwrap();
        engine.close().unwrap();
        let refused = Error::NewerFormat { what: "format", found: FORMAT + 1, supported: FORMAT };
        assert_eq!(Store::open(&path).err(), Some(refused.clone()));
        assert_eq!(Store::options().compact(&path).err(), Some(refused));
    }

    #[test]
    fn a_life_that_was_killed_leaves_its_reserved_ids_alone() {
        let header = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 1000,
            next_space: 2,
            line: 0,
            closed: true,
        };
        assert_eq!(first_ids(Some(&header)).next, 3);
        assert_eq!(first_ids(Some(&StoreHeader { closed: false, ..header })).next, 1000);
        assert_eq!(first_ids(None).next, 0);
    }

    /// A header and a tube of so many tasks, with checksums that are right.
    fn made_up(path: &std::path::Path, header: StoreHeader, counts: Counts) {
        let definition = Definition {
            name: "work".into(),
            space: 1,
            driver: crate::FIFO.into(),
            timed: false,
            sub_queued: false,
            bounded: false,
            ttl: NEVER,
            ttr: NEVER,
            pri: 0,
            capacity: 0,
            temporary: false,
            durability: None,
        };
        let engine = Engine::open_file(path, Footprint { cache: 1 << 20, reserve: 0 }).unwrap();
        let mut edit = Layer::default();
        edit.replace(Table::Meta, HEADER.to_vec(), encode(&header));
        edit.replace(Table::Meta, tube_key("work"), encode(&definition));
        edit.replace(Table::Meta, count_key(1), encode(&counts));
        engine.commit(&edit, true, true).unwrap();
        engine.close().unwrap();
    }

    /// Where they were added to, it was a panic, or began anew at zero.
    #[test]
    fn numbers_that_no_store_comes_to_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let sound = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 3,
            next_space: 2,
            line: 0,
            closed: true,
        };
        let none = Counts::default();
        let most = u64::MAX;
        for (name, header, counts) in [
            ("commit", StoreHeader { commit: most, ..sound.clone() }, none),
            ("next id", StoreHeader { next_id: most - 1, ..sound.clone() }, none),
            ("reserved", StoreHeader { reserved: most, closed: false, ..sound.clone() }, none),
            ("ready", sound.clone(), Counts { ready: most, ..none }),
            ("delayed", sound.clone(), Counts { delayed: most, ..none }),
            ("buried", sound, Counts { buried: most - 1, ..none }),
        ] {
            let path = dir.path().join(name);
            made_up(&path, header, counts);
            let refused = Store::open(&path).map(drop);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{name}: {refused:?}");
            Store::options().salvage(&path, |_| Ok(())).unwrap();
        }
    }

    #[test]
    fn a_store_that_has_no_number_left_for_a_tube_says_so_and_works_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let header = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 3,
            next_space: u32::MAX - 1,
            line: 0,
            closed: true,
        };
        made_up(&path, header, Counts::default());
        let store = Store::open(&path).unwrap();
        let work = store.tube("work").unwrap();
        work.truncate().unwrap();
        work.put("x").unwrap();
        let held = work.try_take().unwrap().unwrap();
        for _ in 0..2 {
            assert!(matches!(work.truncate(), Err(Error::Unavailable { .. })));
            let refused = store.create_tube("new", crate::FIFO, crate::TubeOptions::new());
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        }
        held.ack().unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }
}
