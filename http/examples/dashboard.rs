//! A store with work in it, to look at in a browser.
//!
//! `cargo run -p tubewell-http --example dashboard` and open the address that it prints. Mails are sent, some of
//! them in vain; a crawler asks each host once a second; films are encoded for minutes; reports wait for their parts.
//! With `--address 127.0.0.1:11380` it serves there, and with `--read-only` it refuses changes.
#![expect(clippy::disallowed_methods, reason = "the work is made up, and takes its time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::{
    Backoff, Failure, Job, Keep, Outcome, Put, Result, Schedule, Store, Tube, TubeOptions, Worker,
};
use tubewell_http::HttpOptions;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const HOSTS: [&str; 6] = [
    "example.org",
    "docs.rs",
    "crates.io",
    "wiki.example.net",
    "news.example.com",
    "blog.example.io",
];

/// Numbers without a pattern, the same in each run.
fn dice(sides: u64) -> u64 {
    static THROWN: AtomicU64 = AtomicU64::new(1);
    let mut x = THROWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % sides
}

struct Tubes {
    mails: Tube,
    crawl: Tube,
    films: Tube,
    thumbnails: Tube,
    parts: Tube,
    reports: Tube,
    imports: Tube,
}

impl Tubes {
    fn open(store: &Store) -> Result<Tubes> {
        let kept = TubeOptions::new()
            .ttr(30 * SECOND)
            .history(50)
            .metrics(30)
            .keep_done(Keep::new().count(500));
        let backoff = Backoff::exponential(5 * SECOND);
        Ok(Tubes {
            mails: store.open_tube("mails", kept.clone().max_attempts(3).backoff(backoff))?,
            crawl: store.open_tube("crawl", kept.clone().driver("utubettl").max_attempts(2))?,
            films: store.open_tube("films", kept.clone().ttr(60 * SECOND).max_attempts(5))?,
            thumbnails: store
                .open_tube("thumbnails", TubeOptions::new().ttr(10 * SECOND).metrics(30))?,
            parts: store.open_tube("report-parts", kept.clone())?,
            reports: store.open_tube("reports", kept.clone())?,
            imports: store.open_tube("imports", kept.max_attempts(1))?,
        })
    }

    fn fill(&self) -> Result<()> {
        for number in 0..40 {
            self.put_mail(number)?;
            self.put_page(number)?;
            self.imports.put(format!(
                "{{\"file\": \"orders-{number:03}.csv\", \"rows\": {}}}",
                900 + 37 * number
            ))?;
        }
        for number in 0..6_u64 {
            let film = format!(
                "{{\"film\": {number}, \"profile\": \"1080p\", \"frames\": {}}}",
                2400 + 600 * number
            );
            self.films.put(Put::new(film).key(format!("film-{number}")).tag("video"))?;
        }
        for number in 1..4_u64 {
            let part = |name: &str| {
                let part = Put::new(format!("{{\"report\": {number}, \"part\": \"{name}\"}}"));
                self.parts.put(part.delay(Duration::from_secs(40 * number)).tag("reports"))
            };
            let ids = [part("sales")?.id, part("costs")?.id, part("stock")?.id];
            let report = Put::new(format!("{{\"report\": {number}}}"))
                .key(format!("report-{number}"))
                .tag("reports");
            self.reports.put(report.after(&self.parts, ids))?;
        }
        let script = "<script>document.body.remove()</script> <b>not bold</b>";
        self.imports.put(Put::new(script).key("from-a-form").delay(HOUR).tag("untrusted"))?;
        self.imports.put(Put::new(&b"\x00\x01\xff\xfebinary"[..]).delay(2 * HOUR))?;
        self.crawl.schedule(
            Schedule::every("sitemaps", HOUR),
            Put::new("{\"url\": \"/sitemap.xml\"}").tag("sitemap"),
        )?;
        self.mails
            .schedule(Schedule::every("digest", 15 * 60 * SECOND), "{\"template\": \"digest\"}")?;
        self.reports
            .schedule(Schedule::every("daily-report", 24 * HOUR), "{\"report\": \"daily\"}")?;
        Ok(())
    }

    fn put_mail(&self, number: u64) -> Result<()> {
        let template = ["welcome", "invoice", "reminder"][usize::try_from(number % 3).unwrap_or(0)];
        let mail = format!(
            "{{\"to\": \"user{number}@example.org\", \"template\": \"{template}\", \"locale\": \"en\", \"order\": {}}}",
            9_007_199_254_740_993_u64 + number
        );
        self.mails.put(Put::new(mail).tag(template).priority(u32::from(template != "invoice")))?;
        Ok(())
    }

    fn put_page(&self, number: u64) -> Result<()> {
        let host = HOSTS[usize::try_from(dice(6)).unwrap_or(0)];
        let page = Put::new(format!(
            "{{\"url\": \"https://{host}/page/{number}\", \"depth\": {}}}",
            number % 4
        ));
        self.crawl.put(page.sub_queue(host))?;
        Ok(())
    }
}

fn send(_: &Job) -> std::result::Result<(), Failure> {
    thread::sleep(Duration::from_millis(20 + dice(300)));
    match dice(30) {
        0 | 1 => Err(Failure::new("smtp 550", "550 5.1.1 mailbox unavailable: no such user here")),
        2 => {
            Err(Failure::new("timeout", "connecting to mx1.example.org:25: no answer within 10 s"))
        }
        3 => Err(Failure::new(
            "template",
            "the template \"reminder\" has no field \"due_on\"\n  at line 14, column 3",
        )),
        _ => Ok(()),
    }
}

fn fetch(_: &Job) -> Outcome {
    thread::sleep(Duration::from_millis(150 + dice(700)));
    match dice(12) {
        0 => Outcome::fail(Failure::new("http 503", "503 Service Unavailable (Retry-After: 120)")),
        1 => Outcome::fail(Failure::new("timeout", "reading the body: no byte within 30 s")),
        _ => Outcome::result(format!("{{\"status\": 200, \"links\": {}}}", dice(90))),
    }
}

fn encode(job: &Job) -> Result<()> {
    let frames = 1200;
    job.step("probe", || Ok::<_, tubewell::Error>("h264, 1920x1080, 25 fps".to_owned()))?;
    job.progress_text("pass 1 of 2")?;
    for frame in 0..frames {
        job.check()?;
        job.progress(frame, frames)?;
        thread::sleep(Duration::from_millis(150));
        if frame % 100 == 0 {
            job.touch(60 * SECOND)?;
        }
    }
    Ok(())
}

fn import(_: &Job) -> std::result::Result<(), Failure> {
    match dice(5) {
        0 => Ok(()),
        1 => Err(Failure::new("encoding", "row 113: invalid UTF-8 at byte 4,098")),
        _ => Err(Failure::new(
            "schema",
            "the column \"vat_id\" is missing; expected 14 columns, found 13",
        )),
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let address = after("--address").map_or("127.0.0.1:0", |address| address);
    let is_read_only = arguments.iter().any(|argument| argument == "--read-only");

    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path().join("shop.tubewell"))?;
    let tubes = Tubes::open(&store)?;
    tubes.fill()?;
    let quick = |_: &Job| thread::sleep(Duration::from_millis(2 + dice(15)));
    let part = |_: &Job| Outcome::result("{\"rows\": 1200}");
    let workers = [
        Worker::new(&store).name("mailer-1").on(&tubes.mails, send).concurrency(3).start()?,
        Worker::new(&store).name("crawler-1").on(&tubes.crawl, fetch).concurrency(4).start()?,
        Worker::new(&store).name("encoder-1").on(&tubes.films, encode).concurrency(2).start()?,
        Worker::new(&store).name("encoder-2").on(&tubes.films, encode).start()?,
        Worker::new(&store).name("importer").on(&tubes.imports, import).start()?,
        Worker::new(&store)
            .name("web-1")
            .on(&tubes.thumbnails, quick)
            .on(&tubes.parts, part)
            .on(&tubes.reports, part)
            .start()?,
    ];
    let server = tubewell_http::serve(&store, HttpOptions::new(address).read_only(is_read_only))?;
    println!("http://{}/", server.address());

    for number in 40.. {
        for _ in 0..dice(12) {
            tubes.thumbnails.put(format!("img-{number}.jpg"))?;
        }
        if dice(3) == 0 {
            tubes.put_mail(number)?;
        }
        if dice(2) == 0 {
            tubes.put_page(number)?;
        }
        thread::sleep(Duration::from_millis(100 + dice(150)));
    }
    drop(workers);
    Ok(())
}
