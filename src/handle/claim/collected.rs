//! The claims of a call that takes several tasks, until its caller gets them.

use std::collections::VecDeque;

use super::Claim;
use crate::Bytes;

/// Claims that their caller has not got yet, in order. Dropping them releases the tasks, and their
/// attempts are forgiven.
pub(crate) struct Collected<T: 'static = Bytes>(VecDeque<Claim<T>>);

impl<T> Collected<T> {
    pub(crate) fn new(claims: Vec<Claim<T>>) -> Collected<T> {
        Collected(claims.into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn extend(&mut self, claims: impl IntoIterator<Item = Claim<T>>) {
        self.0.extend(claims);
    }

    /// Takes the first claim out.
    pub(crate) fn pop(&mut self) -> Option<Claim<T>> {
        self.0.pop_front()
    }

    /// The claims, for the caller.
    pub(crate) fn hand_out(mut self) -> Vec<Claim<T>> {
        std::mem::take(&mut self.0).into()
    }
}

impl Collected {
    pub(crate) fn first(&self) -> Option<&Claim> {
        self.0.front()
    }
}

impl<T> Drop for Collected<T> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Claim::give_back);
    }
}
