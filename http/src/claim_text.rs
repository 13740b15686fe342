//! The text of a claim: what a client names to end it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tubewell::{AsyncClaim, Error};

use crate::problem::{Answer, Problem};

/// Which claim it is. Its epoch tells it from later claims on the same task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClaimText {
    pub(crate) tube: String,
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    /// The name of the worker that has it, if that has one.
    pub(crate) worker: Option<String>,
}

impl ClaimText {
    pub(crate) fn of(claim: &AsyncClaim, worker: Option<&str>) -> ClaimText {
        let (tube, worker) = (claim.tube().to_owned(), worker.map(str::to_owned));
        ClaimText { tube, id: claim.id(), epoch: claim.epoch(), worker }
    }

    /// The claim of a part of a path.
    pub(crate) fn parse(text: &str) -> Answer<ClaimText> {
        let unknown = || {
            Problem::invalid("the path names no claim; use the `claim` that a take has returned")
        };
        let mut parts = text.splitn(4, '.');
        let mut next = || parts.next().ok_or_else(unknown);
        let (id, epoch, tube) = (next()?, next()?, next()?);
        let name = |text: &str| {
            let name = URL_SAFE_NO_PAD.decode(text).ok();
            name.and_then(|name| String::from_utf8(name).ok()).ok_or_else(unknown)
        };
        let claim = ClaimText {
            tube: name(tube)?,
            worker: parts.next().map(name).transpose()?,
            id: id.parse().map_err(|_| unknown())?,
            epoch: u64::from_str_radix(epoch, 16).map_err(|_| unknown())?,
        };
        // One claim has one text.
        if claim.to_string() == text { Ok(claim) } else { Err(unknown()) }
    }

    /// The refusal of a claim that has ended.
    pub(crate) fn ended(&self) -> Problem {
        Error::NotTaken { id: self.id }.into()
    }
}

impl std::fmt::Display for ClaimText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:x}.{}", self.id, self.epoch, URL_SAFE_NO_PAD.encode(&self.tube))?;
        match &self.worker {
            Some(worker) => write!(f, ".{}", URL_SAFE_NO_PAD.encode(worker)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_claim_is_read_back_and_others_are_refused() {
        for tube in ["mails", "a/b ä", ""] {
            for worker in [None, Some("a.b".to_owned())] {
                let claim = ClaimText { tube: tube.into(), id: 7, epoch: u64::MAX, worker };
                assert_eq!(ClaimText::parse(&claim.to_string()).unwrap(), claim);
            }
        }
        for text in
            ["", "7", "+7.1.YQ", "7.01.YQ", "7.A.YQ", "7.1", "x.1.YQ", "7.x.YQ", "7.1.%", "7.1._w"]
        {
            assert!(ClaimText::parse(text).is_err(), "{text}");
        }
    }
}
