//! The command line.

use std::num::NonZero;
use std::path::PathBuf;

use lexopt::prelude::*;

pub const HELP: &str = "\
Prints the SHA-256 of every file under DIR, as sha256sum does, sorted by path.

Usage: checksum DIR [--workers N] [--store FILE]

  --workers N    number of hashing threads; default one for each core
  --store FILE   file of the queue; default .checksum-NAME.tubewell in the
                 current directory, with the name of DIR
  -h, --help     print this text

If it is killed, start it again in the same directory with the same arguments:
it resumes. Files hashed by an earlier run are not hashed again, even if they
have changed since. The store is removed after the manifest is printed, and is
not part of the manifest. Links and special files are skipped.

Exit code: 0 success; 1 some files could not be read, or the run failed;
2 invalid arguments.
";

pub struct Args {
    pub dir: PathBuf,
    pub workers: Option<NonZero<usize>>,
    pub store: Option<PathBuf>,
}

pub enum Asked {
    Help,
    Run(Args),
}

pub fn parse() -> Result<Asked, lexopt::Error> {
    let (mut dir, mut workers, mut store) = (None, None, None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Asked::Help),
            Long("workers") => {
                let number = parser.value()?.parse();
                workers = Some(number.map_err(|_| "--workers needs a number of at least 1")?);
            }
            Long("store") => store = Some(parser.value()?.into()),
            Value(value) if dir.is_none() => dir = Some(PathBuf::from(value)),
            other => return Err(other.unexpected()),
        }
    }
    let dir = dir.ok_or("which directory?")?;
    Ok(Asked::Run(Args { dir, workers, store }))
}
