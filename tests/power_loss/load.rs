//! The load: random calls to a store from one thread, with every verb, and the expected contents
//! after each call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, Durability, Error, FIFO, ManualClock, Receipt, Result, Store, StoreOptions, Ticket,
    Tube, TubeOptions,
};

use crate::check::{clock_at, read_contents};
use crate::disk::{Disk, Medium, Op};
use crate::history::{History, Step};
use crate::image_run::micros;
use crate::rng::Rng;
use crate::state::{Contents, DRIVERS, Kind};

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
}

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
    clock: ManualClock,
    started_at: u64,
    cache: usize,
    durability: Durability,
    max_rows: usize,
    store: Store,
    contents: Arc<Contents>,
    history: History,
    claims: Vec<Claim>,
    /// Claims detached to the session, to be finished by id.
    detached: Vec<(&'static str, u64)>,
    /// Tickets without an answer yet, and the step of each.
    tickets: Vec<(Ticket<Receipt>, usize)>,
    /// The id that the next put gets, if it is known.
    next_id: Option<u64>,
    /// Every time at which a task falls due. They are unique, since the order of two tasks that are
    /// due at the same time is not specified.
    dues: BTreeSet<u64>,
}

/// What a call's answer says.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    durable: bool,
    commit: Option<u64>,
    id: Option<u64>,
}

impl Load {
    /// Runs a load up to a clean close, and in one of three loads a compaction.
    pub fn run(start: Start, calls: u64, profile: LoadProfile, rng: Rng) -> Result<LoadOutcome> {
        let mut load = Load::open(start, profile, rng)?;
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
        let mut load = Load::open(Start::new(), LoadProfile::Mixed, rng)?;
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

    fn open(start: Start, profile: LoadProfile, mut rng: Rng) -> Result<Load> {
        let clock = clock_at(start.now);
        let disk = Disk::new(start.medium);
        let cache = rng.pick(&[0, 16 << 10, 256 << 10, 4 << 20]);
        let durability = if rng.one_in(4) { Durability::relaxed() } else { Durability::Flush };
        let max_rows = if rng.one_in(5) { 6 } else { 65_536 };
        let first = Step {
            what: "start",
            issued: 0,
            answered: Some(0),
            durable: true,
            commit: None,
            id: start.id,
            now: start.now,
            contents: start.contents.clone(),
        };
        let history = History { steps: vec![first], purges: start.purges };
        let store = options(cache, durability, max_rows, &clock).open_on(disk.storage())?;
        let dues = start
            .contents
            .tasks
            .values()
            .flat_map(|task| [task.expires_at, task.ready_at])
            .collect();
        let mut load = Load {
            rng,
            profile,
            disk,
            clock,
            started_at: start.now,
            cache,
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
        let open = Answer { durable: true, ..Answer::default() };
        load.step("open", 0, open);
        load.advance(0);
        Ok(load)
    }

    fn now(&self) -> u64 {
        self.started_at + micros(self.clock.now())
    }

    fn step(&mut self, what: &'static str, issued: usize, answer: Answer) {
        self.history.steps.push(Step {
            what,
            issued,
            answered: Some(self.disk.position()),
            durable: answer.durable,
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
        let durable = kind.flushes(self.durability) && !receipts.is_empty();
        self.step(what, issued, Answer { durable, commit, id });
    }

    /// Adds a step whose answer is still to come.
    fn deferred(
        &mut self,
        what: &'static str,
        issued: usize,
        ticket: Ticket<Receipt>,
        kind: &Kind,
    ) {
        let durable = kind.flushes(self.durability);
        self.step(what, issued, Answer { durable, ..Answer::default() });
        let step = self.history.steps.len() - 1;
        self.history.steps[step].answered = None;
        self.tickets.push((ticket, step));
    }

    fn contents(&mut self) -> &mut Contents {
        Arc::make_mut(&mut self.contents)
    }

    fn random_tube(&mut self) -> Result<Option<(&'static str, Arc<Kind>, Tube)>> {
        if self.contents.tubes.is_empty() {
            return Ok(None);
        }
        let nth = self.rng.index(self.contents.tubes.len());
        let found = self.contents.tubes.iter().nth(nth).map(|(name, kind)| (*name, kind.clone()));
        let Some((name, kind)) = found else { return Ok(None) };
        Ok(Some((name, kind, self.store.tube(name)?)))
    }

    /// A stored task, or a detached one, which may have been removed.
    fn random_task(&mut self) -> Option<(&'static str, u64)> {
        if !self.detached.is_empty() && self.rng.one_in(4) {
            return Some(self.rng.pick(&self.detached.clone()));
        }
        let nth = self.rng.index(self.contents.tasks.len().max(1));
        self.contents.tasks.iter().nth(nth).map(|(id, task)| (task.tube, *id))
    }

    fn random_call(&mut self) -> Result<()> {
        let most = if self.profile == LoadProfile::LargeBodies { 90 } else { 40 };
        let full = self.contents.tasks.len() > most;
        if self.profile == LoadProfile::ManyTasks && self.rng.one_in(4) {
            return if full { self.truncate() } else { self.put_many() };
        }
        match self.rng.below(100) {
            0..20 if full => self.delete(),
            0..20 => self.put(),
            20..26 if full => self.truncate(),
            20..26 => self.put_many(),
            26..30 => self.put_deferred(),
            30..46 => self.take(),
            46..56 => self.finish_claim(),
            56..62 => self.finish_by_id(),
            62..66 => self.ack_many(),
            66..72 => self.bury(),
            72..76 => self.kick(),
            76..79 => self.delete(),
            79 => self.truncate(),
            80 => self.drop_tube(),
            81..85 => self.create_tube(),
            85..90 => {
                let by = self.rng.below(20_000_000);
                self.advance(by);
                Ok(())
            }
            90..93 => self.flush(),
            93..97 => self.await_tickets(),
            97 => self.reopen(),
            _ => {
                self.claims.pop();
                Ok(())
            }
        }
    }

    // ---- tubes and time

    fn create_tube(&mut self) -> Result<()> {
        let name = self.rng.pick(&NAMES);
        if self.contents.tubes.contains_key(name) {
            return Ok(());
        }
        // Each name prefers a driver of its own, so that all drivers occur; the last is temporary.
        let nth = NAMES.iter().position(|other| *other == name).unwrap_or(0);
        let driver = DRIVERS.get(nth).copied().filter(|_| !self.rng.one_in(4));
        let driver = driver.unwrap_or_else(|| self.rng.pick(&DRIVERS));
        let kind = Kind::random(driver, nth == 5, &mut self.rng);
        let issued = self.disk.position();
        self.store.create_tube(name, driver, kind.options())?;
        self.contents().tubes.insert(name, Arc::new(kind));
        self.step("create_tube", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    fn drop_tube(&mut self) -> Result<()> {
        let Some((name, ..)) = self.random_tube()? else { return Ok(()) };
        if self.rng.one_in(2) {
            self.claims.retain(|claim| claim.tube() != name);
            self.store.tube(name)?.release_all()?;
        }
        let issued = self.disk.position();
        self.history.purges = true;
        match self.store.drop_tube(name) {
            Err(Error::TubeBusy { .. }) => return Ok(()),
            dropped => dropped?,
        }
        self.detached.retain(|(tube, _)| *tube != name);
        self.contents().remove_tasks(name);
        self.contents().tubes.remove(name);
        self.step("drop_tube", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    fn truncate(&mut self) -> Result<()> {
        let Some((mut name, ..)) = self.random_tube()? else { return Ok(()) };
        if self.profile == LoadProfile::ManyTasks {
            // The largest tube: its rows are purged in several commits.
            let of = |name: &str| self.contents.tasks.values().filter(|t| t.tube == name).count();
            name = self.contents.tubes.keys().copied().max_by_key(|name| of(name)).unwrap_or(name);
        }
        let tube = self.store.tube(name)?;
        let issued = self.disk.position();
        self.history.purges = true;
        tube.truncate()?;
        self.contents().remove_tasks(name);
        self.step("truncate", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    /// Advances the clock. Each task that falls due on the way is a step that is not durable.
    fn advance(&mut self, by: u64) {
        let issued = self.disk.position();
        self.clock.advance(Duration::from_micros(by));
        let now = self.now();
        self.step("advance", issued, Answer::default());
        loop {
            let mut contents = Contents::clone(&self.contents);
            if !contents.apply_next_due(now) {
                return;
            }
            self.contents = Arc::new(contents);
            self.step("due", issued, Answer::default());
        }
    }

    fn flush(&mut self) -> Result<()> {
        let issued = self.disk.position();
        let commit = self.store.flush()?;
        let acknowledged = self.history.steps.iter().filter_map(|step| step.commit).max();
        assert!(
            acknowledged <= Some(commit),
            "flush returned commit {commit}, a receipt {acknowledged:?}"
        );
        self.step("flush", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    fn await_tickets(&mut self) -> Result<()> {
        for (ticket, step) in std::mem::take(&mut self.tickets) {
            let receipt = ticket.wait()?;
            let step = &mut self.history.steps[step];
            step.answered = Some(self.disk.position());
            step.commit = Some(receipt.commit);
            if step.what == "deferred put" {
                step.id = Some(receipt.id);
                assert!(step.contents.tasks.contains_key(&receipt.id), "ids increase by one");
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        // A close flushes deferred calls, whether their tickets are awaited or dropped.
        if self.rng.one_in(2) {
            self.await_tickets()?;
        }
        self.tickets.clear();
        self.claims.clear();
        self.detached.clear();
        let issued = self.disk.position();
        self.store.close()?;
        self.step("close", issued, Answer { durable: true, ..Answer::default() });
        // Time may pass while the store is closed.
        let closed_for = if self.rng.one_in(2) { self.rng.below(10_000_000) } else { 0 };
        self.clock.advance(Duration::from_micros(closed_for));
        let issued = self.disk.position();
        let options = options(self.cache, self.durability, self.max_rows, &self.clock);
        self.store = options.open_on(self.disk.storage())?;
        self.step("reopen", issued, Answer { durable: true, ..Answer::default() });
        self.advance(0);
        Ok(())
    }

    /// Makes the file large with a tube and drops the tube, whose rows are purged later.
    fn fill_and_drop(&mut self) -> Result<()> {
        let issued = self.disk.position();
        let tube = self.store.create_tube("large", FIFO, TubeOptions::new())?;
        tube.put_many((0..60).map(|n| vec![n; 100_000]))?;
        self.store.drop_tube("large")?;
        self.history.purges = true;
        self.next_id = None;
        self.step("fill and drop", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    /// Compacts the closed file, which does not change the contents.
    fn compact(&mut self) -> Result<()> {
        let issued = self.disk.position();
        options(self.cache, self.durability, self.max_rows, &self.clock)
            .compact_on(self.disk.storage())?;
        self.step("compact", issued, Answer { durable: true, ..Answer::default() });
        Ok(())
    }

    /// Ends all claims and compares the store, before any crash, with the expected contents.
    fn finish_and_compare(&mut self) -> Result<()> {
        self.await_tickets()?;
        self.claims.clear();
        for name in self.contents.tubes.keys() {
            self.store.tube(name)?.release_all()?;
        }
        let issued = self.disk.position();
        assert_eq!(self.store.verify()?, [""; 0], "before any crash");
        self.step("verify", issued, Answer { durable: true, ..Answer::default() });
        let mut found = read_contents(&self.store, usize::MAX)?;
        let kinds = &self.contents.tubes;
        found.tasks.retain(|_, (tube, ..)| !kinds[tube.as_str()].temporary);
        let difference = self.contents.difference(&found, self.now());
        assert_eq!(difference, None, "before any crash");
        Ok(())
    }
}

fn options(
    cache: usize,
    durability: Durability,
    max_rows: usize,
    clock: &ManualClock,
) -> StoreOptions {
    StoreOptions::default()
        .cache_size(cache)
        .durability(durability)
        .max_pending(max_rows, 1 << 20)
        .clock(clock)
}
