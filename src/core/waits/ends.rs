//! The end of waits: by timeout, with their session, and with the store.

use crate::core::state::{Core, Timer};
use crate::{Error, SessionId};

impl Core {
    /// Ends the wait of a take, a put or a watch whose timeout has elapsed.
    pub(in crate::core) fn time_out(&mut self, timer: Timer) {
        match timer {
            Timer::WaitingTake(arrival) => self.end_waiting_take(arrival, Ok(None)),
            Timer::WaitingPut(number, arrival) => {
                let full = self.tubes.get(&number).map(|tube| Error::Full {
                    tube: tube.definition.name.to_string(),
                    capacity: tube.definition.capacity,
                });
                self.end_waiting_put(number, arrival, Err(full.unwrap_or(Error::Closed)));
            }
            Timer::Watch(key) => self.end_watch(key, Ok(None)),
            _ => {}
        }
    }

    /// Ends every wait with the same error, in order of arrival.
    pub(crate) fn end_all_waits(&mut self, error: &Error) {
        let mut waiting: Vec<u64> = self.waiting_takes.keys().copied().collect();
        waiting.sort_unstable();
        for arrival in waiting {
            self.end_waiting_take(arrival, Err(error.clone()));
        }
        let mut putting: Vec<(u64, u32)> = self
            .tubes
            .iter()
            .flat_map(|(number, tube)| tube.waiting_puts.keys().map(|arrival| (*arrival, *number)))
            .collect();
        putting.sort_unstable();
        for (arrival, number) in putting {
            self.end_waiting_put(number, arrival, Err(error.clone()));
        }
        self.end_watches(|_, _| true, || Err(error.clone()));
        let signals = self.claims.values_mut().filter_map(|claim| claim.end_signal.take());
        self.effects.after_unlock.end_signals.extend(signals);
    }

    /// Ends the waits of a session, in order of arrival.
    pub(in crate::core) fn end_session_waits(&mut self, session: SessionId) {
        let mut takes: Vec<u64> = self
            .waiting_takes
            .iter()
            .filter(|(_, waiting_take)| waiting_take.session == session)
            .map(|(arrival, _)| *arrival)
            .collect();
        takes.sort_unstable();
        for arrival in takes {
            self.end_waiting_take(arrival, Err(Error::SessionEnded));
        }
        let mut puts: Vec<(u64, u32)> = self
            .tubes
            .iter()
            .flat_map(|(number, tube)| {
                tube.waiting_puts
                    .iter()
                    .map(move |(arrival, waiting_put)| (*number, *arrival, waiting_put.session))
            })
            .filter(|(_, _, owner)| *owner == session)
            .map(|(number, arrival, _)| (arrival, number))
            .collect();
        puts.sort_unstable();
        for (arrival, number) in puts {
            self.end_waiting_put(number, arrival, Err(Error::SessionEnded));
        }
        self.end_watches(|_, watch| watch.session == session, || Err(Error::SessionEnded));
    }

    /// The number of a new arrival, which orders the waiters.
    pub(in crate::core) fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}
