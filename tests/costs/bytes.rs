//! The bytes that are written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend, TableDefinition};

use tubewell::{Durability, FIFO, FIFOTTL, Put, TubeOptions, UTUBE, UTUBETTL};

use crate::{bytes_written, with_tube};

/// The limit in bytes of a commit without rows of tasks: it has the header, and the counts of the tube.
const EMPTY_COMMIT: u64 = 1 << 10;

#[test]
fn relaxed_put_acked_before_flush_is_not_written() {
    let plain = || Put::new(vec![7; 1000]);
    let timed = || plain().ttl(Duration::from_secs(60));
    for (driver, put) in
        [(FIFO, plain()), (FIFOTTL, timed()), (UTUBE, plain()), (UTUBETTL, timed())]
    {
        with_tube(driver, TubeOptions::new().durability(Durability::relaxed()), |store, tube| {
            let is_sub_queued = [UTUBE, UTUBETTL].contains(&driver);
            let cycle = |n: usize| {
                let put = put.clone();
                tube.put(if is_sub_queued { put.sub_queue(format!("{}", n % 7)) } else { put })
                    .unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            };
            // The first put of a run reserves ids.
            cycle(0);
            store.flush().unwrap();
            let empty_flush = bytes_written(store, || _ = store.flush().unwrap());
            assert_eq!(empty_flush, 0, "{driver}: a flush without changes wrote bytes");
            let written = bytes_written(store, || {
                (0..100).for_each(cycle);
                store.flush().unwrap();
            });
            println!("{driver}: {written} bytes");
            assert!(
                written < EMPTY_COMMIT,
                "{driver}: {written} bytes for 100 tasks of 1000 bytes that were acked before the flush"
            );
        });
    }
}

/// The limit in bytes. A lone put of 128 bytes is a journal record of some 300 bytes, and the
/// blocks of the journal are preallocated once, which costs as much again.
const LONE_PUT: u64 = 1 << 10;
const PUTS: u64 = 200;

#[test]
fn lone_put_writes_fraction_of_bytes_of_plain_redb() {
    let plain = plain_redb_writes();
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let put = || _ = tube.put(&[7; 128]).unwrap();
        (0..PUTS).for_each(|_| put());
        let lone = bytes_written(store, || (0..PUTS).for_each(|_| put())) / PUTS;
        println!("a lone put writes {lone} bytes, plain redb {plain}");
        assert!(lone <= LONE_PUT.min(plain / 20), "a put wrote {lone} bytes, plain redb {plain}");
    });
}

/// The bytes that redb alone writes for one insert in a commit of its own.
fn plain_redb_writes() -> u64 {
    const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("tasks");
    let backend = CountingBackend::default();
    let written = backend.written.clone();
    let database = Database::builder().create_with_backend(backend).unwrap();
    let insert = |key| {
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TABLE).unwrap().insert(key, [7; 128].as_slice()).unwrap();
        transaction.commit().unwrap();
    };
    (0..PUTS).for_each(insert);
    let before = written.load(Ordering::Relaxed);
    (PUTS..2 * PUTS).for_each(insert);
    (written.load(Ordering::Relaxed) - before) / PUTS
}

/// A backend in memory that counts the bytes written to it.
#[derive(Debug, Default)]
struct CountingBackend {
    memory: InMemoryBackend,
    written: Arc<AtomicU64>,
}

impl StorageBackend for CountingBackend {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.memory.write(offset, data)
    }
}
