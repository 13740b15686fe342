//! A store with all kinds of tubes and tasks, and images of its disk at several moments.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use tubewell::{
    Backoff, Claim, ClaimToken, Counting, Durability, Error, FIFO, FIFOTTL, Failure, Keep,
    LIMFIFOTTL, ManualClock, Outcome, Put, Schedule, Store, StoreOptions, TubeOptions, UTUBE,
    UTUBETTL,
};

use crate::disk::{Bytes, Disk, PAGE};

const MS: Duration = Duration::from_millis(1);
/// The tags of the tasks.
pub const TAGS: [&str; 3] = ["red", "green", "blue"];

pub struct History {
    /// Images of the disk, the oldest first. The store was closed before the last image only.
    pub images: Vec<Bytes>,
    /// For each image, the pages that are not all zero.
    pub used: Vec<Vec<usize>>,
    /// Every body that was ever put, by id.
    pub bodies: HashMap<u64, Vec<u8>>,
    /// The tokens of the parked claims.
    pub tokens: Vec<ClaimToken>,
}

pub static HISTORY: LazyLock<History> = LazyLock::new(build);

/// The options of all stores on these images.
pub fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).cache_size(1 << 20)
}

struct HistoryBuilder {
    store: Store,
    disk: Disk,
    bodies: HashMap<u64, Vec<u8>>,
    tokens: Vec<ClaimToken>,
    images: Vec<Bytes>,
}

impl HistoryBuilder {
    fn put(
        &mut self,
        tube: &str,
        size: usize,
        how: impl FnOnce(Put<Vec<u8>>) -> Put<Vec<u8>>,
    ) -> u64 {
        let mut body = format!("body {} of {tube} ", self.bodies.len()).into_bytes();
        let fill = u8::try_from(self.bodies.len() % 251).unwrap();
        body.resize(size.max(body.len()), fill);
        let id = self.store.tube(tube).unwrap().put(how(Put::new(body.clone()))).unwrap().id;
        self.bodies.insert(id, body);
        id
    }

    fn save_image(&mut self) {
        self.images.push(self.disk.bytes());
    }
}

fn build() -> History {
    let (disk, clock) = (Disk::default(), ManualClock::new());
    let store = options(&clock).open_on(Box::new(disk.share())).unwrap();
    let tubes = [
        ("plain", FIFO, TubeOptions::new()),
        ("timed", FIFOTTL, TubeOptions::new().ttr(5 * MS).priority(2)),
        ("queues", UTUBE, TubeOptions::new()),
        ("timed queues", UTUBETTL, TubeOptions::new().ttl(Duration::from_secs(60))),
        ("bounded", LIMFIFOTTL, TubeOptions::new().capacity(3)),
        ("relaxed", FIFO, TubeOptions::new().durability(Durability::relaxed())),
        ("temporary", FIFO, TubeOptions::new().temporary(true)),
        ("dropped", UTUBE, TubeOptions::new()),
        ("limited", FIFOTTL, limited().backoff(Backoff::constant(MS))),
        ("limited queues", UTUBE, limited().count_takes(Counting::Flushed)),
        ("labelled", FIFOTTL, limited().history(4)),
    ];
    for (name, driver, given) in tubes {
        store.create_tube(name, given.driver(driver)).unwrap();
    }
    let mut builder = HistoryBuilder {
        store,
        disk,
        bodies: HashMap::new(),
        tokens: Vec::new(),
        images: Vec::new(),
    };
    builder.save_image();
    fill(&mut builder);
    builder.save_image();
    work(&mut builder);
    work_with_attempts(&mut builder);
    label(&mut builder);
    clock.advance(2 * MS);
    builder.store.flush().unwrap();
    builder.save_image();
    // The sweeper has not removed the rows of the dropped tube yet.
    builder.store.drop_tube("dropped").unwrap();
    builder.store.tube("relaxed").unwrap().admin().truncate().unwrap();
    builder.put("relaxed", 20, |put| put);
    builder.store.flush().unwrap();
    builder.save_image();
    builder.store.close().unwrap();
    builder.save_image();
    let used = builder.images.iter().map(used).collect();
    History { images: builder.images, used, bodies: builder.bodies, tokens: builder.tokens }
}

/// Two attempts, and all outcomes are kept.
fn limited() -> TubeOptions {
    TubeOptions::new().max_attempts(2).keep_done(Keep::new()).keep_buried(Keep::new().count(100))
}

/// The failure of a task, in a row of its own. Its message names the task.
pub fn failure(id: u64) -> Failure {
    let filler = "x".repeat(if id.is_multiple_of(2) { 10 } else { 3000 });
    let group = if id.is_multiple_of(3) { "timeout" } else { "crash" };
    Failure::new(group, format!("failure of task {id} {filler}"))
}

/// The result of a task, which names it.
pub fn result(id: u64) -> Vec<u8> {
    format!("result of task {id}").into_bytes()
}

/// An entry of the history of a task, which names it.
pub fn entry(id: u64) -> String {
    format!("entry of task {id}")
}

fn fill(builder: &mut HistoryBuilder) {
    for n in 0..4 {
        builder.put("plain", if n % 3 == 2 { 6000 } else { 30 }, |put| put);
        let name = ["x", "y", ""][n % 3];
        builder.put("queues", 1025 - n, |put| put.sub_queue(name));
        builder.put("relaxed", 40, |put| put);
        builder.put("dropped", 1500, |put| put.sub_queue(name));
        let priority = u32::try_from(n % 3).unwrap();
        builder.put("timed queues", 900, |put| put.priority(priority).sub_queue(name));
    }
    builder.put("timed", 10, |put| put.delay(MS).ttl(4 * MS));
    builder.put("timed", 3000, |put| put.delay(Duration::from_secs(3600)));
    builder.put("timed", 10, |put| put.ttl(Duration::from_secs(30)).priority(0));
    builder.put("timed queues", 2000, |put| put.delay(3 * MS).sub_queue("z"));
    builder.put("bounded", 10, |put| put.priority(1));
    builder.put("bounded", 5000, |put| put.priority(0));
    for n in 0..9 {
        builder.put("limited", 30, |put| put);
        builder.put("limited queues", if n == 4 { 2000 } else { 30 }, |put| {
            put.sub_queue(format!("{n}")).max_attempts(1 + n % 3)
        });
    }
}

/// Tasks with tags, keys, steps and histories, and a schedule.
fn label(builder: &mut HistoryBuilder) {
    let tube = builder.store.tube("labelled").unwrap();
    for n in 0..8 {
        let tags = TAGS.into_iter().take(1 + n % TAGS.len());
        let id =
            builder.put("labelled", 40, |put| tags.fold(put.key(format!("key-{n}")), Put::tag));
        tube.admin().log(id, &entry(id)).unwrap();
    }
    for end in [|claim: Claim| claim.ack().unwrap(), |claim: Claim| claim.release_in(MS).unwrap()] {
        let claim = tube.try_take().unwrap().unwrap();
        claim.step("one", || Ok::<_, Error>(result(claim.id()))).unwrap();
        end(claim);
    }
    tube.schedule(Schedule::every("hourly", Duration::from_secs(3600)), "new").unwrap();
}

/// In each tube: acks one task, leaves one claimed, buries one, and parks the claim on one.
fn work(builder: &mut HistoryBuilder) {
    for name in ["plain", "queues", "timed queues", "relaxed", "bounded"] {
        let tube = builder.store.tube(name).unwrap();
        let take = || tube.try_take().unwrap().unwrap();
        take().ack().unwrap();
        let _ = take().detach();
        if let Ok(Some(claim)) = tube.try_take() {
            claim.bury(None).unwrap();
        }
        if let Ok(Some(claim)) = tube.try_take() {
            let hold = if name == "plain" { Duration::MAX } else { Duration::from_secs(3600) };
            builder.tokens.push(claim.park(hold).unwrap());
        }
    }
}

/// In each tube with a limit of attempts: tasks that are done, that failed, that are given back, and
/// that are buried; a claim that is counted, and one that is counted and parked.
fn work_with_attempts(builder: &mut HistoryBuilder) {
    let ends: [fn(Claim); 6] = [
        |claim| assert!(claim.ack().is_ok()),
        |claim| {
            let id = claim.id();
            claim.end(Outcome::result(result(id))).unwrap();
        },
        |claim| {
            let id = claim.id();
            claim.fail(failure(id)).unwrap();
        },
        |claim| {
            let id = claim.id();
            claim.bury(failure(id)).unwrap();
        },
        |claim| assert!(claim.end(Outcome::snooze(Duration::ZERO)).is_ok()),
        |claim| drop(claim.detach()),
    ];
    for name in ["limited", "limited queues"] {
        let tube = builder.store.tube(name).unwrap();
        let take = || tube.try_take().unwrap().unwrap();
        for end in ends {
            end(take());
        }
        builder.tokens.push(take().park(Duration::from_secs(3600)).unwrap());
    }
}

fn used(image: &Bytes) -> Vec<usize> {
    (0..image.pages()).filter(|at| image.page(*at) != [0; PAGE]).collect()
}

impl History {
    pub fn image(&self, nth: usize) -> (&Bytes, &[usize]) {
        let nth = nth % self.images.len();
        (&self.images[nth], &self.used[nth])
    }
}
