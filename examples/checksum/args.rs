//! What the command line asks for.

use std::num::NonZero;
use std::path::PathBuf;

use lexopt::prelude::*;

pub const HELP: &str = "\
Prints the SHA-256 of every file under DIR, as sha256sum does, sorted by path.

Usage: checksum DIR [--workers N] [--store FILE]

  --workers N    threads that hash; default one for each core
  --store FILE   where the queue is kept; default .checksum-NAME.tubewell in the
                 current directory, with the name of DIR
  -h, --help     this text

Killed half-way and started again in the same place with the same arguments, it
goes on: what was hashed is not hashed again, even if it has changed since. The
store is removed once the manifest has been printed; it is not in it itself.
Links and special files are passed over.

Exit code: 0 all well; 1 some files could not be read, or nothing could be done;
2 the arguments make no sense.
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
                workers = Some(number.map_err(|_| "--workers wants a number from 1 on")?);
            }
            Long("store") => store = Some(parser.value()?.into()),
            Value(value) if dir.is_none() => dir = Some(PathBuf::from(value)),
            other => return Err(other.unexpected()),
        }
    }
    let dir = dir.ok_or("which directory?")?;
    Ok(Asked::Run(Args { dir, workers, store }))
}
