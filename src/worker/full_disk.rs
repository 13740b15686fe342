//! Full disks as causes of errors of handlers.

use std::error::Error as StdError;

use crate::Error;

/// The full disk that has caused an error of a handler, for instance of a put. Other errors of a
/// store may be about one that never works.
pub(super) fn disk_full(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error @ Error::DiskFull { .. }) = error.downcast_ref() {
            return Some(error.clone());
        }
        cause = error.source();
    }
    None
}
