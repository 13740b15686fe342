//! What becomes of a task when its command has ended.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, Error};

use crate::args::{OnFailure, Work};
use crate::failure::Failure;

/// What a command's end means for its task.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    on_failure: OnFailure,
    delay: Duration,
    max_takes: Option<u32>,
    /// Failed tasks stay taken until the end of the run: who asked to drain the tubes does not
    /// want to meet the same failing task for ever.
    keep: bool,
}

/// What became of a task.
#[derive(Clone, Debug)]
pub enum Fate {
    Done,
    Released,
    Buried,
    /// It failed and stays taken until the run ends.
    Kept,
    /// Its command was ended, and it is ready again.
    Ended,
    /// Its life ended while the command ran, or somebody else did something to it.
    Lost,
    /// The store could not say.
    Broken(Failure),
}

/// A task whose command has ended.
#[derive(Clone, Debug)]
pub struct Settled {
    pub id: u64,
    pub tube: String,
    pub takes: u32,
    pub how: How,
    pub fate: Fate,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct How {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
}

impl Rules {
    pub fn of(asked: &Work) -> Rules {
        let releases = asked.on_failure == OnFailure::Release;
        Rules {
            on_failure: asked.on_failure,
            delay: asked.delay.unwrap_or_default(),
            max_takes: asked.max_takes,
            keep: asked.once && asked.max_takes.is_none() && releases,
        }
    }

    /// Whether a task has been taken too often to be tried again. It was taken at least once by a
    /// worker that did not live to tell.
    pub fn is_spent(&self, claim: &Claim) -> bool {
        self.max_takes.is_some_and(|most| claim.takes() > most)
    }

    /// Does with a task what the end of its command asks for. `ended` says that a failure is none of
    /// the task's.
    pub fn settle(&self, claim: Claim, status: io::Result<ExitStatus>, ended: bool) -> Settled {
        let (id, tube, takes) = (claim.id(), claim.tube().to_owned(), claim.takes());
        let how = status.as_ref().map_or_else(|_| How::default(), |status| how(*status));
        let succeeded = status.is_ok_and(|status| status.success());
        let fate = if succeeded {
            told(claim.ack(), Fate::Done)
        } else if ended {
            told(claim.release(Duration::ZERO), Fate::Ended)
        } else {
            self.failed(claim)
        };
        Settled { id, tube, takes, how, fate }
    }

    fn failed(&self, claim: Claim) -> Fate {
        let spent = self.max_takes.is_some_and(|most| claim.takes() >= most);
        if spent || self.on_failure == OnFailure::Bury {
            return told(claim.bury(), Fate::Buried);
        }
        if self.keep {
            // The claim stays with the session, the body does not stay in memory.
            drop(claim.detach());
            return Fate::Kept;
        }
        told(claim.release(self.delay), Fate::Released)
    }

    /// Sets a task aside without trying it.
    pub fn set_aside(claim: Claim) -> Settled {
        let (id, tube, takes) = (claim.id(), claim.tube().to_owned(), claim.takes());
        let fate = told(claim.bury(), Fate::Buried);
        Settled { id, tube, takes, how: How::default(), fate }
    }
}

impl Fate {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Fate::Done => "done",
            Fate::Released => "released",
            Fate::Buried => "buried",
            Fate::Kept => "kept",
            Fate::Ended => "ended",
            Fate::Lost => "lost",
            Fate::Broken(_) => "unknown",
        }
    }

    /// What happened, for people.
    pub fn explain(&self) -> &'static str {
        match self {
            Fate::Done => "done",
            Fate::Released => "released",
            Fate::Buried => "buried",
            Fate::Kept => "given back when this run ends",
            Fate::Ended => "ended, the task is ready again",
            Fate::Lost => "the task was no longer ours: its ttl may have ended",
            Fate::Broken(_) => "the store could not be written",
        }
    }
}

impl How {
    /// How a command ended, for people.
    pub fn explain(self) -> String {
        match (self.exit, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not run".into(),
        }
    }
}

/// Whether a command has ended by a signal, or says so as shells do. One that asked `work` to stop
/// may have gone to the commands as well, as a service manager sends it to all processes.
pub fn is_end_by(status: &io::Result<ExitStatus>, signal: u8) -> bool {
    let How { exit, signal: ended_by } =
        status.as_ref().map_or_else(|_| How::default(), |status| how(*status));
    let signal = i32::from(signal);
    ended_by == Some(signal) || exit == Some(128 + signal)
}

fn told<T>(answer: tubewell::Result<T>, fate: Fate) -> Fate {
    match answer {
        Ok(_) => fate,
        Err(Error::NotTaken { .. }) => Fate::Lost,
        Err(error) => Fate::Broken(error.into()),
    }
}

#[cfg(unix)]
fn how(status: ExitStatus) -> How {
    How { exit: status.code(), signal: std::os::unix::process::ExitStatusExt::signal(&status) }
}

#[cfg(not(unix))]
fn how(status: ExitStatus) -> How {
    How { exit: status.code(), signal: None }
}
