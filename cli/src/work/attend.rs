//! The handler of the worker: runs the command for a task.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::mem::take;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tubewell::Outcome as End;
use tubewell::worker::{Ended, Job, Report as Reported};
use tubewell::{Error, Session, Store, TaskState, Ticket, Tube};

use super::child::{self, Child, is_output_closed, not_started};
use super::outcome::{CommandEnd, Decision, Finished, Outcome, Policy};
use super::report::Report;
use super::running::Running;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::count;
use crate::signals::StopSignal;
use crate::{connection, store};

thread_local! {
    /// The last job of this thread, until the worker reports its end.
    static LAST: Cell<Option<Finished>> = const { Cell::new(None) };
}

/// Runs the command for each task, and reports its end.
pub struct Attendant {
    store: Store,
    session: Session,
    tubes: Vec<Tube>,
    policy: Policy,
    is_json: bool,
    running: Arc<Running>,
    last_signal: StopSignal,
    shared: Mutex<Shared>,
}

/// How long a task waits that comes again in a run which tries each task once.
const AGAIN: Duration = Duration::from_secs(1);

/// The state that the threads of the worker share.
struct Shared {
    report: Report,
    /// The jobs that have begun, and whose ends are not reported.
    jobs: usize,
    /// The remark about waiting is printed once, and not at all with --once and --json.
    notes_idle: bool,
    /// How the claims of failed tasks end when the run ends.
    kept: Vec<(Tube, u64, End)>,
    /// The tasks that were tried in this run, with --once, and whose claims end with their time.
    tried: HashSet<u64>,
}

impl Attendant {
    /// `tubes` are those of this session.
    pub fn new(
        store: &Store,
        session: Session,
        tubes: Vec<Tube>,
        policy: Policy,
        report: Report,
        running: Arc<Running>,
        last_signal: StopSignal,
    ) -> Attendant {
        let (store, is_json) = (store.clone(), report.is_json());
        let notes_idle = !policy.args.once && !is_json;
        let shared =
            Shared { report, jobs: 0, notes_idle, kept: Vec::new(), tried: HashSet::new() };
        let shared = Mutex::new(shared);
        Attendant { store, session, tubes, policy, is_json, running, last_signal, shared }
    }

    /// Runs the command for a task. Returns how the claim on the task ends.
    pub fn attend(&self, job: &Job) -> End {
        self.shared().jobs += 1;
        if self.policy.is_exhausted(job) {
            let (takes, end) = (job.takes(), CommandEnd::default());
            LAST.set(Some(Finished { takes, end, outcome: Outcome::Buried }));
            return End::bury(None);
        }
        if self.shared().tried.contains(&job.id()) {
            // Its claim had ended with its time, so that it was not kept.
            return End::snooze(AGAIN);
        }
        if job.is_current() == Ok(false) {
            // The next attempt may succeed, unless the ttr is too short for every attempt.
            let checked = store::check_ttr(&self.store, job.tube(), job.id());
            checked.unwrap_or_else(|failure| self.running.fail(failure));
            return End::detach();
        }
        match self.run(job) {
            Ok(Some((ended, is_terminated))) => self.decide(job, ended, is_terminated),
            Ok(None) => self.policy.give_back(job),
            Err(error) => {
                self.running.fail(not_started(&self.policy.args.command, &error));
                self.policy.give_back(job)
            }
        }
    }

    /// Runs the command. Returns how it ended and whether commands are terminated; `None` if they
    /// were before it could start.
    fn run(&self, job: &Job) -> io::Result<Option<(child::Ended, bool)>> {
        let keep_stderr = self.policy.records_failures(job);
        let args = &self.policy.args;
        let stdout = match self.is_json {
            _ if args.keep_output => Stdio::piped(),
            // Only objects go to standard output.
            true => Stdio::from(io::stderr()),
            false => Stdio::inherit(),
        };
        let start = || Child::start(&args.command, job, stdout, keep_stderr);
        let Some(child) = self.running.start(start).transpose()? else { return Ok(None) };
        let of_claim = job.expires_in().ok().flatten();
        let ended = child.wait(args.max_runtime.into_iter().chain(of_claim).min());
        let is_terminated = self.running.ended();
        Ok(Some((ended?, is_terminated)))
    }

    fn decide(&self, job: &Job, ended: child::Ended, is_terminated: bool) -> End {
        let (end, signal) = (CommandEnd::of(&ended), self.last_signal.number());
        let mut is_terminated = is_terminated || signal.is_some_and(|signal| end.is_by(signal));
        let has_output = !self.is_json && !self.policy.args.keep_output;
        if !end.is_success() && has_output && is_output_closed() {
            is_terminated = true;
            if signal.is_none() {
                // The next command would fail, too.
                self.running.fail(Failure::silent(Exit::Pipe));
            }
        }
        let Decision { outcome, claim, keep } = self.policy.decide(job, end, ended, is_terminated);
        LAST.set(Some(Finished { takes: job.takes(), end, outcome }));
        if keep { self.keep(job, claim) } else { claim }
    }

    /// Keeps the claim, which ends like this when the run ends.
    fn keep(&self, job: &Job, end: End) -> End {
        let Some(tube) = self.tube_of(job) else { return end };
        let mut shared = self.shared();
        shared.kept.push((tube.clone(), job.id(), end));
        shared.tried.insert(job.id());
        End::detach()
    }

    /// Reports the end of a job, on the thread that has run it, and the errors of the worker.
    pub fn watch(&self, reported: &Reported) {
        let (tube, id) = match reported {
            Reported::Error(error) => return self.running.fail(error.clone().into()),
            Reported::Ended { tube, id, .. }
            | Reported::Lost { tube, id, .. }
            | Reported::TimedOut { tube, id, .. }
            | Reported::NotStored { tube, id, .. } => (tube, *id),
            _ => return,
        };
        match reported {
            Reported::NotStored { error, .. } => {
                self.running.fail(Failure::from(error.clone()).context(format!("task {id}")));
            }
            Reported::Ended { end: Ended::Panicked, failure: Some(failure), .. } => {
                self.running.fail(Failure::new(Exit::Failed, failure.message()));
            }
            _ => {}
        }
        let mut shared = self.shared();
        shared.jobs -= 1;
        let args = &self.policy.args;
        if matches!(reported, Reported::TimedOut { .. }) && args.once && args.max_attempts.is_none()
        {
            shared.tried.insert(id);
        }
        let printed = LAST.take().map_or(Ok(()), |finished| {
            let outcome = match reported {
                Reported::Lost { .. } => Outcome::Lost,
                Reported::TimedOut { .. } => Outcome::TimedOut,
                Reported::NotStored { .. } => Outcome::Unknown,
                Reported::Ended { state: TaskState::Buried, .. } => Outcome::Buried,
                _ => finished.outcome,
            };
            shared.report.finished(tube, id, Finished { outcome, ..finished })
        });
        drop(shared);
        printed.unwrap_or_else(|failure| self.running.fail(failure));
        self.note_idle();
    }

    /// Says once why nothing happens.
    pub fn note_idle(&self) {
        let mut shared = self.shared();
        if !shared.notes_idle || shared.jobs > 0 || self.running.is_stopping() {
            return;
        }
        let delayed = match self.waiting() {
            Ok(None) => return,
            Ok(Some(delayed)) => delayed,
            Err(error) => return self.running.fail(error.into()),
        };
        shared.notes_idle = false;
        shared.report.note(&match delayed {
            _ if connection::owner().is_some() => "waiting for tasks; Ctrl-C stops".into(),
            0 => "no task to wait for: no other process can put while work has the store open; \
                  Ctrl-C stops"
                .into(),
            _ => format!("waiting for {}; Ctrl-C stops", count(delayed, "delayed task")),
        });
    }

    /// How many delayed tasks the worker waits for. `None` if it has a task, or can take one.
    fn waiting(&self) -> tubewell::Result<Option<u64>> {
        let mut delayed = 0;
        for tube in &self.tubes {
            let tasks = tube.statistics()?.tasks;
            if tasks.ready > 0 && !tube.info()?.paused {
                return Ok(None);
            }
            delayed += tasks.delayed;
        }
        let id = self.session.id();
        // A thread may have been given a task, and not have begun with it.
        let has_task = self.store.owners()?.iter().any(|owner| owner.session == id);
        Ok((!has_task).then_some(delayed))
    }

    /// Ends the claims of the failed tasks that were kept until the end of the run.
    pub fn release_kept(&self) -> CommandResult {
        let kept = take(&mut self.shared().kept);
        // The ends share a few flushes. All of them are made, also after an error.
        let end_of = |(tube, id, end): (Tube, u64, End)| {
            let claim = tube.claimed(id)?.into_async();
            Ok(claim.end(end))
        };
        let tickets: Vec<_> = kept.into_iter().map(end_of).collect();
        let errors = tickets.into_iter().filter_map(|ticket| ticket.and_then(Ticket::wait).err());
        let errors: Vec<_> =
            errors.filter(|error| !matches!(error, Error::NotTaken { .. })).collect();
        errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Prints the summary. Returns whether a task was not done, too.
    pub fn end(&self) -> (CommandResult, bool) {
        let report = &mut self.shared().report;
        (report.end(), report.has_failures())
    }

    fn tube_of(&self, job: &Job) -> Option<&Tube> {
        self.tubes.iter().find(|tube| tube.name() == job.tube())
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
