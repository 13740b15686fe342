//! The claims of a call that takes several tasks, until its caller gets them.

use std::collections::VecDeque;

use super::Claim;

/// Claims that their caller has not got yet, in order. Dropping them releases the tasks, and their
/// attempts are forgiven.
pub(crate) struct Collected<C: GiveBack = Claim>(VecDeque<C>);

/// A claim that can be released before any code has begun to work on the task.
pub(crate) trait GiveBack {
    /// Releases the task. The attempt is forgiven.
    fn give_back(self);
}

impl GiveBack for Claim {
    fn give_back(self) {
        Claim::give_back(self);
    }
}

impl<C: GiveBack> Collected<C> {
    pub(crate) fn new(claims: Vec<C>) -> Collected<C> {
        Collected(claims.into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn extend(&mut self, claims: impl IntoIterator<Item = C>) {
        self.0.extend(claims);
    }

    /// Takes the first claim out.
    pub(crate) fn pop(&mut self) -> Option<C> {
        self.0.pop_front()
    }

    /// The claims, for the caller.
    pub(crate) fn hand_out(mut self) -> Vec<C> {
        std::mem::take(&mut self.0).into()
    }
}

impl Collected {
    pub(crate) fn first(&self) -> Option<&Claim> {
        self.0.front()
    }
}

impl<C: GiveBack> Drop for Collected<C> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(C::give_back);
    }
}
