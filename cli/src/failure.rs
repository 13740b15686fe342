//! What went wrong, in plain words, with what to do about it and the exit code.

use std::fmt::Display;
use std::io;

use tubewell::Error;

/// How a command ends. The numbers are documented and stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It could not be done: the disk, the file, the system.
    Failed,
    /// The command line asks for something that cannot be.
    Usage,
    /// There is no such task, or none to take.
    NoTask,
    /// There is no such store or tube.
    Missing,
    /// Another process has the store.
    InUse,
    /// Not as things are now: the tube exists, is full or is busy.
    Refused,
    /// Done in part; the message says how far.
    Partly,
    /// The command of `work` could not be started.
    NotStarted,
    /// Whoever read the output has gone.
    Pipe,
    /// A signal ended it.
    Signal(u8),
}

impl Exit {
    /// The exit code.
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

/// Why a command did not do what it was asked.
#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    /// What happened; empty if everything has been said.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What a command answers.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// The exit code alone: what there was to say has been said.
    pub fn quiet(exit: Exit) -> Failure {
        Failure::new(exit, "")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with what it happened to in front.
    #[must_use]
    pub fn about(mut self, what: impl Display) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What the parser of the command line says in several paragraphs, in a sentence and a hint.
    pub fn of_command_line(text: &str) -> Failure {
        let in_a_line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut parts = text.split("\n\n").map(in_a_line);
        let what = parts.next().unwrap_or_default();
        let hint = parts.find_map(|part| Some(part.strip_prefix("tip: ")?.to_owned()));
        Failure::usage(what.strip_prefix("error: ").unwrap_or(&what))
            .hint(hint.unwrap_or_else(|| "`tubewell COMMAND --help` shows how it is used".into()))
    }

    /// Writing the output failed.
    pub fn output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::quiet(Exit::Pipe);
        }
        let failure = Failure::new(Exit::Failed, format!("cannot write the output: {error}"));
        with_hint_of_system(failure)
    }

    /// What was to be done had been done before the output failed: who does it again does it twice.
    #[must_use]
    pub fn after_the_fact(self) -> Failure {
        if self.exit == Exit::Pipe {
            return self;
        }
        self.hint("what the command was to do is done; only what it prints is missing")
    }

    /// Reading standard input failed.
    pub fn input(error: &io::Error) -> Failure {
        Failure::new(Exit::Failed, format!("cannot read standard input: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        let told = |exit| Failure::new(exit, message.clone());
        match error {
            Error::NotTaken { .. } | Error::NotFound { .. } => told(Exit::NoTask),
            Error::TubeNotFound { name, .. } => {
                Failure::new(Exit::Missing, format!("no tube {name:?}"))
            }
            Error::TubeExists { name } => {
                Failure::new(Exit::Refused, format!("tube {name:?} exists already"))
                    .hint("use it as it is, or create it with --if-not-exists")
            }
            Error::TubeDiffers { .. } => {
                told(Exit::Refused).hint("see `tubewell tubes`; a tube keeps the options it has")
            }
            Error::FileExists { .. } | Error::TubeBusy { .. } | Error::Overloaded => {
                told(Exit::Refused)
            }
            Error::Full { .. } => told(Exit::Refused)
                .hint("take or delete tasks, or wait for some to expire with put --wait"),
            Error::DiskFull { .. } => told(Exit::Refused).hint(
                "make room on the disk; what is in the store can be taken and deleted meanwhile",
            ),
            Error::DriverUnknown { known, .. } => {
                told(Exit::Usage).hint(format!("the drivers here are {known}"))
            }
            Error::Unsupported { what, .. } => {
                told(Exit::Usage).hint(format!("leave it out, or {}", other_driver(&what)))
            }
            Error::Invalid { .. } => told(Exit::Usage),
            Error::InUse { .. } => told(Exit::InUse),
            Error::NewerFormat { .. } => told(Exit::Missing)
                .hint("the file is as it was; the release that made it, or a later one, opens it"),
            Error::NotAStore { .. } => told(Exit::Missing),
            Error::Corrupt { .. } => told(Exit::Failed).hint(
                "`tubewell verify` lists everything that is damaged, `tubewell export` saves the rest",
            ),
            _ => with_hint_of_system(told(Exit::Failed)),
        }
    }
}

/// Which driver does what this one does not.
fn other_driver(what: &str) -> &'static str {
    if what.contains("capacity") {
        "create the tube with --driver limfifottl"
    } else if what.contains("sub") {
        "use a tube that was created with --driver utube or utubettl"
    } else {
        "use a tube that was created with --driver fifottl, utubettl or limfifottl"
    }
}

/// A full disk and a file of somebody else's are the I/O errors that everybody meets, and they can
/// be helped.
fn with_hint_of_system(failure: Failure) -> Failure {
    const FULL: &[&str] = &["No space left", "File too large", "quota", "os error 112"];
    const CLOSED: &[&str] = &["Permission denied", "Read-only file system", "Access is denied"];
    let tells = |signs: &[&str]| signs.iter().any(|sign| failure.message.contains(sign));
    if tells(FULL) {
        return failure.hint("make room on the disk and try again; what was acknowledged is safe");
    }
    if tells(CLOSED) {
        return failure.hint("who uses a store writes to its file; only `export` just reads it");
    }
    failure
}
