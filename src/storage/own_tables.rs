//! The application's own tables: their names, and the errors of the engine about them.

use tubewell_drivers::Table;

use crate::{Error, Result};

/// The names of tables that later releases add begin with this.
const RESERVED: &str = "tubewell";

/// Refuses the names of the store's tables, and those of its future tables.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.starts_with(RESERVED) || Table::ALL.iter().any(|table| table.name() == name) {
        return Err(Error::TableReserved { name: name.to_owned() });
    }
    Ok(())
}

impl From<redb::Error> for Error {
    fn from(error: redb::Error) -> Error {
        match error {
            redb::Error::Corrupted(what) => Error::corrupt(what),
            redb::Error::Io(error) => Error::Io { what: error.to_string() },
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => {
                Error::Unavailable { why: error.to_string() }
            }
            error => Error::Table { what: error.to_string() },
        }
    }
}

macro_rules! from_engine {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Error {
                redb::Error::from(error).into()
            }
        }
    )*};
}

from_engine!(redb::StorageError, redb::TableError, redb::CursorError);
