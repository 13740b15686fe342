//! The queue of this job and its tubes.
//!
//! - `files`: the files to hash. Each file has a number: its position in the order of paths. A file
//!   that could not be read is buried. The progress of the listing is also a task of this tube, with
//!   an unlimited delay, so that one atomic `put_many` stores a batch of files and the progress.
//! - `done`: the digests. The priority of each is the number of its file, so that the tube lists
//!   them in the order of paths without sorting.
//! - `failed`: the reasons for which files were buried.
//! - `over`: one task for each worker after the last file. It lives in memory, because it concerns
//!   only this run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::{
    Bincode, Codec, Cursor, Error, Filter, Put, Store, TaskInfo, TaskState, Tube, TubeOptions,
};

use crate::paths::{from_bytes, to_bytes};
use crate::{Failure, report};

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

/// The progress of the listing.
#[derive(Clone, Serialize, Deserialize)]
pub struct Listing {
    /// The directory that is listed.
    root: Vec<u8>,
    /// The number of files listed so far.
    pub listed: u32,
    /// The path of the last one.
    pub last: Vec<u8>,
    /// Whether all files are listed.
    pub complete: bool,
}

impl Queue {
    /// Opens the queue of an earlier run, or creates a new one.
    pub fn open(path: &Path, root: &Path) -> Result<(Queue, Listing), Failure> {
        let name = path.display();
        let store = Store::open(path).map_err(|error| match error {
            Error::InUse { .. } => {
                format!("{name} is in use by another run: wait for it, or name another --store")
            }
            other => other.to_string(),
        })?;
        // This store is removed at the end, so it must not belong to another program.
        if let Some(tube) = store.tubes()?.iter().find(|tube| !TUBES.contains(&tube.name.as_str()))
        {
            return Err(format!(
                "{name} has a tube {:?}: it belongs to another program",
                tube.name
            )
            .into());
        }
        let queue = Queue {
            files: store.tube("files")?,
            done: store.tube("done")?,
            failed: store.tube("failed")?,
            over: store.open_tube(OVER, TubeOptions::new().temporary(true))?,
            path: fs::canonicalize(path)?,
            store,
        };
        let root = to_bytes(root.as_os_str())?;
        let listing = match queue.listing()? {
            Some(listing) if listing.root != root => {
                let other = from_bytes(&listing.root);
                return Err(format!(
                    "{name} belongs to an unfinished run over {}: finish that run, remove the file, or name another --store",
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
        // Files that could not be read may be readable now.
        if queue.files.admin().kick(Filter::new())? > 0 {
            queue.failed.admin().truncate()?;
        }
        Ok((queue, listing))
    }

    /// The number of files that remain to be hashed.
    pub fn left(&self) -> Result<u32, Failure> {
        let tasks = self.files.statistics()?.tasks;
        Ok(u32::try_from(tasks.ready + tasks.taken + tasks.buried)?)
    }

    /// Puts files and the progress of the listing with one commit.
    pub fn record(&self, files: &[(u32, Vec<u8>)], listing: &Listing) -> Result<(), Failure> {
        let older = self.files.query().list(TaskState::Delayed, None, PAGE)?.items;
        let files = files.iter().map(|file| Ok(Put::new(Bincode.encode(file)?)));
        let progress = Put::new(Bincode.encode(listing)?).delay(Duration::MAX);
        self.files.put_many(files.chain([Ok(progress)]).collect::<Result<Vec<_>, Failure>>()?)?;
        for task in older {
            self.files.delete(task.id)?;
        }
        Ok(())
    }

    /// The latest progress of the listing. There are two if a run was killed between putting the
    /// new one and deleting the old one.
    fn listing(&self) -> Result<Option<Listing>, Failure> {
        let latest = self
            .files
            .query()
            .list(TaskState::Delayed, None, PAGE)?
            .items
            .into_iter()
            .map(|task| task.id)
            .max();
        let Some(id) = latest else { return Ok(None) };
        Ok(Some(Bincode.decode(&self.files.query().task(id)?.body)?))
    }

    /// Puts one task for each worker that ends it.
    pub fn dismiss(&self, workers: usize) -> Result<(), Failure> {
        self.over.put_many(vec!["done"; workers])?;
        Ok(())
    }

    /// Reports why files could not be read, in the order of their paths, and returns their number.
    pub fn report_unread(&self) -> Result<u32, Failure> {
        let mut unread = 0;
        for task in tasks(&self.failed) {
            let reason = self.failed.query().task(task?.id)?.body;
            report(String::from_utf8_lossy(&reason));
            unread += 1;
        }
        Ok(unread)
    }

    /// The path of the store relative to this directory, if the store is inside it.
    pub fn path_below(&self, root: &Path) -> Option<Vec<u8>> {
        let below = self.path.strip_prefix(root).ok()?;
        let names: Vec<_> = below.iter().map(to_bytes).collect::<Result<_, _>>().ok()?;
        Some(names.join(&b'/'))
    }
}

/// The ready tasks of a tube, in order, read in pages.
pub fn tasks(tube: &Tube) -> impl Iterator<Item = Result<TaskInfo, Failure>> {
    let mut next: Option<Option<Cursor>> = Some(None);
    let pages = std::iter::from_fn(move || {
        let page = tube.query().list(TaskState::Ready, next.take()?, PAGE);
        Some(match page {
            Ok(page) => {
                next = page.next.map(Some);
                page.items.into_iter().map(Ok).collect::<Vec<_>>()
            }
            Err(error) => vec![Err(error.into())],
        })
    });
    pages.flatten()
}
