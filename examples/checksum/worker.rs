//! A worker takes files and puts their digests.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tubewell::{Bincode, Codec, Put};

use crate::Failure;
use crate::manifest::Line;
use crate::paths::from_bytes;
use crate::queue::{OVER, Queue};

/// How many tickets a worker keeps in flight while it hashes.
const IN_FLIGHT: usize = 128;
const BUFFER: usize = 256 << 10;

/// Hashes files until a task of the tube `over` arrives.
pub fn work(queue: &Queue, root: &Path, done: &(dyn Fn() + Sync)) -> Result<(), Failure> {
    let lines = queue.done.to_async();
    let mut in_flight = VecDeque::new();
    let mut buffer = vec![0; BUFFER];
    // The order matters: a task of `over` is taken only when `files` has no ready task.
    while let Some(claim) = queue.store.take_any(&[&queue.files, &queue.over], Duration::MAX)? {
        if claim.tube() == OVER {
            claim.ack()?;
            break;
        }
        let (number, path): (u32, Vec<u8>) = Bincode.decode(claim.body())?;
        match digest(&root.join(from_bytes(&path)), path.ends_with(b"/"), &mut buffer) {
            Ok(digest) => {
                // The line first, then the ack; the store writes them in this order. After a kill
                // in between, the next run hashes the file again and puts a second line with the
                // same number; the manifest uses the last one. In the other order the line could be
                // lost.
                let line = Line { digest, path: &path };
                in_flight.push_back(lines.put(Put::new(line.to_body()).priority(number)));
                in_flight.push_back(claim.into_async().ack());
                done();
            }
            Err(why) => {
                let reason = format!("cannot read {}: {why}", from_bytes(&path).display());
                queue.failed.put(Put::new(reason).priority(number))?;
                claim.bury(None)?;
            }
        }
        while in_flight.len() > IN_FLIGHT {
            if let Some(oldest) = in_flight.pop_front() {
                oldest.wait()?;
            }
        }
    }
    in_flight.into_iter().try_for_each(|ticket| ticket.wait().map(drop))?;
    Ok(())
}

fn digest(path: &Path, unlisted: bool, buffer: &mut [u8]) -> io::Result<[u8; 32]> {
    if unlisted {
        fs::read_dir(path)?;
        return Err(io::Error::other(
            "it could not be listed before; remove the store to start over",
        ));
    }
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
