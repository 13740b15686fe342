//! A polite crawler: it fetches from many hosts in parallel, but one page of a host at a time, and leaves
//! the host alone for a second after each page. A host that is busy is left alone for the time that it
//! asks for.
//!
//! `cargo run --example crawler`. The web is a folder that the example writes: a folder for each
//! host, a file for each page. The tube is a `utube` with one sub-queue for each host. The queue
//! holds the limits, with any number of workers, and a slow host does not delay the others. The
//! clock is a manual one, so that the seconds take no time; with the system clock the workers do
//! the same.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tubewell::{Claim, Error, ManualClock, Put, Store, Tube, TubeOptions, UTUBE};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const WORKERS: usize = 4;
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
    store: Store,
    pages: Tube,
    /// Pages that are in the queue, or were. A crawler that survives crashes also keeps them on
    /// the disk.
    known: Mutex<HashSet<String>>,
    /// Pages that are neither done nor buried. At zero the crawl is complete.
    open: AtomicUsize,
    /// Hosts that are being fetched from, to check that none is fetched from twice.
    fetching: Mutex<HashSet<String>>,
    /// When the last request to each host had its answer, to check that it is left alone for a second.
    answered: Mutex<HashMap<String, Duration>>,
    /// Hosts that were busy.
    were_busy: Mutex<HashSet<String>>,
}

impl Crawler {
    /// Puts the pages that are not known yet.
    fn discover<'a>(&self, links: impl Iterator<Item = &'a str>) -> tubewell::Result<()> {
        let new: Vec<&str> = {
            let mut known = lock(&self.known);
            links.filter(|link| known.insert((*link).to_owned())).collect()
        };
        self.open.fetch_add(new.len(), Ordering::SeqCst);
        self.pages.put_many(new.iter().map(|page| Put::new(*page).sub_queue(host(page))))?;
        Ok(())
    }

    fn work(&self) -> Outcome {
        loop {
            match self.pages.take() {
                Ok(task) => self.visit(task)?,
                Err(Error::Closed) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn visit(&self, task: Claim) -> Outcome {
        let page = String::from_utf8_lossy(task.body()).into_owned();
        match self.fetch(&page)? {
            Answer::Page(text) => {
                // Links first, then the ack: a crash in between fetches the page again. In the other
                // order a crash would lose the links.
                self.discover(text.split('"').filter(|part| part.contains(".example/")))?;
                task.ack()?;
            }
            // A dead link becomes a dead letter, for an operator.
            Answer::NotFound => drop(task.bury(None)?),
            Answer::Busy { retry_after } => {
                // The pause first: it keeps the page from being taken again.
                self.pages.admin().pause_sub_queue(host(&page), retry_after)?;
                task.release()?;
                return Ok(());
            }
        }
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.store.close()?; // ends the wait of all workers
        }
        Ok(())
    }

    /// Requests a page, and checks that the host gets no more requests than it should.
    fn fetch(&self, page: &str) -> Result<Answer, String> {
        let (host, now) = (host(page), self.clock.now());
        if !lock(&self.fetching).insert(host.to_owned()) {
            return Err(format!("two pages of {host} are fetched at a time"));
        }
        let last = lock(&self.answered).get(host).copied();
        if last.is_some_and(|last| now < last + SECOND) {
            return Err(format!("{host} had no second without a request"));
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

    /// Advances the clock by a second whenever all workers wait, until the crawl is complete.
    fn pass_the_time(&self) {
        while let Ok(pages) = self.pages.info() {
            if pages.waiting == WORKERS as u64 {
                self.clock.advance(SECOND);
            } else {
                thread::yield_now();
            }
        }
    }
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

fn main() -> Outcome {
    let folder = tempfile::tempdir()?;
    write_web(folder.path())?;
    let path = folder.path().join("crawl.tubewell");
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(&path)?;
    let polite = TubeOptions::new().sub_queue_limit(1).sub_queue_cooldown(SECOND);
    let pages = store.open_tube("pages", polite.driver(UTUBE))?;
    let crawler = Crawler {
        web: folder.path().to_owned(),
        clock: clock.clone(),
        store,
        pages,
        known: Mutex::default(),
        open: AtomicUsize::new(0),
        fetching: Mutex::default(),
        answered: Mutex::default(),
        were_busy: Mutex::default(),
    };

    crawler.discover([format!("{}/0", HOSTS[0])].iter().map(String::as_str))?;
    thread::scope(|scope| {
        // A worker that fails closes the store, which ends the other workers.
        let work = || crawler.work().inspect_err(|_| drop(crawler.store.close()));
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        crawler.pass_the_time();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
    })?;

    // Finished tasks are removed from the file, failed ones are still in it.
    let tasks = Store::open(&path)?.find_tube("pages")?.statistics()?.tasks;
    let (pages, seconds) = (lock(&crawler.known).len(), clock.now().as_secs());
    println!("{seconds} seconds");
    println!("{pages} pages of {} hosts, {} dead links", HOSTS.len(), tasks.buried);
    if (pages, tasks.buried, tasks.total) != (HOSTS.len() * (PAGES + 1), 3, 3) {
        return Err("the number of pages or of dead links is wrong".into());
    }
    // One page of a host at a time, and a second after each.
    if seconds < PAGES as u64 + RETRY_AFTER.as_secs() {
        return Err("the hosts got their requests too fast".into());
    }
    Ok(())
}
