//! The sessions that were ended by a call.
//!
//! A connection that is made again begins the sessions that it had, since they may have ended with the
//! connection before. It must not begin one that a call has ended. Invariant: at most [`MOST`] ids.

use std::collections::{BTreeSet, VecDeque};

use crate::SessionId;

/// How many ids are kept, the newest ones. As many sessions as a connection may have.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(in crate::core) struct EndedSessions {
    ids: BTreeSet<SessionId>,
    oldest_first: VecDeque<SessionId>,
}

impl EndedSessions {
    pub(in crate::core) fn add(&mut self, id: SessionId) {
        if !self.ids.insert(id) {
            return;
        }
        self.oldest_first.push_back(id);
        if self.oldest_first.len() > MOST
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(in crate::core) fn contains(&self, id: SessionId) -> bool {
        self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> SessionId {
        SessionId::from_bytes((number as u128).to_le_bytes())
    }

    #[test]
    fn newest_ids_are_kept() {
        let mut ended = EndedSessions::default();
        for number in 0..=MOST {
            ended.add(id(number));
            // A session that has ended is ended again.
            ended.add(id(number));
        }
        assert!(!ended.contains(id(0)));
        assert!((1..=MOST).all(|number| ended.contains(id(number))));
        assert_eq!((ended.ids.len(), ended.oldest_first.len()), (MOST, MOST));
    }
}
