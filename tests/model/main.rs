//! The library against the reference model: random steps over all verbs, on tubes of all drivers in
//! a real file that is closed and opened again in between.
//!
//! A step names what it acts on by a choice, not by an id, and the choice is made when the step is
//! carried out, among what the model then knows: living tasks, held ones, and those long gone. So
//! a sequence keeps its meaning when steps are taken out of it. The model lives beside the library
//! and not with the generator because it follows the library where the specification leaves the
//! order of things open; see [`Ties`].
//!
//! After every step every answer, every wake-up, the statistics, and every few steps all tasks, all
//! events and the file's own `verify` are compared.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tempfile::TempDir;
use tubewell::{
    Claim, Durability, Error, EventKind, ManualClock, Put, Receipt, Result, Session, SessionId,
    Statistics, Store, StoreOptions, Subscription, TakeFuture, TaskInfo, Tube, TubeOptions,
    WhenFull,
};

use reference::{
    Answer, Cause, ClaimNo, Draft, Driver, Holder, Mark, Micros, Model, NEVER, Options, Refusal,
    SessionNo, State, Taken, TaskNo, Ties, TubeNo, Verb, WaitNo,
};

// ---- what is generated

/// How a run begins.
#[derive(Clone, Debug)]
struct Setup {
    tubes: Vec<Definition>,
    grace: Micros,
    mood: Mood,
}

#[derive(Clone, Debug)]
struct Definition {
    driver: Driver,
    options: Options,
    relaxed: bool,
}

/// What there is more of, so that tubes run full, run empty, keep people waiting, set aside what is
/// in them, and hold more than is kept at hand.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Filling,
    Draining,
    Waiting,
    Burying,
    Crowding,
}

/// One step, and whether those who wait look at once whether they were woken.
#[derive(Clone, Debug)]
struct Step {
    action: Action,
    look: bool,
}

#[derive(Clone, Debug)]
enum Action {
    Put {
        seat: usize,
        tube: usize,
        draft: Sketch,
        deferred: bool,
    },
    PutMany {
        seat: usize,
        tube: usize,
        drafts: Vec<Sketch>,
    },
    /// As many as that, like these in turn, and some in sub-queues of their own.
    PutCrowd {
        seat: usize,
        tube: usize,
        drafts: Vec<Sketch>,
        count: usize,
    },
    Take {
        seat: usize,
        tube: usize,
        keep: bool,
    },
    TakeMany {
        seat: usize,
        tube: usize,
        max: usize,
    },
    TakeAny {
        tubes: Vec<usize>,
        keep: bool,
    },
    Wait {
        seat: usize,
        tubes: Vec<usize>,
        timeout: Micros,
        keep: bool,
    },
    Cancel {
        wait: Index,
    },
    ById {
        seat: usize,
        pick: Pick,
        verb: ById,
        deferred: bool,
    },
    AckMany {
        seat: usize,
        tube: usize,
        picks: Vec<Pick>,
    },
    ByClaim {
        claim: Index,
        verb: ByClaim,
    },
    AckClaims {
        claims: Vec<Index>,
    },
    Kick {
        tube: usize,
        count: u64,
    },
    ReleaseAll {
        tube: usize,
    },
    Truncate {
        tube: usize,
    },
    DropTube {
        tube: usize,
    },
    CreateTube {
        seat: usize,
        tube: usize,
        definition: Definition,
        same: bool,
        if_not_exists: bool,
    },
    UseDroppedTube {
        tube: Index,
    },
    EndSession {
        seat: usize,
    },
    LeaveSession {
        seat: usize,
    },
    ResumeSession {
        seat: usize,
    },
    Advance {
        by: Move,
    },
    Reopen {
        away: Move,
    },
}

#[derive(Clone, Debug)]
enum ById {
    Ack,
    Release { delay: Micros },
    Touch { by: Micros },
    Renew { hold: Micros },
    Bury,
    Delete,
    Peek,
}

#[derive(Clone, Debug)]
enum ByClaim {
    Ack { deferred: bool },
    Release { delay: Micros },
    Touch { by: Micros },
    Renew { hold: Micros },
    Bury,
    Drop,
    Detach,
}

/// A task to be put. Options that the tube's driver lacks are left out unless it is wild.
#[derive(Clone, Debug, Default)]
struct Sketch {
    size: usize,
    pri: Option<u32>,
    ttl: Option<Micros>,
    ttr: Option<Micros>,
    delay: Micros,
    sub_queue: Option<String>,
    wild: bool,
}

/// A task of a tube.
#[derive(Clone, Debug)]
struct Pick {
    tube: usize,
    among: Among,
    index: Index,
}

#[derive(Clone, Copy, Debug)]
enum Among {
    /// What the session holds there.
    Held,
    /// What is there.
    Living,
    /// All that ever was anywhere.
    Known,
}

/// A move of the clock.
#[derive(Clone, Debug)]
enum Move {
    By(Micros),
    /// To a moment at which something falls due, just before it, or just after.
    ToDue {
        nth: usize,
        offset: i64,
    },
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SEATS: usize = 3;
const FILE: &str = "store.tubewell";
const MS: Micros = 1000;

fn span() -> impl Strategy<Value = Micros> {
    prop_oneof![
        6 => (1..=5_u64).prop_map(|ms| ms * MS),
        2 => Just(0),
        1 => Just(1),
        2 => Just(20 * MS),
        1 => Just(NEVER),
    ]
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
    (0..tubes, among, any::<Index>()).prop_map(|(tube, among, index)| Pick { tube, among, index })
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
        waits / 2 + 1 => any::<Index>().prop_map(|wait| Action::Cancel { wait }),
        24 => (seat.clone(), pick(tubes), by_id(buries), prop::bool::weighted(0.2)).prop_map(
            |(seat, pick, verb, deferred)| Action::ById { seat, pick, verb, deferred }
        ),
        2 => (seat.clone(), tube.clone(), prop::collection::vec(pick(tubes), 0..4)).prop_map(
            |(seat, tube, picks)| Action::AckMany { seat, tube, picks }
        ),
        10 => (any::<Index>(), by_claim()).prop_map(
            |(claim, verb)| Action::ByClaim { claim, verb }
        ),
        2 => prop::collection::vec(any::<Index>(), 0..4).prop_map(
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
        1 => any::<Index>().prop_map(|tube| Action::UseDroppedTube { tube }),
        1 => seat.clone().prop_map(|seat| Action::EndSession { seat }),
        2 => seat.clone().prop_map(|seat| Action::LeaveSession { seat }),
        2 => seat.prop_map(|seat| Action::ResumeSession { seat }),
        20 => movement().prop_map(|by| Action::Advance { by }),
        3 + crowds / 3 => movement().prop_map(|away| Action::Reopen { away }),
    ]
    .boxed()
}

// ---- the library and the model side by side

struct System {
    folder: TempDir,
    clock: ManualClock,
    options: StoreOptions,
    store: Store,
    model: Model,
    relaxed: Vec<bool>,
    /// The tube of each name, if there is one.
    tubes: Vec<Option<TubeNo>>,
    /// Handles of tubes that were dropped.
    dropped: Vec<Tube>,
    /// The first is the store's own session.
    seats: Vec<Seat>,
    /// The library's id of each task that ever was.
    ids: BTreeMap<TaskNo, u64>,
    /// The other way round.
    numbers: BTreeMap<u64, TaskNo>,
    /// In which of the tubes it was put.
    homes: BTreeMap<TaskNo, usize>,
    /// Tasks up to this one have lived through a close.
    reopened: TaskNo,
    claims: BTreeMap<ClaimNo, Held>,
    /// Of all claims that ever were.
    epochs: BTreeSet<u64>,
    waits: BTreeMap<WaitNo, Waiting>,
    events: Subscription,
    steps: u64,
    /// After how many steps everything is compared.
    check_every: u64,
}

/// Somebody who opens a session when he needs one.
struct Seat {
    no: SessionNo,
    id: SessionId,
    session: Option<Session>,
}

/// A claim that its holder has as a handle.
struct Held {
    taken: Taken,
    tube: TubeNo,
    session: SessionNo,
    claim: Claim,
}

/// A take that waits, polled by hand when its waker was called.
struct Waiting {
    future: Option<Pin<Box<TakeFuture>>>,
    bell: Arc<Bell>,
    answer: Option<Result<Option<Claim>>>,
    session: SessionNo,
    keep: bool,
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiting {
    fn rung(&self) -> bool {
        self.bell.0.load(Ordering::SeqCst)
    }

    /// Polls if the bell was rung; an answer that nobody is told of is no answer.
    fn look(&mut self) {
        if self.bell.0.swap(false, Ordering::SeqCst)
            && let Some(future) = &mut self.future
        {
            let waker = Waker::from(Arc::clone(&self.bell));
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.future = None;
                self.answer = Some(answer);
            }
        }
    }
}

/// All that is said about a task without its body.
#[derive(Debug, PartialEq)]
struct Seen {
    state: State,
    pri: u32,
    sub_queue: Option<String>,
    size: u64,
    takes: Option<u32>,
    ttl_left: Option<Micros>,
    ttr: Option<Micros>,
    due_in: Option<Micros>,
}

fn duration(micros: Micros) -> Duration {
    if micros == NEVER { Duration::MAX } else { Duration::from_micros(micros) }
}

fn timeout(micros: Micros) -> Option<Duration> {
    (micros != NEVER).then(|| duration(micros))
}

fn finite(micros: Micros) -> Option<Micros> {
    (micros != NEVER).then_some(micros)
}

fn micros(duration: Option<Duration>) -> Option<Micros> {
    duration.map(|duration| u64::try_from(duration.as_micros()).unwrap())
}

fn name_of(driver: Driver) -> &'static str {
    match driver {
        Driver::Fifo => tubewell::FIFO,
        Driver::Fifottl => tubewell::FIFOTTL,
        Driver::Limfifottl => tubewell::LIMFIFOTTL,
        Driver::Utube => tubewell::UTUBE,
        Driver::Utubettl => tubewell::UTUBETTL,
    }
}

fn state_of(state: tubewell::State) -> State {
    match state {
        tubewell::State::Ready => State::Ready,
        tubewell::State::Taken => State::Taken,
        tubewell::State::Delayed => State::Delayed,
        tubewell::State::Buried => State::Buried,
        tubewell::State::Done => State::Done,
    }
}

fn verb_of(kind: EventKind) -> Verb {
    match kind {
        EventKind::Put => Verb::Put,
        EventKind::Take => Verb::Take,
        EventKind::Ack => Verb::Ack,
        EventKind::Release => Verb::Release,
        EventKind::Bury => Verb::Bury,
        EventKind::Kick => Verb::Kick,
        EventKind::Delete => Verb::Delete,
        EventKind::Touch => Verb::Touch,
        EventKind::Ttl => Verb::Ttl,
        EventKind::Ttr => Verb::Ttr,
        EventKind::Delay => Verb::Delay,
        other => panic!("the model knows no event {other:?}"),
    }
}

fn refusal_of(error: &Error) -> Refusal {
    match error {
        Error::NotTaken { .. } => Refusal::NotTaken,
        Error::NotFound { .. } => Refusal::NotFound,
        Error::Unsupported { .. } => Refusal::Unsupported,
        Error::Full { .. } => Refusal::Full,
        Error::TubeExists { .. } => Refusal::TubeExists,
        Error::TubeDiffers { .. } => Refusal::TubeDiffers,
        Error::TubeDropped { .. } => Refusal::TubeDropped,
        Error::TubeBusy { .. } => Refusal::TubeBusy,
        Error::SessionUnknown { .. } => Refusal::SessionUnknown,
        Error::SessionEnded => Refusal::SessionEnded,
        Error::Closed => Refusal::Closed,
        other => panic!("the model knows no error {other:?}"),
    }
}

/// Both were carried out, or refused for the same reason.
#[track_caller]
fn agree<T, U: Debug>(got: Result<T>, want: Answer<U>) -> Option<(T, U)> {
    match (got, want) {
        (Ok(got), Ok(want)) => Some((got, want)),
        (Err(got), Err(want)) => {
            assert_eq!(refusal_of(&got), want, "{got:?}");
            None
        }
        (Ok(_), Err(want)) => panic!("carried out, but should be refused: {want:?}"),
        (Err(got), Ok(want)) => panic!("refused: {got:?}, but should answer {want:?}"),
    }
}

/// A put with an option that the driver lacks, into a tube that is full: either may be named.
fn twice_refused<T, U>(got: &Result<T>, want: &Answer<U>) -> bool {
    matches!((got, want), (Err(Error::Full { .. }), Err(Refusal::Unsupported)))
}

#[track_caller]
fn agree_on_receipt(got: Result<Receipt>, want: Answer<State>, id: u64) {
    if let Err(Error::NotTaken { id: named } | Error::NotFound { id: named }) = &got {
        assert_eq!(*named, id);
    }
    if let Some((receipt, state)) = agree(got, want) {
        assert_eq!((receipt.id, state_of(receipt.state)), (id, state));
    }
}

#[track_caller]
fn agree_on_receipts(got: Result<Vec<Result<Receipt>>>, want: Vec<Answer<State>>, ids: &[u64]) {
    let got = got.unwrap();
    assert_eq!((got.len(), want.len()), (ids.len(), ids.len()));
    for ((got, want), id) in got.into_iter().zip(want).zip(ids) {
        agree_on_receipt(got, want, *id);
    }
}

#[track_caller]
fn agree_on_touch(got: Result<Option<Receipt>>, want: Answer<Option<State>>, id: u64) {
    if let Some((got, want)) = agree(got, want) {
        let got = got.map(|receipt| (receipt.id, state_of(receipt.state)));
        assert_eq!(got, want.map(|state| (id, state)));
    }
}

/// The statistics by name; what is zero is left out.
fn counts(statistics: &Statistics) -> BTreeMap<&'static str, u64> {
    let Statistics { tasks, calls, .. } = statistics;
    non_zero(&[
        ("tasks.ready", tasks.ready),
        ("tasks.taken", tasks.taken),
        ("tasks.delayed", tasks.delayed),
        ("tasks.buried", tasks.buried),
        ("tasks.total", tasks.total),
        ("tasks.done", tasks.done),
        ("calls.put", calls.put),
        ("calls.take", calls.take),
        ("calls.ack", calls.ack),
        ("calls.release", calls.release),
        ("calls.bury", calls.bury),
        ("calls.kick", calls.kick),
        ("calls.delete", calls.delete),
        ("calls.touch", calls.touch),
        ("calls.ttl", calls.ttl),
        ("calls.ttr", calls.ttr),
        ("calls.delay", calls.delay),
    ])
}

fn non_zero(counts: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    counts.iter().filter(|(_, count)| *count > 0).copied().collect()
}

impl System {
    fn new(setup: &Setup) -> System {
        System::with(setup, Durability::Flush, 5)
    }

    /// Tubes that are not relaxed by themselves are of this durability.
    fn with(setup: &Setup, durability: Durability, check_every: u64) -> System {
        let (folder, clock) = (TempDir::new().unwrap(), ManualClock::new());
        let grace = duration(setup.grace);
        let options = Store::options().clock(&clock).session_grace(grace).durability(durability);
        let store = options.clone().open(folder.path().join(FILE)).unwrap();
        let mut model = Model::new(setup.grace);
        let seat = |session: Option<Session>| Seat {
            no: model.begin_session(),
            id: session.as_ref().map_or(SessionId::from_bytes([0; 16]), Session::id),
            session,
        };
        let sessions = std::iter::repeat_with(|| Some(store.session())).take(SEATS - 1);
        let seats = std::iter::once(None).chain(sessions).map(seat).collect();
        let mut system = System {
            folder,
            clock,
            options,
            events: store.subscribe(1 << 16),
            store,
            model,
            relaxed: setup.tubes.iter().map(|tube| tube.relaxed).collect(),
            tubes: vec![None; setup.tubes.len()],
            dropped: Vec::new(),
            seats,
            ids: BTreeMap::new(),
            numbers: BTreeMap::new(),
            homes: BTreeMap::new(),
            reopened: 0,
            claims: BTreeMap::new(),
            epochs: BTreeSet::new(),
            waits: BTreeMap::new(),
            steps: 0,
            check_every,
        };
        for (tube, definition) in setup.tubes.iter().enumerate() {
            system.create_tube(0, tube, definition, false);
        }
        system.check();
        system
    }

    fn step(&mut self, step: Step) {
        self.steps += 1;
        let moved = matches!(step.action, Action::Advance { .. } | Action::Reopen { .. });
        self.act(step.action);
        if !moved {
            self.advance(0);
        }
        if step.look {
            self.look();
        }
        self.check_waits();
        self.check_statistics();
        if moved && self.check_every < 10 || self.steps.is_multiple_of(self.check_every) {
            self.check();
        }
    }

    /// Does what is said, unless what it is about does not exist.
    fn act(&mut self, action: Action) {
        match action {
            Action::Put { seat, tube, draft, deferred } => self.put(seat, tube, &draft, deferred),
            Action::PutMany { seat, tube, drafts } => self.put_many(seat, tube, &drafts),
            Action::PutCrowd { seat, tube, drafts, count } => {
                let mut crowd: Vec<Sketch> = drafts.iter().cycle().take(count).cloned().collect();
                for (n, sketch) in crowd.iter_mut().enumerate().step_by(2) {
                    sketch.sub_queue = Some(format!("{}", n * 7 % 30));
                }
                self.put_many(seat, tube, &crowd);
            }
            Action::Take { seat, tube, keep } => self.take(seat, tube, keep),
            Action::TakeMany { seat, tube, max } => self.take_many(seat, tube, max),
            Action::TakeAny { tubes, keep } => self.take_any(&tubes, keep),
            Action::Wait { seat, tubes, timeout, keep } => self.wait(seat, &tubes, timeout, keep),
            Action::Cancel { wait } => self.cancel(wait),
            Action::ById { seat, pick, verb, deferred } => self.by_id(seat, &pick, verb, deferred),
            Action::AckMany { seat, tube, picks } => self.ack_many(seat, tube, &picks),
            Action::ByClaim { claim, verb } => self.by_claim(claim, verb),
            Action::AckClaims { claims } => self.ack_claims(&claims),
            Action::Kick { tube, count } => {
                self.of_tube(tube, |tube, model, no| (tube.kick(count), model.kick(no, count)));
            }
            Action::ReleaseAll { tube } => {
                self.of_tube(tube, |tube, model, no| (tube.release_all(), model.release_all(no)));
            }
            Action::Truncate { tube } => {
                self.of_tube(tube, |tube, model, no| (tube.truncate(), model.truncate(no)));
            }
            Action::DropTube { tube } => self.drop_tube(tube),
            Action::CreateTube { seat, tube, definition, same, if_not_exists } => {
                self.sit(seat);
                let definition = match self.tubes[tube] {
                    Some(no) if same => self.definition(tube, no),
                    Some(_) => definition,
                    None => {
                        let mut wild = definition.clone();
                        wild.options.pri.get_or_insert(0);
                        wild.options.capacity.get_or_insert(1);
                        if !(definition.driver.timed() && definition.driver.bounded()) {
                            self.create_tube(seat, tube, &wild, if_not_exists);
                        }
                        definition
                    }
                };
                self.create_tube(seat, tube, &definition, if_not_exists);
            }
            Action::UseDroppedTube { tube } => self.use_dropped_tube(tube),
            Action::EndSession { seat } => self.end_session(seat.max(1)),
            Action::LeaveSession { seat } => self.leave_session(seat.max(1)),
            Action::ResumeSession { seat } => self.resume_session(seat.max(1)),
            Action::Advance { by } => {
                let by = self.distance(&by);
                self.advance(by);
            }
            Action::Reopen { away } => self.reopen(&away),
        }
    }

    // ---- who and what

    /// A session for this seat; a new one if the last has ended or was left.
    fn sit(&mut self, seat: usize) -> SessionNo {
        if seat > 0 && self.seats[seat].session.is_none() {
            let session = self.store.session();
            self.seats[seat] =
                Seat { no: self.model.begin_session(), id: session.id(), session: Some(session) };
        }
        self.seats[seat].no
    }

    /// A handle of the tube for this seat, if there is such a tube.
    fn tube(&mut self, seat: usize, tube: usize) -> Option<(Tube, TubeNo, SessionNo)> {
        let session = self.sit(seat);
        let handle = match &self.seats[seat].session {
            Some(session) => session.tube(NAMES[tube]),
            None => self.store.tube(NAMES[tube]),
        };
        match self.tubes[tube] {
            Some(no) => Some((handle.unwrap(), no, session)),
            None => {
                let name = NAMES[tube].to_owned();
                assert_eq!(handle.err(), Some(Error::TubeNotFound { name }));
                None
            }
        }
    }

    /// A verb that concerns all of a tube.
    fn of_tube<T: Debug + PartialEq>(
        &mut self,
        tube: usize,
        verb: impl FnOnce(&Tube, &mut Model, TubeNo) -> (Result<T>, Answer<T>),
    ) {
        if let Some((handle, no, _)) = self.tube(0, tube) {
            let (got, want) = verb(&handle, &mut self.model, no);
            if let Some((got, want)) = agree(got, want) {
                assert_eq!(got, want);
            }
        }
    }

    fn number(&self, id: u64) -> TaskNo {
        *self.numbers.get(&id).unwrap_or_else(|| panic!("nobody put a task {id}"))
    }

    /// The task that is meant, and what the library calls it. There may be none such.
    fn pick(&self, pick: &Pick, tube: TubeNo, session: SessionNo) -> (TaskNo, u64) {
        let tasks = self.model.tasks(tube);
        let held = |task: &reference::Task| task.claim().is_some_and(|(_, who)| who == session);
        let choices: Vec<TaskNo> = match pick.among {
            Among::Held => tasks.filter(|(_, task)| held(task)).map(|(no, _)| no).collect(),
            Among::Living => tasks.map(|(no, _)| no).collect(),
            Among::Known => self.ids.keys().copied().collect(),
        };
        if choices.is_empty() {
            return (0, u64::MAX);
        }
        let no = *pick.index.get(&choices);
        (no, self.ids[&no])
    }

    // ---- putting

    /// What is put, in the words of both. `extra` keeps the bodies of one step apart.
    fn draft(&self, sketch: &Sketch, tube: TubeNo, extra: usize) -> (Put, Draft) {
        let driver = self.model.tubes()[&tube].driver;
        let (timed, sub_queued) =
            (sketch.wild || driver.timed(), sketch.wild || driver.sub_queued());
        let mut data = format!("{}.{extra}", self.steps).into_bytes();
        data.resize(sketch.size, b'-');
        let draft = Draft {
            data,
            pri: sketch.pri.filter(|_| timed),
            ttl: sketch.ttl.filter(|_| timed),
            ttr: sketch.ttr.filter(|_| timed),
            delay: if timed { sketch.delay } else { 0 },
            sub_queue: sketch.sub_queue.clone().filter(|_| sub_queued),
        };
        let mut put = Put::new(draft.data.clone()).delay(duration(draft.delay));
        if let Some(pri) = draft.pri {
            put = put.pri(pri);
        }
        if let Some(ttl) = draft.ttl {
            put = put.ttl(duration(ttl));
        }
        if let Some(ttr) = draft.ttr {
            put = put.ttr(duration(ttr));
        }
        if let Some(name) = &draft.sub_queue {
            put = put.sub_queue(name.as_str());
        }
        (put, draft)
    }

    fn put(&mut self, seat: usize, tube: usize, sketch: &Sketch, deferred: bool) {
        let Some((handle, no, _)) = self.tube(seat, tube) else { return };
        let (put, draft) = self.draft(sketch, no, 0);
        let got = if deferred {
            handle.deferred(WhenFull::Block).put(put).and_then(tubewell::Ticket::wait)
        } else {
            handle.put(put)
        };
        let want = self.model.put(no, &draft);
        if !twice_refused(&got, &want)
            && let Some((receipt, placed)) = agree(got, want)
        {
            self.learn(tube, receipt, placed);
        }
    }

    fn put_many(&mut self, seat: usize, tube: usize, sketches: &[Sketch]) {
        let Some((handle, no, _)) = self.tube(seat, tube) else { return };
        let drafts = sketches.iter().enumerate();
        let drafts = drafts.map(|(extra, sketch)| self.draft(sketch, no, extra));
        let (puts, drafts): (Vec<Put>, Vec<Draft>) = drafts.unzip();
        let (got, want) = (handle.put_many(puts), self.model.put_many(no, &drafts));
        if !twice_refused(&got, &want)
            && let Some((receipts, placed)) = agree(got, want)
        {
            assert_eq!(receipts.len(), placed.len());
            for (receipt, placed) in receipts.into_iter().zip(placed) {
                self.learn(tube, receipt, placed);
            }
        }
    }

    /// Ids grow and are never used again, in none of the store's lives.
    fn learn(&mut self, tube: usize, receipt: Receipt, (no, state): (TaskNo, State)) {
        assert_eq!(state_of(receipt.state), state);
        if let Some((before, id)) = self.ids.last_key_value() {
            assert!(*before < no && *id < receipt.id, "id {} after {id}", receipt.id);
        }
        self.ids.insert(no, receipt.id);
        self.numbers.insert(receipt.id, no);
        self.homes.insert(no, tube);
    }

    // ---- taking

    fn take(&mut self, seat: usize, tube: usize, keep: bool) {
        let Some((handle, tube, session)) = self.tube(seat, tube) else { return };
        let want = self.model.take(session, &[tube]);
        if let Some((got, want)) = agree(handle.take(Duration::ZERO), want) {
            self.taken(session, got, want, keep);
        }
    }

    fn take_many(&mut self, seat: usize, tube: usize, max: usize) {
        let Some((handle, tube, session)) = self.tube(seat, tube) else { return };
        let claims = handle.take_many(max, Duration::ZERO).unwrap();
        assert!(claims.len() <= max);
        let mut claims = claims.into_iter();
        for _ in 0..max {
            let want = self.model.take(session, &[tube]).unwrap();
            self.taken(session, claims.next(), want, true);
        }
    }

    /// For the store's own session.
    fn take_any(&mut self, tubes: &[usize], keep: bool) {
        let (handles, tubes, session) = self.several(0, tubes);
        if tubes.is_empty() {
            return;
        }
        let handles: Vec<&Tube> = handles.iter().collect();
        let want = self.model.take(session, &tubes);
        if let Some((got, want)) = agree(self.store.take_any(&handles, Duration::ZERO), want) {
            self.taken(session, got, want, keep);
        }
    }

    /// Those of the tubes that there are, each once.
    fn several(&mut self, seat: usize, tubes: &[usize]) -> (Vec<Tube>, Vec<TubeNo>, SessionNo) {
        let (mut handles, mut numbers) = (Vec::new(), Vec::new());
        for tube in tubes {
            if let Some((handle, no, _)) = self.tube(seat, *tube)
                && !numbers.contains(&no)
            {
                handles.push(handle);
                numbers.push(no);
            }
        }
        (handles, numbers, self.sit(seat))
    }

    /// The same task was taken, or none; the claim is kept as a handle or left to the session.
    #[track_caller]
    fn taken(&mut self, session: SessionNo, got: Option<Claim>, want: Option<Taken>, keep: bool) {
        let got_no = got.as_ref().map(|claim| self.number(claim.id()));
        assert_eq!(got_no, want.map(|taken| taken.task));
        let (Some(claim), Some(taken)) = (got, want) else { return };
        assert!(self.epochs.insert(claim.epoch()), "two claims of one epoch");
        let mut tube = None;
        // Meanwhile it may have gone.
        let there = self.model.tubes().keys().find_map(|no| self.model.peek(*no, taken.task).ok());
        if let Some(task) = there {
            tube = Some(task.tube);
            assert_eq!(claim.data(), task.data);
            assert_eq!(claim.tube(), self.model.tubes()[&task.tube].name);
            assert_eq!(claim.pri(), task.pri);
            assert_eq!(claim.sub_queue(), task.sub_queue.as_deref());
        }
        if keep && let Some(tube) = tube {
            self.claims.insert(taken.claim, Held { taken, tube, session, claim });
        } else {
            assert_eq!(self.number(claim.detach().info.id), taken.task);
        }
    }

    // ---- waiting

    fn wait(&mut self, seat: usize, tubes: &[usize], until: Micros, keep: bool) {
        let seat = if tubes.len() > 1 { 0 } else { seat };
        let (handles, tubes, session) = self.several(seat, tubes);
        let future = match &handles[..] {
            [] => return,
            [one] => one.take_async(timeout(until)),
            several => {
                let several: Vec<&Tube> = several.iter().collect();
                self.store.take_any_async(&several, timeout(until))
            }
        };
        let no = self.model.wait(session, &tubes, until).unwrap();
        let mut waiting = Waiting {
            future: Some(Box::pin(future)),
            bell: Arc::new(Bell(AtomicBool::new(true))),
            answer: None,
            session,
            keep,
        };
        waiting.look();
        assert_eq!(waiting.answer.is_some(), self.model.answer(no).is_some());
        self.waits.insert(no, waiting);
        self.fetch();
    }

    /// Gives up a wait, answered or not: what it was given goes back.
    fn cancel(&mut self, wait: Index) {
        if self.waits.is_empty() {
            return;
        }
        let mut waits: Vec<WaitNo> = self.waits.keys().copied().collect();
        // Rather one who was woken and has not looked.
        waits.sort_by_key(|no| !self.waits[no].rung());
        let rung = waits.iter().filter(|no| self.waits[*no].rung()).count();
        waits.truncate(if rung > 0 { rung } else { waits.len() });
        self.give_up(*wait.get(&waits));
    }

    fn give_up(&mut self, wait: WaitNo) {
        self.waits.remove(&wait);
        self.model.cancel(wait);
    }

    /// All who were woken look why.
    fn look(&mut self) {
        self.poll();
        self.check_waits();
        self.fetch();
    }

    /// Who was given a task and has lost it before he looked may get a stale claim or go on
    /// waiting, the specification does not say. He gives up.
    fn poll(&mut self) {
        let lost = |no: &WaitNo| match self.model.answer(*no) {
            Some(Ok(Some(taken))) => !self.model.stands(taken),
            _ => false,
        };
        for no in self.waits.keys().copied().filter(lost).collect::<Vec<_>>() {
            self.give_up(no);
        }
        for waiting in self.waits.values_mut() {
            waiting.look();
        }
    }

    /// Those who have their answer do not wait any more.
    fn fetch(&mut self) {
        let answered = self.waits.iter().filter(|(_, waiting)| waiting.answer.is_some());
        for no in answered.map(|(no, _)| *no).collect::<Vec<_>>() {
            let Some(waiting) = self.waits.remove(&no) else { continue };
            let (got, want) = (waiting.answer.unwrap(), self.model.fetch(no).unwrap());
            if let Some((got, want)) = agree(got, want) {
                self.taken(waiting.session, got, want, waiting.keep);
            }
        }
    }

    // ---- what is done with tasks

    fn by_id(&mut self, seat: usize, pick: &Pick, verb: ById, deferred: bool) {
        let Some((tube, tube_no, session)) = self.tube(seat, pick.tube) else { return };
        let mut pick = pick.clone();
        if matches!(verb, ById::Bury | ById::Delete | ById::Peek) {
            // These are for all.
            pick.among = if deferred { pick.among } else { Among::Living };
        }
        let (no, id) = self.pick(&pick, tube_no, session);
        let (model, holder) = (&mut self.model, Holder { session, claim: None });
        let later = tube.deferred(WhenFull::Block);
        let wait = tubewell::Ticket::wait;
        let (got, want) = match verb {
            ById::Ack if deferred => (later.ack(id).and_then(wait), model.ack(tube_no, no, holder)),
            ById::Ack => (tube.ack(id), model.ack(tube_no, no, holder)),
            ById::Release { delay } => {
                let want = model.release(tube_no, no, holder, delay);
                let delay = duration(delay);
                let got = if deferred {
                    later.release(id, delay).and_then(wait)
                } else {
                    tube.release(id, delay)
                };
                (got, want)
            }
            ById::Bury if deferred => (later.bury(id).and_then(wait), model.bury(tube_no, no)),
            ById::Bury => (tube.bury(id), model.bury(tube_no, no)),
            ById::Delete if deferred => {
                (later.delete(id).and_then(wait), model.delete(tube_no, no))
            }
            ById::Delete => (tube.delete(id), model.delete(tube_no, no)),
            ById::Touch { by } => {
                let got = tube.touch(id, duration(by));
                return agree_on_touch(got, model.touch(tube_no, no, holder, by), id);
            }
            ById::Renew { hold } => {
                let want = model.renew(tube_no, no, holder, hold);
                agree(tube.renew(id, duration(hold)), want);
                return;
            }
            ById::Peek => {
                if let Some((got, want)) = agree(tube.peek(id), self.model.peek(tube_no, no)) {
                    assert_eq!(got.data, want.data);
                    assert_eq!(self.seen(&got.info), self.should_see(no, want));
                }
                return;
            }
        };
        agree_on_receipt(got, want, id);
    }

    fn ack_many(&mut self, seat: usize, tube: usize, picks: &[Pick]) {
        let Some((tube, tube_no, session)) = self.tube(seat, tube) else { return };
        let picked = picks.iter().map(|pick| self.pick(pick, tube_no, session));
        let picked: Vec<(TaskNo, u64)> = picked.collect();
        let ids: Vec<u64> = picked.iter().map(|(_, id)| *id).collect();
        let holder = Holder { session, claim: None };
        let held: Vec<_> = picked.iter().map(|(no, _)| (tube_no, *no, holder)).collect();
        agree_on_receipts(tube.ack_many(&ids), self.model.ack_many(&held), &ids);
    }

    fn by_claim(&mut self, claim: Index, verb: ByClaim) {
        if self.claims.is_empty() {
            return;
        }
        let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
        let Held { taken, tube, session, claim } = self.claims.remove(claim.get(&numbers)).unwrap();
        let holder = Holder { session, claim: Some(taken.claim) };
        let (id, no) = (claim.id(), taken.task);
        let model = &mut self.model;
        let (got, want) = match verb {
            ByClaim::Ack { deferred: false } => (claim.ack(), model.ack(tube, no, holder)),
            ByClaim::Ack { deferred: true } => {
                let ticket = claim.ack_deferred(WhenFull::Block);
                (ticket.and_then(tubewell::Ticket::wait), model.ack(tube, no, holder))
            }
            ByClaim::Release { delay } => {
                let got = claim.release(duration(delay));
                let want = model.release(tube, no, holder, delay);
                if want == Err(Refusal::Unsupported) {
                    // The handle is gone, and what it held is let go.
                    model.drop_claim(taken);
                }
                (got, want)
            }
            ByClaim::Bury => (claim.bury(), model.bury_held(tube, no, holder)),
            ByClaim::Touch { by } => {
                agree_on_touch(claim.touch(duration(by)), model.touch(tube, no, holder, by), id);
                self.claims.insert(taken.claim, Held { taken, tube, session, claim });
                return;
            }
            ByClaim::Renew { hold } => {
                agree(claim.renew(duration(hold)), model.renew(tube, no, holder, hold));
                self.claims.insert(taken.claim, Held { taken, tube, session, claim });
                return;
            }
            ByClaim::Drop => {
                drop(claim);
                return model.drop_claim(taken);
            }
            ByClaim::Detach => {
                assert_eq!(claim.detach().info.id, id);
                return;
            }
        };
        agree_on_receipt(got, want, id);
    }

    fn ack_claims(&mut self, claims: &[Index]) {
        let (mut ids, mut held, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for index in claims {
            let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
            if !numbers.is_empty()
                && let Some(one) = self.claims.remove(index.get(&numbers))
            {
                ids.push(one.claim.id());
                let holder = Holder { session: one.session, claim: Some(one.taken.claim) };
                held.push((one.tube, one.taken.task, holder));
                handles.push(one.claim);
            }
        }
        agree_on_receipts(Claim::ack_many(handles), self.model.ack_many(&held), &ids);
    }

    // ---- tubes

    fn definition(&self, tube: usize, no: TubeNo) -> Definition {
        let known = &self.model.tubes()[&no];
        Definition {
            driver: known.driver,
            options: known.options.clone(),
            relaxed: self.relaxed[tube],
        }
    }

    fn create_tube(&mut self, seat: usize, tube: usize, wanted: &Definition, if_not_exists: bool) {
        let Definition { driver, options, relaxed } = wanted;
        let mut given = TubeOptions::default();
        given = given.temporary(options.temporary).if_not_exists(if_not_exists);
        if let Some(ttl) = options.ttl {
            given = given.ttl(duration(ttl));
        }
        if let Some(ttr) = options.ttr {
            given = given.ttr(duration(ttr));
        }
        if let Some(pri) = options.pri {
            given = given.pri(pri);
        }
        if let Some(capacity) = options.capacity {
            given = given.capacity(capacity);
        }
        if *relaxed {
            given = given.durability(Durability::relaxed());
        }
        let got = match &self.seats[seat].session {
            Some(session) => session.create_tube(NAMES[tube], name_of(*driver), given),
            None => self.store.create_tube(NAMES[tube], name_of(*driver), given),
        };
        let want = self.model.create_tube(NAMES[tube], *driver, options, if_not_exists);
        if let Some((handle, no)) = agree(got, want) {
            assert_eq!((handle.name(), handle.driver()), (NAMES[tube], name_of(*driver)));
            self.tubes[tube] = Some(no);
        }
    }

    fn drop_tube(&mut self, tube: usize) {
        let Some((handle, no, _)) = self.tube(0, tube) else {
            let name = NAMES[tube].to_owned();
            let got = self.store.drop_tube(NAMES[tube]);
            assert_eq!(got, Err(Error::TubeNotFound { name }));
            return;
        };
        if agree(self.store.drop_tube(NAMES[tube]), self.model.drop_tube(no)).is_some() {
            self.tubes[tube] = None;
            self.dropped.push(handle);
        }
    }

    /// A handle of a tube that was dropped does nothing, whoever has taken the name since.
    fn use_dropped_tube(&mut self, tube: Index) {
        if self.dropped.is_empty() {
            return;
        }
        let tube = tube.get(&self.dropped);
        let id = self.ids.values().next_back().copied().unwrap_or(0);
        let answers = [
            tube.put("too late").map(drop),
            tube.take(Duration::ZERO).map(drop),
            tube.ack(id).map(drop),
            tube.release(id, Duration::ZERO).map(drop),
            tube.touch(id, Duration::from_secs(1)).map(drop),
            tube.renew(id, Duration::from_secs(1)),
            tube.bury(id).map(drop),
            tube.kick(1).map(drop),
            tube.delete(id).map(drop),
            tube.peek(id).map(drop),
            tube.release_all().map(drop),
            tube.truncate(),
            tube.list(tubewell::State::Ready, None, 1).map(drop),
            tube.statistics().map(drop),
        ];
        for answer in answers {
            assert_eq!(answer, Err(Error::TubeDropped { name: tube.name().to_owned() }));
        }
    }

    // ---- sessions

    fn end_session(&mut self, seat: usize) {
        let handle = self.tube(seat, 0);
        let Some(session) = self.seats[seat].session.take() else { return };
        session.end().unwrap();
        self.model.end_session(self.seats[seat].no);
        if let Some((tube, ..)) = handle {
            assert_eq!(tube.take(Duration::ZERO).map(drop), Err(Error::SessionEnded));
        }
    }

    /// The last one leaves the session: he waits for nothing any more, and keeps no handle.
    fn leave_session(&mut self, seat: usize) {
        let Some(session) = self.seats[seat].session.take() else { return };
        let no = self.seats[seat].no;
        let waits = self.waits.iter().filter(|(_, waiting)| waiting.session == no);
        for wait in waits.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.give_up(wait);
        }
        let held = self.claims.iter().filter(|(_, held)| held.session == no);
        for claim in held.map(|(no, _)| *no).collect::<Vec<_>>() {
            let _ = self.claims.remove(&claim).unwrap().claim.detach();
        }
        drop(session);
        self.model.leave_session(no);
    }

    fn resume_session(&mut self, seat: usize) {
        let Seat { no, id, .. } = self.seats[seat];
        let got = self.store.resume_session(id);
        if let Err(error) = &got {
            assert_eq!(*error, Error::SessionUnknown { id });
        }
        if let Some((session, ())) = agree(got, self.model.resume_session(no)) {
            assert_eq!(session.id(), id);
            self.seats[seat].session.get_or_insert(session);
        }
    }

    // ---- time and lives

    fn distance(&self, way: &Move) -> Micros {
        match way {
            Move::By(by) => *by,
            Move::ToDue { nth, offset } => {
                let moment = self.model.moments().into_iter().nth(*nth);
                let moment = moment.and_then(|moment| moment.checked_add_signed(*offset));
                moment.map_or(0, |moment| moment.saturating_sub(self.model.now()))
            }
        }
    }

    /// Moves both clocks. If the outcome depends on the order of things that fall due at one
    /// moment, the model follows the library, provided that some order leads there.
    fn advance(&mut self, by: Micros) {
        let target = self.model.now().saturating_add(by);
        let falls_due = self.model.moments().first().is_some_and(|moment| *moment <= target);
        if !falls_due {
            self.clock.advance(duration(by));
            return self.model.advance(by, Ties::default());
        }
        self.look();
        self.clock.advance(duration(by));
        for waiting in self.waits.values_mut() {
            waiting.look();
        }
        let before = self.model.clone();
        for ties in [Ties::default()].into_iter().chain(Ties::all()) {
            self.model = before.clone();
            self.model.advance(by, ties);
            if self.differences().is_continue() {
                return self.fetch();
            }
        }
        self.model = before;
        self.model.advance(by, Ties::default());
        let differences = self.differences();
        panic!("no order of what falls due leads there; with the usual one: {differences:#?}");
    }

    fn reopen(&mut self, away: &Move) {
        self.look();
        let away = self.distance(away);
        self.store.close().unwrap();
        self.model.close();
        self.look();
        for (at, held) in std::mem::take(&mut self.claims).into_values().enumerate() {
            if at % 2 == 0 {
                assert_eq!(held.claim.ack(), Err(Error::Closed));
            }
        }
        if let Some(tube) = self.dropped.pop() {
            assert_eq!(tube.put("too late"), Err(Error::Closed));
        }
        self.dropped.clear();
        for seat in &mut self.seats {
            seat.session = None;
        }
        // The last handle lets go of the file, and the new store gets it at once.
        let nothing = Store::in_memory().unwrap();
        self.events = nothing.subscribe(1);
        self.store = nothing;
        self.clock.advance(duration(away));
        self.store = self.options.clone().open(self.folder.path().join(FILE)).unwrap();

        self.model.reopen(away);
        self.reopened = self.ids.last_key_value().map_or(0, |(no, _)| *no);
        self.seats[0] =
            Seat { no: self.model.begin_session(), id: self.store.session().id(), session: None };
        self.advance(0);
        self.model.events();
        self.events = self.store.subscribe(1 << 16);
        for tube in self.tubes.clone().into_iter().flatten() {
            self.check_bodies(tube);
        }
    }

    // ---- checks

    /// No wake-up is lost, none is idle, and each answer is the model's.
    #[track_caller]
    fn check_waits(&self) {
        assert_eq!(self.waits_seen(), self.waits_should_be());
    }

    /// What each of those who wait was answered, as far as he has looked.
    fn waits_seen(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let translate = |answer: &Result<Option<Claim>>| match answer {
            Ok(claim) => Ok(claim.as_ref().map(|claim| self.number(claim.id()))),
            Err(error) => Err(refusal_of(error)),
        };
        let answer = |waiting: &Waiting| match &waiting.answer {
            Some(answer) => Some(translate(answer)),
            None => waiting.rung().then_some(Ok(None)),
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(waiting))).collect()
    }

    /// The same of the model; who has not looked only knows that there is something.
    fn waits_should_be(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let answer = |no: WaitNo, waiting: &Waiting| {
            let answer = self.model.answer(no)?;
            let looked = waiting.answer.is_some() || !waiting.rung();
            Some(if looked { answer.map(|taken| taken.map(|taken| taken.task)) } else { Ok(None) })
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(*no, waiting))).collect()
    }

    #[track_caller]
    fn check_statistics(&self) {
        let all = self.store.statistics();
        assert_eq!(all.len(), self.model.tubes().len());
        for (no, tube) in self.model.tubes() {
            let got = counts(&all[&tube.name]);
            assert_eq!(got, self.counts_should_be(*no), "statistics of {}", tube.name);
        }
    }

    fn counts_should_be(&self, tube: TubeNo) -> BTreeMap<&'static str, u64> {
        let (tasks, calls) =
            (|state| self.model.count(tube, state), |verb| self.model.calls(tube, verb));
        non_zero(&[
            ("tasks.ready", tasks(State::Ready)),
            ("tasks.taken", tasks(State::Taken)),
            ("tasks.delayed", tasks(State::Delayed)),
            ("tasks.buried", tasks(State::Buried)),
            ("tasks.total", self.model.tasks(tube).count() as u64),
            ("tasks.done", self.model.done(tube)),
            ("calls.put", calls(Verb::Put)),
            ("calls.take", calls(Verb::Take)),
            ("calls.ack", calls(Verb::Ack)),
            ("calls.release", calls(Verb::Release)),
            ("calls.bury", calls(Verb::Bury)),
            ("calls.kick", calls(Verb::Kick)),
            ("calls.delete", calls(Verb::Delete)),
            ("calls.touch", calls(Verb::Touch)),
            ("calls.ttl", calls(Verb::Ttl)),
            ("calls.ttr", calls(Verb::Ttr)),
            ("calls.delay", calls(Verb::Delay)),
        ])
    }

    /// Everything.
    #[track_caller]
    fn check(&mut self) {
        if let ControlFlow::Break(differences) = self.differences() {
            panic!("{differences:#?}");
        }
        self.check_statistics();
        self.check_events();
        assert_eq!(self.store.verify().unwrap(), Vec::<String>::new());
        let tubes = self.store.tubes();
        let got: Vec<_> = tubes
            .iter()
            .map(|it| (it.name.as_str(), it.driver.as_str(), it.temporary, it.waiting))
            .collect();
        let tubes = self.model.tubes().iter();
        let mut want: Vec<_> = tubes
            .map(|(no, it)| {
                let waiting = self.model.waiting(*no);
                (it.name.as_str(), name_of(it.driver), it.options.temporary, waiting)
            })
            .collect();
        want.sort_unstable();
        assert_eq!(got, want);
    }

    /// Compares what can be seen, and stops at the first difference.
    fn differences(&self) -> ControlFlow<String> {
        let differ = |what: String, got: &dyn Debug, want: &dyn Debug| {
            ControlFlow::Break(format!("{what}\n got {got:#?}\nwant {want:#?}"))
        };
        let (got, want) = (self.waits_seen(), self.waits_should_be());
        if got != want {
            return differ("those who wait".to_owned(), &got, &want);
        }
        for (no, tube) in self.model.tubes() {
            let handle = self.store.tube(&tube.name).unwrap();
            let (got, want) = (counts(&handle.statistics().unwrap()), self.counts_should_be(*no));
            if got != want {
                return differ(format!("statistics of {}", tube.name), &got, &want);
            }
            let (got, want) = (self.listed(&handle), self.should_be_listed(*no));
            if got != want {
                return differ(format!("tasks of {}", tube.name), &got, &want);
            }
        }
        ControlFlow::Continue(())
    }

    /// All tasks of a tube, page by page; what may be taken or kicked in that order, at least
    /// within each sub-queue.
    fn listed(&self, tube: &Tube) -> BTreeMap<TaskNo, Seen> {
        let mut all = BTreeMap::new();
        let count = usize::try_from(tube.statistics().unwrap().tasks.total).unwrap();
        for state in [
            tubewell::State::Ready,
            tubewell::State::Taken,
            tubewell::State::Delayed,
            tubewell::State::Buried,
        ] {
            let limit = 3 + count / 8;
            let (mut after, mut order) = (None, BTreeMap::<_, Vec<_>>::new());
            loop {
                let page = tube.list(state, after, limit).unwrap();
                assert!(page.tasks.len() <= limit);
                for info in &page.tasks {
                    assert_eq!(info.state, state);
                    let place = (info.pri, info.id);
                    order.entry(info.sub_queue.clone()).or_default().push(place);
                    let again = all.insert(self.number(info.id), self.seen(info));
                    assert!(again.is_none(), "task {} is listed twice", info.id);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if matches!(state, tubewell::State::Ready | tubewell::State::Buried) {
                let sorted = order.values().all(|places| places.is_sorted());
                assert!(sorted, "{state:?} out of order: {order:?}");
            }
        }
        all
    }

    fn should_be_listed(&self, tube: TubeNo) -> BTreeMap<TaskNo, Seen> {
        self.model.tasks(tube).map(|(no, task)| (no, self.should_see(no, task))).collect()
    }

    fn seen(&self, info: &TaskInfo) -> Seen {
        Seen {
            state: state_of(info.state),
            pri: info.pri,
            sub_queue: info.sub_queue.clone(),
            size: info.size,
            takes: (self.number(info.id) > self.reopened).then_some(info.takes),
            ttl_left: micros(info.ttl_left),
            ttr: micros(info.ttr),
            due_in: micros(info.due_in),
        }
    }

    fn should_see(&self, no: TaskNo, task: &reference::Task) -> Seen {
        let left = |until: Micros| finite(until).map(|until| until - self.model.now());
        Seen {
            state: task.state(),
            pri: task.pri,
            sub_queue: task.sub_queue.clone(),
            size: task.data.len() as u64,
            // How often a task was taken in an earlier life need not be known.
            takes: (no > self.reopened).then_some(task.takes),
            ttl_left: left(task.dead),
            ttr: finite(task.ttr),
            // Of the delay or the hold, whether it lives so long or not.
            due_in: left(task.due()),
        }
    }

    #[track_caller]
    fn check_bodies(&self, tube: TubeNo) {
        let handle = self.store.tube(&self.model.tubes()[&tube].name).unwrap();
        for (no, task) in self.model.tasks(tube) {
            assert_eq!(handle.peek(self.ids[&no]).unwrap().data, task.data);
        }
    }

    /// Each task's events, in their order.
    #[track_caller]
    fn check_events(&mut self) {
        let mut got = BTreeMap::<TaskNo, Vec<_>>::new();
        let mut want = BTreeMap::<TaskNo, Vec<_>>::new();
        for event in self.model.events() {
            want.entry(event.task).or_default().push((event.verb, event.state));
            let Some(told) = self.events.recv_timeout(Duration::from_secs(10)) else { break };
            let task = self.number(told.id);
            assert_eq!(&*told.tube, NAMES[self.homes[&task]]);
            got.entry(task).or_default().push((verb_of(told.kind), state_of(told.state)));
        }
        assert_eq!(got, want);
        assert_eq!((self.events.try_recv(), self.events.dropped()), (None, 0));
    }

    /// The last check, and one more in the next life.
    fn finish(&mut self) {
        self.look();
        self.check();
        self.reopen(&Move::By(0));
        self.check();
    }
}

// ---- tests

/// Chooses the steps.
struct Steps;

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

/// Carries them out.
struct Library;

impl StateMachineTest for Library {
    type SystemUnderTest = System;
    type Reference = Steps;

    fn init_test(setup: &Setup) -> System {
        System::new(setup)
    }

    fn apply(mut system: System, _: &Setup, step: Step) -> System {
        system.step(step);
        system
    }

    fn teardown(mut system: System, _: Setup) {
        system.finish();
    }
}

/// `PROPTEST_CASES` sets the number of cases; those that failed once are tried first.
fn config() -> ProptestConfig {
    let failures = FileFailurePersistence::Direct("tests/model/regressions.txt");
    ProptestConfig { failure_persistence: Some(Box::new(failures)), ..ProptestConfig::default() }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn the_library_answers_what_the_model_answers(sequential 20..120 => Library);
}

/// What becomes visible together is seen together: the most urgent goes to the first who waits.
#[test]
fn the_best_of_what_is_put_at_once_goes_to_the_first_who_waits() {
    for driver in [Driver::Fifottl, Driver::Limfifottl, Driver::Utubettl] {
        let options = Options::default();
        let tubes = vec![Definition { driver, options, relaxed: false }];
        let mut system = System::new(&Setup { tubes, grace: 0, mood: Mood::Waiting });
        let draft = |pri| Sketch { pri: Some(pri), ..Sketch::default() };
        let drafts = [3, 1, 0, 2].map(draft).to_vec();
        for action in [
            Action::Wait { seat: 1, tubes: vec![0], timeout: NEVER, keep: true },
            Action::Wait { seat: 2, tubes: vec![0], timeout: NEVER, keep: true },
            Action::PutMany { seat: 0, tube: 0, drafts },
        ] {
            system.step(Step { action, look: true });
        }
        system.finish();
    }
}

/// All that can happen to a task of this driver.
fn transitions(driver: Driver) -> BTreeSet<Mark> {
    use State::{Buried, Delayed, Done, Ready, Taken};
    let verb = Cause::Verb;
    let mut all = vec![
        (None, verb(Verb::Put), Ready),
        (Some(Ready), verb(Verb::Take), Taken),
        (Some(Ready), verb(Verb::Bury), Buried),
        (Some(Ready), verb(Verb::Delete), Done),
        (Some(Ready), Cause::Truncated, Done),
        (Some(Ready), Cause::TubeDropped, Done),
        (Some(Ready), Cause::Reopened, Done),
        (Some(Taken), verb(Verb::Ack), Done),
        (Some(Taken), verb(Verb::Release), Ready),
        (Some(Taken), Cause::ClaimDropped, Ready),
        (Some(Taken), Cause::SessionEnded, Ready),
        (Some(Taken), Cause::ReleaseAll, Ready),
        (Some(Taken), Cause::Reopened, Ready),
        (Some(Taken), Cause::Reopened, Done),
        (Some(Taken), verb(Verb::Bury), Buried),
        (Some(Taken), verb(Verb::Delete), Done),
        (Some(Taken), Cause::Truncated, Done),
        (Some(Buried), verb(Verb::Kick), Ready),
        (Some(Buried), Cause::BuriedAlready, Buried),
        (Some(Buried), verb(Verb::Delete), Done),
        (Some(Buried), Cause::Truncated, Done),
        (Some(Buried), Cause::TubeDropped, Done),
        (Some(Buried), Cause::Reopened, Done),
    ];
    if driver.timed() {
        all.extend([
            (None, verb(Verb::Put), Delayed),
            (Some(Delayed), verb(Verb::Delay), Ready),
            (Some(Delayed), verb(Verb::Bury), Buried),
            (Some(Delayed), verb(Verb::Delete), Done),
            (Some(Delayed), Cause::Truncated, Done),
            (Some(Delayed), Cause::TubeDropped, Done),
            (Some(Delayed), Cause::Reopened, Done),
            (Some(Taken), verb(Verb::Release), Delayed),
            (Some(Taken), verb(Verb::Touch), Taken),
            (Some(Taken), Cause::Renewed, Taken),
            (Some(Taken), verb(Verb::Ttr), Ready),
            (Some(Ready), verb(Verb::Ttl), Done),
            (Some(Taken), verb(Verb::Ttl), Done),
            (Some(Buried), verb(Verb::Ttl), Done),
        ]);
    }
    all.into_iter().map(|(from, cause, to)| (driver, from, cause, to)).collect()
}

/// The steps that are chosen reach everything that the drivers do, and the model does nothing
/// else. The cases are always the same.
#[test]
fn every_transition_of_every_driver_is_met() {
    const CASES: usize = 400;
    let mut runner = TestRunner::deterministic();
    let steps = Steps::sequential_strategy(100);
    let mut met = BTreeSet::new();
    for _ in 0..CASES {
        let (setup, steps, _) = steps.new_tree(&mut runner).unwrap().current();
        // There is much to do, and little to learn from flushes here.
        let mut system = System::with(&setup, Durability::relaxed(), 50);
        for step in steps {
            system.step(step);
        }
        system.finish();
        met.extend(system.model.marks().iter().copied());
    }
    let all: BTreeSet<Mark> = Driver::ALL.into_iter().flat_map(transitions).collect();
    let missed: Vec<_> = all.difference(&met).collect();
    let unknown: Vec<_> = met.difference(&all).collect();
    assert!(missed.is_empty() && unknown.is_empty(), "missed {missed:#?}, unknown {unknown:#?}");
}
