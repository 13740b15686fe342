//! The backup of a store as a download, and its check.

use std::path::Path;

use tubewell::{Put, Store};

use super::client::Served;
use super::patience::HANGS_AFTER;

/// A server whose backups are larger than what a connection buffers.
fn served(folder: &Path) -> Served {
    let served = Served::with(|options| options.backup_folder(folder));
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put_many((0..40).map(|number| Put::new(vec![number; 1 << 20]))).unwrap();
    served
}

#[test]
fn backup_that_is_downloaded_is_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(folder.path());
    let copy = served.get("/v1/store/backup");
    assert_eq!(copy.status, 200);
    let is_named = |line: &String| line.starts_with("content-disposition: attachment; filename=");
    assert!(copy.headers.iter().any(is_named), "{:?}", copy.headers);
    // Nothing is left of it.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let path = folder.path().join("copy");
    std::fs::write(&path, &copy.content).unwrap();
    let copy = Store::open(&path).unwrap();
    assert_eq!(copy.admin().verify().unwrap(), [""; 0]);
    let jobs = copy.find_tube("jobs").unwrap();
    assert_eq!(jobs.statistics().unwrap().tasks.ready, 40);
    assert_eq!(&*jobs.query().task(7).unwrap().body, &vec![7; 1 << 20][..]);
}

#[test]
fn one_backup_or_check_is_made_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(folder.path());
    let mut slow = served.client();
    slow.begin("GET", "/v1/store/backup", &[], b"");
    assert_eq!(slow.head().unwrap().status, 200);
    assert_eq!(served.get("/v1/store/backup").refused(429), "overloaded");
    assert_eq!(served.post("/v1/store/verify", "").refused(429), "overloaded");
    // A client that goes away gives its place to others.
    drop(slow);
    wait_until(|| served.get("/v1/store/backup").status == 200);
}

#[test]
fn head_of_a_backup_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(&folder.path().join("none"));
    let mut client = served.client();
    client.begin("HEAD", "/v1/store/backup", &[], b"");
    let head = client.head().unwrap();
    let is_length = |header: &String| header.to_ascii_lowercase().starts_with("content-length");
    assert_eq!((head.status, head.headers.iter().any(is_length)), (200, false));
    assert_eq!(served.get("/v1/store/backup").status, 500);
}

#[test]
fn server_that_is_read_only_makes_no_backup() {
    let served = Served::with(|options| options.read_only(true));
    assert_eq!(served.get("/v1/store/backup").refused(403), "read_only");
    assert_eq!(served.post("/v1/store/verify", "").refused(403), "read_only");
}

#[test]
fn check_tells_how_far_it_is_and_what_it_has_found() {
    let served = Served::new();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put_many((0..3000).map(|number| format!("task {number}"))).unwrap();
    let mut client = served.client();
    client.begin("POST", "/v1/store/verify", &[], b"");
    let head = client.head().unwrap();
    assert_eq!(head.status, 200);
    assert!(head.headers.iter().any(|line| line.ends_with("text/event-stream")), "{head:?}");
    let messages: Vec<String> = std::iter::from_fn(|| client.chunk()).collect();
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last, "event: done\ndata: {\"findings\":[]}\n\n");
    for message in before {
        assert!(message.starts_with("event: progress\ndata: {\"checked\":"), "{message}");
        assert!(message.ends_with(",\"of\":3000}\n\n"), "{message}");
    }
    assert!(!before.is_empty());
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server notices by the clock that a client has gone"
)]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < HANGS_AFTER, "waited for too long");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
