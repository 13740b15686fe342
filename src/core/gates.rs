//! Gates: what keeps the ready tasks of a tube from being taken, whichever they are: a pause, a limit
//! of taken tasks, and a rate of takes.
//!
//! Every take asks the gates before it looks for a task. The takes that wait at a shut gate are
//! served when it opens: a slot of the limit with the end of a claim, as it becomes visible; a pause
//! and a rate with an alarm. Invariant: a tube has an alarm only while callers wait for its tasks,
//! so that the sweeper wakes for no other one.

use tubewell_drivers::NEVER;

use super::state::{Alarm, Core, Decided, Now, TakeRate, TubeState};
use super::verb::TubeRef;
use super::verb::{Decide, verb};
use crate::base::micros::duration;
use crate::base::tube_no::TubeNo;
use crate::{Error, Result};

impl TubeState {
    /// Whether a gate is shut: no task of the tube may be taken now.
    #[inline]
    pub(super) fn is_shut(&self, now: Now) -> bool {
        self.pause_ends_at(now).is_some()
            || self.is_at_limit()
            || self.token_comes_at(now).is_some()
            || self.limits.as_ref().is_some_and(|limits| limits.all_shut_until > now.running)
    }

    /// The gate that is shut, as a clause.
    pub(super) fn shut_gate(&self, now: Now) -> Option<String> {
        if let Some(until) = self.pause_ends_at(now) {
            return Some(match until {
                NEVER => "its tube is paused".to_owned(),
                _ => format!("its tube is paused for {:?}", duration(until - now.timeline)),
            });
        }
        if self.is_at_limit() {
            let taken = self.visible.tasks.taken;
            return Some(format!("its tube has {taken} taken tasks, and max_taken is not above"));
        }
        let left = duration(self.token_comes_at(now)? - now.running);
        Some(format!("the rate of its tube allows the next take in {left:?}"))
    }

    /// When its pause ends, on the timeline; `None` if it is not paused.
    #[inline]
    pub(super) fn pause_ends_at(&self, now: Now) -> Option<u64> {
        self.definition.policies.paused.filter(|until| *until > now.timeline)
    }

    /// Whether as many tasks are taken as may be, as far as is visible.
    #[inline]
    fn is_at_limit(&self) -> bool {
        let limit = self.definition.policies.max_taken;
        limit.is_some_and(|limit| self.visible.tasks.taken >= limit)
    }

    /// When its rate allows the next take, on running time; `None` if that is now.
    #[inline]
    fn token_comes_at(&self, now: Now) -> Option<u64> {
        let rate = self.gates.rate.as_ref()?;
        Some(rate.opens_at(now.running)).filter(|at| *at > now.running)
    }

    /// When a gate opens by itself for which takes wait.
    fn wanted_alarm(&self, now: Now) -> Option<Alarm> {
        if !self.has_waiting_takers() {
            return None;
        }
        match self.pause_ends_at(now) {
            Some(NEVER) => None,
            Some(until) => Some(Alarm::Timeline(until)),
            None => self.token_comes_at(now).map(Alarm::Running),
        }
    }

    /// Whether its alarm is due: the waiting takes are to be served first.
    #[inline]
    pub(super) fn alarm_is_due(&self, now: Now) -> bool {
        self.gates.alarm.is_some_and(|alarm| alarm.is_due(now))
    }
}

verb! {
    /// Pauses a tube for `time` microseconds of the timeline, instead of the pause that it has: no task
    /// may be taken. [`NEVER`] for a pause without an end. Zero ends it.
    41 InTube Edit: Pause { time: u64 } -> ()
}

impl Decide for Pause {
    fn decide(&self, core: &mut Core, TubeRef { number, .. }: TubeRef<'_>) -> Result<Decided<()>> {
        let Pause { time } = *self;
        let Some(tube) = core.tubes.get_mut(number) else { return Err(Error::Closed) };
        let until = Some(core.now.timeline.saturating_add(time)).filter(|_| time > 0);
        if tube.pause_ends_at(core.now) == until {
            return Ok(core.definition_stored(number).map(drop));
        }
        tube.definition.policies.paused = until;
        Ok(core.definition_changed(number).map(drop))
    }
}

verb! {
    /// Pauses a tube for as long as it is now until a moment of the wall clock, in microseconds.
    42 InTube Edit: PauseUntil { moment: u64 } -> ()
}

impl Decide for PauseUntil {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<()>> {
        Pause { time: core.clocks().until(self.moment) }.decide(core, on)
    }
}

impl Core {
    /// The buckets of the rates are empty now, and the cooldowns of sub-queues begin: a run that has just
    /// begun does not know the takes of the one before, and the ends of its claims.
    pub(crate) fn begin_gates(&mut self) {
        let now = self.now.running;
        for tube in self.tubes.values_mut() {
            let rate = tube.definition.policies.rate;
            tube.gates.rate = rate.map(|rate| Box::new(TakeRate::new(rate, Some(now))));
            if let Some(limits) = &mut tube.limits {
                limits.begin_run(now);
            }
        }
    }

    /// Serves the takes that wait in a tube whose gates may have opened.
    pub(super) fn gates_changed(&mut self, number: TubeNo) {
        self.set_alarm(number);
        if let Err(error) = self.serve(&[number]) {
            self.fail_with(&error);
        }
    }

    /// Sets the alarm of a tube for the gate at which takes wait, or removes it.
    #[inline]
    pub(super) fn set_alarm(&mut self, number: TubeNo) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let policies = &tube.definition.policies;
        let has_gates =
            policies.max_taken.is_some() || policies.paused.is_some() || policies.rate.is_some();
        if !has_gates && tube.gates.alarm.is_none() {
            return;
        }
        let alarm = tube.wanted_alarm(self.now);
        let old = std::mem::replace(&mut tube.gates.alarm, alarm);
        self.gates.alarms.replace(old, alarm, number);
    }

    /// A gate of a tube has opened by itself: serves the takes that wait for it.
    pub(super) fn gate_opens(&mut self, number: TubeNo) -> Result<()> {
        self.set_alarm(number);
        self.serve(&[number])
    }

    /// Opens the gates whose alarms are due, all of them before the takes that wait are served: a take
    /// that waits in several tubes gets a task of the first of them. Returns false if none is due.
    pub(super) fn open_due_gates(&mut self) -> Result<bool> {
        let opened: Vec<TubeNo> = self.gates.alarms.due(self.now).collect();
        for number in &opened {
            self.set_alarm(*number);
        }
        self.serve(&opened)?;
        Ok(!opened.is_empty())
    }

    /// Checks that the takes that wait for a gate will be served when it opens, and that the sweeper
    /// wakes for no other gate.
    pub(super) fn check_gates(&self, findings: &mut Vec<String>) {
        for (number, tube) in self.tubes.iter() {
            let name = &tube.definition.name;
            let alarm = tube.gates.alarm;
            let is_set = alarm.is_none_or(|alarm| self.gates.alarms.contains(alarm, number));
            // One that is due was not processed yet.
            let is_wanted = alarm == tube.wanted_alarm(self.now);
            if !is_set || !is_wanted && !tube.alarm_is_due(self.now) {
                findings.push(format!("tube {name:?}: takes wait for a gate without an alarm"));
            }
        }
        let alarms = self.tubes.values().filter(|tube| tube.gates.alarm.is_some()).count();
        if alarms != self.gates.alarms.len() {
            findings.push("an alarm is set for a gate at which no take waits".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use crate::{FIFO, ManualClock, Rate, Store, Tube, TubeOptions};

    const SECOND: Duration = Duration::from_secs(1);

    /// A gate has opened, and the sweeper has not served the take that waits for it. Another take
    /// once got its task.
    #[test]
    fn take_that_waits_for_a_gate_is_served_before_a_later_one() {
        let pause = |tube: &Tube| tube.admin().pause_for(SECOND).unwrap();
        let rate = |tube: &Tube| {
            tube.admin().alter(TubeOptions::new().rate(Rate::per(1, SECOND))).unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
        };
        for shut in [&pause as &dyn Fn(&Tube), &rate] {
            for later in [|tube: &Tube| tube.try_take().unwrap(), |tube: &Tube| tube.claim(1).ok()]
            {
                let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
                let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
                tube.put("first").unwrap();
                shut(&tube);
                tube.put("second").unwrap();
                let mut waiting = pin!(tube.to_async().take());
                let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(poll().is_pending());
                store.inner().run(|core| {
                    core.now.timeline += 1_000_000;
                    core.now.running += 1_000_000;
                });
                assert_eq!(store.admin().verify().unwrap(), [""; 0]);
                let later = later(&tube).map(|claim| claim.id());
                let Poll::Ready(Ok(first)) = poll() else { panic!("it still waits") };
                assert!(later.is_none_or(|later| later > first.id()), "{later:?}");
                assert_eq!(store.admin().verify().unwrap(), [""; 0]);
            }
        }
    }
}
