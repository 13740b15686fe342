//! A jobboard in the manner of TaskFlow: producers post jobs, and conductors look at the board,
//! choose a job, claim it, and consume it, abandon it, or throw it into the trash.
//!
//! `cargo run --example jobboard`. The board is a tube, a job is a task, and a conductor is a session
//! with a name. A conductor that does not choose needs no board: it is a `tubewell::worker::Worker`.

use std::thread;
use std::time::Duration;

use tubewell::{
    Claim, Ending, Error, Failure, Filter, Keep, Outcome, Put, Result, Store, Task, TaskState,
    Tube, TubeOptions, Update,
};

/// The priorities of a jobboard. The most urgent one is the lowest number.
#[derive(Clone, Copy)]
enum Priority {
    High,
    Normal,
    Low,
}

/// Jobs that cannot be done are buried in this group.
const TRASH: &str = "trash";

fn post(board: &Tube, priority: Priority, name: &str, details: &str) -> Result<u64> {
    let job = Put::new(format!("{name}: {details}")).priority(priority as u32);
    Ok(board.put(job)?.id)
}

/// The jobs on the board: the most urgent ones first, and of those the oldest ones first. A listing
/// claims nothing, so a job may be gone when a conductor has chosen it.
fn jobs(board: &Tube, only_unclaimed: bool) -> Result<Vec<Task>> {
    let wanted = if only_unclaimed { Filter::new().state(TaskState::Ready) } else { Filter::new() };
    let mut jobs = list(board, &wanted)?;
    // Without a condition, jobs that are consumed and kept, or in the trash, are listed too.
    jobs.retain(|job| matches!(job.info.state, TaskState::Ready | TaskState::Taken));
    Ok(jobs)
}

fn list(board: &Tube, wanted: &Filter) -> Result<Vec<Task>> {
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let page = board.query().tasks(wanted, after, 100)?;
        tasks.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(tasks);
        }
    }
}

/// How a job has ended, in words.
fn end(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::Done { result: Some(result) }) => {
            String::from_utf8_lossy(&result).into_owned()
        }
        other => format!("{other:?}"),
    }
}

/// The name of the conductor that has claimed a job.
fn owner(board: &Tube, id: u64) -> Result<Option<String>> {
    let owner = board.query().owner(id)?;
    Ok(owner.and_then(|owner| owner.label).map(|name| name.to_string()))
}

fn print(board: &Tube, title: &str, jobs: &[Task]) -> Result<()> {
    println!("{title}:");
    for job in jobs {
        let owner =
            owner(board, job.info.id)?.map_or("unclaimed".into(), |name| format!("of {name}"));
        println!("  {} {} ({owner})", job.info.id, String::from_utf8_lossy(&job.body));
    }
    Ok(())
}

/// A conductor's handle of the board. Jobs that are claimed through it belong to the conductor: when
/// its last handle is dropped, they are unclaimed again. Claims do not expire, and need no heartbeat.
fn conductor(store: &Store, name: &str) -> Result<Tube> {
    let session = store.session(name)?;
    // `Store::owners` lists it from now on, also while it has no job.
    session.describe("conductor", &format!("process {}", std::process::id()))?;
    session.tube(&store.find_tube("board")?)
}

/// Works on the jobs of the board until the store is closed. Returns how many it has consumed.
fn conduct(board: &Tube) -> Result<u64> {
    let mut consumed = 0;
    loop {
        match try_all(board, &mut consumed) {
            Ok(()) => {}
            Err(Error::Closed) => return Ok(consumed),
            Err(error) => return Err(error),
        }
    }
}

/// Waits until the board has an unclaimed job, and tries to claim each.
fn try_all(board: &Tube, consumed: &mut u64) -> Result<()> {
    board.wait_ready(Duration::MAX)?;
    for job in jobs(board, true)? {
        match board.claim(job.info.id) {
            Ok(job) => *consumed += u64::from(work(job)?),
            // Another conductor was faster. The claim is atomic: one of them gets the job.
            Err(Error::NotReady { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Does a job, and returns whether it was consumed.
fn work(job: Claim) -> Result<bool> {
    let text = String::from_utf8_lossy(job.body()).into_owned();
    let details = text.split_once(": ").map(|(_, details)| details).unwrap_or_default();
    if details.is_empty() {
        // No conductor can do it. If it was abandoned, it would be claimed again and again.
        job.bury(Failure::new(TRASH, "it has no details"))?;
        return Ok(false);
    }
    job.end(Outcome::result(format!("did {details}")))?;
    Ok(true)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    // What is consumed is kept for an hour, so that its producer can ask for the result later.
    let keep = Keep::new().age(Duration::from_secs(3600));
    let board = store.open_tube("board", TubeOptions::new().keep_done(keep))?;
    post(&board, Priority::Low, "clean", "old logs")?;
    let resize = post(&board, Priority::Normal, "resize", "volume 7 to 20 GiB")?;
    let boot = post(&board, Priority::High, "boot", "server 3")?;

    // Ann chooses a job, which is not the first one. Until her claim ends, no conductor can claim it.
    let (ann, bob) = (conductor(&store, "ann")?, conductor(&store, "bob")?);
    let claim = ann.claim(resize)?;
    print(&board, "the board", &jobs(&board, false)?)?;
    match bob.claim(resize) {
        Err(Error::NotReady { why, .. }) => println!("bob cannot claim job {resize}: {why}"),
        other => return Err(format!("two conductors have one job: {other:?}").into()),
    }
    print(&board, "unclaimed", &jobs(&board, true)?)?;

    // She abandons it. It is in its old place again, and bob can claim and consume it.
    claim.release()?;
    work(bob.claim(resize)?)?;
    println!("job {resize} is consumed: {}", end(board.ending(resize)?));

    // Both work on all jobs, while the producer waits for one of them.
    let broken = post(&board, Priority::High, "boot", "")?;
    for number in 0..20 {
        post(&board, Priority::Normal, "ping", &format!("server {number}"))?;
    }
    let consumed = thread::scope(|scope| {
        // A conductor that fails closes the store, which ends all waits.
        let run = |board| conduct(board).inspect_err(|_| drop(store.close()));
        let conductors = [&ann, &bob].map(|board| scope.spawn(move || run(board)));
        let booted = board.wait_done(boot, Duration::MAX);
        let mended = mend(&board, broken);
        let drained = board.wait_drained(Duration::MAX);
        let closed = store.close(); // ends the waits of the conductors
        println!("job {boot} is consumed: {}", end(booted?));
        mended.and(drained).and(closed)?;
        let mut consumed = 1; // by bob
        for conductor in conductors {
            consumed += conductor.join().map_err(|_| "a conductor has panicked")??;
        }
        Ok::<_, Box<dyn std::error::Error>>(consumed)
    })?;
    println!("{consumed} jobs consumed");
    if consumed != 24 {
        return Err("a job was lost or done twice".into());
    }
    Ok(())
}

/// An operator waits until a job is in the trash, mends it, and puts it back on the board.
fn mend(board: &Tube, job: u64) -> Result<()> {
    board.wait_done(job, Duration::MAX)?;
    let trash = Filter::new().group(TRASH);
    for job in list(board, &trash)? {
        let why = job.info.failure.map(|failure| failure.message).unwrap_or_default();
        println!("in the trash: {} {}: {why}", job.info.id, String::from_utf8_lossy(&job.body));
    }
    board.update(job, Update::new().body("boot: server 4"))?;
    board.admin().kick(Filter::new().group(TRASH))?;
    Ok(())
}
