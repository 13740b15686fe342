//! A polite crawler: it fetches from many hosts in parallel, but one page of a host at a time, and leaves
//! the host alone for a second after each page. A host that is busy is left alone for the time that it
//! asks for.
//!
//! `cargo run --example crawler`. The web is a folder that the example writes: a folder for each
//! host, a file for each page. The tube is a `utube` with one sub-queue for each host. The queue
//! holds the limits, with any number of workers, and a slow host does not delay the others. A page is
//! put once, since its name is the key of its task, and the tube keeps what is done. The
//! clock is a manual one, so that the seconds take no time; with the system clock the worker does
//! the same.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tubewell::{
    Failure, Job, Keep, ManualClock, OnKey, Outcome, Put, Store, Tube, TubeOptions, UTUBE, Worker,
};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CONCURRENCY: usize = 4;
const HOSTS: [&str; 3] = ["alps.example", "lake.example", "town.example"];
const PAGES: usize = 12;
const SECOND: Duration = Duration::from_secs(1);
/// The time for which a busy host asks.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a host answers to a request.
enum Answer {
    Page(String),
    NotFound,
    Busy { retry_after: Duration },
}

struct Crawler {
    web: PathBuf,
    clock: ManualClock,
    pages: Tube<String>,
    /// Hosts that are being fetched from, to check that none is fetched from twice.
    fetching: Mutex<HashSet<String>>,
    /// When the last request to each host had its answer, to check that it is left alone for a second.
    answered: Mutex<HashMap<String, Duration>>,
    /// Hosts that were busy.
    were_busy: Mutex<HashSet<String>>,
}

impl Crawler {
    fn visit(&self, page: &Job<String>) -> Result<Outcome> {
        let page = page.value();
        Ok(match self.fetch(page)? {
            // The links and the end of the page are one commit: a crash loses no link.
            Answer::Page(text) => text
                .split('"')
                .filter(|part| part.contains(".example/"))
                .fold(Outcome::done(), |end, link| end.and_put(&self.pages, task(link))),
            // A dead link becomes a dead letter, for an operator.
            Answer::NotFound => Outcome::bury(Failure::new("not found", page)),
            Answer::Busy { retry_after } => {
                // The pause first: it keeps the page from being taken again.
                self.pages.admin().pause_sub_queue(host(page), retry_after)?;
                Outcome::snooze(Duration::ZERO)
            }
        })
    }

    /// Requests a page, and checks that the host gets no more requests than it should.
    fn fetch(&self, page: &str) -> Result<Answer> {
        let (host, now) = (host(page), self.clock.now());
        if !lock(&self.fetching).insert(host.to_owned()) {
            return Err(format!("two pages of {host} are fetched at a time").into());
        }
        let last = lock(&self.answered).get(host).copied();
        if last.is_some_and(|last| now < last + SECOND) {
            return Err(format!("{host} had no second without a request").into());
        }
        // The last host is busy when it is asked for its first page.
        let is_busy = host == HOSTS[2] && lock(&self.were_busy).insert(host.to_owned());
        let answer = match fs::read_to_string(self.web.join(page)) {
            _ if is_busy => Answer::Busy { retry_after: RETRY_AFTER },
            Ok(text) => Answer::Page(text),
            Err(_) => Answer::NotFound,
        };
        lock(&self.answered).insert(host.to_owned(), self.clock.now());
        lock(&self.fetching).remove(host);
        Ok(answer)
    }
}

/// A page that was found before, and waits or is done, keeps its task.
fn task(page: &str) -> Put<String> {
    Put::new(page.to_owned()).sub_queue(host(page)).key(page).on_key(OnKey::Keep)
}

fn host(page: &str) -> &str {
    page.split('/').next().unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every page links to the next page of its host, to a page of another host, and to page 0. The
/// last page of each host links to a page that does not exist.
fn write_web(web: &Path) -> std::io::Result<()> {
    for (host, other) in HOSTS.iter().zip(HOSTS.iter().cycle().skip(1)) {
        fs::create_dir(web.join(host))?;
        for page in 0..PAGES {
            let links = format!("\"{host}/{}\" \"{other}/{page}\" \"{host}/0\"", page + 1);
            fs::write(web.join(host).join(page.to_string()), links)?;
        }
    }
    Ok(())
}

fn main() -> Result {
    let folder = tempfile::tempdir()?;
    write_web(folder.path())?;
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(folder.path().join("crawl.tubewell"))?;
    let polite = TubeOptions::new().sub_queue_limit(1).sub_queue_cooldown(SECOND);
    let options = polite.driver(UTUBE).keep_done(Keep::new().count(100_000));
    let pages = store.open_tube("pages", options)?.typed::<String>();
    let crawler = Arc::new(Crawler {
        web: folder.path().to_owned(),
        clock: clock.clone(),
        pages: pages.clone(),
        fetching: Mutex::default(),
        answered: Mutex::default(),
        were_busy: Mutex::default(),
    });

    pages.put(task(&format!("{}/0", HOSTS[0])))?;
    let visit = move |page: &Job<String>| crawler.visit(page);
    let worker = Worker::new(&store).on(&pages, visit).concurrency(CONCURRENCY).start()?;
    // With the system clock: `pages.wait_drained(Duration::MAX)?`. Here a second passes whenever no job runs.
    while !pages.wait_drained(Duration::ZERO)? {
        if pages.info()?.waiting == CONCURRENCY as u64 {
            clock.advance(SECOND);
        } else {
            thread::yield_now();
        }
    }
    worker.stop(Duration::from_secs(30))?;
    let tally = worker.wait()?;

    let tasks = pages.statistics()?.tasks;
    let (found, seconds) = (tasks.kept + tasks.buried, clock.now().as_secs());
    println!("{seconds} seconds");
    println!("{found} pages of {} hosts, {} dead links", HOSTS.len(), tasks.buried);
    if (found, tasks.buried, tally.failed) != ((HOSTS.len() * (PAGES + 1)) as u64, 3, 0) {
        return Err(format!("a page or a request is wrong: {:?}", pages.query().groups()?).into());
    }
    // One page of a host at a time, and a second after each.
    if seconds < PAGES as u64 + RETRY_AFTER.as_secs() {
        return Err("the hosts got their requests too fast".into());
    }
    Ok(())
}
