//! From the body of a claim to its value.

use super::Claim;
use crate::core::TaskEnd;
use crate::core::list::EndTask;
use crate::values::body::Coder;
use crate::{Error, Failure, Result};

/// The failure group of tasks whose bodies are no values of the type of their tube.
pub(crate) const UNDECODABLE: &str = "undecodable";

impl Claim {
    /// Decodes the body. A task whose body cannot be decoded is buried, since every later take of it
    /// would fail too.
    #[inline]
    pub(crate) fn decode<T>(self, coder: &Coder<T>) -> Result<Claim<T>> {
        self.try_decode(coder).map_err(|undecodable| undecodable.bury_here())
    }

    /// As `decode`, as a future that blocks no thread.
    pub(crate) async fn decode_async<T>(self, coder: Coder<T>) -> Result<Claim<T>> {
        let undecodable = match self.try_decode(&coder) {
            Ok(claim) => return Ok(claim),
            Err(undecodable) => undecodable,
        };
        Err(undecodable.bury().await)
    }

    #[inline]
    pub(crate) fn try_decode<T>(self, coder: &Coder<T>) -> Result<Claim<T>, Box<Undecodable>> {
        let Claim { held, value, body, mode, .. } = self;
        // The value of a tube with a codec for bytes is not its body.
        match coder.decode(body.unwrap_or(value)) {
            Ok((value, body)) => Ok(Claim { held, value, body, coder: coder.clone(), mode }),
            Err((body, error)) => {
                let claim = Claim { held, value: body, body: None, coder: Coder::BYTES, mode };
                Err(Box::new(Undecodable { claim, error }))
            }
        }
    }

    /// As `try_decode`, of a claim that stays its session's: a body that cannot be decoded buries nothing.
    pub(crate) fn typed<T>(self, coder: &Coder<T>) -> Result<Claim<T>> {
        self.try_decode(coder).map_err(|undecodable| undecodable.in_task())
    }
}

/// A claim on a task whose body is no value of the wanted type.
pub(crate) struct Undecodable {
    claim: Claim,
    error: Error,
}

impl Undecodable {
    /// The error for the caller. The task stays as it is.
    #[cold]
    fn in_task(self) -> Error {
        Error::Codec { what: format!("{}: {}", describe(&self.claim), what_of(self.error)) }
    }

    /// As `bury`, and blocks.
    #[cold]
    pub(crate) fn bury_here(self) -> Error {
        let Undecodable { claim, error } = self;
        let (task, failure) = (describe(&claim), failure_of(&error));
        buried(&task, error, claim.bury(failure).map(drop))
    }

    /// Buries the task. Returns the error for the caller of the take.
    pub(crate) async fn bury(self) -> Error {
        let Undecodable { mut claim, error } = self;
        let bury = EndTask::alone(TaskEnd::Bury(Some(failure_of(&error))));
        let outcome = claim.held.make_async(&bury).await;
        claim.held.was_ended(outcome.is_err(), false);
        buried(&describe(&claim), error, outcome.map(drop))
    }
}

/// As workers report it.
fn failure_of(error: &Error) -> Failure {
    Failure::new(UNDECODABLE, error.to_string())
}

fn describe(claim: &Claim) -> String {
    format!("task {} of tube {:?}", claim.id(), claim.tube())
}

fn what_of(error: Error) -> String {
    match error {
        Error::Codec { what } => what,
        other => other.to_string(),
    }
}

/// The error for a body that cannot be decoded, after the task was buried, or could not be.
fn buried(task: &str, error: Error, outcome: Result<()>) -> Error {
    let what = what_of(error);
    let what = match outcome {
        Ok(()) => format!("{task}: {what}; it is buried: update and kick it, or delete it"),
        Err(error) => format!("{task}: {what}; it could not be buried: {error}"),
    };
    Error::Codec { what }
}
