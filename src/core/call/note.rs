//! Notes the calls that were carried out, each with the verb and the parts in it. Only with the
//! feature `_peer`.

use super::{Call, HolderVerb, Verb};
use crate::core::met::add;

/// Notes a call that was carried out.
pub(super) fn note(call: &Call<'_>) {
    add(call);
    match call {
        Call::Tube(_, verb) => note_verb(verb),
        Call::Claim(_, verb) => note_held(verb),
        _ => {}
    }
}

fn note_verb(verb: &Verb<'_>) {
    add(verb);
    match verb {
        Verb::Held(_, _, verb) => note_held(verb),
        Verb::Wait(verb) => add(verb),
        Verb::Edges(verb) => add(verb),
        Verb::History(verb) => add(verb),
        Verb::List(verb) => add(verb),
        Verb::Schedules(verb) => add(verb),
        _ => {}
    }
}

fn note_held(verb: &HolderVerb<'_>) {
    add(verb);
    match verb {
        HolderVerb::Step(verb) => add(verb),
        HolderVerb::Progress(report) => add(report),
        _ => {}
    }
}
