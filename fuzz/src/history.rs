//! A store with a bit of everything, as its disk was at several moments; made once.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use tubewell::{
    Durability, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Store, StoreOptions, TubeOptions,
    UTUBE, UTUBETTL,
};

use crate::disk::{Bytes, Disk, PAGE};

const MS: Duration = Duration::from_millis(1);

pub struct History {
    /// What the disk held, the oldest first. The last one was closed, the others were cut off.
    pub images: Vec<Bytes>,
    /// The pages of each that are not all zero.
    pub used: Vec<Vec<usize>>,
    /// Every body that was ever put, by id.
    pub bodies: HashMap<u64, Vec<u8>>,
}

pub static HISTORY: LazyLock<History> = LazyLock::new(tell);

/// How the stores are opened.
pub fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).cache_size(1 << 20)
}

struct Teller {
    store: Store,
    disk: Disk,
    bodies: HashMap<u64, Vec<u8>>,
    images: Vec<Bytes>,
}

impl Teller {
    fn put(&mut self, tube: &str, size: usize, how: impl FnOnce(Put) -> Put) -> u64 {
        let mut body = format!("body {} of {tube} ", self.bodies.len()).into_bytes();
        let fill = u8::try_from(self.bodies.len() % 251).unwrap();
        body.resize(size.max(body.len()), fill);
        let id = self.store.tube(tube).unwrap().put(how(Put::new(body.clone()))).unwrap().id;
        self.bodies.insert(id, body);
        id
    }

    fn keep(&mut self) {
        self.images.push(self.disk.bytes());
    }
}

fn tell() -> History {
    let (disk, clock) = (Disk::default(), ManualClock::new());
    let store = options(&clock).open_on(Box::new(disk.share())).unwrap();
    let tubes = [
        ("plain", FIFO, TubeOptions::new()),
        ("timed", FIFOTTL, TubeOptions::new().ttr(5 * MS).pri(2)),
        ("queues", UTUBE, TubeOptions::new()),
        ("timed queues", UTUBETTL, TubeOptions::new().ttl(Duration::from_secs(60))),
        ("bounded", LIMFIFOTTL, TubeOptions::new().capacity(3)),
        ("relaxed", FIFO, TubeOptions::new().durability(Durability::relaxed())),
        ("temporary", FIFO, TubeOptions::new().temporary(true)),
        ("dropped", UTUBE, TubeOptions::new()),
    ];
    for (name, driver, given) in tubes {
        store.create_tube(name, driver, given).unwrap();
    }
    let mut it = Teller { store, disk, bodies: HashMap::new(), images: Vec::new() };
    it.keep();
    fill(&mut it);
    it.keep();
    work(&mut it);
    clock.advance(2 * MS);
    it.store.flush().unwrap();
    it.keep();
    // Its rows go in slices that nobody has asked for yet.
    it.store.drop_tube("dropped").unwrap();
    it.store.tube("relaxed").unwrap().truncate().unwrap();
    it.put("relaxed", 20, |put| put);
    it.store.flush().unwrap();
    it.keep();
    it.store.close().unwrap();
    it.keep();
    let used = it.images.iter().map(used).collect();
    History { images: it.images, used, bodies: it.bodies }
}

fn fill(it: &mut Teller) {
    for n in 0..4 {
        it.put("plain", if n % 3 == 2 { 6000 } else { 30 }, |put| put);
        let name = ["x", "y", ""][n % 3];
        it.put("queues", 1025 - n, |put| put.sub_queue(name));
        it.put("relaxed", 40, |put| put);
        it.put("dropped", 1500, |put| put.sub_queue(name));
        let pri = u32::try_from(n % 3).unwrap();
        it.put("timed queues", 900, |put| put.pri(pri).sub_queue(name));
    }
    it.put("timed", 10, |put| put.delay(MS).ttl(4 * MS));
    it.put("timed", 3000, |put| put.delay(Duration::from_secs(3600)));
    it.put("timed", 10, |put| put.ttl(Duration::from_secs(30)).pri(0));
    it.put("timed queues", 2000, |put| put.delay(3 * MS).sub_queue("z"));
    it.put("bounded", 10, |put| put.pri(1));
    it.put("bounded", 5000, |put| put.pri(0));
}

/// Some are done, some are set aside, some are held for ever.
fn work(it: &mut Teller) {
    for name in ["plain", "queues", "timed queues", "relaxed", "bounded"] {
        let tube = it.store.tube(name).unwrap();
        let take = || tube.take(Duration::ZERO).unwrap().unwrap();
        take().ack().unwrap();
        let _ = take().detach();
        if let Ok(Some(claim)) = tube.take(Duration::ZERO) {
            claim.bury().unwrap();
        }
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
