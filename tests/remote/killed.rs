//! Processes that are killed: clients in each state of a call, and the owner under load.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::expert::socket_beside;
use tubewell::worker::Worker;
use tubewell::{
    Error, FIFO, LIMFIFOTTL, ServeOptions, Store, StoreOptions, TaskState, Tube, TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{HANGS_AFTER, wait_until, with_timeout};
use super::process::{ChildProcess, Job};

/// A store that is served to one connection at a time, at the socket beside its path.
struct Owner {
    store: Store,
    tube: Tube,
    path: PathBuf,
    url: String,
    _folder: TempDir,
}

impl Owner {
    fn new(driver: &str, options: TubeOptions) -> Owner {
        let folder = TempDir::new().unwrap();
        let store = Store::open(folder.path().join("queue")).unwrap();
        Owner::of(store, folder, driver, options)
    }

    /// The store is on this disk.
    fn on(disk: &Arc<Disk>, options: StoreOptions) -> Owner {
        Owner::of(disk.open(options), TempDir::new().unwrap(), FIFO, TubeOptions::new())
    }

    fn of(store: Store, folder: TempDir, driver: &str, options: TubeOptions) -> Owner {
        let path = folder.path().join("queue");
        let tube = store.create_tube("case", options.driver(driver)).unwrap();
        let serve = ServeOptions::unix(socket_beside(&path)).max_connections(1);
        let url = store.admin().serve(serve).unwrap().url().to_owned();
        Owner { store, tube, path, url, _folder: folder }
    }

    fn client(&self, mode: &str) -> ChildProcess {
        start(&self.path, mode, 0)
    }

    /// Whether the owner still has the connection of its client. The next client is accepted once the
    /// owner has dropped all calls, waits and subscriptions of the one before.
    fn has_client(&self) -> bool {
        tubewell::connect(&self.url).is_err()
    }

    fn assert_sound(&self) {
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
    }
}

fn start(path: &std::path::Path, mode: &str, seed: u64) -> ChildProcess {
    ChildProcess::start(&Job {
        mode: format!("remote/{mode}"),
        path: path.to_owned(),
        seed,
        run: 0,
    })
}

#[test]
fn wait_of_a_killed_client_gets_no_task() {
    with_timeout(|| {
        let owner = Owner::new(FIFO, TubeOptions::new());
        let mut client = owner.client("waits");
        let waiting = || owner.tube.info().unwrap().waiting;
        wait_until(|| waiting() == 1);
        client.kill();
        wait_until(|| waiting() == 0);
        let id = owner.tube.put("x").unwrap().id;
        let claim = owner.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes()), (id, 1));
        owner.assert_sound();
    });
}

#[test]
fn put_that_waits_for_space_ends_with_its_client() {
    with_timeout(|| {
        let owner = Owner::new(LIMFIFOTTL, TubeOptions::new().capacity(1));
        let id = owner.tube.put("first").unwrap().id;
        let mut client = owner.client("waits_for_space");
        let waiting = || owner.tube.info().unwrap().waiting_puts;
        wait_until(|| waiting() == 1);
        client.kill();
        wait_until(|| waiting() == 0);
        owner.tube.delete(id).unwrap();
        assert_eq!(owner.tube.statistics().unwrap().tasks.total, 0);
        owner.tube.put("second").unwrap();
        owner.assert_sound();
    });
}

#[test]
fn wait_for_an_end_ends_with_its_killed_client() {
    with_timeout(|| {
        let owner = Owner::new(FIFO, TubeOptions::new());
        let id = owner.tube.put("x").unwrap().id;
        let mut client = owner.client("waits_for_an_end");
        assert_eq!(client.next_line(HANGS_AFTER).as_deref(), Some("waits"));
        assert!(owner.has_client());
        client.kill();
        wait_until(|| !owner.has_client());
        let claim = owner.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.ack().unwrap().id, id);
        owner.assert_sound();
    });
}

#[test]
fn task_of_a_killed_client_is_ready_again() {
    with_timeout(|| {
        let owner = Owner::new(FIFO, TubeOptions::new().max_attempts(2));
        let id = owner.tube.put("x").unwrap().id;
        let mut client = owner.client("holds");
        assert_eq!(client.next_line(HANGS_AFTER), Some(id.to_string()));
        assert_eq!(owner.tube.query().task(id).unwrap().info.state, TaskState::Taken);
        client.kill();
        let claim = owner.tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes(), claim.attempts_left()), (id, 2, Some(0)));
        claim.ack().unwrap();
        owner.assert_sound();
    });
}

#[test]
fn subscription_ends_with_its_killed_client() {
    with_timeout(|| {
        let owner = Owner::new(FIFO, TubeOptions::new());
        let mut client = owner.client("listens");
        // An event has reached the client: the owner has its subscription.
        assert!(client.next_line(HANGS_AFTER).is_some());
        assert!(owner.has_client());
        client.kill();
        // Without a further event.
        wait_until(|| !owner.has_client());
        // More events than any buffer holds.
        for _ in 0..20 {
            owner.tube.put_many(["x"; 500]).unwrap();
        }
        assert_eq!(owner.tube.statistics().unwrap().tasks.ready, 10_001);
        owner.assert_sound();
    });
}

/// The bodies of the tasks on the disk of a store that is closed now.
fn reopened(owner: Owner, disk: &Arc<Disk>) -> Vec<Vec<u8>> {
    owner.store.close().unwrap();
    drop(owner);
    let store = disk.open(Store::options());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let claims = store.find_tube("case").unwrap().take_many(usize::MAX, Duration::ZERO).unwrap();
    claims.iter().map(|claim| claim.body().to_vec()).collect()
}

/// The owner had decided it.
#[test]
fn put_that_waits_for_its_flush_is_made_although_its_client_is_killed() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let owner = Owner::on(&disk, Store::options());
        let mut client = disk.block_flush_of(|| owner.client("puts_one"));
        assert_eq!(owner.tube.statistics().unwrap().tasks.total, 0);
        assert!(owner.has_client());
        client.kill();
        wait_until(|| !owner.has_client());
        disk.unblock_flushes();
        wait_until(|| owner.tube.statistics().unwrap().tasks.ready == 1);
        assert_eq!(reopened(owner, &disk), [b"of the client"]);
    });
}

/// The owner had not decided it.
#[test]
fn put_that_waits_for_the_write_buffer_is_not_made_if_its_client_is_killed() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let owner = Owner::on(&disk, Store::options().max_pending(20, 1 << 20));
        let deferred = owner.tube.to_async().refuse_when_full();
        let mut tickets = vec![disk.block_flush_of(|| deferred.put("x"))];
        let refusal = loop {
            let ticket = deferred.put("x");
            if let Some(refusal) = ticket.refusal() {
                break refusal.clone();
            }
            tickets.push(ticket);
        };
        assert_eq!(refusal, Error::Overloaded);
        let mut client = owner.client("puts_one_later");
        assert_eq!(client.next_line(HANGS_AFTER).as_deref(), Some("waits"));
        assert!(owner.has_client());
        client.kill();
        wait_until(|| !owner.has_client());
        disk.unblock_flushes();
        let put = tickets.len();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!(reopened(owner, &disk), vec![b"x"; put]);
    });
}

#[test]
fn every_put_that_a_killed_client_saw_answered_is_there() {
    with_timeout(|| {
        for reports in [1, 7, 60] {
            let owner = Owner::new(FIFO, TubeOptions::new());
            let mut client = owner.client("puts");
            assert!(!client.read_lines(reports, HANGS_AFTER));
            let answered = client.kill().len();
            let claims = owner.tube.take_many(usize::MAX, Duration::ZERO).unwrap();
            // The last put may have been made without its answer.
            assert!((answered..=answered + 1).contains(&claims.len()), "{answered}");
            for (n, claim) in claims.iter().enumerate() {
                assert_eq!(claim.body(), n.to_string().as_bytes());
            }
            owner.assert_sound();
        }
    });
}

#[test]
fn jobs_of_a_killed_worker_process_are_done_by_another_one() {
    with_timeout(|| {
        let owner = Owner::new(FIFO, TubeOptions::new());
        let ids = owner.tube.put_many(["a", "b"]).unwrap();
        let mut client = owner.client("works");
        assert_eq!(client.next_line(HANGS_AFTER), Some(ids[0].id.to_string()));
        assert_eq!(owner.store.owners().unwrap()[0].label.as_deref(), Some("child"));
        client.kill();
        wait_until(|| owner.store.owners().unwrap().is_empty());
        let worker = Worker::new(&owner.store).on(&owner.tube, |_: &tubewell::worker::Job| ());
        assert_eq!(worker.run_until_idle().unwrap().done, 2);
        owner.assert_sound();
    });
}

/// The reports of a client, by their first word.
fn reported(lines: &[String], what: &str) -> Vec<String> {
    let of = |line: &String| Some(line.strip_prefix(what)?.strip_prefix(' ')?.to_owned());
    lines.iter().filter_map(of).collect()
}

/// Clients put and ack tasks while the owner is killed and started again. Acknowledged puts are
/// there once, and acked tasks do not come back.
#[test]
fn ledgers_of_clients_agree_with_the_file_of_an_owner_that_is_killed() {
    const KILLS: usize = 4;
    const CLIENTS: u64 = 3;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("queue");
    let store = Store::open(&path).unwrap();
    store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    store.close().unwrap();
    drop(store);
    let mut clients = Vec::new();
    let mut lines = Vec::new();
    for round in 0..=KILLS {
        let mut owner = start(&path, "owner", 0);
        assert_eq!(owner.next_line(HANGS_AFTER).as_deref(), Some("serves"));
        if round == 0 {
            clients = (0..CLIENTS).map(|seed| start(&path, "load", seed)).collect();
        }
        for client in &mut clients {
            assert!(!client.read_lines(40, HANGS_AFTER), "a client has failed");
        }
        if round == KILLS {
            // The clients first: their last calls have answers that nobody reads.
            for client in &mut clients {
                lines.extend(client.kill());
            }
        }
        owner.kill();
    }
    let store = Store::open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("case").unwrap();
    let claims = tube.take_many(usize::MAX, Duration::ZERO).unwrap();
    let text = |claim: &tubewell::Claim| String::from_utf8(claim.body().to_vec()).unwrap();
    let left: BTreeSet<String> = claims.iter().map(text).collect();
    assert_eq!(left.len(), claims.len(), "a put was made twice");
    let acked: BTreeSet<String> = reported(&lines, "acked").into_iter().collect();
    assert_eq!(acked.len(), reported(&lines, "acked").len(), "a task was acked twice");
    assert!(acked.is_disjoint(&left), "an acked task came back");
    assert!(!acked.is_empty());
    // An ack without an answer may have been made.
    let begun: BTreeSet<String> = reported(&lines, "acks").into_iter().collect();
    for body in reported(&lines, "put") {
        assert!(left.contains(&body) || begun.contains(&body), "{body} is lost");
    }
}
