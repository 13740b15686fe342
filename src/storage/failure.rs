//! The boundary to the engine: translates its errors and its panics into [`Error`].

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::backend::IoCounters;
use super::commit_error::CommitError;
use crate::Error;
use crate::base::user_code;

/// Runs a call into the engine. Damaged pages can make the engine panic; the panic is caught and
/// reported as [`Error::Corrupt`], since damage is its most likely cause.
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

/// Runs a call that writes. The call sets its argument while a failure leaves the outcome unknown.
pub(super) fn attempt<T>(
    io: &IoCounters,
    write: impl FnOnce(&Cell<bool>) -> Result<T, redb::Error>,
) -> Result<T, CommitError> {
    let unknown = Cell::new(false);
    let why = match catch_unwind(AssertUnwindSafe(|| write(&unknown))) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => {
            // The engine returns this error before it writes, and rolls back.
            unknown.set(unknown.get() && !matches!(error, redb::Error::TransactionPoisoned));
            translate(error, io).to_string()
        }
        Err(panic) => engine_panic(panic.as_ref()),
    };
    let is_transient = io.first_failure().is_some();
    Err(CommitError { why, outcome_unknown: unknown.get(), is_transient })
}

/// Translates an error of opening a file. Invalid bytes mean that the file is not a store.
pub(super) fn translate_opening(error: redb::Error, io: &IoCounters) -> Error {
    match error {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            not_a_store(io, "it does not begin with a store's header".into())
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Error::corrupt(format!("{} ends too early", io.name()))
        }
        // The engine has no error kind for a format that is newer than itself.
        redb::Error::Corrupted(why) if why.contains("file format version") => {
            not_a_store(io, format!("a newer release wrote it, or its header is damaged ({why})"))
        }
        error => translate(error, io),
    }
}

/// Translates an error of any other call.
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
            format!("a redb that is older than tubewell's wrote it (file format {found})"),
        ),
        Engine::TableTypeMismatch { table, .. } | Engine::TableIsMultimap(table) => {
            not_a_store(io, format!("the rows of its table {table:?} have another type"))
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

/// Describes a panic of the engine.
pub(super) fn engine_panic(panic: &(dyn Any + Send)) -> String {
    format!("the engine failed an assertion: {}", user_code::panic_message(panic))
}
