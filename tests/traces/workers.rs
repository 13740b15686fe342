//! The spans of handlers.

use std::time::Duration;

use tracing::{Span, info_span};
use tubewell::{AsyncJob, Failure, Job, Outcome, Put, Tube, Worker};

use super::executor::block_on;
use super::recorder::{Recorded, named, spans_of};
use super::{names, store_with, traceparent};

/// The span of the put, and that of the handler, of a tube with one task.
fn put_and_process(tube: &str) -> (Recorded, Recorded) {
    let mut spans = spans_of(tube);
    assert_eq!(spans.iter().filter(|span| span.name == "process").count(), 1, "{spans:?}");
    let at = spans.iter().position(|span| span.name == "process").unwrap();
    (spans[0].clone(), spans.swap_remove(at))
}

#[test]
fn handler_on_a_thread_continues_the_trace_of_its_put() {
    let (store, tube) = store_with("threads");
    let id = tube.put("x").unwrap().id;
    let work = |_: &Job| info_span!("work on a thread").in_scope(|| Ok::<_, Failure>(()));
    Worker::new(&store).on(&tube, work).run_until_idle().unwrap();
    let (put, process) = put_and_process("threads");
    assert_eq!((process.trace, process.parent), (put.trace, Some(put.id)));
    let fields: Vec<(&str, &str)> =
        process.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("messaging.destination.name", "threads"),
        ("messaging.message.id", &id.to_string()),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.system", "tubewell"),
        ("otel.kind", "consumer"),
        ("otel.name", "process threads"),
        ("tubewell.attempt", "1"),
    ];
    assert_eq!(fields, expected);
    assert_eq!((process.name, process.level.as_str()), ("process", "INFO"));
    let work = named("work on a thread").remove(0);
    assert_eq!((work.trace, work.parent), (put.trace, Some(process.id)));
    // A worker has no spans for its takes.
    assert_eq!(names(&spans_of("threads")), ["put threads", "process threads", "ack threads"]);
    let ack = spans_of("threads").remove(2);
    assert_eq!((ack.trace, ack.is_closed), (put.trace, true));
}

#[test]
fn future_of_a_handler_is_inside_its_span_in_each_poll() {
    let (store, tube) = store_with("futures");
    tube.put("x").unwrap();
    let work = |_: AsyncJob| async {
        let before = Span::current().id();
        tokio::task::yield_now().await;
        assert_eq!((Span::current().id(), before.is_some()), (before, true));
        let _work = info_span!("work in a future").entered();
        Ok::<_, Failure>(())
    };
    let worker = Worker::new(&store).on_async(&tube, work).limit(1);
    assert_eq!(block_on(worker.run_async()).unwrap().done, 1);
    let (put, process) = put_and_process("futures");
    assert_eq!((process.trace, process.parent), (put.trace, Some(put.id)));
    assert!(process.is_closed && process.field("otel.status_code").is_none());
    assert_eq!(named("work in a future").remove(0).parent, Some(process.id));
    assert!(Span::current().is_none());
}

#[test]
fn handler_that_runs_elsewhere_is_inside_its_span() {
    let (store, tube) = store_with("elsewhere");
    tube.put("x").unwrap();
    let work = |_: AsyncJob| async {
        tokio::task::yield_now().await;
        let _work = info_span!("work elsewhere").entered();
        Ok::<_, Failure>(())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let spawn = |future| drop(tokio::spawn(future));
        let worker = Worker::new(&store).on_async(&tube, work).spawn_with(spawn).limit(1);
        worker.run_async().await.unwrap();
    });
    let (put, process) = put_and_process("elsewhere");
    assert_eq!((process.trace, process.parent), (put.trace, Some(put.id)));
    assert_eq!(named("work elsewhere").remove(0).parent, Some(process.id));
}

#[test]
fn batch_is_linked_to_all_of_its_puts() {
    let (store, tube) = store_with("batches");
    tube.put("a").unwrap();
    tube.put("b").unwrap();
    let work = |jobs: &[Job]| {
        assert_eq!(jobs.len(), 2);
        info_span!("work on a batch").in_scope(|| Ok::<_, Failure>(()))
    };
    let worker = Worker::new(&store).on_batch(&tube, 2, Duration::MAX, work);
    worker.run_until_idle().unwrap();
    let (_, process) = put_and_process("batches");
    let puts: Vec<String> = spans_of("batches")
        .iter()
        .filter(|it| it.name == "put")
        .map(Recorded::traceparent)
        .collect();
    assert_eq!((process.parent, &process.links), (None, &puts));
    assert_eq!(process.field("messaging.batch.message_count"), Some("2"));
    assert_eq!(named("work on a batch").remove(0).parent, Some(process.id));
    let end = spans_of("batches").pop().unwrap();
    assert_eq!(end.field("otel.name"), Some("end_many batches"));
    assert_eq!(end.field("messaging.batch.message_count"), Some("2"));
}

fn status(tube: &str) -> (Option<String>, Option<String>, Option<String>) {
    let (_, process) = put_and_process(tube);
    let field = |name| process.field(name).map(str::to_owned);
    (field("otel.status_code"), field("error.type"), field("otel.status_description"))
}

#[test]
fn handler_that_fails_has_the_status_of_an_error() {
    let (store, tube) = store_with("failed");
    let put = |tube: &Tube| tube.put(Put::new("x").max_attempts(1)).unwrap();
    put(&tube);
    let fail = |_: &Job| Err::<(), _>(Failure::new("net", "no host"));
    Worker::new(&store).on(&tube, fail).run_until_idle().unwrap();
    let error = |kind: &str, why: &str| {
        (Some("ERROR".to_owned()), Some(kind.to_owned()), Some(why.to_owned()))
    };
    assert_eq!(status("failed"), error("net", "no host"));

    let (store, tube) = store_with("panicked");
    put(&tube);
    let panics = |_: AsyncJob| async { panic!("row 7 has no end") as Outcome };
    let worker = Worker::new(&store).on_async(&tube, panics).limit(1);
    block_on(worker.run_async()).unwrap();
    assert_eq!(status("panicked"), error("panic", "row 7 has no end"));

    let (store, tube) = store_with("buried");
    put(&tube);
    let bury = |_: &Job| Outcome::bury(Failure::new("malformed", "no address"));
    Worker::new(&store).on(&tube, bury).run_until_idle().unwrap();
    assert_eq!(status("buried"), error("malformed", "no address"));

    let (store, tube) = store_with("snoozed");
    put(&tube);
    let snooze = |_: &Job| Outcome::snooze(Duration::from_secs(3600));
    Worker::new(&store).on(&tube, snooze).run_until_idle().unwrap();
    assert_eq!(status("snoozed"), (None, None, None));
}

/// What a handler puts belongs to the trace of its own task, whichever way it puts it.
#[test]
fn trace_goes_on_through_the_puts_of_a_handler() {
    let (store, tube) = store_with("pages");
    let next = store.tube("links").unwrap();
    tube.put("/").unwrap();
    let to = next.clone();
    let work = move |_: &Job| {
        to.put("/a")?;
        Ok::<_, tubewell::Error>(Outcome::done().and_put(&to, "/b"))
    };
    Worker::new(&store).on(&tube, work).run_until_idle().unwrap();
    let (put, process) = put_and_process("pages");
    let put_in_handler = spans_of("links").remove(0);
    assert_eq!((put_in_handler.trace, put_in_handler.parent), (put.trace, Some(process.id)));
    let carried: Vec<_> = [1, 2].map(|id| traceparent(&next, id)).into();
    assert_eq!(carried, [Some(put_in_handler.traceparent()), Some(process.traceparent())]);
}

/// The producer is another process as far as the store is concerned, and so is the worker.
#[cfg(unix)]
#[test]
fn trace_goes_on_through_a_connection() {
    let (owner, _) = store_with("unused");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("served.sock");
    let served = owner.admin().serve(tubewell::ServeOptions::unix(&path)).unwrap();
    let [producer, consumer] = [(); 2].map(|()| tubewell::connect(served.url()).unwrap());
    let tube = producer.tube("through a connection").unwrap();
    let request = info_span!("request to a producer");
    let id = request.in_scope(|| tube.put("x").unwrap().id);
    let here = consumer.find_tube("through a connection").unwrap();
    let seen = |job: &Job| Outcome::value(&job.traceparent());
    let worker = Worker::new(&consumer).on(&here, seen).limit(1).start().unwrap();
    worker.wait().unwrap();
    let (put, process) = put_and_process("through a connection");
    assert_eq!(put.trace, super::recorded(&request).trace);
    assert_eq!((process.trace, process.parent), (put.trace, Some(put.id)));
    assert_eq!(process.field("messaging.message.id"), Some(&*id.to_string()));
    // The owner has made no spans for the calls that it has carried out.
    let all = spans_of("through a connection");
    assert_eq!(all.iter().map(|span| span.name).collect::<Vec<_>>(), ["put", "process", "settle"]);
}
