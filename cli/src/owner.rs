//! Finds the owner of a store: the process that has its file open and serves it.

use std::path::Path;

use tubewell::{Error, Store};

use crate::args::Cli;
use crate::failure::{CommandResult, Exit, Failure};
use crate::{connection, lock_owner};

/// Connects to the owner of this file. `None` if no process serves it, or the command line says not to
/// look for one.
pub fn of_file(path: &Path, cli: &Cli) -> CommandResult<Option<Store>> {
    if cli.no_socket {
        return Ok(None);
    }
    let socket = tubewell::socket_beside(path);
    // An address is text.
    let Some(name) = socket.to_str().filter(|_| connection::accepts(&socket)) else {
        return Ok(None);
    };
    let store = connection::connect(&format!("unix:{name}"), None).map_err(|error| {
        Failure::new(Exit::InUse, format!("{}: {error}", path.display()))
            .hint("end the process that serves at the socket; --no-socket opens the file")
    })?;
    Ok(Some(store))
}

/// Connects to the owner at an address.
pub fn connect(url: &str, cli: &Cli) -> CommandResult<Store> {
    let secret = cli.secret_file.as_deref().map(secret).transpose()?;
    connection::connect(url, secret).map_err(|error| match error {
        Error::Invalid { .. } | Error::Refused { .. } => Failure::from(error),
        error => Failure::new(Exit::Missing, error.to_string()).hint(
            "the owner of the store must serve it there: `Store::serve`, or `tubewell serve`",
        ),
    })
}

/// Why a file that another process has open cannot be opened.
pub fn in_use(path: &Path) -> Failure {
    let name = path.display();
    let owner = lock_owner::find(path).unwrap_or_else(|| "another process".into());
    let failure = Failure::new(Exit::InUse, format!("{name} is in use by {owner}"));
    if connection::accepts(&tubewell::socket_beside(path)) {
        return failure.hint(
            "it serves the store to other commands, but this one needs the file itself: end it, or \
             wait with --patience 10s",
        );
    }
    failure.hint(
        "end it, wait with --patience 10s, or let it serve the store, and this command goes through \
         it: `Store::serve` in its code, or `tubewell serve`",
    )
}

/// The secret in a file. A line end behind it is not part of it.
pub fn secret(file: &Path) -> CommandResult<Vec<u8>> {
    let mut secret = std::fs::read(file).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read the secret in {}: {error}", file.display()))
    })?;
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    if secret.is_empty() {
        return Err(Failure::usage(format!("the secret in {} is empty", file.display()))
            .hint("`openssl rand -hex 32` prints one"));
    }
    Ok(secret)
}
