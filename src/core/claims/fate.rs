//! What becomes of a task that stays in its tube when its claim ends, and of one that is buried or kicked.
//!
//! [`Rules::fate`] decides a release, a failure, a snooze, a join, a revoke, an expiry, and the end of a session,
//! of the process or of the store; [`Rules::bury`] decides a bury. An ack, a delete, a move, a replacement, an
//! elapsed ttl and a truncate remove the claim themselves.

use tubewell_drivers::{Header, More, NEVER, Note, Shelf};

use crate::base::micros::micros_ceil;
use crate::core::state::{Clocks, Expiry, WallClock};
use crate::options::Policies;
use crate::values::ending::FailureKind;
use crate::{EventKind, Failure};

/// How a claim ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) enum End<'a> {
    /// Its holder gives the task back, or its handle was dropped.
    Release {
        delay: u64,
    },
    /// Another caller ends it: the attempt does not count.
    Revoke,
    /// The task was never handed out: the attempt does not count.
    NotHandedOut,
    /// Its holder gives the task back, and the attempt does not count.
    Snooze {
        delay: u64,
    },
    /// Its holder waits for this many tasks, which are its parents then. The attempt does not count.
    Join {
        parents: u32,
    },
    /// Its holder reports a failure. Without a delay, the backoff of the tube applies.
    Fail {
        delay: Option<u64>,
        failure: &'a Failure,
    },
    /// Its time has elapsed.
    Expired(Expiry),
    SessionEnded,
    /// The process ended without a close.
    ProcessEnded,
    /// It has ended already, in memory, while the storage failed.
    Unrecorded,
    Closed,
}

/// What becomes of a task: its shelf and its header, and the failure to record.
#[derive(Debug)]
pub(in crate::core) struct Fate {
    pub(in crate::core) shelf: Shelf,
    pub(in crate::core) header: Header,
    pub(in crate::core) failure: Option<Failure>,
    /// How the failure came about.
    pub(in crate::core) kind: FailureKind,
}

/// The rules of a tube, at a moment of the timeline.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Rules<'a> {
    pub(in crate::core) policies: &'a Policies,
    pub(in crate::core) timed: bool,
    pub(in crate::core) now: u64,
    pub(in crate::core) wall: &'a WallClock,
}

impl End<'_> {
    /// The end of a claim whose task goes back at once. `forgive`: the attempt does not count.
    pub(in crate::core) fn at_once(forgive: bool) -> End<'static> {
        if forgive { End::NotHandedOut } else { End::Release { delay: 0 } }
    }

    /// The delay that its holder asks for, in microseconds.
    pub(in crate::core) fn delay(self) -> u64 {
        match self {
            End::Release { delay } | End::Snooze { delay } => delay,
            End::Fail { delay, .. } => delay.unwrap_or(0),
            _ => 0,
        }
    }

    pub(in crate::core) fn kind(self) -> EventKind {
        match self {
            End::Release { .. } | End::NotHandedOut | End::SessionEnded => EventKind::Release,
            End::Revoke => EventKind::Revoke,
            End::Snooze { .. } => EventKind::Snooze,
            End::Join { .. } => EventKind::Block,
            End::Fail { .. } => EventKind::Fail,
            End::Expired(_) => EventKind::Ttr,
            End::ProcessEnded | End::Unrecorded | End::Closed => EventKind::Lost,
        }
    }

    /// Whether the claim stands if the storage fails: its holder has asked for more than its end.
    pub(in crate::core) fn may_fail(self) -> bool {
        matches!(self, End::Fail { .. }) || self.delay() > 0
    }

    /// Why it happens, for the readers of events, if its kind and the failure do not say it.
    pub(in crate::core) fn event_cause(self) -> Option<&'static str> {
        match self {
            End::SessionEnded => Some("session ended"),
            End::Expired(Expiry::MaxRuntime) => Some("max_runtime"),
            _ => None,
        }
    }

    /// Whether its holder has not ended it, and no other caller has.
    pub(in crate::core) fn is_loss(self) -> bool {
        matches!(self, End::Expired(_) | End::SessionEnded | End::ProcessEnded)
    }

    /// The kind of a failure with which this end is recorded. If none was reported, its name is the group.
    fn failure_kind(self) -> FailureKind {
        match self {
            End::Fail { .. } => FailureKind::Reported,
            End::Expired(_) => FailureKind::Expired,
            End::SessionEnded | End::ProcessEnded | End::Unrecorded | End::Closed => {
                FailureKind::Lost
            }
            _ => FailureKind::Released,
        }
    }

    /// The cause if this was the last attempt, and no failure was reported.
    fn cause(self) -> &'static str {
        match self {
            End::Expired(Expiry::Ttr) => "its ttr elapsed",
            End::Expired(Expiry::Renewal) => "the time of its claim elapsed",
            End::Expired(Expiry::MaxRuntime) => "its max_runtime elapsed",
            End::Expired(Expiry::Parked) => "the time of its parked claim elapsed",
            End::SessionEnded => "the session of its worker ended",
            End::ProcessEnded => "the process of its worker ended",
            End::Unrecorded => "its claim ended while the storage failed",
            End::Closed => "the store was closed while it was taken",
            _ => "its worker released it",
        }
    }
}

impl Fate {
    fn new(shelf: Shelf, header: Header, failure: Option<Failure>) -> Fate {
        Fate { shelf, header, failure, kind: FailureKind::Reported }
    }

    /// Whether the failure is the cause of an end that no worker has reported: the last one that was reported is
    /// recorded with it.
    pub(in crate::core) fn is_unreported(&self) -> bool {
        matches!(self.kind, FailureKind::Expired | FailureKind::Lost | FailureKind::Released)
    }

    /// Whether only the header of the task changes: it is ready again, and there is no failure to
    /// record.
    pub(in crate::core) fn is_plain(&self) -> bool {
        self.shelf == Shelf::Ready && self.failure.is_none()
    }
}

impl Rules<'_> {
    /// What becomes of a task whose claim ends. The takes of `header` include that of the claim.
    pub(in crate::core) fn fate(self, id: u64, header: Header, end: End<'_>) -> Fate {
        let mut header = header;
        if matches!(end, End::Revoke | End::NotHandedOut) {
            header = self.forgive(header);
        } else if matches!(end, End::Snooze { .. } | End::Join { .. }) {
            forgive_one(&mut header);
        }
        if let End::Join { parents } = end {
            header.edit_more(|more| more.open_parents = parents);
            self.note_ready(Shelf::Blocked, &mut header, self.now);
            return Fate::new(Shelf::Blocked, header, None);
        }
        let backoff = |header: &Header| self.backoff(id, header);
        let delay = match end {
            End::Release { delay } | End::Snooze { delay } => delay,
            End::Fail { delay, .. } => delay.unwrap_or_else(|| backoff(&header)),
            End::Expired(_) | End::SessionEnded | End::ProcessEnded => backoff(&header),
            End::Revoke | End::Join { .. } | End::NotHandedOut | End::Unrecorded | End::Closed => 0,
        };
        let reported = if let End::Fail { failure, .. } = end { Some(failure) } else { None };
        if header.attempts_left(self.policies.max_attempts) == Some(0) {
            let (kind, cause) = (end.failure_kind(), end.cause());
            let message = || format!("{cause} in attempt {}, the last one", header.attempts());
            let unreported = || Failure::new(kind.as_str(), message());
            let failure = reported.cloned().unwrap_or_else(unreported);
            return self.bury(header, Some(failure), kind);
        }
        if delay > 0 && self.timed {
            header.expires_at = header.expires_at.saturating_add(delay);
            header.ready_at = self.now.saturating_add(delay);
            self.note_ready(Shelf::Delayed, &mut header, self.now);
            return Fate::new(Shelf::Delayed, header, reported.cloned());
        }
        let shelf = self.clocks().gate(Shelf::Ready, &mut header);
        self.note_ready(shelf, &mut header, self.now);
        Fate::new(shelf, header, reported.cloned())
    }

    /// Shelf and header of a buried task that is kicked: its attempts are forgiven.
    pub(in crate::core) fn kicked(self, header: Header) -> (Shelf, Header) {
        let mut header = self.kick(header);
        if header.open_parents() > 0 {
            return (Shelf::Blocked, header);
        }
        let shelf = self.clocks().gate(Shelf::Buried, &mut header);
        self.note_ready(shelf, &mut header, self.now);
        (shelf, header)
    }

    /// Notes since when a task has been ready, if its tube has metrics; nothing if it is not ready.
    #[inline]
    pub(in crate::core) fn note_ready(self, shelf: Shelf, header: &mut Header, since: u64) {
        let is_counted = self.policies.metrics > 0 && shelf == Shelf::Ready;
        let since = is_counted.then_some(since);
        if header.more.as_ref().and_then(|more| more.since) != since {
            header.edit_more(|more| more.since = since);
        }
    }

    /// The header of a claimed task whose claim another caller ends: the attempt does not count.
    pub(in crate::core) fn forgive(self, mut header: Header) -> Header {
        if self.tracks_attempts(&header) {
            forgive_one(&mut header);
        }
        header
    }

    /// Buries a task. `kind`: how the failure came about.
    pub(in crate::core) fn bury(
        self,
        mut header: Header,
        failure: Option<Failure>,
        kind: FailureKind,
    ) -> Fate {
        self.clocks().end_delay(&mut header);
        self.note_ready(Shelf::Buried, &mut header, self.now);
        if failure.is_some() || self.policies.keep_buried.is_some() {
            let keep = self.policies.keep_buried;
            let age = keep.map(|keep| keep.age.map_or(NEVER, micros_ceil));
            header.edit_more(|more| {
                more.ended = Some(self.now);
                more.until = age.map(|age| self.now.saturating_add(age));
                more.group = failure.as_ref().map(|failure| failure.shared_group().clone());
            });
        }
        Fate { kind, ..Fate::new(Shelf::Buried, header, failure) }
    }

    /// The header of a buried task that comes from another tube. It was buried when it was; how long
    /// it is kept begins anew.
    pub(in crate::core) fn keep_buried(self, mut header: Header) -> Header {
        let keep = self.policies.keep_buried;
        if header.more.is_none() && keep.is_none() {
            return header;
        }
        let age = keep.map(|keep| keep.age.map_or(NEVER, micros_ceil));
        header.edit_more(|more| {
            let is_ordered = keep.is_some() || more.group.is_some();
            more.ended = is_ordered.then(|| more.ended.unwrap_or(self.now));
            more.until = age.map(|age| self.now.saturating_add(age));
        });
        header
    }

    /// The header of a task that is done, if its tube keeps it. Its last failure stays with it.
    pub(in crate::core) fn done(self, header: &Header, has_result: bool) -> Option<Header> {
        let keep = self.policies.keep_done.filter(|keep| keep.count != Some(0))?;
        let mut header = Header { ready_at: 0, ..header.clone() };
        header.edit_more(|more| {
            more.ended = Some(self.now);
            more.until = keep.age.map(|age| self.now.saturating_add(micros_ceil(age)));
            (more.group, more.open_parents, more.on_parent) = (None, 0, 0);
            (more.done_parents, more.failed_parents) = (0, 0);
            (more.not_before, more.ttl_from, more.since) = (None, None, None);
            more.has_steps = false;
            if has_result {
                more.notes |= Note::Result.bit();
            }
        });
        Some(header)
    }

    fn clocks(&self) -> Clocks<'_> {
        Clocks { now: self.now, wall: self.wall }
    }

    fn kick(self, mut header: Header) -> Header {
        if self.tracks_attempts(&header) {
            let takes = header.takes;
            header.edit_more(|more| {
                (more.forgiven, more.ended, more.until, more.group) = (takes, None, None, None);
            });
        }
        header
    }

    /// Whether forgiven takes matter. They do not for a plain task, whose record stays as it is, nor for one that
    /// belongs in a trace.
    fn tracks_attempts(self, header: &Header) -> bool {
        let policies = self.policies;
        let is_noted = |more: &More| {
            let More { since, traceparent, .. } = *more;
            *more != More { since, traceparent, ..More::default() }
        };
        header.more.as_deref().is_some_and(is_noted)
            || policies.max_attempts.is_some()
            || policies.backoff != crate::Backoff::none()
            || policies.metrics > 0
    }

    fn backoff(self, id: u64, header: &Header) -> u64 {
        micros_ceil(self.policies.backoff.delay(id, header.attempts()))
    }
}

/// The last attempt of a task does not count.
fn forgive_one(header: &mut Header) {
    header.edit_more(|more| more.forgiven = more.forgiven.saturating_add(1));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Backoff, Keep};

    const NOW: u64 = 1_000_000;

    fn header(takes: u32) -> Header {
        Header {
            priority: 0,
            order: 0,
            created: 0,
            expires_at: NEVER,
            ttr: NEVER,
            ready_at: 0,
            takes,
            size: 0,
            body_checksum: None,
            sub: "".into(),
            more: None,
        }
    }

    fn fate(policies: &Policies, takes: u32, end: End<'_>) -> Fate {
        let wall = &WallClock::default();
        Rules { policies, timed: true, now: NOW, wall }.fate(7, header(takes), end)
    }

    #[test]
    fn every_end_without_policies_leaves_a_plain_task() {
        let plain = Policies::default();
        for end in [
            End::Release { delay: 0 },
            End::Revoke,
            End::NotHandedOut,
            End::Expired(Expiry::Ttr),
            End::SessionEnded,
            End::ProcessEnded,
            End::Closed,
        ] {
            let fate = fate(&plain, 3, end);
            assert_eq!((fate.shelf, fate.header), (Shelf::Ready, header(3)), "{end:?}");
            assert!(fate.failure.is_none());
        }
        let (policies, wall) = (&plain, &WallClock::default());
        let buried = Rules { policies, timed: true, now: NOW, wall }.bury(
            header(3),
            None,
            FailureKind::Call,
        );
        assert_eq!((buried.shelf, buried.header), (Shelf::Buried, header(3)));
    }

    #[test]
    fn last_attempt_is_buried_with_its_cause() {
        let limited = Policies { max_attempts: Some(2), ..Policies::default() };
        let failure = Failure::new("timeout", "no answer");
        for (end, group) in [
            (End::Release { delay: 5 }, "released"),
            (End::Expired(Expiry::Ttr), "expired"),
            (End::SessionEnded, "lost"),
            (End::ProcessEnded, "lost"),
            (End::Closed, "lost"),
            (End::Fail { delay: Some(9), failure: &failure }, "timeout"),
        ] {
            assert_ne!(fate(&limited, 1, end).shelf, Shelf::Buried, "{end:?}");
            let last = fate(&limited, 2, end);
            assert_eq!(last.shelf, Shelf::Buried, "{end:?}");
            assert_eq!(last.failure.unwrap().group(), group);
            let more = last.header.more.unwrap();
            assert_eq!((more.group.as_deref(), more.ended), (Some(group), Some(NOW)));
        }
        for end in [End::Revoke, End::NotHandedOut, End::Snooze { delay: 0 }] {
            let forgiven = fate(&limited, 2, end);
            assert_eq!((forgiven.shelf, forgiven.header.attempts()), (Shelf::Ready, 1));
        }
    }

    #[test]
    fn backoff_follows_failures_and_losses_only() {
        let backoff = Backoff::exponential(Duration::from_secs(1));
        let policies = Policies { backoff, ..Policies::default() };
        let failure = Failure::new("timeout", "no answer");
        for (end, delay) in [
            (End::Fail { delay: None, failure: &failure }, 4_000_000),
            (End::Fail { delay: Some(0), failure: &failure }, 0),
            (End::Expired(Expiry::Ttr), 4_000_000),
            (End::SessionEnded, 4_000_000),
            (End::ProcessEnded, 4_000_000),
            (End::Release { delay: 0 }, 0),
            (End::Release { delay: 9 }, 9),
            (End::Snooze { delay: 9 }, 9),
            (End::Revoke, 0),
            (End::NotHandedOut, 0),
            (End::Closed, 0),
        ] {
            let ready_at = if delay == 0 { 0 } else { NOW + delay };
            assert_eq!(fate(&policies, 3, end).header.ready_at, ready_at, "{end:?}");
        }
    }

    #[test]
    fn buried_task_of_a_tube_that_limits_their_age_has_an_end() {
        let keep = Keep::new().age(Duration::from_secs(1));
        let policies = Policies { keep_buried: Some(keep), ..Policies::default() };
        let wall = &WallClock::default();
        let rules = Rules { policies: &policies, timed: true, now: NOW, wall };
        let buried = rules.bury(header(1), None, FailureKind::Call).header;
        let more = buried.more.clone().unwrap();
        assert_eq!((more.ended, more.until), (Some(NOW), Some(NOW + 1_000_000)));
        let kicked = rules.kick(buried);
        assert_eq!((kicked.attempts(), kicked.more.unwrap().until), (0, None));
    }
}
