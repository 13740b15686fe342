//! The load: random calls to a store from one thread, with every verb, and the expected contents
//! after each call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tubewell::expert::Clock;
use tubewell::{
    AsyncClaim, AsyncTube, Claim, Durability, Error, ManualClock, Receipt, Result, Store,
    StoreOptions, Ticket, Tube,
};

use crate::check::clock_at;
use crate::disk::{Disk, Medium, Op};
use crate::history::{History, Step};
use crate::image_run::micros;
use crate::rng::Rng;
use crate::state::{Contents, Kind, Levels, Survival};

mod attempts;
mod claims;
mod edits;
mod gates;
mod keys;
mod movement;
mod outcomes;
mod parked;
mod restore;
mod tubes;
mod verbs;

const NAMES: [&str; 6] = ["ash", "birch", "cedar", "elm", "fir", "oak"];

/// What a load has most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadProfile {
    Mixed,
    /// Large bodies, which make the file grow.
    LargeBodies,
    /// Many tasks in a tube, so that purging them takes several commits.
    ManyTasks,
    /// Few flushes, so that much is unflushed at a time, and enough bytes to fill the journal
    /// several times.
    LongTail,
    /// Tasks go from tube to tube.
    Moves,
}

/// The options of a load.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub profile: LoadProfile,
    pub levels: Levels,
    /// Whether the store works on threads of its own, with the clock of the system. With a manual
    /// clock it works on the thread of the load, but for deferred calls.
    pub is_threaded: bool,
}

/// How long a sync of a threaded load lasts at most, so that other threads write meanwhile.
const SYNC_TIME: Duration = Duration::from_micros(300);

/// The state in which a load starts.
#[derive(Clone, Debug)]
pub struct Start {
    pub medium: Medium,
    pub contents: Arc<Contents>,
    pub id: Option<u64>,
    pub now: u64,
    /// Whether rows of dropped or truncated tubes may be left to purge.
    pub purges: bool,
}

impl Start {
    /// An empty disk on 1 January 2026.
    pub fn new() -> Start {
        let contents = Arc::new(Contents::default());
        Start {
            medium: Medium::default(),
            contents,
            id: None,
            now: 1_767_225_600_000_000,
            purges: false,
        }
    }
}

/// The disk's log and the history of a load.
pub struct LoadOutcome {
    pub log: Vec<Op>,
    pub history: History,
}

impl LoadOutcome {
    /// Whether the last step was a compaction that moved pages.
    pub fn is_compacted(&self) -> bool {
        let last = self.history.steps.last();
        last.is_some_and(|step| step.what == "compact" && self.log.len() - step.issued > 40)
    }
}

/// A store under load.
pub struct Load {
    rng: Rng,
    profile: LoadProfile,
    disk: Arc<Disk>,
    /// `None` for the clock of the system, with which the store works on threads of its own.
    clock: Option<ManualClock>,
    started_at: u64,
    cache: usize,
    levels: Levels,
    durability: Durability,
    max_rows: usize,
    store: Store,
    contents: Arc<Contents>,
    history: History,
    claims: Vec<Claim>,
    /// Claims detached to the session, to be finished by id.
    detached: Vec<(&'static str, u64)>,
    /// Tickets without an answer yet, the step of each, and whether its answer means that it is
    /// durable.
    tickets: Vec<(Deferred, usize, bool)>,
    /// The id that the next put gets, if it is known.
    next_id: Option<u64>,
    /// Every time at which a task falls due. They are unique, since the order of two tasks that are
    /// due at the same time is not specified.
    dues: BTreeSet<u64>,
}

/// A call whose answer is still to come.
enum Deferred {
    Told(Ticket<Receipt>),
    /// A change of a task that a filter selects.
    Counted(Ticket<u64>),
}

impl Deferred {
    fn wait(self) -> Result<Option<Receipt>> {
        match self {
            Deferred::Told(ticket) => ticket.wait().map(Some),
            Deferred::Counted(ticket) => {
                assert_eq!(ticket.wait()?, 1);
                Ok(None)
            }
        }
    }
}

/// What a call's answer says.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    survival: Survival,
    commit: Option<u64>,
    id: Option<u64>,
}

impl Answer {
    /// The answer of a call that flushes and has no receipt.
    fn durable() -> Answer {
        Answer { survival: Survival::FromAnswer, ..Answer::default() }
    }
}

impl From<LoadProfile> for Setup {
    fn from(profile: LoadProfile) -> Setup {
        Setup { profile, levels: Levels::All, is_threaded: false }
    }
}

impl Load {
    /// Runs a load up to a clean close, and in one of three loads a compaction.
    pub fn run(start: Start, calls: u64, setup: Setup, rng: Rng) -> Result<LoadOutcome> {
        let mut load = Load::open(start, setup, rng)?;
        for _ in 0..calls {
            load.random_call()?;
        }
        load.finish_and_compare()?;
        load.store.close()?;
        if load.rng.one_in(3) {
            load.compact()?;
        }
        Ok(LoadOutcome { log: load.disk.take_log(), history: load.history })
    }

    /// Runs a load that leaves a large, nearly empty file, and the idle period in which the file
    /// shrinks. Returns `None` if the file did not shrink in that period.
    pub fn run_until_drained(calls: u64, rng: Rng) -> Result<Option<LoadOutcome>> {
        let mut load = Load::open(Start::new(), LoadProfile::Mixed.into(), rng)?;
        for _ in 0..calls {
            load.random_call()?;
        }
        load.finish_and_compare()?;
        load.fill_and_drop()?;
        let before = load.disk.len();
        load.advance(30_000_000);
        let shrunk = load.disk.len() < before / 4;
        Ok(shrunk.then(|| LoadOutcome { log: load.disk.take_log(), history: load.history }))
    }

    fn open(start: Start, setup: Setup, mut rng: Rng) -> Result<Load> {
        let Setup { profile, levels, is_threaded } = setup;
        let clock = (!is_threaded).then(|| clock_at(start.now));
        let disk = Disk::new(start.medium, if is_threaded { SYNC_TIME } else { Duration::ZERO });
        let cache = rng.pick(&[0, 16 << 10, 256 << 10, 4 << 20]);
        let durability = levels.of_store(&mut rng);
        let max_rows = if rng.one_in(5) { 6 } else { 65_536 };
        let first = Step {
            what: "start",
            issued: 0,
            answered: Some(0),
            durable_from: Some(0),
            flush_by: None,
            commit: None,
            id: start.id,
            now: start.now,
            contents: start.contents.clone(),
        };
        let history = History { steps: vec![first], purges: start.purges, ..History::default() };
        let store = options(cache, durability, max_rows, clock.as_ref()).open_on(disk.storage())?;
        let dues = start
            .contents
            .tasks
            .values()
            .flat_map(|task| [task.expires_at, task.ready_at, task.parked_until()])
            .collect();
        let mut load = Load {
            rng,
            profile,
            disk,
            clock,
            started_at: start.now,
            cache,
            levels,
            durability,
            max_rows,
            store,
            contents: start.contents,
            history,
            claims: Vec::new(),
            detached: Vec::new(),
            tickets: Vec::new(),
            next_id: None,
            dues,
        };
        load.step("open", 0, Answer::durable());
        load.advance(0);
        Ok(load)
    }

    fn now(&self) -> u64 {
        self.started_at + self.clock.as_ref().map_or(0, |clock| micros(clock.now()))
    }

    fn step(&mut self, what: &'static str, issued: usize, answer: Answer) {
        let position = self.disk.position();
        let (durable_from, flush_by) = match answer.survival {
            Survival::FromAnswer => (Some(position), None),
            Survival::Within(time) => (None, Some(self.now() + micros(time))),
            Survival::Unknown => (None, None),
        };
        self.history.steps.push(Step {
            what,
            issued,
            answered: Some(position),
            durable_from,
            flush_by,
            commit: answer.commit,
            id: answer.id,
            now: self.now(),
            contents: self.contents.clone(),
        });
    }

    /// Adds a step that changed tasks of a tube.
    fn changed(&mut self, what: &'static str, issued: usize, kind: &Kind, receipts: &[Receipt]) {
        let commit = receipts.last().map(|receipt| receipt.commit).filter(|_| !kind.temporary);
        let id = receipts.iter().map(|receipt| receipt.id).max();
        let survival = kind.survival(self.durability);
        self.step(what, issued, Answer { survival, commit, id });
    }

    /// Notes the receipt of a call that has changed memory only.
    fn told_in_memory(&mut self, receipt: Receipt, kind: &Kind) {
        if !kind.temporary {
            self.history.receipts.push((self.disk.position(), receipt.commit));
        }
    }

    /// Adds a step whose answer is still to come.
    fn deferred(
        &mut self,
        what: &'static str,
        issued: usize,
        ticket: Ticket<Receipt>,
        kind: &Kind,
    ) {
        let ticket = Deferred::Told(ticket);
        self.deferred_until(what, issued, ticket, kind.survival(self.durability));
    }

    fn deferred_until(
        &mut self,
        what: &'static str,
        issued: usize,
        ticket: Deferred,
        survival: Survival,
    ) {
        self.step(what, issued, Answer { survival, ..Answer::default() });
        let step = self.history.steps.len() - 1;
        self.history.steps[step].answered = None;
        self.history.steps[step].durable_from = None;
        self.tickets.push((ticket, step, survival == Survival::FromAnswer));
    }

    /// Makes a change whose answer comes later, once it has space: whether it is refused is known then.
    fn given<R>(&self, tube: &Tube, change: impl Fn(&AsyncTube) -> Ticket<R>) -> Result<Ticket<R>> {
        let tube = tube.to_async().refuse_when_full();
        loop {
            let ticket = change(&tube);
            match ticket.refusal() {
                Some(Error::Overloaded) => self.store.to_async().admin().capacity().wait()?,
                Some(refusal) => return Err(refusal.clone()),
                None => return Ok(ticket),
            }
        }
    }

    /// As [`Load::given`], for a change of a claim.
    fn given_of<R>(
        &self,
        claim: Claim,
        change: impl FnOnce(AsyncClaim) -> Ticket<R>,
    ) -> Result<Ticket<R>> {
        // Nobody else fills the buffer.
        self.store.to_async().admin().capacity().wait()?;
        let ticket = change(claim.into_async());
        ticket.refusal().map_or(Ok(()), |refusal| Err(refusal.clone())).map(|()| ticket)
    }

    fn contents(&mut self) -> &mut Contents {
        let now = self.now();
        let contents = Arc::make_mut(&mut self.contents);
        contents.now = now;
        contents
    }

    fn random_tube(&mut self) -> Result<Option<(&'static str, Arc<Kind>, Tube)>> {
        if self.contents.tubes.is_empty() {
            return Ok(None);
        }
        let nth = self.rng.index(self.contents.tubes.len());
        let found = self.contents.tubes.iter().nth(nth).map(|(name, kind)| (*name, kind.clone()));
        let Some((name, kind)) = found else { return Ok(None) };
        Ok(Some((name, kind, self.store.find_tube(name)?)))
    }

    /// A stored task, or a detached one, which may have been removed.
    fn random_task(&mut self) -> Option<(&'static str, u64)> {
        if !self.detached.is_empty() && self.rng.one_in(4) {
            let (name, id) = self.rng.pick(&self.detached.clone());
            // It may have been moved to another tube since.
            return Some((self.contents.tasks.get(&id).map_or(name, |task| task.tube), id));
        }
        let nth = self.rng.index(self.contents.tasks.len().max(1));
        self.contents.tasks.iter().nth(nth).map(|(id, task)| (task.tube, *id))
    }

    fn random_call(&mut self) -> Result<()> {
        let most = match self.profile {
            LoadProfile::LargeBodies => 90,
            _ => 40,
        };
        let full = self.contents.tasks.len() > most;
        if self.profile == LoadProfile::ManyTasks && self.rng.one_in(4) {
            return if full { self.truncate() } else { self.put_many() };
        }
        if self.profile == LoadProfile::Moves && !self.rng.one_in(6) {
            return self.call_of_moves(full);
        }
        if self.profile == LoadProfile::LongTail && !self.rng.one_in(10) {
            return self.call_of_long_tail(full);
        }
        match self.rng.below(100) {
            0..20 if full => self.delete(),
            0..16 => self.put(),
            16..20 => self.put_with_key(),
            20..26 if full => self.truncate(),
            20..26 => self.put_many(),
            26..29 => self.put_deferred(),
            29 | 75 => self.restore(),
            30..43 => self.take(),
            43..46 => self.resume_or_revoke(),
            46..54 => self.finish_claim(),
            54..57 => self.edit(),
            57..62 => self.finish_by_id(),
            62..64 => self.ack_many(),
            64..66 | 98 => self.move_task(),
            66..70 => self.bury(),
            70..72 => self.resolve(),
            72..75 => self.kick(),
            76 => self.delete(),
            77..79 => self.forget(),
            79 => self.truncate(),
            80 => self.drop_tube(),
            81..85 => self.create_tube(),
            85..90 => {
                if self.rng.one_in(2) {
                    self.await_tickets()?;
                }
                // Short times are about as long as the default until a flush.
                let most = self.rng.pick(&[100_000, 20_000_000]);
                let by = self.rng.below(most);
                self.advance(by);
                Ok(())
            }
            90..92 => self.flush(),
            92 => self.change_gates(),
            93..97 => self.await_tickets(),
            97 => self.reopen(),
            _ => {
                if let Some(claim) = self.claims.pop() {
                    self.drop_claim(claim);
                }
                Ok(())
            }
        }
    }

    /// A call that flushes nothing in a written or relaxed tube.
    fn call_of_long_tail(&mut self, full: bool) -> Result<()> {
        match self.rng.below(20) {
            0..8 => {
                if full {
                    self.delete()?;
                }
                if self.rng.one_in(6) { self.put_with_key() } else { self.put() }
            }
            8 if !full => self.put_many(),
            9 if self.rng.one_in(2) => self.edit(),
            9 => self.put_deferred(),
            10..14 => self.take(),
            14..16 => self.finish_claim(),
            16 => self.finish_by_id(),
            17 => self.ack_many(),
            18 if self.rng.one_in(2) => self.resolve(),
            18 => self.bury(),
            _ if self.rng.one_in(3) => self.move_task(),
            _ if self.rng.one_in(2) => self.forget(),
            _ => self.kick(),
        }
    }
}

fn options(
    cache: usize,
    durability: Durability,
    max_rows: usize,
    clock: Option<&ManualClock>,
) -> StoreOptions {
    StoreOptions::default()
        .cache_size(cache)
        .durability(durability)
        .max_pending(max_rows, 1 << 20)
        .clock(clock.map_or_else(Clock::system, Clock::from))
}
