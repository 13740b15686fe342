//! Steps that add entries to the histories of tasks, and edit their tags, in every state.

use super::super::reference::{Driver, Keep, NEVER, OnParent, Options};
use super::super::steps::{Action, Among, ByClaim, ById, Choice, Definition, Pick, Setup, Step};
use super::parents::{by_last, child};
use super::{by_claim, by_id, put, put_later, steps_of};

pub(super) fn logs(driver: Driver) -> (Setup, Vec<Step>) {
    let keep_done = Some(Keep { count: None, age: None });
    let options = Options { history: 3, keep_done, ..Options::default() };
    let take = || Action::Take { client: 0, tube: 0, keep: true };
    let resume = Action::ResumeClaim { client: 0, token: Choice(0), any: false, keep: true };
    let parent = Pick { tube: 0, among: Among::Present, index: Choice(0) };
    let mut actions = Vec::new();
    actions.push(put(0));
    actions.extend(edits(Among::Present));
    actions.push(take());
    actions.extend(edits(Among::Held));
    actions.push(by_claim(ByClaim::Park { hold: NEVER, deferred: false }));
    actions.extend(edits(Among::Parked));
    actions.extend([resume, by_claim(ByClaim::Ack { deferred: false })]);
    actions.extend(edits(Among::Kept));
    actions.extend([put(0), by_id(0, Among::Present, ById::Bury)]);
    actions.extend(edits(Among::Present));
    actions.extend([Action::Truncate { tube: 0 }, put_later(0)]);
    actions.extend(edits(Among::Present));
    actions.extend([Action::Truncate { tube: 0 }, put(0), child(0, &[parent], OnParent::Wait, 0)]);
    actions.extend(verbs().map(|verb| by_last(0, verb)));
    steps_of(vec![Definition { driver, options, durability: None }], actions)
}

fn edits(among: Among) -> [Action; 3] {
    verbs().map(|verb| by_id(0, among, verb))
}

fn verbs() -> [ById; 3] {
    let edit = |adds| ById::EditTags { tags: vec!["red".to_owned()], adds };
    [ById::Log, edit(true), edit(false)]
}
