//! The calls of a client in a conversation, in one thread and one order. The conversation of each version is
//! recorded once: what is changed here no longer fits the recorded files.

mod admin;
mod holder;
mod labels;
mod puts;
mod takes;
mod tubes;
mod waits;
mod worker;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tubewell::{Bytes, IntoPut, Store, Tube};

use crate::executor::block_on;
use crate::recording::{Act, Line};
use crate::shown::Shown;

/// Who is told of the conversation.
pub trait Stage {
    fn add(&self, line: Line);
}

/// A client in a conversation.
pub struct Script<'a> {
    pub store: &'a Store,
    stage: &'a dyn Stage,
}

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);

/// Makes all calls of the conversation.
pub fn converse(store: &Store, stage: &dyn Stage) {
    let script = Script { store, stage };
    script.tubes();
    script.refused_tubes();
    script.puts();
    script.refused_puts();
    script.takes();
    script.claims();
    script.ends_of_claims();
    script.steps();
    script.held_by_id();
    script.parked();
    script.sessions();
    script.waits();
    script.parents();
    script.edits();
    script.dead_letters();
    script.many();
    script.lists();
    script.labels();
    script.gates();
    script.schedules();
    script.movement();
    script.deferred();
    script.worker();
    script.inspection();
    // Its answer is behind those of the calls for which nothing has waited.
    script.note("the last call", store.admin().next_id().unwrap());
}

impl Script<'_> {
    pub fn about(&self, about: &str) {
        self.stage.add(Line::About(about.into()));
    }

    /// Notes what a call has returned.
    pub fn note(&self, call: &str, result: impl Shown) {
        // A line of its own, whatever it contains.
        let result = result.shown().replace('\n', "\\n");
        self.stage.add(Line::Result(format!("{call}: {result}")));
    }

    pub fn act(&self, act: Act) {
        self.stage.add(Line::Act(act));
    }

    pub fn advance(&self, time: Duration) {
        self.act(Act::Advance(time));
    }

    /// A tube of the conversation, without a call that is noted.
    pub fn tube(&self, name: &str) -> Tube {
        self.store.find_tube(name).unwrap()
    }

    /// The tube of tasks with all options.
    pub fn jobs(&self) -> Tube {
        self.tube("jobs")
    }

    /// The tube of tasks without options.
    pub fn plain(&self) -> Tube {
        self.tube("plain")
    }
}

/// Puts a task, and returns its id.
pub fn put(tube: &Tube, task: impl IntoPut<Bytes>) -> u64 {
    tube.put(task).unwrap().id
}

/// A call that is sent. A recorded owner may have answered it already.
pub enum Begun<F: Future> {
    Answered(F::Output),
    Waits(F),
}

/// Sends the call of a future.
pub fn begin<F: Future + Unpin>(mut call: F) -> Begun<F> {
    match pin!(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Begun::Answered(output),
        Poll::Pending => Begun::Waits(call),
    }
}

impl<F: Future> Begun<F> {
    /// Waits for the answer.
    pub fn end(self) -> F::Output {
        match self {
            Begun::Answered(output) => output,
            Begun::Waits(call) => block_on(call),
        }
    }
}
