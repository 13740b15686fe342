//! A request puts a task, a worker does it, and a collector of OpenTelemetry gets the spans of both as one trace.
//!
//! `cargo run --manifest-path examples/otlp/Cargo.toml`, with a collector at <http://127.0.0.1:4318>, or at the
//! address in `OTEL_EXPORTER_OTLP_ENDPOINT`.

mod plain_http;

use std::collections::HashMap;
use std::env;
use std::error::Error;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use plain_http::PlainHttp;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tubewell::tracing::{Propagation, set_propagation};
use tubewell::{Job, Store, Worker};

/// The spans of tubewell belong to the traces of OpenTelemetry.
struct OpenTelemetry(TraceContextPropagator);

impl OpenTelemetry {
    fn context(&self, traceparent: &str) -> opentelemetry::Context {
        self.0.extract(&HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]))
    }
}

impl Propagation for OpenTelemetry {
    fn inject(&self, span: &Span) -> Option<String> {
        let mut headers = HashMap::new();
        self.0.inject_context(&span.context(), &mut headers);
        headers.remove("traceparent")
    }

    fn set_parent(&self, span: &Span, traceparent: &str) {
        // A span that no layer of OpenTelemetry sees has no parent.
        let _ = span.set_parent(self.context(traceparent));
    }

    fn add_link(&self, span: &Span, traceparent: &str) {
        span.add_link(self.context(traceparent).span().span_context().clone());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = env::var("OTEL_EXPORTER_OTLP_ENDPOINT");
    let endpoint = endpoint.unwrap_or_else(|_| "http://127.0.0.1:4318".into());
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(PlainHttp)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("tubewell-otlp").build())
        .with_batch_exporter(exporter)
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tubewell-otlp"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    set_propagation(OpenTelemetry(TraceContextPropagator::new()))?;

    let store = Store::in_memory()?;
    let mails = store.tube("mails")?;
    info_span!("POST /orders").in_scope(|| mails.put("to: ann"))?;
    Worker::new(&store).on(&mails, send).run_until_idle()?;

    store.close()?;
    provider.shutdown()?; // exports what is left
    Ok(())
}

/// The spans of a handler are children of its span `process mails`, and that is a child of `put mails`.
fn send(job: &Job) -> Result<(), std::str::Utf8Error> {
    let _span = info_span!("smtp", peer = "mail.example.org").entered();
    println!("sending {}", std::str::from_utf8(job.body())?);
    Ok(())
}
