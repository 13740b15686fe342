//! Calls as values: what a handle asks of a store.
//!
//! [`Core::carry_out`] is the only way from a handle to a verb. So a call can be passed on: to the
//! thread of another handle, or to another process.

mod edges;
mod held;
mod history;
mod kind;
mod list;
#[cfg(feature = "_peer")]
mod note;
mod schedules;
mod steps;
mod waits;

use std::sync::Arc;

use super::answer::{Answer, FromAnswer, answer, done, finished, now, steps};
use super::catalog::{TubeHead, TubeRequest};
use super::claims::Chosen;
use super::state::{About, ClaimKey, Core, Decided, Holder, PutRequest, WatchKey};
use super::verbs::{ByteBudget, Grants};
use super::waits::TakeAttempt;
use crate::task::Cursor;
use crate::token::ClaimToken;
use crate::{Result, SessionId};
pub(crate) use edges::EdgeVerb;
pub(crate) use held::HolderVerb;
pub(crate) use history::HistoryVerb;
pub(crate) use kind::Kind;
pub(crate) use list::ListVerb;
pub(crate) use schedules::ScheduleVerb;
pub(crate) use steps::StepVerb;
pub(crate) use waits::WaitVerb;

/// A tube as a call names it. The number is enough to find it; an error has the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TubeRef<'a> {
    pub(crate) number: u32,
    pub(crate) name: &'a str,
}

/// What a handle asks of a store. It owns nothing, so that a call that has to wait for space in the
/// write buffer can be made again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call<'a> {
    /// Nothing: whether the store is open.
    Check,
    /// A verb on a tube and its tasks. The tube must exist.
    Tube(TubeRef<'a>, Verb<'a>),
    /// A verb of a claim. The claim must be current.
    Claim(ClaimKey, HolderVerb<'a>),
    /// A parked claim goes to this session.
    ResumeClaim(SessionId, &'a ClaimToken),
    /// The owner of a claim, if it is current.
    OwnerOfClaim(ClaimKey),
    /// Acks of claims, in any tubes.
    AckClaims(&'a [ClaimKey]),
    /// The end of a claim whose handle is dropped. Does nothing if the claim has ended.
    DropClaim {
        id: u64,
        epoch: u64,
        /// The task was not handed out: the attempt does not count.
        forgive: bool,
    },
    CreateTube(&'a TubeRequest),
    FindTube(&'a str),
    DropTube(&'a str),
    Tubes,
    /// A limit that tubes share; `None` removes it.
    SetLimit(&'a str, Option<u32>),
    Limits,
    /// The task with this id: a step of the search, from the first tube or after another one.
    Find {
        id: u64,
        after: Option<&'a str>,
    },
    /// The tasks with this tag, in all tubes.
    Tagged {
        tag: &'a str,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    /// The counts of the tags, by tag: up to a page of them.
    TagCounts {
        after: Option<&'a str>,
    },
    AllStatistics,
    NextId,
    BeginSession(SessionId, Option<&'a Arc<str>>),
    ResumeSession(SessionId),
    /// What a session says of itself.
    DescribeSession(SessionId, &'a About),
    Owners,
    EndSession(SessionId),
    DropSessionHandle(SessionId),
}

/// A verb on a tube and its tasks. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    /// Nothing: whether the tube exists.
    Check,
    /// A put, and a wait for the end of its task.
    PutAndWait {
        session: SessionId,
        request: &'a PutRequest,
        timeout: Option<u64>,
    },
    Wait(WaitVerb),
    CancelWatch(WatchKey),
    /// A take of this task.
    Claim {
        session: SessionId,
        id: u64,
    },
    OwnerOf(u64),
    /// A verb of the session that holds the task.
    Held(Holder, u64, HolderVerb<'a>),
    Edges(EdgeVerb),
    History(HistoryVerb),
    /// The first steps of a task, by name.
    Steps(u64),
    /// Those whose names follow this one.
    StepsAfter {
        id: u64,
        after: &'a str,
    },
    List(ListVerb<'a>),
    Schedules(ScheduleVerb<'a>),
    Outcome(u64),
    Groups,
    PausedSubQueues,
    /// The numbers of these days, counted from 1970.
    Days {
        from: u32,
        to: u32,
    },
    /// A step of a search for the days on which the buried tasks have failed.
    FailedOn {
        from: u32,
        to: u32,
        next: &'a [u8],
    },
    /// Whether its driver has delays, and claims that expire.
    IsTimed,
    Info,
    Statistics,
}

impl Core {
    /// Carries out a call. Every verb of a handle comes through here.
    pub(crate) fn carry_out<T: FromAnswer>(&mut self, call: Call<'_>) -> Result<Decided<T>> {
        let decided = self.decide(call);
        #[cfg(feature = "_peer")]
        if decided.is_ok() {
            note::note(&call);
        }
        decided
    }

    #[inline]
    fn decide<T: FromAnswer>(&mut self, call: Call<'_>) -> Result<Decided<T>> {
        match call {
            Call::Check => done(self.check_open()?),
            Call::Tube(tube, verb) => {
                self.tube(tube.number, tube.name)?;
                self.carry_out_verb(tube.number, verb)
            }
            Call::Claim(key, verb) => {
                self.check_open()?;
                self.carry_out_held(key, verb)
            }
            Call::ResumeClaim(session, token) => {
                now(Chosen::Task(self.resume_claim(session, token)?), Answer::Chosen)
            }
            Call::OwnerOfClaim(key) => now(self.owner_of_claim(key), Answer::Owner),
            Call::AckClaims(keys) => {
                self.check_open()?;
                answer(self.ack_many(keys.iter().copied()), Answer::Acks)
            }
            Call::DropClaim { id, epoch, forgive } => {
                done(self.release_if_current(id, epoch, forgive)?)
            }
            Call::CreateTube(request) => answer(self.create_tube(request)?, Answer::Tube),
            Call::FindTube(name) => now(self.find_tube(name)?, Answer::Tube),
            Call::DropTube(name) => finished(self.drop_tube(name)?),
            Call::Tubes => now(self.tube_infos(), Answer::Tubes),
            Call::SetLimit(name, most) => finished(self.set_limit(name, most)?),
            Call::Limits => now(self.shared_limits(), Answer::Limits),
            Call::Find { id, after } => answer(self.find_step(id, after)?, Answer::FindStep),
            Call::Tagged { tag, after, limit } => {
                now(self.tagged(tag, after, limit)?, Answer::TaggedPage)
            }
            Call::TagCounts { after } => now(self.tag_counts(after)?, Answer::TagCounts),
            Call::AllStatistics => now(self.all_statistics(), Answer::AllStatistics),
            Call::NextId => now(self.ids.next, Answer::Count),
            Call::BeginSession(id, label) => {
                self.begin_session(id, label.cloned());
                done(())
            }
            Call::ResumeSession(id) => done(self.resume_session(id)?),
            Call::DescribeSession(id, about) => done(self.describe_session(id, about)?),
            Call::Owners => now(self.owners(), Answer::Owners),
            Call::EndSession(id) => done(self.end_session_for_good(id)?),
            Call::DropSessionHandle(id) => done(self.drop_session_handle(id)?),
        }
    }

    /// As `carry_out`. A refusal that a change which is not yet visible may have caused waits for
    /// the flush of that change, so that a crash cannot make it untrue.
    pub(crate) fn carry_out_once_visible<T: FromAnswer>(
        &mut self,
        call: Call<'_>,
    ) -> Result<Decided<Result<T>>> {
        let tube = match call {
            Call::Tube(tube, _) => Some(tube.number),
            _ => None,
        };
        match self.carry_out(call) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(refused) => self.refuse_once_visible(tube, refused),
        }
    }

    fn carry_out_verb<T: FromAnswer>(&mut self, number: u32, verb: Verb<'_>) -> Result<Decided<T>> {
        match verb {
            Verb::Check => done(()),
            Verb::PutAndWait { session, request, timeout } => {
                let put = self.put_and_wait(number, session, request, timeout)?;
                answer(put, |(receipt, watching)| Answer::PutAndWatching(receipt, watching))
            }
            Verb::Wait(wait) => self.carry_out_wait(number, wait),
            Verb::CancelWatch(key) => {
                self.cancel_watch(key);
                done(())
            }
            Verb::Claim { session, id } => {
                answer(self.claim_task(number, session, id)?, Answer::Chosen)
            }
            Verb::OwnerOf(id) => now(self.owner_of(number, id)?, Answer::Owner),
            Verb::Held(by, id, verb) => {
                self.carry_out_held(ClaimKey { tube: number, by, id }, verb)
            }
            Verb::Edges(verb) => self.carry_out_edges(number, verb),
            Verb::Schedules(verb) => self.carry_out_schedules(number, verb),
            Verb::History(verb) => self.carry_out_on_history(number, verb),
            Verb::Steps(id) => answer(self.steps(number, id, None)?, steps),
            Verb::StepsAfter { id, after } => answer(self.steps(number, id, Some(after))?, steps),
            Verb::List(verb) => self.carry_out_list(number, verb),
            Verb::Outcome(id) => answer(self.outcome(number, id)?, Answer::Outcome),
            Verb::Groups => now(self.groups(number)?, Answer::Groups),
            Verb::PausedSubQueues => now(self.paused_sub_queues(number)?, Answer::PausedSubQueues),
            Verb::Days { from, to } => now(self.days(number, (from, to))?, Answer::Days),
            Verb::FailedOn { from, to, next } => {
                now(self.failed_on(number, (from, to), next)?, Answer::FailedOn)
            }
            Verb::IsTimed => now(self.is_timed(number), Answer::Bool),
            Verb::Info => now(Box::new(self.tube_info(number)?), Answer::TubeInfo),
            Verb::Statistics => now(self.statistics(number), Answer::Statistics),
        }
    }

    /// Takes from the first of these tubes that has a task, or waits in all of them until this
    /// moment of running time. It is no [`Call`]: its answer may come later, through a slot.
    pub(crate) fn carry_out_take(
        &mut self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
        found: &mut TakeAttempt,
    ) -> Result<()> {
        for head in tubes {
            let tube = self.tube(head.number, &head.name)?;
            tube.driver(|| self.known_drivers())?;
        }
        self.check_session(session)?;
        let timeout = until.map(|until| until.saturating_sub(self.now.running));
        let numbers = tubes.iter().map(|head| head.number);
        self.take_or_wait(numbers, session, timeout, found)
    }

    /// Takes up to `count` tasks, as far as the budget allows. It is no [`Call`]: only the owner knows
    /// how many bytes its answers have.
    pub(crate) fn carry_out_take_many(
        &mut self,
        tube: &TubeHead,
        session: SessionId,
        count: usize,
        bytes: &mut ByteBudget,
    ) -> Result<Grants> {
        self.tube(tube.number, &tube.name)?;
        self.take_up_to(tube.number, session, count, bytes)
    }
}
