//! The worker: its jobs list the directory and hash the files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tubewell::worker::Report;
use tubewell::{Backoff, Job, Outcome, Put, Worker};

use crate::Failure;
use crate::manifest::Line;
use crate::paths::from_bytes;
use crate::queue::{FileToHash, Listing, Queue};
use crate::walk::Walk;

/// The number of files that one commit puts.
const BATCH: usize = 1000;
const BUFFER: usize = 64 << 10;

/// What the jobs share.
struct Work {
    queue: Queue,
    root: PathBuf,
    bar: ProgressBar,
    /// After the last file that was listed.
    walk: Mutex<Option<Walk>>,
}

/// Lists and hashes the remaining files. Returns how many were hashed.
pub fn run(
    queue: &Queue,
    root: &Path,
    bar: &ProgressBar,
    concurrency: usize,
) -> Result<u64, Failure> {
    let work = Arc::new(Work {
        queue: queue.clone(),
        root: root.to_owned(),
        bar: bar.clone(),
        walk: Mutex::default(),
    });
    let lists = work.clone();
    let worker = Worker::new(&queue.store)
        .on(&queue.listing, move |job: &Job<Listing>| lists.list(job))
        .on(&queue.files, move |job: &Job<FileToHash>| work.hash(job))
        .concurrency(concurrency)
        .backoff(Backoff::none());
    // The first failure ends the run: it is about the store or the directory, not about a file.
    let (stopper, failure) = (worker.stopper(), Arc::new(Mutex::new(None)));
    let first = failure.clone();
    let worker = worker.watch(move |report| {
        let why = match report {
            Report::Ended { failure: Some(failure), .. } => failure.message().to_owned(),
            Report::Ended { .. } => return,
            Report::Error(error) => error.to_string(),
            other => format!("{other:?}"),
        };
        lock(&first).get_or_insert(why);
        stopper.stop();
    });
    let tally = worker.run_until_idle();
    let failure = lock(&failure).take();
    match failure {
        Some(why) => Err(why.into()),
        None => Ok(tally?.done),
    }
}

impl Work {
    /// Puts the next files, in the order of their paths, and the progress with one commit.
    fn list(&self, job: &Job<Listing>) -> Result<Outcome, Failure> {
        let mut listing = job.value().clone();
        let mut walk = lock(&self.walk);
        if job.attempt() > 1 {
            *walk = None; // it is past the files that were not put
        }
        let except = || self.queue.path_below(&self.root);
        let walk = walk.get_or_insert_with(|| Walk::new(&self.root, &listing.last, except()));
        let mut batch = Vec::with_capacity(BATCH);
        for path in walk.take(BATCH) {
            let path = path?;
            listing.last.clone_from(&path);
            batch.push((listing.listed, path));
            listing.listed = listing
                .listed
                .checked_add(1)
                .ok_or("there are more than 4,294,967,295 files, which is the limit")?;
        }
        listing.complete = batch.len() < BATCH;
        self.bar.set_length(listing.listed.into());
        let delay = if listing.complete { Duration::MAX } else { Duration::ZERO };
        let end = Outcome::advance(&self.queue.listing, Put::new(listing).delay(delay));
        Ok(batch.into_iter().fold(end, |end, file| end.and_put(&self.queue.files, file)))
    }

    /// Puts the digest of a file, or why it could not be read, with the end of its task.
    fn hash(&self, job: &Job<FileToHash>) -> Outcome {
        let (number, path) = job.value();
        match digest(&self.root.join(from_bytes(path)), path.ends_with(b"/")) {
            Ok(digest) => {
                self.bar.inc(1);
                let line = Line { digest, path };
                let line = Put::new(line.to_body()).priority(*number);
                Outcome::done().and_put(&self.queue.done, line)
            }
            Err(why) => {
                let reason = format!("cannot read {}: {why}", from_bytes(path).display());
                let reason = Put::new(reason).priority(*number);
                Outcome::bury(None).and_put(&self.queue.failed, reason)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest(path: &Path, unlisted: bool) -> io::Result<[u8; 32]> {
    if unlisted {
        fs::read_dir(path)?;
        return Err(io::Error::other(
            "it could not be listed before; remove the store to start over",
        ));
    }
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
