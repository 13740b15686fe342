//! Calls as values: what a handle asks of a store, and what the store answers.
//!
//! [`Core::carry_out`] is the only way from a handle to a verb. So a call can be passed on: to the
//! thread of another handle, or to another process.

use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_drivers::Body;

use super::catalog::{TubeHead, TubeRequest};
use super::claims::Chosen;
use super::state::{ClaimKey, Core, Decided, Holder, PutRequest};
use super::verbs::Grants;
use super::waits::{Admission, TakeAttempt};
use crate::owner::Owner;
use crate::statistics::Statistics;
use crate::task::{Cursor, Page, Task};
use crate::token::ClaimToken;
use crate::{Error, Receipt, Result, SessionId, State, TubeInfo};

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
    },
    /// A take from the first of these tubes that has a task, or a wait in all of them until this
    /// moment of running time.
    Take {
        tubes: &'a [TubeHead],
        session: SessionId,
        until: Option<u64>,
    },
    CreateTube(&'a TubeRequest),
    FindTube(&'a str),
    DropTube(&'a str),
    Tubes,
    AllStatistics,
    NextId,
    BeginSession(SessionId, Option<&'a Arc<str>>),
    ResumeSession(SessionId),
    EndSession(SessionId),
    DropSessionHandle(SessionId),
}

/// A verb on a tube and its tasks. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    /// Nothing: whether the tube exists.
    Check,
    Put(&'a PutRequest),
    /// A put that waits while the tube is full.
    PutOrWait {
        session: SessionId,
        request: &'a PutRequest,
        timeout: Option<u64>,
    },
    CancelPut {
        arrival: u64,
    },
    PutMany(&'a [PutRequest]),
    TakeMany {
        session: SessionId,
        count: usize,
    },
    /// A take of this task.
    Claim {
        session: SessionId,
        id: u64,
    },
    Revoke(u64),
    OwnerOf(u64),
    /// A verb of the session that holds the task.
    Held(Holder, u64, HolderVerb<'a>),
    AckMany(Holder, &'a [u64]),
    Bury(u64),
    KickTask(u64),
    Kick {
        count: u64,
    },
    Delete(u64),
    Peek(u64),
    List {
        state: State,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    ReleaseAll {
        limit: usize,
    },
    Truncate,
    Statistics,
}

/// A verb of the holder of a task. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HolderVerb<'a> {
    Ack,
    Release {
        delay: u64,
    },
    Touch {
        more: u64,
    },
    Renew {
        hold: u64,
    },
    Park {
        hold: u64,
    },
    /// A new body.
    Checkpoint(&'a Body),
    Bury,
}

/// The answer to a call.
pub(crate) enum Answer {
    Done,
    Receipt(Receipt),
    Receipts(Vec<Receipt>),
    /// One answer for each task.
    Acks(Vec<Result<Receipt>>),
    Admission(Admission),
    Take(TakeAttempt),
    Grants(Grants),
    Chosen(Chosen),
    Owner(Option<Owner>),
    Count(u64),
    /// How many claims have ended, and the first error.
    Released(u64, Result<()>),
    Task(Box<Task>),
    Page(Page),
    Statistics(Box<Statistics>),
    AllStatistics(BTreeMap<String, Statistics>),
    Tube(TubeHead),
    Tubes(Vec<TubeInfo>),
}

/// What a caller expects of an answer.
pub(crate) trait FromAnswer: Sized {
    /// `None` for an answer to another call.
    fn from_answer(answer: Answer) -> Option<Self>;
}

impl Decided<Answer> {
    /// The answer as what its caller expects.
    pub(crate) fn expect<T: FromAnswer>(self) -> Result<Decided<T>> {
        let Decided { answer, wait } = self;
        match T::from_answer(answer) {
            Some(answer) => Ok(Decided { answer, wait }),
            None => Err(Error::OutcomeUnknown { why: "the answer is of another call".into() }),
        }
    }
}

impl Core {
    /// Carries out a call. Every verb of a handle comes through here.
    pub(crate) fn carry_out(&mut self, call: Call<'_>) -> Result<Decided<Answer>> {
        match call {
            Call::Check => self.check_open().map(done),
            Call::Tube(tube, verb) => {
                self.tube(tube.number, tube.name)?;
                self.carry_out_verb(tube.number, verb)
            }
            Call::Claim(key, verb) => {
                self.check_open()?;
                self.carry_out_held(key, verb)
            }
            Call::ResumeClaim(session, token) => {
                let grant = self.resume_claim(session, token)?;
                Ok(now(Answer::Chosen(Chosen::Task(grant))))
            }
            Call::OwnerOfClaim(key) => Ok(now(Answer::Owner(self.owner_of_claim(key)))),
            Call::AckClaims(keys) => {
                self.check_open()?;
                Ok(self.ack_many(keys.iter().copied()).map(Answer::Acks))
            }
            Call::DropClaim { id, epoch } => self.release_if_current(id, epoch).map(done),
            Call::Take { tubes, session, until } => self.take_from(tubes, session, until),
            Call::CreateTube(request) => Ok(self.create_tube(request)?.map(Answer::Tube)),
            Call::FindTube(name) => self.find_tube(name).map(|head| now(Answer::Tube(head))),
            Call::DropTube(name) => Ok(self.drop_tube(name)?.map(|()| Answer::Done)),
            Call::Tubes => Ok(now(Answer::Tubes(self.tube_infos()))),
            Call::AllStatistics => Ok(now(Answer::AllStatistics(self.all_statistics()))),
            Call::NextId => Ok(now(Answer::Count(self.ids.next))),
            Call::BeginSession(id, label) => {
                self.begin_session(id, label.cloned());
                Ok(done(()))
            }
            Call::ResumeSession(id) => self.resume_session(id).map(done),
            Call::EndSession(id) => self.end_session(id).map(done),
            Call::DropSessionHandle(id) => self.drop_session_handle(id).map(done),
        }
    }

    /// As `carry_out`. A refusal that a change which is not yet visible may have caused waits for
    /// the flush of that change, so that a crash cannot make it untrue.
    pub(crate) fn carry_out_once_visible(
        &mut self,
        call: Call<'_>,
    ) -> Result<Decided<Result<Answer>>> {
        match self.carry_out(call) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(
                refused @ (Error::NotFound { id }
                | Error::NotBuried { id }
                | Error::NotReady { id, .. }),
            ) => match call {
                Call::Tube(tube, _) => Ok(self.once_visible(tube.number, id, Err(refused))),
                _ => Err(refused),
            },
            Err(error) => Err(error),
        }
    }

    fn carry_out_verb(&mut self, number: u32, verb: Verb<'_>) -> Result<Decided<Answer>> {
        Ok(match verb {
            Verb::Check => done(()),
            Verb::Put(request) => self.put(number, request)?.map(Answer::Receipt),
            Verb::PutOrWait { session, request, timeout } => {
                self.put_or_wait(number, session, request, timeout)?.map(Answer::Admission)
            }
            Verb::CancelPut { arrival } => {
                self.cancel_put(number, arrival);
                done(())
            }
            Verb::PutMany(requests) => self.put_many(number, requests)?.map(Answer::Receipts),
            Verb::TakeMany { session, count } => {
                now(Answer::Grants(self.take_up_to(number, session, count)?))
            }
            Verb::Claim { session, id } => {
                self.claim_task(number, session, id)?.map(Answer::Chosen)
            }
            Verb::Revoke(id) => self.revoke(number, id)?.map(Answer::Receipt),
            Verb::OwnerOf(id) => now(Answer::Owner(self.owner_of(number, id)?)),
            Verb::Held(by, id, verb) => {
                self.carry_out_held(ClaimKey { tube: number, by, id }, verb)?
            }
            Verb::AckMany(by, ids) => {
                let keys = ids.iter().map(|id| ClaimKey { tube: number, by, id: *id });
                self.ack_many(keys).map(Answer::Acks)
            }
            Verb::Bury(id) => self.bury(number, id)?.map(Answer::Receipt),
            Verb::KickTask(id) => self.kick_task(number, id)?.map(Answer::Receipt),
            Verb::Kick { count } => self.kick(number, count)?.map(Answer::Count),
            Verb::Delete(id) => self.delete(number, id)?.map(Answer::Receipt),
            Verb::Peek(id) => self.peek(number, id)?.map(|task| Answer::Task(Box::new(task))),
            Verb::List { state, after, limit } => {
                now(Answer::Page(self.list(number, state, after, limit)?))
            }
            Verb::ReleaseAll { limit } => {
                let (released, outcome) = self.release_all(number, limit);
                now(Answer::Released(released, outcome))
            }
            Verb::Truncate => self.truncate(number)?.map(|()| Answer::Done),
            Verb::Statistics => now(Answer::Statistics(Box::new(self.statistics(number)))),
        })
    }

    fn carry_out_held(&mut self, key: ClaimKey, verb: HolderVerb<'_>) -> Result<Decided<Answer>> {
        let decided = match verb {
            HolderVerb::Ack => self.ack(key)?,
            HolderVerb::Release { delay } => self.release(key, delay)?,
            HolderVerb::Touch { more } => self.touch(key, more)?,
            HolderVerb::Checkpoint(body) => self.checkpoint(key, body)?,
            HolderVerb::Bury => self.bury_claimed(key)?,
            HolderVerb::Renew { hold } => return self.renew(key, hold).map(done),
            HolderVerb::Park { hold } => return Ok(self.park(key, hold)?.map(Answer::Count)),
        };
        Ok(decided.map(Answer::Receipt))
    }

    fn take_from(
        &mut self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
    ) -> Result<Decided<Answer>> {
        for head in tubes {
            let tube = self.tube(head.number, &head.name)?;
            tube.driver(|| self.known_drivers())?;
        }
        self.check_session(session)?;
        let timeout = until.map(|until| until.saturating_sub(self.now.running));
        let numbers = tubes.iter().map(|head| head.number);
        Ok(now(Answer::Take(self.take_or_wait(numbers, session, timeout)?)))
    }
}

/// An answer that waits for nothing.
fn now(answer: Answer) -> Decided<Answer> {
    Decided { answer, wait: None }
}

fn done((): ()) -> Decided<Answer> {
    now(Answer::Done)
}

macro_rules! from_answer {
    ($($answer:pat => $value:expr, $type:ty;)*) => {$(
        impl FromAnswer for $type {
            fn from_answer(answer: Answer) -> Option<$type> {
                if let $answer = answer { Some($value) } else { None }
            }
        }
    )*};
}

from_answer! {
    Answer::Done => (), ();
    Answer::Receipt(receipt) => receipt, Receipt;
    Answer::Admission(admission) => admission, Admission;
    Answer::Receipts(receipts) => receipts, Vec<Receipt>;
    Answer::Acks(acks) => acks, Vec<Result<Receipt>>;
    Answer::Take(attempt) => attempt, TakeAttempt;
    Answer::Grants(grants) => grants, Grants;
    Answer::Chosen(chosen) => chosen, Chosen;
    Answer::Owner(owner) => owner, Option<Owner>;
    Answer::Count(count) => count, u64;
    Answer::Released(released, outcome) => (released, outcome), (u64, Result<()>);
    Answer::Task(task) => *task, Task;
    Answer::Page(page) => page, Page;
    Answer::Statistics(statistics) => *statistics, Statistics;
    Answer::AllStatistics(statistics) => statistics, BTreeMap<String, Statistics>;
    Answer::Tube(head) => head, TubeHead;
    Answer::Tubes(tubes) => tubes, Vec<TubeInfo>;
}
