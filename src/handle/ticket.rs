//! The answer of a call that blocks no thread.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::base::park::block_on;
use crate::connection::{RemotePromise, answered_already};
use crate::core::Decided;
use crate::handle::call::CallFuture;
use crate::handle::trace::CallSpan;
use crate::runtime::open_store::LocalHandle;
use crate::{Error, Result};

/// The answer to a call of a handle from [`to_async`](crate::Tube::to_async): a future for any runtime or
/// none, which a thread can [`wait`](Ticket::wait) for, too.
///
/// A change is made when its method is called, in the order of the calls, whoever awaits the tickets: at
/// once, or it stands in line while the write buffer is full. Its ticket is answered once the change
/// survives what its tube promises: after the flush, or in a [written](crate::Durability::Write) tube after
/// the write. Dropping the ticket discards the answer, not the change.
///
/// A change of memory alone needs no space, and overtakes those that stand in line: a release or a snooze
/// without a delay, a renewal, the drop of a claim, an end of the claims of others
/// ([`Admin::release`](crate::Admin::release), [`revoke`](crate::Admin::revoke)). Await the ticket of a
/// checkpoint before you release its task.
///
/// A change of selected tasks ([`Admin::kick`](crate::Admin::kick), for instance) makes its first step when
/// it is called, and the others while it is awaited. A [`put_timeout`](crate::Tube::put_timeout) whose ticket
/// is dropped while its tube is full puts nothing.
///
/// Reads, takes, a flush and a close begin with the first poll, or with [`wait`](Ticket::wait).
/// Dropping the ticket of a take leaves the line of takers, and gives back a task that was assigned already.
/// [`events`](crate::Store::events) begins when it is called, and ends if its ticket is dropped. Dropping the
/// ticket of [`resume_session`](crate::Store::resume_session) drops the handle, and that of
/// [`resume_claim`](crate::Store::resume_claim) the claim, which releases the task.
///
/// A ticket keeps the store open, as every handle does. [`close`](crate::Store::close) flushes all changes,
/// so that a ticket which outlives it has its answer.
///
/// # Example: many changes share a flush
/// ```
/// use tubewell::{Result, Tube};
///
/// async fn enqueue(jobs: &Tube, names: &[&str]) -> Result<()> {
///     let jobs = jobs.to_async();
///     let tickets: Vec<_> = names.iter().map(|name| jobs.put(*name)).collect();
///     for ticket in tickets {
///         ticket.await?; // on the disk
///     }
///     Ok(())
/// }
/// ```
#[must_use = "an answer that is not read may be an error"]
pub struct Ticket<R> {
    state: State<R>,
    /// Ends with the answer.
    span: CallSpan,
}

enum State<R> {
    /// The answer waits for nothing.
    Known(Result<R>),
    /// Decided, and not yet written.
    Decided(LocalHandle, Decided<Result<R>>),
    /// Expected from the owner of the store.
    Asked(RemotePromise<R>),
    InLine(Box<dyn Standing<R>>),
    /// It has not begun, takes several steps, or waits for something else than its write.
    Call(CallFuture<R>),
    /// The answer was given.
    Over,
}

/// A change that stands in line for space in its write buffer.
pub(crate) trait Standing<R>: Send {
    /// The ticket of the change, once it is made; or a refusal.
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Ticket<R>>>;

    /// Leads the commits that it needs, for a thread that waits.
    fn lead(&self) -> Result<()>;

    /// Whether the answer is there.
    fn is_done(&self) -> bool;
}

impl<R> std::fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<R> Ticket<R> {
    /// A ticket whose answer is there already.
    pub(crate) fn known(answer: Result<R>) -> Ticket<R> {
        Ticket::of(State::Known(answer))
    }

    fn of(state: State<R>) -> Ticket<R> {
        Ticket { state, span: CallSpan::none() }
    }

    /// Decided or refused.
    pub(crate) fn decided(store: &LocalHandle, decided: Decided<Result<R>>) -> Ticket<R> {
        match decided.wait {
            None => Ticket::known(decided.answer),
            Some(_) => Ticket::of(State::Decided(store.clone(), decided)),
        }
    }

    pub(crate) fn asked(promise: RemotePromise<R>) -> Ticket<R> {
        Ticket::of(State::Asked(promise))
    }

    pub(crate) fn in_line(call: impl Standing<R> + 'static) -> Ticket<R> {
        Ticket::of(State::InLine(Box::new(call)))
    }

    pub(crate) fn of_future(future: impl Future<Output = Result<R>> + Send + 'static) -> Ticket<R> {
        Ticket::of(State::Call(CallFuture::new(future)))
    }

    /// As `of_future`, of a call that makes its first step now.
    pub(crate) fn begun(future: impl Future<Output = Result<R>> + Send + 'static) -> Ticket<R> {
        let mut call = CallFuture::new(future);
        match Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Ticket::known(answer),
            Poll::Pending => Ticket::of(State::Call(call)),
        }
    }

    /// Blocks until the answer is there, and returns it.
    ///
    /// # Errors
    /// Those of the call. [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush or the write of a
    /// change failed. The change is applied when the storage works again. If the process ends before that,
    /// it is applied as a whole or not at all. [`Invalid`](crate::Error::Invalid): the ticket has given its
    /// answer already, as a future.
    pub fn wait(mut self) -> Result<R> {
        let answer = self.state.wait();
        self.span.ended(&answer);
        answer
    }

    /// Whether the answer is there: [`wait`](Ticket::wait) would not block. Returns `false` until the ticket
    /// has answered for a call that begins when its ticket is awaited, waits for space in a tube or for the
    /// end of a task, takes several commits, returns a handle, ends a session, or is a call of a job.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Decided(_, Decided { wait: Some(wait), .. }) => wait.batch().outcome().is_some(),
            State::Asked(promise) => promise.is_done(),
            State::InLine(call) => call.is_done(),
            State::Call(_) => false,
            _ => true,
        }
    }

    /// Why the call was refused, if that is known without a wait. A refusal of the owner of a store that is
    /// reached through a [connection](crate::connect) comes with the answer.
    ///
    /// # Example: stop at the first refusal of many
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let jobs = store.tube("jobs")?;
    /// let jobs = jobs.to_async().refuse_when_full();
    /// let mut accepted = Vec::new();
    /// for n in 0..100 {
    ///     let ticket = jobs.put(format!("job {n}"));
    ///     if ticket.refusal().is_some() {
    ///         break;
    ///     }
    ///     accepted.push(ticket);
    /// }
    /// assert_eq!(accepted.len(), 100);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn refusal(&self) -> Option<&Error> {
        match &self.state {
            State::Known(Err(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

impl<R> State<R> {
    fn wait(self) -> Result<R> {
        match self {
            State::Known(answer) => answer,
            State::Decided(store, decided) => store.inner()?.wait_deferred(decided)?,
            State::Asked(promise) => promise.wait(),
            State::InLine(mut call) => {
                call.lead()?;
                block_on(poll_fn(|context| call.poll(context.waker())))?.wait()
            }
            State::Call(call) => block_on(call),
            State::Over => Err(answered_already()),
        }
    }

    /// A ticket answers once.
    fn answered(&mut self, answer: Poll<Result<R>>) -> Poll<Result<R>> {
        if answer.is_ready() {
            *self = State::Over;
        }
        answer
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<R>> {
        if let State::InLine(call) = self {
            let Poll::Ready(made) = call.poll(context.waker()) else { return Poll::Pending };
            *self = made.map_or_else(|refusal| State::Known(Err(refusal)), |ticket| ticket.state);
        }
        let waited = match self {
            State::Decided(store, decided) => {
                // In a fork, no thread would lead the commit.
                store.inner()?;
                let wait = decided.wait.as_ref();
                wait.map_or(Poll::Ready(Ok(())), |wait| wait.batch().poll(context.waker()))
            }
            State::Asked(promise) => {
                let answer = Pin::new(promise).poll(context);
                return self.answered(answer);
            }
            State::Call(call) => {
                let answer = Pin::new(call).poll(context);
                return self.answered(answer);
            }
            State::Known(_) | State::InLine(_) | State::Over => Poll::Ready(Ok(())),
        };
        let Poll::Ready(waited) = waited else { return Poll::Pending };
        let state = std::mem::replace(self, State::Over);
        waited?;
        Poll::Ready(match state {
            State::Known(answer) => answer,
            State::Decided(_, decided) => decided.answer,
            _ => Err(answered_already()),
        })
    }
}

impl<R: Send + 'static> Ticket<R> {
    /// The same answer, which `look` sees once it is known.
    pub(crate) fn inspect(self, look: impl FnOnce(&Result<R>) + Send + 'static) -> Ticket<R> {
        match self.state {
            State::Known(answer) => {
                look(&answer);
                Ticket::known(answer)
            }
            later => Ticket::of_future(async move {
                let answer = Ticket { state: later, span: self.span }.await;
                look(&answer);
                answer
            }),
        }
    }
}

impl<R: 'static> Ticket<R> {
    pub(crate) fn map<S: 'static>(
        self,
        with: impl FnOnce(R) -> S + Send + Sync + 'static,
    ) -> Ticket<S>
    where
        R: Send,
    {
        let state = match self.state {
            State::Known(answer) => State::Known(answer.map(with)),
            State::Decided(store, decided) => {
                State::Decided(store, decided.map(|answer| answer.map(with)))
            }
            State::Asked(promise) => State::Asked(promise.map(with)),
            State::InLine(call) => State::InLine(Box::new(Mapped { call, with: Some(with) })),
            State::Call(call) => State::Call(CallFuture::new(async move { call.await.map(with) })),
            State::Over => State::Over,
        };
        Ticket { state, span: self.span }
    }

    /// The same ticket, whose span ends with its answer. `note` adds to the span what a decision says.
    pub(crate) fn in_span(self, mut span: CallSpan, note: fn(&CallSpan, &R)) -> Ticket<R>
    where
        R: Send,
    {
        if span.is_none() {
            return self;
        }
        let noted = span.clone();
        let ticket = self.map(move |answer| {
            note(&noted, &answer);
            answer
        });
        if let State::Known(answer) = &ticket.state {
            span.ended(answer);
        }
        Ticket { span, ..ticket }
    }
}

/// A change in line, with another form of its answer.
struct Mapped<R, F> {
    call: Box<dyn Standing<R>>,
    with: Option<F>,
}

impl<R, S, F> Standing<S> for Mapped<R, F>
where
    R: Send + 'static,
    S: 'static,
    F: FnOnce(R) -> S + Send + Sync + 'static,
{
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Ticket<S>>> {
        let Poll::Ready(made) = self.call.poll(waker) else { return Poll::Pending };
        let with = self.with.take().ok_or_else(answered_already)?;
        Poll::Ready(made.map(|ticket| ticket.map(with)))
    }

    fn lead(&self) -> Result<()> {
        self.call.lead()
    }

    fn is_done(&self) -> bool {
        self.call.is_done()
    }
}

/// A ticket pins none of its fields.
impl<R> Unpin for Ticket<R> {}

impl<R> Future for Ticket<R> {
    type Output = Result<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<R>> {
        let ticket = self.get_mut();
        let answer = ticket.state.poll(context);
        if let Poll::Ready(answer) = &answer {
            ticket.span.ended(answer);
        }
        answer
    }
}
