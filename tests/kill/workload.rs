//! The work of a child: calls of all verbs from several threads, with a report before or after each
//! call.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `p` tube label id: a task was put in a flushed or a written tube
//! * `r` label id: a task was put in the relaxed tube
//! * `s` label: all relaxed puts of this thread up to this one are in the file
//! * `m` label count: a group of tasks was put by one `put_many`
//! * `t` tube label id version: a task with this version of its body was taken
//! * `v` and `V` label version: the body of a task is about to be replaced; it was replaced
//! * `f` and `F` label: a task is about to be removed; it was removed
//! * `b` and `B` label: a task is about to be buried; it was buried
//! * `d` and `D` label: a task is about to be released with a delay; it was released
//! * `h` label and `H` label token: a claim is about to be parked; it was parked
//! * `u` and `U` label: a claim that was parked is about to end; it has ended, and the task is ready
//! * `k` and `K` tube: all buried tasks are about to be kicked; they were kicked
//! * `x` and `X` tube: a tube is about to be truncated; it was truncated

use std::thread;
use std::time::Duration;

use tubewell::{
    Claim, Durability, Error, Event, FIFO, FIFOTTL, Filter, LIMFIFOTTL, Outcome, Put, Receipt,
    Result, Store, TaskState, Tube, TubeOptions, UTUBE, UTUBETTL,
};

use crate::abort_points::{self, AbortPoint};
use crate::body;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;
use crate::sigstop;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// The days that the tubes with metrics keep.
const METRICS: u32 = 30;

/// The prefix of the mode of a child that calls no flushed tube. Its written changes are flushed
/// after their calls have returned, if at all.
pub const WRITTEN_ONLY: &str = "written/";

/// The tubes with a putting and a taking thread. Two tubes share the threads.
const FLUSHED_TUBES: [&str; 6] = ["fifo", "utube", "fifottl", "utubettl", "lim", "custom"];
const WRITTEN_TUBES: [&str; 2] = ["written-fifo", "written-utubettl"];

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = ReportWriter::new();
    if let Some(ttr) = job.mode.strip_prefix("claim:") {
        let ttr = Duration::from_millis(ttr.parse().unwrap());
        return sigstop::hold_claim(job, &reports, ttr);
    }
    let point = job.mode.strip_prefix(WRITTEN_ONLY);
    let abort = AbortPoint::parse(point.unwrap_or(&job.mode));
    let store = abort_points::open(job, &abort);
    let create = |name: &str| open_tube(&store, name, &abort);
    let flushed: Vec<Tube> = FLUSHED_TUBES.into_iter().map(create).collect();
    let written: Vec<Tube> = WRITTEN_TUBES.into_iter().map(create).collect();
    let (relaxed, bulk) = (create("relaxed"), create("bulk"));
    reports.write("c");
    let workload = Workload { store: &store, job, reports: &reports, abort: &abort };
    let (workload, flushed, written) = (&workload, flushed.as_slice(), written.as_slice());
    thread::scope(|scope| {
        if abort.is_in_thread("sweeper") || abort.is_in_thread("events") {
            // The fewer callers lead commits, the more often these threads do: the sweeper with
            // tubes that have delays, the callback thread with the tube that has a callback.
            let tubes = match point {
                Some(_) => &written[1..],
                None if abort.is_in_thread("sweeper") => &flushed[2..4],
                None => &flushed[..1],
            };
            scope.spawn(move || workload.put(1, tubes));
            scope.spawn(|| workload.put_relaxed(20, &relaxed, None));
            return;
        }
        let flushed = if point.is_some() { &[] } else { flushed };
        for (number, tubes) in flushed.chunks(2).chain([written]).enumerate() {
            scope.spawn(move || workload.put(number as u64, tubes));
            scope.spawn(move || workload.take_and_finish(10 + number as u64, tubes));
        }
        scope.spawn(|| workload.put_relaxed(20, &relaxed, Some(&written[0])));
        scope.spawn(|| workload.list_and_peek());
        if !flushed.is_empty() {
            scope.spawn(|| workload.put_bulk(21, &bulk));
        }
    });
}

fn open_tube(store: &Store, name: &str, abort: &AbortPoint) -> Tube {
    let options = TubeOptions::new();
    let (driver, options) = match name {
        "fifo" => {
            let (abort, store) = (abort.clone(), store.clone());
            let callback = move |_: &Event| {
                abort.abort_if_reached("callback");
                // Makes the callback thread lead commits.
                if abort.is_in_thread("events") {
                    store.flush().unwrap();
                }
            };
            (FIFO, options.on_task_change(callback))
        }
        "utube" => (UTUBE, options.metrics(METRICS)),
        "fifottl" => (FIFOTTL, options.metrics(METRICS)),
        "utubettl" => (UTUBETTL, options),
        "lim" => (LIMFIFOTTL, options.capacity(50)),
        "custom" => (abort_points::CUSTOM_DRIVER, options),
        "relaxed" => {
            (FIFO, options.metrics(METRICS).durability(Durability::Relaxed { max_delay: 3 * MS }))
        }
        "bulk" => (FIFO, options),
        // Its later flush never comes, but with that of another tube.
        "written-fifo" => (FIFO, options.durability(Durability::Write { flush_within: HOUR })),
        "written-utubettl" => {
            (UTUBETTL, options.durability(Durability::Write { flush_within: 3 * MS }))
        }
        other => panic!("no tube {other}"),
    };
    store.open_tube(name, options.driver(driver)).unwrap()
}

struct Workload<'a> {
    store: &'a Store,
    job: &'a Job,
    reports: &'a ReportWriter,
    abort: &'a AbortPoint,
}

impl Workload<'_> {
    fn rng(&self, thread: u64) -> Rng {
        Rng::for_part(self.job.seed, thread)
    }

    fn label(&self, thread: u64, number: u64) -> String {
        format!("{}.{thread}.{number}", self.job.run)
    }

    /// Bytes of filler of a body.
    fn filler(&self, rng: &mut Rng) -> u64 {
        // Large bodies fill a half of the journal soon, so that a checkpoint begins.
        if self.abort.is_in_thread("checkpoint") { 20_000 } else { body::random_filler(rng) }
    }

    fn new_put(&self, rng: &mut Rng, tube: &Tube, label: &str) -> Put<Vec<u8>> {
        let mut put = Put::new(body::with_label(label, self.filler(rng)));
        if tube.driver().starts_with("utube") {
            put = put.sub_queue(rng.range(0..4).to_string());
        }
        if tube.driver().ends_with("ttl") {
            put = put.priority(u32::try_from(rng.range(0..3)).unwrap()).ttl(HOUR);
            if rng.one_in(if self.abort.is_in_thread("sweeper") { 2 } else { 6 }) {
                put = put.delay(2 * MS);
            }
        }
        put
    }

    fn put(&self, thread: u64, tubes: &[Tube]) {
        let mut rng = self.rng(thread);
        let mut tickets = Vec::new();
        for number in 0.. {
            let index = usize::from(rng.one_in(2)) % tubes.len();
            let (tube, label) = (&tubes[index], self.label(thread, number));
            let put = self.new_put(&mut rng, tube, &label);
            let report = |id: u64| {
                self.reports.write(&format!("p {} {label} {id}", tube.name()));
            };
            if rng.one_in(2) {
                let ticket = tube.to_async().put(put);
                match ticket.refusal() {
                    None => tickets.push((tube, label, ticket)),
                    Some(Error::Full { .. }) => {}
                    Some(other) => panic!("put: {other}"),
                }
            } else {
                match tube.put_timeout(put, 5 * MS) {
                    Ok(receipt) => report(receipt.id),
                    Err(Error::Full { .. }) => {}
                    Err(other) => panic!("put: {other}"),
                }
            }
            if tickets.len() > 8 {
                for (tube, label, ticket) in tickets.drain(..) {
                    match ticket.wait() {
                        Ok(Receipt { id, .. }) => {
                            self.reports.write(&format!("p {} {label} {id}", tube.name()));
                        }
                        // It stood in line for space in the write buffer.
                        Err(Error::Full { .. }) => {}
                        Err(other) => panic!("put: {other}"),
                    }
                }
            }
        }
    }

    /// Makes a call with a report before and after it.
    fn with_reports<T>(
        &self,
        letters: [&str; 2],
        argument: &str,
        call: impl FnOnce() -> Result<T>,
    ) -> T {
        self.reports.write(&format!("{} {argument}", letters[0]));
        let result = call().unwrap();
        self.reports.write(&format!("{} {argument}", letters[1]));
        result
    }

    fn take_and_finish(&self, thread: u64, tubes: &[Tube]) {
        let mut rng = self.rng(thread);
        loop {
            let tube = &tubes[usize::from(rng.one_in(2))];
            if rng.one_in(20) {
                self.with_reports(["k", "K"], tube.name(), || tube.admin().kick(Filter::new()));
            }
            let mut claims = if rng.one_in(5) {
                claim_by_id(&mut rng, tube)
            } else {
                tube.take_many(usize::from(rng.one_in(4)) * 3 + 1, MS).unwrap()
            };
            if claims.len() > 1 {
                let labels: Vec<String> = claims.iter().map(|it| self.report_taken(it)).collect();
                for label in &labels {
                    self.reports.write(&format!("f {label}"));
                }
                let results = Claim::end_many(claims, |_| Outcome::done()).unwrap();
                for (label, result) in labels.iter().zip(results) {
                    result.unwrap();
                    self.reports.write(&format!("F {label}"));
                }
                continue;
            }
            let Some(mut claim) = claims.pop() else { continue };
            let label = self.report_taken(&claim);
            self.abort.abort_if_reached("holding");
            while rng.one_in(4) {
                claim = self.checkpoint(&mut rng, claim);
            }
            if tube.driver().ends_with("ttl") && rng.one_in(4) {
                tube.admin()
                    .set_priority(claim.id(), u32::try_from(rng.range(0..3)).unwrap())
                    .unwrap();
            }
            match rng.range(0..12) {
                10.. => self.park(&mut rng, tube, claim, &label),
                0 => drop(claim),
                1 => drop(self.with_reports(["b", "B"], &label, || claim.bury(None))),
                2 if tube.driver().ends_with("ttl") => {
                    let _ = self.with_reports(["d", "D"], &label, || claim.release_in(2 * MS));
                }
                3 => {
                    let call = || claim.into_async().ack().wait();
                    self.with_reports(["f", "F"], &label, call);
                }
                4 if rng.one_in(2) => {
                    let deleted = || tube.admin().delete(Filter::new().ids([claim.id()]));
                    assert_eq!(self.with_reports(["f", "F"], &label, deleted), 1);
                }
                4 => drop(self.with_reports(["f", "F"], &label, || tube.delete(claim.id()))),
                5 if tube.driver().ends_with("ttl") => drop(claim.touch(HOUR).unwrap()),
                _ => drop(self.with_reports(["f", "F"], &label, || claim.ack())),
            }
        }
    }

    /// Parks a claim, and resumes and ends it, unless it stays parked.
    fn park(&self, rng: &mut Rng, tube: &Tube, claim: Claim, label: &str) {
        self.reports.write(&format!("h {label}"));
        let token = if rng.one_in(3) {
            claim.into_async().park(HOUR).wait().unwrap()
        } else {
            claim.park(HOUR).unwrap()
        };
        self.reports.write(&format!("H {label} {token}"));
        // A task that stays taken would make its sub-queue useless.
        let stays = rng.one_in(3) && !tube.driver().starts_with("utube");
        if stays {
            return;
        }
        if rng.one_in(4) {
            self.with_reports(["u", "U"], label, || tube.admin().revoke(token.id()));
            return;
        }
        let claim = self.store.resume_claim(&token).unwrap();
        assert_eq!(body::label(claim.body()).as_deref(), Some(label));
        match rng.range(0..4) {
            // The call does not wait until the file has the end of the claim.
            0 => {
                self.reports.write(&format!("u {label}"));
                drop(claim);
            }
            1 => drop(self.with_reports(["u", "U"], label, || claim.release())),
            _ => drop(self.with_reports(["f", "F"], label, || claim.ack())),
        }
    }

    /// Replaces the body of a taken task.
    fn checkpoint(&self, rng: &mut Rng, claim: Claim) -> Claim {
        let (label, version) = body::label_and_version(claim.body()).expect("a whole body");
        let version = version + 1;
        let body = body::with_version(&label, version, self.filler(rng));
        let is_deferred = rng.one_in(3);
        let mut claim = Some(claim);
        self.with_reports(["v", "V"], &format!("{label} {version}"), || {
            if is_deferred {
                let mut later = claim.take().unwrap().into_async();
                let stored = later.checkpoint(body).wait();
                claim = Some(later.into_blocking());
                stored
            } else {
                claim.as_mut().unwrap().checkpoint(body)
            }
        });
        claim.unwrap()
    }

    fn report_taken(&self, claim: &Claim) -> String {
        let (label, version) = body::label_and_version(claim.body()).expect("a whole body");
        self.reports.write(&format!("t {} {label} {} {version}", claim.tube(), claim.id()));
        label
    }

    /// Puts in one order. After one in ten puts, a flush or a put in the written tube brings all
    /// relaxed puts before it into the file.
    fn put_relaxed(&self, thread: u64, relaxed: &Tube, written: Option<&Tube>) {
        let mut rng = self.rng(thread);
        let has_flushed_calls = !self.job.mode.starts_with(WRITTEN_ONLY);
        for number in 0.. {
            let label = self.label(thread, number);
            let id = relaxed.put(body::with_label(&label, rng.range(0..300))).unwrap().id;
            self.reports.write(&format!("r {label} {id}"));
            if !rng.one_in(10) {
                continue;
            }
            match written {
                Some(written) if !has_flushed_calls || rng.one_in(2) => {
                    let after = self.label(thread + 1000, number);
                    let id = written.put(body::with_label(&after, 10)).unwrap().id;
                    self.reports.write(&format!("p {} {after} {id}", written.name()));
                }
                _ => drop(self.store.flush().unwrap()),
            }
            self.reports.write(&format!("s {label}"));
        }
    }

    /// Puts groups of tasks and truncates the tube.
    fn put_bulk(&self, thread: u64, bulk: &Tube) {
        let mut rng = self.rng(thread);
        for number in 0.. {
            let count = rng.range(1..700);
            let group = self.label(thread, number);
            let bodies =
                (0..count).map(|nth| body::with_label(&format!("{group}.{nth}.{count}"), 10));
            bulk.put_many(bodies).unwrap();
            self.reports.write(&format!("m {group} {count}"));
            if rng.one_in(3) {
                self.with_reports(["x", "X"], "bulk", || bulk.admin().truncate());
            }
        }
    }

    /// Lists and peeks during all other calls.
    fn list_and_peek(&self) {
        loop {
            for tube in self.store.tubes().unwrap() {
                let tube = self.store.find_tube(&tube.name).unwrap();
                let page = tube.query().list(TaskState::Ready, None, 20).unwrap();
                for info in page.items {
                    match tube.query().task(info.id) {
                        Ok(task) => assert!(body::label(&task.body).is_some()),
                        Err(Error::NotFound { .. }) => {}
                        Err(other) => panic!("peek: {other}"),
                    }
                }
            }
        }
    }
}

/// Takes one of the first ready tasks, which no other thread takes.
fn claim_by_id(rng: &mut Rng, tube: &Tube) -> Vec<Claim> {
    let ready = tube.query().list(TaskState::Ready, None, 5).unwrap().items;
    if ready.is_empty() {
        return Vec::new();
    }
    let nth = rng.range(0..ready.len() as u64);
    let claim = tube.claim(ready[usize::try_from(nth).unwrap()].id);
    vec![claim.unwrap()]
}
