//! The queue of this job and its tubes.
//!
//! - `listing`: one task, the progress of the listing. Its job puts a batch of files and goes on in the
//!   same tube, with one commit. It stays, with an unlimited delay, when all files are listed.
//! - `files`: the files to hash. Each file has a number: its position in the order of paths. A file
//!   that could not be read is buried.
//! - `done`: the digests. The priority of each is the number of its file, so that the tube lists
//!   them in the order of paths without sorting.
//! - `failed`: the reasons for which files were buried, in the same order.
//!
//! A change returns when it is written to the file, and is flushed within 50 ms: SIGKILL loses nothing,
//! and after a power cut the newest files are hashed again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tubewell::{
    Bincode, Codec, Cursor, Durability, Error, Filter, Store, TaskInfo, TaskState, Tube,
};

use crate::paths::{from_bytes, to_bytes};
use crate::{Failure, report};

const TUBES: [&str; 4] = ["done", "failed", "files", "listing"];
const PAGE: usize = 1000;

/// A number, and a path relative to the directory.
pub type FileToHash = (u32, Vec<u8>);

#[derive(Clone)]
pub struct Queue {
    pub store: Store,
    pub listing: Tube<Listing>,
    pub files: Tube<FileToHash>,
    pub done: Tube,
    pub failed: Tube,
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
        let options = Store::options().durability(Durability::write());
        let store = options.open(path).map_err(|error| match error {
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
            listing: store.tube("listing")?.typed_with(Bincode),
            files: store.tube("files")?.typed_with(Bincode),
            done: store.tube("done")?,
            failed: store.tube("failed")?,
            path: fs::canonicalize(path)?,
            store,
        };
        let root = to_bytes(root.as_os_str())?;
        let listing = match queue.progress()? {
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
                queue.listing.put(&listing)?;
                listing
            }
        };
        // What has failed in an earlier run may succeed now.
        queue.listing.admin().kick(Filter::new())?;
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

    /// The progress of the listing, if it has begun.
    fn progress(&self) -> Result<Option<Listing>, Failure> {
        let begun = self.listing.query().list(Filter::new(), None, 1)?.items;
        let Some(task) = begun.first() else { return Ok(None) };
        Ok(Some(Bincode.decode(&self.listing.query().task(task.id)?.body)?))
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
