//! The call that ends a claim as an outcome says.

use std::mem::{replace, take};
use std::time::Duration;

use super::{End, Outcome};
use crate::base::micros::{duration, micros_ceil};
use crate::core::list::{Ack, EndTask, Release, Snooze};
use crate::core::{EndRequest, PutInto, TaskEnd};
use crate::handle::store_handle::StoreHandle;
use crate::{Error, Failure, Result};

/// The call that ends a claim. The plain ends have verbs of their own, which cost less.
pub(crate) enum EndCall {
    Ack(Ack),
    Release(Release),
    Snooze(Snooze),
    End(Box<EndTask>),
}

impl Outcome {
    /// As the end of a task of this store; `None` if its claim stays.
    pub(crate) fn into_request(self, handle: &StoreHandle) -> Result<Option<EndRequest>> {
        let end = match self.end {
            End::Done => TaskEnd::Ack { result: None },
            End::Result(result) => TaskEnd::Ack { result: Some(result?) },
            End::Advance(tube, put) => TaskEnd::Advance(Box::new(tube.put_into(handle, *put)?)),
            End::AdvanceUnchanged(to) => {
                to.check_store(handle)?;
                TaskEnd::AdvanceUnchanged { tube: to.number(), name: to.shared_name() }
            }
            End::Release(delay) => TaskEnd::Release { delay: micros_ceil(delay) },
            End::Snooze(delay) => TaskEnd::Snooze { delay: micros_ceil(delay) },
            End::Fail(delay, failure) => TaskEnd::Fail { delay: delay.map(micros_ceil), failure },
            End::Bury(failure) => TaskEnd::Bury(failure),
            End::Detach if self.puts.is_empty() => return Ok(None),
            End::Detach => {
                return Err(Error::invalid(
                    "a task that is detached does not end, so it cannot put tasks with its end; put \
                     them with `Tube::put`",
                ));
            }
        };
        let puts = self.puts.into_iter().map(|(tube, put)| tube.put_into(handle, put));
        let puts = puts.collect::<Result<Vec<PutInto>>>()?;
        Ok(Some(EndRequest { end, puts }))
    }

    /// The result of a task that is done, for one that nobody has taken.
    pub(crate) fn into_result(self) -> Result<Option<Vec<u8>>> {
        match self.end {
            End::Done if self.puts.is_empty() => Ok(None),
            End::Result(result) if self.puts.is_empty() => result.map(Some),
            _ => Err(Error::invalid(
                "`resolve` ends a task as done: give it `()`, `Outcome::done`, `Outcome::value` or \
                 `Outcome::result`; `bury` buries a task; other outcomes and `and_put` need a claim",
            )),
        }
    }

    /// As a call on a claim of this store; `None` if the claim stays.
    pub(crate) fn into_call(self, handle: &StoreHandle) -> Result<Option<EndCall>> {
        Ok(self.into_request(handle)?.map(EndCall::of))
    }
}

impl EndCall {
    pub(crate) fn of(request: EndRequest) -> EndCall {
        if !request.puts.is_empty() {
            return EndCall::End(Box::new(EndTask { request }));
        }
        match request.end {
            TaskEnd::Ack { result } => EndCall::Ack(Ack { result }),
            TaskEnd::Release { delay: 0 } => EndCall::Release(Release {}),
            TaskEnd::Snooze { delay: 0 } => EndCall::Snooze(Snooze {}),
            end => EndCall::End(Box::new(EndTask::alone(end))),
        }
    }

    /// The same end, as that of one of several claims.
    pub(crate) fn to_request(&self) -> EndRequest {
        match self {
            EndCall::Ack(Ack { result }) => {
                EndRequest::alone(TaskEnd::Ack { result: result.clone() })
            }
            EndCall::Release(Release {}) => EndRequest::alone(TaskEnd::Release { delay: 0 }),
            EndCall::Snooze(Snooze {}) => EndRequest::alone(TaskEnd::Snooze { delay: 0 }),
            EndCall::End(task) => task.request.clone(),
        }
    }

    /// The end of an attempt that has failed.
    pub(crate) fn fail(failure: Failure) -> EndCall {
        EndCall::of(EndRequest::alone(TaskEnd::Fail { delay: None, failure }))
    }

    pub(crate) fn snooze(delay: Duration) -> EndCall {
        EndCall::of(EndRequest::alone(TaskEnd::Snooze { delay: micros_ceil(delay) }))
    }

    pub(crate) fn bury(failure: Failure) -> EndCall {
        EndCall::of(EndRequest::alone(TaskEnd::Bury(Some(failure))))
    }

    /// Whether the attempt does not count.
    pub(crate) fn forgives(&self) -> bool {
        match self {
            EndCall::Snooze(_) => true,
            EndCall::End(task) => task.request.end.forgives(),
            EndCall::Ack(_) | EndCall::Release(_) => false,
        }
    }

    /// The failure that it reports.
    pub(crate) fn into_failure(self) -> Option<Failure> {
        let EndCall::End(task) = self else { return None };
        task.request.end.failure().cloned()
    }

    /// Whether the attempt has failed.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, EndCall::End(task) if matches!(task.request.end, TaskEnd::Fail { .. }))
    }

    /// Delays the next attempt of a task that has failed without a delay of its own.
    pub(crate) fn delay_failed(&mut self, by: Duration) {
        if let EndCall::End(task) = self
            && let TaskEnd::Fail { delay: delay @ None, .. } = &mut task.request.end
        {
            *delay = Some(micros_ceil(by)).filter(|delay| *delay > 0);
        }
    }

    /// Buries a task that has failed.
    pub(crate) fn bury_failed(&mut self) {
        if let EndCall::End(task) = self
            && let TaskEnd::Fail { failure, .. } = &mut task.request.end
        {
            task.request.end = TaskEnd::Bury(Some(failure.clone()));
        }
    }

    /// Takes the delay out: the caller keeps the claim for that time.
    pub(crate) fn take_delay(&mut self) -> Option<Duration> {
        let EndCall::End(task) = self else { return None };
        let delay = match &mut task.request.end {
            TaskEnd::Release { delay }
            | TaskEnd::Snooze { delay }
            | TaskEnd::Fail { delay: Some(delay), .. } => take(delay),
            _ => return None,
        };
        let alone = EndRequest::alone(TaskEnd::Ack { result: None });
        *self = EndCall::of(replace(&mut task.request, alone));
        Some(duration(delay))
    }
}
