//! Steps of schedules and their runs.

use super::super::reference::{Driver, Micros, Missed, OnKey, Options};
use super::super::steps::{
    Action, Among, ByClaim, ById, ClockMove, Definition, Moment, RestoredRunsTemplate, Setup, Step,
    TaskTemplate, TermsTemplate, WallMove,
};
use super::{by_claim, by_id, put, put_later, steps_of};

const MS: Micros = 1000;
const SECOND: Micros = 1000 * MS;

/// Each end of a schedule, each way to miss a run, and runs of which the last one is not over.
pub(super) fn schedules(driver: Driver) -> (Setup, Vec<Step>) {
    let options = [
        Options { history: 3, ..Options::default() },
        Options { temporary: true, ..Options::default() },
        Options { capacity: Some(1).filter(|_| driver.bounded()), ..Options::default() },
    ];
    let tubes = options.map(|options| Definition { driver, options, durability: None }).to_vec();
    let mut actions = Vec::new();
    for (tube, other) in [(0, 2), (1, 1)] {
        let definition = tubes[tube].clone();
        let (client, same, opens) = (0, false, false);
        let create = Action::CreateTube { client, tube, definition, same, opens };
        let create = vec![Action::DropTube { tube }, create];
        for end in ends(tube, other).into_iter().chain([create]) {
            actions.extend([schedule(tube, every(5 * MS)), advance(5 * MS)]);
            actions.extend(end);
            actions.extend([Action::Truncate { tube }, Action::Truncate { tube: other }]);
        }
    }
    // The last tube may be full.
    let missed = missed_runs().into_iter().map(|terms| (0, terms));
    for (nth, (tube, terms)) in missed.chain([(2, missed_runs().remove(0))]).enumerate() {
        actions.extend([schedule(tube, terms), advance(SECOND)]);
        let closed_for = ClockMove::By(61 * SECOND);
        let is_killed = nth % 2 == 1;
        actions.push(if is_killed {
            Action::Kill { dead_for: closed_for }
        } else {
            Action::Reopen { closed_for }
        });
        actions.extend([advance(SECOND), Action::Truncate { tube }]);
    }
    for last in last_runs(0, 2) {
        actions.push(schedule(0, TermsTemplate { skips_overlap: Some(true), ..every(5 * MS) }));
        actions.extend(last);
        actions.extend([advance(5 * MS), put(0), advance(5 * MS)]);
        actions.extend([Action::Truncate { tube: 0 }, Action::Truncate { tube: 2 }]);
    }
    steps_of(tubes, actions)
}

/// Changes and ends of a schedule that has put two runs.
fn ends(tube: usize, other: usize) -> Vec<Vec<Action>> {
    let on = |verb| by_id(tube, Among::Schedules, verb);
    let refused = [
        ById::Bury,
        ById::Kick,
        ById::Resolve { size: None },
        ById::Forget,
        ById::SetPriority { priority: 1 },
        ById::EditTags { tags: vec!["red".to_owned()], adds: true },
        ById::Log,
        ById::Update { size: Some(1), priority: None, delay: None, not_before: None },
        ById::MoveTo { to: other },
        ById::AddParents { of: tube, parents: Vec::new() },
        ById::RemoveParents { parent: None },
        ById::Revoke,
        ById::Peek,
    ];
    let put_with_key = |key: &str, on_key| {
        let key = Some(key.to_owned());
        let template = TaskTemplate { key, on_key, ..TaskTemplate::default() };
        Action::Put { client: 0, tube, template, deferred: false }
    };
    let restored = |skipped_ids| {
        let restored = Some(RestoredRunsTemplate { skipped_ids, runs: 2, skipped: 1 });
        let (client, key, deferred) = (0, "l".to_owned(), false);
        Action::Schedule { client, tube, key, terms: every(SECOND), restored, deferred }
    };
    let times = |times| TermsTemplate { times: Some(Some(times)), ..TermsTemplate::default() };
    let starting = TermsTemplate { starting: Some(Moment::In(MS)), ..every(2 * MS) };
    vec![
        refused.map(on).to_vec(),
        vec![Action::Unschedule { tube: other, key: "k".to_owned(), deferred: true }],
        vec![on(ById::Delete)],
        vec![on(ById::Cancel)],
        vec![Action::Reopen { closed_for: ClockMove::By(0) }],
        vec![reschedule(tube, times(2)), reschedule(tube, times(3)), advance(5 * MS)],
        vec![change_task(tube), advance(5 * MS)],
        vec![change_task(other), advance(5 * MS), schedule(tube, every(3 * MS))],
        vec![reschedule(other, every(2 * MS)), advance(5 * MS), schedule(tube, every(3 * MS))],
        vec![reschedule(tube, starting), advance(5 * MS)],
        vec![put_with_key("k-3", OnKey::Keep), advance(5 * MS), advance(5 * MS)],
        vec![put_with_key("k", OnKey::Replace), put_with_key("k-2", OnKey::Replace)],
        vec![restored(Some(2)), advance(59 * SECOND), advance(SECOND)],
        vec![restored(None), restored(Some(0)), put(tube), advance(0)],
        // The clocks are more than a second apart.
        vec![
            Action::SetWall { to: WallMove::Ahead(2 * SECOND) },
            schedule(tube, TermsTemplate { starting: Some(Moment::Ago(7 * MS)), ..every(5 * MS) }),
            reschedule(tube, TermsTemplate { starting: Some(Moment::In(MS)), ..every(5 * MS) }),
            change_task(tube),
            advance(5 * MS),
            Action::SetWall { to: WallMove::Right },
        ],
    ]
}

/// Terms of schedules that are missed for a minute.
fn missed_runs() -> Vec<TermsTemplate> {
    let terms = |missed, within| TermsTemplate {
        missed: Some(missed),
        within: Some(within),
        ..every(SECOND)
    };
    vec![
        terms(Missed::All, None),
        terms(Missed::Skip, None),
        terms(Missed::Skip, Some(SECOND / 2)),
        TermsTemplate { every: Some(62 * SECOND), ..terms(Missed::Skip, None) },
        terms(Missed::All, Some(4 * SECOND)),
        terms(Missed::Latest(3), None),
        terms(Missed::Latest(3), Some(2 * SECOND)),
    ]
}

/// What becomes of a run before the next one is due.
fn last_runs(tube: usize, other: usize) -> Vec<Vec<Action>> {
    let on = |verb| by_id(tube, Among::Present, verb);
    let take = Action::Take { client: 0, tube, keep: true };
    vec![
        vec![],
        vec![take.clone()],
        vec![on(ById::Bury)],
        vec![on(ById::MoveTo { to: other })],
        vec![take.clone(), by_claim(ByClaim::Ack { deferred: false })],
        vec![put_later(tube), take.clone(), reschedule(other, every(4 * MS)), advance(5 * MS)],
        vec![put_later(tube), take, change_task(other), advance(5 * MS)],
    ]
}

fn every(every: Micros) -> TermsTemplate {
    TermsTemplate { every: Some(every), ..TermsTemplate::default() }
}

fn schedule(tube: usize, terms: TermsTemplate) -> Action {
    let (client, key) = (0, "k".to_owned());
    Action::Schedule { client, tube, key, terms, restored: None, deferred: false }
}

fn reschedule(tube: usize, terms: TermsTemplate) -> Action {
    Action::Reschedule { client: 0, tube, key: "k".to_owned(), terms, deferred: false }
}

/// Its further runs have a delay.
fn change_task(tube: usize) -> Action {
    let task = TaskTemplate { delay: MS, ..TaskTemplate::default() };
    Action::ChangeTask { client: 0, tube, key: "k".to_owned(), task, deferred: false }
}

fn advance(by: Micros) -> Action {
    Action::Advance { by: ClockMove::By(by) }
}
