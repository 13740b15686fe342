//! A worker, whose jobs sleep, wait for other tasks and notice the end of their claims.

use tubewell::worker::{Job, Worker};
use tubewell::{FIFOTTL, TubeOptions};

use super::{HOUR, Script, put};

impl Script<'_> {
    pub fn worker(&self) {
        self.about("a worker");
        let (store, plain) = (self.store, self.plain());
        let worked = store.create_tube("worked", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let child = put(&plain, "to be done first");
        put(&worked, "joins");
        put(&worked, "sleeps");
        let session = store.session("worker").unwrap();
        let of = plain.clone();
        let handler = move |job: &Job| -> tubewell::Result<()> {
            // Asks for the end of the claim, which the owner answers when it ends.
            drop(job.cancelled());
            match job.body() {
                b"joins" => job.join("parts", &of, &[child])?,
                _ => job.sleep("an hour", HOUR)?,
            }
            Ok(())
        };
        let worker = Worker::new(store).session(&session).on(&worked, handler);
        let tally = worker.limit(2).concurrency(1).run_until_idle();
        self.note("done", tally.map(|tally| tally.suspended));
        self.note("tasks", worked.statistics().map(|statistics| statistics.tasks));
        self.note("end", session.end());
    }
}
