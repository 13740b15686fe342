//! The files under a directory, in the byte order of their paths, from any place on.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Failure;
use crate::paths::{from_bytes, to_bytes};

/// Yields paths below the root. One that ends in `/` is a directory that could not be listed.
///
/// A directory sorts as its name with a `/`, for that is how the paths in it go on: so each
/// directory can be sorted by itself, and all paths come in order.
pub struct Walk {
    root: PathBuf,
    /// Still to be visited, the next one last; directories end in `/`.
    ahead: Vec<Vec<u8>>,
    /// Everything up to here has been listed before.
    last: Vec<u8>,
    /// Not to be listed: the store itself.
    except: Option<Vec<u8>>,
}

impl Walk {
    pub fn new(root: &Path, last: &[u8], except: Option<Vec<u8>>) -> Walk {
        // The root is the path that nothing has been added to.
        Walk { root: root.into(), ahead: vec![Vec::new()], last: last.into(), except }
    }

    /// Puts what is in a directory ahead.
    fn enter(&mut self, directory: &[u8]) -> Result<(), Failure> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.root.join(from_bytes(directory)))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() || kind.is_file() {
                let mut path = directory.to_vec();
                path.extend(to_bytes(&entry.file_name())?);
                path.extend(kind.is_dir().then_some(b'/'));
                found.push(path);
            }
        }
        found.retain(|path| self.is_ahead(path) && Some(path) != self.except.as_ref());
        found.sort_unstable_by(|one, other| other.cmp(one));
        self.ahead.append(&mut found);
        Ok(())
    }

    /// Whether there may be something to list there.
    fn is_ahead(&self, path: &[u8]) -> bool {
        let within = path.ends_with(b"/") && self.last.starts_with(path) && self.last != path;
        path > self.last.as_slice() || within
    }
}

impl Iterator for Walk {
    type Item = Result<Vec<u8>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(path) = self.ahead.pop() {
            if !path.is_empty() && !path.ends_with(b"/") {
                return Some(Ok(path));
            }
            if let Err(failure) = self.enter(&path) {
                // A directory that nobody may read is reported as a file like that would be; but
                // the root is all that there is to do, and a name that cannot be kept stays so.
                let unread = failure.is::<io::Error>() && !path.is_empty();
                return Some(if unread { Ok(path) } else { Err(failure) });
            }
        }
        None
    }
}
