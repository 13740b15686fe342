//! The command of one task: a child process in a process group of its own.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tubewell::Claim;

#[cfg(unix)]
use super::stderr::Stderr;
use crate::failure::{CommandResult, Exit, Failure};

/// Every operating system buffers this many bytes in a pipe, so the write does not block.
const PIPE_BUFFER: usize = 4096;

/// A running command.
pub struct Child {
    process: std::process::Child,
    group: Arc<ProcessGroup>,
    /// If the last lines of its standard error are kept.
    #[cfg(unix)]
    stderr: Option<Stderr>,
}

/// How a command ended.
pub struct Ended {
    pub status: io::Result<ExitStatus>,
    /// The last lines of its standard error, if they were kept.
    pub last_lines: String,
}

/// The process group of a command: the command and the processes that it started.
pub struct ProcessGroup {
    pid: u32,
    /// The command has been waited for, so its process id may be used again.
    reaped: Mutex<bool>,
}

impl Child {
    /// Starts the command for a task. `keep_stderr` keeps the last lines of its standard error.
    ///
    /// Ctrl-C in a terminal reaches every process of the foreground group. The command is in a
    /// group of its own, so it finishes.
    pub fn start(
        command: &[OsString],
        claim: &Claim,
        stdout: Stdio,
        keep_stderr: bool,
    ) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut start = Command::new(program);
        start
            .args(arguments)
            .env("TUBEWELL_ID", claim.id().to_string())
            .env("TUBEWELL_TUBE", claim.tube())
            .env("TUBEWELL_TAKES", claim.takes().to_string())
            .env("TUBEWELL_ATTEMPT", claim.attempt().to_string())
            .stdin(Stdio::piped())
            .stdout(stdout);
        if cfg!(unix) && keep_stderr {
            start.stderr(Stdio::piped());
        }
        match claim.attempts_left() {
            Some(left) => start.env("TUBEWELL_ATTEMPTS_LEFT", left.to_string()),
            None => start.env_remove("TUBEWELL_ATTEMPTS_LEFT"),
        };
        match claim.sub_queue() {
            // A NUL cannot be in an environment.
            Some(name) => start.env("TUBEWELL_SUB_QUEUE", name.replace('\0', "\u{fffd}")),
            None => start.env_remove("TUBEWELL_SUB_QUEUE"),
        };
        match claim.key() {
            Some(key) => start.env("TUBEWELL_KEY", key.replace('\0', "\u{fffd}")),
            None => start.env_remove("TUBEWELL_KEY"),
        };
        let tags: Vec<&str> = claim.tags().collect();
        match tags.as_slice() {
            [] => start.env_remove("TUBEWELL_TAGS"),
            tags => start.env("TUBEWELL_TAGS", tags.join("\n").replace('\0', "\u{fffd}")),
        };
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut process = start.spawn()?;
        if let Some(stdin) = process.stdin.take() {
            write_body(stdin, claim.data());
        }
        let group = Arc::new(ProcessGroup { pid: process.id(), reaped: Mutex::new(false) });
        #[cfg(unix)]
        let stderr = match process.stderr.take().map(Stderr::pass_on).transpose() {
            Ok(stderr) => stderr,
            Err(error) => {
                group.terminate(true);
                return Err(error);
            }
        };
        Ok(Child {
            process,
            group,
            #[cfg(unix)]
            stderr,
        })
    }

    pub fn group(&self) -> Arc<ProcessGroup> {
        self.group.clone()
    }

    /// Waits for the end of the command.
    pub fn wait(mut self) -> Ended {
        let status = self.reap();
        #[cfg(unix)]
        let last_lines = self.stderr.map(|stderr| stderr.last_lines()).unwrap_or_default();
        #[cfg(not(unix))]
        let last_lines = String::new();
        Ended { status, last_lines }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.group.await_end()?;
        *self.group.reaped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.process.wait()
    }
}

#[cfg(unix)]
impl ProcessGroup {
    /// Sends SIGTERM, or SIGKILL if `kill` is set.
    pub fn terminate(&self, kill: bool) {
        use rustix::process::{Pid, Signal, kill_process_group};

        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (false, Some(pid)) = (*reaped, pid) {
            let signal = if kill { Signal::KILL } else { Signal::TERM };
            // The group may have ended by itself.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Returns when the command has ended, without freeing its process id: a signal sent now must
    /// not reach another process.
    fn await_end(&self) -> io::Result<()> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(()) };
        loop {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    /// No signal is received on other systems, so no command is terminated.
    pub fn terminate(&self, _kill: bool) {
        let _ = self.pid;
    }

    fn await_end(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the reader of standard output has closed it, which makes commands fail.
#[cfg(unix)]
pub fn is_output_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

#[cfg(not(unix))]
pub fn is_output_closed() -> bool {
    false
}

/// Checks before the first task that the program exists.
pub fn check(program: &OsStr) -> CommandResult {
    let path = Path::new(program);
    let found = if path.components().count() > 1 {
        path.exists()
    } else if cfg!(unix) {
        let paths = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        std::env::split_paths(&paths).any(|directory| directory.join(path).is_file())
    } else {
        true
    };
    let missing = io::Error::new(io::ErrorKind::NotFound, "no such command");
    if found { Ok(()) } else { Err(not_started(program, &missing)) }
}

/// Why a command could not be started.
pub fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let name = program.display();
    let failure = Failure::new(Exit::NotStarted, format!("cannot start {name}: {error}"));
    let path = Path::new(program);
    match error.kind() {
        _ if path.is_dir() => failure.hint("it is a directory"),
        // The operating system reports the same error for the script and for its interpreter.
        io::ErrorKind::NotFound if path.exists() => {
            failure.hint("the file exists; check the interpreter after #! in its first line")
        }
        io::ErrorKind::NotFound if path.components().count() > 1 => {
            failure.hint("check the spelling; the path is relative to the current directory")
        }
        io::ErrorKind::NotFound => failure.hint("check the spelling, and PATH"),
        io::ErrorKind::PermissionDenied => failure.hint(format!("try chmod +x {name}")),
        _ => failure,
    }
}

/// Writes the body. A command need not read it, so a closed pipe is no error.
fn write_body(mut stdin: ChildStdin, body: &[u8]) {
    if body.len() <= PIPE_BUFFER {
        let _ = stdin.write_all(body);
        return;
    }
    let body = body.to_vec();
    let write = move || drop(stdin.write_all(&body));
    // The thread is not joined: a process that the command started may keep the pipe open.
    let _ = std::thread::Builder::new().name("body".into()).spawn(write);
}
