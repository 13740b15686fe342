//! Calls as values: what a handle asks of a store.
//!
//! [`Core::carry_out`] is the only way from a handle to a verb. So a call can be passed on: to the
//! thread of another handle, or to another process.

mod edges;
mod history;
mod kind;
#[cfg(feature = "_peer")]
mod note;
mod schedules;
mod steps;

use super::answer::{Answer, FromAnswer, answer, done, finished, now};
use super::catalog::TubeHead;
use super::claims::Chosen;
use super::state::{ClaimKey, Core, Decided, Holder, PutRequest, TagEdit, UpdateRequest};
use super::verbs::{ByteBudget, Grants};
use super::waits::TakeAttempt;
use crate::task::Cursor;
use crate::token::ClaimToken;
use crate::{Result, SessionId};
pub(crate) use edges::EdgeVerb;
pub(crate) use history::HistoryVerb;
pub(crate) use kind::Kind;
pub(crate) use schedules::ScheduleVerb;
pub(crate) use steps::StepVerb;

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
    /// A verb on a tube and its tasks. The tube must exist.
    Tube(TubeRef<'a>, Verb<'a>),
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
}

/// A verb on a tube and its tasks. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    PutMany(&'a [PutRequest]),
    /// A put that replaces the task which has its key.
    Requeue(&'a PutRequest),
    Revoke(u64),
    /// A verb of the session that holds the task.
    Held(Holder, u64, HolderVerb<'a>),
    AckMany(Holder, &'a [u64]),
    Bury(u64),
    KickTask(u64),
    Kick {
        count: u64,
    },
    /// A move of this task to another tube.
    Move {
        id: u64,
        to: TubeRef<'a>,
    },
    /// A step of a move of all tasks with ids below `below`.
    MoveSome {
        to: TubeRef<'a>,
        after: Option<&'a Cursor>,
        below: u64,
    },
    Edges(EdgeVerb<'a>),
    Delete(u64),
    Update {
        id: u64,
        request: &'a UpdateRequest,
    },
    EditTags {
        id: u64,
        edit: TagEdit<'a>,
    },
    /// A delete of a task that is not taken and not done.
    Cancel(u64),
    /// A delete of a task in one of these states.
    DeleteIf {
        id: u64,
        states: &'a [State],
    },
    DeleteMany(&'a [u64]),
    /// A step of a delete of selected tasks.
    DeleteWhere {
        select: &'a Select,
        after: Option<&'a Cursor>,
        limit: u64,
    },
    /// A step of a kick of selected tasks.
    KickWhere {
        select: &'a Select,
        after: Option<&'a Cursor>,
        limit: u64,
    },
    History(HistoryVerb<'a>),
    ReleaseAll {
        limit: usize,
        forgive: bool,
    },
    /// An end of a task that nobody has taken.
    Resolve {
        id: u64,
        result: Option<&'a [u8]>,
    },
    Schedules(ScheduleVerb<'a>),
    Forget(u64),
    Truncate,
    /// No task may be taken for this time; `NEVER` for one without an end. Zero ends the pause.
    Pause {
        time: u64,
    },
    /// No task may be taken until this moment of the wall clock.
    PauseUntil {
        moment: u64,
    },
    /// No task of this sub-queue may be taken for this time.
    PauseSubQueue {
        name: &'a str,
        time: u64,
    },
    Alter(&'a TubeOptions),
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
            Call::Tube(tube, verb) => {
                self.tube(tube.number, tube.name)?;
                self.carry_out_verb(tube.number, verb)
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
            Verb::PutMany(requests) => answer(self.put_many(number, requests)?, Answer::Receipts),
            Verb::Requeue(request) => answer(self.requeue(number, request)?, Answer::Receipt),
            Verb::Revoke(id) => answer(self.revoke(number, id)?, Answer::Receipt),
            Verb::Held(by, id, verb) => {
                self.carry_out_held(ClaimKey { tube: number, by, id }, verb)
            }
            Verb::Edges(verb) => self.carry_out_edges(number, verb),
            Verb::Schedules(verb) => self.carry_out_schedules(number, verb),
            Verb::History(verb) => self.carry_out_on_history(number, verb),
            Verb::Delete(id) => answer(self.delete(number, id)?, Answer::Receipt),
            Verb::Update { id, request } => {
                answer(self.update(number, id, request)?, Answer::Receipt)
            }
            Verb::EditTags { id, edit } => {
                answer(self.edit_tags(number, id, edit)?, Answer::Receipt)
            }
            Verb::Cancel(id) => answer(self.cancel(number, id)?, Answer::Receipt),
            Verb::DeleteIf { id, states } => {
                answer(self.delete_if(number, id, states)?, Answer::Receipt)
            }
            Verb::DeleteMany(ids) => answer(self.delete_many(number, ids)?, Answer::Count),
            Verb::DeleteWhere { select, after, limit } => {
                answer(self.delete_where(number, select, after, limit)?, Answer::SelectStep)
            }
            Verb::KickWhere { select, after, limit } => {
                answer(self.kick_where(number, select, after, limit)?, Answer::SelectStep)
            }
            Verb::ReleaseAll { limit, forgive } => {
                let released = self.release_all(number, limit, forgive);
                now(released, |(released, outcome)| Answer::Released(released, outcome))
            }
            Verb::Resolve { id, result } => {
                answer(self.resolve(number, id, result)?, Answer::Receipt)
            }
            Verb::Forget(id) => answer(self.forget(number, id)?, Answer::Receipt),
            Verb::Truncate => finished(self.truncate(number)?),
            Verb::Pause { time } => finished(self.pause(number, time)?),
            Verb::PauseUntil { moment } => finished(self.pause_until(number, moment)?),
            Verb::PauseSubQueue { name, time } => {
                finished(self.pause_sub_queue(number, name, time)?)
            }
            Verb::Alter(options) => finished(self.alter(number, options)?),
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
