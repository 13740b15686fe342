//! The spans of calls. Their level is DEBUG: a program with an ordinary filter sees the work of its handlers, and not
//! each call. The target is `tubewell`.

use ::tracing::field::{Empty, display};
use ::tracing::level_filters::LevelFilter;
use ::tracing::{Span, debug_span};
use tubewell_drivers::{Header, Traceparent};

use super::propagation::propagate;
use crate::core::verb::{Operation, Verb};
use crate::core::{Grant, PutRequest};
use crate::values::put::Encoded;
use crate::{Error, Result};

/// Whether any subscriber may want spans. All that is done without one.
#[inline]
pub(crate) fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// What a call is made on.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a> {
    Store,
    Tube(&'a str),
    Claim(&'a Grant),
}

impl<'a> Of<'a> {
    pub(crate) const STORE: Of<'static> = Of::Store;

    #[inline]
    pub(crate) fn tube(name: &'a str) -> Of<'a> {
        Of::Tube(name)
    }

    #[inline]
    pub(crate) fn claim(grant: &'a Grant) -> Of<'a> {
        Of::Claim(grant)
    }
}

/// The span of a call, from its begin to its answer.
#[derive(Clone)]
pub(crate) struct CallSpan(Span);

impl CallSpan {
    pub(crate) fn none() -> CallSpan {
        CallSpan(Span::none())
    }

    /// Begins the span of a call, if calls of its verb have one. Puts without a `traceparent` get that of the span, or
    /// of the current one. `claims`: how many claims the call ends.
    #[inline]
    pub(crate) fn begin<V: Verb>(of: Of<'_>, claims: usize, verb: &mut V) -> CallSpan {
        if !is_on() {
            return CallSpan(Span::none());
        }
        match verb.operation() {
            None => CallSpan(Span::none()),
            Some(Operation::Send(name)) => {
                let span = begin_put(of, name, verb.puts().len());
                join_all(&span.0, verb.puts());
                span
            }
            Some(Operation::Restore(name)) => begin_put(of, name, verb.puts().len()),
            Some(Operation::Settle(name)) => {
                let Of::Claim(grant) = of else { return CallSpan(Span::none()) };
                CallSpan(settle(name, grant, claims))
            }
        }
    }

    /// As `begin`, for a verb that ends so many claims, of which this is the first.
    #[inline]
    pub(crate) fn of_claims<V: Verb>(grant: &Grant, verb: &V, count: usize) -> CallSpan {
        if !is_on() {
            return CallSpan(Span::none());
        }
        match verb.operation() {
            Some(Operation::Settle(name)) => CallSpan(settle(name, grant, count)),
            _ => CallSpan(Span::none()),
        }
    }

    /// Notes the answer of the call.
    #[inline]
    pub(crate) fn answered<V: Verb>(&self, answer: &Result<V::Answer>) {
        match answer {
            _ if self.is_none() => {}
            Ok(answer) => self.note::<V>(answer),
            Err(error) => refused(&self.0, error),
        }
    }

    /// Notes what the call has decided.
    pub(crate) fn note<V: Verb>(&self, answer: &V::Answer) {
        note_id(&self.0, V::id_in(answer));
    }

    /// The answer is there: the span ends.
    pub(crate) fn ended<R>(&mut self, answer: &Result<R>) {
        if let (false, Err(error)) = (self.is_none(), answer) {
            refused(&self.0, error);
        }
        *self = CallSpan::none();
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_disabled()
    }
}

/// Notes that a call was refused, by the name of its error. Its text may have a key.
fn refused(span: &Span, error: &Error) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error.name());
}

/// Notes that a handler has failed.
pub(crate) fn failed(span: &Span, kind: &str, why: &dyn std::fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", display(why));
    span.record("error.type", kind);
}

fn note_id(span: &Span, id: Option<u64>) {
    if let Some(id) = id {
        span.record("messaging.message.id", display(id));
    }
}

/// The span of a call with the attributes of OpenTelemetry's conventions for messaging. Those that are empty are recorded when
/// they are known.
macro_rules! call_span {
    ($span:literal, $operation:literal, $kind:literal, $name:expr, $tube:expr) => {
        debug_span!(
            target: "tubewell",
            $span,
            otel.name = %format_args!("{} {}", $name, $tube),
            otel.kind = $kind,
            otel.status_code = Empty,
            error.r#type = Empty,
            messaging.system = "tubewell",
            messaging.operation.name = $name,
            messaging.operation.r#type = $operation,
            messaging.destination.name = $tube,
            messaging.batch.message_count = Empty,
            messaging.message.id = Empty,
        )
    };
}

fn begin_put(of: Of<'_>, name: &'static str, count: usize) -> CallSpan {
    let Of::Tube(tube) = of else { return CallSpan(Span::none()) };
    let span = call_span!("put", "send", "producer", name, tube);
    if name.ends_with("_many") {
        span.record("messaging.batch.message_count", count);
    }
    CallSpan(span)
}

/// Puts without a `traceparent` get that of the span.
fn join_all(span: &Span, puts: &mut [PutRequest]) {
    let mut text = None;
    for put in puts.iter_mut().map(PutRequest::traceparent_mut).filter(|put| put.is_none()) {
        let text = text.get_or_insert_with(|| injected(span));
        let Some(text) = text else { break };
        *put = Some(text.clone());
    }
}

/// The `traceparent` of a span, or of the current one: the application may leave out spans of calls.
fn injected(span: &Span) -> Option<Box<str>> {
    [span.clone(), Span::current()].iter().filter(|span| !span.is_disabled()).find_map(|span| {
        let text = propagate(|it| it.inject(span))??;
        Traceparent::parse(&text)?;
        Some(text.into())
    })
}

/// A task that is put with another call belongs to the trace of the current span, unless it says where it belongs.
#[inline]
pub(crate) fn join(put: Result<Encoded>) -> Result<Encoded> {
    let mut put = put?;
    if is_on() && put.options.traceparent.is_none() {
        put.options.traceparent = injected(&Span::none());
    }
    Ok(put)
}

/// The span of the end of claims, of which this is the first.
fn settle(name: &'static str, grant: &Grant, count: usize) -> Span {
    let tube = &*grant.name;
    let span = call_span!("settle", "settle", "client", name, tube);
    if name == "end_many" {
        span.record("messaging.batch.message_count", count);
    } else {
        note_id(&span, Some(grant.id));
        if Span::current().is_none() {
            set_parent(&span, &grant.header);
        }
    }
    span
}

/// A take has got a task. The time that it has waited is not in the span.
#[inline]
pub(crate) fn taken(grant: &Grant) {
    if is_on() {
        let span = take("take", &grant.name);
        note_id(&span, Some(grant.id));
        if Span::current().is_none() {
            set_parent(&span, &grant.header);
        } else {
            add_links(&span, [&grant.header]);
        }
    }
}

/// As `taken`, for a take of several tasks of one tube.
#[inline]
pub(crate) fn taken_many<'a>(grants: impl ExactSizeIterator<Item = &'a Grant> + Clone) {
    if is_on()
        && let Some(first) = grants.clone().next()
    {
        let span = take("take_many", &first.name);
        span.record("messaging.batch.message_count", grants.len());
        add_links(&span, grants.map(|grant| &grant.header));
    }
}

fn take(name: &'static str, tube: &str) -> Span {
    call_span!("take", "receive", "client", name, tube)
}

/// The span is a child of the one in which the task was put.
pub(crate) fn set_parent(span: &Span, header: &Header) {
    if let Some(traceparent) = header.traceparent().filter(|_| !span.is_disabled()) {
        propagate(|it| it.set_parent(span, &traceparent.to_string()));
    }
}

/// Links the span to those in which the tasks were put.
pub(crate) fn add_links<'a>(span: &Span, headers: impl IntoIterator<Item = &'a Header>) {
    if span.is_disabled() {
        return;
    }
    for traceparent in headers.into_iter().filter_map(Header::traceparent) {
        propagate(|it| it.add_link(span, &traceparent.to_string()));
    }
}
