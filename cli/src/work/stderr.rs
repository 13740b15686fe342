//! The standard error of a command: passed on as it comes, with its last lines kept.

use std::io::{self, Write, stderr};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How many bytes of the last lines are kept, and how many lines.
const KEPT_BYTES: usize = 2000;
const KEPT_LINES: usize = 20;

/// The standard error of a running command.
pub struct Stderr(Arc<Shared>);

struct Shared {
    from: ChildStderr,
    /// Held by who reads and passes on.
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    last: Vec<u8>,
    /// All processes that had it have closed it.
    ended: bool,
}

impl Stderr {
    /// Passes on what the command prints, on a thread of its own.
    pub fn pass_on(from: ChildStderr) -> io::Result<Stderr> {
        let shared = Arc::new(Shared { from, read: Mutex::default() });
        let read = shared.clone();
        // The thread is not joined: a process that the command started may keep the pipe open.
        std::thread::Builder::new()
            .name("stderr".into())
            .spawn(move || while read.is_readable(None) && !read.pass_on() {})?;
        Ok(Stderr(shared))
    }

    /// The last lines of a command that has ended.
    pub fn last_lines(&self) -> String {
        // What the command has printed is in the pipe, at the latest.
        self.0.pass_on();
        let read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines(&read.last)
    }
}

impl Shared {
    /// Passes on what is in the pipe. True at its end.
    fn pass_on(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; 4096];
        // The other thread may have read it meanwhile: a read must not block with the lock.
        while !read.ended && self.is_readable(Some(&now)) {
            let length = match rustix::io::read(&self.from, &mut buffer) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => 0,
                Ok(length) => length,
            };
            read.ended = length == 0;
            // The command goes on if nothing reads its messages any more.
            let _ = stderr().write_all(&buffer[..length]);
            read.last.extend_from_slice(&buffer[..length]);
            let too_many = read.last.len().saturating_sub(KEPT_BYTES);
            read.last.drain(..too_many);
        }
        read.ended
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
