//! The SHA-256 of every file under a directory, as `sha256sum` prints it, with a queue that survives
//! SIGKILL.
//!
//! `cargo run --release --example checksum -- DIR`. Kill it halfway and start it again in the same
//! directory with the same arguments: it resumes, hashes the remaining files, and prints the
//! manifest of all files.
//!
//! All durable state is in the queue. A worker runs jobs on all cores: one walks DIR and puts each file
//! as a task, the others hash the files and put the lines of the manifest; at the end the lines are read
//! in order. Memory holds a batch of paths, the names of the open directories and a task for each
//! thread; no part of it grows with the number of files, not even for sorting (see `queue.rs`).

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
use std::time::Duration;
use std::{fmt, fs, io, thread};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use args::{Args, Asked};
use queue::Queue;

/// An error message for the user.
type Failure = Box<dyn std::error::Error + Send + Sync>;

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

    let threads = args.workers.or(thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let bar = progress(listing.listed, before)?;
    let hashed = worker::run(&queue, &root, &bar, threads);
    bar.finish_and_clear();
    let hashed = hashed?;

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
