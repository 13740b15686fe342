//! The example, and a collector that gets what it exports.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Reads the export of a connection, and takes it. The example ends its calls as HTTP/1.0 does.
fn collect(stream: TcpStream, exported: &mpsc::Sender<Vec<u8>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(given) = line.strip_prefix("content-length:") {
            length = given.trim().parse().ok()?;
        }
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content).ok()?;
    exported.send(content).ok()?;
    stream.get_mut().write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
}

#[test]
fn request_its_task_and_the_work_on_it_are_one_trace() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, exports) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || collect(stream, &sender));
        }
    });
    let ended = Command::new(env!("CARGO_BIN_EXE_tubewell-otlp"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let spans: BTreeMap<String, Span> = exports
        .try_iter()
        .flat_map(|export| ExportTraceServiceRequest::decode(&export[..]).unwrap().resource_spans)
        .flat_map(|of_resource| of_resource.scope_spans)
        .flat_map(|of_scope| of_scope.spans)
        .map(|span| (span.name.clone(), span))
        .collect();
    let is_in = |inner: &str, outer: &str| {
        let (inner, outer) = (&spans[inner], &spans[outer]);
        assert_eq!((&inner.trace_id, &inner.parent_span_id), (&outer.trace_id, &outer.span_id));
    };
    is_in("put mails", "POST /orders");
    is_in("process mails", "put mails");
    is_in("smtp", "process mails");
    is_in("ack mails", "put mails");
}
