//! Chooses how a run begins, and its steps.

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

use super::reference::{Driver, Micros, NEVER, Options};
use super::steps::{
    Action, Among, ByClaim, ById, Choice, Definition, Mood, Move, Pick, SEATS, Setup, Sketch, Step,
};

/// Chooses the steps.
pub struct Steps;

impl ReferenceStateMachine for Steps {
    type State = Setup;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Setup> {
        setup().boxed()
    }

    fn transitions(setup: &Setup) -> BoxedStrategy<Step> {
        let look = prop::bool::weighted(0.5);
        (action(setup), look).prop_map(|(action, look)| Step { action, look }).boxed()
    }

    fn apply(setup: Setup, _: &Step) -> Setup {
        setup
    }
}

const MS: Micros = 1000;

fn choice() -> impl Strategy<Value = Choice> {
    any::<usize>().prop_map(Choice)
}

fn span() -> impl Strategy<Value = Micros> {
    prop_oneof![
        6 => (1..=5_u64).prop_map(|ms| ms * MS),
        2 => Just(0),
        1 => Just(1),
        2 => Just(20 * MS),
        1 => Just(NEVER),
    ]
}

/// How long somebody waits for room; most see others come and go.
fn patience() -> impl Strategy<Value = Micros> {
    prop_oneof![2 => span(), 2 => Just(20 * MS), 2 => Just(NEVER)]
}

/// A tube that may be full, if there is one.
fn full_one(setup: &Setup) -> impl Strategy<Value = usize> + use<> {
    let bounded = |tube: &usize| setup.tubes[*tube].options.capacity.is_some_and(|most| most > 0);
    let all = 0..setup.tubes.len();
    let full: Vec<usize> = all.clone().filter(bounded).collect();
    prop::sample::select(if full.is_empty() { all.collect() } else { full })
}

fn short_span() -> impl Strategy<Value = Micros> {
    prop_oneof![1 => Just(0), 2 => (1..=3_u64).prop_map(|ms| ms * MS)]
}

fn sketch() -> impl Strategy<Value = Sketch> {
    (
        prop_oneof![8 => 0..20_usize, 1 => Just(5000)],
        prop::option::of(0..4_u32),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        prop_oneof![3 => Just(0), 1 => short_span(), 1 => Just(7 * MS)],
        prop::option::weighted(0.8, prop::sample::select(vec!["x", "y", "z", ""])),
        prop::bool::weighted(0.04),
    )
        .prop_map(|(size, pri, ttl, ttr, delay, sub_queue, wild)| Sketch {
            size,
            pri,
            ttl,
            ttr,
            delay,
            sub_queue: sub_queue.map(str::to_owned),
            wild,
        })
}

fn driver() -> impl Strategy<Value = Driver> {
    prop::sample::select(Driver::ALL.to_vec())
}

fn definition(temporary: bool, relaxed: bool) -> impl Strategy<Value = Definition> {
    let timed = (
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, span()),
        prop::option::weighted(0.3, 0..4_u32),
    );
    (driver(), timed, prop::option::weighted(0.7, 0..6_u64)).prop_map(
        move |(driver, (ttl, ttr, pri), capacity)| {
            let timed = driver.timed();
            let options = Options {
                ttl: ttl.filter(|_| timed),
                ttr: ttr.filter(|_| timed),
                pri: pri.filter(|_| timed),
                capacity: capacity.filter(|_| driver.bounded()),
                temporary,
            };
            Definition { driver, options, relaxed }
        },
    )
}

fn setup() -> impl Strategy<Value = Setup> {
    let others = [
        definition(true, false).boxed(),
        definition(false, true).boxed(),
        definition(false, false).boxed(),
    ];
    // Their number stays while the rest shrinks: the steps name them.
    let others = prop::sample::subsequence(others.to_vec(), 1..=3).no_shrink();
    let others = others.prop_flat_map(|others| others);
    (
        definition(false, false),
        others,
        prop::sample::select(vec![0, 2 * MS, 5 * MS]),
        prop::sample::select(vec![
            Mood::Filling,
            Mood::Draining,
            Mood::Waiting,
            Mood::Burying,
            Mood::Crowding,
        ]),
    )
        .prop_map(|(first, mut others, grace, mood)| {
            others.insert(0, first);
            Setup { tubes: others, grace, mood }
        })
}

fn pick(tubes: usize) -> impl Strategy<Value = Pick> {
    let among = prop_oneof![
        6 => Just(Among::Held),
        3 => Just(Among::Living),
        1 => Just(Among::Known),
    ];
    (0..tubes, among, choice()).prop_map(|(tube, among, index)| Pick { tube, among, index })
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::By(0)),
        1 => Just(Move::By(1)),
        3 => (1..=3_u64).prop_map(|ms| Move::By(ms * MS)),
        1 => Just(Move::By(100 * MS)),
        8 => (0..3_usize, -1..=1_i64).prop_map(|(nth, offset)| Move::ToDue { nth, offset }),
    ]
}

fn by_id(buries: u32) -> impl Strategy<Value = ById> {
    prop_oneof![
        6 => Just(ById::Ack),
        4 => short_span().prop_map(|delay| ById::Release { delay }),
        3 => span().prop_map(|by| ById::Touch { by }),
        2 => span().prop_map(|hold| ById::Renew { hold }),
        buries => Just(ById::Bury),
        4 => Just(ById::Delete),
        1 => Just(ById::Peek),
    ]
}

fn by_claim() -> impl Strategy<Value = ByClaim> {
    prop_oneof![
        4 => any::<bool>().prop_map(|deferred| ByClaim::Ack { deferred }),
        3 => short_span().prop_map(|delay| ByClaim::Release { delay }),
        2 => span().prop_map(|by| ByClaim::Touch { by }),
        2 => span().prop_map(|hold| ByClaim::Renew { hold }),
        2 => Just(ByClaim::Bury),
        3 => Just(ByClaim::Drop),
        2 => Just(ByClaim::Detach),
    ]
}

fn action(setup: &Setup) -> BoxedStrategy<Action> {
    let tubes = setup.tubes.len();
    let (seat, tube) = (0..SEATS, 0..tubes);
    let several = prop::collection::vec(tube.clone(), 1..=3);
    let temporary = setup.tubes.iter().map(|tube| tube.options.temporary).collect::<Vec<_>>();
    let relaxed = setup.tubes.iter().map(|tube| tube.relaxed).collect::<Vec<_>>();
    let (puts, takes, waits, buries) = match setup.mood {
        Mood::Filling => (24, 10, 3, 6),
        Mood::Draining => (10, 24, 4, 6),
        Mood::Waiting => (14, 6, 20, 6),
        Mood::Burying => (24, 6, 3, 30),
        Mood::Crowding => (6, 20, 3, 6),
    };
    let (crowds, most) = if matches!(setup.mood, Mood::Crowding) { (10, 40_usize) } else { (1, 4) };
    prop_oneof![
        puts => (seat.clone(), tube.clone(), sketch(), prop::bool::weighted(0.2)).prop_map(
            |(seat, tube, draft, deferred)| Action::Put { seat, tube, draft, deferred }
        ),
        puts / 2 => (seat.clone(), full_one(setup), sketch(), patience()).prop_map(
            |(seat, tube, draft, timeout)| Action::PutWait { seat, tube, draft, timeout }
        ),
        puts / 3 => (seat.clone(), tube.clone(), prop::collection::vec(sketch(), 0..5)).prop_map(
            |(seat, tube, drafts)| Action::PutMany { seat, tube, drafts }
        ),
        crowds => (
            seat.clone(),
            tube.clone(),
            prop::collection::vec(sketch(), 1..5),
            10..60_usize
        ).prop_map(
            |(seat, tube, drafts, count)| Action::PutCrowd { seat, tube, drafts, count }
        ),
        takes => (seat.clone(), tube.clone(), any::<bool>()).prop_map(
            |(seat, tube, keep)| Action::Take { seat, tube, keep }
        ),
        takes / 5 => (seat.clone(), tube.clone(), 0..most).prop_map(
            |(seat, tube, max)| Action::TakeMany { seat, tube, max }
        ),
        takes / 5 => (several.clone(), any::<bool>()).prop_map(
            |(tubes, keep)| Action::TakeAny { tubes, keep }
        ),
        waits => (seat.clone(), several, span(), any::<bool>()).prop_map(
            |(seat, tubes, timeout, keep)| Action::Wait { seat, tubes, timeout, keep }
        ),
        waits / 2 + 1 => choice().prop_map(|wait| Action::Cancel { wait }),
        24 => (seat.clone(), pick(tubes), by_id(buries), prop::bool::weighted(0.2)).prop_map(
            |(seat, pick, verb, deferred)| Action::ById { seat, pick, verb, deferred }
        ),
        2 => (seat.clone(), tube.clone(), prop::collection::vec(pick(tubes), 0..4)).prop_map(
            |(seat, tube, picks)| Action::AckMany { seat, tube, picks }
        ),
        10 => (choice(), by_claim()).prop_map(
            |(claim, verb)| Action::ByClaim { claim, verb }
        ),
        2 => prop::collection::vec(choice(), 0..4).prop_map(
            |claims| Action::AckClaims { claims }
        ),
        2 + buries / 5 => (tube.clone(), prop_oneof![6 => 0..3_u64, 1 => Just(u64::MAX)]).prop_map(
            |(tube, count)| Action::Kick { tube, count }
        ),
        2 => tube.clone().prop_map(|tube| Action::ReleaseAll { tube }),
        2 => tube.clone().prop_map(|tube| Action::Truncate { tube }),
        3 => tube.clone().prop_map(|tube| Action::DropTube { tube }),
        3 => (seat.clone(), tube, any::<bool>(), any::<bool>()).prop_flat_map(
            move |(seat, tube, same, if_not_exists)| {
                definition(temporary[tube], relaxed[tube]).prop_map(move |definition| {
                    Action::CreateTube { seat, tube, definition, same, if_not_exists }
                })
            }
        ),
        1 => choice().prop_map(|tube| Action::UseDroppedTube { tube }),
        1 => seat.clone().prop_map(|seat| Action::EndSession { seat }),
        2 => seat.clone().prop_map(|seat| Action::LeaveSession { seat }),
        2 => seat.prop_map(|seat| Action::ResumeSession { seat }),
        20 => movement().prop_map(|by| Action::Advance { by }),
        3 + crowds / 3 => movement().prop_map(|away| Action::Reopen { away }),
    ]
    .boxed()
}
