//! Verbs as types: what a handle asks of a store. A verb owns what it asks for, so that it can wait,
//! go to another thread or another process, and be made again.

use std::sync::Arc;
use std::task::{Poll, Waker};

pub(crate) use super::call::Kind;
use super::call::TubeRef;
use super::catalog::TubeHead;
use super::state::{ClaimKey, Core, Decided, Grant, PutSlot, TakeSlot, WaitSlot, WatchSlot};
use super::verbs::{Ack, Peek, PutOrWait, PutTask, SetPriority};
use super::wire::{Input, Malformed, Wire};
use crate::{Ending, Error, Receipt, Result};

/// What a check of a request needs to know of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_body: usize,
}

/// A verb.
pub(crate) trait Verb: Wire + Send + Sync + 'static {
    /// What it is made on: [`InTube`], [`OfClaim`].
    type On: Target;
    type Answer: Wire + Send + 'static;
    const NUMBER: u8;
    const KIND: Kind;
    /// A deferred call that is refused releases the claim, whose handle is gone.
    const ENDS_CLAIM: bool = false;

    /// Whether it may be made twice, if a connection breaks before the answer.
    fn may_repeat(&self) -> bool {
        !Self::KIND.changes()
    }

    /// Whether a refusal waits for the change that may have caused it.
    fn refusal_waits(&self) -> bool {
        false
    }

    /// The checks that need no lock, of a handle and of a peer.
    fn check(&self, _limits: &Limits) -> Result<()> {
        Ok(())
    }

    /// Its answer may come after a wait without a limit: the owner is told if the caller goes.
    const WAITS: bool = false;
}

/// A verb whose answer is known when it is decided, as that of most.
pub(crate) trait Decide: Verb {
    fn decide(&self, core: &mut Core, on: Named<'_, Self>) -> Result<Decided<Self::Answer>>;
}

/// Any verb: its answer may come later.
pub(crate) trait Begin: Verb {
    /// What the decision returns: the answer itself, or what says where it comes.
    type First: Send;

    fn begin(&self, core: &mut Core, on: Named<'_, Self>) -> Result<Decided<Self::First>>;

    /// Without the lock, so that a plain answer is moved as it is.
    fn begun(first: Self::First) -> Begun<Self::Answer>;
}

impl<V: Decide> Begin for V {
    type First = V::Answer;

    #[inline]
    fn begin(&self, core: &mut Core, on: Named<'_, V>) -> Result<Decided<V::Answer>> {
        self.decide(core, on)
    }

    #[inline]
    fn begun(first: V::Answer) -> Begun<V::Answer> {
        Begun::Done(first)
    }
}

/// The answer of a verb, or where it comes.
pub(crate) enum Begun<T> {
    Done(T),
    Later(Later<T>),
}

/// Where an answer comes, and how its caller gives up.
pub(crate) struct Later<T> {
    pub(crate) slot: Arc<dyn Slot<T>>,
    pub(crate) cancel: Cancel,
}

/// A one-shot channel, as the caller sees it.
pub(crate) trait Slot<T>: Send + Sync {
    fn wait(&self) -> Result<Decided<T>>;

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<T>>>;
}

/// What waits for a task gets it decided.
impl Slot<Option<Grant>> for TakeSlot {
    fn wait(&self) -> Result<Decided<Option<Grant>>> {
        Ok(Decided { answer: WaitSlot::wait(self)?, wait: None })
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<Option<Grant>>>> {
        let taken = WaitSlot::poll(self, waker);
        taken.map(|taken| taken.map(|answer| Decided { answer, wait: None }))
    }
}

/// How a watch ended, for its caller.
impl Slot<Option<Ending>> for WatchSlot {
    fn wait(&self) -> Result<Decided<Option<Ending>>> {
        Ok(WaitSlot::wait(self)?.map(|ending| ending.map(Arc::unwrap_or_clone)))
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<Option<Ending>>>> {
        let ended = WaitSlot::poll(self, waker);
        ended.map(|ended| Ok(ended?.map(|ending| ending.map(Arc::unwrap_or_clone))))
    }
}

/// As the one above, with the receipt of the put whose task is watched.
#[expect(dead_code, reason = "no verb of the slice waits so")]
pub(crate) struct WithReceipt(pub(crate) Receipt, pub(crate) Arc<WatchSlot>);

impl Slot<(Receipt, Option<Ending>)> for WithReceipt {
    fn wait(&self) -> Result<Decided<(Receipt, Option<Ending>)>> {
        let ending: Decided<Option<Ending>> = Slot::wait(&*self.1)?;
        Ok(ending.map(|ending| (self.0, ending)))
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<(Receipt, Option<Ending>)>>> {
        let ended: Poll<Result<Decided<Option<Ending>>>> = Slot::poll(&*self.1, waker);
        ended.map(|ended| Ok(ended?.map(|ending| (self.0, ending))))
    }
}

impl Slot<Receipt> for PutSlot {
    fn wait(&self) -> Result<Decided<Receipt>> {
        WaitSlot::wait(self)
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<Receipt>>> {
        WaitSlot::poll(self, waker)
    }
}

/// What is left in the core by a caller that waits.
#[derive(Clone, Debug)]
pub(crate) enum Cancel {
    Put {
        tube: u32,
        arrival: u64,
    },
    /// A task that was assigned meanwhile is released.
    #[expect(dead_code, reason = "no verb of the slice waits so")]
    Take {
        arrival: u64,
        slot: Arc<TakeSlot>,
    },
}

/// What a verb is made on.
pub(crate) trait Target: 'static {
    /// As a handle names it, and a peer.
    type Ref<'a>: Copy + Send + Sync;

    /// Refuses a call on what is not there.
    fn check(core: &mut Core, named: Self::Ref<'_>) -> Result<()>;

    /// The number of the tube.
    fn tube(named: Self::Ref<'_>) -> Option<u32>;

    fn claim(_named: Self::Ref<'_>) -> Option<ClaimKey> {
        None
    }

    /// As a call keeps it that waits.
    type Owned: Send + Sync;

    fn to_owned(named: Self::Ref<'_>) -> Self::Owned;

    fn as_ref(owned: &Self::Owned) -> Self::Ref<'_>;

    fn put(named: Self::Ref<'_>, out: &mut Vec<u8>);

    fn get<'a>(input: &mut Input<'a>) -> Result<Self::Ref<'a>, Malformed>;
}

/// How a verb names its target.
pub(crate) type Named<'a, V> = <<V as Verb>::On as Target>::Ref<'a>;

/// The tube must exist.
pub(crate) enum InTube {}

impl Target for InTube {
    type Ref<'a> = TubeRef<'a>;

    #[inline]
    fn check(core: &mut Core, tube: TubeRef<'_>) -> Result<()> {
        core.tube(tube.number, tube.name).map(drop)
    }

    fn tube(tube: TubeRef<'_>) -> Option<u32> {
        Some(tube.number)
    }

    type Owned = (u32, Box<str>);

    fn to_owned(tube: TubeRef<'_>) -> (u32, Box<str>) {
        (tube.number, tube.name.into())
    }

    fn as_ref((number, name): &(u32, Box<str>)) -> TubeRef<'_> {
        TubeRef { number: *number, name }
    }

    fn put(tube: TubeRef<'_>, out: &mut Vec<u8>) {
        super::wire::put_tube(tube, out);
    }

    fn get<'a>(input: &mut Input<'a>) -> Result<TubeRef<'a>, Malformed> {
        super::wire::get_tube(input)
    }
}

/// The claim must be current, which the decision checks. A claim that is named by its task, and not by
/// its handle, is one of a tube that must exist.
pub(crate) enum OfClaim {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed<'a> {
    pub(crate) key: ClaimKey,
    pub(crate) tube: Option<&'a str>,
}

impl Target for OfClaim {
    type Ref<'a> = Claimed<'a>;

    #[inline]
    fn check(core: &mut Core, claimed: Claimed<'_>) -> Result<()> {
        match claimed.tube {
            Some(name) => core.tube(claimed.key.tube, name).map(drop),
            None => core.check_open(),
        }
    }

    fn tube(claimed: Claimed<'_>) -> Option<u32> {
        Some(claimed.key.tube)
    }

    fn claim(claimed: Claimed<'_>) -> Option<ClaimKey> {
        Some(claimed.key)
    }

    type Owned = (ClaimKey, Option<Box<str>>);

    fn to_owned(claimed: Claimed<'_>) -> (ClaimKey, Option<Box<str>>) {
        (claimed.key, claimed.tube.map(Box::from))
    }

    fn as_ref((key, tube): &(ClaimKey, Option<Box<str>>)) -> Claimed<'_> {
        Claimed { key: *key, tube: tube.as_deref() }
    }

    fn put(claimed: Claimed<'_>, out: &mut Vec<u8>) {
        claimed.key.put(out);
        claimed.tube.is_some().put(out);
        if let Some(name) = claimed.tube {
            super::wire::put_text(name, out);
        }
    }

    fn get<'a>(input: &mut Input<'a>) -> Result<Claimed<'a>, Malformed> {
        let key = Wire::get(input)?;
        let tube = bool::get(input)?.then(|| super::wire::get_text(input)).transpose()?;
        Ok(Claimed { key, tube })
    }
}

/// The tubes must exist, and their drivers must be known.
#[expect(dead_code, reason = "no verb of the slice waits so")]
pub(crate) enum InTubes {}

impl Target for InTubes {
    type Ref<'a> = &'a [TubeHead];
    type Owned = Vec<TubeHead>;

    fn check(core: &mut Core, heads: &[TubeHead]) -> Result<()> {
        for head in heads {
            core.tube(head.number, &head.name)?.driver(|| core.known_drivers())?;
        }
        Ok(())
    }

    fn tube(heads: &[TubeHead]) -> Option<u32> {
        heads.first().map(|head| head.number)
    }

    fn to_owned(heads: &[TubeHead]) -> Vec<TubeHead> {
        heads.to_vec()
    }

    fn as_ref(owned: &Vec<TubeHead>) -> &[TubeHead] {
        owned
    }

    fn put(heads: &[TubeHead], out: &mut Vec<u8>) {
        heads.len().put(out);
        for head in heads {
            head.put(out);
        }
    }

    fn get<'a>(_: &mut Input<'a>) -> Result<&'a [TubeHead], Malformed> {
        Err(Malformed::Invalid("several tubes are read as what is owned"))
    }
}

impl Core {
    /// Carries out a verb. A refusal that a change which is not yet visible may have caused waits for
    /// the flush of that change, so that a crash cannot make it untrue.
    #[inline]
    pub(crate) fn make<V: Begin>(
        &mut self,
        on: Named<'_, V>,
        verb: &V,
        refusal_waits: bool,
    ) -> Result<Decided<Result<V::First>>> {
        match self.begin_verb(on, verb) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(refused) if refusal_waits => self.refuse_once_visible(V::On::tube(on), refused),
            Err(refused) => Err(refused),
        }
    }

    #[inline]
    pub(crate) fn begin_verb<V: Begin>(
        &mut self,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<Decided<V::First>> {
        V::On::check(self, on)?;
        verb.begin(self, on)
    }

    /// A caller has gone.
    pub(crate) fn cancel_begun(&mut self, cancel: &Cancel) {
        match cancel {
            Cancel::Put { tube, arrival } => self.cancel_put(*tube, *arrival),
            // A task whose record cannot be read stays claimed until its session ends.
            Cancel::Take { arrival, slot } => drop(self.cancel_wait(*arrival, slot)),
        }
    }

    #[inline]
    pub(crate) fn decide_verb<V: Decide>(
        &mut self,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<Decided<V::Answer>> {
        V::On::check(self, on)?;
        verb.decide(self, on)
    }

    /// A refusal, and the change that it waits for.
    #[cold]
    pub(super) fn refuse_once_visible<T>(
        &mut self,
        tube: Option<u32>,
        refused: Error,
    ) -> Result<Decided<Result<T>>> {
        match (refused, tube) {
            (
                refused @ (Error::NotFound { id }
                | Error::NotBuried { id }
                | Error::NotDone { id, .. }
                | Error::NotReady { id, .. }
                | Error::WrongState { id, .. }
                | Error::HasDependents { id, .. }
                | Error::Cycle { id }),
                Some(tube),
            ) => Ok(self.once_visible(tube, id, Err(refused))),
            (refused @ (Error::KeyInUse { .. } | Error::KeyNotFound { .. }), _) => {
                Ok(self.key_refusal(refused))
            }
            (refused, _) => Err(refused),
        }
    }
}

/// What is done with a verb whose type a number says.
pub(crate) trait OnVerb {
    type Done;

    fn run<V: Begin>(self, input: &mut Input<'_>) -> Result<Self::Done, Malformed>;
}

/// The list of all verbs.
macro_rules! verbs {
    ($($verb:ident),* $(,)?) => {
        /// Finds the verb that has a number. Two verbs with one number do not compile.
        #[deny(unreachable_patterns)]
        pub(crate) fn with_verb<R: OnVerb>(
            input: &mut Input<'_>,
            run: R,
        ) -> Result<R::Done, Malformed> {
            match input.byte()? {
                $(<$verb as Verb>::NUMBER => run.run::<$verb>(input),)*
                _ => Err(Malformed::Invalid("an unknown number of a verb")),
            }
        }
    };
}

verbs![Ack, Peek, PutOrWait, PutTask, SetPriority];
