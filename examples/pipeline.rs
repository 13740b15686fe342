//! A pipeline in the manner of qless: letters go through three stages, whose attempts are limited, with
//! a backoff between them. Letters that have failed are grouped by the cause, some letters are tracked,
//! and a report is made every hour.
//!
//! `cargo run --example pipeline`. A stage is a tube and a function, which returns what becomes of a
//! letter. The next stage and all that follows from a letter are one commit: if the process dies before
//! it, the letter is still in its stage, and no mail has been ordered. The clock is a manual one, so that
//! the hours take no time. With the system clock, a program calls `Worker::start` once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tubewell::worker::{Job, Worker};
use tubewell::{
    Backoff, Failure, Filter, IntoOutcome, Keep, ManualClock, Outcome, Overlap, Put, Result,
    Schedule, Store, TaskState, Tube, TubeOptions,
};

const MINUTE: Duration = Duration::from_secs(60);
/// The tag of the letters that are tracked. `Filter::tag` selects their events.
const TRACKED: &str = "tracked";

struct Office {
    store: Store,
    scan: Tube,
    sort: Tube,
    archive: Tube,
    mails: Tube,
    reports: Tube,
    /// The disk of the archive.
    is_full: AtomicBool,
}

impl Office {
    fn open(store: Store) -> Result<Arc<Office>> {
        let stage = |name, first| {
            let backoff = Backoff::exponential(first).cap(MINUTE * 60);
            let options = TubeOptions::new().max_attempts(3).backoff(backoff);
            // The history of a letter goes along from stage to stage.
            store.open_tube(name, options.history(20).keep_done(Keep::new().count(1000)))
        };
        let office = Office {
            scan: stage("scan", MINUTE)?,
            sort: stage("sort", MINUTE)?,
            archive: stage("archive", MINUTE * 5)?,
            mails: store.tube("mails")?,
            reports: store.tube("reports")?,
            is_full: AtomicBool::new(true),
            store,
        };
        let hourly = Schedule::every("report", MINUTE * 60).overlap(Overlap::Skip);
        office.reports.schedule(hourly, "report")?;
        Ok(Arc::new(office))
    }

    /// One thread works on all stages, on the later ones first. `concurrency` gives the worker more.
    fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(&self.store)
            .on(&self.reports, self.handler(Office::report))
            .on(&self.archive, self.handler(Office::archive))
            .on(&self.sort, self.handler(Office::sort))
            .on(&self.scan, self.handler(Office::scan))
    }

    /// A handler for a worker. Workers may outlive this call, so it has a handle of the office.
    fn handler<R: IntoOutcome>(
        self: &Arc<Self>,
        run: fn(&Office, &Job) -> R,
    ) -> impl Fn(&Job) -> R + Send + Sync + use<R> {
        let office = self.clone();
        move |job| run(&office, job)
    }

    fn scan(&self, letter: &Job) -> Result<Outcome, Failure> {
        let text = text(letter);
        if text.is_empty() {
            // No further attempt can succeed.
            return Ok(Outcome::bury(Failure::new("illegible", "the letter is blank")));
        }
        if text == "invoice 7" && letter.attempt() == 1 {
            // An error fails the attempt. The next one follows after the backoff.
            return Err(Failure::new("scanner", "paper jam"));
        }
        Ok(Outcome::advance(&self.sort, format!("{text}, read")))
    }

    fn sort(&self, letter: &Job) -> Outcome {
        let text = text(letter);
        // The mails are ordered if the letter goes on, and only then.
        let outcome = Outcome::advance(&self.archive, format!("{text}, sorted"))
            .and_put(&self.mails, format!("to the sender: we have {text}"));
        if text.starts_with("complaint") {
            return outcome.and_put(&self.mails, format!("to the manager: {text}"));
        }
        outcome
    }

    fn archive(&self, letter: &Job) -> Result<Outcome, Failure> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Failure::new("disk full", "no space for the letter"));
        }
        Ok(Outcome::result(format!("filed: {}", text(letter))))
    }

    fn report(&self, _: &Job) -> Result<()> {
        println!("hourly report: {} letters are filed", self.archive.statistics()?.tasks.kept);
        Ok(())
    }

    /// Prints in which stage the tracked letters are, and what has happened to them so far.
    fn print_tracked(&self) -> Result<()> {
        for letter in self.store.list(Filter::new().tag(TRACKED), None, 100)?.items {
            println!("letter {} is {} in {}:", letter.id, letter.state, letter.tube);
            let history = self.store.tube(&letter.tube)?.query().history(letter.id)?;
            let put = history.first().map(|entry| entry.at);
            for entry in history {
                let age = put.and_then(|put| entry.at.duration_since(put).ok()).unwrap_or_default();
                let (minutes, text) = (age.as_secs() / 60, entry.text.unwrap_or_default());
                println!("{minutes:>4} min {}: {:?} {text}", entry.tube, entry.what);
            }
        }
        Ok(())
    }
}

fn text(letter: &Job) -> String {
    String::from_utf8_lossy(letter.body()).into_owned()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let office = Office::open(Store::options().clock(&clock).open_in_memory()?)?;
    office.scan.put_many([
        Put::new("invoice 7"),
        Put::new("complaint 8").tag(TRACKED),
        Put::new("invoice 9"),
        Put::new(""),
    ])?;
    let work_for = |minutes| {
        for _ in 0..minutes {
            office.worker().run_until_idle()?;
            clock.advance(MINUTE);
        }
        Ok::<_, tubewell::Error>(())
    };

    // The archive attempts each letter three times within a quarter of an hour. Then it is buried.
    work_for(90)?;
    office.print_tracked()?;
    for stage in [&office.scan, &office.archive] {
        for group in stage.query().groups()? {
            println!("failed in {}: {}, {} letters", stage.name(), group.name, group.count);
        }
    }

    // An operator makes space, and kicks the letters that failed for lack of it.
    office.is_full.store(false, Ordering::SeqCst);
    let kicked = office.archive.admin().kick(Filter::new().group("disk full"))?;
    println!("{kicked} letters are attempted again");
    work_for(90)?;

    let mails = office.mails.statistics()?.tasks.ready;
    let filed = office.archive.query().list(TaskState::Done, None, 100)?.items.len();
    println!("{filed} letters, {mails} mails");
    if (filed, mails) != (3, 4) {
        return Err("a letter or a mail is missing or double".into());
    }
    Ok(())
}
