//! A pipe from a command, read as it comes: of standard error the last lines are kept, of standard
//! output everything.

use std::io::{self, Write, stderr};
use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How many bytes of the last lines are kept, and how many lines.
const KEPT_BYTES: usize = 2000;
const KEPT_LINES: usize = 20;

/// The reading end of a pipe of a running command.
pub struct Pipe(Arc<Shared>);

/// The purpose of a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Passed on to standard error.
    Messages,
    /// The result of the task, with at most this many bytes and one more.
    Result(usize),
}

struct Shared {
    from: OwnedFd,
    kind: Kind,
    /// Held by who reads and passes on.
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    kept: Vec<u8>,
    /// All processes that had it have closed it.
    ended: bool,
}

impl Pipe {
    /// Reads what the command prints, on a thread of its own.
    pub fn read(from: impl Into<OwnedFd>, kind: Kind) -> io::Result<Pipe> {
        let shared = Arc::new(Shared { from: from.into(), kind, read: Mutex::default() });
        let read = shared.clone();
        // The thread is not joined: a process that the command started may keep the pipe open.
        std::thread::Builder::new()
            .name("pipe".into())
            .spawn(move || while read.is_readable(None) && !read.read_on() {})?;
        Ok(Pipe(shared))
    }

    /// The last lines of a command that has ended.
    pub fn last_lines(&self) -> String {
        last_lines(&self.rest().kept)
    }

    /// The output of a command that has ended.
    pub fn content(&self) -> Vec<u8> {
        take(&mut self.rest().kept)
    }

    fn rest(&self) -> MutexGuard<'_, Read> {
        // What the command has printed is in the pipe, at the latest.
        self.0.read_on();
        self.0.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Reads what is in the pipe. True at its end.
    fn read_on(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; 16_384];
        // The other thread may have read it meanwhile: a read must not block with the lock.
        while !read.ended && self.is_readable(Some(&now)) {
            let length = match rustix::io::read(&self.from, &mut buffer) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => 0,
                Ok(length) => length,
            };
            read.ended = length == 0;
            self.keep(&mut read.kept, &buffer[..length]);
        }
        read.ended
    }

    fn keep(&self, kept: &mut Vec<u8>, bytes: &[u8]) {
        match self.kind {
            Kind::Messages => {
                // The command goes on if nothing reads its messages any more.
                let _ = stderr().write_all(bytes);
                kept.extend_from_slice(bytes);
                let too_many = kept.len().saturating_sub(KEPT_BYTES);
                kept.drain(..too_many);
            }
            Kind::Result(most) => {
                let left = most + 1 - kept.len();
                kept.extend_from_slice(&bytes[..bytes.len().min(left)]);
            }
        }
    }

    /// Waits until there is something to read, or the end. False if the time elapses first.
    fn is_readable(&self, timeout: Option<&Timespec>) -> bool {
        loop {
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, timeout) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(number) => return number > 0,
            }
        }
    }
}

/// The last lines of a text, without blank lines around them.
fn last_lines(bytes: &[u8]) -> String {
    let cut = bytes.len() == KEPT_BYTES;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let lines: Vec<&str> = text.lines().collect();
    // The first line may be a part of one.
    let first = lines.len().saturating_sub(KEPT_LINES).max(usize::from(cut && lines.len() > 1));
    lines[first..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_whole_and_few() {
        assert_eq!(last_lines(b"\n\none\n two\xff\n\n"), "one\n two\u{fffd}");
        assert_eq!(last_lines(b""), "");
        let many: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
        assert_eq!(last_lines(many.join("\n").as_bytes()), many[30..].join("\n"));
        let long = format!("{}\nlast", "x".repeat(KEPT_BYTES - 5));
        assert_eq!(last_lines(long.as_bytes()), "last");
        assert_eq!(last_lines(&[b'x'; KEPT_BYTES]).len(), KEPT_BYTES);
    }
}
