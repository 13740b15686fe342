//! The spans of handlers. Their level is INFO: they are the work of the application.

use std::future::Future;
use std::sync::Arc;

use ::tracing::field::{Empty, display};
use ::tracing::instrument::Instrumented;
use ::tracing::{Instrument as _, Span, info_span};

use crate::Failure;
use crate::handle::trace::{add_links, failed, is_on, set_parent};
use crate::worker::how::How;
use crate::worker::job::JobCore;

/// The span of a handler, of a job or of a batch.
pub(in crate::worker) struct Process(Span);

impl Process {
    #[inline]
    pub(in crate::worker) fn of_job(job: &JobCore) -> Process {
        Process(if is_on() { begin_job(job) } else { Span::none() })
    }

    #[inline]
    pub(in crate::worker) fn of_batch(jobs: &[Arc<JobCore>]) -> Process {
        match jobs.first() {
            Some(first) if is_on() => Process(begin_batch(first, jobs)),
            _ => Process(Span::none()),
        }
    }

    /// Runs a handler inside the span.
    #[inline]
    pub(in crate::worker) fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        if self.0.is_none() { run() } else { self.0.in_scope(run) }
    }

    /// The future of a handler, inside the span in each poll and in its drop.
    pub(in crate::worker) fn around<F: Future>(&self, future: F) -> Instrumented<F> {
        future.instrument(self.0.clone())
    }

    /// Ends the span of a job whose handler has ended like this.
    #[inline]
    pub(in crate::worker) fn ended(self, job: &JobCore, how: &How) {
        if !self.0.is_none() {
            self.note(how, job.is_settled(), job.is_timed_out());
        }
    }

    /// As `ended`, of a batch.
    #[inline]
    pub(in crate::worker) fn ended_batch(self, jobs: &[Arc<JobCore>], how: &How) {
        if !self.0.is_none() {
            let is_settled = jobs.iter().any(|job| job.is_settled());
            self.note(how, is_settled, jobs.iter().any(|job| job.is_timed_out()));
        }
    }

    /// `is_settled`: an error fails no attempt.
    fn note(self, how: &How, is_settled: bool, is_timed_out: bool) {
        let of = |failure: &Failure| failed(&self.0, failure.group(), &failure.message());
        match how {
            How::Outcome(outcome) => outcome.failure().map_or((), of),
            How::Failed(failure) if !is_settled => of(failure),
            How::Panicked(failure) => of(failure),
            // The message has parts of the body.
            How::Undecodable(failure) => {
                failed(&self.0, failure.group(), &"the body is none of the type of the handler");
            }
            How::DiskFull(error) => failed(&self.0, "disk full", error),
            How::Dropped if is_timed_out => failed(&self.0, "timeout", &"its time has elapsed"),
            How::Done | How::Failed(_) | How::Dropped => {}
        }
    }
}

fn begin_job(job: &JobCore) -> Span {
    let claim = job.claim();
    let span = process(claim.tube());
    span.record("messaging.message.id", display(claim.id()));
    span.record("tubewell.attempt", claim.attempt());
    set_parent(&span, &claim.held.grant.header);
    span
}

fn begin_batch(first: &JobCore, jobs: &[Arc<JobCore>]) -> Span {
    let span = process(first.claim().tube());
    span.record("messaging.batch.message_count", jobs.len());
    add_links(&span, jobs.iter().map(|job| &job.claim().held.grant.header));
    span
}

fn process(tube: &str) -> Span {
    info_span!(
        target: "tubewell",
        "process",
        otel.name = %format_args!("process {tube}"),
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.r#type = Empty,
        messaging.system = "tubewell",
        messaging.operation.name = "process",
        messaging.operation.r#type = "process",
        messaging.destination.name = tube,
        messaging.batch.message_count = Empty,
        messaging.message.id = Empty,
        tubewell.attempt = Empty,
    )
}
