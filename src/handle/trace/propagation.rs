//! What joins spans to distributed traces: given by the application, since `tracing` has no ids of traces.

use std::sync::OnceLock;

use ::tracing::Span;

use crate::base::user_code::panic_to_error;
use crate::{Error, Result};

static PROPAGATION: OnceLock<Box<dyn Propagation>> = OnceLock::new();

/// How spans are joined to distributed traces; see [`set_propagation`].
///
/// The functions are called in the thread of a call or of a worker, without a lock, and only for spans that a subscriber
/// has enabled. They must not make calls of a store. A panic in one of them is caught: the span stays as it is.
pub trait Propagation: Send + Sync + 'static {
    /// The `traceparent` of a span, in the form of [`Put::traceparent`](crate::Put::traceparent); `None` if the span
    /// belongs to no trace. A text of another form is ignored.
    ///
    /// Called for the span of a put whose task has none. If that span is not enabled, and for the tasks that an
    /// [`Outcome`](crate::Outcome), a [`spawn`](crate::Claim::spawn) or a transaction puts: for the current span.
    fn inject(&self, span: &Span) -> Option<String>;

    /// Makes the span, which was not entered yet, a child of the span that the `traceparent` of a task names.
    ///
    /// Called for the span `process` of a job; outside of any span also for `take` and for the end of a claim.
    fn set_parent(&self, span: &Span, traceparent: &str);

    /// Links the span to the span that the `traceparent` of a task names. Default: nothing.
    ///
    /// Called for each task of a batch of jobs and of a take of several tasks, and for a take within another span,
    /// which stays its parent.
    fn add_link(&self, span: &Span, traceparent: &str) {
        let _ = (span, traceparent);
    }
}

/// Sets how the spans of this process are joined to distributed traces. Call it once, at the start of the program,
/// before the first put. Does not block.
///
/// Without it, spans have the parents that `tracing` gives them, and puts get no
/// [`traceparent`](crate::Put::traceparent) by themselves.
///
/// # Errors
/// [`Invalid`](Error::Invalid): it was set before. The first one stays.
///
/// # Example: OpenTelemetry
/// With the crates `opentelemetry`, `opentelemetry_sdk` and `tracing-opentelemetry`, in which `propagator` is a
/// `TraceContextPropagator`; `docs/traces.md` has the whole of it.
/// ```
/// use tubewell::tracing::{Propagation, set_propagation};
///
/// struct OpenTelemetry;
///
/// impl Propagation for OpenTelemetry {
///     fn inject(&self, _span: &tracing::Span) -> Option<String> {
///         // propagator.inject_context(&_span.context(), &mut headers); headers.remove("traceparent")
///         # None
///     }
///
///     fn set_parent(&self, _span: &tracing::Span, _traceparent: &str) {
///         // let _ = _span.set_parent(propagator.extract(&headers_with(_traceparent)));
///     }
///
///     fn add_link(&self, _span: &tracing::Span, _traceparent: &str) {
///         // _span.add_link(propagator.extract(&headers_with(_traceparent)).span().span_context().clone());
///     }
/// }
///
/// set_propagation(OpenTelemetry)?;
/// assert!(set_propagation(OpenTelemetry).is_err());
/// # Ok::<(), tubewell::Error>(())
/// ```
pub fn set_propagation(propagation: impl Propagation) -> Result<()> {
    PROPAGATION.set(Box::new(propagation)).map_err(|_| {
        Error::invalid(
            "the propagation of traces is set already; set it once, when the program starts",
        )
    })
}

/// Calls the application, if it has set how spans are joined.
pub(super) fn propagate<T>(call: impl FnOnce(&dyn Propagation) -> T) -> Option<T> {
    let propagation = PROPAGATION.get()?;
    panic_to_error(|| call(&**propagation)).ok()
}
