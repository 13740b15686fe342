//! Verbs as types: what a handle asks of a store. A verb owns what it asks for, so that it can wait,
//! go to another thread or another process, and be made again.

use std::slice;
use std::sync::Arc;
use std::task::{Poll, Waker};

pub(crate) use super::call::Kind;
use super::call::TubeRef;
use super::state::{ClaimKey, Core, Decided, PutSlot, WaitSlot, WatchKey};
use super::verbs::{Ack, AckClaims, AckMany, AddParents, AddTags, AllCounts, AllLimits, Alter, Bury, BuryHeld, ByKey, CancelTask, ChangeSchedule, Checkpoint, Children, CountsOf, CreateTube, Days, Delete, DeleteIf, DeleteMany, DeleteWhere, DescribeHeld, DescribeSession, DropClaim, DropTube, EndingOf, Fail, FailedOn, Find, FindTube, FinishTask, Forget, Groups, HistoryOf, InfoOf, IsTimed, Join, Kick, KickTask, KickWhere, Limit, List, ListBodies, ListGroup, ListSchedules, ListWhere, Log, LogHeld, MoveSome, MoveTo, NextId, OwnerOf, OwnerOfClaim, Owners, Parents, Park, Pause, PauseSubQueue, PauseUntil, PausedSubQueues, Peek, PeekReady, PutAndWait, PutMany, PutOrWait, ReadStep, Release, ReleaseAll, ReleaseIn, RemoveParents, RemoveSchedule, RemoveTags, Renew, ReportProgress, ReportText, Requeue, Resolve, Revoke, SetLimit, SetPriority, SetSchedule, Sleep, Snooze, SnoozeIn, Space, SpaceInTube, Spawn, Steps, StepsHeld, TagCounts, Tagged, Touch, Truncate, Tubes, UpdateTask, WaitDone, WaitDrained, WriteStep, PutTask as Put};
use super::wire::{
    Input, Malformed, Numbered, Wire, get_target, put_in_store, put_in_tube, put_of_claim,
    put_of_claims, wire_struct,
};
use crate::{Error, Receipt, Result};

/// What a check of a request needs to know of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_body: usize,
}

/// A verb.
pub(crate) trait Verb: Wire + Listed + Send + Sync + 'static {
    /// What it is made on: [`InStore`], [`InTube`], [`OfClaim`].
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
    fn check(&self, _limits: Limits) -> Result<()> {
        Ok(())
    }

    /// Refuses a call with what only a caller of the owner's process can give.
    fn check_sendable(&self) -> Result<()> {
        Ok(())
    }

    /// The tube that it adds if there is none of this name: a peer may add some only.
    fn adds_tube(&self) -> Option<&str> {
        None
    }

    /// Its answer may come after a wait without a limit: the owner is told if the caller goes.
    const WAITS: bool = false;

    /// Its answer waits for no commit, so that it may be made inside a transaction of the application.
    const AT_ONCE: bool = matches!(Self::KIND, Kind::Look);

    /// It is decided while the storage fails and after the close, too: it needs memory only.
    const IN_OUTAGE: bool = false;
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
    Put { tube: u32, arrival: u64 },
    Watch(WatchKey),
}

/// What a verb is made on.
pub(crate) trait Target: 'static {
    /// As a handle names it, and a peer.
    type Ref<'a>: Copy + Send + Sync;

    /// Refuses a call on what is not there.
    fn check(core: &mut Core, named: Self::Ref<'_>) -> Result<()>;

    /// The number of the tube.
    fn tube(named: Self::Ref<'_>) -> Option<u32>;

    /// The claims that it is.
    fn claims<'a>(_named: &'a Self::Ref<'_>) -> &'a [ClaimKey] {
        &[]
    }

    /// As a call keeps it that waits.
    type Owned: Send + Sync;

    fn to_owned(named: Self::Ref<'_>) -> Self::Owned;

    fn as_ref(owned: &Self::Owned) -> Self::Ref<'_>;

    /// The bytes in front of a verb that is made on it.
    fn put(named: Self::Ref<'_>, number: u8, out: &mut Vec<u8>);
}

/// How a verb names its target.
pub(crate) type Named<'a, V> = <<V as Verb>::On as Target>::Ref<'a>;

/// The store must be open.
pub(crate) enum InStore {}

impl Target for InStore {
    type Ref<'a> = ();

    #[inline]
    fn check(core: &mut Core, (): ()) -> Result<()> {
        core.check_open()
    }

    fn tube((): ()) -> Option<u32> {
        None
    }

    type Owned = ();

    fn to_owned((): ()) {}

    fn as_ref((): &()) {}

    fn put((): (), number: u8, out: &mut Vec<u8>) {
        put_in_store(number, out);
    }
}

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

    fn put(tube: TubeRef<'_>, number: u8, out: &mut Vec<u8>) {
        put_in_tube(tube, number, out);
    }
}

/// A tube that a verb names beside the one that it is made in.
#[derive(Clone, Debug)]
pub(crate) struct OtherTube {
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
}

wire_struct! { OtherTube { number, name } }

impl OtherTube {
    /// Its number. Refuses a tube that does not exist.
    pub(super) fn find(&self, core: &mut Core) -> Result<u32> {
        core.tube(self.number, &self.name)?;
        Ok(self.number)
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

    fn claims<'a>(claimed: &'a Claimed<'_>) -> &'a [ClaimKey] {
        slice::from_ref(&claimed.key)
    }

    type Owned = (ClaimKey, Option<Box<str>>);

    fn to_owned(claimed: Claimed<'_>) -> (ClaimKey, Option<Box<str>>) {
        (claimed.key, claimed.tube.map(Box::from))
    }

    fn as_ref((key, tube): &(ClaimKey, Option<Box<str>>)) -> Claimed<'_> {
        Claimed { key: *key, tube: tube.as_deref() }
    }

    fn put(claimed: Claimed<'_>, number: u8, out: &mut Vec<u8>) {
        put_of_claim(claimed, number, out);
    }
}

/// Claims of any tubes, each of which the decision checks by itself.
pub(crate) enum OfClaims {}

impl Target for OfClaims {
    type Ref<'a> = &'a [ClaimKey];

    #[inline]
    fn check(core: &mut Core, _: &[ClaimKey]) -> Result<()> {
        core.check_open()
    }

    /// That of the first claim.
    fn tube(claims: &[ClaimKey]) -> Option<u32> {
        claims.first().map(|key| key.tube)
    }

    fn claims<'a>(claims: &'a &[ClaimKey]) -> &'a [ClaimKey] {
        claims
    }

    type Owned = Vec<ClaimKey>;

    fn to_owned(claims: &[ClaimKey]) -> Vec<ClaimKey> {
        claims.to_vec()
    }

    fn as_ref(claims: &Vec<ClaimKey>) -> &[ClaimKey] {
        claims
    }

    fn put(claims: &[ClaimKey], number: u8, out: &mut Vec<u8>) {
        put_of_claims(claims, number, out);
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
        if !V::IN_OUTAGE {
            V::On::check(self, on)?;
        }
        let begun = verb.begin(self, on)?;
        #[cfg(feature = "_peer")]
        super::met::add_name(V::NAME);
        Ok(begun)
    }

    /// A caller has gone.
    pub(crate) fn cancel_begun(&mut self, cancel: &Cancel) {
        match cancel {
            Cancel::Put { tube, arrival } => self.cancel_put(*tube, *arrival),
            Cancel::Watch(key) => self.cancel_watch(*key),
        }
    }

    #[inline]
    pub(crate) fn decide_verb<V: Decide>(
        &mut self,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<Decided<V::Answer>> {
        if !V::IN_OUTAGE {
            V::On::check(self, on)?;
        }
        let decided = verb.decide(self, on)?;
        #[cfg(feature = "_peer")]
        super::met::add_name(V::NAME);
        Ok(decided)
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

/// What is done with a verb whose type its number says.
pub(crate) trait OnVerb {
    type Done;

    fn run<V: Begin>(
        self,
        on: Named<'_, V>,
        input: &mut Input<'_>,
    ) -> Result<Self::Done, Malformed>;
}

/// The bytes of a call.
pub(crate) fn put_verb<V: Verb>(on: Named<'_, V>, verb: &V, out: &mut Vec<u8>) {
    V::On::put(on, V::NUMBER, out);
    verb.put(out);
}

/// Declares a verb: its number, what it is made on, its kind, its name and fields, its answer, and what
/// is not as usual for it.
macro_rules! verb {
    (
        $(#[$doc:meta])*
        $number:literal $on:ident $kind:ident:
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? } -> $answer:ty
        $({ $($item:tt)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        $crate::core::wire::wire_struct! { $name { $($field),* } }

        impl $crate::core::verb::Verb for $name {
            type On = $crate::core::verb::$on;
            type Answer = $answer;
            const NUMBER: u8 = $number;
            const KIND: $crate::core::verb::Kind = $crate::core::verb::Kind::$kind;

            $($($item)*)?
        }
    };
}

pub(in crate::core) use verb;

/// The list of all verbs.
macro_rules! verbs {
    (
        in store: $($in_store:ident),*;
        in tube: $($in_tube:ident),*;
        of claim: $($of_claim:ident),*;
        of claims: $($of_claims:ident),*;
    ) => {
        /// Finds the verb of a call. `None` if the call is none of a type. Two verbs with one number do
        /// not compile.
        #[deny(unreachable_patterns)]
        pub(crate) fn with_verb<R: OnVerb>(
            input: &mut Input<'_>,
            run: R,
        ) -> Result<Option<R::Done>, Malformed> {
            Ok(Some(match get_target(input)? {
                $(Numbered::InStore(<$in_store as Verb>::NUMBER) => run.run::<$in_store>((), input)?,)*
                $(Numbered::InTube(on, <$in_tube as Verb>::NUMBER) => run.run::<$in_tube>(on, input)?,)*
                $(Numbered::OfClaim(on, <$of_claim as Verb>::NUMBER) => {
                    run.run::<$of_claim>(on, input)?
                })*
                $(Numbered::InStore(<$of_claims as Verb>::NUMBER) => {
                    let claims: Vec<ClaimKey> = Wire::get(input)?;
                    run.run::<$of_claims>(&claims, input)?
                })*
                _ => return Ok(None),
            }))
        }

        $(named!($in_store, "Call::");)*
        $(named!($in_tube, "Verb::");)*
        $(named!($of_claim, "HolderVerb::");)*
        $(named!($of_claims, "Call::");)*

        #[cfg(test)]
        pub(in crate::core) fn each_verb(see: &mut impl SeeVerb) {
            $(see.in_store::<$in_store>();)*
            $(see.in_tube::<$in_tube>();)*
            $(see.of_claim::<$of_claim>();)*
            $(see.of_claims::<$of_claims>();)*
        }
    };
}

macro_rules! named {
    ($verb:ident, $of:literal) => {
        impl Listed for $verb {
            #[cfg(any(test, feature = "_peer"))]
            const NAME: &'static str = concat!($of, stringify!($verb));
        }
    };
}

/// The name of a verb, which the list gives it.
pub(crate) trait Listed {
    #[cfg(any(test, feature = "_peer"))]
    const NAME: &'static str;
}

/// What a test does with each verb.
#[cfg(test)]
pub(in crate::core) trait SeeVerb {
    fn in_store<V: Begin<On = InStore> + super::wire::tests::Sample>(&mut self);

    fn in_tube<V: Begin<On = InTube> + super::wire::tests::Sample>(&mut self);

    fn of_claim<V: Begin<On = OfClaim> + super::wire::tests::Sample>(&mut self);

    fn of_claims<V: Begin<On = OfClaims> + super::wire::tests::Sample>(&mut self);
}

verbs! {
    in store: AllCounts, AllLimits, ByKey, CreateTube, DescribeSession, DropClaim, DropTube, Find,
        FindTube, NextId, OwnerOfClaim, Owners, SetLimit, Space, TagCounts, Tagged, Tubes;
    in tube: AckMany, AddParents, AddTags, Alter, Bury, CancelTask, ChangeSchedule, Children, CountsOf, Days, Delete, DeleteIf,
        DeleteMany, DeleteWhere, EndingOf, FailedOn, Forget, Groups, HistoryOf, InfoOf,
        IsTimed, Kick, KickTask, KickWhere, List, ListBodies, ListGroup, ListSchedules, ListWhere, Log, MoveSome, MoveTo, OwnerOf, Parents,
        Pause, PauseSubQueue, PauseUntil, PausedSubQueues, Peek, PeekReady, Put, PutAndWait, PutMany, PutOrWait, ReleaseAll, RemoveParents,
        RemoveSchedule, RemoveTags, Requeue, Resolve, Revoke, SetPriority, SetSchedule, SpaceInTube,
        Steps, Truncate, UpdateTask, WaitDone, WaitDrained;
    of claim: Ack, BuryHeld, Checkpoint, DescribeHeld, Fail, FinishTask, Join, Limit, LogHeld, Park,
        ReadStep, Release, ReleaseIn, Renew, ReportProgress, ReportText, Sleep, Snooze, SnoozeIn, Spawn,
        StepsHeld, Touch, WriteStep;
    of claims: AckClaims;
}
