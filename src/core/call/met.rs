//! Which calls a thread has carried out, for tests that hold their workloads to the list of all calls.
//!
//! Only with the feature `_peer`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{Call, HolderVerb, Verb};
use crate::core::wire::Named;

thread_local! {
    static MET: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// The calls that this thread has carried out so far, and that were not refused, by the names of
/// their variants.
#[must_use]
pub fn met() -> BTreeSet<&'static str> {
    MET.with_borrow(Clone::clone)
}

/// Notes a call that was carried out.
pub(super) fn note(call: &Call<'_>) {
    MET.with_borrow_mut(|met| {
        let mut note = |named: &dyn Named| {
            met.insert(named.name());
        };
        note(call);
        match call {
            Call::Tube(_, verb) => note_verb(verb, &mut note),
            Call::Claim(_, verb) => note_held(verb, &mut note),
            _ => {}
        }
    });
}

fn note_verb(verb: &Verb<'_>, note: &mut impl FnMut(&dyn Named)) {
    note(verb);
    match verb {
        Verb::Held(_, _, verb) => note_held(verb, note),
        Verb::Wait(verb) => note(verb),
        Verb::Edges(verb) => note(verb),
        Verb::History(verb) => note(verb),
        Verb::List(verb) => note(verb),
        Verb::Schedules(verb) => note(verb),
        Verb::EditTags { edit, .. } => note(edit),
        _ => {}
    }
}

fn note_held(verb: &HolderVerb<'_>, note: &mut impl FnMut(&dyn Named)) {
    note(verb);
    match verb {
        HolderVerb::Step(verb) => note(verb),
        HolderVerb::Progress(report) => note(report),
        _ => {}
    }
}
