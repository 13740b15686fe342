//! Verbs as types: what a handle asks of a store. A verb owns what it asks for, so that it can wait,
//! go to another thread or another process, and be made again.
//!
//! A verb is implemented once, in the file of its decision: its fields, its checks, what it is made on, what it
//! waits for. `core/list.rs` names all verbs; the dispatch of a peer's bytes comes from there.

mod declare;
mod kind;
mod target;

use std::sync::Arc;
use std::task::{Poll, Waker};

#[cfg(feature = "tracing")]
use super::state::PutRequest;
use super::state::{Core, Decided, PutSlot, WaitSlot, WatchKey};
use super::wire::{Input, Malformed, Wire};
use crate::base::tube_no::TubeNo;
use crate::{Error, Receipt, Result};

pub(in crate::core) use declare::verb;
pub(crate) use kind::Kind;
pub(crate) use target::{InStore, InTube, OfClaim, OfClaims, Target, TubeName, TubeRef};
pub(in crate::core) use target::{Numbered, get_target};

/// What a check of a request needs to know of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_body: usize,
}

/// A verb.
pub(crate) trait Verb: Wire + Listed + Send + Sync + 'static {
    /// What it is made on: [`InStore`], [`InTube`], [`OfClaim`], [`OfClaims`].
    type On: Target;
    type Answer: Wire + Send + 'static;
    const NUMBER: u8;
    const KIND: Kind;
    /// It consumes the handle of its claim: one that is refused releases the task.
    const ENDS_CLAIM: bool = false;

    /// Whether it may be made twice, if a connection breaks before the answer.
    fn may_repeat(&self) -> bool {
        !Self::KIND.changes()
    }

    /// Whether the attempt of its claim does not count, also if it is refused.
    fn forgives(&self) -> bool {
        false
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

    /// What it does with a message, in the words of traces. Calls of a verb without it have no span.
    #[cfg(feature = "tracing")]
    fn operation(&self) -> Option<Operation> {
        None
    }

    /// The tasks that it puts, as its operation.
    #[cfg(feature = "tracing")]
    fn puts(&mut self) -> &mut [PutRequest] {
        &mut []
    }

    /// The id of the task that it has put.
    #[cfg(feature = "tracing")]
    fn id_in(_: &Self::Answer) -> Option<u64> {
        None
    }

    /// Its answer may come after a wait without a limit: the owner is told if the caller goes.
    const WAITS: bool = false;

    /// Its answer waits for no commit, so that it may be made inside a transaction of the application.
    const AT_ONCE: bool = matches!(Self::KIND, Kind::Look);

    /// It is decided while the storage fails and after the close, too: it needs memory only.
    const IN_OUTAGE: bool = false;
}

/// What a verb does with messages, with its name.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// It puts tasks.
    Send(&'static str),
    /// It puts tasks of another store, which belong to the traces of their first puts.
    Restore(&'static str),
    /// It ends claims.
    Settle(&'static str),
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
    Put { tube: TubeNo, arrival: u64 },
    Watch(WatchKey),
}

/// How a verb names its target.
pub(crate) type Named<'a, V> = <<V as Verb>::On as Target>::Ref<'a>;

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
        #[cfg(all(feature = "_peer", debug_assertions))]
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

    /// A refusal, and the change that it waits for.
    #[cold]
    pub(super) fn refuse_once_visible<T>(
        &mut self,
        tube: Option<TubeNo>,
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

/// The name of a verb, which the list gives it.
pub(crate) trait Listed {
    #[cfg(any(test, feature = "_peer"))]
    const NAME: &'static str;
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
