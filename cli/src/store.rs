//! Opens the store and the tube that a command is about.

use std::cell::OnceCell;
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tubewell::{
    Claim, Error, FIFOTTL, LIMFIFOTTL, Receipt, Statistics, Store, StoreOptions, TaskState, Tube,
    TubeInfo, UTUBETTL, Update,
};

use crate::args::Cli;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::note;
use crate::progress::Progress;
use crate::{connection, duration, owner};

/// How often `--patience` tries to open a store that is in use.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A claim with a shorter ttr may expire before `work` can start a command.
const MIN_TTR: Duration = Duration::from_millis(10);

/// How long due work may take before its progress is shown.
const SLOW: Duration = Duration::from_secs(1);

/// How many tubes a hint names.
const NAMED_TUBES: usize = 5;

/// The store that the command line names.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    File(&'a Path),
    /// The address of an owner.
    Owner(&'a str),
}

impl<'a> Place<'a> {
    /// The place that the command line names.
    pub fn of(cli: &'a Cli) -> CommandResult<Place<'a>> {
        match &cli.connect {
            Some(url) => Ok(Place::Owner(url)),
            None if cli.trust_user.is_some() => Err(Failure::usage("--trust-user needs --connect")
                .hint("without it, a process of the user of the store's file is trusted")),
            None => path(cli.store.as_ref()).map(Place::File),
        }
    }

    /// The file, for a command that works on it without an owner.
    pub fn file(self, command: &str) -> CommandResult<&'a Path> {
        match self {
            Place::File(path) => Ok(path),
            Place::Owner(_) => Err(Failure::usage(format!(
                "{command} needs the file itself, not its owner"
            ))
            .hint("give --store FILE; a process that has it open must serve it at FILE.sock")),
        }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Owner(url) => f.write_str(url),
        }
    }
}

/// The path of the store.
pub fn path(named: Option<&PathBuf>) -> CommandResult<&Path> {
    match named {
        Some(path) if !path.as_os_str().is_empty() => Ok(path),
        _ => Err(Failure::usage("no store is named")
            .hint("give --store FILE, set TUBEWELL_STORE, or give --connect URL")),
    }
}

/// Opens an existing store, or connects to its owner.
pub fn open(place: Place<'_>, cli: &Cli) -> CommandResult<Store> {
    if let Place::File(path) = place {
        // An owner whose file is gone says so: to `put` and `stats` as to `create`.
        if let Some(store) = owner_of(path, cli)? {
            return Ok(store);
        }
        must_exist(path)?;
    }
    open_or_create(place, cli)
}

/// As `open`; creates the store if it does not exist.
pub fn open_or_create(place: Place<'_>, cli: &Cli) -> CommandResult<Store> {
    let path = match place {
        Place::Owner(url) => {
            let store = owner::connect(url, cli.secret_file.as_deref(), cli.trust_user)?;
            note_owners_clock(&store)?;
            return Ok(store);
        }
        Place::File(path) => path,
    };
    if let Some(store) = owner_of(path, cli)? {
        return Ok(store);
    }
    // The owner may begin to serve the store while this waits.
    match open_file(path, cli, || !cli.no_socket && owner::socket_of(path).is_some()) {
        Err(failure) if failure.exit == Exit::InUse => owner_of(path, cli)?.ok_or(failure),
        opened => opened,
    }
}

/// Opens the file, or creates it. `is_enough`: see `retry_in_use`.
pub fn open_file(path: &Path, cli: &Cli, is_enough: impl Fn() -> bool) -> CommandResult<Store> {
    if std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Err(no_regular_file(path));
    }
    let options = || {
        StoreOptions::default()
            .trust_wall_clock(cli.trust_wall_clock)
            .hold_due_work(cli.command.acts_first())
    };
    let store = retry_in_use(cli, is_enough, || options().open(path));
    let store = store.map_err(|error| open_failure(path, error))?;
    let clocks = store.admin().clock_report()?;
    if let Some(wall) = clocks.untrusted {
        note(&untrusted_clock(wall.saturating_sub(clocks.timeline)));
    }
    if let Some(by) = clocks.set_back {
        note(&clock_set_back(by));
    }
    Ok(store)
}

/// A connection to the owner of the file, if it serves the store.
fn owner_of(path: &Path, cli: &Cli) -> CommandResult<Option<Store>> {
    let store = owner::of_file(path, cli.no_socket)?;
    store.iter().try_for_each(note_owners_clock)?;
    Ok(store)
}

/// Says that the owner of a store does not trust its wall clock.
fn note_owners_clock(store: &Store) -> tubewell::Result<()> {
    let clocks = store.admin().clock_report()?;
    if let Some(wall) = clocks.untrusted {
        note(&format!(
            "the wall clock is {} ahead of the time of the store, whose owner does not trust it: delays \
             and ttls did not elapse meanwhile, and moments do not follow it; if the clock is right, end the \
             owner, run a command with --trust-wall-clock, and start the owner again",
            duration::show(wall.saturating_sub(clocks.timeline))
        ));
    }
    Ok(())
}

pub use tubewell_json::record::now;

/// The remark that the wall clock is not trusted.
pub fn untrusted_clock(ahead: Duration) -> String {
    format!(
        "the wall clock is {} ahead of the last commit and not trusted: no delay or ttl has elapsed \
         since then; if the clock is right, give --trust-wall-clock",
        duration::show(ahead)
    )
}

/// The remark that the wall clock was set back, once.
fn clock_set_back(by: Duration) -> String {
    format!(
        "the wall clock was set back and is {} behind the time of the store: how long the store was \
         closed is not known and counts as no time; from now on it goes by the clock as it is",
        duration::show(by)
    )
}

/// Makes the changes that fell due while the store was closed, so that a command sees their results. An owner has
/// made them, and makes those that fall due now by itself.
pub fn catch_up(store: &Store) -> CommandResult {
    if connection::owner().is_some() { Ok(()) } else { catch_up_now(store) }
}

/// Makes the changes that are due now, also if the store is that of another process.
pub fn catch_up_now(store: &Store) -> CommandResult {
    let progress = OnceCell::new();
    let began = Progress::hidden();
    store.admin().catch_up_with(|done| {
        if began.elapsed() >= SLOW {
            progress.get_or_init(|| Progress::count("applying what fell due")).set(done);
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Calls `open` again while another process has the store, for as long as `--patience` says, or until
/// `is_enough`.
pub fn retry_in_use<T>(
    cli: &Cli,
    is_enough: impl Fn() -> bool,
    mut open: impl FnMut() -> tubewell::Result<T>,
) -> tubewell::Result<T> {
    let waited = Progress::hidden();
    loop {
        match open() {
            // An operating system does not report that a lock is free: it has to be tried.
            Err(Error::InUse { .. }) if waited.elapsed() < cli.patience && !is_enough() => {
                let left = cli.patience.saturating_sub(waited.elapsed());
                std::thread::park_timeout(RETRY_INTERVAL.min(left));
            }
            opened => return opened,
        }
    }
}

/// Whether this is an empty file.
pub fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// The length of the file as the last process left it: the size that `stats`, `compact` and
/// `backup` report.
pub fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Checks that a file with content exists: opening an empty one would create a store.
pub fn must_exist(path: &Path) -> CommandResult {
    let (name, kind) = (path.display(), std::fs::metadata(path));
    if let Some(dangling) = DanglingLink::in_path(path) {
        let why = format!("store {name} not found: {dangling}");
        return Err(Failure::new(Exit::Missing, why).hint(dangling.hint()));
    }
    let message = match kind {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("store {name} not found")
        }
        Ok(_) if is_empty(path) => format!("{name} is an empty file"),
        Ok(file) if !file.is_file() && !file.is_dir() => return Err(no_regular_file(path)),
        // The open reports any other problem.
        _ => return Ok(()),
    };
    Err(Failure::new(Exit::Missing, message)
        .hint(format!("create a store with `tubewell --store {name} create TUBE`")))
}

/// A symbolic link that points to nothing.
struct DanglingLink {
    link: PathBuf,
    target: PathBuf,
}

impl DanglingLink {
    /// The link because of which there is nothing at a path: the path itself, or one of its folders.
    fn in_path(path: &Path) -> Option<DanglingLink> {
        let links = path.ancestors().filter(|part| part.is_symlink());
        let is_dangling = |link: &&Path| {
            link.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let link = links.filter(is_dangling).last()?.to_owned();
        let mut target = link.clone();
        while let Ok(next) = std::fs::read_link(&target) {
            target = target.parent().unwrap_or(Path::new("")).join(next);
        }
        Some(DanglingLink { link, target })
    }

    fn hint(&self) -> String {
        let (link, target) = (self.link.display(), self.target.display());
        format!(
            "bring {target} back, as by mounting its disk, or let {link} point to what it should"
        )
    }
}

impl Display for DanglingLink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (link, target) = (self.link.display(), self.target.display());
        write!(f, "{link} is a symbolic link to {target}, which does not exist")
    }
}

/// Devices and pipes are not opened: the call might block.
fn no_regular_file(path: &Path) -> Failure {
    let why = format!("{} is not a regular file, so it is no store", path.display());
    Failure::new(Exit::Missing, why)
}

/// Why a store cannot be opened.
pub fn open_failure(path: &Path, error: Error) -> Failure {
    match error {
        Error::InUse { .. } => owner::in_use(path),
        Error::Corrupt { .. } => Failure::from(error)
            .hint("`tubewell export` saves what can be read, or restore a backup"),
        Error::Io { what } => match DanglingLink::in_path(path) {
            Some(dangling) => {
                Failure::new(Exit::Failed, format!("{what}: {dangling}")).hint(dangling.hint())
            }
            None => Error::Io { what }.into(),
        },
        error => error.into(),
    }
}

/// The tubes with their counts.
pub fn counted_tubes(store: &Store) -> tubewell::Result<Vec<(TubeInfo, Statistics)>> {
    let tubes = store.tubes()?;
    let mut counts = store.statistics()?;
    // A tube without counts was created after the tubes were read, or dropped.
    let counted = |tube: TubeInfo| counts.remove(&tube.name).map(|counts| (tube, counts));
    Ok(tubes.into_iter().filter_map(counted).collect())
}

/// How many tasks of a tube are stored: those that are done and kept, and the schedules, too.
pub fn stored(counts: &Statistics) -> u64 {
    let tasks = counts.tasks;
    tasks.total.saturating_add(tasks.kept).saturating_add(tasks.recurring)
}

/// How many tasks the file of the store has.
pub fn stored_in_file(store: &Store) -> tubewell::Result<u64> {
    let counted = counted_tubes(store)?;
    let in_file = counted.iter().filter(|(tube, _)| !tube.temporary);
    Ok(in_file.map(|(_, counts)| stored(counts)).sum())
}

/// Opens a tube. If there is none, the failure names similar ones, or those that exist.
pub fn tube(store: &Store, name: &str) -> CommandResult<Tube> {
    store.find_tube(name).map_err(|error| match error {
        Error::TubeNotFound { .. } => unknown_tube(store, name),
        error => error.into(),
    })
}

/// Makes a buried task ready again, or a delayed one ready now.
pub fn kick(tube: &Tube, id: u64) -> tubewell::Result<Receipt> {
    match tube.kick(id) {
        Err(Error::NotBuried { .. }) if tube.query().task(id)?.info.state == TaskState::Delayed => {
            match tube.update(id, Update::new().delay(Duration::ZERO).not_before(None)) {
                // It was taken or buried meanwhile.
                Err(Error::NotReady { .. }) => tube.kick(id),
                updated => updated,
            }
        }
        kicked => kicked,
    }
}

/// Opens a tube to put tasks into. A temporary tube is refused if its tasks would end with the
/// command.
pub fn tube_to_fill(store: &Store, name: &str) -> CommandResult<Tube> {
    let tube = tube(store, name).map_err(|mut failure| {
        let create = || format!("`tubewell create {name}` creates it");
        failure.hint = failure.hint.map(|hint| format!("{hint}; {}", create()));
        failure
    })?;
    if connection::owner().is_none()
        && store.tubes()?.iter().any(|tube| tube.name == name && tube.temporary)
    {
        let why = format!(
            "tube {name:?} keeps its tasks in memory only: they would end with this command"
        );
        return Err(Failure::usage(why)
            .hint("the application that has the store open can fill it, or serve it to commands"));
    }
    Ok(tube)
}

/// Whether the tasks of a tube of this driver have times.
pub fn is_timed(driver: &str) -> bool {
    [FIFOTTL, UTUBETTL, LIMFIFOTTL].contains(&driver)
}

/// Checks that the driver of a tube has delays. `option` is what asks for one.
pub fn check_has_delays(option: &str, tube: &Tube) -> CommandResult {
    if is_timed(tube.driver()) {
        return Ok(());
    }
    let (name, driver) = (tube.name(), tube.driver());
    Err(Failure::usage(format!("{option}: tube {name:?} ({driver}) does not support delays"))
        .hint("leave it out, or use a tube of the driver fifottl, utubettl or limfifottl"))
}

/// The failure for a tube that does not exist.
pub fn unknown_tube(store: &Store, name: &str) -> Failure {
    let names: Vec<String> = match store.tubes() {
        Ok(tubes) => tubes.into_iter().map(|tube| tube.name).collect(),
        Err(error) => return error.into(),
    };
    let not_found =
        |more: &str| Failure::new(Exit::Missing, format!("tube {name:?} not found{more}"));
    if let Some(similar) = similar(name, &names) {
        return not_found(&format!("; did you mean {similar:?}?"));
    }
    let listed: Vec<String> =
        names.iter().take(NAMED_TUBES).map(|name| format!("{name:?}")).collect();
    let listed = listed.join(", ");
    not_found("").hint(match names.len() {
        0 => "the store has no tubes".into(),
        1 => format!("the only tube is {listed}"),
        2..=NAMED_TUBES => format!("the tubes are {listed}"),
        number => {
            let more = number - NAMED_TUBES;
            format!("the tubes are {listed} and {more} more, see `tubewell tubes`")
        }
    })
}

/// The name that differs least, if it differs little.
fn similar<'a>(name: &str, names: &'a [String]) -> Option<&'a String> {
    let distance =
        |other: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    names
        .iter()
        .map(|other| (distance(other), other))
        .filter(|(distance, other)| *distance <= 2.max(other.chars().count() / 3))
        .min()
        .map(|(_, other)| other)
}

/// Removes the time limit of a claim. False if the claim has expired already, so that its task is
/// ready again.
///
/// A ttr frees the tasks of a worker that died. The claims of this process end with it, so it may be
/// stopped by Ctrl-Z, or wait for a slow reader, for any time.
pub fn renew_without_limit(store: &Store, claim: &Claim) -> CommandResult<bool> {
    match claim.renew(Duration::MAX) {
        Ok(()) | Err(Error::Unsupported { .. }) => return Ok(true),
        Err(Error::NotTaken { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    check_ttr(store, claim.tube(), claim.id()).map(|()| false)
}

/// Says why the claim on a task has ended already, if its ttr is too short for every claim.
pub fn check_ttr(store: &Store, name: &str, id: u64) -> CommandResult {
    let ttr = match tube(store, name)?.query().task(id) {
        Ok(task) => task.info.ttr,
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(ttr) = ttr.filter(|ttr| *ttr < MIN_TTR) else { return Ok(()) };
    let ttr = duration::show(ttr);
    let why = format!("task {id} of {name} has a ttr of {ttr}, so every claim expires immediately");
    Err(Failure::new(Exit::Refused, why).hint(format!(
        "`tubewell bury {name} {id}` sets the task aside; put --ttr and create --ttr give a ttr"
    )))
}

/// Closes the store, or the connection to its owner. Every change is in the file once this returns.
pub fn close(store: &Store) -> CommandResult {
    if connection::owner().is_some() {
        return match store.flush() {
            Ok(_) | Err(Error::Closed) => Ok(store.close()?),
            Err(error) => Err(Failure::from(error).context("flushing the changes")),
        };
    }
    store.close().map_err(|error| Failure::from(error).context("closing the store"))
}

#[cfg(all(test, unix))]
mod tests {
    use tubewell::{FIFO, ServeOptions, TubeOptions};

    use super::*;

    #[test]
    fn an_owner_that_does_not_answer_is_an_error_and_not_a_store_without_tubes() {
        let directory = tempfile::tempdir().unwrap();
        let owner = Store::in_memory().unwrap();
        owner.create_tube("mail", TubeOptions::new().driver(FIFO)).unwrap().put("one").unwrap();
        let served =
            owner.admin().serve(ServeOptions::unix(directory.path().join("socket"))).unwrap();
        let store = tubewell::connect(served.url()).unwrap();
        assert_eq!(store.tubes().unwrap().len(), 1);
        assert_eq!(counted_tubes(&store).unwrap()[0].1.tasks.ready, 1);
        assert_eq!(store.admin().next_id().unwrap(), 1);
        assert_eq!(store.admin().limits().unwrap(), []);

        // Calls return an error at once, where those of a connection that is lost wait for a new one.
        store.close().unwrap();
        assert!(store.tubes().is_err());
        assert!(counted_tubes(&store).is_err());
        assert!(store.admin().next_id().is_err());
        assert!(store.admin().limits().is_err());
        let failure = unknown_tube(&store, "mial");
        assert!(!failure.message.contains("not found"), "{}", failure.message);
    }
}
