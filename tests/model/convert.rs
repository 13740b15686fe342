//! Conversions from types of the library to types of the model, and comparisons of answers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{
    Backoff, Counting, Error, EventKind, Keep, Missed, OnParent, Rate, Receipt, Result, Statistics,
};

use super::reference::{self, Answer, Driver, Micros, NEVER, Refusal, State, Verb};

pub fn duration(micros: Micros) -> Duration {
    if micros == NEVER { Duration::MAX } else { Duration::from_micros(micros) }
}

pub fn finite(micros: Micros) -> Option<Micros> {
    (micros != NEVER).then_some(micros)
}

/// `None` for a time without an end, which the delay of a task may have.
pub fn micros(duration: Option<Duration>) -> Option<Micros> {
    let finite = duration.filter(|duration| *duration != Duration::MAX);
    finite.map(|duration| u64::try_from(duration.as_micros()).unwrap())
}

/// The inverse of `duration`.
pub fn micros_or_never(time: Duration) -> Micros {
    micros(Some(time)).unwrap_or(NEVER)
}

/// By how much the library is ahead of the model: a manual clock begins with the year 2026.
const AHEAD: Micros = 1_767_225_600_000_000 - reference::START;

/// What the wall clock of the library shows when that of the model shows this.
pub fn library_wall(wall: Micros) -> Duration {
    duration(wall + AHEAD)
}

pub fn library_moment(moment: Micros) -> SystemTime {
    let since_1970 = match moment {
        NEVER => Duration::from_micros(NEVER),
        moment => library_wall(moment),
    };
    UNIX_EPOCH.checked_add(since_1970).unwrap()
}

pub fn model_moment(moment: SystemTime) -> Micros {
    let since_1970 = moment.duration_since(UNIX_EPOCH).unwrap().as_micros();
    match u64::try_from(since_1970).unwrap() {
        NEVER => NEVER,
        moment => moment - AHEAD,
    }
}

pub fn counting_of(counting: reference::Counting) -> Counting {
    match counting {
        reference::Counting::Lazily => Counting::Lazily,
        reference::Counting::Written => Counting::Written,
        reference::Counting::Flushed => Counting::Flushed,
    }
}

pub fn backoff_of(backoff: Option<reference::Backoff>) -> Backoff {
    let Some(reference::Backoff { first, factor, cap }) = backoff else { return Backoff::none() };
    Backoff::exponential(duration(first)).factor(f64::from(factor)).cap(duration(cap))
}

pub fn keep_of(keep: reference::Keep) -> Keep {
    let reference::Keep { count, age } = keep;
    let limited = count.map_or(Keep::new(), |count| Keep::new().count(count));
    age.map_or(limited, |age| limited.age(duration(age)))
}

pub fn missed_of(missed: reference::Missed) -> Missed {
    match missed {
        reference::Missed::Latest(runs) => Missed::Latest(runs),
        reference::Missed::All => Missed::All,
        reference::Missed::Skip => Missed::Skip,
    }
}

pub fn rate_of(rate: reference::Rate) -> Rate {
    Rate::per(u32::try_from(rate.count).unwrap(), duration(rate.period))
}

pub fn on_parent_of(on_parent: reference::OnParent) -> OnParent {
    match on_parent {
        reference::OnParent::Wait => OnParent::Wait,
        reference::OnParent::Release => OnParent::Release,
        reference::OnParent::Bury => OnParent::Bury,
    }
}

pub fn name_of(driver: Driver) -> &'static str {
    match driver {
        Driver::Fifo => tubewell::FIFO,
        Driver::Fifottl => tubewell::FIFOTTL,
        Driver::Limfifottl => tubewell::LIMFIFOTTL,
        Driver::Utube => tubewell::UTUBE,
        Driver::Utubettl => tubewell::UTUBETTL,
    }
}

pub fn state_of(state: tubewell::TaskState) -> State {
    match state {
        tubewell::TaskState::Ready => State::Ready,
        tubewell::TaskState::Taken => State::Taken,
        tubewell::TaskState::Delayed => State::Delayed,
        tubewell::TaskState::Buried => State::Buried,
        tubewell::TaskState::Blocked => State::Blocked,
        tubewell::TaskState::Done => State::Done,
        tubewell::TaskState::Recurring => State::Recurring,
    }
}

pub fn library_state(state: State) -> tubewell::TaskState {
    match state {
        State::Ready => tubewell::TaskState::Ready,
        State::Taken => tubewell::TaskState::Taken,
        State::Delayed => tubewell::TaskState::Delayed,
        State::Blocked => tubewell::TaskState::Blocked,
        State::Buried => tubewell::TaskState::Buried,
        State::Done => tubewell::TaskState::Done,
        State::Recurring => tubewell::TaskState::Recurring,
    }
}

pub fn verb_of(kind: EventKind) -> Verb {
    match kind {
        EventKind::Put | EventKind::Replace => Verb::Put,
        EventKind::Take => Verb::Take,
        EventKind::Ack => Verb::Ack,
        EventKind::Resolve => Verb::Resolve,
        EventKind::Release | EventKind::Revoke => Verb::Release,
        EventKind::Fail => Verb::Fail,
        EventKind::Snooze => Verb::Snooze,
        EventKind::Lost => Verb::Lost,
        EventKind::Bury => Verb::Bury,
        EventKind::Kick => Verb::Kick,
        EventKind::Delete => Verb::Delete,
        EventKind::Touch => Verb::Touch,
        EventKind::Checkpoint => Verb::Checkpoint,
        EventKind::Step => Verb::Step,
        EventKind::Ttl => Verb::Ttl,
        EventKind::Ttr => Verb::Ttr,
        EventKind::Delay => Verb::Delay,
        EventKind::Forget => Verb::Forget,
        EventKind::Update => Verb::Update,
        EventKind::Log => Verb::Log,
        EventKind::Block => Verb::Block,
        EventKind::Unblock => Verb::Unblock,
        EventKind::Advance => Verb::Advance,
        EventKind::Move => Verb::Move,
        EventKind::Schedule => Verb::Schedule,
        EventKind::Spawn => Verb::Spawn,
        other => panic!("the model has no event {other:?}"),
    }
}

pub fn refusal_of(error: &Error) -> Refusal {
    match error {
        Error::NotTaken { .. } => Refusal::NotTaken,
        Error::NotFound { .. } => Refusal::NotFound,
        Error::NotReady { .. } => Refusal::NotReady,
        Error::NotBuried { .. } => Refusal::NotBuried,
        Error::NotDone { .. } => Refusal::NotDone,
        Error::KeyInUse { .. } => Refusal::KeyInUse,
        Error::KeyNotFound { .. } => Refusal::KeyNotFound,
        Error::HasDependents { .. } => Refusal::HasDependents,
        Error::Cycle { .. } => Refusal::Cycle,
        Error::WrongState { .. } => Refusal::WrongState,
        Error::Unsupported { .. } => Refusal::Unsupported,
        Error::Full { .. } => Refusal::Full,
        Error::TubeExists { .. } => Refusal::TubeExists,
        Error::TubeDiffers { .. } => Refusal::TubeDiffers,
        Error::TubeDropped { .. } => Refusal::TubeDropped,
        Error::TubeNotFound { .. } => Refusal::TubeNotFound,
        Error::TubeBusy { .. } => Refusal::TubeBusy,
        Error::SessionUnknown { .. } => Refusal::SessionUnknown,
        Error::SessionEnded => Refusal::SessionEnded,
        Error::Closed => Refusal::Closed,
        Error::Invalid { .. } => Refusal::Invalid,
        other => panic!("the model has no error {other:?}"),
    }
}

/// Asserts that both calls succeeded, or that both were refused for the same reason. Returns the
/// values of both if they succeeded.
#[track_caller]
pub fn agree<T, U: Debug>(got: Result<T>, want: Answer<U>) -> Option<(T, U)> {
    match (got, want) {
        (Ok(got), Ok(want)) => Some((got, want)),
        (Err(got), Err(want)) => {
            assert_eq!(refusal_of(&got), want, "{got:?}");
            None
        }
        (Ok(_), Err(want)) => panic!("succeeded, but the model refuses: {want:?}"),
        (Err(got), Ok(want)) => panic!("refused: {got:?}, but the model answers {want:?}"),
    }
}

/// Whether a put has two reasons to be refused: the driver does not support one of its options or it
/// cannot wait for one of its parents, and the tube is full. The library may report either.
pub fn two_refusals_apply<T, U>(got: &Result<T>, want: &Answer<U>) -> bool {
    use Refusal::{Cycle, Invalid, KeyNotFound, NotFound, Unsupported};

    let is_full = matches!(got, Err(Error::Full { .. }));
    is_full && matches!(want, Err(Unsupported | Invalid | NotFound | KeyNotFound | Cycle))
}

#[track_caller]
pub fn agree_on_receipt(got: Result<Receipt>, want: Answer<State>, id: u64) {
    if let Err(
        Error::NotTaken { id: named }
        | Error::NotFound { id: named }
        | Error::NotReady { id: named, .. }
        | Error::NotBuried { id: named }
        | Error::NotDone { id: named, .. }
        | Error::WrongState { id: named, .. },
    ) = &got
    {
        assert_eq!(*named, id);
    }
    if let Some((receipt, state)) = agree(got, want) {
        assert_eq!((receipt.id, state_of(receipt.state)), (id, state));
    }
}

/// Compares the answer to a call on the tasks with one id, which is how many there were.
#[track_caller]
pub fn agree_on_one(got: Result<u64>, want: Answer<State>) {
    let want = match want {
        Ok(_) => Ok(1),
        Err(Refusal::NotFound | Refusal::NotTaken | Refusal::NotReady | Refusal::WrongState) => {
            Ok(0)
        }
        Err(refusal) => Err(refusal),
    };
    if let Some((got, want)) = agree(got, want) {
        assert_eq!(got, want);
    }
}

#[track_caller]
pub fn agree_on_receipts(got: Result<Vec<Result<Receipt>>>, want: Vec<Answer<State>>, ids: &[u64]) {
    let got = got.unwrap();
    assert_eq!((got.len(), want.len()), (ids.len(), ids.len()));
    for ((got, want), id) in got.into_iter().zip(want).zip(ids) {
        agree_on_receipt(got, want, *id);
    }
}

#[track_caller]
pub fn agree_on_touch(got: Result<Option<Receipt>>, want: Answer<Option<State>>, id: u64) {
    if let Some((got, want)) = agree(got, want) {
        let got = got.map(|receipt| (receipt.id, state_of(receipt.state)));
        assert_eq!(got, want.map(|state| (id, state)));
    }
}

/// The statistics by name, without zeros.
pub fn counts(statistics: &Statistics) -> BTreeMap<&'static str, u64> {
    let Statistics { tasks, calls, .. } = statistics;
    non_zero(&[
        ("tasks.ready", tasks.ready),
        ("tasks.taken", tasks.taken),
        ("tasks.delayed", tasks.delayed),
        ("tasks.blocked", tasks.blocked),
        ("tasks.buried", tasks.buried),
        ("tasks.total", tasks.total),
        ("tasks.done", tasks.done),
        ("tasks.kept", tasks.kept),
        ("tasks.recurring", tasks.recurring),
        ("tasks.overdue", tasks.overdue),
        ("calls.put", calls.put),
        ("calls.take", calls.take),
        ("calls.ack", calls.ack),
        ("calls.resolve", calls.resolve),
        ("calls.forget", calls.forget),
        ("calls.release", calls.release),
        ("calls.fail", calls.fail),
        ("calls.snooze", calls.snooze),
        ("calls.lost", calls.lost),
        ("calls.bury", calls.bury),
        ("calls.kick", calls.kick),
        ("calls.delete", calls.delete),
        ("calls.touch", calls.touch),
        ("calls.checkpoint", calls.checkpoint),
        ("calls.step", calls.step),
        ("calls.update", calls.update),
        ("calls.log", calls.log),
        ("calls.block", calls.block),
        ("calls.unblock", calls.unblock),
        ("calls.ttl", calls.ttl),
        ("calls.ttr", calls.ttr),
        ("calls.delay", calls.delay),
        ("calls.advance", calls.advance),
        ("calls.moved", calls.moved),
        ("calls.arrive", calls.arrive),
        ("calls.schedule", calls.schedule),
        ("calls.spawn", calls.spawn),
    ])
}

pub fn non_zero(counts: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    counts.iter().filter(|(_, count)| *count > 0).copied().collect()
}
