//! How many bytes of calls a server holds: those of the calls in flight, and of those that arrive.
//!
//! A call counts with its whole length before the rest of it is read: with a part of it, several connections could
//! have too little for any of their calls, and wait for each other.

use std::collections::VecDeque;

use super::attention::Attention;
use crate::limits::FREE;
use crate::os::Token;
use crate::sync::{Arc, Mutex};

/// The bytes of all connections of a server.
pub(crate) struct ByteBudget {
    most: usize,
    attention: Arc<Attention>,
    all: Mutex<All>,
}

impl ByteBudget {
    pub(crate) fn new(most: usize, attention: Arc<Attention>) -> ByteBudget {
        ByteBudget { most, attention, all: Mutex::default() }
    }

    /// Takes bytes for a call of a connection. False: the reading thread looks at the connection again when they
    /// may be there, unless it has left.
    pub(crate) fn take(&self, token: Token, bytes: usize) -> bool {
        let (is_taken, next) = self.all.lock().take(token, bytes, self.most);
        self.call(next);
        is_taken
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            let next = self.all.lock().give_back(bytes);
            self.call(next);
        }
    }

    /// Whether connections wait for bytes.
    pub(crate) fn do_calls_wait(&self) -> bool {
        !self.all.lock().waiting.is_empty()
    }

    /// A connection waits for no bytes any more.
    pub(crate) fn leave(&self, token: Token) {
        let next = self.all.lock().leave(token);
        self.call(next);
    }

    fn call(&self, next: Option<Token>) {
        if let Some(next) = next {
            self.attention.call(next);
        }
    }
}

/// Each of its functions returns the connection that may find its bytes now.
#[derive(Default)]
struct All {
    used: usize,
    /// The connections that wait, in the order of their arrival.
    waiting: VecDeque<Token>,
}

impl All {
    fn take(&mut self, token: Token, bytes: usize, most: usize) -> (bool, Option<Token>) {
        let place = self.waiting.iter().position(|other| *other == token);
        let is_first = place.map_or(self.waiting.is_empty(), |place| place == 0);
        let fits = self.used == 0 || bytes <= most.saturating_sub(self.used);
        if !is_first || !fits {
            if place.is_none() {
                self.waiting.push_back(token);
            }
            return (false, None);
        }
        self.used += bytes;
        if place.is_none() {
            return (true, None);
        }
        self.waiting.pop_front();
        (true, self.waiting.front().copied())
    }

    fn give_back(&mut self, bytes: usize) -> Option<Token> {
        self.used = self.used.saturating_sub(bytes);
        self.waiting.front().copied()
    }

    fn leave(&mut self, token: Token) -> Option<Token> {
        self.waiting.retain(|other| *other != token);
        self.waiting.front().copied()
    }
}

/// The bytes of one connection. No I/O.
#[derive(Default)]
pub(crate) struct HeldBytes {
    bytes: usize,
    /// Those of the call that arrives, or that the service is given now.
    arriving: usize,
    /// The next call is not read before bytes are given back.
    waits: bool,
}

impl HeldBytes {
    /// Whether the next call, of so many bytes, may be read. `take` takes bytes of all connections.
    pub(crate) fn may_read(
        &mut self,
        call: usize,
        most: usize,
        take: impl FnOnce(usize) -> bool,
    ) -> bool {
        if self.arriving > 0 {
            return true;
        }
        let with_call = self.bytes.saturating_add(call);
        let fits = self.bytes <= FREE || with_call <= most;
        let counted = counted(with_call) - counted(self.bytes);
        self.waits = !fits || (counted > 0 && !take(counted));
        if !self.waits {
            (self.bytes, self.arriving) = (with_call, call);
        }
        !self.waits
    }

    /// The next call is not read, whether there are bytes or not. Returns whether it has waited for them.
    pub(crate) fn end_wait(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Whether a long call arrives.
    pub(crate) fn is_long_arriving(&self) -> bool {
        self.arriving > FREE
    }

    /// The call that has arrived is in flight. Returns its bytes, which it keeps.
    pub(crate) fn keep(&mut self) -> usize {
        std::mem::take(&mut self.arriving)
    }

    /// The call that has arrived, or does not arrive any more, is not kept. Returns what to give back to all.
    #[must_use]
    pub(crate) fn end_arrival(&mut self) -> usize {
        let call = self.keep();
        self.release(call)
    }

    /// A call that has kept so many bytes has ended. Returns what to give back to all.
    #[must_use]
    pub(crate) fn release(&mut self, call: usize) -> usize {
        let before = counted(self.bytes);
        self.bytes = self.bytes.saturating_sub(call);
        before - counted(self.bytes)
    }
}

/// The part of the bytes of one connection that counts for all.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_wait_have_their_turns_in_order() {
        let [a, b, c] = [1, 2, 3].map(Token);
        let mut all = All::default();
        assert_eq!(all.take(a, 60, 100), (true, None));
        assert_eq!(all.take(b, 70, 100), (false, None));
        assert_eq!(all.take(c, 10, 100), (false, None), "it would overtake");
        assert_eq!(all.give_back(60), Some(b));
        assert_eq!(all.take(c, 10, 100), (false, None));
        assert_eq!(all.take(b, 70, 100), (true, Some(c)));
        assert_eq!(all.take(c, 10, 100), (true, None));
        assert_eq!(all.take(a, 50, 100), (false, None));
        assert_eq!(all.take(b, 5, 100), (false, None));
        assert_eq!(all.leave(a), Some(b));
        assert_eq!(all.take(b, 5, 100), (true, None));
        assert_eq!(all.used, 85);
    }

    #[test]
    fn call_above_the_limit_of_all_is_taken_alone() {
        let mut all = All::default();
        assert_eq!(all.take(Token(1), 1000, 100), (true, None));
        assert_eq!(all.take(Token(2), 1, 100), (false, None));
        assert_eq!(all.give_back(1000), Some(Token(2)));
    }

    #[test]
    fn first_bytes_of_a_connection_do_not_count_for_all() {
        let mut held = HeldBytes::default();
        assert!(held.may_read(FREE - 1, 10 * FREE, |_| panic!("not counted")));
        assert_eq!(held.keep(), FREE - 1);
        assert!(held.may_read(11, 10 * FREE, |counted| counted == 10));
        assert!(held.may_read(11, 10 * FREE, |_| panic!("taken before")));
        assert_eq!(held.release(FREE - 1), 10);
        assert_eq!(held.end_arrival(), 0);
    }

    #[test]
    fn calls_above_the_limit_of_a_connection_wait_and_a_long_one_is_read_alone() {
        let mut held = HeldBytes::default();
        assert!(held.may_read(9 * FREE, 2 * FREE, |_| true) && held.is_long_arriving());
        let long = held.keep();
        assert!(!held.may_read(1, 2 * FREE, |_| true) && held.waits);
        assert_eq!(held.release(long), 8 * FREE);
        assert!(held.may_read(1, 2 * FREE, |_| true) && !held.waits);
    }

    #[test]
    fn call_that_finds_no_bytes_of_all_takes_none() {
        let mut held = HeldBytes::default();
        assert!(!held.may_read(2 * FREE, 10 * FREE, |_| false));
        assert!(held.end_wait() && !held.end_wait());
        assert_eq!(held.end_arrival(), 0);
        assert!(held.may_read(2 * FREE, 10 * FREE, |counted| counted == FREE));
        assert_eq!(held.end_arrival(), FREE);
    }
}
