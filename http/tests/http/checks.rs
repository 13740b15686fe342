//! The backup of a store as a download, and its check.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use tubewell::{Put, Store};
use tubewell_http::HttpOptions;

use super::client::{Client, Served, wait_until};
use super::disk::Disk;

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

/// A server of a store that reads these bodies from a slow disk, with this number of connections at a time. Returns how often
/// a check of the store reads, and how often its backup does.
fn slow(folder: &Path, connections: usize, bodies: &[Vec<u8>]) -> (Served, Arc<Disk>, [u64; 2]) {
    let (store, disk) = Disk::store();
    let change = |options: HttpOptions| options.backup_folder(folder).max_connections(connections);
    let served = Served::of(store, change);
    let jobs = served.store.find_tube("jobs").unwrap();
    for bodies in bodies.chunks(1000) {
        jobs.put_many(bodies.iter().cloned()).unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    let admin = served.store.admin();
    let begin = disk.reads();
    assert_eq!(admin.verify().unwrap(), [""; 0]);
    let verified = disk.reads();
    admin.backup(copy.path().join("copy")).unwrap();
    let reads = [verified - begin, disk.reads() - verified];
    (served, disk, reads)
}

/// A backup copies them in ten steps.
fn large_bodies() -> Vec<Vec<u8>> {
    vec![vec![7; 100_000]; 400]
}

/// Goes away, and returns once the server knows it: it has answered the next client, and has one connection at a time.
fn leave(served: &Served, client: Client) {
    drop(client);
    served.get("/v1/limits").expect(200);
}

/// Returns once no backup or check is made. None may need the reads that are left to it.
fn wait_until_ended(served: &Served, disk: &Disk) {
    let is_over = || {
        assert!(!disk.is_waiting(), "it goes on");
        let mut next = served.client();
        next.begin("POST", "/v1/store/verify", &[], b"");
        next.head().unwrap().status == 200
    };
    wait_until(is_over);
    disk.allow(u64::MAX);
}

#[test]
fn check_ends_when_its_client_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let (served, disk, [reads, _]) = slow(folder.path(), 1, &vec![vec![7; 10]; 20_000]);
    let begin = disk.reads();
    disk.allow(0);
    let mut client = served.client();
    client.begin("POST", "/v1/store/verify", &[], b"");
    assert_eq!(client.head().unwrap().status, 200);
    // The pages of the file are checked first.
    loop {
        disk.wait_until_waiting();
        if !client.has_no_answer() {
            break;
        }
        disk.allow(reads / 50);
    }
    assert!(client.chunk().unwrap().starts_with("event: progress\n"));
    // A further call behind this one does not hide that the client has gone.
    client.begin("GET", "/v1/limits", &[], b"");
    let left = reads - (disk.reads() - begin);
    assert!(left > 20, "{left} of {reads} reads");
    leave(&served, client);
    disk.allow(left / 2);
    wait_until_ended(&served, &disk);
}

#[test]
fn backup_that_is_made_ends_when_its_client_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let (served, disk, [_, reads]) = slow(folder.path(), 1, &large_bodies());
    disk.allow(reads / 10);
    let mut client = served.client();
    client.begin("GET", "/v1/store/backup", &[], b"");
    client.begin("GET", "/v1/limits", &[], b"");
    disk.wait_until_waiting();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    leave(&served, client);
    disk.allow(reads / 2);
    wait_until_ended(&served, &disk);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn backup_that_is_made_ends_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (mut served, disk, [_, reads]) = slow(folder.path(), 2, &large_bodies());
    disk.allow(reads / 10);
    let mut client = served.client();
    client.begin("GET", "/v1/store/backup", &[], b"");
    disk.wait_until_waiting();
    let address = served.address();
    std::thread::scope(|scope| {
        scope.spawn(|| served.stop());
        // It listens no longer once it knows that it stops.
        wait_until(|| TcpStream::connect(address).is_err());
        disk.allow(reads / 2);
        // A stop waits 5 s for the calls that are under way.
        assert!(client.answer().is_none_or(|answer| answer.refused(503) == "stopped"));
    });
    wait_until(|| std::fs::read_dir(folder.path()).unwrap().count() == 0);
    assert!(!disk.is_waiting(), "it goes on");
    disk.allow(u64::MAX);
}
