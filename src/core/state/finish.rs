//! A finish, checked and converted before the core is locked.

use std::sync::Arc;

use super::request::{PutRequest, check_size};
use crate::{Error, Result};

/// The end of a task, and the puts that are part of it.
#[derive(Clone, Debug)]
pub(crate) struct FinishRequest {
    pub(in crate::core) result: Option<Vec<u8>>,
    pub(in crate::core) puts: Vec<PutInto>,
    pub(in crate::core) advance: Option<PutInto>,
}

/// A put, and its tube.
#[derive(Clone, Debug)]
pub(crate) struct PutInto {
    pub(crate) tube: u32,
    /// For errors.
    pub(crate) name: Arc<str>,
    pub(crate) request: PutRequest,
}

impl FinishRequest {
    /// Refuses a result of a task that goes on, and more tasks than one `put_many` may have.
    pub(crate) fn new(
        result: Option<Vec<u8>>,
        puts: Vec<PutInto>,
        advance: Option<PutInto>,
    ) -> Result<FinishRequest> {
        let finish = FinishRequest { result, puts, advance };
        finish.check_parts()?;
        Ok(finish)
    }

    fn check_parts(&self) -> Result<()> {
        if self.result.is_some() && self.advance.is_some() {
            return Err(Error::invalid(
                "a task that advances has no result yet; leave the result out, or put it into the \
                 body of the next step",
            ));
        }
        PutRequest::check_many("finish", self.targets().map(|into| &into.request))
    }

    /// The checks of a handle and of `new`, for a finish that another process has made.
    pub(in crate::core) fn check(&self, max_body: usize) -> Result<()> {
        self.result.as_ref().map_or(Ok(()), |result| check_size("result", result, max_body))?;
        self.targets().try_for_each(|into| into.request.check(max_body))?;
        self.check_parts()
    }

    /// The passing on of a task, and nothing else.
    pub(crate) fn advance(into: PutInto) -> FinishRequest {
        FinishRequest { result: None, puts: Vec::new(), advance: Some(into) }
    }

    pub(in crate::core) fn result(&self) -> Option<&[u8]> {
        self.result.as_deref()
    }

    /// The new tasks.
    pub(in crate::core) fn puts(&self) -> &[PutInto] {
        &self.puts
    }

    /// Where the task goes on.
    pub(in crate::core) fn next(&self) -> Option<&PutInto> {
        self.advance.as_ref()
    }

    /// The new tasks, and the one that goes on.
    pub(in crate::core) fn targets(&self) -> impl Iterator<Item = &PutInto> + Clone {
        self.puts.iter().chain(&self.advance)
    }
}
