//! Those who put tasks, and those who look after tubes.

use std::time::Duration;

use tubewell::{
    Durability, FIFO, FIFOTTL, LIMFIFOTTL, Put, State, Tube, TubeOptions, UTUBE, UTUBETTL,
};

use crate::model::{self, Fact, NEVER, OWN, Seq, Stand, Stored, Task, TubeNo};
use crate::rng::Rng;
use crate::world::{Came, Expected, World, micros, state_of};

const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];

impl World {
    // ---- puts

    pub fn put(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let (seq, put, fact) = self.draft(no, dice);
        let expected = self.if_room(no, vec![fact]);
        let answer = tube.put(put);
        let verb = format!("put {}", tube.driver());
        match self.change(&verb, no, expected, answer) {
            Came::Done(receipt) => {
                self.acknowledged(seq, receipt.id);
                self.receipt(no, receipt.commit);
                assert_eq!(receipt.state, self.state(seq));
                self.note(format!("{seq} is {receipt:?}"));
            }
            Came::Unknown => {}
            Came::Refused | Came::Down => drop(self.model.tasks.remove(&seq)),
        }
    }

    pub fn put_many(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let (mut seqs, mut puts, mut facts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=dice.below(4) {
            let (seq, put, fact) = self.draft(no, dice);
            seqs.push(seq);
            puts.push(put);
            facts.push(fact);
        }
        let expected = self.if_room(no, facts);
        let answer = tube.put_many(puts);
        match self.change("put_many", no, expected, answer) {
            Came::Done(receipts) => {
                assert_eq!(receipts.len(), seqs.len());
                for (seq, receipt) in seqs.into_iter().zip(receipts) {
                    self.acknowledged(seq, receipt.id);
                    self.receipt(no, receipt.commit);
                }
            }
            Came::Unknown => {}
            Came::Refused | Came::Down => self.model.tasks.retain(|seq, _| !seqs.contains(seq)),
        }
    }

    /// A task to be put, and what its put stores. It is known to the model, and not there yet.
    pub fn draft(&mut self, no: TubeNo, dice: &mut Rng) -> (Seq, Put, Fact) {
        let tube = self.model.tubes[&no].clone();
        let seq = self.number();
        // The longest are more than the journal takes, and go to the engine with all that is in it.
        let length =
            if dice.one_in(40) { 270_000 } else { dice.pick(&[0, 20, 20, 300, 2000, 9000]) };
        let body = format!("{seq}.{}", "x".repeat(length));
        let mut put = Put::new(body.as_str());
        let mut stored = Stored { stand: Stand::Ready, dead: NEVER, ttr: NEVER };
        let mut pri = 0;
        if tube.timed {
            pri = u32::try_from(dice.below(4)).unwrap();
            let ttl = Duration::from_micros(1 + dice.below(3_000_000));
            let ttr = Duration::from_micros(1 + dice.below(500_000));
            let delay = Duration::from_micros(1 + dice.below(600_000));
            put = put.pri(pri);
            if dice.one_in(4) {
                put = put.ttl(ttl);
                stored.dead = self.model.now + micros(ttl);
            }
            if dice.one_in(2) {
                put = put.ttr(ttr);
                stored.ttr = micros(ttr);
            } else {
                stored.ttr = tube_ttr(&tube).map_or(NEVER, micros);
            }
            if dice.one_in(4) {
                put = put.delay(delay);
                stored.stand = Stand::Delayed(self.model.now + micros(delay));
                stored.dead = stored.dead.saturating_add(micros(delay));
            }
        }
        let sub = (tube.sub_queued && !dice.one_in(4)).then(|| format!("s{}", dice.below(3)));
        if let Some(sub) = &sub {
            put = put.sub_queue(sub.as_str());
        }
        let task = Task {
            tube: no,
            body,
            pri,
            sub,
            id: None,
            stored: None,
            claim: None,
            told: false,
            busy: false,
        };
        self.model.tasks.insert(seq, task);
        (seq, put, Fact::Task(seq, Some(stored)))
    }

    #[track_caller]
    pub fn acknowledged(&mut self, seq: Seq, id: u64) {
        self.model.learn(seq, id);
        self.model.tasks.get_mut(&seq).unwrap().told = true;
    }

    fn if_room(&self, no: TubeNo, facts: Vec<Fact>) -> Expected {
        let capacity = self.model.tubes[&no].capacity;
        let full = capacity > 0 && self.model.living(no).count() + facts.len() > capacity;
        if full { Err("full") } else { Ok(facts) }
    }

    pub fn state(&self, seq: Seq) -> State {
        let stored = self.model.stored(seq);
        stored.map_or(State::Done, |stored| state_of(&self.model.tasks[&seq], stored))
    }

    // ---- tubes

    pub fn create(&mut self, dice: &mut Rng) {
        let name = format!("t{}", dice.below(6));
        let driver = dice.pick(&DRIVERS);
        let timed = matches!(driver, FIFOTTL | LIMFIFOTTL | UTUBETTL);
        let capacity = if driver == LIMFIFOTTL { dice.pick(&[2, 5]) } else { 0 };
        let kind = dice.below(6);
        let tube = model::Tube {
            name: name.clone(),
            driver,
            timed,
            sub_queued: matches!(driver, UTUBE | UTUBETTL),
            capacity,
            temporary: kind == 0,
            relaxed: kind == 1 || kind == 2,
        };
        let mut options = TubeOptions::new().temporary(tube.temporary);
        if capacity > 0 {
            options = options.capacity(capacity as u64);
        }
        if let Some(ttr) = tube_ttr(&tube) {
            options = options.ttr(ttr);
        }
        if tube.relaxed {
            options = options.durability(Durability::relaxed());
        }
        let expected = match self.model.names.get(&name) {
            Some(_) => Err("exists"),
            None => Ok(()),
        };
        let no = self.number();
        self.model.tubes.insert(no, tube);
        let answer = self.store().create_tube(&name, driver, options);
        self.lasting("create", expected.map(|()| vec![Fact::Tube(no, true)]), answer);
    }

    pub fn drop_tube(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let waits = self.waits.iter().any(|wait| wait.tubes.contains(&no));
        let expected = if waits || self.model.taken_in(no) > 0 {
            Err("busy")
        } else {
            let mut facts = self.emptied(no);
            facts.push(Fact::Tube(no, false));
            Ok(facts)
        };
        let answer = self.store().drop_tube(tube.name());
        if let Came::Done(()) = self.lasting("drop_tube", expected, answer) {
            let relic = tube.put("too late");
            self.judge("put into what was dropped", Err("dropped"), relic);
        }
    }

    pub fn truncate(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let facts = self.emptied(no);
        if let Came::Done(()) | Came::Unknown = self.lasting("truncate", Ok(facts), tube.truncate())
        {
            for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
                task.claim = None;
            }
        }
    }

    fn emptied(&self, no: TubeNo) -> Vec<Fact> {
        self.model.living(no).map(|(seq, ..)| Fact::Task(seq, None)).collect()
    }

    /// As [`World::change`], for what is flushed whatever the tube.
    #[track_caller]
    fn lasting<T>(
        &mut self,
        verb: &str,
        expected: Expected,
        answer: tubewell::Result<T>,
    ) -> Came<T> {
        let facts = expected.clone().unwrap_or_default();
        let came = self.judge(verb, expected, answer);
        if matches!(came, Came::Done(_) | Came::Unknown) {
            let call = self.model.decide(&facts);
            self.model.show(&facts);
            if matches!(came, Came::Done(_)) {
                self.model.certain(call);
            }
        }
        came
    }

    // ---- admins

    pub fn kick(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let buried = self.model.living(no).filter(|(.., stored)| stored.stand == Stand::Buried);
        let mut buried: Vec<(Seq, Stored)> = buried.map(|(seq, _, stored)| (seq, stored)).collect();
        buried.sort_by_key(|(seq, _)| self.model.rank(*seq));
        let count = 1 + dice.below(4);
        buried.truncate(usize::try_from(count).unwrap());
        let ready = |(seq, stored): &(Seq, Stored)| {
            Fact::Task(*seq, Some(Stored { stand: Stand::Ready, ..*stored }))
        };
        let facts: Vec<Fact> = buried.iter().map(ready).collect();
        let kicked = facts.len() as u64;
        // Nothing to kick is no change and flushes nothing.
        let answer = tube.kick(count);
        let came = if kicked == 0 {
            self.judge("kick nothing", Ok(facts), answer)
        } else {
            self.change("kick", no, Ok(facts), answer)
        };
        if let Came::Done(answer) = came {
            assert_eq!(answer, kicked);
        }
    }

    pub fn delete(&mut self, dice: &mut Rng) {
        let Some((seq, id, no, tube)) = self.some_task(dice) else { return };
        let expected = self.if_there(seq, None);
        if let Came::Done(receipt) = self.change("delete", no, expected, tube.delete(id)) {
            self.receipt(no, receipt.commit);
        }
        self.model.pass();
    }

    pub fn bury_by_id(&mut self, dice: &mut Rng) {
        let Some((seq, id, no, tube)) = self.some_task(dice) else { return };
        let buried = self.model.stored(seq).map(|stored| Stored { stand: Stand::Buried, ..stored });
        let already = buried.is_some() && buried == self.model.stored(seq);
        let expected = self.if_there(seq, buried);
        let answer = tube.bury(id);
        let came = if already {
            self.judge("bury again", expected, answer)
        } else {
            self.change("bury by id", no, expected, answer)
        };
        if let Came::Done(_) | Came::Unknown = came {
            self.model.tasks.get_mut(&seq).unwrap().claim = None;
        }
    }

    pub fn peek(&mut self, dice: &mut Rng) {
        let Some((seq, id, _, tube)) = self.some_task(dice) else { return };
        let expected = self.if_there(seq, None);
        if let Came::Done(task) = self.judge("peek", expected, tube.peek(id)) {
            assert_eq!(task.data, self.model.tasks[&seq].body.as_bytes());
            assert_eq!(task.info.state, self.state(seq));
        }
    }

    pub fn release_all(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let Some(tube) = self.tube(no, OWN) else { return };
        let taken = self.model.taken_in(no) as u64;
        match self.judge("release_all", Ok(Vec::new()), tube.release_all()) {
            Came::Done(released) => assert_eq!(released, taken),
            _ => return,
        }
        for task in self.model.tasks.values_mut().filter(|task| task.tube == no) {
            task.claim = None;
        }
    }

    pub fn flush(&mut self) {
        let answer = self.store().flush();
        if let Came::Done(commit) = self.judge("flush", Ok(Vec::new()), answer) {
            assert!(commit >= self.commit);
            self.model.all_certain();
        }
    }

    /// A task that is there, or was, by its id.
    pub fn some_task(&mut self, dice: &mut Rng) -> Option<(Seq, u64, TubeNo, Tube)> {
        let gone_too = dice.one_in(8);
        let known = self.model.tasks.iter().filter(|(seq, task)| {
            let there = gone_too || self.model.stored(**seq).is_some();
            there && task.id.is_some() && self.model.names.values().any(|no| *no == task.tube)
        });
        let known: Vec<Seq> = known.map(|(seq, _)| *seq).collect();
        let seq = if known.is_empty() { return None } else { dice.pick(&known) };
        let (id, no) = (self.model.tasks[&seq].id?, self.model.tasks[&seq].tube);
        Some((seq, id, no, self.tube(no, OWN)?))
    }

    pub fn if_there(&self, seq: Seq, after: Option<Stored>) -> Expected {
        match self.model.stored(seq) {
            Some(_) => Ok(vec![Fact::Task(seq, after)]),
            None => Err("not found"),
        }
    }
}

/// Tubes that are timed and relaxed have a ttr of their own.
pub fn tube_ttr(tube: &model::Tube) -> Option<Duration> {
    (tube.timed && tube.relaxed).then(|| Duration::from_millis(250))
}
