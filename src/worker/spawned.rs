//! Handlers that run where the application wants them, for instance on a runtime.

use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;

use super::how::How;
use super::pool::{Lane, Pool, Spawn};
use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, ThreadId};
use crate::base::user_code::panic_to_error;
use crate::core::WaitSlot;

/// Runs the future of a handler here, or where the application wants it.
pub(super) async fn handle(
    pool: &Pool,
    lane: &Lane,
    future: impl Future<Output = How> + Send + 'static,
) -> How {
    match &pool.spawn {
        None => future.await,
        Some(spawn) => run(spawn, lane.handler_thread.clone(), future).await,
    }
}

/// Hands the future of a handler out, and waits for its end.
/// `polled_by` shows the thread that polls it.
async fn run(
    spawn: &Spawn,
    polled_by: Arc<Mutex<Option<ThreadId>>>,
    future: impl Future<Output = How> + Send + 'static,
) -> How {
    let slot = Arc::new(WaitSlot::new());
    let mut answer = Answer { slot: slot.clone(), handled: How::Dropped };
    let spawned = Box::pin(async move {
        let mut future = pin!(future);
        let poll = |context: &mut Context<'_>| {
            *polled_by.lock() = Some(thread::current().id());
            let handled = future.as_mut().poll(context);
            *polled_by.lock() = None;
            handled
        };
        let handled = poll_fn(poll).await;
        answer.set(handled);
    });
    if let Err(why) = panic_to_error(|| spawn(spawned)) {
        return How::panicked(why);
    }
    poll_fn(|context| slot.poll(context.waker())).await
}

/// Answers the wait of the worker when it is dropped: at the end of the future, or with it.
struct Answer {
    slot: Arc<WaitSlot<How>>,
    handled: How,
}

impl Answer {
    fn set(&mut self, handled: How) {
        self.handled = handled;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.slot.fill(replace(&mut self.handled, How::Dropped));
        self.slot.wake();
    }
}
