//! Answers in gzip, for clients that read it.

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use super::Shared;
use super::answers::SMALL;
use crate::problem::{Answer, Problem};

/// What is shorter fits into one packet either way.
const LEAST: u64 = 1 << 10;

/// Compresses the answer to a read, if its client reads gzip. The answer to a change is left as it is: there may be no
/// room for it, and the change is made.
///
/// An answer is compressed as a whole: a state of the encoder for each client that reads slowly would need more memory
/// than the answer.
pub(super) async fn compress(
    State(shared): State<Arc<Shared>>,
    call: Request,
    next: Next,
) -> Response {
    let is_read = call.method() == Method::GET;
    let reads_gzip = reads_gzip(call.headers());
    let mut response = next.run(call).await;
    let length = response.body().size_hint().exact().unwrap_or_default();
    let is_whole = is_read && response.status() == StatusCode::OK && length >= LEAST;
    if !is_whole || !is_text(response.headers()) {
        return response;
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if !reads_gzip {
        return response;
    }
    compressed(&shared, response, length).await.unwrap_or_else(IntoResponse::into_response)
}

async fn compressed(shared: &Shared, response: Response, length: u64) -> Answer {
    let (mut head, body) = response.into_parts();
    let content = match length {
        0..=SMALL_LENGTH => encoded(body).await,
        // Other calls do not wait for the thread.
        _ => {
            let encode = move || Handle::current().block_on(encoded(body));
            tokio::task::spawn_blocking(encode).await.unwrap_or_else(|_| Err(failed("it panicked")))
        }
    };
    let body = shared.answers.body(content?)?;
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // The tag is one of the content, and not of these bytes.
    let tag = head.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let weak = tag.and_then(|tag| HeaderValue::from_str(&format!("W/{tag}")).ok());
    if let Some(weak) = weak {
        head.headers.insert(ETAG, weak);
    }
    Ok(Response::from_parts(head, body))
}

const SMALL_LENGTH: u64 = SMALL as u64;

async fn encoded(mut body: Body) -> Answer<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(&error.to_string()))?;
        let part = frame.into_data().unwrap_or_default();
        encoder.write_all(&part).map_err(|error| failed(&error.to_string()))?;
    }
    let content = encoder.finish().map_err(|error| failed(&error.to_string()))?;
    Ok(content.into())
}

fn failed(why: &str) -> Problem {
    let what = format!("compressing the answer: {why}; call without Accept-Encoding");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "io", what)
}

/// Whether the answer is a text with an end. Events have none.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind == "application/json" || kind.starts_with("text/") && kind != "text/event-stream"
}

fn reads_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight != Some(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        for (value, reads) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("deflate, br", false),
            ("", false),
        ] {
            let headers =
                HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(reads_gzip(&headers), reads, "{value}");
        }
    }
}
