//! The loop of `work`: takes tasks while fewer commands run than may, then waits for the next event.

mod stop;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Backoff, Claim, Error, State, Store, TakeFuture, Tube};

use super::child::{Child, ProcessGroup, is_output_closed, not_started};
use super::outcome::{FailurePolicy, Finished, Outcome, is_ended_by};
use super::report::Report;
use crate::args::Work;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count};
use crate::progress::Progress;
use crate::signals;
use crate::store::renew_without_limit;

/// How many taken tasks are read at a time.
const PAGE: usize = 500;

/// What the loop waits for. All events come through one channel, so nothing is polled.
enum Event {
    /// The waiting take may have its task.
    TakeReady,
    /// The command of this run has ended, so that the next one may start.
    Ended(u64),
    Finished(Finished),
    Signal(u8),
    /// `SAME_SIGNAL` has elapsed: a further signal counts.
    SignalCounts,
    /// `TERM_GRACE` has elapsed.
    KillDue,
}

/// Wakes the loop to poll the waiting take.
struct TakeWaker(Sender<Event>);

impl Wake for TakeWaker {
    fn wake(self: Arc<Self>) {
        // The send fails once the loop has ended.
        let _ = self.0.send(Event::TakeReady);
    }
}

/// The running commands and their tasks.
pub struct Pool<'a> {
    store: &'a Store,
    tubes: Vec<Tube>,
    args: &'a Work,
    report: Report<'a>,
    policy: FailurePolicy,
    events: Receiver<Event>,
    send: Sender<Event>,
    waker: Waker,
    /// The take that waits for a task.
    taking: Option<TakeFuture>,
    /// By the number of the run: a task may run again before the end of its last run is received.
    running: BTreeMap<u64, Arc<ProcessGroup>>,
    runs: u64,
    /// Tasks that were given to a command and are not finished.
    unfinished: usize,
    /// Failed tasks that are released at the end, by tube, or reported as failed.
    kept: HashMap<String, Vec<(u64, Option<tubewell::Failure>)>>,
    /// The tubes with a backoff.
    backing_off: HashSet<String>,
    /// With --once: the last take found no task.
    drained: bool,
    /// The remark about waiting has been printed.
    idle_noted: bool,
    last_signal: signals::StopSignal,
    /// The signals that asked to stop.
    signals: Vec<u8>,
    /// The signal that came within the last `SAME_SIGNAL`.
    recent_signal: Option<u8>,
    /// The commands were told to end, so that a failure does not count.
    terminating: Arc<AtomicBool>,
    failure: Option<Failure>,
}

impl<'a> Pool<'a> {
    pub fn new(
        store: &'a Store,
        tubes: Vec<Tube>,
        args: &'a Work,
        output: &'a mut Output,
    ) -> CommandResult<Pool<'a>> {
        let (send, events) = channel();
        let signals = send.clone();
        let receive = move |signal| signals.send(Event::Signal(signal)).is_ok();
        let last_signal = signals::forward(receive)?;
        let mut ready = 0;
        for tube in &tubes {
            ready += tube.statistics()?.tasks.ready;
        }
        let progress =
            if args.once { Progress::items("working", ready) } else { Progress::hidden() };
        Ok(Pool {
            store,
            tubes,
            args,
            report: Report::new(output, progress, args.once),
            policy: FailurePolicy::of(args),
            events,
            waker: Waker::from(Arc::new(TakeWaker(send.clone()))),
            send,
            taking: None,
            running: BTreeMap::new(),
            runs: 0,
            unfinished: 0,
            kept: HashMap::new(),
            backing_off: backing_off(store),
            drained: false,
            idle_noted: false,
            last_signal,
            signals: Vec::new(),
            recent_signal: None,
            terminating: Arc::new(AtomicBool::new(false)),
            failure: None,
        })
    }

    /// Runs commands until a signal, a failure or, with --once, the last task.
    pub fn run(mut self) -> CommandResult {
        loop {
            if let Err(failure) = self.fill() {
                self.fail(failure);
            }
            if self.is_over() {
                break;
            }
            // The channel stays open: `self` has a sender.
            self.events.recv().into_iter().for_each(|event| self.handle(event));
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
        }
        let released = self.release_kept();
        let reported = self.report.end();
        self.result(released.and(reported))
    }

    /// Starts commands while fewer than --jobs run and a task is ready.
    fn fill(&mut self) -> CommandResult {
        if self.is_stopping() {
            // Dropping the future releases a task that was assigned to it.
            self.taking = None;
            return Ok(());
        }
        self.drained = false;
        while self.running.len() < usize::from(self.args.jobs) {
            match self.take()? {
                Some(claim) => {
                    if !self.start(claim)? {
                        // Many tasks may need no command. Signals are received in between.
                        let _ = self.send.send(Event::TakeReady);
                        return Ok(());
                    }
                }
                None => {
                    self.drained = self.args.once && self.taking.is_none();
                    return self.note_idle();
                }
            }
        }
        Ok(())
    }

    /// Says once why nothing happens.
    fn note_idle(&mut self) -> CommandResult {
        let busy = self.args.once || !self.running.is_empty() || self.unfinished > 0;
        if busy || self.report.output.json || self.idle_noted || self.is_assigned()? {
            return Ok(());
        }
        self.idle_noted = true;
        let mut delayed = 0;
        for tube in &self.tubes {
            delayed += tube.statistics()?.tasks.delayed;
        }
        self.report.note(&match delayed {
            0 => "no task to wait for: no other process can put while work has the store open; \
                  Ctrl-C stops"
                .into(),
            _ => format!("waiting for {}; Ctrl-C stops", count(delayed, "delayed task")),
        });
        Ok(())
    }

    /// Whether the waiting take has a task already, and waits until its attempt is stored.
    fn is_assigned(&self) -> CommandResult<bool> {
        for tube in &self.tubes {
            if tube.statistics()?.tasks.taken == 0 {
                continue;
            }
            // The others are claims that `claim` has parked.
            for task in tube.list(State::Taken, None, PAGE)?.tasks {
                match tube.owner_of(task.id) {
                    Ok(Some(owner)) if !owner.is_parked => return Ok(true),
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(false)
    }

    /// Takes the next task. If there is none, a take waits for it. With --once it waits only for the
    /// rates of the tubes.
    fn take(&mut self) -> CommandResult<Option<Claim>> {
        if self.taking.is_none() {
            let timeout = if self.args.once { Some(self.longest_gap()?) } else { None };
            let tubes: Vec<&Tube> = self.tubes.iter().collect();
            if timeout == Some(Duration::ZERO) {
                let taken = self.store.take_any(&tubes, Duration::ZERO)?;
                if taken.is_some() || !self.has_blocked()? {
                    return Ok(taken);
                }
                // A task may be done whose children are not all free yet.
                self.store.catch_up()?;
                return Ok(self.store.take_any(&tubes, Duration::ZERO)?);
            }
            self.taking = Some(self.store.take_any_async(&tubes, timeout));
        }
        let Some(taking) = &mut self.taking else { return Ok(None) };
        match Pin::new(taking).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(claim) => {
                self.taking = None;
                Ok(claim?)
            }
        }
    }

    fn has_blocked(&self) -> CommandResult<bool> {
        for tube in &self.tubes {
            if tube.statistics()?.tasks.blocked > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How long the rates of the tubes may keep their ready tasks from being taken.
    fn longest_gap(&self) -> CommandResult<Duration> {
        let mut longest = Duration::ZERO;
        for tube in &self.tubes {
            let info = tube.info()?;
            if let Some(rate) = info.rate.filter(|_| !info.paused)
                && tube.statistics()?.tasks.ready > 0
            {
                longest = longest.max(rate.period());
            }
        }
        Ok(longest)
    }

    /// Starts a command for the task. False if the task was buried or released instead.
    fn start(&mut self, claim: Claim) -> CommandResult<bool> {
        if self.policy.is_exhausted(&claim) {
            self.finished(FailurePolicy::bury(claim));
            return Ok(false);
        }
        if !renew_without_limit(self.store, &claim)? {
            return Ok(false);
        }
        // With --json only objects go to standard output.
        let stdout =
            if self.report.output.json { Stdio::from(std::io::stderr()) } else { Stdio::inherit() };
        let program = self.args.command.first().cloned().unwrap_or_default();
        // Where a tube has rules for failures, they are reported; elsewhere, the options decide.
        let reports = claim.attempts_left().is_some() || self.backing_off.contains(claim.tube());
        let child = Child::start(&self.args.command, &claim, stdout, reports)
            .map_err(|error| not_started(&program, &error))?;
        let (run, group) = (self.runs, child.group());
        let (policy, send) = (self.policy, self.send.clone());
        let (terminating, last_signal) = (self.terminating.clone(), self.last_signal.clone());
        let attend = move || {
            let ended = child.wait();
            let send_ended = || drop(send.send(Event::Ended(run)));
            let succeeded = ended.status.as_ref().is_ok_and(ExitStatus::success);
            // After a success the next command may start while the ack waits for its flush. After
            // a failure the task must be back in its place before the next take.
            if succeeded {
                send_ended();
            }
            let terminated = terminating.load(Ordering::SeqCst)
                || last_signal.number().is_some_and(|signal| is_ended_by(&ended.status, signal))
                || (!succeeded && is_output_closed());
            // The loop ends after it has received both events.
            let finished = policy.finish(claim, ended, reports, terminated);
            let _ = send.send(Event::Finished(finished));
            if !succeeded {
                send_ended();
            }
        };
        let thread = std::thread::Builder::new().name("attendant".into()).spawn(attend);
        if let Err(error) = thread {
            group.terminate(true);
            return Err(not_started(&program, &error));
        }
        self.running.insert(run, group);
        self.runs += 1;
        self.unfinished += 1;
        Ok(true)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::TakeReady => {}
            Event::Ended(run) => {
                self.running.remove(&run);
            }
            Event::Finished(finished) => {
                self.unfinished -= 1;
                self.finished(finished);
            }
            Event::Signal(signal) => self.signal(signal),
            Event::SignalCounts => self.recent_signal = None,
            Event::KillDue => self.terminate_all(true),
        }
    }

    fn finished(&mut self, finished: Finished) {
        if let Err(failure) = self.report.finished(&finished) {
            self.fail(failure);
        }
        match finished.outcome {
            Outcome::Kept(failure) => {
                self.kept.entry(finished.tube).or_default().push((finished.id, failure));
            }
            // No signal ended it, so the closed output did. The next command would fail, too.
            Outcome::Ended if self.last_signal.number().is_none() => {
                self.fail(Failure::silent(Exit::Pipe));
            }
            Outcome::Unknown(failure) => {
                self.fail(failure.context(format!("task {}", finished.id)));
            }
            _ => {}
        }
    }

    /// Stops the run. The first failure is the one that is reported.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn is_stopping(&self) -> bool {
        !self.signals.is_empty() || self.failure.is_some()
    }

    fn is_over(&self) -> bool {
        (self.is_stopping() || self.drained) && self.running.is_empty() && self.unfinished == 0
    }

    fn result(self, last: CommandResult) -> CommandResult {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        last?;
        match self.signals.last() {
            // One signal is the usual way to stop a worker, but interrupts a run with --once.
            Some(signal) if self.args.once || self.signals.len() > 1 => {
                Err(Failure::silent(Exit::Signal(*signal)))
            }
            None if self.args.once && self.report.has_failures() => {
                Err(Failure::silent(Exit::Partly))
            }
            _ => Ok(()),
        }
    }
}

/// The tubes with a backoff.
fn backing_off(store: &Store) -> HashSet<String> {
    let tubes = store.tubes().into_iter();
    tubes.filter(|tube| tube.backoff != Backoff::none()).map(|tube| tube.name).collect()
}
