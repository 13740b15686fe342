//! The baseline of the disk: one write and one fdatasync for a put, and the same for an ack, over
//! existing blocks of a file. Takes read from memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::queue::{About, Class, Counters, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs};

const FILE_SIZE: u64 = 32 << 20;

pub struct DiskBaseline;

impl Peer for DiskBaseline {
    fn about(&self) -> About {
        About {
            name: "disk/overwrite".into(),
            version: "fdatasync".into(),
            class: Class::Durable,
            loses: Losses::nothing(),
            callers: "one thread".into(),
            waits: "does not wait".into(),
            note: "not a queue: the baseline of the disk".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        shape == Shape::Callers(1)
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let mut file = File::create(dir.join("baseline"))?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..FILE_SIZE / zeros.len() as u64 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        let state =
            State { file, offset: 0, counters: Counters::default(), ready: VecDeque::new() };
        let store = Store { state: Arc::new(Mutex::new(state)), body: setting.body };
        Ok(Box::new(Threaded(store)))
    }
}

#[derive(Clone)]
struct Store {
    state: Arc<Mutex<State>>,
    body: usize,
}

struct State {
    file: File,
    offset: u64,
    counters: Counters,
    ready: VecDeque<Vec<u8>>,
}

impl Verbs for Store {
    type Caller = Store;

    fn caller(&self) -> Result<Store> {
        Ok(self.clone())
    }

    fn counters(&self) -> Option<Counters> {
        Some(self.state.lock().counters)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Caller for Store {
    type Task = Vec<u8>;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.write(body)?;
        state.ready.push_back(body.to_vec());
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.state.lock().ready.pop_front())
    }

    fn wait(&mut self, _: Duration) -> Result<Option<Vec<u8>>> {
        self.take()
    }

    fn ack(&mut self, _: Vec<u8>) -> Result<()> {
        // An ack is a short record, even for a large body.
        self.state.lock().write(&vec![b'a'; self.body.min(128)])
    }
}

impl State {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        if self.offset + record.len() as u64 > FILE_SIZE {
            self.offset = 0;
        }
        self.file.seek(SeekFrom::Start(self.offset))?;
        self.file.write_all(record)?;
        self.file.sync_data()?;
        self.offset += record.len() as u64;
        self.counters.flushes += 1;
        self.counters.bytes_written += record.len() as u64;
        Ok(())
    }
}
