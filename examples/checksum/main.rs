//! The SHA-256 of every file under a directory, as `sha256sum` prints it, with a queue that survives
//! SIGKILL.
//!
//! `cargo run --release --example checksum -- DIR`. Kill it halfway and start it again in the same
//! directory with the same arguments: it resumes, hashes the remaining files, and prints the
//! manifest of all files.
//!
//! All durable state is in the queue. One thread walks DIR and puts each file as a task; all cores
//! take tasks and put the lines of the manifest; at the end the lines are read in order. Memory
//! holds a batch of paths, the names of the open directories and a few tasks for each worker; no
//! part of it grows with the number of files, not even for sorting (see `queue.rs`).

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

/// An error message for the user.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of files that one commit puts.
const BATCH: usize = 1000;

fn main() -> ExitCode {
    let asked = match args::parse() {
        Ok(Asked::Run(args)) => args,
        Ok(Asked::Help) => {
            // A reader that closes the pipe is not an error.
            let _ = io::stdout().write_all(args::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            report(format_args!("{wrong} (see --help)"));
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            report(failure);
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on standard error. The program continues if the line cannot be written.
fn report(what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "checksum: {what}");
}

/// Runs the whole job. False if some files could not be read; they have been reported then.
fn run(args: &Args) -> Result<bool, Failure> {
    let root = directory(&args.dir)?;
    let store = args.store.clone().unwrap_or_else(|| default_store(&root));
    let (queue, listing) = Queue::open(&store, &root)?;
    report(format_args!("the queue is in {}", store.display()));
    let before = listing.listed - queue.left()?;
    if listing.listed > 0 {
        report(format_args!("resuming an earlier run, {before} files are already done"));
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
    report(format_args!("{hashed} files hashed in this run, {before} done before"));
    queue.store.close()?;
    if unread > 0 {
        report(format_args!("{unread} could not be read; the same command retries only these"));
        report(format_args!(
            "the other digests are in {}: remove it to start over",
            store.display()
        ));
        return Ok(false);
    }
    fs::remove_file(&store).map_err(|why| format!("cannot remove {}: {why}", store.display()))?;
    Ok(true)
}

/// Lists and hashes the remaining files. Returns how many were hashed.
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
    // A thread that fails closes the store, which ends the waits of the other threads.
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
    // `Closed` is a consequence; the cause is the error of another thread.
    let (closed, causes): (Vec<_>, Vec<_>) = outcomes
        .into_iter()
        .filter_map(Result::err)
        .partition(|failure| matches!(failure.downcast_ref(), Some(tubewell::Error::Closed)));
    match causes.into_iter().chain(closed).next() {
        Some(failure) => Err(failure),
        None => Ok(hashed.into_inner()),
    }
}

/// A progress bar on a terminal; elsewhere it draws nothing.
fn progress(listed: u32, before: u32) -> Result<ProgressBar, Failure> {
    let rate = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let hashed = u128::from(state.pos().saturating_sub(before.into()));
        // An error while drawing the bar is ignored.
        let _ = write!(out, "{}", hashed * 1000 / state.elapsed().as_millis().max(1));
    };
    let line = "{wide_bar} {pos} of {len} files, {rate} a second, {eta} left";
    let bar = ProgressBar::new(listed.into())
        .with_style(ProgressStyle::with_template(line)?.with_key("rate", rate))
        .with_position(before.into());
    bar.reset_eta();
    if !bar.is_hidden() {
        // Keeps the bar moving while a large file is hashed.
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

/// The canonical path of DIR, if it is a directory.
fn directory(dir: &Path) -> Result<PathBuf, Failure> {
    let name = dir.display();
    let known = fs::metadata(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{name}: no such directory"),
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
