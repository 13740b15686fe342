//! Steps to puts that are made again with their tokens.

use super::super::reference::{Driver, Keep, OnKey, Options};
use super::super::steps::{
    Action, Among, ByClaim, ById, ClockMove, Definition, KEYS, Setup, Step, TOKENS, TaskTemplate,
};
use super::{by_claim, by_id, steps_of};

const HOUR: u64 = 3_600_000_000;

/// Puts that are made again of a task in each state, after a reopen and a kill, until the token is
/// forgotten and after that.
pub(super) fn tokens(driver: Driver) -> (Setup, Vec<Step>) {
    let keep_done = Some(Keep::default());
    let plain = Options::default();
    let options = [
        plain.clone(),
        Options { keep_done, ..plain.clone() },
        Options { temporary: true, ..plain },
    ];
    let tubes = options.map(|options| Definition { driver, options, durability: None }).to_vec();
    let template = |token: usize, on_key| TaskTemplate {
        key: (on_key != OnKey::Reject).then(|| KEYS[0].to_owned()),
        on_key,
        token: Some(TOKENS[token].to_owned()),
        ..TaskTemplate::default()
    };
    let put = |tube, token| {
        let template = template(token, OnKey::Reject);
        Action::Put { client: 0, tube, template, deferred: false }
    };
    let take = |tube| Action::Take { client: 0, tube, keep: true };
    let advance = |by| Action::Advance { by: ClockMove::By(by) };
    let mut actions = Vec::new();
    for tube in 0..3 {
        let states = [
            vec![],
            vec![take(tube)],
            vec![by_id(tube, Among::Present, ById::Bury)],
            vec![take(tube), by_claim(ByClaim::Ack { deferred: false })],
            vec![by_id(tube, Among::Present, ById::MoveTo { to: 1 - tube.min(1) })],
            vec![Action::Reopen { closed_for: ClockMove::By(0) }],
            vec![Action::Kill { dead_for: ClockMove::By(0) }],
            vec![Action::Reopen { closed_for: ClockMove::By(HOUR - 1) }],
            vec![Action::Kill { dead_for: ClockMove::By(HOUR) }],
            vec![advance(HOUR - 1)],
            vec![advance(HOUR)],
            vec![Action::Truncate { tube }],
        ];
        for state in states {
            actions.push(put(tube, 0));
            actions.extend(state);
            actions.extend([put(tube, 0), put(1 - tube.min(1), 0)]);
            let keyed = [OnKey::Keep, OnKey::Replace, OnKey::Keep, OnKey::Replace];
            let puts = keyed.into_iter().zip([1, 2, 1, 2]);
            actions.extend(puts.map(|(on_key, token)| {
                let template = template(token, on_key);
                Action::Put { client: 0, tube, template, deferred: true }
            }));
            let templates = [0, 3, 3, 1].map(|token| template(token, OnKey::Reject)).to_vec();
            actions.push(Action::PutMany { client: 0, tube, templates });
            actions.extend((0..3).map(|tube| Action::Truncate { tube }));
            actions.push(advance(1));
        }
    }
    steps_of(tubes, actions)
}
