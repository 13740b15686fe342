//! The one boundary to the engine: its errors, and its panics, in the words of the queue.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::backend::IoCounters;
use crate::{Error, user_code};

/// Runs a call into the engine. Damaged pages can make it panic, which must not take the caller
/// down with it: a panic is reported as the damage that it most likely is.
pub(super) fn guarded<T>(
    io: &IoCounters,
    call: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(translate(error, io)),
        Err(panic) => {
            Err(Error::corrupt(format!("{}: {}", io.name(), engine_panic(panic.as_ref()))))
        }
    }
}

/// What an opening file's error means; here bytes that make no sense are somebody else's.
pub(super) fn translate_opening(error: redb::Error, io: &IoCounters) -> Error {
    match error {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            not_a_store(io, "it does not begin as one".into())
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Error::corrupt(format!("{} ends too early", io.name()))
        }
        // The engine has no error of its own for a format that is newer than itself.
        redb::Error::Corrupted(why) if why.contains("file format version") => {
            not_a_store(io, format!("a newer release wrote it, or its header is damaged ({why})"))
        }
        error => translate(error, io),
    }
}

/// What any other call's error means.
pub(super) fn translate(error: redb::Error, io: &IoCounters) -> Error {
    use redb::Error as Engine;
    match error {
        Engine::Corrupted(what) => Error::corrupt(format!("{}: {what}", io.name())),
        Engine::Io(error) => Error::Io {
            what: io.first_failure().unwrap_or_else(|| format!("{}: {error}", io.name())),
        },
        Engine::DatabaseAlreadyOpen => Error::InUse { path: io.name().to_owned() },
        Engine::UpgradeRequired(found) => not_a_store(
            io,
            format!("an engine too old to be tubewell's wrote it (file format {found})"),
        ),
        Engine::TableTypeMismatch { table, .. } | Engine::TableIsMultimap(table) => {
            not_a_store(io, format!("its table {table:?} holds something else than rows of bytes"))
        }
        Engine::ValueTooLarge(size) => {
            Error::invalid(format!("a row of {size} bytes is too large"))
        }
        error => {
            Error::Unavailable { why: io.first_failure().unwrap_or_else(|| error.to_string()) }
        }
    }
}

pub(super) fn not_a_store(io: &IoCounters, why: String) -> Error {
    Error::NotAStore { path: io.name().to_owned(), why }
}

/// The message of a panic.
pub(super) fn engine_panic(panic: &(dyn Any + Send)) -> String {
    format!("the engine failed an assertion: {}", user_code::panic_message(panic))
}
