//! Opening a store: reads the header and the catalog into a new core.
//!
//! Ids are never used again: after a run that was killed, the next one skips its reserved ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{Composed, Counts, Driver, Reads, Row, Table, keys};

use crate::base::tube_no::TubeNo;
use crate::commit::WriteBuffer;
use crate::core::catalog::{
    StoreHeader, check_empty, count_key, decode, decode_counts, last_commit, paused_names,
    read_header, scan_all,
};
use crate::core::state::{
    AllGates, Buffer, Chores, Claims, Config, Core, Definition, Effects, Events, Health, IdleState,
    Ids, Now, PerBuffer, Publishing, Schedules, Sessions, Threads, Tubes, Undo, Waits, Wall,
    WallClock,
};
use crate::storage::{CACHE, Engine};
use crate::{Error, Result};

impl Core {
    /// Reads the header and the catalog. The time for this does not depend on the number of tasks.
    /// Returns the core and the moment of the timeline at the last commit; the caller starts the
    /// timeline from it.
    pub(crate) fn open(
        mut engine: Engine,
        config: Config,
        drivers: Vec<Arc<dyn Driver>>,
        epoch: u64,
    ) -> Result<(Core, Option<u64>)> {
        let replayed = engine.take_replayed();
        let in_database = last_commit(&engine)?;
        let mut file = WriteBuffer::new(Some(Arc::new(engine)), in_database);
        file.edits.add_replayed(replayed);
        let header = read_header(&mut file)?;
        if header.is_none() {
            check_empty(&mut file)?;
        }
        file.end_call();
        file.edits.set_last_commit(header.as_ref().map_or(0, |header| header.commit));
        let mut core = Core {
            config,
            now: Now::default(),
            wall: Wall::new(WallClock::default()),
            buffers: PerBuffer::new(file, WriteBuffer::new(None, 0)),
            tubes: Tubes::new(header.as_ref().map_or(1, |header| header.next_space)),
            chores: Chores::default(),
            claims: Claims::new(epoch),
            gates: AllGates::default(),
            sessions: Sessions::default(),
            waits: Waits::default(),
            timers: BTreeSet::new(),
            publishing: Publishing::default(),
            ids: first_ids(header.as_ref()),
            events: Events::default(),
            schedules: Schedules::default(),
            #[cfg(debug_assertions)]
            visits: std::cell::Cell::default(),
            health: Health::default(),
            effects: Effects::default(),
            idle: IdleState::default(),
            undo: Undo::default(),
            threads: Threads::default(),
        };
        let stock = Composed::ALL.map(|driver| Arc::new(driver) as Arc<dyn Driver>);
        for driver in stock.into_iter().chain(drivers) {
            core.register_driver(driver)?;
        }
        core.load_catalog()?;
        core.load_parked_claims()?;
        core.load_alignment()?;
        core.buffers[Buffer::File].end_call();
        Ok((core, header.map(|header| header.timeline)))
    }

    fn load_catalog(&mut self) -> Result<()> {
        let rows = scan_all(&mut self.buffers[Buffer::File])?;
        for (key, value) in &rows {
            if key.starts_with(b"tube/") {
                let definition: Definition = decode("a tube's definition", value)?;
                self.load_tube(definition)?;
            } else if let Some(space) = key.strip_prefix(b"dying/") {
                let space = keys::whole_space(space)
                    .ok_or_else(|| Error::corrupt("a mark of a dropped tube"))?;
                self.load_purge(space, value);
            } else if let Some(parent) = key.strip_prefix(b"freed/") {
                self.load_chore(parent, value)?;
            } else if let Some(name) = key.strip_prefix(b"limit/") {
                let name =
                    std::str::from_utf8(name).map_err(|_| Error::corrupt("the name of a limit"))?;
                self.gates.limits.most.insert(name.into(), decode("a limit", value)?);
            }
        }
        self.load_pauses(&rows)
    }

    /// Loads the pauses of sub-queues, once all tubes are loaded.
    fn load_pauses(&mut self, rows: &[Row]) -> Result<()> {
        for (key, value) in rows.iter().filter(|(key, _)| key.starts_with(b"paused/")) {
            let until: u64 = decode("the pause of a sub-queue", value)?;
            let (tube, sub) = paused_names(key)
                .ok_or_else(|| Error::corrupt("the name of a paused sub-queue"))?;
            if let Some(number) = self.tubes.named(tube) {
                self.load_pause(number, sub, until);
            }
        }
        Ok(())
    }

    fn load_tube(&mut self, definition: Definition) -> Result<()> {
        let counts =
            match self.buffers[Buffer::File].get(Table::Meta, &count_key(definition.space))? {
                Some(row) if !definition.policies.temporary => decode_counts(&row)?,
                _ => Counts::default(),
            };
        if definition.policies.temporary && self.buffers[Buffer::Memory].engine().is_none() {
            let engine = Engine::open_memory(CACHE)?;
            self.buffers[Buffer::Memory].set_engine(Arc::new(engine));
        }
        let driver = self.tubes.driver(&definition.driver).cloned();
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
        // The tube's number in this run is its current space, which differs after a truncate.
        let number = TubeNo(definition.space);
        let tube = self.tube_state(definition, counts, driver);
        self.tubes.add(number, tube);
        // The last run may have ended before its chores.
        self.note_surplus(number);
        Ok(())
    }
}

fn first_ids(header: Option<&StoreHeader>) -> Ids {
    let next = match header {
        None => 0,
        Some(header) if header.closed => header.next_id,
        // The last run was killed. It may have assigned any of its reserved ids: skip them all.
        Some(header) => header.reserved,
    };
    Ids::new(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::core::catalog::tube_key;
    use crate::core::catalog::{FORMAT, HEADER, encode};
    use crate::options::Policies;
    use crate::storage::{Footprint, Overlay};

    #[test]
    fn open_and_compact_refuse_a_newer_format() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let newer = encode(&(FORMAT + 1, "unknown"));
        let engine =
            Engine::open_file(&path, Footprint { cache: 1 << 20, reserve: 0, mode: 0o600 })
                .unwrap();
        let mut edit = Overlay::default();
        edit.replace(Table::Meta, HEADER.to_vec(), newer);
        engine.commit(edit);
        engine.close().unwrap();
        let refused = Error::NewerFormat { what: "format", found: FORMAT + 1, supported: FORMAT };
        assert_eq!(Store::open(&path).err(), Some(refused.clone()));
        assert_eq!(Store::options().compact(&path, |_, _| {}).err(), Some(refused));
    }

    #[test]
    fn killed_run_leaves_its_reserved_ids_unused() {
        let header = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 1000,
            next_space: 2,
            timeline: 0,
            closed: true,
        };
        assert_eq!(first_ids(Some(&header)).next(), 3);
        assert_eq!(first_ids(Some(&StoreHeader { closed: false, ..header })).next(), 1000);
        assert_eq!(first_ids(None).next(), 0);
    }

    /// Writes a file with this header, and a tube with these counts. The checksums are right.
    fn write_store_file(path: &std::path::Path, header: StoreHeader, counts: Counts) {
        let definition = Definition {
            name: "work".into(),
            space: 1,
            driver: crate::FIFO.into(),
            timed: false,
            sub_queued: false,
            bounded: false,
            policies: Policies::default(),
        };
        let engine =
            Engine::open_file(path, Footprint { cache: 1 << 20, reserve: 0, mode: 0o600 }).unwrap();
        let mut edit = Overlay::default();
        edit.replace(Table::Meta, HEADER.to_vec(), encode(&header));
        edit.replace(Table::Meta, tube_key("work"), encode(&definition));
        edit.replace(Table::Meta, count_key(1), encode(&counts));
        engine.commit(edit);
        engine.close().unwrap();
    }

    /// Adding to such numbers once overflowed: a panic, or a start at zero.
    #[test]
    fn open_rejects_numbers_that_no_store_can_reach() {
        let dir = tempfile::tempdir().unwrap();
        let sound = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 3,
            next_space: 2,
            timeline: 0,
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
            write_store_file(&path, header, counts);
            let refused = Store::open(&path).map(drop);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{name}: {refused:?}");
            Store::options().salvage(&path, |_| Ok(())).unwrap();
        }
    }

    #[test]
    fn store_without_a_free_tube_number_refuses_new_tubes_and_works() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let header = StoreHeader {
            format: FORMAT,
            commit: 5,
            next_id: 3,
            reserved: 3,
            next_space: u32::MAX - 1,
            timeline: 0,
            closed: true,
        };
        write_store_file(&path, header, Counts::default());
        let store = Store::open(&path).unwrap();
        let work = store.find_tube("work").unwrap();
        work.admin().truncate().unwrap();
        work.put("x").unwrap();
        let claim = work.try_take().unwrap().unwrap();
        for _ in 0..2 {
            assert!(matches!(work.admin().truncate(), Err(Error::Unavailable { .. })));
            let refused = store.create_tube("new", crate::TubeOptions::new().driver(crate::FIFO));
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        }
        claim.ack().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
