//! Finds the owner of a store: the process that has its file open and serves it.

use std::io::Read;
use std::path::{Path, PathBuf};

use tubewell::{Error, Store};

use crate::failure::{CommandResult, Exit, Failure};
use crate::{connection, lock_owner};

/// The most bytes that a file of a secret may have: it may be a device without an end.
const SECRET_MAX: u64 = 64 << 10;

/// Connects to the owner of this file. `None` if no process serves it, or `no_socket` says not to look for
/// one.
pub fn of_file(path: &Path, no_socket: bool) -> CommandResult<Option<Store>> {
    if no_socket {
        return Ok(None);
    }
    connect_beside(path).transpose()
}

/// As `of_file`, whatever the command line says.
pub fn connect_beside(path: &Path) -> Option<CommandResult<Store>> {
    let socket = socket_of(path)?;
    // An address is text.
    let url = format!("unix:{}", socket.to_str()?);
    if socket.is_symlink() {
        // No owner makes one, and it may be that of any user who can write to the directory.
        let why =
            format!("{} is a symbolic link, and not the socket of an owner", socket.display());
        return Some(Err(Failure::new(Exit::InUse, why)
            .hint("remove it, or give --connect unix:PATH; --no-socket opens the file")));
    }
    Some(connection::connect(&url, None, user_of(path)).map_err(|error| {
        Failure::new(Exit::InUse, format!("{}: {error}", path.display()))
            .hint("continue or end the process that serves at the socket; if it does not own this store, --no-socket opens the file")
    }))
}

/// The socket at which a process serves this file.
pub fn socket_of(path: &Path) -> Option<PathBuf> {
    let beside = tubewell::expert::socket_beside(path);
    if tubewell::expert::is_socket_served(&beside) {
        return Some(beside);
    }
    let others = other_names(path).into_iter().map(tubewell::expert::socket_beside);
    others.into_iter().find(|socket| tubewell::expert::is_socket_served(socket))
}

/// The other hard links of a file in its directory: the owner may have opened it by one of them.
#[cfg(unix)]
fn other_names(path: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = std::fs::metadata(path) else { return Vec::new() };
    if file.nlink() < 2 {
        return Vec::new();
    }
    let Some(folder) =
        std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned))
    else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let identity = |file: &std::fs::Metadata| (file.dev(), file.ino());
    let is_same =
        |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| identity(&it) == identity(&file));
    entries.flatten().map(|entry| entry.path()).filter(is_same).collect()
}

#[cfg(not(unix))]
fn other_names(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// The user whom a file belongs to.
#[cfg(unix)]
fn user_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| file.uid())
}

#[cfg(not(unix))]
fn user_of(_: &Path) -> Option<u32> {
    None
}

/// Connects to the owner at an address, with the secret in a file.
pub fn connect(
    url: &str,
    secret_file: Option<&Path>,
    trusted_user: Option<u32>,
) -> CommandResult<Store> {
    let secret = secret_file.map(|file| secret("secret", file)).transpose()?;
    connection::connect(url, secret, trusted_user).map_err(|error| match error {
        Error::Invalid { .. } => Failure::from(error),
        Error::Refused { .. } => Failure::from(error).hint(if url.starts_with("tcp:") {
            "--secret-file names the file with the secret of the owner"
        } else {
            "a command goes only to processes of its own user and of root, and of the user that \
             --trust-user names by its id; if they ask for a secret, --secret-file names the file that has it"
        }),
        error => Failure::new(Exit::Missing, error.to_string()).hint(
            "the owner of the store must serve it there: `StoreAdmin::serve`, or `tubewell serve`",
        ),
    })
}

/// Why a file that another process has open cannot be opened.
pub fn in_use(path: &Path) -> Failure {
    let name = path.display();
    let owner = lock_owner::find(path).unwrap_or_else(|| "another process".into());
    let failure = Failure::new(Exit::InUse, format!("{name} is in use by {owner}"));
    if socket_of(path).is_some() {
        return failure.hint(
            "it serves the store to other commands, but this one needs the file itself: end it, or \
             wait with --patience 10s",
        );
    }
    failure.hint(
        "end it, wait with --patience 10s, or let it serve the store, and this command goes through \
         it: `StoreAdmin::serve` in its code, or `tubewell serve`; if it serves at another address, \
         give --connect unix:PATH",
    )
}

/// The secret, or the token, in a file. A line end behind it is not part of it.
pub fn secret(what: &str, file: &Path) -> CommandResult<Vec<u8>> {
    let mut secret = Vec::new();
    let read = std::fs::File::open(file)
        .and_then(|file| file.take(SECRET_MAX + 1).read_to_end(&mut secret));
    read.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read the {what} in {}: {error}", file.display()))
            .hint(format!("`openssl rand -hex 32 > {}` makes one", file.display()))
    })?;
    if secret.len() as u64 > SECRET_MAX {
        let why = format!("{} is no file of a {what}: it has more than 64 KiB", file.display());
        return Err(Failure::usage(why).hint("`openssl rand -hex 32` prints one"));
    }
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    if secret.is_empty() {
        return Err(Failure::usage(format!("the {what} in {} is empty", file.display()))
            .hint("`openssl rand -hex 32` prints one"));
    }
    Ok(secret)
}
