//! The commands, each as its arguments ask for it.

mod backup;
mod pages;
mod put;
mod show;
mod take;
mod tasks;
mod tubes;
mod upkeep;

pub use put::with_options;

use std::path::Path;

use tubewell::Store;

use crate::args::{Cli, Command};
use crate::failure::Outcome;
use crate::output::Output;
use crate::{export, import, store, work};

/// Does what the command line says.
pub fn run(cli: &Cli, output: &mut Output) -> Outcome {
    let path = match &cli.command {
        Command::Completions { shell } => return pages::completions(*shell, output),
        Command::Man(asked) => return pages::man(asked, output),
        _ => store::path_of(cli.store.as_ref())?,
    };
    match &cli.command {
        Command::Create(asked) => tubes::create(path, cli, asked, output),
        Command::Compact => upkeep::compact(path, cli, output),
        Command::Export(asked) => export::run(path, cli, &asked.file, output),
        // As `create`: the store may come into being with what is in it.
        Command::Import(asked) if asked.all => {
            let store = store::create(path, cli)?;
            import::run(&store, asked, output).and(store::close(&store))
        }
        command => with_store(path, cli, |store| {
            if !matches!(command, Command::Verify | Command::Backup(_)) {
                store::catch_up(store)?;
            }
            on_store(store, command, path, output)
        }),
    }
}

fn on_store(store: &Store, command: &Command, path: &Path, output: &mut Output) -> Outcome {
    match command {
        Command::Drop(asked) => tubes::drop(store, &asked.tube, output),
        Command::Tubes => tubes::list(store, output),
        Command::Truncate(asked) => tubes::truncate(store, &asked.tube, output),
        Command::Stats(asked) => tubes::stats(store, asked.tube.as_deref(), path, output),
        Command::Put(asked) => put::run(store, asked, output),
        Command::Import(asked) => import::run(store, asked, output),
        Command::Take(asked) => take::run(store, asked, output),
        Command::Work(asked) => work::run(store, asked, output),
        Command::Peek(asked) => show::peek(store, asked, output),
        Command::List(asked) => show::list(store, asked, output),
        Command::Bury(asked) => tasks::bury(store, asked, output),
        Command::Delete(asked) => tasks::delete(store, asked, output),
        Command::Kick(asked) => tasks::kick(store, asked, output),
        Command::ReleaseAll(asked) => tasks::release_all(store, &asked.tube, output),
        Command::Verify => upkeep::verify(store, output),
        Command::Backup(asked) => backup::run(store, &asked.file, output),
        // These need no open store and were done before.
        Command::Create(_)
        | Command::Compact
        | Command::Export(_)
        | Command::Completions { .. }
        | Command::Man(_) => Ok(()),
    }
}

/// Opens the store for as long as `work` takes. The first thing that went wrong is the one told.
fn with_store(path: &Path, cli: &Cli, work: impl FnOnce(&Store) -> Outcome) -> Outcome {
    let store = store::open(path, cli)?;
    let done = work(&store);
    done.and(store::close(&store))
}
