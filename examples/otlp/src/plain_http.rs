//! HTTP to a collector on this machine or in this network, with the standard library alone. A collector behind TLS needs
//! a client such as reqwest: the features of `opentelemetry-otlp` name some.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct PlainHttp;

impl HttpClient for PlainHttp {
    /// Blocks: the exporter of batches has a thread of its own.
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { send(&request) })
    }
}

fn send(request: &Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri();
    if uri.scheme_str() != Some("http") {
        return Err(format!("{uri} is not an address of http").into());
    }
    let host = uri.host().ok_or("the address has no host")?;
    let mut stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80)))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = format!("{} {} HTTP/1.0\r\nhost: {host}\r\n", request.method(), uri.path());
    for (name, value) in request.headers() {
        write!(head, "{name}: {}\r\n", value.to_str()?)?;
    }
    write!(head, "content-length: {}\r\n\r\n", request.body().len())?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(request.body())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no answer")?;
    let status = String::from_utf8_lossy(&answer[..end]);
    let status = status.split(' ').nth(1).ok_or("no status")?.parse::<u16>()?;
    Ok(Response::builder().status(status).body(Bytes::from(answer.split_off(end + 4)))?)
}
