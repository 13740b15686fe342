//! The end of `work`: signals, the end of running commands, and the tasks that were kept.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use tubewell::{Error, WhenFull};

use super::{Event, Pool};
use crate::duration;
use crate::failure::CommandResult;
use crate::output::count;

/// How long a command may run after SIGTERM before it gets SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// The same signal twice within this time counts once: `timeout` sends it to the process and to its
/// group, and a terminal that is closed sends its own after the shell's.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

impl Pool<'_> {
    pub(super) fn signal(&mut self, signal: u8) {
        if self.recent_signal == Some(signal) {
            return;
        }
        self.recent_signal = self.after(SAME_SIGNAL, Event::SignalCounts).then_some(signal);
        self.signals.push(signal);
        let running = self.running.len() as u64;
        match self.signals.len() {
            1 if running > 0 => self.report.note(&format!(
                "stopping after {}; a second signal terminates them",
                count(running, "running command")
            )),
            1 => {}
            2 => {
                self.terminating.store(true, Ordering::SeqCst);
                if running > 0 {
                    self.report.note(&format!(
                        "sent SIGTERM to {}; SIGKILL follows in {}",
                        count(running, "running command"),
                        duration::show(TERM_GRACE)
                    ));
                }
                self.terminate_all(false);
                if !self.after(TERM_GRACE, Event::KillDue) {
                    self.terminate_all(true);
                }
            }
            _ => self.terminate_all(true),
        }
    }

    pub(super) fn terminate_all(&self, kill: bool) {
        self.running.values().for_each(|group| group.terminate(kill));
    }

    /// Releases the failed tasks that were kept until the end of the run, or reports them as failed.
    pub(super) fn release_kept(&mut self) -> CommandResult {
        let delay = self.args.delay;
        for tube in &self.tubes {
            let deferred = tube.deferred(WhenFull::Block);
            // They share a few flushes.
            let mut tickets = Vec::new();
            for (id, failure) in self.kept.remove(tube.name()).unwrap_or_default() {
                let ticket = match (failure, delay) {
                    (None, _) => deferred.release(id, delay.unwrap_or_default()),
                    (Some(failure), None) => deferred.fail(id, &failure),
                    (Some(failure), Some(delay)) => deferred.fail_in(id, delay, &failure),
                };
                match ticket {
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

    /// Sends an event after this time. False if no thread could be started for it.
    fn after(&self, time: Duration, event: Event) -> bool {
        let send = self.send.clone();
        let wait = move || {
            let (_open, never) = channel::<()>();
            let _ = never.recv_timeout(time);
            let _ = send.send(event);
        };
        std::thread::Builder::new().name("timer".into()).spawn(wait).is_ok()
    }
}
