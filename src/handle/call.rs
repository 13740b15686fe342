//! Calls as futures: space in the write buffer, the decision, and the commit are awaited in turn.

mod capacity;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tubewell_wire::HomeProcess;

use crate::base::sync::thread;
use crate::base::user_code::panic_to_error;
use crate::connection::Mode;
use crate::core::verb::{Begin, Begun, Later, Named};
use crate::core::{Buffer, Core, Decided, WaitSlot};
use crate::handle::store_handle::StoreHandle;
use crate::runtime::open_store::LocalHandle;
use crate::{Error, Result};

pub(crate) use capacity::CapacityWait;

/// The future of a call, for any runtime or none.
///
/// The call begins with the first poll. The future blocks no thread: while it waits for space in
/// the write buffer, for its turn, or for a flush, its waker is kept and called when the wait ends.
/// A poll may read the file, as a take does. Futures that wait for the same are served in order of
/// arrival.
///
/// Dropping the future before the store has decided the call cancels the call: nothing changes.
/// After that the call takes effect and is flushed, as with a dropped [`Ticket`](crate::Ticket).
/// The future keeps the store open, as every handle does. It must not be polled again once it has
/// returned its result.
#[must_use = "a future does nothing until it is polled"]
pub(crate) struct CallFuture<T> {
    call: Pin<Box<dyn Future<Output = Result<T>> + Send>>,
    /// In a fork, no thread would end its waits.
    home: HomeProcess,
}

impl<T> CallFuture<T> {
    pub(crate) fn new(call: impl Future<Output = Result<T>> + Send + 'static) -> CallFuture<T> {
        CallFuture { call: Box::pin(call), home: HomeProcess::current() }
    }
}

impl<T> Future for CallFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if !self.home.is_here() {
            return Poll::Ready(Err(Error::Forked { opened_in: self.home.id() }));
        }
        self.call.as_mut().poll(context)
    }
}

/// Waits for the commit that an answer depends on.
pub(crate) async fn commit<T>(decided: Decided<T>) -> Result<T> {
    if let Some(wait) = decided.wait {
        poll_fn(|context| wait.batch().poll(context.waker())).await?;
    }
    Ok(decided.answer)
}

/// Makes a call as a future: in this process, the place of the call in the line of its write buffer, and the
/// wait for its commit.
pub(crate) async fn make<V: Begin>(
    handle: &StoreHandle,
    buffer: Buffer,
    on: Named<'_, V>,
    verb: &V,
) -> Result<V::Answer> {
    verb.check(handle.limits())?;
    let store = match handle {
        StoreHandle::Here(store) => store,
        StoreHandle::Remote(owner) => return owner.make_later(Mode::Call, on, verb)?.await,
    };
    let decided = decide_verb(store, buffer, on, verb, verb.refusal_waits()).await?;
    answer(store, decided.map(|answer| answer.map(V::begun))).await
}

/// Waits for the answer of a verb that has begun. Dropping the future cancels a wait, also if it was never
/// polled.
pub(crate) fn answer<T>(
    store: &LocalHandle,
    decided: Decided<Result<Begun<T>>>,
) -> impl Future<Output = Result<T>> + use<T> {
    let decided = decided.map(|begun| begun.map(|begun| Coming::of(store, begun)));
    async move {
        match commit(decided).await?? {
            Coming::Here(answer) => Ok(answer),
            Coming::Later(waiting) => waiting.answer().await,
        }
    }
}

/// The answer of a verb that has begun.
enum Coming<T> {
    Here(T),
    Later(Waiting<T>),
}

impl<T> Coming<T> {
    fn of(store: &LocalHandle, begun: Begun<T>) -> Coming<T> {
        match begun {
            Begun::Done(answer) => Coming::Here(answer),
            Begun::Later(later) => {
                Coming::Later(Waiting { store: store.clone(), later, is_over: false })
            }
        }
    }
}

/// A caller that waits. Dropping it cancels the wait.
struct Waiting<T> {
    store: LocalHandle,
    later: Later<T>,
    is_over: bool,
}

impl<T> Waiting<T> {
    async fn answer(mut self) -> Result<T> {
        let decided = poll_fn(|context| self.later.slot.poll(context.waker())).await;
        self.is_over = true;
        commit(decided?).await
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        if !self.is_over
            && let Ok(inner) = self.store.inner()
        {
            inner.run(|core| core.cancel_begun(&self.later.cancel));
        }
    }
}

/// Decides a call, once its write buffer has space if it needs some.
async fn decide_verb<V: Begin>(
    store: &LocalHandle,
    buffer: Buffer,
    on: Named<'_, V>,
    verb: &V,
    refusal_waits: bool,
) -> Result<Decided<Result<V::First>>> {
    let decide = |core: &mut Core| core.make(on, verb, refusal_waits);
    if V::AT_ONCE {
        return store.inner()?.run(decide);
    }
    // Its commit would wait for the transaction, and so would the space that it needs.
    store.inner()?.check_outside_transaction()?;
    let mut wait = CapacityWait::new(store, buffer);
    poll_fn(|context| wait.poll_decide(context.waker(), V::KIND.needs_space(), decide)).await
}

/// Waits until a take may remove more expired tasks.
pub(crate) async fn expiry(handle: &LocalHandle, buffer: Buffer) -> Result<()> {
    let mut wait = CapacityWait::new(handle, buffer);
    poll_fn(|context| wait.poll_expiry(context.waker())).await
}

/// Closes the store on a thread of its own, since a close blocks.
pub(crate) async fn close(handle: StoreHandle) -> Result<()> {
    match &handle {
        StoreHandle::Here(store) => store.inner().map(drop)?,
        StoreHandle::Remote(owner) => owner.check_process()?,
    }
    let slot = Arc::new(WaitSlot::new());
    let filled = slot.clone();
    let run = move || {
        let closed = panic_to_error(|| handle.close());
        drop(handle);
        filled.fill(closed.unwrap_or_else(|why| Err(Error::OutcomeUnknown { why })));
        filled.wake();
    };
    thread::Builder::new()
        .name("tubewell-close".into())
        .spawn(run)
        .map_err(|error| Error::Io { what: format!("cannot start a thread: {error}") })?;
    poll_fn(|context| slot.poll(context.waker())).await
}
