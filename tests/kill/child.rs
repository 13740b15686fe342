//! What a child does until it is killed: everything that a store can, from several threads, with a
//! report before and after each call.
//!
//! A report begins with one letter: `p` a task was put (tube, label, id); `r` a relaxed one;
//! `s` so many relaxed changes of this thread are flushed; `m` many were put (label of the group,
//! how many); `t` a task is in hand; `f` it is about to be finished and `F` it is; `b` and `B` to be
//! buried; `d` and `D` to be delayed; `k` and `K` all buried tasks of a tube are to be kicked; `x`
//! and `X` a tube is to be emptied; `c` the child is ready.

use std::thread;
use std::time::Duration;

use tubewell::{
    Claim, Durability, Error, Event, FIFO, FIFOTTL, LIMFIFOTTL, Put, Result, Store, Tube,
    TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

use crate::breaking::{self, Moment};
use crate::dice::{self, Dice};
use crate::parent::{Job, Reports};
use crate::stopped;

const HOUR: Duration = Duration::from_secs(3600);

/// The tubes that have one producer and one worker each.
pub const WORKED: [&str; 6] = ["fifo", "utube", "fifottl", "utubettl", "lim", "own"];

pub fn work(job: &Job) {
    let reports = Reports::new();
    if let Some(hold) = job.task.strip_prefix("hold:") {
        return stopped::hold(job, &reports, Duration::from_millis(hold.parse().unwrap()));
    }
    let moment = Moment::of(&job.task);
    let store = breaking::open(job, &moment);
    let part = |name: &str| tube(&store, name, &moment);
    let worked: Vec<Tube> = WORKED.into_iter().map(part).collect();
    let (hasty, bulk) = (part("hasty"), part("bulk"));
    reports.line("c");
    let at_work = AtWork { store: &store, job, reports: &reports, moment: &moment };
    let worked = worked.as_slice();
    thread::scope(|scope| {
        let at_work = &at_work;
        if moment.is_of("sweeper") || moment.is_of("events") {
            // With few who want a commit at once, it is these threads' turn more often: of the
            // sweeper where there are delays, of the other where there is a callback.
            let tubes = if moment.is_of("sweeper") { &worked[2..4] } else { &worked[..1] };
            scope.spawn(move || at_work.put(1, tubes));
            scope.spawn(|| at_work.hurry(20, &hasty));
            return;
        }
        for (number, tubes) in worked.chunks(2).enumerate() {
            scope.spawn(move || at_work.put(number as u64, tubes));
            scope.spawn(move || at_work.finish(10 + number as u64, tubes));
        }
        scope.spawn(|| at_work.hurry(20, &hasty));
        scope.spawn(|| at_work.heap(21, &bulk));
        scope.spawn(|| at_work.look());
    });
}

fn tube(store: &Store, name: &str, moment: &Moment) -> Tube {
    let options = TubeOptions::new().if_not_exists(true);
    let (driver, options) = match name {
        "fifo" => {
            let (moment, store) = (moment.clone(), store.clone());
            let told = move |_: &Event| {
                moment.pass("callback");
                // So that this thread leads commits, too.
                if moment.is_of("events") {
                    store.flush().unwrap();
                }
            };
            (FIFO, options.on_task_change(told))
        }
        "utube" => (UTUBE, options),
        "fifottl" => (FIFOTTL, options),
        "utubettl" => (UTUBETTL, options),
        "lim" => (LIMFIFOTTL, options.capacity(50)),
        "own" => (breaking::OWN, options),
        "hasty" => (FIFO, options.durability(Durability::Relaxed { max_delay: 3 * MS })),
        "bulk" => (FIFO, options),
        other => panic!("no tube {other}"),
    };
    store.create_tube(name, driver, options).unwrap()
}

const MS: Duration = Duration::from_millis(1);

struct AtWork<'a> {
    store: &'a Store,
    job: &'a Job,
    reports: &'a Reports,
    moment: &'a Moment,
}

impl AtWork<'_> {
    fn dice(&self, thread: u64) -> Dice {
        Dice::apart(self.job.seed, thread)
    }

    fn label(&self, thread: u64, number: u64) -> String {
        format!("{}.{thread}.{number}", self.job.life)
    }

    fn draft(&self, dice: &mut Dice, tube: &Tube, label: &str) -> Put {
        let mut put = Put::new(dice::body(label, dice::filler(dice)));
        if tube.driver().starts_with("utube") {
            put = put.sub_queue(dice.of(0..4).to_string());
        }
        if tube.driver().ends_with("ttl") {
            put = put.pri(u32::try_from(dice.of(0..3)).unwrap()).ttl(HOUR);
            if dice.one_in(if self.moment.is_of("sweeper") { 2 } else { 6 }) {
                put = put.delay(2 * MS);
            }
        }
        put
    }

    fn put(&self, thread: u64, tubes: &[Tube]) {
        let mut dice = self.dice(thread);
        let mut tickets = Vec::new();
        for number in 0.. {
            let one = usize::from(dice.one_in(2)) % tubes.len();
            let (tube, label) = (&tubes[one], self.label(thread, number));
            let put = self.draft(&mut dice, tube, &label);
            let told = |id: u64| {
                self.reports.line(&format!("p {} {label} {id}", tube.name()));
            };
            if dice.one_in(2) {
                match tube.deferred(WhenFull::Block).put(put) {
                    Ok(ticket) => tickets.push((tube, label, ticket)),
                    Err(Error::Full { .. }) => {}
                    Err(other) => panic!("put: {other}"),
                }
            } else {
                match tube.put_wait(put, 5 * MS) {
                    Ok(receipt) => told(receipt.id),
                    Err(Error::Full { .. }) => {}
                    Err(other) => panic!("put: {other}"),
                }
            }
            if tickets.len() > 8 {
                for (tube, label, ticket) in tickets.drain(..) {
                    let receipt = ticket.wait().unwrap();
                    self.reports.line(&format!("p {} {label} {}", tube.name(), receipt.id));
                }
            }
        }
    }

    /// Reports before and after.
    fn around<T>(&self, letters: [&str; 2], what: &str, call: impl FnOnce() -> Result<T>) -> T {
        self.reports.line(&format!("{} {what}", letters[0]));
        let answer = call().unwrap();
        self.reports.line(&format!("{} {what}", letters[1]));
        answer
    }

    fn finish(&self, thread: u64, tubes: &[Tube]) {
        let mut dice = self.dice(thread);
        loop {
            let tube = &tubes[usize::from(dice.one_in(2))];
            if dice.one_in(20) {
                self.around(["k", "K"], tube.name(), || tube.kick(u64::MAX));
            }
            let mut claims = tube.take_many(usize::from(dice.one_in(4)) * 3 + 1, MS).unwrap();
            if claims.len() > 1 {
                let labels: Vec<String> = claims.iter().map(|it| self.taken(it)).collect();
                for label in &labels {
                    self.reports.line(&format!("f {label}"));
                }
                let answers = Claim::ack_many(claims).unwrap();
                for (label, answer) in labels.iter().zip(answers) {
                    answer.unwrap();
                    self.reports.line(&format!("F {label}"));
                }
                continue;
            }
            let Some(claim) = claims.pop() else { continue };
            let label = self.taken(&claim);
            self.moment.pass("holding");
            match dice.of(0..10) {
                0 => drop(claim),
                1 => drop(self.around(["b", "B"], &label, || claim.bury())),
                2 if tube.driver().ends_with("ttl") => {
                    let _ = self.around(["d", "D"], &label, || claim.release(2 * MS));
                }
                3 => {
                    let call =
                        || claim.ack_deferred(WhenFull::Block).and_then(tubewell::Ticket::wait);
                    self.around(["f", "F"], &label, call);
                }
                4 => drop(self.around(["f", "F"], &label, || tube.delete(claim.id()))),
                5 if tube.driver().ends_with("ttl") => drop(claim.touch(HOUR).unwrap()),
                _ => drop(self.around(["f", "F"], &label, || claim.ack())),
            }
        }
    }

    fn taken(&self, claim: &Claim) -> String {
        let label = dice::label_of(claim.data()).expect("a body as it was put");
        self.reports.line(&format!("t {} {label} {}", claim.tube(), claim.id()));
        label
    }

    /// Relaxed puts in one order, with a flush now and then.
    fn hurry(&self, thread: u64, hasty: &Tube) {
        let mut dice = self.dice(thread);
        for number in 0.. {
            let label = self.label(thread, number);
            let id = hasty.put(dice::body(&label, dice.of(0..300))).unwrap().id;
            self.reports.line(&format!("r {label} {id}"));
            if dice.one_in(10) {
                self.store.flush().unwrap();
                self.reports.line(&format!("s {label}"));
            }
        }
    }

    /// Many at once, and all gone at once.
    fn heap(&self, thread: u64, bulk: &Tube) {
        let mut dice = self.dice(thread);
        for number in 0.. {
            let many = dice.of(1..700);
            let group = self.label(thread, number);
            let bodies = (0..many).map(|one| dice::body(&format!("{group}.{one}.{many}"), 10));
            bulk.put_many(bodies).unwrap();
            self.reports.line(&format!("m {group} {many}"));
            if dice.one_in(3) {
                self.around(["x", "X"], "bulk", || bulk.truncate());
            }
        }
    }

    /// Reads while all this happens.
    fn look(&self) {
        loop {
            for tube in self.store.tubes() {
                let tube = self.store.tube(&tube.name).unwrap();
                let page = tube.list(tubewell::State::Ready, None, 20).unwrap();
                for info in page.tasks {
                    match tube.peek(info.id) {
                        Ok(task) => assert!(dice::label_of(&task.data).is_some()),
                        Err(Error::NotFound { .. }) => {}
                        Err(other) => panic!("peek: {other}"),
                    }
                }
            }
        }
    }
}
