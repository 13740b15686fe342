//! Proptest strategies for the setup of a run and its steps.

use std::ops::Range;

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use tubewell::Durability;

use super::reference::{
    Backoff, Counting, DEFAULT_PRIORITY, Driver, Keep, Micros, NEVER, OnKey, OnParent, Options,
    Rate, State,
};
use super::restored_tasks::restore;
use super::schedules::schedules;
use super::steps::{
    Action, AfterTemplate, Alter, Among, ByClaim, ById, CLIENTS, Choice, ClockMove, Definition,
    Group, KEYS, KEYS_OF_RUNS, Moment, Pick, SPAWNS, Setup, Step, TAGS, TOKENS, TUBE_NAMES,
    TaskTemplate, WallMove, Workload,
};

/// Generates the steps.
pub struct StepGenerator;

impl ReferenceStateMachine for StepGenerator {
    type State = Setup;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Setup> {
        setup().boxed()
    }

    fn transitions(setup: &Setup) -> BoxedStrategy<Step> {
        let poll = prop::bool::weighted(0.5);
        (action(setup), poll).prop_map(|(action, poll)| Step { action, poll }).boxed()
    }

    fn apply(setup: Setup, _: &Step) -> Setup {
        setup
    }
}

pub(super) const MS: Micros = 1000;

fn choice() -> impl Strategy<Value = Choice> {
    any::<usize>().prop_map(Choice)
}

pub(super) fn span() -> impl Strategy<Value = Micros> {
    prop_oneof![
        6 => (1..=5_u64).prop_map(|ms| ms * MS),
        2 => Just(0),
        1 => Just(1),
        2 => Just(20 * MS),
        1 => Just(NEVER),
    ]
}

/// The time of a put that waits for space or of a parked claim; most are longer than several
/// other steps.
fn long_span() -> impl Strategy<Value = Micros> {
    prop_oneof![2 => span(), 2 => Just(20 * MS), 2 => Just(NEVER)]
}

/// A tube with a capacity, if the run has one, else any tube.
fn bounded_tube(setup: &Setup) -> impl Strategy<Value = usize> + use<> {
    let bounded = |tube: &usize| setup.tubes[*tube].options.capacity.is_some_and(|most| most > 0);
    let all = 0..setup.tubes.len();
    let full: Vec<usize> = all.clone().filter(bounded).collect();
    prop::sample::select(if full.is_empty() { all.collect() } else { full })
}

fn short_span() -> impl Strategy<Value = Micros> {
    prop_oneof![1 => Just(0), 2 => (1..=3_u64).prop_map(|ms| ms * MS)]
}

pub(super) fn task_template() -> impl Strategy<Value = TaskTemplate> {
    (
        size(),
        prop::option::of(priority()),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        (prop_oneof![3 => Just(0), 1 => short_span(), 1 => Just(7 * MS)], not_before()),
        prop::option::weighted(0.8, prop::sample::select(vec!["x", "y", "z", ""])),
        prop::option::weighted(0.1, 1..4_u32),
        (prop::option::weighted(0.15, key()), tags(), token()),
        after(),
        prop::bool::weighted(0.04),
    )
        .prop_map(
            |(
                size,
                priority,
                ttl,
                ttr,
                (delay, not_before),
                sub_queue,
                max_attempts,
                (key, tags, token),
                after,
                keep_unsupported,
            )| {
                // These two are not drawn: the other values of all cases would change with them.
                let half = |ttr: Micros| (ttr / 2).max(1);
                let max_runtime = ttr.filter(|_| sub_queue.is_none()).map(half);
                let unique_for = priority.map(|n| [1, MS, 5 * MS, 20 * MS][n as usize % 4]);
                let (key, on_key) = key.map_or((None, OnKey::Reject), |(key, on)| (Some(key), on));
                TaskTemplate {
                    size,
                    priority,
                    ttl,
                    ttr,
                    delay,
                    not_before,
                    sub_queue: sub_queue.map(str::to_owned),
                    max_attempts,
                    max_runtime,
                    key,
                    on_key,
                    token,
                    unique_for,
                    tags,
                    after,
                    keep_unsupported,
                }
            },
        )
}

/// The moment of a put; most have none.
/// More and less urgent than the default, and the default.
fn priority() -> Range<u32> {
    DEFAULT_PRIORITY - 2..DEFAULT_PRIORITY + 2
}

fn not_before() -> impl Strategy<Value = Option<Moment>> {
    prop::option::weighted(0.15, moment())
}

/// Most moments are ahead, and come soon.
pub(super) fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        6 => (1..=5_u64).prop_map(|ms| Moment::In(ms * MS)),
        1 => Just(Moment::In(0)),
        2 => Just(Moment::In(20 * MS)),
        3 => (0..=5_u64).prop_map(|ms| Moment::Ago(ms * MS)),
        1 => Just(Moment::Never),
    ]
}

/// What a put says about parents; most say nothing.
fn after() -> impl Strategy<Value = AfterTemplate> {
    let on_parent = prop_oneof![
        2 => Just(OnParent::Wait),
        1 => Just(OnParent::Release),
        1 => Just(OnParent::Bury),
    ];
    let after = (parents(1..4), prop::option::weighted(0.1, prop::sample::select(KEYS.to_vec())));
    let after = (after, on_parent).prop_map(|((parents, key), on_parent)| {
        let key = key.map(str::to_owned);
        AfterTemplate { parents, key, on_parent }
    });
    prop_oneof![5 => Just(AfterTemplate::default()), 1 => after]
}

/// Tasks to wait for.
fn parents(count: Range<usize>) -> impl Strategy<Value = Vec<Pick>> {
    let among = prop_oneof![
        6 => Just(Among::Present),
        2 => Just(Among::Held),
        1 => Just(Among::EverPut),
        1 => Just(Among::Kept),
        1 => Just(Among::Children),
        1 => Just(Among::Schedules),
    ];
    let pick = (0..TUBE_NAMES.len(), among, choice());
    let pick = pick.prop_map(|(tube, among, index)| Pick { tube, among, index });
    prop::collection::vec(pick, count)
}

fn key() -> impl Strategy<Value = (String, OnKey)> {
    let on_key = prop_oneof![
        1 => Just(OnKey::Reject),
        1 => Just(OnKey::Keep),
        3 => Just(OnKey::Replace),
    ];
    let key = prop_oneof![
        4 => prop::sample::select(KEYS.to_vec()),
        1 => prop::sample::select(KEYS_OF_RUNS.to_vec()),
    ];
    (key.prop_map(str::to_owned), on_key)
}

/// The token of a put; most have none.
fn token() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.1, prop::sample::select(TOKENS.to_vec()).prop_map(str::to_owned))
}

/// The tags of a put; most have none, and some name one twice.
pub(super) fn tags() -> impl Strategy<Value = Vec<String>> {
    let tag = prop::sample::select(TAGS.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(tag, 1..4)]
}

/// A failure group; most are accepted.
pub(super) fn group() -> impl Strategy<Value = Group> {
    prop_oneof![
        30 => Just(Group::Timeout),
        2 => Just(Group::Longest),
        1 => Just(Group::Empty),
        1 => Just(Group::TooLong),
    ]
}

fn backoff() -> impl Strategy<Value = Backoff> {
    (1..=3_u64, 1..=3_u32, 2..=20_u64).prop_map(|(first, factor, cap)| Backoff {
        first: first * MS,
        factor,
        cap: cap * MS,
    })
}

fn counting() -> impl Strategy<Value = Counting> {
    prop_oneof![
        2 => Just(Counting::Written),
        1 => Just(Counting::Flushed),
        1 => Just(Counting::Lazily),
    ]
}

/// What a tube keeps: few tasks, or each for a short time.
fn keep() -> impl Strategy<Value = Keep> {
    let count = prop::option::weighted(0.7, 0..4_u64);
    let age =
        prop_oneof![1 => Just(0), 4 => (1..=8_u64).prop_map(|ms| ms * MS), 1 => Just(20 * MS)];
    (count, prop::option::weighted(0.6, age)).prop_map(|(count, age)| Keep { count, age })
}

/// A limit of taken tasks and a rate. Most tubes have none.
fn gates() -> impl Strategy<Value = (Option<u64>, Option<Rate>)> {
    let rate = (1..=4_u64, 1..=12_u64).prop_map(|(count, ms)| Rate { count, period: ms * MS });
    (prop::option::weighted(0.15, 1..=3_u64), prop::option::weighted(0.1, rate))
}

/// The limit, the rate, and whether limits are shared.
fn sub_queue_limits() -> impl Strategy<Value = (Option<u64>, Option<Rate>, bool, Option<u64>)> {
    let rate = (1..=3_u64, 1..=9_u64).prop_map(|(count, ms)| Rate { count, period: ms * MS });
    let limit = prop::option::weighted(0.4, 1..=4_u64);
    let cooldown = prop::option::weighted(0.15, (1..=6_u64).prop_map(|ms| ms * MS));
    (limit, prop::option::weighted(0.1, rate), prop::bool::weighted(0.3), cooldown)
}

pub(super) fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..20_usize, 1 => Just(5000)]
}

fn driver() -> impl Strategy<Value = Driver> {
    prop::sample::select(Driver::ALL.to_vec())
}

fn definition(
    temporary: bool,
    durability: Option<Durability>,
) -> impl Strategy<Value = Definition> {
    let timed = (
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, priority()),
        prop::option::weighted(0.2, (1..=8_u64).prop_map(|ms| ms * MS)),
    );
    let attempts = (
        prop::option::weighted(0.5, 1..4_u32),
        counting(),
        prop::option::weighted(0.4, backoff()),
        prop::option::weighted(0.3, (1..=4_u64).prop_map(|ms| ms * MS)),
    );
    let kept = (prop::option::weighted(0.4, keep()), prop::option::weighted(0.3, keep()));
    let gates = (gates(), sub_queue_limits(), prop::bool::weighted(0.3));
    let kept = (kept, prop::option::weighted(0.4, 1..7_usize));
    (driver(), timed, attempts, kept, gates, prop::option::weighted(0.7, 0..6_u64)).prop_map(
        move |(driver, (ttl, ttr, priority, max_runtime), attempts, kept, gates, capacity)| {
            let sub_queued = driver.sub_queued();
            let (gates, limits, metrics) = gates;
            let (max_attempts, counting, backoff, reclaim_delay) = attempts;
            let (kept, history) = kept;
            let timed = driver.timed();
            let options = Options {
                ttl: ttl.filter(|_| timed),
                ttr: ttr.filter(|_| timed),
                priority: priority.filter(|_| timed),
                capacity: capacity.filter(|_| driver.bounded()),
                max_runtime: max_runtime.filter(|_| timed),
                max_attempts,
                counting,
                backoff: backoff.filter(|_| timed),
                reclaim_delay: reclaim_delay.filter(|_| timed).unwrap_or(0),
                keep_done: kept.0,
                keep_buried: kept.1,
                max_taken: gates.0,
                rate: gates.1,
                history: history.unwrap_or(0),
                sub_queue_limit: limits.0.filter(|_| sub_queued),
                sub_queue_rate: limits.1.filter(|_| sub_queued),
                sub_queue_cooldown: limits.3.filter(|_| sub_queued),
                shared_limits: limits.2 && sub_queued,
                metrics,
                temporary,
            };
            Definition { driver, options, durability }
        },
    )
}

fn setup() -> impl Strategy<Value = Setup> {
    let others = [
        definition(true, None).boxed(),
        definition(false, Some(Durability::relaxed())).boxed(),
        definition(false, Some(Durability::write())).boxed(),
        definition(false, None).boxed(),
    ];
    // The number of tubes must not shrink, because the steps refer to tubes by index.
    let others = prop::sample::subsequence(others.to_vec(), 1..=3).no_shrink();
    let others = others.prop_flat_map(|others| others);
    (
        definition(false, None),
        others,
        prop::sample::select(vec![0, 2 * MS, 5 * MS]),
        prop::sample::select(vec![
            Workload::MostlyPuts,
            Workload::MostlyTakes,
            Workload::MostlyWaits,
            Workload::MostlyBuries,
            Workload::MostlyParks,
            Workload::LargeBatches,
        ]),
    )
        .prop_map(|(first, mut others, grace, workload)| {
            others.insert(0, first);
            Setup { tubes: others, grace, workload }
        })
}

fn pick(tubes: usize, parked: u32) -> impl Strategy<Value = Pick> {
    let among = prop_oneof![
        6 => Just(Among::Held),
        3 => Just(Among::Present),
        parked => Just(Among::Parked),
        1 => Just(Among::Kept),
        1 => Just(Among::Children),
        1 => Just(Among::Parents),
        1 => Just(Among::Schedules),
        1 => Just(Among::EverPut),
    ];
    (0..tubes, among, choice()).prop_map(|(tube, among, index)| Pick { tube, among, index })
}

fn clock_move() -> impl Strategy<Value = ClockMove> {
    prop_oneof![
        1 => Just(ClockMove::By(0)),
        1 => Just(ClockMove::By(1)),
        3 => (1..=3_u64).prop_map(|ms| ClockMove::By(ms * MS)),
        1 => Just(ClockMove::By(100 * MS)),
        8 => (0..3_usize, -1..=1_i64).prop_map(|(nth, offset)| ClockMove::ToDue { nth, offset }),
    ]
}

/// Most set the clock to about a moment for which a task waits, or a bit back.
fn wall_move() -> impl Strategy<Value = WallMove> {
    prop_oneof![
        2 => (1..=10_u64).prop_map(|ms| WallMove::Ahead(ms * MS)),
        4 => (1..=10_u64).prop_map(|ms| WallMove::Back(ms * MS)),
        4 => (0..3_usize, -1..=1_i64).prop_map(|(nth, offset)| WallMove::ToMoment { nth, offset }),
        1 => Just(WallMove::Right),
    ]
}

/// The time of a pause: most end soon, so that most steps meet an open gate.
fn pause() -> impl Strategy<Value = Micros> {
    prop_oneof![4 => Just(0), 4 => (1..=5_u64).prop_map(|ms| ms * MS), 1 => Just(NEVER)]
}

fn sub_queue() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["x", "y", "z", ""])
}

fn alter() -> impl Strategy<Value = Alter> {
    prop_oneof![Just(Alter::Tube), Just(Alter::Deferred), Just(Alter::Create)]
}

fn by_id(tubes: usize, buries: u32) -> impl Strategy<Value = ById> {
    prop_oneof![
        4 => (0..tubes).prop_map(|to| ById::MoveTo { to }),
        6 => Just(ById::Ack),
        3 => size().prop_map(|size| ById::AckWith { size }),
        4 => short_span().prop_map(|delay| ById::Release { delay }),
        4 => (prop::option::of(short_span()), group()).prop_map(
            |(delay, group)| ById::Fail { delay, group }
        ),
        2 => short_span().prop_map(|delay| ById::Snooze { delay }),
        1 => group().prop_map(|group| ById::BuryWith { group }),
        3 => span().prop_map(|by| ById::Touch { by }),
        2 => span().prop_map(|time_left| ById::Renew { time_left }),
        buries => Just(ById::Bury),
        2 => Just(ById::Kick),
        3 => prop::option::of(size()).prop_map(|size| ById::Resolve { size }),
        2 => Just(ById::Forget),
        4 => Just(ById::Delete),
        4 => Just(ById::Revoke),
        3 => priority().prop_map(|priority| ById::SetPriority { priority }),
        2 => (tags(), any::<bool>()).prop_map(|(tags, adds)| ById::EditTags { tags, adds }),
        3 => Just(ById::Log),
        4 => (
            prop::option::of(size()),
            prop::option::of(priority()),
            prop::option::weighted(0.4, prop_oneof![3 => short_span(), 1 => Just(NEVER)]),
            prop::option::weighted(0.3, prop::option::weighted(0.7, moment()))
        ).prop_map(
            |(size, priority, delay, not_before)| ById::Update { size, priority, delay, not_before }
        ),
        2 => Just(ById::Cancel),
        1 => state().prop_map(|state| ById::DeleteIf { state }),
        4 => (0..tubes, parents(0..3)).prop_map(|(of, parents)| ById::AddParents { of, parents }),
        2 => prop::option::of(choice()).prop_map(|parent| ById::RemoveParents { parent }),
        1 => Just(ById::Peek),
    ]
}

fn state() -> impl Strategy<Value = State> {
    let open = [State::Ready, State::Taken, State::Delayed, State::Blocked];
    let over = [State::Buried, State::Done, State::Recurring];
    prop::sample::select([&open[..], &over[..]].concat())
}

fn into_tube(tubes: usize) -> impl Strategy<Value = (usize, TaskTemplate)> {
    (0..tubes, task_template())
}

/// Most end their task or let it go on, and put few tasks.
fn finish(tubes: usize) -> impl Strategy<Value = ByClaim> {
    (
        prop::option::weighted(0.3, size()),
        prop::collection::vec(into_tube(tubes), 0..4),
        prop::option::of(into_tube(tubes)),
        any::<bool>(),
    )
        .prop_map(|(result, puts, advance, deferred)| ByClaim::Finish {
            result,
            puts,
            advance,
            deferred,
        })
}

fn by_claim(tubes: usize, parks: u32) -> impl Strategy<Value = ByClaim> {
    prop_oneof![
        3 => finish(tubes),
        2 => (into_tube(tubes), any::<bool>()).prop_map(|(to, deferred)| ByClaim::Finish {
            result: None,
            puts: Vec::new(),
            advance: Some(to),
            deferred,
        }),
        4 => any::<bool>().prop_map(|deferred| ByClaim::Ack { deferred }),
        2 => (size(), any::<bool>()).prop_map(
            |(size, deferred)| ByClaim::AckWith { size, deferred }
        ),
        3 => short_span().prop_map(|delay| ByClaim::Release { delay }),
        if parks > 10 { 2 } else { 4 } => (prop::option::of(short_span()), group(), any::<bool>()).prop_map(
            |(delay, group, deferred)| ByClaim::Fail { delay, group, deferred }
        ),
        2 => (short_span(), any::<bool>()).prop_map(
            |(delay, deferred)| ByClaim::Snooze { delay, deferred }
        ),
        1 => (group(), any::<bool>()).prop_map(
            |(group, deferred)| ByClaim::BuryWith { group, deferred }
        ),
        2 => span().prop_map(|by| ByClaim::Touch { by }),
        2 => span().prop_map(|time_left| ByClaim::Renew { time_left }),
        2 => any::<bool>().prop_map(|deferred| ByClaim::Log { deferred }),
        2 => (size(), any::<bool>()).prop_map(
            |(size, deferred)| ByClaim::Checkpoint { size, deferred }
        ),
        3 => (0..3_u8).prop_map(|name| ByClaim::RunStep { name }),
        2 => (SPAWNS..SPAWNS + 2, into_tube(tubes)).prop_map(|(name, to)| ByClaim::Spawn { name, to }),
        parks => (long_span(), any::<bool>()).prop_map(
            |(hold, deferred)| ByClaim::Park { hold, deferred }
        ),
        2 => Just(ByClaim::Bury),
        3 => Just(ByClaim::Drop),
        2 => Just(ByClaim::Detach),
    ]
}

/// Deletes of many tasks, and calls on selected tasks.
fn edits(tubes: usize, buries: u32, parks: u32) -> impl Strategy<Value = Action> {
    let (client, tube) = (0..CLIENTS, 0..tubes);
    prop_oneof![
        1 => (client, tube.clone(), prop::collection::vec(pick(tubes, parks / 2), 0..4)).prop_map(
            |(client, tube, picks)| Action::DeleteMany { client, tube, picks }
        ),
        1 => (tube.clone(), state(), 0..3_usize).prop_map(
            |(tube, state, limit)| Action::DeleteWhere { tube, state, limit }
        ),
        1 + buries / 10 => (tube.clone(), group(), 0..3_usize).prop_map(
            |(tube, group, limit)| Action::KickGroup { tube, group, limit }
        ),
    ]
}

/// A change of what keeps tasks from being taken.
fn gate_action(tube: Range<usize>) -> BoxedStrategy<Action> {
    prop_oneof![
        2 => (tube.clone(), pause(), any::<bool>()).prop_map(
            |(tube, time, deferred)| Action::Pause { tube, time, deferred }
        ),
        2 => (tube.clone(), sub_queue(), pause(), any::<bool>()).prop_map(
            |(tube, name, time, deferred)| Action::PauseSubQueue { tube, name, time, deferred }
        ),
        1 => (sub_queue(), prop::option::weighted(0.8, 0..4_u32)).prop_map(
            |(name, most)| Action::SetLimit { name, most }
        ),
        2 => (tube.clone(), definition(false, None), alter()).prop_map(
            |(tube, definition, by)| Action::Alter { tube, options: definition.options, by }
        ),
    ]
    .boxed()
}

fn session_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => (0..CLIENTS).prop_map(|client| Action::EndSession { client }),
        2 => (0..CLIENTS).prop_map(|client| Action::LeaveSession { client }),
        2 => (0..CLIENTS).prop_map(|client| Action::ResumeSession { client }),
    ]
}

/// What stays of a tube that is dropped and created again.
fn kind(definition: &Definition) -> (bool, Option<Durability>) {
    (definition.options.temporary, definition.durability)
}

fn action(setup: &Setup) -> BoxedStrategy<Action> {
    let tubes = setup.tubes.len();
    let (client, tube) = (0..CLIENTS, 0..tubes);
    let several = prop::collection::vec(tube.clone(), 1..=3);
    let kinds: Vec<_> = setup.tubes.iter().map(kind).collect();
    let (puts, takes, waits, buries, parks) = match setup.workload {
        Workload::MostlyPuts => (24, 10, 3, 6, 6),
        Workload::MostlyTakes => (10, 24, 4, 6, 6),
        Workload::MostlyWaits => (14, 6, 20, 6, 6),
        Workload::MostlyBuries => (24, 6, 3, 30, 6),
        Workload::MostlyParks => (30, 30, 3, 6, 40),
        Workload::LargeBatches => (6, 20, 3, 6, 6),
    };
    let large = matches!(setup.workload, Workload::LargeBatches);
    let (batches, take_many_max) = if large { (10, 40_usize) } else { (1, 4) };
    let keep = prop::bool::weighted(if parks > 10 { 0.9 } else { 0.5 });
    let templates = |sizes: Range<usize>| prop::collection::vec(task_template(), sizes);
    prop_oneof![
        puts / 3 => restore(tubes),
        6 => schedules(tubes),
        puts => (client.clone(), tube.clone(), task_template(), prop::bool::weighted(0.2)).prop_map(
            |(client, tube, template, deferred)| Action::Put { client, tube, template, deferred }
        ),
        2 => (client.clone(), tube.clone(), task_template(), any::<bool>()).prop_map(
            |(client, tube, template, deferred)| Action::Requeue { client, tube, template, deferred }
        ),
        puts / 2 => (
            client.clone(),
            bounded_tube(setup),
            task_template(),
            long_span()
        ).prop_map(
            |(client, tube, template, timeout)| Action::PutWait { client, tube, template, timeout }
        ),
        puts / 3 => (client.clone(), tube.clone(), templates(0..5)).prop_map(
            |(client, tube, templates)| Action::PutMany { client, tube, templates }
        ),
        batches => (client.clone(), tube.clone(), templates(1..5), 10..60_usize).prop_map(
            |(client, tube, templates, count)| Action::PutBatch { client, tube, templates, count }
        ),
        takes => (client.clone(), tube.clone(), keep).prop_map(
            |(client, tube, keep)| Action::Take { client, tube, keep }
        ),
        takes / 2 => (client.clone(), pick(tubes, parks / 2), keep).prop_map(
            |(client, pick, keep)| Action::Claim { client, pick, keep }
        ),
        takes / 5 => (client.clone(), tube.clone(), 0..take_many_max).prop_map(
            |(client, tube, max)| Action::TakeMany { client, tube, max }
        ),
        takes / 5 => (several.clone(), keep).prop_map(
            |(tubes, keep)| Action::TakeAny { tubes, keep }
        ),
        waits => (client.clone(), several, span(), keep).prop_map(
            |(client, tubes, timeout, keep)| Action::Wait { client, tubes, timeout, keep }
        ),
        waits / 2 + 1 => choice().prop_map(|wait| Action::Cancel { wait }),
        waits / 2 + 1 => (pick(tubes, parks / 2), any::<bool>()).prop_map(
            |(pick, waits)| Action::WaitDone { pick, waits }
        ),
        24 + parks => (client.clone(), pick(tubes, parks / 2), by_id(tubes, buries), prop::bool::weighted(0.2)).prop_map(
            |(client, pick, verb, deferred)| Action::ById { client, pick, verb, deferred }
        ),
        2 => (client.clone(), tube.clone(), prop::collection::vec(pick(tubes, parks / 2), 0..4)).prop_map(
            |(client, tube, picks)| Action::AckMany { client, tube, picks }
        ),
        3 + buries / 10 => edits(tubes, buries, parks),
        10 + parks => (choice(), by_claim(tubes, parks)).prop_map(
            |(claim, verb)| Action::ByClaim { claim, verb }
        ),
        2 + parks / 3 => (client.clone(), choice(), prop::bool::weighted(0.3), keep).prop_map(
            |(client, token, any, keep)| Action::ResumeClaim { client, token, any, keep }
        ),
        2 => prop::collection::vec(choice(), 0..4).prop_map(
            |claims| Action::AckClaims { claims }
        ),
        2 + buries / 5 => (tube.clone(), prop_oneof![6 => 0..3_u64, 1 => Just(u64::MAX)]).prop_map(
            |(tube, count)| Action::Kick { tube, count }
        ),
        3 + parks / 8 => (tube.clone(), any::<bool>()).prop_map(
            |(tube, forgive)| Action::ReleaseAll { tube, forgive }
        ),
        2 => (tube.clone(), tube.clone()).prop_map(|(tube, to)| Action::MoveAll { tube, to }),
        2 + parks / 13 => tube.clone().prop_map(|tube| Action::Truncate { tube }),
        7 => gate_action(tube.clone()),
        3 => tube.clone().prop_map(|tube| Action::DropTube { tube }),
        3 => (client, tube, any::<bool>(), any::<bool>()).prop_flat_map(
            move |(client, tube, same, opens)| {
                definition(kinds[tube].0, kinds[tube].1).prop_map(move |definition| {
                    Action::CreateTube { client, tube, definition, same, opens }
                })
            }
        ),
        1 => choice().prop_map(|tube| Action::UseDroppedTube { tube }),
        5 => session_action(),
        20 => clock_move().prop_map(|by| Action::Advance { by }),
        5 => wall_move().prop_map(|to| Action::SetWall { to }),
        3 + batches / 3 + parks / 16 => clock_move().prop_map(|closed_for| Action::Reopen { closed_for }),
        2 + parks / 10 => clock_move().prop_map(|dead_for| Action::Kill { dead_for }),
    ]
    .boxed()
}
