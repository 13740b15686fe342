//! The SHA-256 of every file under a directory, as `sha256sum` prints it, by a queue that survives
//! SIGKILL.
//!
//! `cargo run --release --example checksum -- DIR`. Kill it half-way and start it again in the same
//! place with the same arguments: it goes on, hashes what is left, and prints the manifest of all.
//!
//! Everything that is to survive is in the queue. One thread walks DIR and puts every file as a
//! task; all cores take tasks and put their lines; at the end the lines are read in order. Memory
//! holds a batch of paths, the names of the directories that are open and a few tasks for each
//! worker; nothing in it grows with the number of files, not even for sorting (see `queue.rs`).

mod args;
mod manifest;
mod paths;
mod queue;
mod walk;
mod worker;

use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fmt, fs, io, thread};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use args::{Args, Asked};
use queue::{Listing, Queue};
use walk::Walk;

/// What went wrong, in plain words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Files that are put with one commit.
const BATCH: usize = 1000;

fn main() -> ExitCode {
    let asked = match args::parse() {
        Ok(Asked::Run(args)) => args,
        Ok(Asked::Help) => {
            // Whoever stops reading has read enough.
            let _ = io::stdout().write_all(args::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            tell(format_args!("{wrong} (--help tells more)"));
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            tell(failure);
            ExitCode::FAILURE
        }
    }
}

/// Says something on standard error; if nobody listens there, the work goes on all the same.
fn tell(what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "checksum: {what}");
}

/// Does everything. False if some files could not be read, which has been said then.
fn run(args: &Args) -> Result<bool, Failure> {
    let root = directory(&args.dir)?;
    let store = args.store.clone().unwrap_or_else(|| default_store(&root));
    let (queue, listing) = Queue::open(&store, &root)?;
    tell(format_args!("the queue is in {}", store.display()));
    let before = listing.listed - queue.left()?;
    if listing.listed > 0 {
        tell(format_args!("going on after an earlier run, {before} files are done already"));
    }

    let hashed = hash_all(args, &queue, listing, &root, before)?;

    if let Err(error) = manifest::print(&queue, &args.dir, io::stdout().lock()) {
        let why = match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::BrokenPipe) => "the reader of the manifest went away".into(),
            _ => format!("the manifest is not complete: {error}"),
        };
        let store = store.display();
        return Err(format!("{why}; the same command prints it again from {store}").into());
    }
    let unread = queue.report_unread()?;
    tell(format_args!("{hashed} files hashed in this run, {before} done before"));
    queue.store.close()?;
    if unread > 0 {
        tell(format_args!("{unread} could not be read; the same command tries just these again"));
        tell(format_args!("the others are kept in {}: remove it to begin anew", store.display()));
        return Ok(false);
    }
    fs::remove_file(&store).map_err(|why| format!("cannot remove {}: {why}", store.display()))?;
    Ok(true)
}

/// Lists what is not listed yet, hashes what is not hashed yet. Answers how many were hashed.
fn hash_all(
    args: &Args,
    queue: &Queue,
    listing: Listing,
    root: &Path,
    before: u32,
) -> Result<u32, Failure> {
    let workers = args.workers.or(thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let bar = progress(listing.listed, before)?;
    let hashed = AtomicU32::new(0);
    let done = || {
        hashed.fetch_add(1, Ordering::Relaxed);
        bar.inc(1);
    };
    // Whoever fails closes the store, and that wakes all others.
    let stop = |failure| {
        let _ = queue.store.close();
        failure
    };
    let outcomes = thread::scope(|scope| {
        let work = || worker::work(queue, root, &done).map_err(stop);
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let listed =
            list(queue, listing, root, &bar).and_then(|()| queue.dismiss(workers)).map_err(stop);
        let joined = running.into_iter().map(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.chain([listed]).collect::<Vec<_>>()
    });
    bar.finish_and_clear();
    // That the store was closed is the consequence; the cause is somebody else's.
    let (closed, causes): (Vec<_>, Vec<_>) = outcomes
        .into_iter()
        .filter_map(Result::err)
        .partition(|failure| matches!(failure.downcast_ref(), Some(tubewell::Error::Closed)));
    match causes.into_iter().chain(closed).next() {
        Some(failure) => Err(failure),
        None => Ok(hashed.into_inner()),
    }
}

/// A progress bar on a terminal, and to anything else one that draws nothing.
fn progress(listed: u32, before: u32) -> Result<ProgressBar, Failure> {
    let rate = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let hashed = u128::from(state.pos().saturating_sub(before.into()));
        // Nobody is told of a line that could not be drawn.
        let _ = write!(out, "{}", hashed * 1000 / state.elapsed().as_millis().max(1));
    };
    let line = "{wide_bar} {pos} of {len} files, {rate} a second, {eta} left";
    let bar = ProgressBar::new(listed.into())
        .with_style(ProgressStyle::with_template(line)?.with_key("rate", rate))
        .with_position(before.into());
    bar.reset_eta();
    if !bar.is_hidden() {
        // Large files take their time, and the bar is to live meanwhile.
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    Ok(bar)
}

/// Puts every file that an earlier run has not put, in the order of their paths.
fn list(
    queue: &Queue,
    mut listing: Listing,
    root: &Path,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    if listing.complete {
        return Ok(());
    }
    let mut walk = Walk::new(root, &listing.last, queue.path_below(root));
    while !listing.complete {
        let mut batch = Vec::with_capacity(BATCH);
        for path in walk.by_ref().take(BATCH) {
            let path = path?;
            listing.last.clone_from(&path);
            batch.push((listing.listed, path));
            listing.listed = listing
                .listed
                .checked_add(1)
                .ok_or("there are more than 4,294,967,295 files, which is the limit")?;
        }
        listing.complete = batch.len() < BATCH;
        queue.record(&batch, &listing)?;
        bar.set_length(listing.listed.into());
    }
    Ok(())
}

/// DIR without links and dots, if it is a directory.
fn directory(dir: &Path) -> Result<PathBuf, Failure> {
    let name = dir.display();
    let known = fs::metadata(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{name}: there is no such directory"),
        _ => format!("{name}: {error}"),
    })?;
    if !known.is_dir() {
        return Err(format!("{name} is not a directory").into());
    }
    Ok(fs::canonicalize(dir).map_err(|error| format!("{name}: {error}"))?)
}

/// A hidden file in the current directory, named after DIR.
fn default_store(root: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".checksum-");
    name.push(root.file_name().unwrap_or("root".as_ref()));
    name.push(".tubewell");
    name.into()
}
