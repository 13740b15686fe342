//! Those who take tasks: some work well, some forget, come late, answer twice, or die.

use std::time::Duration;

use tubewell::Claim;

use crate::model::{self, Fact, Seq, SessionNo, Stand, Stored, TubeNo};
use crate::rng::Rng;
use crate::world::{Came, Expected, Hold, World, micros};

impl World {
    // ---- takes

    pub fn take(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let session = self.some_session(dice);
        self.take_from(no, session);
    }

    /// Takes the next task of a tube, if there is one and the storage works; its number.
    pub fn take_from(&mut self, no: TubeNo, session: SessionNo) -> Option<Seq> {
        let tube = self.tube(no, session)?;
        let expected = self.model.next_of(no);
        let verb = format!("take {}", tube.driver());
        let Came::Done(claim) = self.judge(&verb, self.if_alive(session), tube.try_take()) else {
            return None;
        };
        let seq = claim.map(|claim| self.grant(claim, &[no], session));
        assert_eq!(seq, expected, "not the next task of tube {no}");
        seq
    }

    pub fn take_many(&mut self, dice: &mut Rng) {
        let Some(no) = self.some_tube(dice) else { return };
        let session = self.some_session(dice);
        let Some(tube) = self.tube(no, session) else { return };
        let most = 1 + dice.index(3);
        let answer = tube.take_many(most, Duration::ZERO);
        let Came::Done(claims) = self.judge("take_many", self.if_alive(session), answer) else {
            return;
        };
        let taken = claims.len();
        for claim in claims {
            let expected = self.model.next_of(no);
            let seq = self.grant(claim, &[no], session);
            assert_eq!(Some(seq), expected, "not the next task");
        }
        assert!(
            taken == most || self.model.next_of(no).is_none(),
            "{taken} of {most}, and more are there"
        );
    }

    /// Somebody was handed a task: it must be one that could be taken, in one of these tubes.
    #[track_caller]
    pub fn grant(&mut self, claim: Claim, tubes: &[TubeNo], session: SessionNo) -> Seq {
        let body = String::from_utf8(claim.data().to_vec()).unwrap();
        let seq: Seq = body.split('.').next().unwrap().parse().unwrap();
        self.model.learn(seq, claim.id());
        let task = &self.model.tasks[&seq];
        assert_eq!(body, task.body, "not the body that was put");
        assert!(tubes.contains(&task.tube), "of another tube");
        assert_eq!(claim.sub_queue(), task.sub.as_deref());
        assert_eq!(claim.pri(), task.pri);
        assert!(self.model.is_takeable(seq), "{seq} was handed out, and is {task:?}");
        let stored = self.model.stored(seq).unwrap();
        let (no, id) = (self.number(), claim.id());
        self.note(format!("{seq} is handed to {session}, id {id}"));
        self.meet(format!(
            "handed out of {}",
            self.model.tubes[&self.model.tasks[&seq].tube].driver
        ));
        let until = self.model.now.saturating_add(stored.ttr);
        let task = self.model.tasks.get_mut(&seq).unwrap();
        task.claim = Some(model::Claim { hold: no, session, until });
        self.holds.push(Hold { no, seq, id, session, claim: Some(claim), detached: false });
        seq
    }

    // ---- what becomes of them

    pub fn ack(&mut self, dice: &mut Rng) {
        let Some(hold) = self.some_hold(dice) else { return };
        self.ack_hold(hold);
    }

    pub fn ack_hold(&mut self, mut hold: Hold) {
        let no = self.model.tasks[&hold.seq].tube;
        let expected = self.if_held(&hold, None);
        let answer = match hold.claim.take() {
            Some(claim) => claim.ack(),
            None => match self.tube(no, hold.session) {
                Some(tube) => tube.ack(hold.id),
                None => return self.holds.push(hold),
            },
        };
        let verb = format!("ack {}", self.model.tubes[&no].driver);
        self.finish("ack", &hold, expected, &verb, answer);
    }

    /// Acks several at once: each on its own terms.
    pub fn ack_many(&mut self, dice: &mut Rng) {
        let claims = self.holds.iter().any(|hold| hold.claim.is_some());
        if !claims || self.disk.is_armed() || self.disk.tripped() {
            return;
        }
        let most = 1 + dice.index(4);
        let mut mine = Vec::new();
        while mine.len() < most
            && let Some(at) = self.holds.iter().position(|hold| hold.claim.is_some())
        {
            mine.push(self.holds.remove(at));
        }
        let expected: Vec<Expected> = mine.iter().map(|hold| self.if_held(hold, None)).collect();
        let claims = mine.iter_mut().filter_map(|hold| hold.claim.take()).collect();
        let answers = Claim::ack_many(claims).unwrap();
        for ((hold, expected), answer) in mine.iter().zip(expected).zip(answers) {
            self.finish("ack", hold, expected, "ack_many", answer);
        }
    }

    /// Acks a task by its id after it has been acked.
    pub fn ack_twice(&mut self, dice: &mut Rng) {
        let Some(hold) = self.some_hold(dice) else { return };
        let (id, seq, session) = (hold.id, hold.seq, hold.session);
        let no = self.model.tasks[&seq].tube;
        self.ack_hold(hold);
        // It may have been taken again meanwhile: by id, that counts.
        let again = self.model.tasks[&seq].claim.is_some_and(|claim| claim.session == session);
        let Some(tube) = self.tube(no, session).filter(|_| !again) else { return };
        let again = if self.model.is_alive(session) { "not taken" } else { "session ended" };
        self.judge("ack twice", Err(again), tube.ack(id));
    }

    /// Acks somebody else's task by its id.
    pub fn ack_strange(&mut self, dice: &mut Rng) {
        let Some((seq, id, no, _)) = self.some_task(dice) else { return };
        let session = self.some_session(dice);
        let mine = self.model.tasks[&seq].claim.is_some_and(|claim| claim.session == session);
        if mine {
            return;
        }
        let Some(tube) = self.tube(no, session) else { return };
        let refused = if self.model.is_alive(session) { "not taken" } else { "session ended" };
        self.judge("ack another's", Err(refused), tube.ack(id));
    }

    pub fn release(&mut self, dice: &mut Rng, delay: Duration) {
        let Some(mut hold) = self.some_hold(dice) else { return };
        let no = self.model.tasks[&hold.seq].tube;
        let timed = self.model.tubes[&no].timed;
        let delay = if timed { delay } else { Duration::ZERO };
        let after = self.model.stored(hold.seq).map(|stored| later(stored, self.model.now, delay));
        let expected = self.if_held(&hold, after);
        let answer = match hold.claim.take() {
            Some(claim) => claim.release(delay),
            None => match self.tube(no, hold.session) {
                Some(tube) => tube.release(hold.id, delay),
                None => return self.holds.push(hold),
            },
        };
        if !delay.is_zero() {
            return self.finish("release", &hold, expected, "release later", answer);
        }
        // Memory alone changes: nothing can fail, and nothing is in the file.
        match self.judge("release", expected, answer) {
            Came::Done(_) => self.model.tasks.get_mut(&hold.seq).unwrap().claim = None,
            _ => self.end_hold(&hold),
        }
    }

    pub fn bury(&mut self, dice: &mut Rng) {
        let Some(mut hold) = self.some_hold(dice) else { return };
        let Some(claim) = hold.claim.take() else { return self.holds.push(hold) };
        let stored = self.model.stored(hold.seq);
        let expected = self.if_held(&hold, stored.map(|it| Stored { stand: Stand::Buried, ..it }));
        self.finish("bury", &hold, expected, "bury", claim.bury());
    }

    pub fn touch(&mut self, dice: &mut Rng) {
        let Some(hold) = self.some_hold(dice) else { return };
        let no = self.model.tasks[&hold.seq].tube;
        let by = Duration::from_micros(1 + dice.below(300_000));
        let more = |at: u64| at.saturating_add(micros(by));
        let stored = self.model.stored(hold.seq);
        let after = stored.map(|it| Stored { dead: more(it.dead), ttr: more(it.ttr), ..it });
        let mut expected = self.if_held(&hold, after);
        if expected.is_ok() && !self.model.tubes[&no].timed {
            expected = Err("unsupported");
        }
        if let Some(claim) = &hold.claim {
            let came = self.change("touch", no, expected, claim.touch(by));
            if let Came::Done(_) | Came::Unknown = came
                && let Some(claim) = &mut self.model.tasks.get_mut(&hold.seq).unwrap().claim
            {
                claim.until = more(claim.until);
            }
        }
        self.holds.push(hold);
    }

    /// A worker stalls, and asks for more time.
    pub fn renew(&mut self, dice: &mut Rng) {
        let Some(hold) = self.some_hold(dice) else { return };
        let no = self.model.tasks[&hold.seq].tube;
        let until = Duration::from_micros(1 + dice.below(500_000));
        let mut expected = self.if_held(&hold, self.model.stored(hold.seq));
        if expected.is_ok() && !self.model.tubes[&no].timed {
            expected = Err("unsupported");
        }
        if let Some(claim) = &hold.claim
            && let Came::Done(()) = self.judge("renew", expected, claim.renew(until))
            && let Some(claim) = &mut self.model.tasks.get_mut(&hold.seq).unwrap().claim
        {
            claim.until = self.model.now + micros(until);
        }
        self.holds.push(hold);
    }

    // ---- those who do not finish

    /// A worker forgets what it has: the claim is its session's alone.
    pub fn forget(&mut self, dice: &mut Rng) {
        let Some(mut hold) = self.some_hold(dice) else { return };
        if let Some(claim) = hold.claim.take() {
            self.meet("forgotten");
            hold.detached = true;
            assert_eq!(claim.detach().data, self.model.tasks[&hold.seq].body.as_bytes());
        }
        self.holds.push(hold);
    }

    pub fn drop_claim(&mut self, dice: &mut Rng) {
        let Some(mut hold) = self.some_hold(dice) else { return };
        if hold.claim.take().is_none() {
            return self.holds.push(hold);
        }
        self.meet("dropped");
        self.end_hold(&hold);
    }

    /// A worker dies: all its handles are gone, what it had forgotten included.
    pub fn leave_session(&mut self, dice: &mut Rng) {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let no = dice.pick(&known);
        self.waits.retain(|wait| wait.session != no);
        let detach = dice.one_in(2);
        for mut hold in std::mem::take(&mut self.holds) {
            if hold.session != no {
                self.holds.push(hold);
            } else if detach {
                drop(hold.claim.take().map(Claim::detach));
            } else if hold.claim.take().is_some() {
                self.end_hold(&hold);
            }
        }
        self.sessions.remove(&no);
        self.meet("session left");
        let until = self.model.now + self.grace;
        if let Some(grace) = self.model.sessions.get_mut(&no) {
            *grace = Some(until);
        }
        self.model.pass();
    }

    /// A session ends, and its workers go on as if nothing had happened.
    pub fn end_session(&mut self, dice: &mut Rng) {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let no = dice.pick(&known);
        let session = self.sessions[&no].clone();
        match self.judge("end session", Ok(Vec::new()), session.end()) {
            Came::Done(()) => drop(self.model.sessions.remove(&no)),
            _ => assert!(self.disk.tripped()),
        }
        self.model.pass();
    }

    // ---- helpers

    pub fn some_hold(&mut self, dice: &mut Rng) -> Option<Hold> {
        // What a dropped tube had is of no interest.
        let there = |hold: &Hold| {
            self.model.names.values().any(|no| *no == self.model.tasks[&hold.seq].tube)
        };
        let known: Vec<usize> =
            (0..self.holds.len()).filter(|at| there(&self.holds[*at])).collect();
        if known.is_empty() { None } else { Some(self.holds.remove(dice.pick(&known))) }
    }

    /// What a session may do at all.
    pub fn if_alive(&self, session: SessionNo) -> Expected {
        if self.model.is_alive(session) { Ok(Vec::new()) } else { Err("session ended") }
    }

    /// What its holder may do to a task.
    pub fn if_held(&self, hold: &Hold, after: Option<Stored>) -> Expected {
        if !self.model.is_alive(hold.session) {
            return Err("session ended");
        }
        // By id: through whatever claim the session has.
        let by_id = |claim: model::Claim| claim.session == hold.session;
        let holds = match self.model.tasks[&hold.seq].claim {
            Some(claim) if hold.detached => by_id(claim),
            Some(claim) => claim.hold == hold.no,
            None => false,
        };
        if holds { Ok(vec![Fact::Task(hold.seq, after)]) } else { Err("not taken") }
    }

    /// A verb that ends the claim if it is carried out, and also, by a claim that is spent on it,
    /// if it is not.
    fn finish(
        &mut self,
        what: &str,
        hold: &Hold,
        expected: Expected,
        verb: &str,
        answer: tubewell::Result<tubewell::Receipt>,
    ) {
        let no = self.model.tasks[&hold.seq].tube;
        match self.change(verb, no, expected, answer) {
            Came::Done(receipt) => {
                assert_eq!(receipt.id, hold.id, "{what}");
                self.receipt(no, receipt.commit);
                self.model.tasks.get_mut(&hold.seq).unwrap().claim = None;
            }
            Came::Unknown => self.model.tasks.get_mut(&hold.seq).unwrap().claim = None,
            Came::Refused | Came::Down => self.end_hold(hold),
        }
    }

    /// A claim is gone: the task is ready, if it still was this claim's.
    pub fn end_hold(&mut self, hold: &Hold) {
        if !hold.detached && self.model.holds(hold.seq, hold.no) {
            self.model.tasks.get_mut(&hold.seq).unwrap().claim = None;
        }
    }
}

fn later(stored: Stored, now: u64, delay: Duration) -> Stored {
    if delay.is_zero() {
        return stored;
    }
    let dead = stored.dead.saturating_add(micros(delay));
    Stored { stand: Stand::Delayed(now + micros(delay)), dead, ..stored }
}
