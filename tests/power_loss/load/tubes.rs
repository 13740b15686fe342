//! The calls on tubes and on the whole store that a load makes, and the passing of time.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, FIFO, Result, TubeOptions, UTUBE};

use super::{Answer, Load, LoadProfile, NAMES, options};
use crate::check::read_contents;
use crate::history::Step;
use crate::state::{Contents, DRIVERS, Kind};

impl Load {
    pub(super) fn create_tube(&mut self) -> Result<()> {
        let name = self.rng.pick(&NAMES);
        if self.contents.tubes.contains_key(name) {
            return Ok(());
        }
        // Each name prefers a driver of its own, so that all drivers occur; the last is temporary.
        let nth = NAMES.iter().position(|other| *other == name).unwrap_or(0);
        let driver = DRIVERS.get(nth).copied().filter(|_| !self.rng.one_in(4));
        let driver = match driver {
            // The times of tasks would be those of the system.
            _ if self.clock.is_none() => self.rng.pick(&[FIFO, UTUBE]),
            Some(driver) => driver,
            None => self.rng.pick(&DRIVERS),
        };
        let mut kind = Kind::random(driver, nth == 5, self.levels, &mut self.rng);
        if self.clock.is_none() {
            kind.keep_without_limits();
        }
        let issued = self.disk.position();
        self.store.create_tube(name, kind.options().driver(driver))?;
        self.contents().tubes.insert(name, Arc::new(kind));
        self.step("create_tube", issued, Answer::durable());
        Ok(())
    }

    pub(super) fn drop_tube(&mut self) -> Result<()> {
        let Some((name, ..)) = self.random_tube()? else { return Ok(()) };
        if self.rng.one_in(2) {
            self.release_all(name)?;
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
        self.step("drop_tube", issued, Answer::durable());
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Result<()> {
        let Some((mut name, ..)) = self.random_tube()? else { return Ok(()) };
        if self.profile == LoadProfile::ManyTasks {
            // The largest tube: its rows are purged in several commits.
            let of = |name: &str| self.contents.tasks.values().filter(|t| t.tube == name).count();
            name = self.contents.tubes.keys().copied().max_by_key(|name| of(name)).unwrap_or(name);
        }
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        self.history.purges = true;
        tube.admin().truncate()?;
        self.contents().remove_tasks(name);
        self.step("truncate", issued, Answer::durable());
        Ok(())
    }

    /// Advances the clock. Each task that falls due on the way is a step that is not durable. What
    /// had to be flushed by then is durable.
    pub(super) fn advance(&mut self, by: u64) {
        let Some(clock) = &self.clock else { return };
        let (issued, from) = (self.disk.position(), self.now());
        clock.advance(Duration::from_micros(by));
        let now = self.now();
        // A deferred call may be flushing on another thread, which then makes the next flush too.
        if self.tickets.is_empty() {
            let steps = &mut self.history.steps;
            let is_late = |step: &Step| step.flush_by.is_some_and(|by| by <= now);
            if let Some(flushed) = steps.iter().rposition(is_late) {
                steps[flushed].durable_from.get_or_insert(self.disk.position());
            }
        }
        self.step("advance", issued, Answer::default());
        loop {
            let mut contents = Contents::clone(&self.contents);
            if !contents.apply_next_due(from, now) {
                return;
            }
            self.contents = Arc::new(contents);
            self.step("due", issued, Answer::default());
        }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let issued = self.disk.position();
        let commit = self.store.flush()?;
        let acknowledged = self.history.steps.iter().filter_map(|step| step.commit).max();
        assert!(
            acknowledged <= Some(commit),
            "flush returned commit {commit}, a receipt {acknowledged:?}"
        );
        self.step("flush", issued, Answer::durable());
        Ok(())
    }

    pub(super) fn await_tickets(&mut self) -> Result<()> {
        for (ticket, step, is_durable) in std::mem::take(&mut self.tickets) {
            let receipt = ticket.wait()?;
            let step = &mut self.history.steps[step];
            step.answered = Some(self.disk.position());
            step.durable_from = step.answered.filter(|_| is_durable);
            step.commit = receipt.map(|receipt| receipt.commit);
            if let (Some(receipt), "deferred put") = (receipt, step.what) {
                step.id = Some(receipt.id);
                assert!(step.contents.tasks.contains_key(&receipt.id), "ids increase by one");
            }
        }
        Ok(())
    }

    pub(super) fn reopen(&mut self) -> Result<()> {
        // A close flushes deferred calls, whether their tickets are awaited or dropped.
        if self.rng.one_in(2) {
            self.await_tickets()?;
        }
        self.tickets.clear();
        self.drop_claims();
        self.detached.clear();
        let issued = self.disk.position();
        self.store.close()?;
        self.contents = self.contents.of_next_run(self.now());
        self.step("close", issued, Answer::durable());
        // Time may pass while the store is closed.
        let closed_for = if self.rng.one_in(2) { self.rng.below(10_000_000) } else { 0 };
        if let Some(clock) = &self.clock {
            clock.advance(Duration::from_micros(closed_for));
        }
        let issued = self.disk.position();
        let options = options(self.cache, self.durability, self.max_rows, self.clock.as_ref());
        self.store = options.open_on(self.disk.storage())?;
        self.step("reopen", issued, Answer::durable());
        self.advance(0);
        Ok(())
    }

    /// Makes the file large with a tube and drops the tube, whose rows are purged later.
    pub(super) fn fill_and_drop(&mut self) -> Result<()> {
        let issued = self.disk.position();
        let tube = self.store.create_tube("large", TubeOptions::new().driver(FIFO))?;
        tube.put_many((0..60).map(|n| vec![n; 100_000]))?;
        self.store.drop_tube("large")?;
        self.history.purges = true;
        self.next_id = None;
        self.step("fill and drop", issued, Answer::durable());
        Ok(())
    }

    /// Compacts the closed file, which does not change the contents.
    pub(super) fn compact(&mut self) -> Result<()> {
        let issued = self.disk.position();
        options(self.cache, self.durability, self.max_rows, self.clock.as_ref())
            .compact_on(self.disk.storage())?;
        self.step("compact", issued, Answer::durable());
        Ok(())
    }

    /// Ends all claims and compares the store, before any crash, with the expected contents.
    pub(super) fn finish_and_compare(&mut self) -> Result<()> {
        self.await_tickets()?;
        self.drop_claims();
        for name in self.contents.tubes.clone().into_keys() {
            self.release_all(name)?;
        }
        let issued = self.disk.position();
        assert_eq!(self.store.admin().verify()?, [""; 0], "before any crash");
        self.step("verify", issued, Answer::durable());
        let mut found = read_contents(&self.store, usize::MAX)?;
        let kinds = &self.contents.tubes;
        found.tasks.retain(|_, (tube, ..)| !kinds[tube.as_str()].temporary);
        let difference = self.contents.difference(&found, self.now());
        assert_eq!(difference, None, "before any crash");
        Ok(())
    }
}
