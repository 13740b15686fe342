//! A run: a store, a connection to it, and what is expected of the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell::unserved::{Asked, Bytes, Peer, Said, decode, read_answer};
use tubewell::{Error, ManualClock, SessionId, Store};

use super::Counts;
use super::picture::Picture;
use super::setup::{TUBES, disk, open};
use super::writer::{Grant, Known, NO_FOLDER, Written, mutate, request, take};
use crate::disk::Disk;
use crate::oracle::Oracle;

/// The sessions of the connection.
const SESSIONS: [[u8; 16]; 2] = [[1; 16], [2; 16]];
/// Of more requests that wait, the oldest one is cancelled.
const PENDING_MAX: usize = 20;
/// Where the wall clock of a [`ManualClock`] begins, in seconds.
const WALL: u64 = 1_767_225_600;

/// Requests that change nothing.
const READS: [&str; 43] = [
    "Request::Flush",
    "Request::CatchUp",
    "Request::Verify",
    "Request::Backup",
    "Request::Counters",
    "Request::Clock",
    "Request::ScrapeStore",
    "Request::Heartbeat",
    "AllCounts",
    "AllLimits",
    "ByKey",
    "ClaimOf",
    "Find",
    "FindTube",
    "ListInStore",
    "NextId",
    "OwnerOfClaim",
    "Owners",
    "ScrapeTubes",
    "Space",
    "TagCounts",
    "Tubes",
    "Children",
    "CountParents",
    "CountsOf",
    "Days",
    "EndingOf",
    "FailedOn",
    "Groups",
    "HistoryOf",
    "InfoOf",
    "IsTimed",
    "List",
    "ListBodies",
    "FindSchedule",
    "ListSchedules",
    "OwnerOf",
    "Parents",
    "PausedSubQueues",
    "Peek",
    "PeekReady",
    "Steps",
    "DescribeHeld",
];

pub struct Run {
    oracle: Oracle,
    clock: ManualClock,
    disk: Disk,
    store: Store,
    peer: Peer,
    pending: Vec<Pending>,
    known: Known,
    /// The next answer that hands out tasks is lost.
    loses_next: bool,
    met: BTreeMap<String, Counts>,
}

/// A request without an answer yet, or whose answer has many items.
struct Pending {
    request: Vec<u8>,
    asked: Asked,
}

impl Run {
    pub fn new(oracle: Oracle) -> Run {
        let (disk, clock) = (disk(), ManualClock::new());
        let store = open(&disk, &clock);
        let sessions = SESSIONS.map(SessionId::from_bytes);
        let numbers = (0..).zip(TUBES).map(|(number, name)| (number, name.to_owned()));
        let known =
            Known { tubes: numbers.collect(), sessions: sessions.into(), ..Known::default() };
        let peer = connect(&store);
        let mut run = Run {
            oracle,
            clock,
            disk,
            store,
            peer,
            pending: Vec::new(),
            known,
            loses_next: false,
            met: BTreeMap::new(),
        };
        for tube in 0..TUBES.len() {
            run.take(tube, tube % 2);
        }
        run
    }

    /// Takes a task, so that there are claims.
    fn take(&mut self, tube: usize, session: usize) {
        let bytes = take(&self.known.tubes[tube], self.known.sessions[session]);
        let variants = vec!["Request::Take".to_owned()];
        self.ask(&Written { bytes, variants, grant: None });
    }

    pub fn step(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        match u8::arbitrary(source)? {
            0..25 => {
                let last = TUBES.len() - 1;
                self.take(source.int_in_range(0..=last)?, source.int_in_range(0..=1)?);
            }
            25..200 => {
                let mut written = self.request(source)?;
                if source.ratio(1, 8)? {
                    mutate(&mut written.bytes, source)?;
                    written.variants.clear();
                }
                self.ask(&written);
            }
            200..225 => self.advance(source)?,
            225..235 if !self.pending.is_empty() => {
                let at = source.int_in_range(0..=self.pending.len() - 1)?;
                drop(self.pending.remove(at));
            }
            225..240 => self.reconnect(),
            240..246 => self.reopen(false),
            246..252 => self.reopen(true),
            252..254 => self.loses_next = true,
            _ => {
                let length = source.int_in_range(0..=40)?;
                let bytes = source.bytes(length.min(source.len()))?.to_vec();
                self.ask(&Written { bytes, variants: Vec::new(), grant: None });
            }
        }
        self.poll_pending();
        Ok(())
    }

    fn request(&mut self, source: &mut Unstructured<'_>) -> Result<Written> {
        self.known.tasks = self.picture().tasks;
        self.known.wall = WALL * 1_000_000 + u64::try_from(self.clock.now().as_micros()).unwrap();
        request(source, &self.known)
    }

    fn picture(&self) -> Picture {
        self.store.admin().catch_up().unwrap();
        Picture::of(&self.store)
    }

    /// Makes a request. `variants` is empty if its bytes were changed.
    fn ask(&mut self, Written { bytes, variants, grant }: &Written) {
        let decoded = decode(bytes);
        show(|| decoded.as_ref().map_or("malformed".to_owned(), |decoded| decoded.text.clone()));
        match &decoded {
            Some(it) if variants.is_empty() => {
                let again = decode(&it.again).unwrap();
                assert_eq!(again.again, it.again, "{}", it.text);
            }
            Some(it) => assert_eq!(it.again, *bytes, "{}", it.text),
            None => assert!(variants.is_empty(), "{variants:?} {bytes:?} is malformed"),
        }
        let is_backup = bytes.first() == Some(&11);
        if is_backup && variants.is_empty() && !bytes.ends_with(NO_FOLDER.as_bytes()) {
            return;
        }
        let before = self.picture();
        let mut asked = self.peer.ask(bytes);
        let on_thread = is_backup || matches!(bytes[..], [9 | 10]);
        let mut answer = poll(&mut asked);
        if on_thread {
            answer = Poll::Ready(block_on(&mut asked, answer));
        } else if answer.is_pending() {
            // It may wait for its commit.
            self.store.flush().unwrap();
            answer = poll(&mut asked);
        }
        let said = match answer {
            Poll::Ready(Some(answer)) => Some(self.answered(bytes, answer)),
            Poll::Ready(None) => panic!("{variants:?} has no answer"),
            Poll::Pending => None,
        };
        if let (Some(epoch), Some(grant)) = (said.as_ref().and_then(|said| said.count), grant)
            && variants.iter().any(|name| name == "Park")
        {
            // Among the newest ones, so that it is often resumed.
            self.known.grants.extend([Grant { epoch, ..*grant }; 3]);
        }
        self.count(variants, decoded.is_some(), said.as_ref());
        self.compare(bytes, variants, said.as_ref(), &before);
        self.pending.push(Pending { request: bytes.clone(), asked });
        if self.pending.len() > PENDING_MAX {
            drop(self.pending.remove(0));
        }
    }

    fn count(&mut self, variants: &[String], is_request: bool, said: Option<&Said>) {
        for name in variants.iter().map(String::as_str).chain([""]) {
            let counts = self.met.entry(name.to_owned()).or_default();
            match said {
                _ if !is_request => counts.malformed += 1,
                Some(Said { refused: Some(_), .. }) => counts.refused += 1,
                _ => counts.carried_out += 1,
            }
        }
    }

    /// A refused call changes nothing, and neither does one that reads.
    fn compare(&self, bytes: &[u8], variants: &[String], said: Option<&Said>, before: &Picture) {
        let Some(said) = said else { return };
        // A refused call whose caller has let go of its claim releases the task.
        let lets_go = bytes.first() == Some(&3);
        let is_refused = said.refused.is_some() && !lets_go;
        let reads = variants.iter().any(|name| READS.contains(&name.as_str()));
        if is_refused || reads || self.oracle.is_faulty() {
            let after = self.picture();
            let text = decode(bytes).map(|decoded| decoded.text);
            assert!(
                *before == after,
                "{text:?} was answered with {said:?}, and changed:\n{}",
                before.difference(&after)
            );
        }
    }

    /// Reads an answer as the side does that has made the request.
    fn answered(&mut self, request: &[u8], answer: Bytes) -> Said {
        let text = decode(request).map(|decoded| decoded.text);
        let said = read_answer(request, answer.bytes());
        let said = said.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(said.again, answer.bytes(), "the answer to {text:?}");
        show(|| format!("-> {:?} {:?}", said.refused, said.grants));
        let is_backup = request.first() == Some(&11);
        match &said.refused {
            Some(
                Error::Stopped { .. }
                | Error::Unavailable { .. }
                | Error::OutcomeUnknown { .. }
                | Error::Corrupt { .. }
                | Error::Closed
                | Error::DiskFull { .. },
            ) => panic!("{text:?} was answered with {said:?}"),
            Some(Error::Io { .. }) if !is_backup => {
                panic!("{text:?} was answered with {said:?}")
            }
            _ => {}
        }
        if !said.grants.is_empty() && std::mem::take(&mut self.loses_next) {
            answer.lose();
        } else {
            let grants = said.grants.iter();
            self.known.grants.extend(grants.map(|&(tube, id, epoch, session)| Grant {
                tube,
                id,
                epoch,
                session,
            }));
        }
        if let Some(tube) = &said.tube
            && !self.known.tubes.contains(tube)
        {
            self.known.tubes.push(tube.clone());
        }
        said
    }

    /// Reads what has been answered since.
    fn poll_pending(&mut self) {
        self.store.flush().unwrap();
        for mut pending in std::mem::take(&mut self.pending) {
            loop {
                match poll(&mut pending.asked) {
                    Poll::Ready(Some(answer)) => drop(self.answered(&pending.request, answer)),
                    Poll::Ready(None) => break,
                    Poll::Pending => {
                        self.pending.push(pending);
                        break;
                    }
                }
            }
        }
    }

    /// With frequent schedules the clock moves little: each of their runs is a task.
    fn advance(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        let times = [1_000, 0, 1, 3_000, 20_000, 1_000_000, 3_600_000_000, 90_000_000_000];
        let time = *source.choose(&times)?;
        let most = if self.picture().has_frequent_schedules { 20_000 } else { u64::MAX };
        self.clock.advance(Duration::from_micros(time.min(most)));
        Ok(())
    }

    /// The connection ends, and its calls with it.
    fn reconnect(&mut self) {
        self.pending.clear();
        self.peer = connect(&self.store);
    }

    /// Closes the store, or kills its process, and opens it again.
    fn reopen(&mut self, is_killed: bool) {
        let image = self.disk.copy();
        self.close();
        if is_killed {
            self.disk = image;
        }
        self.store = open(&self.disk, &self.clock);
        self.known.grants.clear();
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
        self.peer = connect(&self.store);
    }

    /// A close answers every request that waits, and refuses further ones.
    fn close(&mut self) {
        self.store.close().unwrap();
        for Pending { request, mut asked } in std::mem::take(&mut self.pending) {
            let mut answer = poll(&mut asked);
            while let Poll::Ready(Some(_)) = answer {
                answer = poll(&mut asked);
            }
            assert!(answer.is_ready(), "{:?}", decode(&request));
        }
        let mut asked = self.peer.ask(&[8]);
        let answer = poll(&mut asked).map(|answer| answer.unwrap());
        let Poll::Ready(answer) = answer else { panic!("a closed store does not answer") };
        let said = read_answer(&[8], answer.bytes()).unwrap();
        assert_eq!(said.refused, Some(Error::Closed));
    }

    pub fn finish(mut self) -> BTreeMap<String, Counts> {
        self.poll_pending();
        self.store.admin().catch_up().unwrap();
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
        let killed = open(&self.disk.copy(), &self.clock);
        assert_eq!(killed.admin().verify().unwrap(), [""; 0]);
        self.reopen(false);
        self.met
    }
}

/// Prints what happens, for people.
fn show(text: impl FnOnce() -> String) {
    if std::env::var_os("TUBEWELL_FUZZ_SHOW").is_some() {
        eprintln!("{}", text());
    }
}

fn connect(store: &Store) -> Peer {
    Peer::connect(store, &SESSIONS.map(SessionId::from_bytes)).unwrap()
}

fn poll(asked: &mut Asked) -> Poll<Option<Bytes>> {
    asked.poll(&mut Context::from_waker(Waker::noop()))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The answer of a thread of the store.
fn block_on(asked: &mut Asked, first: Poll<Option<Bytes>>) -> Option<Bytes> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (begin, mut answer) = (Instant::now(), first);
    loop {
        if let Poll::Ready(answer) = answer {
            return answer;
        }
        answer = asked.poll(&mut Context::from_waker(&waker));
        if answer.is_pending() {
            thread::park_timeout(Duration::from_secs(1));
            assert!(begin.elapsed() < Duration::from_secs(20), "a thread does not answer");
        }
    }
}
