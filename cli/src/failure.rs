//! Why a command failed: what happened, what to do, and the exit code.

use std::fmt::Display;
use std::io;

use tubewell::{Error, TaskState};

use crate::connection;

/// How a command ended. The exit codes are documented and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The disk, the file or the operating system failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// There is no such task, or none to pop.
    NoTask,
    /// There is no such store or tube.
    Missing,
    /// Another process has the store open.
    InUse,
    /// Conflict: it already exists, is full or is busy.
    Refused,
    /// Done in part; the message says how far.
    Partly,
    /// The command of `work` could not be started.
    NotStarted,
    /// The reader of the output has closed it.
    Pipe,
    /// Stopped by a signal.
    Signal(u8),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NoTask => 3,
            Exit::Missing => 4,
            Exit::InUse => 5,
            Exit::Refused => 6,
            Exit::Partly => 7,
            Exit::NotStarted => 127,
            Exit::Pipe => 141,
            Exit::Signal(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::NoTask => "no_task",
            Exit::Missing => "missing",
            Exit::InUse => "in_use",
            Exit::Refused => "refused",
            Exit::Partly => "partly",
            Exit::NotStarted => "not_started",
            Exit::Pipe => "pipe",
            Exit::Signal(_) => "signal",
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    /// What happened, and to what. Empty if it has been printed already.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// The result of a command, or of a part of it.
pub type CommandResult<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// An exit code without a message.
    pub fn silent(exit: Exit) -> Failure {
        Failure::new(exit, "")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure, with a context in front of its message.
    #[must_use]
    pub fn context(mut self, context: impl Display) -> Failure {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The paragraphs of the parser of the command line as one message and one hint.
    pub fn of_command_line(text: &str) -> Failure {
        let on_one_line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut parts = text.split("\n\n").map(on_one_line);
        let message = parts.next().unwrap_or_default();
        let tip = parts.find_map(|part| Some(part.strip_prefix("tip: ")?.to_owned()));
        Failure::usage(message.strip_prefix("error: ").unwrap_or(&message))
            .hint(tip.unwrap_or_else(|| "`tubewell COMMAND --help` shows the usage".into()))
    }

    /// Writing the output failed.
    pub fn output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::silent(Exit::Pipe);
        }
        let failure = Failure::new(Exit::Failed, format!("cannot write the output: {error}"));
        with_hint_of_system(failure)
    }

    /// The output failed after the store was changed: a second try would change it twice.
    #[must_use]
    pub fn after_the_change(self) -> Failure {
        if self.exit == Exit::Pipe {
            return self;
        }
        self.hint("the command is done, only its output is missing: do not repeat it")
    }

    /// The failure of a call on this task of this tube.
    pub fn of_task(error: Error, tube: &str, task: u64) -> Failure {
        match error {
            Error::NotFound { id } if id == task => {
                Failure::new(Exit::NoTask, format!("{tube} has no task {id}"))
            }
            error => error.into(),
        }
    }

    /// The failure of a server that was to listen at this place.
    pub fn of_address(error: Error, at: &impl Display) -> Failure {
        match error {
            Error::AddressInUse { .. } => {
                Failure::new(Exit::InUse, format!("another process listens at {at}"))
                    .hint("name another place with --socket, --tcp or --http, or end that process")
            }
            Error::FileExists { path } => {
                Failure::new(Exit::Refused, format!("{path} is a file, and not a socket"))
                    .hint("name another place with --socket, or remove the file")
            }
            error => error.into(),
        }
    }

    /// Reading standard input failed.
    pub fn input(error: &io::Error) -> Failure {
        Failure::new(Exit::Failed, format!("cannot read standard input: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        let failure = |exit| Failure::new(exit, message.clone());
        if connection::is_owner_only(&error) {
            return failure(Exit::InUse)
                .hint("end the process that serves the store, and repeat the command");
        }
        match error {
            Error::NotTaken { .. }
            | Error::NotFound { .. }
            | Error::NotBuried { .. }
            | Error::NotDone { .. }
            | Error::KeyNotFound { .. } => failure(Exit::NoTask),
            Error::TubeNotFound { name, .. } => {
                Failure::new(Exit::Missing, format!("tube {name:?} not found"))
            }
            Error::TubeExists { name } => {
                Failure::new(Exit::Refused, format!("tube {name:?} already exists"))
                    .hint("use it; --if-not-exists gives it the options that are named")
            }
            Error::TubeDiffers { name, what } => Failure::new(
                Exit::Refused,
                format!("tube {name:?} already exists, but {what}"),
            )
            .hint(
                "`tubewell tubes` shows its options; `tubewell alter` changes all but the driver \
                 and --temporary",
            ),
            Error::FileExists { .. }
            | Error::TubeBusy { .. }
            | Error::NotReady { .. }
            | Error::HasDependents { .. }
            | Error::Cycle { .. }
            | Error::WrongState { .. }
            | Error::Overloaded
            | Error::OwnerBusy { .. }
            | Error::IdUsed { .. } => failure(Exit::Refused),
            Error::KeyInUse { key, id, state } => key_in_use(&key, id, state),
            Error::Full { .. } => failure(Exit::Refused)
                .hint("pop or delete tasks, or wait for space with put --wait"),
            Error::DiskFull { .. } => failure(Exit::Refused)
                .hint("free disk space; until then tasks can be popped and deleted"),
            Error::DriverUnknown { known, .. } => {
                failure(Exit::Usage).hint(format!("the drivers are {known}"))
            }
            Error::Unsupported { what, .. } => {
                failure(Exit::Usage).hint(format!("leave it out, or {}", other_driver(&what)))
            }
            Error::Invalid { .. } => failure(Exit::Usage),
            Error::InUse { .. } | Error::AddressInUse { .. } => failure(Exit::InUse),
            Error::NewerFormat { .. } => failure(Exit::Missing)
                .hint("use the release that wrote the file, or a later one; the file is unchanged"),
            Error::NotAStore { .. } | Error::Refused { .. } => failure(Exit::Missing),
            Error::Corrupt { .. } => failure(Exit::Failed).hint(
                "`tubewell verify` lists the damage, `tubewell export` saves what can be read",
            ),
            _ => with_hint_of_system(failure(Exit::Failed)),
        }
    }
}

/// A put or a schedule with a key that a task or a schedule has. What `put --on-key` can do about it is
/// the hint of `put`.
fn key_in_use(key: &str, id: u64, state: TaskState) -> Failure {
    let failure = |what| Failure::new(Exit::Refused, format!("key {key:?} is in use by {what}"));
    if state == TaskState::Recurring {
        return failure(format!("a schedule, {id}")).hint(format!(
            "use another key; `tubewell schedules` shows the schedule, and \
             `tubewell unschedule {}` removes it",
            word(key)
        ));
    }
    failure(format!("task {id}, which is {state}"))
        .hint(format!("use another key; `tubewell find {}` shows the task", word(key)))
}

/// A text as a word of a command line, in quotes if a shell needs them.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@%+=".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let dashes = if text.starts_with('-') { "-- " } else { "" };
    format!("{dashes}'{}'", text.replace('\'', r"'\''"))
}

/// Which driver supports what the tube's driver does not.
fn other_driver(what: &str) -> &'static str {
    if what.contains("capacity") {
        "create the tube with --driver limfifottl"
    } else if what.contains("sub") {
        "use a tube of the driver utube or utubettl"
    } else {
        "use a tube of the driver fifottl, utubettl or limfifottl"
    }
}

/// A full disk and missing permissions are the common I/O errors, and the user can fix both.
fn with_hint_of_system(failure: Failure) -> Failure {
    const FULL: &[&str] = &["No space left", "File too large", "quota", "os error 112"];
    const DENIED: &[&str] = &["Permission denied", "Read-only file system", "Access is denied"];
    let names = |signs: &[&str]| signs.iter().any(|sign| failure.message.contains(sign));
    if names(FULL) {
        return failure.hint("free disk space and try again; everything acknowledged is stored");
    }
    if names(DENIED) {
        return failure.hint("every command but `export` needs write permission for the file");
    }
    failure
}
