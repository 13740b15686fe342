//! The manifest, in the format of `sha256sum`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::Failure;
use crate::paths::to_bytes;
use crate::queue::{Queue, tasks};

/// A line of the manifest, as the tube `done` stores it.
pub struct Line<'a> {
    pub digest: [u8; 32],
    /// Relative to the directory.
    pub path: &'a [u8],
}

impl Line<'_> {
    pub fn to_body(&self) -> Vec<u8> {
        [&self.digest, self.path].concat()
    }

    fn from_body(body: &[u8]) -> Result<Line<'_>, Failure> {
        let (digest, path) = body.split_first_chunk().ok_or("the store has a damaged line")?;
        Ok(Line { digest: *digest, path })
    }

    /// Digest, two spaces, path. A line whose path needs escapes begins with a backslash.
    fn write(&self, dir: &[u8], out: &mut impl Write) -> io::Result<()> {
        let path = [dir, self.path].concat();
        if path.iter().any(|byte| b"\\\n\r".contains(byte)) {
            out.write_all(b"\\")?;
        }
        self.digest.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        out.write_all(b"  ")?;
        for byte in &path {
            match byte {
                b'\\' => out.write_all(b"\\\\")?,
                b'\n' => out.write_all(b"\\n")?,
                b'\r' => out.write_all(b"\\r")?,
                other => out.write_all(&[*other])?,
            }
        }
        out.write_all(b"\n")
    }
}

/// Prints all lines in the order of their paths, which is the order of the tube.
pub fn print(queue: &Queue, dir: &Path, out: impl Write) -> Result<(), Failure> {
    let mut prefix = to_bytes(dir.as_os_str())?;
    prefix.extend((!prefix.ends_with(b"/")).then_some(b'/'));
    let mut out = BufWriter::new(out);
    for line in tasks(&queue.done) {
        let body = queue.done.query().task(line?.id)?.body;
        Line::from_body(&body)?.write(&prefix, &mut out)?;
    }
    out.flush()?;
    Ok(())
}
