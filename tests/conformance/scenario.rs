//! Runs one scenario, step by step, on a store of its own.

use std::collections::HashMap;
use std::time::Duration;

use tubewell::{
    Error, Filter, Put, Receipt, Session, Statistics, Store, Task, TaskState, Tube, TubeOptions,
};

use super::recorded::{Answer, PutOptions, RecordedStatistics, Scenario, Step, duration};
use super::waiter::Waiter;
use crate::stores::{self, ManualClock};

const TUBE: &str = "recorded";

/// The id of no task.
const NO_TASK: u64 = u64::MAX;

pub struct ScenarioRun {
    clock: ManualClock,
    pub store: Store,
    /// The handle for steps without a session.
    tube: Tube,
    /// By the number in the recording. A session exists from its first call until `disconnect`.
    sessions: HashMap<u32, (Session, Tube)>,
    waiters: HashMap<u32, Waiter>,
    /// By ordinal: the id, or `None` if the put was rejected, and the data.
    puts: Vec<(Option<u64>, String)>,
}

impl ScenarioRun {
    pub fn new(scenario: &Scenario) -> Result<ScenarioRun, Error> {
        let recorded = &scenario.options;
        let mut options = TubeOptions::default();
        // Tarantool's default is 0.
        if scenario.driver.ends_with("ttl") {
            options = options.priority(recorded.pri.unwrap_or(0));
        }
        if let Some(ttl) = recorded.ttl {
            options = options.ttl(duration(ttl));
        }
        if let Some(ttr) = recorded.ttr {
            options = options.ttr(duration(ttr));
        }
        if let Some(capacity) = recorded.capacity {
            options = options.capacity(capacity);
        }
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let tube = store.create_tube(TUBE, options.driver(&scenario.driver))?;
        Ok(ScenarioRun {
            clock,
            store,
            tube,
            sessions: HashMap::new(),
            waiters: HashMap::new(),
            puts: Vec::new(),
        })
    }

    /// Runs one step. Returns its answer and the expected answer.
    pub fn step<'a>(&mut self, step: &'a Step) -> (Answer, Option<&'a Answer>) {
        let (result, want) = match step {
            Step::Put { session, data, options, want } => {
                (self.put(*session, data, options), want.as_ref())
            }
            Step::Take { session, timeout, want } => (self.take(*session, *timeout), want.as_ref()),
            Step::Ack { session, task, want } => {
                (self.held(*session, *task, tubewell::Claim::ack), want.as_ref())
            }
            Step::Release { session, task, options, want } => {
                let delay = duration(options.delay.unwrap_or(0.0));
                (self.held(*session, *task, |claim| claim.release_in(delay)), want.as_ref())
            }
            Step::Touch { session, task, seconds, want } => {
                (self.touch(*session, *task, duration(*seconds)), want.as_ref())
            }
            Step::Bury { session, task, want } => {
                (self.by_id(*session, *task, |tube, id| tube.admin().bury(id, None)), want.as_ref())
            }
            Step::Kick { session, count, want } => (
                self.tube_of(*session)
                    .and_then(|tube| tube.admin().kick(Filter::new().limit(*count)))
                    .map(Answer::Count),
                want.as_ref(),
            ),
            Step::Delete { session, task, want } => {
                (self.by_id(*session, *task, Tube::delete), want.as_ref())
            }
            Step::Peek { session, task, want } => {
                let id = self.id(*task);
                let peeked = self.tube_of(*session).and_then(|tube| tube.query().task(id));
                (peeked.map(|task| self.task(&task)), want.as_ref())
            }
            Step::ReleaseAll { session } => {
                let released = self
                    .tube_of_session_or_store(*session)
                    .and_then(|tube| tube.admin().release(Filter::new()));
                (released.map(Answer::Count), None)
            }
            Step::Stats { session, want } => {
                let counted =
                    self.tube_of_session_or_store(*session).and_then(|tube| tube.statistics());
                (counted.map(|counted| Answer::Stats(recorded(&counted))), want.as_ref())
            }
            Step::Advance { seconds } => {
                self.clock.advance(duration(*seconds));
                (Ok(Answer::None(true)), None)
            }
            Step::Truncate { session } => {
                let truncated = self
                    .tube_of_session_or_store(*session)
                    .and_then(|tube| tube.admin().truncate());
                (truncated.map(|()| Answer::None(true)), None)
            }
            Step::Disconnect { session } => (self.disconnect(*session), None),
            Step::TakeBegin { waiter, timeout, .. } => {
                (self.take_begin(*waiter, duration(*timeout)), None)
            }
            Step::TakeResult { waiter, want } => {
                (self.take_result(*waiter, want.as_ref()), want.as_ref())
            }
        };
        for waiter in self.waiters.values_mut() {
            waiter.poll_if_woken();
        }
        (result.unwrap_or_else(|error| error_answer(&error)), want)
    }

    /// The tube in the session of this number. Creates the session at its first call.
    fn tube_of(&mut self, session: u32) -> Result<Tube, Error> {
        if let Some((_, tube)) = self.sessions.get(&session) {
            return Ok(tube.clone());
        }
        let opened = self.store.session("").unwrap();
        let tube = opened.tube(&self.store.find_tube(TUBE)?)?;
        self.sessions.insert(session, (opened, tube.clone()));
        Ok(tube)
    }

    fn tube_of_session_or_store(&mut self, session: Option<u32>) -> Result<Tube, Error> {
        match session {
            Some(session) => self.tube_of(session),
            None => Ok(self.tube.clone()),
        }
    }

    fn id(&self, ordinal: Option<usize>) -> u64 {
        ordinal.and_then(|ordinal| self.puts.get(ordinal)?.0).unwrap_or(NO_TASK)
    }

    /// The answer for a returned task.
    fn task(&self, task: &Task) -> Answer {
        let data = String::from_utf8_lossy(&task.body).into_owned();
        match self.puts.iter().position(|(id, _)| *id == Some(task.info.id)) {
            Some(ordinal) => Answer::Task(ordinal, state_text(task.info.state), data),
            None => Answer::Error(format!("task {} was never put ({data:?})", task.info.id)),
        }
    }

    fn put(&mut self, session: u32, data: &str, options: &PutOptions) -> Result<Answer, Error> {
        let mut put = Put::new(data);
        if let Some(pri) = options.pri {
            put = put.priority(pri);
        }
        if let Some(ttl) = options.ttl {
            put = put.ttl(duration(ttl));
        }
        if let Some(ttr) = options.ttr {
            put = put.ttr(duration(ttr));
        }
        if let Some(delay) = options.delay {
            put = put.delay(duration(delay));
        }
        if let Some(utube) = &options.utube {
            put = put.sub_queue(utube.as_str());
        }
        let result = self.tube_of(session)?.put(put);
        let ordinal = self.puts.len();
        self.puts.push((result.as_ref().ok().map(|receipt| receipt.id), data.to_owned()));
        match result {
            Ok(receipt) => Ok(Answer::Task(ordinal, state_text(receipt.state), data.to_owned())),
            Err(Error::Full { .. }) => Ok(Answer::None(true)),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, session: u32, timeout: f64) -> Result<Answer, Error> {
        if timeout > 0.0 {
            // It would block forever: the clock does not move during a step.
            return Ok(Answer::Error(
                "a take with a timeout must be recorded as take_begin".to_owned(),
            ));
        }
        let claim = self.tube_of(session)?.try_take()?;
        Ok(claim.map_or(Answer::None(true), |claim| self.task(&claim.detach())))
    }

    /// Calls a verb that takes an id and returns a receipt.
    fn held(
        &mut self,
        session: u32,
        ordinal: Option<usize>,
        end: impl FnOnce(tubewell::Claim) -> Result<Receipt, Error>,
    ) -> Result<Answer, Error> {
        self.by_id(session, ordinal, |tube, id| tube.claimed(id).and_then(end))
    }

    fn by_id(
        &mut self,
        session: u32,
        ordinal: Option<usize>,
        verb: impl FnOnce(&Tube, u64) -> Result<Receipt, Error>,
    ) -> Result<Answer, Error> {
        let id = self.id(ordinal);
        let receipt = verb(&self.tube_of(session)?, id)?;
        Ok(self.receipt(ordinal, &receipt))
    }

    fn receipt(&self, ordinal: Option<usize>, receipt: &Receipt) -> Answer {
        match ordinal.and_then(|ordinal| Some((ordinal, self.puts.get(ordinal)?))) {
            Some((ordinal, (Some(id), data))) if *id == receipt.id => {
                Answer::Task(ordinal, state_text(receipt.state), data.clone())
            }
            _ => Answer::Error(format!("wrong task in receipt: {receipt:?}")),
        }
    }

    fn touch(
        &mut self,
        session: u32,
        ordinal: Option<usize>,
        by: Duration,
    ) -> Result<Answer, Error> {
        let id = self.id(ordinal);
        let receipt = self.tube_of(session)?.claimed(id).and_then(|claim| claim.touch(by))?;
        Ok(receipt.map_or(Answer::None(true), |receipt| self.receipt(ordinal, &receipt)))
    }

    fn disconnect(&mut self, session: u32) -> Result<Answer, Error> {
        if let Some((session, _tube)) = self.sessions.remove(&session) {
            session.end()?;
        }
        Ok(Answer::None(true))
    }

    fn take_begin(&mut self, waiter: u32, timeout: Duration) -> Result<Answer, Error> {
        let tube = self.store.session("").unwrap().tube(&self.store.find_tube(TUBE)?)?;
        match self.waiters.insert(waiter, Waiter::new(tube, timeout)) {
            None => Ok(Answer::None(true)),
            Some(_) => Ok(Answer::Error(format!("waiter {waiter} exists already"))),
        }
    }

    /// A waiter that must have a task waits for it: the answer may be under way.
    fn take_result(&mut self, waiter: u32, want: Option<&Answer>) -> Result<Answer, Error> {
        let Some(waiter) = self.waiters.get_mut(&waiter) else {
            return Ok(Answer::Error(format!("waiter {waiter} does not exist")));
        };
        if matches!(want, Some(Answer::Task(..) | Answer::Error(_))) {
            waiter.wait();
        }
        waiter.poll_if_woken();
        let task = waiter.answer()?;
        Ok(task.map_or(Answer::None(true), |task| self.task(&task)))
    }
}

fn state_text(state: TaskState) -> String {
    state.as_char().to_string()
}

/// The answer for an error. Errors without a name in the recordings match no expected answer.
fn error_answer(error: &Error) -> Answer {
    Answer::Error(match error {
        Error::NotTaken { .. } => "not_taken".to_owned(),
        Error::NotFound { .. } => "not_found".to_owned(),
        other => format!("{other:?}"),
    })
}

/// All counters by their names in the recordings.
fn recorded(statistics: &Statistics) -> RecordedStatistics {
    let Statistics { tasks, calls, .. } = statistics;
    let named = |counts: &[(&str, u64)]| {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    RecordedStatistics {
        tasks: named(&[
            ("ready", tasks.ready),
            ("taken", tasks.taken),
            ("delayed", tasks.delayed),
            ("buried", tasks.buried),
            ("total", tasks.total),
            ("done", tasks.done),
        ]),
        calls: named(&[
            ("put", calls.put),
            ("take", calls.take),
            ("ack", calls.ack),
            ("release", calls.release),
            ("bury", calls.bury),
            ("kick", calls.kick),
            ("delete", calls.delete),
            ("touch", calls.touch),
            ("checkpoint", calls.checkpoint),
            ("ttl", calls.ttl),
            ("ttr", calls.ttr),
            ("delay", calls.delay),
        ]),
    }
}
