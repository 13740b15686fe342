//! The feature `tracing`: which spans the calls and the workers make, and how they are joined to traces.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod recorder;
mod workers;

use std::time::Duration;

use executor::block_on;
use recorder::{Recorded, begin, quietly, recorded, spans_of, without_calls};
use tracing::{debug_span, info_span};
use tubewell::expert::Restore;
use tubewell::{Claim, Error, Failure, LIMFIFOTTL, Outcome, Put, Store, Tube, TubeOptions};

const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A store, and a tube of this name, which no other test has.
fn store_with(tube: &str) -> (Store, Tube) {
    begin();
    let store = Store::in_memory().unwrap();
    let tube = store.tube(tube).unwrap();
    (store, tube)
}

fn traceparent(tube: &Tube, id: u64) -> Option<String> {
    tube.query().task(id).unwrap().info.traceparent
}

fn names(spans: &[Recorded]) -> Vec<&str> {
    spans.iter().map(|span| span.field("otel.name").unwrap()).collect()
}

#[test]
fn put_take_and_ack_have_spans_with_the_attributes_of_messaging() {
    let (_store, tube) = store_with("attributes");
    let id = tube.put("x").unwrap().id;
    tube.try_take().unwrap().unwrap().ack().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    let spans = spans_of("attributes");
    assert_eq!(names(&spans), ["put attributes", "take attributes", "ack attributes"]);
    let id = id.to_string();
    let expected = [
        ("put", "producer", "put", "send"),
        ("take", "client", "take", "receive"),
        ("settle", "client", "ack", "settle"),
    ];
    for (span, (name, kind, operation, of_type)) in spans.iter().zip(expected) {
        let named = (span.name, span.target.as_str(), span.level.as_str());
        assert_eq!(named, (name, "tubewell", "DEBUG"));
        let fields: Vec<(&str, &str)> =
            span.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let otel_name = format!("{operation} attributes");
        let all = [
            ("messaging.destination.name", "attributes"),
            ("messaging.message.id", &id),
            ("messaging.operation.name", operation),
            ("messaging.operation.type", of_type),
            ("messaging.system", "tubewell"),
            ("otel.kind", kind),
            ("otel.name", &otel_name),
        ];
        assert_eq!(fields, all);
        assert!(span.is_closed);
    }
    // All three belong to one trace: the take and the ack outside of any span are joined to it.
    let [put, take, ack] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((take.trace, take.parent), (put.trace, Some(put.id)));
    assert_eq!((ack.trace, ack.parent), (put.trace, Some(put.id)));
}

#[test]
fn task_carries_the_span_of_its_put() {
    let (_store, tube) = store_with("carries");
    let request = info_span!("request");
    let id = request.in_scope(|| tube.put("x").unwrap().id);
    let put = spans_of("carries").remove(0);
    assert_eq!((put.trace, put.parent), (recorded(&request).trace, Some(recorded(&request).id)));
    assert_eq!(traceparent(&tube, id), Some(put.traceparent()));
    // Its own counts first.
    let id = request.in_scope(|| tube.put(Put::new("x").traceparent(OTHER)).unwrap().id);
    assert_eq!(traceparent(&tube, id).as_deref(), Some(OTHER));
}

#[test]
fn put_without_a_span_of_its_own_carries_the_current_one() {
    let (_store, tube) = store_with("current");
    let request = info_span!("request");
    let put = || request.in_scope(|| tube.put("x").unwrap().id);
    let id = quietly(put);
    assert_eq!(traceparent(&tube, id), Some(recorded(&request).traceparent()));
    let id = quietly(|| tube.put("y").unwrap().id);
    assert_eq!(traceparent(&tube, id), None);
    assert!(spans_of("current").is_empty());
}

#[test]
fn take_and_ack_within_a_span_are_its_children() {
    let (_store, tube) = store_with("within");
    tube.put("x").unwrap();
    let batch = debug_span!("batch");
    batch.in_scope(|| tube.take().unwrap().ack().unwrap());
    let spans = spans_of("within");
    let parent = Some(recorded(&batch).id);
    assert_eq!((spans[1].parent, spans[2].parent), (parent, parent));
    assert_eq!(spans[1].links, [spans[0].traceparent()]);
}

#[test]
fn put_many_has_one_span_with_the_number_of_its_tasks() {
    let (_store, tube) = store_with("many");
    let receipts = tube.put_many([Put::new("a"), Put::new("b").traceparent(OTHER)]).unwrap();
    let claims = tube.take_many(10, Duration::ZERO).unwrap();
    Claim::end_many(claims, |_| Outcome::done()).unwrap();
    let spans = spans_of("many");
    assert_eq!(names(&spans), ["put_many many", "take_many many", "end_many many"]);
    for span in &spans {
        assert_eq!(span.field("messaging.batch.message_count"), Some("2"));
        assert_eq!(span.field("messaging.message.id"), None);
    }
    assert_eq!(receipts.len(), 2);
    assert_eq!(spans[1].links, [spans[0].traceparent(), OTHER.to_owned()]);
}

#[test]
fn every_form_of_put_joins_its_task_to_its_trace() {
    let (store, tube) = store_with("forms");
    let later = tube.to_async();
    let ids = [
        tube.put("a").unwrap().id,
        tube.put_timeout("b", Duration::ZERO).unwrap().id,
        tube.put_and_wait("c", Duration::ZERO).unwrap().0.id,
        tube.put(Put::new("d").key("d")).unwrap().id,
        tube.requeue("d", "e").unwrap().id,
        later.put("f").wait().unwrap().id,
        block_on(later.put("g")).unwrap().id,
        tube.clone().refuse_when_full().put("h").unwrap().id,
    ];
    let spans = spans_of("forms");
    let named = ["put", "put", "put_and_wait", "put", "requeue", "put", "put", "put"];
    assert_eq!(names(&spans), named.map(|name| format!("{name} forms")));
    for (span, id) in spans.iter().zip(ids) {
        assert_eq!(span.field("messaging.message.id"), Some(&*id.to_string()), "{span:?}");
        assert!(span.is_closed, "{span:?}");
    }
    let put_again = spans[4].traceparent();
    for (at, id) in ids.into_iter().enumerate().filter(|(at, _)| *at != 3) {
        assert_eq!(traceparent(&tube, id), Some(spans[at].traceparent()));
    }
    assert_eq!(traceparent(&tube, ids[3]), Some(put_again));

    let other = store.tube("forms of ends").unwrap();
    let claim = tube.claim(ids[0]).unwrap();
    let handler = info_span!("handler");
    handler.in_scope(|| {
        claim.spawn("child", &other, "i").unwrap();
        claim.end(Outcome::done().and_put(&other, "j")).unwrap();
    });
    let claim = tube.claim(ids[1]).unwrap();
    handler.in_scope(|| claim.end(Outcome::advance(&other, "k")).unwrap());
    let carried: Vec<_> = other.query().list(tubewell::Filter::new(), None, 9).unwrap().items;
    let here = Some(recorded(&handler).traceparent());
    // The one that goes on stays where it was.
    let expected = [Some(spans[1].traceparent()), here.clone(), here];
    let mut found: Vec<_> = carried.into_iter().map(|task| (task.id, task.traceparent)).collect();
    found.sort_unstable();
    assert_eq!(found.into_iter().map(|(_, it)| it).collect::<Vec<_>>(), expected);
}

#[test]
fn ends_of_claims_have_their_names() {
    let (store, tube) = store_with("ends");
    let other = store.tube("ends in another tube").unwrap();
    tube.put("x").unwrap();
    let take = || tube.take().unwrap();
    take().release().unwrap();
    take().end(Outcome::snooze(Duration::ZERO)).unwrap();
    take().fail(Failure::new("net", "no host")).unwrap();
    take().end(Outcome::advance(&tube, "y")).unwrap();
    let claim = take();
    let id = claim.id();
    claim.bury(None).unwrap();
    tube.kick(id).unwrap();
    block_on(tube.to_async().take())
        .unwrap()
        .end(Outcome::advance_unchanged(&other))
        .wait()
        .unwrap();
    let settled: Vec<_> = spans_of("ends").into_iter().filter(|it| it.name == "settle").collect();
    let ends = ["release", "snooze", "fail", "advance", "bury", "advance"];
    assert_eq!(names(&settled), ends.map(|end| format!("{end} ends")));
    assert!(settled.iter().all(|it| it.is_closed && it.field("otel.status_code").is_none()));
}

#[test]
fn refused_call_has_the_status_of_an_error() {
    begin();
    let store = Store::in_memory().unwrap();
    let full = TubeOptions::new().driver(LIMFIFOTTL).capacity(1);
    let tube = store.open_tube("refused", full).unwrap();
    tube.put("a").unwrap();
    let error = tube.put("b").unwrap_err();
    assert!(matches!(error, Error::Full { .. }));
    assert_eq!(tube.to_async().put("c").wait(), Err(error.clone()));
    let claim = tube.take().unwrap();
    tube.delete(claim.id()).unwrap();
    let not_taken = claim.ack().unwrap_err();
    let spans = spans_of("refused");
    let of = |at: usize| {
        let span: &Recorded = &spans[at];
        (span.field("otel.status_code"), span.field("error.type"))
    };
    assert_eq!(of(0), (None, None));
    assert_eq!(of(1), (Some("ERROR"), Some("Full")));
    assert_eq!(of(2), of(1));
    assert!(matches!(not_taken, Error::NotTaken { .. }));
    assert_eq!(of(4), (Some("ERROR"), Some("NotTaken")));
    assert!(spans.iter().all(|span| span.is_closed));
}

/// Regression: a span made the ticket of a put one that is done only when it has been awaited.
#[test]
fn ticket_of_a_put_with_a_span_is_done_when_the_put_is() {
    let (store, tube) = store_with("tickets");
    let ticket = tube.to_async().put("x");
    store.flush().unwrap();
    assert!(ticket.is_done());
    assert!(!spans_of("tickets")[0].is_closed);
    let id = ticket.wait().unwrap().id;
    let spans = spans_of("tickets");
    assert!(spans[0].is_closed);
    assert_eq!(spans[0].field("messaging.message.id"), Some(&*id.to_string()));
}

/// Regression: a put belonged to no trace if the exporter left out the spans of calls.
#[test]
fn put_belongs_to_the_current_span_if_spans_of_calls_are_not_exported() {
    let (_store, tube) = store_with("left out");
    let request = info_span!("request");
    let id = without_calls(|| request.in_scope(|| tube.put("x").unwrap().id));
    assert_eq!(traceparent(&tube, id), Some(recorded(&request).traceparent()));
}

/// Regression: tasks of an import joined the trace of the import.
#[test]
fn restored_tasks_stay_in_the_traces_of_their_puts() {
    let (_store, tube) = store_with("restored");
    let tasks = [Restore::new("x").takes(1), Restore::new(Put::new("y").traceparent(OTHER))];
    let receipts = tube.admin().restore_many(tasks).unwrap();
    assert_eq!(traceparent(&tube, receipts[0].id), None);
    assert_eq!(traceparent(&tube, receipts[1].id).as_deref(), Some(OTHER));
    assert_eq!(names(&spans_of("restored")), ["restore_many restored"]);
}

/// A put never fails because of its trace.
#[test]
fn defect_of_the_propagation_leaves_the_put_as_it_is() {
    let (_store, tube) = store_with("defects");
    for span in [info_span!("panics"), info_span!("malformed")] {
        let id = quietly(|| span.in_scope(|| tube.put("x").unwrap().id));
        assert_eq!(traceparent(&tube, id), None);
    }
}

#[test]
fn propagation_is_set_once() {
    struct Other;
    impl tubewell::tracing::Propagation for Other {
        fn inject(&self, _: &tracing::Span) -> Option<String> {
            None
        }

        fn set_parent(&self, _: &tracing::Span, _: &str) {}
    }
    begin();
    let refused = tubewell::tracing::set_propagation(Other).unwrap_err();
    assert!(refused.to_string().contains("is set already"), "{refused}");
}
