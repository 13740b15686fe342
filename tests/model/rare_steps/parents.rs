//! Steps with tasks that wait for others.

use super::super::reference::{Driver, Keep, Micros, NEVER, OnKey, OnParent, Options};
use super::super::steps::{
    Action, AfterTemplate, Among, ByClaim, ById, Choice, ClockMove, Definition, KEYS, Pick,
    RestoredTemplate, Setup, StateTemplate, Step, TaskTemplate,
};
use super::{by_claim, by_id, put, put_later, steps_of};

/// The tubes of the parents and of the children.
const ABOVE: usize = 1;
const BELOW: usize = 0;
const DELAY: Micros = 1000;

const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

/// The steps for one driver.
pub(super) fn parents(driver: Driver) -> [(Setup, Vec<Step>); 4] {
    [ends_of_parents(driver), states(driver), replacements(driver), crowds(driver)]
}

/// Every end of a parent, for children with each rule, with and without a delay.
fn ends_of_parents(driver: Driver) -> (Setup, Vec<Step>) {
    let keep = Some(Keep { count: Some(1), age: None });
    let plain = Options::default();
    let spent = Options { max_attempts: Some(1), ..Options::default() };
    let kept = Options { keep_done: keep, keep_buried: keep, ..Options::default() };
    let mut actions = Vec::new();
    for above in [ABOVE, 2, 3] {
        let on_parent = |verb| by_id(above, Among::Present, verb);
        let take = Action::Take { client: 1, tube: above, keep: true };
        let other = || vec![put(above), by_last(above, ById::Bury)];
        let reopen = || Action::Reopen { closed_for: ClockMove::By(0) };
        let kill = Action::Kill { dead_for: ClockMove::By(0) };
        let definition = Definition { driver, options: plain.clone(), durability: None };
        let ends = [
            vec![take.clone(), by_claim(ByClaim::Ack { deferred: false })],
            vec![take.clone(), by_claim(ByClaim::Drop), kill],
            vec![on_parent(ById::Resolve { size: None }), on_parent(ById::Forget)],
            vec![on_parent(ById::Bury), on_parent(ById::Kick)],
            [other(), vec![on_parent(ById::Bury)], other(), other()].concat(),
            vec![on_parent(ById::Bury), Action::Truncate { tube: above }],
            vec![on_parent(ById::Delete), on_parent(ById::Cancel)],
            vec![Action::Truncate { tube: above }, reopen()],
            vec![
                Action::DropTube { tube: above },
                Action::CreateTube {
                    client: 0,
                    tube: above,
                    definition,
                    same: false,
                    opens: false,
                },
            ],
            vec![Action::Advance { by: ClockMove::By(DELAY / 2) }],
            vec![take, Action::Reopen { closed_for: ClockMove::By(DELAY) }],
            vec![on_parent(ById::MoveTo { to: BELOW }), by_id(BELOW, Among::Parents, ById::Bury)],
        ];
        for (end, delay) in ends.iter().flat_map(|end| [(end, 0), (end, DELAY)]) {
            let ttl = Some(DELAY / 2).filter(|_| matches!(end[0], Action::Advance { .. }));
            let template = TaskTemplate { ttl, ..TaskTemplate::default() };
            actions.push(Action::Put { client: 0, tube: above, template, deferred: false });
            for rule in RULES {
                actions.push(child(BELOW, &[first(above)], rule, delay));
                // A grandchild.
                actions.push(child(BELOW, &[last(BELOW)], rule, 0));
            }
            actions.extend(end.iter().cloned());
            actions.push(Action::Kick { tube: BELOW, count: u64::MAX });
            actions.extend((0..4).map(|_| Action::Take { client: 1, tube: BELOW, keep: false }));
            actions.push(by_id(BELOW, Among::Held, ById::Ack));
            actions.push(Action::Advance { by: ClockMove::By(DELAY) });
            actions.extend([BELOW, above].map(|tube| Action::Truncate { tube }));
        }
    }
    run(driver, [plain.clone(), plain, spent, kept], actions)
}

/// What happens to a task that waits for two others.
fn states(driver: Driver) -> (Setup, Vec<Step>) {
    let options = |keep_done| Options { keep_done, ..Options::default() };
    let tubes = [
        options(None),
        Options { capacity: Some(1).filter(|_| driver.bounded()), ..options(None) },
        options(Some(Keep::default())),
        Options { temporary: true, ..options(None) },
    ];
    let mut actions = Vec::new();
    for tube in [BELOW, 2, 3] {
        let on = |verb| by_last(tube, verb);
        let of = tube;
        let add = |nth: fn(usize) -> Pick| ById::AddParents { of, parents: vec![nth(of)] };
        let (one, all) = (Some(Choice(0)), None);
        let remove = |parent| on(ById::RemoveParents { parent });
        let update = |size, delay| ById::Update { size, priority: None, delay, not_before: None };
        let advance = |by| Action::Advance { by: ClockMove::By(by) };
        let finish = |puts, advance| {
            let advance = Some(advance);
            by_claim(ByClaim::Finish { result: None, puts, advance, deferred: false })
        };
        let waits = |index| (tube, template(&[index], OnParent::Wait, 0));
        let take = Action::Take { client: 0, tube, keep: true };
        let verbs = [
            vec![remove(one), remove(one), remove(one)],
            vec![remove(one), advance(DELAY), remove(all)],
            vec![on(ById::Bury), remove(one), on(ById::Kick), on(ById::Bury), remove(all)],
            vec![on(ById::Resolve { size: Some(3) })],
            vec![on(ById::Delete)],
            vec![on(ById::Cancel)],
            vec![Action::DropTube { tube }],
            vec![Action::Truncate { tube }],
            vec![Action::Reopen { closed_for: ClockMove::By(DELAY) }],
            vec![on(update(Some(5), None)), on(update(None, Some(0))), remove(all)],
            vec![on(update(None, Some(2 * DELAY))), remove(all), on(update(None, Some(0)))],
            vec![on(ById::MoveTo { to: 2 }), by_last(2, ById::MoveTo { to: BELOW })],
            vec![Action::MoveAll { tube, to: 2 - tube.min(2) }],
            vec![advance(2 * DELAY)],
            vec![on(add(first)), on(add(last))],
            vec![by_id(tube, Among::Present, add(last))],
            vec![put(tube), on(add(first)), claim_last(tube)],
            vec![put_later(tube), on(add(first)), on(add(second)), remove(all)],
            vec![take.clone(), finish(vec![waits(last(tube))], waits(first(tube)))],
            vec![take.clone(), finish(vec![waits(first(tube))], (2, TaskTemplate::default()))],
            vec![take, finish(Vec::new(), waits(second(tube)))],
        ];
        for (verbs, delay) in verbs.iter().flat_map(|verbs| [(verbs, 0), (verbs, DELAY)]) {
            let definition = Definition { driver, options: tubes[tube].clone(), durability: None };
            actions.extend([put(tube), put(tube)]);
            let ttl = Some(DELAY);
            let waits = template(&[first(tube), last(tube)], OnParent::Wait, delay);
            let template = TaskTemplate { ttl, ..waits };
            actions.push(Action::Put { client: 0, tube, template, deferred: false });
            actions.extend(verbs.iter().cloned());
            actions.extend([BELOW, 2, 3].map(|tube| Action::Truncate { tube }));
            actions.push(Action::CreateTube {
                client: 0,
                tube,
                definition,
                same: true,
                opens: true,
            });
        }
    }
    run(driver, tubes, actions)
}

/// Tasks in every state are replaced by tasks that wait for another one, and these by others.
fn replacements(driver: Driver) -> (Setup, Vec<Step>) {
    let keep_done = Some(Keep::default());
    let options = Options { keep_done, ..Options::default() };
    let bounded = Options { capacity: Some(1).filter(|_| driver.bounded()), ..Options::default() };
    let temporary = Options { temporary: true, ..options.clone() };
    let tubes = [options.clone(), options, bounded, temporary];
    let keyed = |tube, delay, parents: &[Pick], on_parent| {
        let key = Some(KEYS[0].to_owned());
        let template = template(parents, on_parent, delay);
        let template = TaskTemplate { key, on_key: OnKey::Replace, ..template };
        Action::Put { client: 0, tube, template, deferred: false }
    };
    let mut actions = Vec::new();
    for (to, delay) in [(BELOW, 0), (BELOW, DELAY), (2, 0), (3, 0)] {
        let tube = if to == 3 { 3 } else { BELOW };
        let above = if to == 3 { 3 } else { ABOVE };
        let take = Action::Take { client: 1, tube, keep: true };
        let park = by_claim(ByClaim::Park { hold: NEVER, deferred: false });
        let states = [
            vec![],
            vec![take.clone()],
            vec![take.clone(), park],
            vec![keyed(tube, DELAY, &[], OnParent::Wait)],
            vec![by_last(tube, ById::Bury)],
            vec![take, by_claim(ByClaim::Ack { deferred: false })],
        ];
        for state in states {
            actions.push(keyed(tube, 0, &[], OnParent::Wait));
            actions.extend(state);
            actions.extend([put(above), put(above)]);
            let waits = |nth: fn(usize) -> Pick, rule| keyed(to, delay, &[nth(above)], rule);
            actions.push(waits(last, OnParent::Wait));
            // It keeps its parent.
            actions.push(keyed(to, delay, &[], OnParent::Release));
            actions.push(waits(last, OnParent::Bury));
            // It cannot wait for itself.
            actions.push(keyed(to, delay, &[first(to)], OnParent::Wait));
            actions.push(by_id(above, Among::Present, ById::Resolve { size: None }));
            actions.push(keyed(to, delay, &[kept(above)], OnParent::Wait));
            actions.push(Action::Put {
                client: 0,
                tube: above,
                template: TaskTemplate {
                    after: AfterTemplate {
                        key: Some(KEYS[0].to_owned()),
                        ..AfterTemplate::default()
                    },
                    ..TaskTemplate::default()
                },
                deferred: true,
            });
            actions.extend([above, to, tube].map(|tube| Action::Truncate { tube }));
        }
    }
    // Puts that wait for space, and tasks of another store.
    let template = template(&[first(ABOVE)], OnParent::Wait, 0);
    actions.extend([put(ABOVE), put(2)]);
    actions.push(Action::PutWait {
        client: 0,
        tube: 2,
        template: template.clone(),
        timeout: NEVER,
    });
    actions.push(Action::Truncate { tube: 2 });
    for state in [StateTemplate::Open, StateTemplate::Buried { group: None }] {
        let task = RestoredTemplate { put: template.clone(), state, ..RestoredTemplate::default() };
        actions.push(Action::Restore {
            client: 0,
            tube: BELOW,
            tasks: vec![task],
            deferred: false,
        });
    }
    actions.push(Action::Kick { tube: BELOW, count: 1 });
    run(driver, tubes, actions)
}

/// More children than are told of the end of their parent at a time.
fn crowds(driver: Driver) -> (Setup, Vec<Step>) {
    let options = Options::default();
    let kept = Options { keep_done: Some(Keep::default()), ..options.clone() };
    let keep_buried = Some(Keep { count: Some(3), age: None });
    let few = Options { keep_buried, ..options.clone() };
    let mut actions = Vec::new();
    for (above, below) in [(ABOVE, BELOW), (2, BELOW), (ABOVE, 3)] {
        let take = Action::Take { client: 1, tube: above, keep: true };
        let ack = by_claim(ByClaim::Ack { deferred: false });
        let ends = [
            vec![take.clone(), ack.clone()],
            vec![take, ack, by_id(above, Among::Kept, ById::Forget)],
            vec![by_last(above, ById::Bury)],
            vec![by_last(above, ById::Bury), Action::Truncate { tube: above }],
        ];
        let rules = if (above, below) == (ABOVE, BELOW) { &RULES[..] } else { &RULES[..1] };
        for (end, rule) in ends.iter().flat_map(|end| rules.iter().map(move |rule| (end, *rule))) {
            actions.push(put(above));
            let templates =
                [rule, OnParent::Wait].map(|rule| template(&[first(above)], rule, 0)).to_vec();
            actions.push(Action::PutBatch { client: 0, tube: below, templates, count: 330 });
            let tubes = vec![below];
            let wait = Action::Wait { client: 2, tubes, timeout: NEVER, keep: false };
            actions.extend([wait.clone(), wait]);
            actions.extend(end.iter().cloned());
            actions.push(Action::Kick { tube: below, count: u64::MAX });
            actions.extend([above, below].map(|tube| Action::Truncate { tube }));
            actions
                .extend([Action::Cancel { wait: Choice(0) }, Action::Cancel { wait: Choice(0) }]);
        }
    }
    run(driver, [options.clone(), options, kept, few], actions)
}

fn run(driver: Driver, tubes: [Options; 4], actions: Vec<Action>) -> (Setup, Vec<Step>) {
    let tubes = tubes.map(|options| Definition { driver, options, durability: None }).to_vec();
    steps_of(tubes, actions)
}

fn first(tube: usize) -> Pick {
    Pick { tube, among: Among::Present, index: Choice(0) }
}

fn last(tube: usize) -> Pick {
    Pick { tube, among: Among::Present, index: Choice(usize::MAX) }
}

fn second(tube: usize) -> Pick {
    Pick { tube, among: Among::Present, index: Choice(1 << (usize::BITS - 1)) }
}

fn kept(tube: usize) -> Pick {
    Pick { tube, among: Among::Kept, index: Choice(0) }
}

fn template(parents: &[Pick], on_parent: OnParent, delay: Micros) -> TaskTemplate {
    let after = AfterTemplate { parents: parents.to_vec(), key: None, on_parent };
    TaskTemplate { delay, after, ..TaskTemplate::default() }
}

pub(super) fn child(tube: usize, parents: &[Pick], on_parent: OnParent, delay: Micros) -> Action {
    let template = template(parents, on_parent, delay);
    Action::Put { client: 0, tube, template, deferred: false }
}

/// A verb on the last task of a tube.
pub(super) fn by_last(tube: usize, verb: ById) -> Action {
    Action::ById { client: 0, pick: last(tube), verb, deferred: false }
}

fn claim_last(tube: usize) -> Action {
    Action::Claim { client: 0, pick: last(tube), keep: false }
}
