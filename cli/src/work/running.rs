//! The commands that run, and the signals that stop them.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tubewell::worker::Stopper;

use super::child::{Child, ProcessGroup, TERM_GRACE};
use crate::duration;
use crate::failure::Failure;
use crate::output::count;
use crate::progress::Progress;

/// The same signal twice within this time counts once: `timeout` sends it to the process and to its
/// group, and a terminal that is closed sends its own after the shell's.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// The commands that run, and why no further one starts.
pub struct Running {
    stopper: Stopper,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the thread that waits for it.
    groups: HashMap<ThreadId, Arc<ProcessGroup>>,
    /// The signals that asked to stop.
    signals: Vec<u8>,
    /// The last of them, and when it came.
    last: Option<(u8, Duration)>,
    failure: Option<Failure>,
}

impl Running {
    pub fn new(stopper: Stopper, progress: Arc<Progress>) -> Running {
        Running { stopper, progress, state: Mutex::default() }
    }

    /// Starts a command that this thread waits for. `None` if commands are terminated.
    pub fn start(&self, start: impl FnOnce() -> io::Result<Child>) -> Option<io::Result<Child>> {
        // Locked throughout, so that a signal finds every command that has begun.
        let mut state = self.state();
        if state.signals.len() > 1 {
            return None;
        }
        let child = start();
        if let Ok(child) = &child {
            state.groups.insert(thread::current().id(), child.group());
        }
        Some(child)
    }

    /// The command of this thread has ended. Returns whether commands are terminated, so that its
    /// failure does not count.
    pub fn ended(&self) -> bool {
        let mut state = self.state();
        state.groups.remove(&thread::current().id());
        state.signals.len() > 1
    }

    /// Stops the run. The first failure is the one that is reported.
    pub fn fail(&self, failure: Failure) {
        self.state().failure.get_or_insert(failure);
        self.stopper.stop();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopper.is_stopped()
    }

    /// Why the run has stopped: a failure, or signals.
    pub fn stopped(&self) -> (Option<Failure>, Vec<u8>) {
        let mut state = self.state();
        (state.failure.take(), state.signals.clone())
    }

    /// A signal asks to stop. Returns true: the next one counts, too.
    pub fn signal(self: &Arc<Self>, signal: u8) -> bool {
        let mut state = self.state();
        let now = self.progress.elapsed();
        let is_same = |(last, at)| last == signal && now.saturating_sub(at) < SAME_SIGNAL;
        if state.last.is_some_and(is_same) {
            return true;
        }
        state.last = Some((signal, now));
        state.signals.push(signal);
        let (signals, running) = (state.signals.len(), state.groups.len() as u64);
        drop(state);
        self.stopper.stop();
        let commands = count(running, "running command");
        let note = |text: String| {
            if running > 0 {
                self.progress.note(&text);
            }
        };
        match signals {
            1 => note(format!("stopping after {commands}; a second signal terminates them")),
            2 => {
                let grace = duration::show(TERM_GRACE);
                note(format!("sent SIGTERM to {commands}; SIGKILL follows in {grace}"));
                self.terminate_all(false);
                self.kill_later();
            }
            _ => self.terminate_all(true),
        }
        true
    }

    fn kill_later(self: &Arc<Self>) {
        let running = self.clone();
        let wait = move || {
            let (_open, never) = channel::<()>();
            let _ = never.recv_timeout(TERM_GRACE);
            running.terminate_all(true);
        };
        if thread::Builder::new().name("timer".into()).spawn(wait).is_err() {
            self.terminate_all(true);
        }
    }

    fn terminate_all(&self, kill: bool) {
        for group in self.state().groups.values() {
            group.terminate(kill);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
