//! Which calls a thread has carried out, for tests that hold their workloads to the list of all calls.
//!
//! Only with the feature `_peer`. Without debug assertions none is noted.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static MET: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// The calls that this thread has carried out so far, and that were not refused, by the names of
/// their variants.
#[must_use]
pub fn met() -> BTreeSet<&'static str> {
    MET.with_borrow(Clone::clone)
}

/// Adds a call by its name.
#[cfg(debug_assertions)]
pub(in crate::core) fn add_name(name: &'static str) {
    MET.with_borrow_mut(|met| met.insert(name));
}
