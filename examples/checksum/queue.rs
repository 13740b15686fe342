//! The queue of this job: its tubes, and what is kept where.
//!
//! - `files`: what is left to hash. Each file has a place, its number in the order of paths.
//!   A file that could not be read is buried there. How far the listing has come is a task in it
//!   too, delayed for ever: so one atomic `put_many` stores a batch of files and how far it goes.
//! - `done`: the digests. The priority of each is its place, so that the tube lists them in the
//!   order of paths and nobody has to sort them.
//! - `failed`: why files were buried.
//! - `over`: one task for each worker when there is nothing more to come. In memory: it is about
//!   this run only.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::{
    Bincode, Codec, Cursor, Error, FIFO, FIFOTTL, Put, State, Store, TaskInfo, Tube, TubeOptions,
};

use crate::paths::{from_bytes, to_bytes};
use crate::{Failure, tell};

pub const OVER: &str = "over";
const TUBES: [&str; 4] = ["done", "failed", "files", OVER];
const PAGE: usize = 1000;

pub struct Queue {
    pub store: Store,
    pub files: Tube,
    pub done: Tube,
    pub failed: Tube,
    pub over: Tube,
    path: PathBuf,
}

/// How far the listing has come.
#[derive(Clone, Serialize, Deserialize)]
pub struct Listing {
    /// The directory that this is about.
    root: Vec<u8>,
    /// How many files were listed.
    pub listed: u32,
    /// The last one of them.
    pub last: Vec<u8>,
    /// Whether that was all.
    pub complete: bool,
}

impl Queue {
    /// Opens the queue of an earlier run, or makes a new one.
    pub fn open(path: &Path, root: &Path) -> Result<(Queue, Listing), Failure> {
        let name = path.display();
        let store = Store::open(path).map_err(|error| match error {
            Error::InUse { .. } => format!(
                "{name} is in use: another run is at work on it; wait, or name another --store"
            ),
            other => other.to_string(),
        })?;
        // This store will be removed in the end: it had better not be somebody else's.
        if let Some(tube) = store.tubes().iter().find(|tube| !TUBES.contains(&tube.name.as_str())) {
            return Err(format!(
                "{name} has a tube {:?}: it belongs to another program",
                tube.name
            )
            .into());
        }
        let anew = TubeOptions::new().if_not_exists(true);
        let queue = Queue {
            files: store.create_tube("files", FIFOTTL, anew.clone())?,
            done: store.create_tube("done", FIFOTTL, anew.clone())?,
            failed: store.create_tube("failed", FIFOTTL, anew.clone())?,
            over: store.create_tube(OVER, FIFO, anew.temporary(true))?,
            path: fs::canonicalize(path)?,
            store,
        };
        let root = to_bytes(root.as_os_str())?;
        let listing = match queue.listing()? {
            Some(listing) if listing.root != root => {
                let other = from_bytes(&listing.root);
                return Err(format!(
                    "{name} belongs to an unfinished run over {}: finish or remove that, or name another --store",
                    other.display()
                )
                .into());
            }
            Some(listing) => listing,
            None => {
                let listing = Listing { root, listed: 0, last: Vec::new(), complete: false };
                queue.record(&[], &listing)?;
                listing
            }
        };
        // What could not be read may be readable now.
        if queue.files.kick(u64::MAX)? > 0 {
            queue.failed.truncate()?;
        }
        Ok((queue, listing))
    }

    /// Files that are left to hash.
    pub fn left(&self) -> Result<u32, Failure> {
        let tasks = self.files.statistics()?.tasks;
        Ok(u32::try_from(tasks.ready + tasks.taken + tasks.buried)?)
    }

    /// Puts files, and with the same commit how far the listing has come with them.
    pub fn record(&self, files: &[(u32, Vec<u8>)], listing: &Listing) -> Result<(), Failure> {
        let older = self.files.list(State::Delayed, None, PAGE)?.tasks;
        let files = files.iter().map(|file| Ok(Put::new(Bincode::encode(file)?)));
        let far = Put::new(Bincode::encode(listing)?).delay(Duration::MAX);
        self.files.put_many(files.chain([Ok(far)]).collect::<Result<Vec<_>, Error>>()?)?;
        for task in older {
            self.files.delete(task.id)?;
        }
        Ok(())
    }

    /// The latest word on how far the listing has come. There are two, if a run was killed between
    /// putting the one and deleting the other.
    fn listing(&self) -> Result<Option<Listing>, Failure> {
        let latest = self
            .files
            .list(State::Delayed, None, PAGE)?
            .tasks
            .into_iter()
            .map(|task| task.id)
            .max();
        let Some(id) = latest else { return Ok(None) };
        Ok(Some(Bincode::decode(&self.files.peek(id)?.data)?))
    }

    /// Tells the workers that there is nothing more to come.
    pub fn dismiss(&self, workers: usize) -> Result<(), Failure> {
        self.over.put_many(vec!["done"; workers])?;
        Ok(())
    }

    /// Says why files could not be read, in the order of their paths, and how many they are.
    pub fn report_unread(&self) -> Result<u32, Failure> {
        let mut unread = 0;
        for task in tasks(&self.failed) {
            let reason = self.failed.peek(task?.id)?.data;
            tell(String::from_utf8_lossy(&reason));
            unread += 1;
        }
        Ok(unread)
    }

    /// The path of the store below this directory, if it is in it.
    pub fn path_below(&self, root: &Path) -> Option<Vec<u8>> {
        let below = self.path.strip_prefix(root).ok()?;
        let names: Vec<_> = below.iter().map(to_bytes).collect::<Result<_, _>>().ok()?;
        Some(names.join(&b'/'))
    }
}

/// The ready tasks of a tube, in order, a page at a time.
pub fn tasks(tube: &Tube) -> impl Iterator<Item = Result<TaskInfo, Failure>> {
    let mut next: Option<Option<Cursor>> = Some(None);
    let pages = std::iter::from_fn(move || {
        let page = tube.list(State::Ready, next.take()?, PAGE);
        Some(match page {
            Ok(page) => {
                next = page.next.map(Some);
                page.tasks.into_iter().map(Ok).collect::<Vec<_>>()
            }
            Err(error) => vec![Err(error.into())],
        })
    });
    pages.flatten()
}
