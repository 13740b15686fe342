//! What the child processes do: clients that are killed, and an owner.

use std::io::Read;
use std::task::Waker;
use std::time::Duration;

use tubewell::expert::socket_beside;
use tubewell::worker::{Job as WorkerJob, Worker};
use tubewell::{ConnectOptions, Error, Filter, Put, ServeOptions, Store, Tube};

use super::executor::poll_pending;
use super::process::{Job, ReportWriter};

/// Does the job of a child until it is killed. The path is that of the store file, whose owner
/// serves it at the socket beside it.
pub fn run(job: &Job) {
    let reports = ReportWriter::new();
    let socket = socket_beside(&job.path);
    if job.mode == "owner" {
        let store = Store::open(&job.path).unwrap();
        let _served = store.admin().serve(ServeOptions::unix(&socket)).unwrap();
        reports.write("serves");
        return until_the_parent_is_gone();
    }
    let url = format!("unix:{}", socket.display());
    let store = ConnectOptions::new().timeout(Duration::from_secs(30)).connect(&url).unwrap();
    let tube = store.find_tube("case").unwrap();
    match &*job.mode {
        "waits" => {
            drop(tube.take_timeout(Duration::MAX));
        }
        "waits_for_space" => {
            drop(tube.put_timeout("waits", Duration::MAX));
        }
        "waits_for_an_end" => {
            let mut wait = tube.to_async().wait_done(0, Duration::MAX);
            poll_pending(&mut wait, Waker::noop());
            // The owner has begun the wait when it answers the flush: it polls them in their order.
            store.flush().unwrap();
            reports.write("waits");
            until_the_parent_is_gone();
        }
        "puts_one" => drop(tube.put("of the client")),
        "puts_one_later" => {
            let _put = tube.to_async().put("of the client");
            // The owner has read the put when it answers this call, which waits for nothing.
            tube.info().unwrap();
            reports.write("waits");
            until_the_parent_is_gone();
        }
        "holds" => {
            let claim = tube.take().unwrap();
            reports.write(&claim.id().to_string());
            until_the_parent_is_gone();
        }
        "works" => work(&store, &tube, reports),
        "listens" => {
            let events = store.events(Filter::new(), 10).unwrap();
            tube.put("listens").unwrap();
            events.for_each(|event| reports.write(&event.id.to_string()));
        }
        "puts" => {
            for n in 0.. {
                tube.put(format!("{n}")).unwrap();
                reports.write(&n.to_string());
            }
        }
        "load" => load(&tube, job.seed, &reports),
        other => panic!("unknown mode {other}"),
    }
}

fn until_the_parent_is_gone() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Reports each job, which then never ends.
fn work(store: &Store, tube: &Tube, reports: ReportWriter) {
    let hang = move |job: &WorkerJob| {
        reports.write(&job.id().to_string());
        until_the_parent_is_gone();
    };
    Worker::new(store).name("child").on(tube, hang).start().unwrap().wait().unwrap();
}

/// Puts and acks tasks. Reports `put` for each put that was answered, `acks` for each ack before it
/// is made, and `acked` for each ack that was answered.
fn load(tube: &Tube, seed: u64, reports: &ReportWriter) {
    for n in 0.. {
        let body = format!("{seed}-{n}");
        // With its token, a put is made again until it is answered.
        while let Err(error) = tube.put(Put::new(&*body).idempotency_key(&*body)) {
            assert!(is_of_a_lost_owner(&error), "{error}");
        }
        reports.write(&format!("put {body}"));
        let claim = match tube.try_take() {
            Ok(claim) => claim,
            Err(error) if is_of_a_lost_owner(&error) => None,
            Err(error) => panic!("{error}"),
        };
        let Some(claim) = claim.filter(|_| n % 3 > 0) else { continue };
        let body = String::from_utf8(claim.body().to_vec()).unwrap();
        reports.write(&format!("acks {body}"));
        match claim.ack() {
            Ok(_) => reports.write(&format!("acked {body}")),
            // The claim has ended with its owner.
            Err(Error::NotTaken { .. }) => {}
            Err(error) => assert!(is_of_a_lost_owner(&error), "{error}"),
        }
    }
}

fn is_of_a_lost_owner(error: &Error) -> bool {
    matches!(error, Error::OutcomeUnknown { .. } | Error::NotConnected { .. })
}
