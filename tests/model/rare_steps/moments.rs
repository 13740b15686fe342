//! Steps with tasks that wait for a moment of the wall clock.

use super::super::reference::{Driver, Micros, NEVER, Options};
use super::super::steps::{
    Action, Among, ByClaim, ById, Choice, ClockMove, Definition, Group, Moment, Pick, Setup, Step,
    TaskTemplate, WallMove,
};
use super::{by_claim, by_id, put, steps_of};

const LATER: Micros = 5000;

/// A task is taken at its moment, the wall clock is set back, and the claim ends in each way. A
/// buried task is kicked, and a child is freed, before its moment.
pub(super) fn moments(driver: Driver) -> (Setup, Vec<Step>) {
    let options = [
        Options::default(),
        Options { max_attempts: Some(9), ..Options::default() },
        Options { temporary: true, ..Options::default() },
    ];
    let tubes = options.map(|options| Definition { driver, options, durability: None }).to_vec();
    let mut actions = Vec::new();
    for tube in 0..tubes.len() {
        let all = || ends_of_claims(tube).into_iter();
        let park = by_claim(ByClaim::Park { hold: NEVER, deferred: false });
        let parked = all().take(3).map(|end| [vec![park.clone()], end].concat());
        for end in all().chain(parked) {
            actions.extend([put_at(tube, Moment::In(0)), take(tube)]);
            actions.push(Action::SetWall { to: WallMove::Back(LATER) });
            actions.extend(end);
            actions.extend(until_it_is_ready(tube));
        }
        for (reach, wait) in ways_to_wait(tube) {
            actions.push(put_at(tube, Moment::In(LATER)));
            actions.extend(reach);
            actions.extend(wait);
            actions.extend(until_it_is_ready(tube));
        }
    }
    steps_of(tubes, actions)
}

/// The first ones are of other callers than the holder.
fn ends_of_claims(tube: usize) -> Vec<Vec<Action>> {
    let release_all = |forgive| vec![Action::ReleaseAll { tube, forgive }];
    let fail = ByClaim::Fail { delay: None, group: Group::Timeout, deferred: false };
    vec![
        release_all(false),
        release_all(true),
        vec![by_id(tube, Among::Present, ById::Revoke)],
        vec![by_claim(ByClaim::Drop)],
        vec![by_claim(ByClaim::Release { delay: 0 })],
        vec![by_claim(ByClaim::Release { delay: 2 * LATER })],
        vec![by_claim(fail)],
        vec![by_claim(ByClaim::Snooze { delay: 0, deferred: false })],
        vec![by_claim(ByClaim::Renew { time_left: 1 }), advance(1)],
        vec![by_id(tube, Among::Present, ById::MoveTo { to: 1 - tube.min(1) })],
        vec![Action::EndSession { client: 1 }],
        vec![Action::Reopen { closed_for: ClockMove::By(0) }],
        vec![Action::Kill { dead_for: ClockMove::By(0) }],
    ]
}

/// Steps of a task before its moment, and steps after which it waits for it.
fn ways_to_wait(tube: usize) -> Vec<(Vec<Action>, Vec<Action>)> {
    let on = |verb| by_id(tube, Among::Present, verb);
    let last = Pick { tube, among: Among::Present, index: Choice(usize::MAX) };
    let add = vec![put(tube), on(ById::AddParents { of: tube, parents: vec![last] })];
    let update = |delay, not_before| {
        on(ById::Update { size: None, priority: None, delay, not_before: Some(not_before) })
    };
    vec![
        (vec![on(ById::Bury), advance(LATER / 2)], vec![on(ById::Kick)]),
        (add.clone(), vec![on(ById::RemoveParents { parent: None })]),
        (add, vec![take(tube), by_claim(ByClaim::Ack { deferred: false })]),
        (vec![update(None, None), take(tube)], vec![by_claim(ByClaim::Release { delay: 0 })]),
        (vec![update(Some(LATER), Some(Moment::In(1)))], vec![advance(LATER)]),
        (vec![update(Some(1), Some(Moment::In(LATER)))], vec![advance(LATER)]),
        (vec![update(Some(NEVER), None)], vec![update(Some(0), Some(Moment::Never))]),
        (vec![], vec![Action::SetWall { to: WallMove::ToMoment { nth: 0, offset: 0 } }]),
    ]
}

/// Its moment comes again, and it is taken.
fn until_it_is_ready(tube: usize) -> [Action; 7] {
    [
        advance(LATER - 1),
        take(tube),
        advance(1),
        take(tube),
        Action::SetWall { to: WallMove::Right },
        Action::Truncate { tube },
        Action::Truncate { tube: 1 - tube.min(1) },
    ]
}

fn put_at(tube: usize, moment: Moment) -> Action {
    let template =
        TaskTemplate { not_before: Some(moment), ttl: Some(4 * LATER), ..TaskTemplate::default() };
    Action::Put { client: 1, tube, template, deferred: false }
}

fn take(tube: usize) -> Action {
    Action::Take { client: 1, tube, keep: true }
}

fn advance(by: Micros) -> Action {
    Action::Advance { by: ClockMove::By(by) }
}
