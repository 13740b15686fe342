//! The loop of `work`: takes tasks while there is room, and waits for whatever happens next.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Claim, Error, Store, TakeFuture, Tube, WhenFull};

use super::child::{Child, Group, not_started, reader_has_gone};
use super::report::Report;
use super::settle::{Fate, Rules, Settled, is_end_by};
use crate::args::Work;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count};
use crate::progress::Progress;
use crate::store::hold;
use crate::{duration, signals};

/// How long a command that was asked to end may take before it is ended by force.
const PATIENCE: Duration = Duration::from_secs(5);

/// A signal that comes twice within so long is one: `timeout` sends it to the process and to its
/// group, a terminal that is closed sends its own after the shell's.
const ECHO: Duration = Duration::from_millis(100);

/// What the loop waits for. There is one channel for all, so that nothing is ever polled.
enum Event {
    /// A waiting take may have its task.
    Ready,
    /// The command of this run has ended: there is room for the next one.
    Ended(u64),
    Settled(Settled),
    Signal(u8),
    /// If a signal comes again from now on, it is another one.
    Quiet,
    /// Commands that were asked to end have had their time.
    Overdue,
}

/// Tells the loop that the waiting take is to be looked at.
struct Nudge(Sender<Event>);

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        // The loop may have ended.
        let _ = self.0.send(Event::Ready);
    }
}

/// The commands that run, and what is to become of their tasks.
pub struct Pool<'a> {
    store: &'a Store,
    tubes: Vec<Tube>,
    asked: &'a Work,
    report: Report<'a>,
    rules: Rules,
    events: Receiver<Event>,
    tell: Sender<Event>,
    waker: Waker,
    /// The take that waits for a task.
    taking: Option<TakeFuture>,
    /// By the number of the run: a task may be tried again before its last run is heard to end.
    running: BTreeMap<u64, Arc<Group>>,
    runs: u64,
    /// Tasks whose commands have ended, but that are not settled.
    unsettled: usize,
    /// Failed tasks that stay taken until the end, by tube.
    kept: HashMap<String, Vec<u64>>,
    /// With --once: nothing was ready at the last look.
    drained: bool,
    /// That there is nothing to do has been said.
    idle_told: bool,
    heard: signals::Asked,
    /// The signals that asked to stop.
    signals: Vec<u8>,
    /// The one of them that came a moment ago.
    echoing: Option<u8>,
    /// The commands were asked to end; what fails now did not fail by itself.
    ending: Arc<AtomicBool>,
    failure: Option<Failure>,
}

impl<'a> Pool<'a> {
    pub fn new(
        store: &'a Store,
        tubes: Vec<Tube>,
        asked: &'a Work,
        output: &'a mut Output,
    ) -> Outcome<Pool<'a>> {
        let (tell, events) = channel();
        let stop = tell.clone();
        let heard = signals::forward(move |signal| stop.send(Event::Signal(signal)).is_ok())?;
        let mut ready = 0;
        for tube in &tubes {
            ready += tube.statistics()?.tasks.ready;
        }
        let progress =
            if asked.once { Progress::things("working", ready) } else { Progress::none() };
        Ok(Pool {
            store,
            tubes,
            asked,
            report: Report::new(output, progress, asked.once),
            rules: Rules::of(asked),
            events,
            waker: Waker::from(Arc::new(Nudge(tell.clone()))),
            tell,
            taking: None,
            running: BTreeMap::new(),
            runs: 0,
            unsettled: 0,
            kept: HashMap::new(),
            drained: false,
            idle_told: false,
            heard,
            signals: Vec::new(),
            echoing: None,
            ending: Arc::new(AtomicBool::new(false)),
            failure: None,
        })
    }

    /// Runs until there is no reason to go on.
    pub fn run(mut self) -> Outcome {
        loop {
            if let Err(failure) = self.fill() {
                self.fail(failure);
            }
            if self.is_over() {
                break;
            }
            // It never ends: this end tells, too.
            self.events.recv().into_iter().for_each(|event| self.handle(event));
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
        }
        let released = self.release_kept();
        let told = self.report.end();
        self.outcome(released.and(told))
    }

    /// Starts commands while there is room and a task.
    fn fill(&mut self) -> Outcome {
        if self.is_stopping() {
            // Leaves the line; a task that it was just given goes back.
            self.taking = None;
            return Ok(());
        }
        self.drained = false;
        while self.running.len() < usize::from(self.asked.jobs) {
            match self.take()? {
                Some(claim) => {
                    if !self.start(claim)? {
                        // There may be many of these: who asks to stop meanwhile is to be heard.
                        let _ = self.tell.send(Event::Ready);
                        return Ok(());
                    }
                }
                None => {
                    self.drained = self.asked.once;
                    return self.tell_idle();
                }
            }
        }
        Ok(())
    }

    /// Says once what is being waited for: it looks as if it hung, and often that is a mistake.
    fn tell_idle(&mut self) -> Outcome {
        let busy = self.asked.once || !self.running.is_empty() || self.unsettled > 0;
        if busy || self.report.output.json || std::mem::replace(&mut self.idle_told, true) {
            return Ok(());
        }
        let mut delayed = 0;
        for tube in &self.tubes {
            delayed += tube.statistics()?.tasks.delayed;
        }
        self.report.note(&match delayed {
            0 => {
                "nothing to do, and nobody can put while work has the store; Ctrl-C ends it".into()
            }
            _ => format!("waiting for {}; Ctrl-C ends it", count(delayed, "delayed task")),
        });
        Ok(())
    }

    /// The next task, if there is one; otherwise, but for --once, stands in line for it.
    fn take(&mut self) -> Outcome<Option<Claim>> {
        let tubes: Vec<&Tube> = self.tubes.iter().collect();
        if self.asked.once {
            return Ok(self.store.take_any(&tubes, Duration::ZERO)?);
        }
        let store = self.store;
        let taking = self.taking.get_or_insert_with(|| store.take_any_async(&tubes, None));
        match Pin::new(taking).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(claim) => {
                self.taking = None;
                Ok(claim?)
            }
        }
    }

    /// Starts a command for the task. False: it was set aside, or is ready again, without one.
    fn start(&mut self, claim: Claim) -> Outcome<bool> {
        if self.rules.is_spent(&claim) {
            self.settled(Rules::set_aside(claim));
            return Ok(false);
        }
        if !hold(self.store, &claim)? {
            return Ok(false);
        }
        // Objects on standard output must not be mixed with what the commands print.
        let stdout =
            if self.report.output.json { Stdio::from(std::io::stderr()) } else { Stdio::inherit() };
        let program = self.asked.command.first().cloned().unwrap_or_default();
        let child = Child::start(&self.asked.command, &claim, stdout)
            .map_err(|error| not_started(&program, &error))?;
        let (run, group) = (self.runs, child.group());
        let (rules, tell) = (self.rules, self.tell.clone());
        let (ending, heard) = (self.ending.clone(), self.heard.clone());
        let attend = move || {
            let status = child.wait();
            let tell_ended = || drop(tell.send(Event::Ended(run)));
            let succeeded = status.as_ref().is_ok_and(ExitStatus::success);
            // The next command may run while this one's ack waits for its flush. A task that is
            // given back is to be in its old place, though, before the next one is taken.
            if succeeded {
                tell_ended();
            }
            let ended = ending.load(Ordering::SeqCst)
                || heard.to_stop().is_some_and(|signal| is_end_by(&status, signal))
                || (!succeeded && reader_has_gone());
            // The loop ends when it has both, never before.
            let _ = tell.send(Event::Settled(rules.settle(claim, status, ended)));
            if !succeeded {
                tell_ended();
            }
        };
        let thread = std::thread::Builder::new().name("attendant".into()).spawn(attend);
        if let Err(error) = thread {
            group.end(true);
            return Err(not_started(&program, &error));
        }
        self.running.insert(run, group);
        self.runs += 1;
        self.unsettled += 1;
        Ok(true)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ready => {}
            Event::Ended(run) => {
                self.running.remove(&run);
            }
            Event::Settled(settled) => {
                self.unsettled -= 1;
                self.settled(settled);
            }
            Event::Signal(signal) => self.signal(signal),
            Event::Quiet => self.echoing = None,
            Event::Overdue => self.end_all(true),
        }
    }

    fn settled(&mut self, settled: Settled) {
        if let Err(failure) = self.report.settled(&settled) {
            self.fail(failure);
        }
        match settled.fate {
            Fate::Kept => self.kept.entry(settled.tube).or_default().push(settled.id),
            // Not ended by us, so by a pipe that nobody reads: the next ones would fare no better.
            Fate::Ended if self.heard.to_stop().is_none() => {
                self.fail(Failure::quiet(Exit::Pipe));
            }
            Fate::Broken(failure) => self.fail(failure.about(format!("task {}", settled.id))),
            _ => {}
        }
    }

    fn signal(&mut self, signal: u8) {
        if self.echoing == Some(signal) {
            return;
        }
        self.echoing = self.after(ECHO, Event::Quiet).then_some(signal);
        self.signals.push(signal);
        let running = self.running.len() as u64;
        match self.signals.len() {
            1 if running > 0 => self.report.note(&format!(
                "stopping: {} may finish; once more to end them",
                count(running, "running command")
            )),
            1 => {}
            2 => {
                self.ending.store(true, Ordering::SeqCst);
                if running > 0 {
                    self.report.note(&format!(
                        "ending {}; by force in {}",
                        count(running, "running command"),
                        duration::show(PATIENCE)
                    ));
                }
                self.end_all(false);
                // Whatever else happens meanwhile.
                if !self.after(PATIENCE, Event::Overdue) {
                    self.end_all(true);
                }
            }
            _ => self.end_all(true),
        }
    }

    fn end_all(&self, by_force: bool) {
        self.running.values().for_each(|group| group.end(by_force));
    }

    /// Tells an event some time later. False: it will not.
    fn after(&self, time: Duration, event: Event) -> bool {
        let tell = self.tell.clone();
        let wait = move || {
            let (_open, never) = channel::<()>();
            let _ = never.recv_timeout(time);
            let _ = tell.send(event);
        };
        std::thread::Builder::new().name("later".into()).spawn(wait).is_ok()
    }

    /// Nothing new starts; the first failure is the one that is told.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn is_stopping(&self) -> bool {
        !self.signals.is_empty() || self.failure.is_some()
    }

    fn is_over(&self) -> bool {
        (self.is_stopping() || self.drained) && self.running.is_empty() && self.unsettled == 0
    }

    /// Gives back the failed tasks that were kept from being tried again in this run.
    fn release_kept(&mut self) -> Outcome {
        let delay = self.asked.delay.unwrap_or_default();
        for tube in &self.tubes {
            let deferred = tube.deferred(WhenFull::Block);
            // All of them share a few flushes.
            let mut tickets = Vec::new();
            for id in self.kept.remove(tube.name()).unwrap_or_default() {
                match deferred.release(id, delay) {
                    Ok(ticket) => tickets.push(ticket),
                    Err(Error::NotTaken { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            for ticket in tickets {
                ticket.wait()?;
            }
        }
        Ok(())
    }

    fn outcome(self, last: Outcome) -> Outcome {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        last?;
        match self.signals.last() {
            // To be asked to stop is the ordinary end of a worker, but not of a drain.
            Some(signal) if self.asked.once || self.signals.len() > 1 => {
                Err(Failure::quiet(Exit::Signal(*signal)))
            }
            None if self.asked.once && self.report.has_failures() => {
                Err(Failure::quiet(Exit::Partly))
            }
            _ => Ok(()),
        }
    }
}
