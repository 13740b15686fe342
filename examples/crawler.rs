//! A polite crawler: it fetches from many hosts in parallel, but one page of a host at a time.
//!
//! `cargo run --example crawler`. The web is a folder that the example writes: a folder for each
//! host, a file for each page. The tube is a `utube` with one sub-queue for each host. The queue
//! ensures that one page of a host is fetched at a time, with any number of workers, and a slow
//! host does not delay the others.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tubewell::{Claim, Error, Put, Store, Tube, TubeOptions, UTUBE};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const WORKERS: usize = 4;
const HOSTS: [&str; 3] = ["alps.example", "lake.example", "town.example"];
const PAGES: usize = 12;

struct Crawler {
    web: PathBuf,
    store: Store,
    pages: Tube,
    /// Pages that are in the queue, or were. A crawler that survives crashes also keeps them on
    /// the disk.
    known: Mutex<HashSet<String>>,
    /// Pages that are neither done nor buried. At zero the crawl is complete.
    open: AtomicUsize,
    /// Hosts that are being fetched from, to check that none is fetched from twice.
    fetching: Mutex<HashSet<String>>,
}

impl Crawler {
    /// Puts the pages that are not known yet.
    fn discover<'a>(&self, links: impl Iterator<Item = &'a str>) -> tubewell::Result<()> {
        let new: Vec<&str> = {
            let mut known = lock(&self.known);
            links.filter(|link| known.insert((*link).to_owned())).collect()
        };
        self.open.fetch_add(new.len(), Ordering::SeqCst);
        self.pages.put_many(new.iter().map(|page| Put::from(*page).sub_queue(host(page))))?;
        Ok(())
    }

    fn work(&self) -> Outcome {
        loop {
            match self.pages.take(None) {
                Ok(Some(task)) => self.visit(task)?,
                Ok(None) | Err(Error::Closed) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn visit(&self, task: Claim) -> Outcome {
        let page = String::from_utf8_lossy(task.data()).into_owned();
        if !lock(&self.fetching).insert(host(&page).to_owned()) {
            return Err(format!("two pages of {} are fetched at a time", host(&page)).into());
        }
        let text = fs::read_to_string(self.web.join(&page));
        lock(&self.fetching).remove(host(&page));
        if let Ok(text) = text {
            // Links first, then the ack: a crash in between fetches the page again. In the other
            // order a crash would lose the links.
            self.discover(text.split('"').filter(|part| part.contains(".example/")))?;
            task.ack()?;
        } else {
            task.bury()?; // a dead link becomes a dead letter, for an operator
        }
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.store.close()?; // ends the wait of all workers
        }
        Ok(())
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
    let store = Store::open(&path)?;
    let pages = store.create_tube("pages", UTUBE, TubeOptions::new())?;
    let (known, open, fetching) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
    let crawler = Crawler { web: folder.path().to_owned(), store, pages, known, open, fetching };

    crawler.discover([format!("{}/0", HOSTS[0])].iter().map(String::as_str))?;
    std::thread::scope(|scope| {
        // A worker that fails closes the store, which ends the other workers.
        let work = || crawler.work().inspect_err(|_| drop(crawler.store.close()));
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
    })?;

    // Finished tasks are removed from the file, failed ones are still in it.
    let tasks = Store::open(&path)?.tube("pages")?.statistics()?.tasks;
    let pages = lock(&crawler.known).len();
    println!("{pages} pages of {} hosts, {} dead links", HOSTS.len(), tasks.buried);
    if (pages, tasks.buried, tasks.total) != (HOSTS.len() * (PAGES + 1), 3, 3) {
        return Err("the number of pages or of dead links is wrong".into());
    }
    Ok(())
}
