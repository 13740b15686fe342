//! The command of one task: started, fed, waited for, ended.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tubewell::Claim;

use crate::failure::{Exit, Failure, Outcome};

/// A pipe takes this much at once on every system, so that feeding it needs no thread.
const FITS_A_PIPE: usize = 4096;

/// A running command.
pub struct Child {
    process: std::process::Child,
    group: Arc<Group>,
}

/// The process group of a command: the command, and what it started.
pub struct Group {
    pid: u32,
    /// Its leader has been waited for, so that its number may be somebody else's.
    gone: Mutex<bool>,
}

impl Child {
    /// Starts the command for a task.
    ///
    /// It leads a process group of its own: Ctrl-C in a terminal goes to every process of the
    /// foreground group, and a running command is to finish.
    pub fn start(command: &[OsString], claim: &Claim, stdout: Stdio) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut start = Command::new(program);
        start
            .args(arguments)
            .env("TUBEWELL_ID", claim.id().to_string())
            .env("TUBEWELL_TUBE", claim.tube())
            .env("TUBEWELL_TAKES", claim.takes().to_string())
            .stdin(Stdio::piped())
            .stdout(stdout);
        match claim.sub_queue() {
            // No environment can hold a NUL.
            Some(name) => start.env("TUBEWELL_SUB_QUEUE", name.replace('\0', "\u{fffd}")),
            None => start.env_remove("TUBEWELL_SUB_QUEUE"),
        };
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut process = start.spawn()?;
        if let Some(stdin) = process.stdin.take() {
            feed(stdin, claim.data());
        }
        let group = Arc::new(Group { pid: process.id(), gone: Mutex::new(false) });
        Ok(Child { process, group })
    }

    pub fn group(&self) -> Arc<Group> {
        self.group.clone()
    }

    /// Waits until it has ended.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.group.await_end()?;
        *self.group.gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.process.wait()
    }
}

#[cfg(unix)]
impl Group {
    /// Asks the command and what it started to end, or ends them.
    pub fn end(&self, by_force: bool) {
        use rustix::process::{Pid, Signal, kill_process_group};

        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (false, Some(pid)) = (*gone, pid) {
            let signal = if by_force { Signal::KILL } else { Signal::TERM };
            // It may have ended by itself just now.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Returns when the command has ended, and leaves its number taken: a signal that is sent in
    /// this moment must not reach somebody else.
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
impl Group {
    /// No signal is heard here, so nothing is ended early.
    pub fn end(&self, _by_force: bool) {
        let _ = self.pid;
    }

    fn await_end(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether nobody reads what the commands print any more: no wonder that they fail then.
#[cfg(unix)]
pub fn reader_has_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = io::stdout();
    let mut ask = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ask, Some(&now)).is_ok() && ask[0].revents().contains(PollFlags::ERR)
}

#[cfg(not(unix))]
pub fn reader_has_gone() -> bool {
    false
}

/// That there is such a command: better said before the first task than after hours of waiting.
pub fn check(program: &OsStr) -> Outcome {
    let path = Path::new(program);
    let found = if path.components().count() > 1 {
        path.exists()
    } else if cfg!(unix) {
        let paths = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        std::env::split_paths(&paths).any(|directory| directory.join(path).is_file())
    } else {
        true
    };
    let missing = io::Error::new(io::ErrorKind::NotFound, "there is no such command");
    if found { Ok(()) } else { Err(not_started(program, &missing)) }
}

/// Why a command was not started.
pub fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let name = program.display();
    let failure = Failure::new(Exit::NotStarted, format!("cannot start {name}: {error}"));
    let path = Path::new(program);
    match error.kind() {
        _ if path.is_dir() => failure.hint("it is a directory"),
        // The system does not say which of the two is missing.
        io::ErrorKind::NotFound if path.exists() => {
            failure.hint("it is there: is what its first line names, after #!, there too?")
        }
        io::ErrorKind::NotFound if path.components().count() > 1 => {
            failure.hint("is it spelt right? It is looked for from the current directory on")
        }
        io::ErrorKind::NotFound => failure.hint("is it spelt right, and in a directory of PATH?"),
        io::ErrorKind::PermissionDenied => failure.hint(format!("try chmod +x {name}")),
        _ => failure,
    }
}

/// Writes the body. A command need not read it: then there is nobody to write to, and that is
/// all right.
fn feed(mut stdin: ChildStdin, body: &[u8]) {
    if body.len() <= FITS_A_PIPE {
        let _ = stdin.write_all(body);
        return;
    }
    let body = body.to_vec();
    let write = move || drop(stdin.write_all(&body));
    // Nobody waits for this thread: what the command started may keep the pipe open after it.
    let _ = std::thread::Builder::new().name("feeder".into()).spawn(write);
}
