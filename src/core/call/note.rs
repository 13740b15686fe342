//! Notes the calls that were carried out, each with the verb and the parts in it. Only with the
//! feature `_peer`.

use super::{Call, Verb};
use crate::core::met::add;

/// Notes a call that was carried out.
pub(super) fn note(call: &Call<'_>) {
    add(call);
    if let Call::Tube(_, verb) = call {
        note_verb(verb);
    }
}

fn note_verb(verb: &Verb<'_>) {
    add(verb);
    match verb {
        Verb::Wait(verb) => add(verb),
        Verb::Edges(verb) => add(verb),
        Verb::History(verb) => add(verb),
        Verb::List(verb) => add(verb),
        Verb::Schedules(verb) => add(verb),
        _ => {}
    }
}
