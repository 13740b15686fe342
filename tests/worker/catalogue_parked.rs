//! Cases of other job systems: tasks that outlive their worker, and children that do its work.

use std::sync::mpsc::Receiver;
use std::thread;

use tubewell::worker::{Ended, Job, Worker};
use tubewell::{
    ClaimToken, Ending, Error, FIFO, FIFOTTL, Failure, Keep, Outcome, Result, Store, TaskState,
    TubeOptions,
};

use super::executor::{wait_until, with_timeout};
use super::support::*;
use crate::stores::{self, ManualClock};

/// A handler that parks the claims of films for an hour and ends all other tasks, and the tokens.
fn park_films() -> (impl Fn(&Job) -> Result<Outcome> + Send + Sync + 'static, Receiver<ClaimToken>)
{
    let (send, tokens) = shared_channel();
    let handler = move |job: &Job| {
        if job.body() != b"film" {
            return Ok(Outcome::done());
        }
        send.lock().unwrap().send(job.park(secs(3600))?).unwrap();
        Ok(Outcome::detach())
    };
    (handler, tokens)
}

/// Q333
/// Difference: a worker does not look for the tasks that it had before. Who has the token of a
/// parked claim goes on with the task.
#[test]
fn parked_task_is_left_to_the_holder_of_its_token() {
    in_every_form(|form| {
        let case = Case::new();
        let other = case.another("other");
        let film = case.put("film");
        let (handler, tokens) = park_films();
        let (tally, reports) = form.work(&case, &case.tube, 1, handler);
        assert_eq!((tally.detached, ended(&reports[0]).1), (1, Ended::Detached));
        let token = tokens.recv().unwrap();
        // Neither a worker of this tube gets it, nor one of another tube.
        case.put("mail");
        other.put("mail").unwrap();
        let worker = form.on(Worker::new(&case.store), &case.tube, |job: &Job| {
            assert_eq!(job.body(), b"mail");
        });
        let worker = form.on(worker, &other, |_: &Job| ());
        assert_eq!(form.start(worker.limit(2)).wait().unwrap().done, 2);
        assert_eq!(case.state(film), Some(TaskState::Taken));
        let session = case.store.session("child").unwrap();
        let claim = session.resume_claim(&token).unwrap();
        assert_eq!((claim.id(), claim.attempt()), (film, 1));
        let owner = case.tube.query().owner(film).unwrap().unwrap();
        assert_eq!(owner.label.as_deref(), Some("child"));
        claim.ack().unwrap();
    });
}

/// Q333 B024
#[test]
fn parked_task_whose_time_has_elapsed_goes_to_the_next_worker() {
    in_every_form(|form| {
        let case = Case::new();
        let film = case.put("film");
        let (handler, tokens) = park_films();
        form.work(&case, &case.tube, 1, handler);
        let token = tokens.recv().unwrap();
        case.clock.advance(secs(3599));
        assert_eq!(case.state(film), Some(TaskState::Taken));
        let next = form.on(Worker::new(&case.store), &case.tube, |job: &Job| {
            assert_eq!((job.body(), job.attempt()), (&b"film"[..], 2));
        });
        let next = form.start(next.limit(1));
        case.clock.advance(secs(1));
        assert_eq!(next.wait().unwrap().done, 1);
        let refused = case.store.resume_claim(&token).map(drop);
        assert_eq!(refused, Err(Error::NotTaken { id: film }));
    });
}

/// B026
/// Difference: the child gets a token and needs no process id. It ends the task itself.
#[test]
fn child_ends_the_task_of_its_parent_with_a_result_or_a_failure() {
    in_every_form(|form| {
        let options = TubeOptions::new().keep_done(Keep::new().count(9)).max_attempts(1);
        let case = Case::with(FIFOTTL, options);
        let ids = [case.put("film"), case.put("film")];
        let (handler, tokens) = park_films();
        assert_eq!(form.work(&case, &case.tube, 2, handler).0.detached, 2);
        let store = case.store.clone();
        let child = thread::spawn(move || -> Result<()> {
            let resume = |token: ClaimToken| store.resume_claim(&token);
            resume(tokens.recv().unwrap())?.end(Outcome::result("two hours"))?;
            resume(tokens.recv().unwrap())?.fail(Failure::new("codec", "no such codec"))?;
            Ok(())
        });
        child.join().unwrap().unwrap();
        let result = Some(b"two hours".to_vec());
        assert_eq!(case.tube.ending(ids[0]).unwrap(), Some(Ending::Done { result }));
        let failure = case.tube.query().task(ids[1]).unwrap().info.failure.unwrap();
        assert_eq!((&*failure.group, &*failure.message), ("codec", "no such codec"));
        assert_eq!(case.state(ids[1]), Some(TaskState::Buried));
    });
}

/// B024
/// Difference: a worker that starts waits for no child of an earlier one. Tasks that were not
/// parked are ready, and those that were parked stay taken.
#[test]
fn next_run_works_on_what_was_not_parked() {
    with_timeout(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue");
        let clock = ManualClock::new();
        let open = || stores::open_with(&path, Store::options().clock(&clock));
        let store = open();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(["film", "book"]).unwrap();
        let (handler, tokens) = park_films();
        let keep_books = move |job: &Job| match job.body() {
            b"book" => Ok(Outcome::detach()),
            _ => handler(job),
        };
        let worker = Worker::new(&store).on(&tube, keep_books).start().unwrap();
        let token = tokens.recv().unwrap();
        wait_until(|| worker.tally().detached == 2);
        stores::close(&store);
        drop((worker, store, tube));
        let store = open();
        let tube = store.find_tube("case").unwrap();
        let work = |body: &'static [u8]| {
            let handler = move |job: &Job| assert_eq!(job.body(), body);
            Worker::new(&store).on(&tube, handler).run_until_idle().unwrap().done
        };
        assert_eq!(work(b"book"), 1);
        let claim = store.resume_claim(&token).unwrap();
        assert_eq!(claim.body(), b"film");
        assert_eq!(work(b"film"), 0);
        // The child ends without a word.
        drop(claim);
        assert_eq!(work(b"film"), 1);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
