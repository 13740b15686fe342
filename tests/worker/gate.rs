//! Jobs that wait until the test lets them go on, in every form of a worker.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{IntoOutcome, Tube};

use super::executor::block_on;
use super::support::Form;

/// Closed until a test opens it, and open from then on.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    pub fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub async fn opened(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Blocks until the gate is open.
    pub fn pass(&self) {
        block_on(self.opened());
    }
}

impl Form {
    /// Adds a handler that calls `begin`, waits for the gate, and then calls `end`. Other jobs run
    /// meanwhile.
    pub fn on_gated<R: IntoOutcome + Send + 'static>(
        self,
        worker: Worker,
        tube: &Tube,
        gate: &Gate,
        begin: impl Fn(&Job) + Send + Sync + 'static,
        end: impl Fn(&Job) -> R + Send + Sync + 'static,
    ) -> Worker {
        let gate = gate.clone();
        if self == Form::Threads {
            return worker.on(tube, move |job: &Job| {
                begin(job);
                gate.pass();
                end(job)
            });
        }
        let calls = Arc::new((begin, end));
        worker.on_async(tube, move |job: AsyncJob| {
            let (calls, gate, job) = (calls.clone(), gate.clone(), job.into_blocking());
            async move {
                calls.0(&job);
                gate.opened().await;
                calls.1(&job)
            }
        })
    }
}
