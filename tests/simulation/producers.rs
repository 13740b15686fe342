//! Producers and administrators.

use std::time::Duration;

use tubewell::{
    DEFAULT_PRIORITY, Durability, FIFO, FIFOTTL, Filter, LIMFIFOTTL, Put, TaskState, Tube,
    TubeOptions, UTUBE, UTUBETTL,
};

use crate::model::{
    self, Body, Edit, NEVER, STORE_SESSION, Seq, Stored, StoredState, Task, TubeNo,
};
use crate::rng::Rng;
use crate::simulator::{Expected, Outcome, Simulator, micros, state_of};

const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];

impl Simulator {
    // ---- puts

    pub fn put(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let (seq, put, edit) = self.random_put(no, rng);
        let expected = self.if_not_full(no, vec![edit]);
        let answer = tube.put(put);
        let verb = format!("put {}", tube.driver());
        match self.check_change(&verb, no, expected, answer) {
            Outcome::Done(receipt) => {
                self.acknowledge(seq, receipt.id);
                self.check_commit_number(no, receipt.commit);
                assert_eq!(receipt.state, self.state(seq));
                self.note(format!("task {seq}: {receipt:?}"));
            }
            Outcome::Unknown => {}
            Outcome::Refused | Outcome::StorageFailed => drop(self.model.tasks.remove(&seq)),
        }
    }

    pub fn put_many(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let (mut seqs, mut puts, mut edits) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=rng.below(4) {
            let (seq, put, edit) = self.random_put(no, rng);
            seqs.push(seq);
            puts.push(put);
            edits.push(edit);
        }
        let expected = self.if_not_full(no, edits);
        let answer = tube.put_many(puts);
        match self.check_change("put_many", no, expected, answer) {
            Outcome::Done(receipts) => {
                assert_eq!(receipts.len(), seqs.len());
                for (seq, receipt) in seqs.into_iter().zip(receipts) {
                    self.acknowledge(seq, receipt.id);
                    self.check_commit_number(no, receipt.commit);
                }
            }
            Outcome::Unknown => {}
            Outcome::Refused | Outcome::StorageFailed => {
                self.model.tasks.retain(|seq, _| !seqs.contains(seq));
            }
        }
    }

    /// A random put and the edit that it makes. The model knows the task, but it is not stored yet.
    pub fn random_put(&mut self, no: TubeNo, rng: &mut Rng) -> (Seq, Put<String>, Edit) {
        let tube = self.model.tubes[&no].clone();
        let seq = self.next_number();
        let body = self.random_body(rng);
        let mut put = Put::new(body.text(seq));
        let mut stored = Stored { state: StoredState::Ready, expires_at: NEVER, ttr: NEVER, body };
        let mut priority = DEFAULT_PRIORITY;
        if tube.timed {
            priority = DEFAULT_PRIORITY - 1 + u32::try_from(rng.below(4)).unwrap();
            let ttl = Duration::from_micros(1 + rng.below(3_000_000));
            let ttr = Duration::from_micros(1 + rng.below(500_000));
            let delay = Duration::from_micros(1 + rng.below(600_000));
            put = put.priority(priority);
            if rng.one_in(4) {
                put = put.ttl(ttl);
                stored.expires_at = self.model.now + micros(ttl);
            }
            if rng.one_in(2) {
                put = put.ttr(ttr);
                stored.ttr = micros(ttr);
            } else {
                stored.ttr = tube_ttr(&tube).map_or(NEVER, micros);
            }
            if rng.one_in(4) {
                put = put.delay(delay);
                stored.state = StoredState::Delayed(self.model.now + micros(delay));
                stored.expires_at = stored.expires_at.saturating_add(micros(delay));
            }
        }
        let sub = (tube.sub_queued && !rng.one_in(4)).then(|| format!("s{}", rng.below(3)));
        if let Some(sub) = &sub {
            put = put.sub_queue(sub.as_str());
        }
        let task = Task {
            tube: no,
            priority,
            sub,
            id: None,
            stored: None,
            claim: None,
            acknowledged: false,
            in_flight: false,
        };
        self.model.tasks.insert(seq, task);
        (seq, put, Edit::Task(seq, Some(stored)))
    }

    #[track_caller]
    pub fn acknowledge(&mut self, seq: Seq, id: u64) {
        self.model.record_id(seq, id);
        self.model.tasks.get_mut(&seq).unwrap().acknowledged = true;
    }

    fn if_not_full(&self, no: TubeNo, edits: Vec<Edit>) -> Expected {
        let capacity = self.model.tubes[&no].capacity;
        let full = capacity > 0 && self.model.live_tasks(no).count() + edits.len() > capacity;
        if full { Err("full") } else { Ok(edits) }
    }

    pub fn state(&self, seq: Seq) -> TaskState {
        let stored = self.model.stored(seq);
        stored.map_or(TaskState::Done, |stored| state_of(&self.model.tasks[&seq], stored))
    }

    // ---- tubes

    pub fn create(&mut self, rng: &mut Rng) {
        let name = format!("t{}", rng.below(6));
        let driver = rng.pick(&DRIVERS);
        let timed = matches!(driver, FIFOTTL | LIMFIFOTTL | UTUBETTL);
        let capacity = if driver == LIMFIFOTTL { rng.pick(&[2, 5]) } else { 0 };
        let durability = random_durability(rng);
        let tube = model::Tube {
            name: name.clone(),
            driver,
            timed,
            sub_queued: matches!(driver, UTUBE | UTUBETTL),
            capacity,
            temporary: rng.one_in(6),
            durability,
        };
        let metrics = if tube.sub_queued { 0 } else { 3 };
        let mut options = TubeOptions::new().temporary(tube.temporary).metrics(metrics);
        if capacity > 0 {
            options = options.capacity(capacity as u64);
        }
        if let Some(ttr) = tube_ttr(&tube) {
            options = options.ttr(ttr);
        }
        if let Some(durability) = durability {
            options = options.durability(durability);
        }
        let expected = match self.model.names.get(&name) {
            Some(_) => Err("exists"),
            None => Ok(()),
        };
        let no = self.next_number();
        self.model.tubes.insert(no, tube);
        let answer = self.store().create_tube(&name, options.driver(driver));
        self.check_flushed_change("create", expected.map(|()| vec![Edit::Tube(no, true)]), answer);
    }

    pub fn drop_tube(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let waits = self.waiters.iter().any(|waiter| waiter.tubes.contains(&no));
        let expected = if waits || self.model.taken_count(no) > 0 {
            Err("busy")
        } else {
            let mut edits = self.removals(no);
            edits.push(Edit::Tube(no, false));
            Ok(edits)
        };
        let answer = self.store().drop_tube(tube.name());
        if let Outcome::Done(()) = self.check_flushed_change("drop_tube", expected, answer) {
            let late_put = tube.put("after the drop");
            self.check_answer("put into dropped tube", Err("dropped"), late_put);
        }
    }

    pub fn truncate(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let edits = self.removals(no);
        if let Outcome::Done(()) | Outcome::Unknown =
            self.check_flushed_change("truncate", Ok(edits), tube.admin().truncate())
        {
            for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
                task.claim = None;
            }
        }
    }

    fn removals(&self, no: TubeNo) -> Vec<Edit> {
        self.model.live_tasks(no).map(|(seq, ..)| Edit::Task(seq, None)).collect()
    }

    /// Like [`Simulator::check_change`], for changes that are flushed for every tube.
    #[track_caller]
    fn check_flushed_change<T>(
        &mut self,
        verb: &str,
        expected: Expected,
        answer: tubewell::Result<T>,
    ) -> Outcome<T> {
        let edits = expected.clone().unwrap_or_default();
        let outcome = self.check_answer(verb, expected, answer);
        if matches!(outcome, Outcome::Done(_) | Outcome::Unknown) {
            let call = self.model.record_call(&edits);
            self.model.make_visible(&edits);
            if matches!(outcome, Outcome::Done(_)) {
                self.model.mark_durable(call);
            }
        }
        outcome
    }

    // ---- administration

    pub fn kick(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let buried =
            self.model.live_tasks(no).filter(|(.., stored)| stored.state == StoredState::Buried);
        let mut buried: Vec<(Seq, Stored)> = buried.map(|(seq, _, stored)| (seq, stored)).collect();
        buried.sort_by_key(|(seq, _)| self.model.order_key(*seq));
        let count = 1 + rng.below(4);
        buried.truncate(usize::try_from(count).unwrap());
        let ready = |(seq, stored): &(Seq, Stored)| {
            Edit::Task(*seq, Some(Stored { state: StoredState::Ready, ..*stored }))
        };
        let edits: Vec<Edit> = buried.iter().map(ready).collect();
        let kicked = edits.len() as u64;
        // A kick in a tube without buried tasks changes and flushes nothing.
        let answer = tube.admin().kick(Filter::new().limit(count));
        let outcome = if kicked == 0 {
            self.check_answer("kick nothing", Ok(edits), answer)
        } else {
            self.check_change("kick", no, Ok(edits), answer)
        };
        if let Outcome::Done(answer) = outcome {
            assert_eq!(answer, kicked);
        }
    }

    pub fn delete(&mut self, rng: &mut Rng) {
        let Some((seq, id, no, tube)) = self.random_task(rng) else { return };
        let expected = self.if_stored(seq, None);
        if let Outcome::Done(receipt) = self.check_change("delete", no, expected, tube.delete(id)) {
            self.check_commit_number(no, receipt.commit);
        }
        self.model.expire();
    }

    pub fn bury_by_id(&mut self, rng: &mut Rng) {
        let Some((seq, id, no, tube)) = self.random_task(rng) else { return };
        let buried =
            self.model.stored(seq).map(|stored| Stored { state: StoredState::Buried, ..stored });
        let already = buried.is_some() && buried == self.model.stored(seq);
        let expected = self.if_stored(seq, buried);
        let answer = tube.admin().bury(id, None);
        let outcome = if already {
            self.check_answer("bury again", expected, answer)
        } else {
            self.check_change("bury by id", no, expected, answer)
        };
        if let Outcome::Done(_) | Outcome::Unknown = outcome {
            self.model.tasks.get_mut(&seq).unwrap().claim = None;
        }
    }

    pub fn peek(&mut self, rng: &mut Rng) {
        let Some((seq, id, _, tube)) = self.random_task(rng) else { return };
        let expected = self.if_stored(seq, None);
        if let Outcome::Done(task) = self.check_answer("peek", expected, tube.query().task(id)) {
            let body = self.model.stored(seq).map(|stored| stored.body);
            assert_eq!(Some(Body::parse(&task.body)), body.map(|body| (seq, body)));
            assert_eq!(task.info.state, self.state(seq));
        }
    }

    pub fn release_all(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let Some(tube) = self.tube(no, STORE_SESSION) else { return };
        let taken = self.model.taken_count(no) as u64;
        match self.check_answer("release_all", Ok(Vec::new()), tube.admin().release(Filter::new()))
        {
            Outcome::Done(released) => assert_eq!(released, taken),
            _ => return,
        }
        for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
            task.claim = None;
        }
    }

    pub fn flush(&mut self) {
        let answer = self.store().flush();
        if let Outcome::Done(commit) = self.check_answer("flush", Ok(Vec::new()), answer) {
            assert!(commit >= self.commit);
            self.model.mark_all_durable();
        }
    }

    /// A random task whose id is known. It may have been removed.
    pub fn random_task(&mut self, rng: &mut Rng) -> Option<(Seq, u64, TubeNo, Tube)> {
        let gone_too = rng.one_in(8);
        let known = self.model.tasks.iter().filter(|(seq, task)| {
            let found = gone_too || self.model.stored(**seq).is_some();
            found && task.id.is_some() && self.model.names.values().any(|no| *no == task.tube)
        });
        let known: Vec<Seq> = known.map(|(seq, _)| *seq).collect();
        let seq = if known.is_empty() { return None } else { rng.pick(&known) };
        let (id, no) = (self.model.tasks[&seq].id?, self.model.tasks[&seq].tube);
        Some((seq, id, no, self.tube(no, STORE_SESSION)?))
    }

    pub fn if_stored(&self, seq: Seq, after: Option<Stored>) -> Expected {
        match self.model.stored(seq) {
            Some(_) => Ok(vec![Edit::Task(seq, after)]),
            None => Err("not found"),
        }
    }
}

/// The ttr of a tube: timed tubes with a durability of their own have one.
pub fn tube_ttr(tube: &model::Tube) -> Option<Duration> {
    (tube.timed && tube.durability.is_some()).then(|| Duration::from_millis(250))
}

/// A durability of each level, or none.
pub fn random_durability(rng: &mut Rng) -> Option<Durability> {
    let within = rng.pick(&[
        Duration::ZERO,
        Duration::from_millis(50),
        Duration::from_millis(50),
        Duration::from_secs(2),
        Duration::MAX,
    ]);
    rng.pick(&[
        None,
        Some(Durability::Flush),
        Some(Durability::Write { flush_within: within }),
        Some(Durability::Relaxed { max_delay: within }),
    ])
}
