//! Opening the store that a command is about, and its tubes.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tubewell::{Claim, Error, Store, StoreOptions, Tube};

use crate::args::Cli;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::note;
use crate::{duration, owner};

/// How often a store that is in use is tried.
const AGAIN: Duration = Duration::from_millis(20);

/// A hold that is shorter may be over before anything can be done with the task.
const LEAST_HOLD: Duration = Duration::from_millis(10);

/// After so long somebody wonders what is going on.
const LONG: Duration = Duration::from_secs(1);

/// The store's path, or how to give one.
pub fn path_of(given: Option<&PathBuf>) -> Outcome<&Path> {
    match given {
        Some(path) if !path.as_os_str().is_empty() => Ok(path),
        _ => Err(Failure::usage("no store is named")
            .hint("give --store FILE, or set TUBEWELL_STORE to it")),
    }
}

/// Opens a store that is there. Only `create` makes one.
pub fn open(path: &Path, cli: &Cli) -> Outcome<Store> {
    must_exist(path)?;
    create(path, cli)
}

/// Opens a store, or makes one.
pub fn create(path: &Path, cli: &Cli) -> Outcome<Store> {
    if std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Err(no_file(path));
    }
    let options = || StoreOptions::default().trust_wall_clock(cli.trust_wall_clock);
    let store = patiently(cli, || options().open(path));
    let store = store.map_err(|error| refused(path, error))?;
    let clocks = store.clock_report();
    if let Some(doubted) = clocks.untrusted {
        note(&self::doubted(doubted.saturating_sub(clocks.timeline)));
    }
    Ok(store)
}

/// That the wall clock is so far ahead that nothing is made of it.
pub fn doubted(ahead: Duration) -> String {
    format!(
        "the wall clock is {} beyond the last commit and not believed: delays and ttls go on as if no time had passed; if it is right, give --trust-wall-clock",
        duration::show(ahead)
    )
}

/// Does what fell due while nobody had the store open, so that a command sees things as they are.
pub fn catch_up(store: &Store) -> Outcome {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(move || {
                if waits.recv_timeout(LONG) == Err(RecvTimeoutError::Timeout) {
                    note("doing what fell due while nobody had the store open");
                }
            });
        }
        let caught_up = store.catch_up();
        drop(done);
        caught_up
    })?;
    Ok(())
}

/// Opens a file, again and again while another process has it, as long as there is patience.
pub fn patiently<T>(
    cli: &Cli,
    mut open: impl FnMut() -> tubewell::Result<T>,
) -> tubewell::Result<T> {
    let mut left = cli.patience;
    loop {
        match open() {
            // No system tells that a lock is free but by giving it.
            Err(Error::InUse { .. }) if !left.is_zero() => {
                let pause = AGAIN.min(left);
                std::thread::park_timeout(pause);
                left -= pause;
            }
            opened => return opened,
        }
    }
}

/// Whether it is a file with nothing in it.
pub fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// That there is a file with something in it. An empty one would silently become a store.
pub fn must_exist(path: &Path) -> Outcome {
    let what = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no store at",
        Ok(_) if is_empty(path) => "nothing is in",
        Ok(file) if !file.is_file() && !file.is_dir() => return Err(no_file(path)),
        // Whatever else is wrong with it, opening it will tell.
        _ => return Ok(()),
    };
    Err(Failure::new(Exit::Missing, format!("{what} {}", path.display()))
        .hint(format!("make one with `tubewell --store {} create TUBE`", path.display())))
}

/// A store is no device and no pipe: those might not even answer.
fn no_file(path: &Path) -> Failure {
    Failure::new(Exit::Missing, format!("{} is no regular file, a store is one", path.display()))
}

/// Why a store does not open.
pub fn refused(path: &Path, error: Error) -> Failure {
    match error {
        Error::InUse { .. } => {
            let name = path.display();
            let who = owner::of(path).unwrap_or_else(|| "another process".into());
            Failure::new(Exit::InUse, format!("{name} is in use by {who}"))
                .hint("one process at a time has a store: end it, or wait with --patience 10s")
        }
        Error::Corrupt { .. } => Failure::from(error)
            .hint("`tubewell export` saves what can be read of it; or go back to a backup"),
        error => error.into(),
    }
}

/// Opens a tube; one that is not there may just be misspelt.
pub fn tube(store: &Store, name: &str) -> Outcome<Tube> {
    store.tube(name).map_err(|error| match error {
        Error::TubeNotFound { .. } => unknown_tube(store, name),
        error => error.into(),
    })
}

/// A tube that tasks are put into. Those of a temporary one would be gone when the command ends.
pub fn tube_to_fill(store: &Store, name: &str) -> Outcome<Tube> {
    let tube = tube(store, name)?;
    if store.tubes().iter().any(|tube| tube.name == name && tube.temporary) {
        let why = format!("{name} keeps its tasks in memory only: they would end with the command");
        return Err(Failure::usage(why).hint("only the application that has the store can fill it"));
    }
    Ok(tube)
}

/// Holds a task without an end; false if the hold that it was taken for is over, and it is ready.
///
/// The end of a hold is there for workers that are gone, and this process takes its claims with it
/// when it goes. So it may stand still, by Ctrl-Z or before a slow reader.
pub fn hold(store: &Store, claim: &Claim) -> Outcome<bool> {
    match claim.renew(Duration::MAX) {
        Ok(()) | Err(Error::Unsupported { .. }) => return Ok(true),
        Err(Error::NotTaken { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Tried again it may be held, unless its hold ends whenever it begins.
    let (id, name) = (claim.id(), claim.tube());
    let ttr = match tube(store, name)?.peek(id) {
        Ok(task) => task.info.ttr,
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(ttr) = ttr.filter(|ttr| *ttr < LEAST_HOLD) else { return Ok(false) };
    let ttr = duration::show(ttr);
    let why = format!("task {id} of {name} has a ttr of {ttr}: nobody can hold it");
    Err(Failure::new(Exit::Refused, why).hint(format!(
        "`tubewell bury {name} {id}` sets it aside; ttrs are given with put --ttr or create --ttr"
    )))
}

/// Closes the store: everything is in the file once this returns.
pub fn close(store: &Store) -> Outcome {
    store.close().map_err(|error| Failure::from(error).about("closing the store"))
}

pub fn unknown_tube(store: &Store, name: &str) -> Failure {
    let names: Vec<String> = store.tubes().into_iter().map(|tube| tube.name).collect();
    let failure = Failure::new(Exit::Missing, format!("there is no tube {name:?}"));
    let near = names
        .iter()
        .map(|other| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), other)
        })
        .filter(|(distance, other)| *distance <= 2.max(other.chars().count() / 3))
        .min();
    match near {
        Some((_, near)) => failure.hint(format!("did you mean {near:?}?")),
        None if names.is_empty() => failure.hint(format!("make it with `tubewell create {name}`")),
        None => failure.hint(format!(
            "`tubewell tubes` lists those there are; `tubewell create {name}` makes it"
        )),
    }
}
