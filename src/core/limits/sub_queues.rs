//! The limits of sub-queues: how many tasks are taken at a time, how many in a time, cooldowns after the
//! ends of claims, and pauses; and the limits that tubes share.
//!
//! A sub-queue that is full, paused, without a token or in its cooldown has no slot in the window, so a
//! take does not meet its tasks. It is offered again when a holder is freed, which `publish` does; when its
//! pause or its cooldown ends; or when it gets a token. Invariant: the last three have an alarm while
//! takes wait in the tube, and otherwise none: the next take looks whether they have opened.
//!
//! A cooldown begins when the end of a claim is visible: a holder is freed then, and only then.
//!
//! A limit that tubes share may be reached by a take in another tube, which looks at no tube but its own:
//! the slot stays until a take meets it, removes it and notes that the tube was refused. When the limit
//! is free again, those tubes are offered their tasks, and no others are looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::NEVER;

use crate::Result;
use crate::base::micros::duration;
use crate::base::tube_no::TubeNo;
use crate::core::state::holders::Holders;
use crate::core::state::limits::{Opened, SubQueueLimits};
use crate::core::state::window::{Rank, Window};
use crate::core::state::{Core, TubeState};

/// How many sub-queues a call other than a take offers again while it holds the lock.
const OPENED_PER_STEP: usize = 64;

impl Core {
    /// Whether no task of a sub-queue may be taken now.
    #[inline]
    pub(in crate::core) fn is_sub_queue_shut(&self, tube: &TubeState, sub: &str) -> bool {
        match &tube.limits {
            None => tube.busy.contains_key(sub),
            Some(limits) => self.is_full(tube, limits, sub) || limits.is_shut(sub, self.now),
        }
    }

    fn is_full(&self, tube: &TubeState, limits: &SubQueueLimits, sub: &str) -> bool {
        if limits.shared {
            return self.gates.limits.is_full(sub, limits.most);
        }
        tube.busy.get(sub).is_some_and(|holders| holders.len() as u64 >= u64::from(limits.most))
    }

    /// Why no task of a sub-queue may be taken now, as a clause. A task that is a holder itself has an
    /// end that is not yet visible.
    pub(in crate::core) fn shut_sub_queue(
        &self,
        number: TubeNo,
        sub: &str,
        id: u64,
    ) -> Option<String> {
        let tube = self.tubes.get(number).filter(|tube| tube.definition.sub_queued)?;
        let holders = tube.busy.get(sub);
        if holders.is_some_and(|holders| holders.contains(id)) {
            return None;
        }
        let Some(limits) = &tube.limits else {
            let holder = holders?.ids().pop()?;
            return Some(format!("task {holder} of its sub-queue {sub:?} is taken"));
        };
        if let Some(until) = limits.paused_until(sub, self.now) {
            return Some(match until {
                NEVER => format!("its sub-queue {sub:?} is paused"),
                until => {
                    let left = duration(until - self.now.timeline);
                    format!("its sub-queue {sub:?} is paused for {left:?}")
                }
            });
        }
        if self.is_full(tube, limits, sub) {
            let (taken, most) = if limits.shared {
                (self.gates.limits.taken_of(sub), self.gates.limits.limit_of(sub, limits.most))
            } else {
                (holders.map_or(0, Holders::len) as u64, limits.most)
            };
            return Some(format!(
                "{taken} tasks of its sub-queue {sub:?} are taken, and {most} may be"
            ));
        }
        let token = limits.token_at(sub, self.now);
        let cooldown = limits.cooldown_ends_at(sub, self.now);
        let left = duration(token.max(cooldown)? - self.now.running);
        Some(if cooldown > token {
            format!("the cooldown of its sub-queue {sub:?} ends in {left:?}")
        } else {
            format!("the rate of its sub-queue {sub:?} allows the next take in {left:?}")
        })
    }

    /// A task of a tube with limits is taken: it is a holder of its sub-queue, and uses a token.
    pub(in crate::core) fn hold_limited(&mut self, number: TubeNo, sub: &Arc<str>, id: u64) {
        self.add_holder(number, sub, id);
        let now = self.now;
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let Some(limits) = &mut tube.limits else { return };
        limits.use_token(sub, now);
        if let Err(error) = self.offer_sub(number, sub, None) {
            self.fail_with(&error);
        }
        self.await_sub_queues(number);
    }

    /// Adds a holder of a sub-queue.
    pub(in crate::core) fn add_holder(&mut self, number: TubeNo, sub: &Arc<str>, id: u64) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let is_new = match tube.busy.get_mut(sub) {
            Some(holders) => holders.add(id),
            None => tube.busy.insert(sub.clone(), Holders::One(id)).is_none(),
        };
        if is_new && tube.has_shared_limits() {
            self.gates.limits.add_holder(sub);
        }
    }

    /// A change of the task of this rank is visible. If the task was a holder of its sub-queue, it is none
    /// now, and the cooldown of the sub-queue begins. Returns whether a limit that tubes share is freed.
    pub(in crate::core) fn free_holder(
        &mut self,
        number: TubeNo,
        sub: &Arc<str>,
        rank: Rank,
    ) -> bool {
        let Some(tube) = self.tubes.get_mut(number) else { return false };
        if !tube.remove_holder(sub, rank) {
            return false;
        }
        let Some(limits) = &mut tube.limits else { return false };
        let is_shared = limits.shared;
        if limits.begin_cooldown(sub, self.now) {
            // Another task may be offered, if several of the sub-queue may be taken.
            if let Some(offered) = tube.window.of_sub(sub) {
                tube.window.remove(offered);
            }
            self.await_sub_queues(number);
        }
        if is_shared {
            self.gates.limits.remove_holders(sub, 1);
        }
        is_shared
    }

    /// Removes all holders of a tube that is truncated or dropped. Returns the sub-queues whose limits
    /// other tubes share.
    pub(in crate::core) fn remove_all_holders(&mut self, number: TubeNo) -> Vec<Arc<str>> {
        let Some(tube) = self.tubes.get_mut(number) else { return Vec::new() };
        let removed = std::mem::take(&mut tube.busy);
        if let Some(limits) = &mut tube.limits {
            for sub in removed.keys() {
                limits.begin_cooldown(sub, self.now);
            }
        }
        let is_shared = tube.has_shared_limits();
        self.await_sub_queues(number);
        if !is_shared {
            return Vec::new();
        }
        for (sub, holders) in &removed {
            self.gates.limits.remove_holders(sub, holders.len() as u64);
        }
        removed.into_keys().collect()
    }

    /// A limit that tubes share may have become free: offers the best task of its sub-queue in the tubes
    /// that were refused it, and returns them.
    pub(in crate::core) fn offer_freed(&mut self, sub: &Arc<str>) -> Result<Vec<TubeNo>> {
        let freed = self.gates.limits.take_freed(sub);
        for number in &freed {
            self.visit();
            self.offer_sub(*number, sub, None)?;
        }
        Ok(freed)
    }

    /// Whether the limit of a sub-queue that tubes share is reached. The tube is then noted as one that
    /// was refused.
    #[inline]
    pub(in crate::core) fn is_refused(&mut self, number: TubeNo, sub: &Arc<str>) -> bool {
        let Some(tube) = self.tubes.get(number) else { return false };
        let Some(limits) = tube.limits.as_ref().filter(|limits| limits.shared) else {
            return false;
        };
        let most = limits.most;
        let is_full = self.gates.limits.is_full(sub, most);
        if is_full {
            self.gates.limits.refuse(sub, most, number);
        }
        is_full
    }

    pub(super) fn offer_or_remove(&mut self, number: TubeNo, sub: &Arc<str>) -> Result<()> {
        let Some(tube) = self.tubes.get(number) else { return Ok(()) };
        if !self.is_sub_queue_shut(tube, sub) {
            return self.offer_sub(number, sub, None);
        }
        if let Some(tube) = self.tubes.get_mut(number)
            && let Some(rank) = tube.window.of_sub(sub)
        {
            tube.window.remove(rank);
        }
        Ok(())
    }

    /// Limits of sub-queues that tubes share have become free: offers them, and serves the takes that
    /// wait.
    pub(in crate::core) fn shared_limits_freed(&mut self, subs: &[Arc<str>]) {
        let mut tubes = BTreeSet::new();
        let offered = subs.iter().try_for_each(|sub| {
            tubes.extend(self.offer_freed(sub)?);
            Ok(())
        });
        let tubes: Vec<TubeNo> = tubes.into_iter().collect();
        if let Err(error) = offered.and_then(|()| self.serve(&tubes)) {
            self.fail_with(&error);
        }
    }

    /// Before a take: offers the sub-queues that have got a token or whose pause or cooldown has elapsed,
    /// first to the takes that wait. Each costs one unit of `budget`. Returns false if that is used up.
    pub(in crate::core) fn open_sub_queues(
        &mut self,
        number: TubeNo,
        budget: &mut usize,
    ) -> Result<bool> {
        let now = self.now;
        let first = |tube: &TubeState| tube.limits.as_ref()?.first_opened(now);
        let is_due = |tube: &TubeState| tube.limits.as_ref().is_some_and(|of| of.alarm_is_due(now));
        // The buckets that were empty at open may have their first token, or all cooldowns may have
        // ended.
        let mut has_opened = self.tubes.get(number).is_some_and(is_due);
        while let Some(opened) = self.tubes.get(number).and_then(first) {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            has_opened = true;
            let (Opened::HasToken(_, sub)
            | Opened::PauseElapsed(sub)
            | Opened::CooldownElapsed(sub)) = &opened;
            // Offered before it is removed: if the storage fails, the next take offers it again.
            self.offer_sub(number, sub, None)?;
            let limits = self.tubes.get_mut(number).and_then(|tube| tube.limits.as_mut());
            match (&opened, limits) {
                (Opened::PauseElapsed(sub), _) => self.store_pause(number, sub, None),
                (Opened::HasToken(at, sub), Some(limits)) => limits.remove_without_token(*at, sub),
                (Opened::CooldownElapsed(sub), Some(limits)) => limits.remove_cooldown(sub),
                (_, None) => {}
            }
        }
        if has_opened {
            self.await_sub_queues(number);
            self.serve(&[number])?;
            self.await_sub_queues(number);
        }
        Ok(true)
    }

    /// As `open_sub_queues`, for a call that returns soon.
    pub(in crate::core) fn open_some_sub_queues(&mut self, number: TubeNo) -> Result<()> {
        self.open_sub_queues(number, &mut { OPENED_PER_STEP }).map(drop)
    }

    /// The sub-queues of a tube that are held were evicted from the window, and their first rows, which
    /// are of taken tasks, may be before the cursor.
    pub(in crate::core) fn offer_evicted(&mut self, number: TubeNo) -> Result<()> {
        let Some(tube) = self.tubes.get_mut(number).filter(|tube| tube.limits.is_some()) else {
            return Ok(());
        };
        if !tube.window.take_evicted() {
            return Ok(());
        }
        let held: Vec<Arc<str>> = tube.busy.keys().cloned().collect();
        held.iter().try_for_each(|sub| self.offer_sub(number, sub, None))
    }

    /// Sets the alarms of the next sub-queues that open, if takes wait in the tube.
    #[inline]
    pub(in crate::core) fn await_sub_queues(&mut self, number: TubeNo) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let is_waited_for = tube.has_waiting_takers();
        let Some(limits) = &mut tube.limits else { return };
        let openings = is_waited_for.then(|| limits.next_openings(self.now));
        let wanted = openings.unwrap_or_default();
        let old = std::mem::replace(&mut limits.alarms, wanted);
        for (old, new) in old.into_iter().zip(wanted) {
            self.gates.sub_queue_alarms.replace(old, new, number);
        }
    }

    /// Offers the sub-queues of the first tube whose alarm is due, and serves the takes that wait.
    /// Returns false if none is.
    pub(in crate::core) fn open_next_sub_queues(&mut self) -> Result<bool> {
        let Some(number) = self.gates.sub_queue_alarms.first_due(self.now) else {
            return Ok(false);
        };
        let opened = self.open_some_sub_queues(number);
        self.await_sub_queues(number);
        opened.map(|()| true)
    }

    /// The policies of a tube have changed. Returns the sub-queues whose shared limits may be free.
    pub(in crate::core) fn sub_queue_limits_changed(&mut self, number: TubeNo) -> Vec<Arc<str>> {
        let now = self.now;
        let Some(tube) = self.tubes.get_mut(number) else { return Vec::new() };
        let was_shared = tube.has_shared_limits();
        let mut limits = SubQueueLimits::new(&tube.definition.policies);
        if let Some(old) = tube.limits.take() {
            limits.succeed(*old, now);
        }
        tube.limits = Some(Box::new(limits));
        // The slots of sub-queues that are full, have no token or are in their cooldown now must go.
        tube.window = Window::default();
        let is_shared = tube.has_shared_limits();
        let held = tube.busy.iter().map(|(sub, holders)| (sub.clone(), holders.len() as u64));
        let held = if was_shared == is_shared { Vec::new() } else { held.collect() };
        for (sub, holders) in &held {
            for _ in 0..*holders {
                if is_shared {
                    self.gates.limits.add_holder(sub);
                } else {
                    self.gates.limits.remove_holders(sub, 1);
                }
            }
        }
        self.await_sub_queues(number);
        held.into_iter().map(|(sub, _)| sub).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use crate::{ManualClock, Put, Rate, Store, Tube, TubeOptions, UTUBE};

    const SECOND: Duration = Duration::from_secs(1);

    /// A sub-queue has opened, and the sweeper has not served the take that waits for it: a later take
    /// must not get its task.
    #[test]
    fn take_that_waits_for_a_sub_queue_is_served_before_a_later_one() {
        let pause = |tube: &Tube| tube.admin().pause_sub_queue("x", SECOND).unwrap();
        let rate = |tube: &Tube| {
            let options = TubeOptions::new().sub_queue_rate(Rate::per(1, SECOND));
            tube.admin().alter(options.sub_queue_limit(9)).unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
        };
        let cooldown = |tube: &Tube| {
            let options = TubeOptions::new().sub_queue_cooldown(SECOND);
            tube.admin().alter(options).unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
        };
        for shut in [&pause as &dyn Fn(&Tube), &rate, &cooldown] {
            for later in [|tube: &Tube| tube.try_take().unwrap(), |tube: &Tube| tube.claim(1).ok()]
            {
                let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
                let tube = store.create_tube("work", TubeOptions::new().driver(UTUBE)).unwrap();
                tube.put(Put::new("first").sub_queue("x")).unwrap();
                shut(&tube);
                tube.put(Put::new("second").sub_queue("x")).unwrap();
                let mut waiting = pin!(tube.to_async().take());
                let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(poll().is_pending());
                store.inner().run(|core| {
                    core.now.timeline += 1_000_000;
                    core.now.running += 1_000_000;
                });
                let later = later(&tube).map(|claim| claim.id());
                let Poll::Ready(Ok(first)) = poll() else { panic!("it still waits") };
                assert!(later.is_none_or(|later| later > first.id()), "{later:?}");
                assert_eq!(store.admin().verify().unwrap(), [""; 0]);
            }
        }
    }

    /// A take opens no more sub-queues than a bounded number while it holds the lock.
    #[test]
    fn many_sub_queues_that_open_at_once_are_opened_in_slices() {
        let rate = TubeOptions::new().sub_queue_rate(Rate::per(1, SECOND)).sub_queue_limit(9);
        let cooldown = TubeOptions::new().sub_queue_cooldown(SECOND);
        for (options, ends) in [(rate, false), (cooldown, true)] {
            let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
            let tube = store.create_tube("work", options.driver(UTUBE)).unwrap();
            let puts = (0..1000).map(|n| Put::new("x").sub_queue((n % 500).to_string()));
            tube.put_many(puts).unwrap();
            let claims = tube.take_many(1000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 500);
            if ends {
                for claim in claims {
                    claim.ack().unwrap();
                }
            }
            store.inner().run(|core| {
                core.now.running += 1_000_000;
                let mut budget = 64;
                let tube = core.find_tube("work").unwrap().number;
                assert_eq!(core.open_sub_queues(tube, &mut budget), Ok(false));
                assert_eq!(budget, 0);
            });
            let claims = tube.take_many(1000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 500);
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    }
}
