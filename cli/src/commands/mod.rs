//! The commands.

mod all_tubes;
mod backup;
mod claims;
mod completions;
mod days;
mod edits;
mod events;
mod gates;
mod history;
mod keys;
mod labels;
mod limits;
mod list;
mod maintenance;
mod man;
mod movement;
mod outcomes;
mod parents;
mod peek;
mod pop;
mod put;
mod schedules;
mod serve;
#[cfg(feature = "http")]
mod serve_http;
mod tasks;
mod tubes;

use std::path::PathBuf;

use tubewell::Store;

use crate::args::{Cli, Command, Take};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, print_failure};
use crate::store::Place;
use crate::{export, import, store, top, work};

pub use completions::complete_words;

/// Runs the command of the command line.
pub fn run(cli: &Cli, output: &mut Output) -> CommandResult {
    match &cli.command {
        Command::Completions { shell } => return completions::script(*shell, output),
        Command::Man(args) => return man::run(args, output),
        Command::Take(args) => return no_take(args),
        Command::Kick(args) => tasks::check_kick(args)?,
        Command::Bury(args) => tasks::check_bury(args)?,
        Command::Update(args) => edits::check_update(args)?,
        Command::Delete(args) => edits::check_delete(args)?,
        Command::Serve(args) => {
            let path = match &args.file {
                Some(file) => file,
                None => Place::of(cli)?.file("serve")?,
            };
            return serve::run(path, cli, args, output);
        }
        _ => {}
    }
    let place = Place::of(cli)?;
    match &cli.command {
        Command::Create(args) => tubes::create(place, cli, args, output),
        Command::Compact => maintenance::compact(place.file("compact")?, cli, output),
        Command::Export(args) => export::run(place.file("export")?, cli, &args.file, output),
        // An export may be imported into a new store.
        Command::Import(args) if args.all => {
            let store = store::open_or_create(place, cli)?;
            import::run(&store, &beside(place), args, output).and(store::close(&store))
        }
        Command::Claim(args) => {
            let parked = with_store(place, cli, |store| {
                store::catch_up(store)?;
                claims::claim(store, args, output)
            })?;
            let give_back = |token: &_| with_store(place, cli, |s| claims::give_back(s, token));
            claims::print(&parked, output, give_back)
        }
        Command::Import(args) => with_store(place, cli, |store| {
            store::catch_up(store)?;
            import::run(store, &beside(place), args, output)
        }),
        Command::Stats(args) => {
            // Before the open, which changes the length of the file.
            let bytes = match place {
                Place::File(path) => Some(store::size(path)),
                Place::Owner(_) => None,
            };
            with_store(place, cli, |store| {
                store::catch_up(store)?;
                tubes::stats(store, args.tube.as_deref(), place, bytes, output)
            })
        }
        Command::Top(args) => with_store(place, cli, |store| {
            store::catch_up(store)?;
            top::run(store, &place.to_string(), args)
        }),
        command => with_store(place, cli, |store| {
            // `events` shows the changes of the catch-up, too.
            let is_later =
                matches!(command, Command::Verify | Command::Backup(_) | Command::Events(_));
            if !is_later && !command.acts_first() {
                store::catch_up(store)?;
            }
            on_store(store, command, output)
        }),
    }
}

/// Where an import may keep lines: beside the file.
fn beside(place: Place<'_>) -> PathBuf {
    match place {
        Place::File(path) => path.to_owned(),
        Place::Owner(_) => std::env::temp_dir().join("tubewell"),
    }
}

fn on_store(store: &Store, command: &Command, output: &mut Output) -> CommandResult {
    match command {
        Command::Alter(args) => gates::alter(store, args, output),
        Command::Pause(args) => gates::pause(store, args, output),
        Command::Unpause(args) => gates::unpause(store, args, output),
        Command::SetLimit(args) => limits::set(store, args, output),
        Command::Limits => limits::list(store, output),
        Command::Days(args) => days::run(store, args, output),
        Command::Drop(args) => tubes::drop(store, &args.tube, output),
        Command::Tubes => tubes::list(store, output),
        Command::Truncate(args) => tubes::truncate(store, &args.tube, output),
        Command::Put(args) => put::run(store, args, output),
        Command::Requeue(args) => keys::requeue(store, args, output),
        Command::Schedule(args) => schedules::schedule(store, args, output),
        Command::Reschedule(args) => schedules::reschedule(store, args, output),
        Command::Unschedule(args) => schedules::unschedule(store, args, output),
        Command::Schedules(args) => schedules::list(store, args, output),
        Command::Pop(args) => pop::run(store, args, output),
        Command::Ack(args) => claims::ack(store, args, output),
        Command::Release(args) => claims::release(store, args, output),
        Command::Fail(args) => claims::fail(store, args, output),
        Command::Snooze(args) => claims::snooze(store, args, output),
        Command::Advance(args) => movement::advance(store, args, output),
        Command::Renew(args) => claims::renew(store, args, output),
        Command::Revoke(args) => tasks::revoke(store, args, output),
        Command::Work(args) => work::run(store, args, output),
        Command::Peek(args) => peek::run(store, args, output),
        Command::Find(args) => keys::find(store, args, output),
        Command::List(args) => list::run(store, args, output),
        Command::Tagged(args) => labels::tagged(store, args, output),
        Command::Tags(args) => labels::tags(store, args, output),
        Command::AddTags(args) => labels::add(store, args, output),
        Command::RemoveTags(args) => labels::remove(store, args, output),
        Command::Bury(args) => tasks::bury(store, args, output),
        Command::Move(args) => movement::move_tasks(store, args, output),
        Command::Update(args) => edits::update(store, args, output),
        Command::AddParents(args) => parents::add(store, args, output),
        Command::RemoveParents(args) => parents::remove(store, args, output),
        Command::Parents(args) => parents::parents(store, args, output),
        Command::Children(args) => parents::children(store, args, output),
        Command::Cancel(args) => edits::cancel(store, args, output),
        Command::Delete(args) => edits::delete(store, args, output),
        Command::Outcome(args) => outcomes::outcome(store, args, output),
        Command::Groups(args) => outcomes::groups(store, args.tube.as_deref(), output),
        Command::History(args) => history::history(store, args, output),
        Command::Log(args) => history::log(store, args, output),
        Command::Resolve(args) => outcomes::resolve(store, args, output),
        Command::Forget(args) => tasks::forget(store, args, output),
        Command::Kick(args) => tasks::kick(store, args, output),
        Command::ReleaseAll(args) => tasks::release_all(store, &args.tube, output),
        Command::Events(args) => events::run(store, args, output),
        Command::Verify => maintenance::verify(store, output),
        Command::Backup(args) => backup::run(store, &args.file, output),
        // `run` has handled these.
        Command::Claim(_)
        | Command::Create(_)
        | Command::Compact
        | Command::Export(_)
        | Command::Import(_)
        | Command::Serve(_)
        | Command::Stats(_)
        | Command::Top(_)
        | Command::Completions { .. }
        | Command::Man(_)
        | Command::Take(_) => Ok(()),
    }
}

/// Runs `body` on the open store, then closes it. Returns the first failure.
fn with_store<T>(
    place: Place<'_>,
    cli: &Cli,
    body: impl FnOnce(&Store) -> CommandResult<T>,
) -> CommandResult<T> {
    let store = store::open(place, cli)?;
    let done = body(&store);
    let closed = store::close(&store);
    done.and_then(|value| closed.map(|()| value))
}

/// A take of the library keeps the task until its claim ends. One of a command would have to remove it,
/// also if its user wanted to look at it: so the user chooses.
fn no_take(args: &Take) -> CommandResult {
    let failure = Failure::usage("there is no command `take`").hint(
        "`tubewell pop TUBE` prints the next task and removes it; \
         `tubewell claim TUBE` takes it until it is acked or a time is over; \
         `tubewell peek TUBE` shows it and removes nothing",
    );
    // The parser leaves all words after the command to it.
    if args.words.iter().any(|word| word == "--json") {
        print_failure(&failure, true);
        return Err(Failure::silent(failure.exit));
    }
    Err(failure)
}
