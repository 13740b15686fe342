//! Steps to the replacement of tasks by their keys.

use super::super::reference::{Driver, Keep, NEVER, OnKey, Options};
use super::super::steps::{
    Action, Among, ByClaim, ById, Definition, KEYS, Setup, Step, TaskTemplate,
};
use super::{by_claim, by_id, steps_of};

/// Steps to a replacement of a task in each state, with a delay and without.
pub(super) fn replacements(driver: Driver) -> (Setup, Vec<Step>) {
    let keep_done = Some(Keep::default());
    let options = Options { keep_done, max_attempts: Some(9), ..Options::default() };
    let temporary = Options { temporary: true, ..options.clone() };
    let tubes = [options.clone(), temporary, options];
    let tubes = tubes.map(|options| Definition { driver, options, durability: None }).to_vec();
    let put = |tube, delay, on_key| {
        let key = Some(KEYS[0].to_owned());
        let template = TaskTemplate { delay, key, on_key, ..TaskTemplate::default() };
        Action::Put { client: 0, tube, template, deferred: false }
    };
    let mut actions = Vec::new();
    let places = [(0, 0), (1, 1), (0, 2)];
    for ((tube, to), delay) in places.into_iter().flat_map(|at| [(at, 0), (at, 1000)]) {
        let take = Action::Take { client: 1, tube, keep: true };
        let park = by_claim(ByClaim::Park { hold: NEVER, deferred: false });
        let states = [
            vec![],
            vec![take.clone()],
            vec![take.clone(), park],
            vec![put(tube, 1000, OnKey::Replace)],
            vec![by_id(tube, Among::Present, ById::Bury)],
            vec![take, by_claim(ByClaim::AckWith { size: 3, deferred: false })],
        ];
        for state in states {
            actions.push(put(tube, 0, OnKey::Reject));
            actions.extend(state);
            actions.push(put(tube, 0, OnKey::Keep));
            actions.push(put(1 - tube, 0, OnKey::Replace));
            actions.push(put(to, delay, OnKey::Replace));
            actions.push(Action::Truncate { tube: to });
        }
    }
    steps_of(tubes, actions)
}
