//! The end of waits: by timeout, with their session, and with the store.

use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, SessionWait, Timer};
use crate::{Error, SessionId};

impl Core {
    /// Ends the wait of a take, a put or a watch whose timeout has elapsed.
    pub(in crate::core) fn time_out(&mut self, timer: Timer) {
        match timer {
            Timer::WaitingTake(arrival) => self.end_waiting_take(arrival, Ok(None)),
            Timer::WaitingPut(number, arrival) => {
                let full = self.tubes.get(number).map(|tube| Error::Full {
                    tube: tube.definition.name.to_string(),
                    capacity: tube.definition.policies.capacity,
                });
                self.end_waiting_put(number, arrival, Err(full.unwrap_or(Error::Closed)));
            }
            Timer::Watch(key) => self.end_watch(key, Ok(None)),
            _ => {}
        }
    }

    /// Ends every wait with the same error, in order of arrival.
    pub(crate) fn end_all_waits(&mut self, error: &Error) {
        let mut waiting: Vec<u64> = self.waits.takes().map(|(arrival, _)| arrival).collect();
        waiting.sort_unstable();
        for arrival in waiting {
            self.end_waiting_take(arrival, Err(error.clone()));
        }
        let mut putting: Vec<(u64, TubeNo)> = self
            .tubes
            .iter()
            .flat_map(|(number, tube)| {
                tube.waiting_puts.keys().map(move |arrival| (*arrival, number))
            })
            .collect();
        putting.sort_unstable();
        for (arrival, number) in putting {
            self.end_waiting_put(number, arrival, Err(error.clone()));
        }
        self.end_watches_in(.., || Err(error.clone()));
        let signals = self.claims.take_end_signals();
        self.effects.after_unlock.deeds().end_signals.extend(signals);
    }

    /// Ends the waits of a session, in order of arrival.
    pub(in crate::core) fn end_session_waits(&mut self, session: SessionId) {
        for wait in self.sessions.take_waits(session) {
            self.visit();
            match wait {
                SessionWait::Take(arrival) => {
                    self.end_waiting_take(arrival, Err(Error::SessionEnded));
                }
                SessionWait::Put(arrival, number) => {
                    self.end_waiting_put(number, arrival, Err(Error::SessionEnded));
                }
                SessionWait::Watch(key) => self.end_watch(key, Err(Error::SessionEnded)),
            }
        }
    }

    /// Checks that each call that waits is known to its session.
    pub(in crate::core) fn check_session_waits(&self, findings: &mut Vec<String>) {
        let takes = self.waits.takes();
        let takes = takes.map(|(arrival, take)| (take.session, SessionWait::Take(arrival)));
        let puts = self.tubes.iter().flat_map(|(number, tube)| {
            let puts = tube.waiting_puts.iter();
            puts.map(move |(arrival, put)| (put.session, SessionWait::Put(*arrival, number)))
        });
        let watches = self.waits.watches.iter();
        let watches = watches.map(|(key, watch)| (watch.session, SessionWait::Watch(key)));
        let waiting: Vec<_> = takes.chain(puts).chain(watches).collect();
        let known: usize = self.sessions.iter().map(|(_, session)| session.waits.len()).sum();
        let is_known = |(session, wait): &(SessionId, SessionWait)| {
            self.sessions.get(*session).is_some_and(|session| session.waits.contains(wait))
        };
        if known != waiting.len() || !waiting.iter().all(is_known) {
            findings.push("the sessions know other waits than those that there are".into());
        }
    }
}
