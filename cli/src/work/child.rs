//! The command of one task: a child process in a process group of its own.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::mem::replace;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tubewell::MAX_BODY;
use tubewell::worker::Job;

#[cfg(unix)]
use super::pipe::{Kind, Pipe};
use crate::failure::{CommandResult, Exit, Failure};

/// Every operating system buffers this many bytes in a pipe, so the write does not block.
const PIPE_BUFFER: usize = 4096;

/// How long a command may run after SIGTERM before it gets SIGKILL.
pub const TERM_GRACE: Duration = Duration::from_secs(5);

/// A running command.
pub struct Child {
    process: std::process::Child,
    group: Arc<ProcessGroup>,
    /// If the last lines of its standard error are kept.
    #[cfg(unix)]
    stderr: Option<Pipe>,
    /// If its standard output is kept.
    #[cfg(unix)]
    stdout: Option<Pipe>,
}

/// How a command ended.
pub struct Ended {
    pub status: io::Result<ExitStatus>,
    /// The last lines of its standard error, if they were kept.
    pub last_lines: String,
    /// Its standard output, if it was kept. One with more than `MAX_BODY` bytes is cut.
    pub output: Option<Vec<u8>>,
    /// It ran too long and was told to end, before `work` was told to terminate it.
    pub ran_too_long: bool,
}

/// The process group of a command: the command and the processes that it started.
pub struct ProcessGroup {
    pid: u32,
    state: Mutex<GroupState>,
}

#[derive(Default)]
struct GroupState {
    /// The command has been waited for, so its process id may be used again.
    is_reaped: bool,
    /// The group was told to end.
    is_terminated: bool,
}

impl Child {
    /// Starts the command for a task. `keep_stderr` keeps the last lines of its standard error.
    ///
    /// Ctrl-C in a terminal reaches every process of the foreground group. The command is in a
    /// group of its own, so it finishes.
    pub fn start(
        command: &[OsString],
        job: &Job,
        stdout: Stdio,
        keep_stderr: bool,
    ) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut start = Command::new(program);
        start
            .args(arguments)
            .env("TUBEWELL_ID", job.id().to_string())
            .env("TUBEWELL_TUBE", job.tube())
            .env("TUBEWELL_TAKES", job.takes().to_string())
            .env("TUBEWELL_ATTEMPT", job.attempt().to_string())
            .stdin(Stdio::piped())
            .stdout(stdout);
        if cfg!(unix) && keep_stderr {
            start.stderr(Stdio::piped());
        }
        let tags = job.tags().collect::<Vec<_>>().join("\n");
        for (name, value) in [
            ("TUBEWELL_ATTEMPTS_LEFT", job.attempts_left().map(|left| left.to_string())),
            ("TUBEWELL_SUB_QUEUE", job.sub_queue().map(str::to_owned)),
            ("TUBEWELL_KEY", job.key().map(str::to_owned)),
            ("TUBEWELL_TAGS", Some(tags).filter(|tags| !tags.is_empty())),
            // The name that OpenTelemetry gives it.
            ("TRACEPARENT", job.traceparent()),
        ] {
            match value {
                // A NUL cannot be in an environment.
                Some(value) => start.env(name, value.replace('\0', "\u{fffd}")),
                None => start.env_remove(name),
            };
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut process = start.spawn()?;
        if let Some(stdin) = process.stdin.take() {
            write_body(stdin, job.body());
        }
        let group = Arc::new(ProcessGroup { pid: process.id(), state: Mutex::default() });
        #[cfg(unix)]
        let pipes = || {
            let stderr = process.stderr.take().map(|from| Pipe::read(from, Kind::Messages));
            let stdout = process.stdout.take().map(|from| Pipe::read(from, Kind::Result(MAX_BODY)));
            Ok((stderr.transpose()?, stdout.transpose()?))
        };
        #[cfg(unix)]
        let (stderr, stdout) = terminated_on_error(&group, pipes)?;
        Ok(Child {
            process,
            group,
            #[cfg(unix)]
            stderr,
            #[cfg(unix)]
            stdout,
        })
    }

    pub fn group(&self) -> Arc<ProcessGroup> {
        self.group.clone()
    }

    /// Waits for the end of the command, which may run for this long: then the processes of its
    /// group get SIGTERM, and SIGKILL if it has not ended soon after.
    pub fn wait(self, most: Option<Duration>) -> io::Result<Ended> {
        let Some(most) = most else { return Ok(self.ended()) };
        let (ended, has_ended) = channel::<()>();
        let group = self.group();
        let ends_in = move |time| has_ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        std::thread::scope(|scope| {
            let limit = move || {
                if ends_in(most) {
                    return false;
                }
                let is_first = group.terminate(false);
                if !ends_in(TERM_GRACE) {
                    group.terminate(true);
                }
                is_first
            };
            let thread = std::thread::Builder::new().name("limit".into());
            let limit = terminated_on_error(&self.group(), || thread.spawn_scoped(scope, limit))?;
            let done = self.ended();
            drop(ended);
            Ok(Ended { ran_too_long: limit.join().unwrap_or(false), ..done })
        })
    }

    #[cfg(unix)]
    fn ended(mut self) -> Ended {
        let status = self.reap();
        let last_lines = self.stderr.map(|stderr| stderr.last_lines()).unwrap_or_default();
        let output = self.stdout.map(|stdout| stdout.content());
        Ended { status, last_lines, output, ran_too_long: false }
    }

    #[cfg(not(unix))]
    fn ended(mut self) -> Ended {
        use std::io::Read;

        let mut output = Vec::new();
        let stdout = self.process.stdout.take();
        let read =
            |out: std::process::ChildStdout| out.take(MAX_BODY as u64 + 1).read_to_end(&mut output);
        let output = stdout.map(read).map(|_| output);
        let status = self.reap();
        Ended { status, last_lines: String::new(), output, ran_too_long: false }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.group.await_end()?;
        self.group.state().is_reaped = true;
        self.process.wait()
    }
}

#[cfg(unix)]
impl ProcessGroup {
    /// Sends SIGTERM, or SIGKILL if `kill` is set. Returns whether the command runs, and is told to
    /// end for the first time.
    pub fn terminate(&self, kill: bool) -> bool {
        use rustix::process::{Pid, Signal, kill_process_group};

        let mut state = self.state();
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let (false, Some(pid)) = (state.is_reaped, pid) else { return false };
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        // The group may have ended by itself.
        let _ = kill_process_group(pid, signal);
        !replace(&mut state.is_terminated, true)
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
    /// No signal is sent on other systems: a command that runs too long goes on to its end.
    pub fn terminate(&self, _kill: bool) -> bool {
        let _ = self.pid;
        !replace(&mut self.state().is_terminated, true)
    }

    fn await_end(&self) -> io::Result<()> {
        Ok(())
    }
}

impl ProcessGroup {
    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a command for which something could not be started.
fn terminated_on_error<T>(
    group: &ProcessGroup,
    start: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    start().inspect_err(|_| {
        group.terminate(true);
    })
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
pub fn check(command: &[OsString]) -> CommandResult {
    let program = program(command);
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
    if found { Ok(()) } else { Err(not_started(command, &missing)) }
}

/// Why a command could not be started.
pub fn not_started(command: &[OsString], error: &io::Error) -> Failure {
    let program = program(command);
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

fn program(command: &[OsString]) -> &OsStr {
    command.first().map_or(OsStr::new(""), |program| program)
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
