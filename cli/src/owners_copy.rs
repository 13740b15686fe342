//! A copy of a store that its owner has made, for a command that reads a file.

use std::path::{Path, PathBuf};

use tubewell::{Error, Store};

use crate::failure::{CommandResult, Exit, Failure};
use crate::progress::Progress;

/// A copy, removed when dropped. It stays if the command is killed.
pub struct OwnersCopy(PathBuf);

impl OwnersCopy {
    /// Has the owner of the store at `path` make a copy beside it: there the owner can write files.
    pub fn make(owner: &Store, path: &Path) -> CommandResult<OwnersCopy> {
        let mut name = path.as_os_str().to_os_string();
        name.push(format!(".export-{}", std::process::id()));
        let copy = OwnersCopy(PathBuf::from(name));
        let progress = Progress::unknown_length("copying");
        let made = owner.admin().backup(&copy.0);
        progress.end();
        made.map_err(|error| {
            let is_corrupt = matches!(error, Error::Corrupt { .. });
            let failure = Failure::from(error).context("copying the store");
            if is_corrupt {
                failure.hint(
                    "end the process that serves the store: what can be read is exported then",
                )
            } else {
                failure
            }
        })?;
        if copy.0.exists() {
            return Ok(copy);
        }
        let why = format!("the owner of {} has made a copy that is not there", path.display());
        Err(Failure::new(Exit::Failed, why)
            .hint("its files may be others than those of this command: export where it runs"))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnersCopy {
    fn drop(&mut self) {
        // A copy that stays harms nothing.
        let _ = std::fs::remove_file(&self.0);
    }
}
