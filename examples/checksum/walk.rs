//! The files under a directory, in the byte order of their paths, starting after any path.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Failure;
use crate::paths::{from_bytes, to_bytes};

/// Yields paths relative to the root. A path that ends in `/` is a directory that could not be
/// listed.
///
/// A directory sorts as its name followed by `/`, as the paths in it do. So each directory is sorted
/// by itself, and all paths come in order.
pub struct Walk {
    root: PathBuf,
    /// Paths to visit, the next one last; directories end in `/`.
    ahead: Vec<Vec<u8>>,
    /// All paths up to this one were listed by an earlier run.
    last: Vec<u8>,
    /// The path of the store itself, which is not listed.
    except: Option<Vec<u8>>,
}

impl Walk {
    pub fn new(root: &Path, last: &[u8], except: Option<Vec<u8>>) -> Walk {
        // The empty path is the root.
        Walk { root: root.into(), ahead: vec![Vec::new()], last: last.into(), except }
    }

    /// Adds the entries of a directory to the paths to visit.
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

    /// Whether the path, or a path in it, is still to be listed.
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
                // An unreadable directory is reported like an unreadable file. The root must be
                // readable, and an unsupported name is an error.
                let unread = failure.is::<io::Error>() && !path.is_empty();
                return Some(if unread { Ok(path) } else { Err(failure) });
            }
        }
        None
    }
}
