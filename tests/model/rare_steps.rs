//! Steps to transitions that need several steps in a row on the same task.

use super::reference::{Counting, Driver, Keep, Micros, NEVER, Options};
use super::steps::{
    Action, Among, ByClaim, ById, Choice, ClockMove, Definition, Group, Pick, Setup, Step,
    TaskTemplate, Workload,
};

/// The steps for each driver.
pub fn rare_steps() -> impl Iterator<Item = (Setup, Vec<Step>)> {
    Driver::ALL.into_iter().flat_map(|driver| [attempts(driver), outcomes(driver)])
}

/// Steps to transitions that need several steps in a row on the same task. A kill after a checkpoint
/// leaves a ready task without an attempt left, since takes that are counted lazily are stored with
/// it. Parked claims end in several ways, some of them with the last attempt of their task.
fn attempts(driver: Driver) -> (Setup, Vec<Step>) {
    let tube = |counting| {
        let options = Options { max_attempts: Some(1), counting, ..Options::default() };
        Definition { driver, options, durability: None }
    };
    let unlimited = Definition { driver, options: Options::default(), durability: None };
    let tubes = vec![tube(Counting::Lazily), tube(Counting::Written), unlimited];
    let setup = Setup { tubes, grace: 0, workload: Workload::MostlyParks };
    let first = Choice(0);
    let take = |tube| Action::Take { client: 0, tube, keep: true };
    let by_claim = |verb| Action::ByClaim { claim: first, verb };
    let park = |hold| by_claim(ByClaim::Park { hold, deferred: false });
    let resume = |keep| Action::ResumeClaim { client: 0, token: first, any: false, keep };
    let kill = Action::Kill { dead_for: ClockMove::By(0) };
    let advance = Action::Advance { by: ClockMove::By(1000) };
    let release_all = |tube| Action::ReleaseAll { tube, forgive: false };
    let snooze = by_claim(ByClaim::Snooze { delay: 0, deferred: false });
    let actions = [
        put(0),
        take(0),
        by_claim(ByClaim::Checkpoint { size: 3, deferred: false }),
        kill.clone(),
        take(0),
        put(1),
        take(1),
        park(NEVER),
        release_all(1),
        put(1),
        take(1),
        park(1000),
        resume(false),
        advance.clone(),
        put(2),
        take(2),
        park(NEVER),
        resume(true),
        kill,
        Action::Truncate { tube: 2 },
        put(2),
        take(2),
        park(NEVER),
        release_all(2),
        take(2),
        park(1000),
        resume(false),
        advance,
        take(2),
        park(NEVER),
        Action::ReleaseAll { tube: 2, forgive: true },
        take(2),
        snooze,
        put(1),
        take(1),
        release_all(1),
        put(1),
        take(1),
        by_claim(ByClaim::Fail { delay: None, group: Group::Timeout, deferred: false }),
        put(2),
        take(2),
        park(NEVER),
        by_id(2, Among::Parked, ById::Revoke),
    ];
    (setup, actions.map(|action| Step { action, poll: true }).to_vec())
}

/// Steps to the ends of tasks that are kept, by number or for a time, and to those of the same
/// tasks where nothing is kept. What a task that is done refuses is on the way.
fn outcomes(driver: Driver) -> (Setup, Vec<Step>) {
    const AGE: Micros = 1000;
    let tube = |count, age, temporary| {
        let keep = Some(Keep { count, age }).filter(|keep| *keep != Keep::default());
        let options =
            Options { keep_done: keep, keep_buried: keep, temporary, ..Options::default() };
        Definition { driver, options, durability: None }
    };
    let (counted, aged, plain, temporary) = (0, 1, 2, 3);
    let tubes = vec![
        tube(Some(1), None, false),
        tube(None, Some(AGE), false),
        tube(None, None, false),
        tube(Some(1), None, true),
    ];
    let setup = Setup { tubes, grace: 0, workload: Workload::MostlyPuts };
    let resolve = |tube| by_id(tube, Among::Present, ById::Resolve { size: Some(3) });
    let bury = |tube| by_id(tube, Among::Present, ById::Bury);
    let bury_last = |tube| {
        let pick = Pick { tube, among: Among::Present, index: Choice(usize::MAX) };
        Action::ById { client: 0, pick, verb: ById::Bury, deferred: false }
    };
    let on_kept = |verb| by_id(counted, Among::Kept, verb);
    let pick_kept = Pick { tube: counted, among: Among::Kept, index: Choice(0) };
    let mut actions = vec![
        put(counted),
        Action::Take { client: 0, tube: counted, keep: false },
        by_id(counted, Among::Held, ById::AckWith { size: 3 }),
        put(counted),
        resolve(counted),
        on_kept(ById::Bury),
        on_kept(ById::Kick),
        on_kept(ById::Resolve { size: None }),
        on_kept(ById::Revoke),
        Action::Claim { client: 0, pick: pick_kept.clone(), keep: false },
        Action::Kick { tube: counted, count: 9 },
        Action::WaitDone { pick: pick_kept, waits: true },
        on_kept(ById::Forget),
        put(counted),
        bury(counted),
        put(counted),
        bury_last(counted),
        by_id(counted, Among::Present, ById::Forget),
        resolve(counted),
        on_kept(ById::Delete),
        put_later(counted),
        resolve(counted),
        Action::Truncate { tube: counted },
        put(temporary),
        resolve(temporary),
        put(aged),
        resolve(aged),
        put(aged),
        bury(aged),
        Action::Reopen { closed_for: ClockMove::By(AGE - 1) },
        Action::Advance { by: ClockMove::By(1) },
    ];
    for put in [put(plain), put_later(plain)] {
        actions.extend([put, resolve(plain)]);
    }
    actions.extend([put(plain), bury(plain), resolve(plain)]);
    actions.extend([put(counted), resolve(counted), Action::DropTube { tube: counted }]);
    (setup, actions.into_iter().map(|action| Step { action, poll: true }).collect())
}

fn put(tube: usize) -> Action {
    Action::Put { client: 0, tube, template: TaskTemplate::default(), deferred: false }
}

/// Puts a task with a delay, if the driver has any.
fn put_later(tube: usize) -> Action {
    let template = TaskTemplate { delay: 1000, ..TaskTemplate::default() };
    Action::Put { client: 0, tube, template, deferred: false }
}

/// A verb on the first task of some.
fn by_id(tube: usize, among: Among, verb: ById) -> Action {
    let pick = Pick { tube, among, index: Choice(0) };
    Action::ById { client: 0, pick, verb, deferred: false }
}
