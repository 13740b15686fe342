//! Answers in gzip.

use std::io::Read;

use flate2::read::GzDecoder;
use tubewell::Put;

use super::client::{Answer, Served};

const GZIP: &[&str] = &["Accept-Encoding: gzip"];

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let lines = answer.headers.iter().filter_map(|line| line.split_once(": "));
    lines.filter(|(is, _)| is.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

fn decoded(answer: &Answer) -> Vec<u8> {
    assert_eq!(header(answer, "content-encoding"), Some("gzip"), "{:?}", answer.headers);
    let mut content = Vec::new();
    GzDecoder::new(&answer.content[..]).read_to_end(&mut content).unwrap();
    content
}

#[test]
fn texts_come_in_gzip_to_clients_that_read_it() {
    let served = Served::new();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put_many((0..900).map(|number| Put::new("x").key(format!("key {number}")))).unwrap();
    let mut client = served.client();
    for (path, least) in [
        ("/openapi.json", 10_000),
        ("/page/app.js", 1000),
        // Larger than the buffers of a connection.
        ("/v1/tasks?limit=1000", 100_000),
    ] {
        let plain = served.get(path);
        assert_eq!(header(&plain, "content-encoding"), None);
        assert_eq!(header(&plain, "vary"), Some("accept-encoding"), "{path}");
        let small = client.call("GET", path, GZIP, b"");
        let content = decoded(&small);
        // The ages of tasks differ.
        assert!(content.len() >= least && content.len().abs_diff(plain.content.len()) < 10_000);
        assert!(small.content.len() * 2 < content.len(), "{path}: {}", small.content.len());
        let refused = client.call("GET", path, &["Accept-Encoding: gzip;q=0"], b"");
        assert_eq!(header(&refused, "content-encoding"), None);
    }
    let metrics = client.call("GET", "/metrics", GZIP, b"");
    assert!(String::from_utf8(decoded(&metrics)).unwrap().contains("# TYPE "));
}

#[test]
fn short_answers_and_events_come_as_they_are() {
    let served = Served::new();
    let short = served.call("GET", "/v1/tags", GZIP, b"");
    assert_eq!(header(&short, "content-encoding"), None);
    let mut client = served.client();
    client.begin("GET", "/v1/events", GZIP, b"");
    assert_eq!(header(&client.answer().unwrap(), "content-encoding"), None);
    assert!(client.chunk().unwrap().starts_with(':'));
}

#[test]
fn file_that_the_browser_has_is_not_sent_again_in_gzip() {
    let served = Served::new();
    let file = served.call("GET", "/page/app.js", GZIP, b"");
    let tag = header(&file, "etag").unwrap();
    assert!(tag.starts_with("W/"), "{tag}");
    let known = format!("If-None-Match: {tag}");
    let again = served.call("GET", "/page/app.js", &[GZIP[0], &known], b"");
    assert_eq!((again.status, again.content.len()), (304, 0));
}
