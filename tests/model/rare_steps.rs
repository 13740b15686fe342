//! Steps to transitions that random steps may miss: most need several steps in a row on the same
//! task.

mod keys;
mod logs;
mod moments;
mod parents;
mod schedules;
mod tokens;

use super::reference::{Backoff, Counting, Driver, Keep, Micros, NEVER, Options, State};
use super::steps::{
    Action, Among, ByClaim, ById, Choice, ClockMove, Definition, FailureTemplate, Group, Pick,
    RestoredTemplate, Setup, StateTemplate, Step, TaskTemplate, Workload,
};

/// The steps for each driver.
pub fn rare_steps() -> impl Iterator<Item = (Setup, Vec<Step>)> {
    Driver::ALL.into_iter().flat_map(|driver| {
        let plain = [attempts(driver), claims(driver), outcomes(driver)];
        let more = [edits(driver), movement(driver), keys::replacements(driver), restored(driver)];
        let waits = parents::parents(driver)
            .into_iter()
            .chain([moments::moments(driver), logs::logs(driver)])
            .chain([schedules::schedules(driver), tokens::tokens(driver)]);
        plain.into_iter().chain(more).chain(waits)
    })
}

/// A kill after a checkpoint leaves a ready task without an attempt left, since takes that are
/// counted lazily are stored with it. Parked claims end in several ways, some of them with the last
/// attempt of their task.
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
    let park = |hold| by_claim(ByClaim::Park { hold, deferred: false });
    let resume = |keep| Action::ResumeClaim { client: 0, token: first, any: false, keep };
    let kill = Action::Kill { dead_for: ClockMove::By(0) };
    let advance = Action::Advance { by: ClockMove::By(1000) };
    let release_all = |tube| Action::ReleaseAll { tube, forgive: false };
    let snooze = by_claim(ByClaim::Snooze { delay: 0, deferred: false });
    let actions = vec![
        put(0),
        take(0),
        by_claim(ByClaim::Checkpoint { size: 3, deferred: false }),
        by_claim(ByClaim::RunStep { name: 0 }),
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
    ];
    (setup, actions.into_iter().map(|action| Step { action, poll: true }).collect())
}

/// All ends of claims, parked or not: of the last attempt of a task, of an earlier one, and of one
/// after which the task is delayed.
fn claims(driver: Driver) -> (Setup, Vec<Step>) {
    const TTR: Micros = 1000;
    let tube = |options| Definition { driver, options, durability: None };
    let backoff = Some(Backoff { first: 2 * TTR, factor: 1, cap: 2 * TTR });
    let tubes = vec![
        tube(Options { max_attempts: Some(1), ..Options::default() }),
        tube(Options { max_attempts: Some(9), ..Options::default() }),
        tube(Options {
            max_attempts: Some(3),
            backoff: backoff.filter(|_| driver.timed()),
            reclaim_delay: u64::from(driver.timed()),
            ..Options::default()
        }),
        tube(Options { temporary: true, ..Options::default() }),
    ];
    let setup = Setup { tubes, grace: 0, workload: Workload::MostlyParks };
    let kill = || Action::Kill { dead_for: ClockMove::By(0) };
    let reopen = || Action::Reopen { closed_for: ClockMove::By(0) };
    let advance = |by| Action::Advance { by: ClockMove::By(by) };
    let mut actions = Vec::new();
    for tube in 0..setup.tubes.len() {
        let release_all = |forgive| Action::ReleaseAll { tube, forgive };
        let on_held = |verb| by_id(tube, Among::Present, verb);
        let any_end = [
            vec![release_all(false)],
            vec![release_all(true)],
            vec![on_held(ById::Revoke)],
            vec![on_held(ById::Bury)],
            vec![on_held(ById::Delete)],
            vec![advance(TTR), advance(1)],
            vec![advance(3 * TTR)],
            vec![kill()],
            vec![reopen()],
        ];
        let end_of_holder = [
            vec![by_claim(ByClaim::Fail { delay: None, group: Group::Timeout, deferred: false })],
            vec![by_claim(ByClaim::Snooze { delay: 0, deferred: false })],
            vec![by_claim(ByClaim::Snooze { delay: TTR, deferred: false })],
            vec![by_claim(ByClaim::Release { delay: 0 })],
            vec![by_claim(ByClaim::Release { delay: TTR })],
            vec![by_claim(ByClaim::Drop)],
            vec![by_claim(ByClaim::Ack { deferred: false })],
            vec![by_claim(ByClaim::Bury)],
            vec![by_claim(ByClaim::Renew { time_left: NEVER }), advance(3 * TTR)],
            vec![by_claim(ByClaim::Touch { by: TTR })],
            vec![Action::EndSession { client: 1 }],
        ];
        let park = |hold| by_claim(ByClaim::Park { hold, deferred: false });
        let resume = Action::ResumeClaim { client: 1, token: Choice(0), any: false, keep: true };
        let parked = any_end.clone().into_iter().map(|end| [vec![park(TTR)], end].concat());
        let parked = parked.chain([vec![park(NEVER), advance(3 * TTR)]]);
        let resumed = [reopen(), kill(), advance(TTR)];
        let resumed = resumed.map(|end| vec![park(TTR), resume.clone(), end]);
        // The claim is overdue twice, if the tube has a reclaim delay.
        let overdue = vec![advance(TTR), park(TTR), resume.clone(), advance(TTR), advance(1)];
        for ends in any_end
            .iter()
            .cloned()
            .chain(end_of_holder)
            .chain(parked)
            .chain(resumed)
            .chain([overdue])
        {
            for ttl in [None, Some(3 * TTR)] {
                let template = TaskTemplate { ttr: Some(TTR), ttl, ..TaskTemplate::default() };
                actions.push(Action::Put { client: 1, tube, template, deferred: false });
                actions.push(Action::Take { client: 1, tube, keep: true });
                actions.extend(ends.iter().cloned());
                actions.push(Action::Truncate { tube });
            }
        }
    }
    (setup, actions.into_iter().map(|action| Step { action, poll: true }).collect())
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
        put(aged),
        resolve(aged),
        put(aged),
        bury(aged),
        Action::Reopen { closed_for: ClockMove::By(AGE - 1) },
        Action::Advance { by: ClockMove::By(1) },
    ];
    actions.extend([put(plain), bury(plain), Action::Kick { tube: plain, count: 1 }]);
    actions.push(Action::Truncate { tube: plain });
    let delete = by_id(plain, Among::Present, ById::Delete);
    for end in [resolve(plain), delete] {
        actions.extend([put(plain), end.clone()]);
        actions.extend([put(plain), bury(plain), bury(plain), end.clone()]);
        actions.extend([put_later(plain), end.clone(), put_later(plain), bury(plain), end]);
    }
    for tube in [counted, temporary] {
        actions.extend([put(tube), resolve(tube), put(tube), bury(tube), put(tube)]);
        actions.push(put_later(tube));
    }
    actions.push(Action::DropTube { tube: counted });
    actions.push(Action::Reopen { closed_for: ClockMove::By(0) });
    steps_of(tubes, actions)
}

/// Updates and new priorities in every state, before and after a reopen, and deletes on a condition
/// in every state.
fn edits(driver: Driver) -> (Setup, Vec<Step>) {
    const DELAY: Micros = 1000;
    let keep = Some(Keep { count: Some(9), age: None });
    let options = |keep_buried| Options { keep_done: keep, keep_buried, ..Options::default() };
    let tube = |options| Definition { driver, options, durability: None };
    let tubes = vec![tube(options(None)), tube(options(keep))];
    let reopen = Action::Reopen { closed_for: ClockMove::By(0) };
    let mut actions = Vec::new();
    for tube in 0..tubes.len() {
        let any = |verb| by_id(tube, Among::Present, verb);
        let update =
            |size, priority, delay| any(ById::Update { size, priority, delay, not_before: None });
        let take = Action::Take { client: 0, tube, keep: true };
        let park = by_claim(ByClaim::Park { hold: NEVER, deferred: false });
        let group = Group::Timeout;
        let bury = by_claim(ByClaim::BuryWith { group, deferred: false });
        let states: [Vec<Action>; 6] = [
            vec![],
            vec![update(None, None, Some(DELAY))],
            vec![take.clone()],
            vec![take.clone(), park],
            vec![take.clone(), bury],
            vec![any(ById::Resolve { size: Some(3) })],
        ];
        for (nth, reach) in states.into_iter().enumerate() {
            let among = if nth == 5 { Among::Kept } else { Among::Present };
            let on = |verb| by_id(tube, among, verb);
            let state = [
                State::Ready,
                State::Delayed,
                State::Taken,
                State::Taken,
                State::Buried,
                State::Done,
            ][nth];
            let mut edits = vec![
                vec![on(ById::SetPriority { priority: 3 }), reopen.clone()],
                vec![on(ById::SetPriority { priority: 0 }), on(ById::SetPriority { priority: 2 })],
                vec![update(Some(2000), Some(3), None), update(Some(3), None, None)],
                vec![update(None, None, Some(2 * DELAY)), update(None, None, Some(0))],
                vec![on(ById::Cancel)],
                vec![on(ById::DeleteIf { state: State::Ready })],
                vec![on(ById::DeleteIf { state })],
                vec![Action::DeleteWhere { tube, state, limit: 1 }],
                vec![Action::KickGroup { tube, group, limit: 1 }],
            ];
            edits.push(vec![Action::DeleteMany {
                client: 0,
                tube,
                picks: [0, usize::MAX, 0]
                    .map(|nth| Pick { tube, among, index: Choice(nth) })
                    .to_vec(),
            }]);
            for edit in edits {
                actions.extend([put(tube)]);
                actions.extend(reach.iter().cloned());
                actions.push(put(tube));
                actions.extend(edit);
                actions.extend([take.clone(), take.clone()]);
                actions.push(Action::Truncate { tube });
            }
        }
    }
    steps_of(tubes, actions)
}

/// Tasks of another store are put back in each state, and reach the ends of kept ones. Tubes refuse
/// what they cannot keep.
fn restored(driver: Driver) -> (Setup, Vec<Step>) {
    const AGE: Micros = 1000;
    let tube = |keep, temporary| {
        let options =
            Options { keep_done: keep, keep_buried: keep, temporary, ..Options::default() };
        Definition { driver, options, durability: None }
    };
    let counted = Keep { count: Some(2), age: None };
    let aged = Keep { count: Some(2), age: Some(AGE) };
    let tubes = vec![
        tube(Some(counted), false),
        tube(Some(aged), false),
        tube(None, false),
        tube(Some(counted), true),
    ];
    let failure = || FailureTemplate { group: Group::Timeout, attempt: 2, ago: AGE / 2 };
    let task = |state| RestoredTemplate { state, takes: 2, forgiven: 1, ..Default::default() };
    let failed = |state| RestoredTemplate { failure: Some(failure()), ..task(state) };
    let done = |ttl| StateTemplate::Done { size: Some(3), ttl };
    let buried = |group| StateTemplate::Buried { group };
    let put = TaskTemplate { delay: AGE, ..TaskTemplate::default() };
    let groups =
        [task(buried(None)), failed(buried(Some(Group::Timeout))), failed(buried(None))].to_vec();
    let lists = [
        vec![task(done(None)), task(StateTemplate::Done { size: None, ttl: Some(AGE / 2) })],
        vec![failed(done(Some(NEVER))), RestoredTemplate { put, ..task(StateTemplate::Open) }],
        vec![RestoredTemplate { skipped_ids: Some(2), ..failed(done(Some(2 * AGE))) }],
        groups,
        // They are refused.
        vec![RestoredTemplate { forgiven: 3, ..task(done(None)) }],
        vec![task(StateTemplate::Open), task(buried(Some(Group::Empty)))],
    ];
    let mut actions = Vec::new();
    for tube in 0..tubes.len() {
        for (at, tasks) in lists.iter().cloned().enumerate() {
            actions.push(Action::Restore { client: 1, tube, tasks, deferred: at % 2 == 0 });
        }
        let pick = Pick { tube, among: Among::Kept, index: Choice(0) };
        actions.extend([
            Action::WaitDone { pick, waits: true },
            Action::Take { client: 1, tube, keep: false },
            Action::Kick { tube, count: 1 },
            by_id(tube, Among::Kept, ById::Forget),
            Action::Advance { by: ClockMove::By(AGE / 2) },
        ]);
    }
    actions.push(Action::Reopen { closed_for: ClockMove::By(AGE) });
    steps_of(tubes, actions)
}

/// Tasks in every state go on in another tube of the driver, and in one that is full.
fn movement(driver: Driver) -> (Setup, Vec<Step>) {
    let tube = |capacity| {
        let keep = Some(Keep { count: Some(2), age: None });
        let options = Options { capacity, keep_buried: keep, ..Options::default() };
        Definition { driver, options, durability: None }
    };
    let most = Some(3).filter(|_| driver.bounded());
    let tubes = vec![tube(None), tube(None), tube(most)];
    let take = |tube| Action::Take { client: 0, tube, keep: true };
    let move_to = |tube, to| by_id(tube, Among::Present, ById::MoveTo { to });
    let bury = |tube| by_id(tube, Among::Present, ById::Bury);
    let park = by_claim(ByClaim::Park { hold: NEVER, deferred: false });
    let advance = |to, delay| {
        let template = TaskTemplate { delay, ..TaskTemplate::default() };
        let advance = Some((to, template));
        by_claim(ByClaim::Finish { result: None, puts: Vec::new(), advance, deferred: false })
    };
    let template = |tube| (tube, TaskTemplate::default());
    let finish = |puts: &[usize]| {
        let puts = puts.iter().map(|tube| template(*tube)).collect();
        by_claim(ByClaim::Finish { result: Some(3), puts, advance: None, deferred: false })
    };
    let mut actions = vec![put(0), move_to(0, 1), move_to(1, 0), take(0), move_to(0, 1)];
    actions.extend([take(1), park, move_to(1, 0), bury(0), move_to(0, 1), move_to(1, 1)]);
    actions.extend([put_later(0), move_to(0, 1), Action::Truncate { tube: 1 }]);
    actions.extend([put(0), take(0), advance(1, 0), take(1), advance(0, 1000)]);
    actions.extend([Action::Truncate { tube: 0 }, put(0), take(0), finish(&[0, 1, 0, 2])]);
    actions.extend([take(0), finish(&[2, 2, 2]), take(2), finish(&[2, 2]), take(2), finish(&[2])]);
    actions.extend((0..4).flat_map(|_| [put(0), bury(0), put(0), put_later(0)]));
    actions.extend([2, 1, 0].map(|to| Action::MoveAll { tube: 0, to }));
    actions.extend([Action::MoveAll { tube: 1, to: 0 }, Action::Kick { tube: 0, count: 9 }]);
    steps_of(tubes, actions)
}

/// The steps with these actions. The woken take futures are polled after each.
fn steps_of(tubes: Vec<Definition>, actions: Vec<Action>) -> (Setup, Vec<Step>) {
    let setup = Setup { tubes, grace: 0, workload: Workload::MostlyPuts };
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

/// A verb of the newest claim.
fn by_claim(verb: ByClaim) -> Action {
    Action::ByClaim { claim: Choice(usize::MAX), verb }
}
