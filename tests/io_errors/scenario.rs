//! One life of a store after another, always the same calls, on a disk that may fail in any.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Result, State, Store,
    StoreOptions, TakeFuture, Tube, TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

use crate::books::{Books, Place};
use crate::disk::Disk;

/// How the scenario ends when the disk keeps failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The disk works again, and the store goes on in place.
    InPlace,
    /// The store is closed while it fails.
    Closed,
}

const MOMENT: Duration = Duration::from_millis(30);
/// Longer than a store waits before it tries a failed disk again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs all of it. Panics when a promise is broken.
pub fn run(disk: &Arc<Disk>, end: End) {
    let mut world = World {
        disk: disk.clone(),
        clock: ManualClock::new(),
        store: None,
        books: Books::default(),
        waiting: None,
        puts: 0,
    };
    world.live(end, World::first_life);
    world.live(end, World::second_life);
    world.finish();
}

struct World {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Option<Store>,
    books: Books,
    waiting: Option<(TakeFuture, Arc<Bell>)>,
    puts: u32,
}

impl World {
    /// A life of the store: opened, used, and closed.
    fn live(&mut self, end: End, life: fn(&mut World)) {
        match self.open() {
            Ok(store) => self.store = Some(store),
            Err(error) => {
                expected(&error);
                // Nothing was promised; the next try finds everything.
                self.disk.mend();
                self.store = Some(self.open().unwrap());
                self.clock.advance(MOMENT * 2);
                let mut books = self.books.clone();
                books.settle(self.store());
                self.books = books;
            }
        }
        life(self);
        if end == End::InPlace {
            self.recover();
        }
        self.close();
    }

    fn open(&self) -> Result<Store> {
        let options: StoreOptions = Store::options().clock(&self.clock).cache_size(1 << 16);
        options.open_on(self.disk.plug())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Every driver, every verb.
    fn first_life(&mut self) {
        self.books.temporary("memory");
        for (name, driver, options) in [
            ("fifo", FIFO, TubeOptions::new()),
            ("fifottl", FIFOTTL, TubeOptions::new().ttr(Duration::from_secs(3600))),
            ("utube", UTUBE, TubeOptions::new()),
            ("utubettl", UTUBETTL, TubeOptions::new().durability(Durability::relaxed())),
            ("limfifottl", LIMFIFOTTL, TubeOptions::new().capacity(4)),
            ("memory", FIFOTTL, TubeOptions::new().temporary(true)),
            ("idle", FIFO, TubeOptions::new()),
        ] {
            self.create(name, driver, options);
        }
        for round in 0..3 {
            for name in ["fifo", "fifottl", "utube", "utubettl", "limfifottl", "memory"] {
                self.put(name, false);
                self.put(name, round == 1);
                self.ticket(name);
                self.wait();
                self.take_and(name, Verb::Ack);
                self.take_and(name, Verb::Bury);
                self.take_and(name, Verb::Drop);
            }
            self.put_many("utube");
            self.take_and("fifottl", Verb::ReleaseLater);
            self.take_and("limfifottl", Verb::ReleaseLater);
            self.take_and("utubettl", Verb::Touch);
            self.kick("fifo");
            self.kick("utubettl");
        }
        self.flush();
    }

    /// Large numbers, the end of tubes, and what begins with what another life left.
    fn second_life(&mut self) {
        self.put_many("fifo");
        self.take_and("fifottl", Verb::ReleaseLater);
        self.take_and("utube", Verb::Ack);
        self.delete("utubettl");
        self.truncate("fifottl");
        self.put("fifottl", false);
        self.drop_tube("idle");
        self.drop_tube("utube");
        self.put_many("limfifottl");
        self.flush();
        self.take_and("fifo", Verb::Ack);
    }

    /// The disk works again: so does the store, by itself.
    fn recover(&mut self) {
        self.disk.mend();
        self.clock.advance(PATIENCE);
        self.store().flush().unwrap();
        self.books.flushed();
        assert_eq!(self.store().verify().unwrap(), [""; 0]);
        self.books.check(self.store());
        self.check_takes();
    }

    /// Whatever is ready can be taken: one task of each sub-queue, or all.
    fn check_takes(&self) {
        for info in self.store().tubes() {
            let tube = self.store().tube(&info.name).unwrap();
            let ready = tube.list(State::Ready, None, 1000).unwrap().tasks;
            let subs: BTreeSet<_> = ready.iter().map(|task| task.sub_queue.clone()).collect();
            let takeable = if info.name.starts_with("utube") { subs.len() } else { ready.len() };
            let claims = tube.take_many(1000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), takeable, "{}", info.name);
        }
    }

    fn close(&mut self) {
        self.waiting = None;
        let closed = self.store.take().unwrap().close();
        match closed {
            Ok(()) => self.books.reopened(),
            Err(error) => {
                expected(&error);
                self.disk.mend();
                let store = self.open().unwrap();
                self.clock.advance(MOMENT * 2);
                assert_eq!(store.verify().unwrap(), [""; 0]);
                self.books.settle(&store);
                store.close().unwrap();
                self.books.reopened();
            }
        }
    }

    /// What a power cut leaves after a close in good order is all there.
    fn finish(&mut self) {
        self.disk.mend();
        for disk in [self.disk.clone(), self.disk.after_power_cut()] {
            let store = Store::options().clock(&self.clock).open_on(disk.plug()).unwrap();
            self.clock.advance(MOMENT * 2);
            assert_eq!(store.verify().unwrap(), [""; 0]);
            self.books.check(&store);
        }
    }

    // ---- the verbs

    fn create(&mut self, name: &str, driver: &str, options: TubeOptions) {
        let created = self.store().create_tube(name, driver, options).map(drop);
        self.settle(created, true, |books| books.note(name, "", Place::Ready));
    }

    fn put(&mut self, name: &str, large: bool) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(large);
        let put = tube.put(self.draft(name, &body)).map(drop);
        self.settle(put, durable(name), |books| books.note(name, short(&body), Place::Ready));
    }

    fn put_many(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let bodies = [self.body(false), self.body(true), self.body(false)];
        let put = tube.put_many(bodies.iter().map(|body| self.draft(name, body))).map(drop);
        self.settle(put, durable(name), |books| {
            for body in &bodies {
                books.note(name, short(body), Place::Ready);
            }
        });
    }

    fn ticket(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let body = self.body(false);
        let ticket = tube.deferred(WhenFull::Block).put(self.draft(name, &body));
        let put = ticket.and_then(tubewell::Ticket::wait).map(drop);
        self.settle(put, durable(name), |books| books.note(name, short(&body), Place::Ready));
    }

    fn take_and(&mut self, name: &str, verb: Verb) {
        let Some(tube) = self.tube(name) else { return };
        let claim = match tube.try_take() {
            Ok(Some(claim)) => claim,
            Ok(None) => return,
            Err(error) => return self.settle(Err(error), false, |_| {}),
        };
        let body = String::from_utf8(claim.data().to_vec()).unwrap();
        let body = short(&body);
        assert!(self.books.at(name, Place::Ready).iter().any(|known| known == body), "{body}");
        let (done, place) = match verb {
            Verb::Ack => (claim.ack().map(drop), Place::Gone),
            Verb::Bury => (claim.bury().map(drop), Place::Buried),
            Verb::ReleaseLater => (claim.release(MOMENT * 2).map(drop), Place::Delayed),
            Verb::Touch => (claim.touch(Duration::from_secs(1)).map(drop), Place::Ready),
            Verb::Drop => return drop(claim),
        };
        self.settle(done, durable(name), |books| {
            books.note(name, body, place);
            if place == Place::Delayed {
                // Wherever this test looks next, the delay is over.
                books.note(name, body, Place::Ready);
            }
        });
    }

    fn kick(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let kicked = tube.kick(100).map(drop);
        self.settle(kicked, durable(name), |books| {
            books.note_all(name, Some(Place::Buried), Place::Ready);
        });
    }

    fn delete(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let Ok(page) = tube.list(State::Ready, None, 1) else { return };
        let Some(task) = page.tasks.first() else { return };
        let Ok(found) = tube.peek(task.id) else { return };
        let body = String::from_utf8(found.data).unwrap();
        let deleted = tube.delete(task.id).map(drop);
        self.settle(deleted, durable(name), |books| books.note(name, short(&body), Place::Gone));
    }

    fn truncate(&mut self, name: &str) {
        let Some(tube) = self.tube(name) else { return };
        let truncated = tube.truncate();
        self.settle(truncated, true, |books| books.note_all(name, None, Place::Gone));
    }

    fn drop_tube(&mut self, name: &str) {
        if self.tube(name).is_none() {
            return;
        }
        self.waiting = None;
        let dropped = self.store().drop_tube(name);
        self.settle(dropped, true, |books| {
            books.note_all(name, None, Place::Gone);
            books.note(name, "", Place::Gone);
        });
    }

    fn flush(&mut self) {
        let flushed = self.store().flush().map(drop);
        self.settle(flushed, true, |_| {});
    }

    /// Somebody waits for a task that never comes.
    fn wait(&mut self) {
        if self.waiting.is_some() {
            return;
        }
        let Ok(tube) = self.store().tube("idle") else { return };
        let bell = Arc::new(Bell(AtomicBool::new(false)));
        let mut waiting = tube.take_async(None);
        let waker = Waker::from(bell.clone());
        match pin!(&mut waiting).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.waiting = Some((waiting, bell)),
            Poll::Ready(Err(error)) => expected(&error),
            Poll::Ready(Ok(claim)) => panic!("{claim:?}"),
        }
    }

    // ---- what comes of them

    /// Notes what a call has changed, given what it answered; then some time goes by.
    #[track_caller]
    fn settle(&mut self, answer: Result<()>, durable: bool, change: impl Fn(&mut Books)) {
        match &answer {
            Ok(()) => {
                change(&mut self.books);
                if durable {
                    self.books.flushed();
                }
            }
            Err(Error::OutcomeUnknown { .. }) => change(&mut self.books),
            Err(error) => expected(error),
        }
        if answer.is_err() {
            self.check_waiter();
        }
        self.clock.advance(MOMENT);
    }

    /// Whoever waits in a store that has failed is told so.
    #[track_caller]
    fn check_waiter(&mut self) {
        if self.store().flush().is_ok() {
            return;
        }
        let Some((mut waiting, bell)) = self.waiting.take() else { return };
        assert!(bell.0.load(Ordering::SeqCst), "the store has failed and nobody was told");
        let told = Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(told, Poll::Ready(Err(Error::Unavailable { .. }))), "{told:?}");
    }

    fn tube(&self, name: &str) -> Option<Tube> {
        match self.store().tube(name) {
            Ok(tube) => Some(tube),
            Err(Error::TubeNotFound { .. }) => None,
            Err(error) => {
                expected(&error);
                None
            }
        }
    }

    fn body(&mut self, large: bool) -> String {
        self.puts += 1;
        // Some are more than the journal takes, and go to the engine with all that is in it.
        let length = match large {
            true if self.puts.is_multiple_of(4) => 270_000,
            true => 5000,
            false => 20,
        };
        format!("b{}.{}", self.puts, "x".repeat(length))
    }

    fn draft(&self, name: &str, body: &str) -> Put {
        let put = Put::new(body);
        if name.starts_with("utube") { put.sub_queue(format!("s{}", self.puts % 3)) } else { put }
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ack,
    Bury,
    ReleaseLater,
    Touch,
    Drop,
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What may be said of a disk that fails; everything else is a broken promise.
#[track_caller]
fn expected(error: &Error) {
    let fits = matches!(
        error,
        Error::OutcomeUnknown { .. }
            | Error::Unavailable { .. }
            | Error::Io { .. }
            | Error::Full { .. }
            | Error::Corrupt { .. }
    );
    assert!(fits, "{error:?}");
}

fn durable(name: &str) -> bool {
    !matches!(name, "utubettl" | "memory")
}

fn short(body: &str) -> &str {
    body.split('.').next().unwrap()
}
