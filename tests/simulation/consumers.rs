//! Consumers: some finish their tasks in time, others detach claims, ack late or twice, or crash.

use std::time::Duration;

use tubewell::Claim;

use crate::model::{self, Body, Edit, Seq, SessionNo, Stored, StoredState, TubeNo};
use crate::rng::Rng;
use crate::simulator::{Expected, HeldClaim, Outcome, Simulator, micros};

impl Simulator {
    // ---- takes

    pub fn take(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let session = self.random_session(rng);
        self.take_from(no, session);
    }

    /// Takes the next task of a tube, if there is one and the storage works; returns its number.
    pub fn take_from(&mut self, no: TubeNo, session: SessionNo) -> Option<Seq> {
        let tube = self.tube(no, session)?;
        let expected = self.model.next_task(no);
        let verb = format!("take {}", tube.driver());
        let Outcome::Done(claim) =
            self.check_answer(&verb, self.if_alive(session), tube.try_take())
        else {
            return None;
        };
        let seq = claim.map(|claim| self.record_taken(claim, &[no], session));
        assert_eq!(seq, expected, "not the next task of tube {no}");
        seq
    }

    pub fn take_many(&mut self, rng: &mut Rng) {
        let Some(no) = self.random_tube(rng) else { return };
        let session = self.random_session(rng);
        let Some(tube) = self.tube(no, session) else { return };
        let most = 1 + rng.index(3);
        let answer = tube.take_many(most, Duration::ZERO);
        let Outcome::Done(claims) = self.check_answer("take_many", self.if_alive(session), answer)
        else {
            return;
        };
        let taken = claims.len();
        for claim in claims {
            let expected = self.model.next_task(no);
            let seq = self.record_taken(claim, &[no], session);
            assert_eq!(Some(seq), expected, "not the next task");
        }
        assert!(
            taken == most || self.model.next_task(no).is_none(),
            "{taken} taken of {most}, and more tasks are ready"
        );
    }

    /// Records a claim returned by a take: its task must be takeable and in one of these tubes.
    #[track_caller]
    pub fn record_taken(&mut self, claim: Claim, tubes: &[TubeNo], session: SessionNo) -> Seq {
        let (seq, body) = Body::parse(claim.body());
        self.model.record_id(seq, claim.id());
        let task = &self.model.tasks[&seq];
        assert!(tubes.contains(&task.tube), "a task of another tube");
        assert_eq!(claim.sub_queue(), task.sub.as_deref());
        assert_eq!(claim.priority(), task.priority);
        assert!(self.model.is_takeable(seq), "task {seq} was taken but is not takeable: {task:?}");
        let stored = self.model.stored(seq).unwrap();
        assert_eq!(body, stored.body, "not the last body of task {seq}");
        let (no, id) = (self.next_number(), claim.id());
        self.note(format!("session {session} takes task {seq}, id {id}"));
        self.cover(format!("taken from {}", self.model.tubes[&self.model.tasks[&seq].tube].driver));
        let until = self.model.now.saturating_add(stored.ttr);
        let task = self.model.tasks.get_mut(&seq).unwrap();
        task.claim = Some(model::Claim { no, session, until });
        self.claims.push(HeldClaim { no, seq, id, session, claim: Some(claim), detached: false });
        seq
    }

    // ---- finishing tasks

    pub fn ack(&mut self, rng: &mut Rng) {
        let Some(held) = self.random_claim(rng) else { return };
        self.ack_claim(held);
    }

    pub fn ack_claim(&mut self, mut held: HeldClaim) {
        let no = self.model.tasks[&held.seq].tube;
        let expected = self.if_claimed(&held, None);
        let answer = match held.claim.take() {
            Some(claim) => claim.ack(),
            None => match self.tube(no, held.session) {
                Some(tube) => tube.claimed(held.id).and_then(tubewell::Claim::ack),
                None => return self.claims.push(held),
            },
        };
        let verb = format!("ack {}", self.model.tubes[&no].driver);
        self.finish_claim("ack", &held, expected, &verb, answer);
    }

    /// Acks several claims in one call; each gets its own answer.
    pub fn ack_many(&mut self, rng: &mut Rng) {
        let claims = self.claims.iter().any(|held| held.claim.is_some());
        if !claims || self.disk.is_armed() || self.disk.tripped() {
            return;
        }
        let most = 1 + rng.index(4);
        let mut mine = Vec::new();
        while mine.len() < most
            && let Some(at) = self.claims.iter().position(|held| held.claim.is_some())
        {
            mine.push(self.claims.remove(at));
        }
        let expected: Vec<Expected> = mine.iter().map(|held| self.if_claimed(held, None)).collect();
        let claims = mine.iter_mut().filter_map(|held| held.claim.take()).collect();
        let answers = Claim::end_many(claims, |_| tubewell::Outcome::done()).unwrap();
        for ((held, expected), answer) in mine.iter().zip(expected).zip(answers) {
            self.finish_claim("ack", held, expected, "ack_many", answer);
        }
    }

    /// Acks a task by id after it was acked.
    pub fn ack_twice(&mut self, rng: &mut Rng) {
        let Some(held) = self.random_claim(rng) else { return };
        let (id, seq, session) = (held.id, held.seq, held.session);
        let no = self.model.tasks[&seq].tube;
        self.ack_claim(held);
        // If the session has taken the task again, the second ack by id is valid.
        let again = self.model.tasks[&seq].claim.is_some_and(|claim| claim.session == session);
        let Some(tube) = self.tube(no, session).filter(|_| !again) else { return };
        let again = if self.model.is_alive(session) { "not taken" } else { "session ended" };
        self.check_answer("ack twice", Err(again), tube.claimed(id).and_then(tubewell::Claim::ack));
    }

    /// Acks a task by id through a session that has no claim on it.
    pub fn ack_unclaimed(&mut self, rng: &mut Rng) {
        let Some((seq, id, no, _)) = self.random_task(rng) else { return };
        let session = self.random_session(rng);
        let mine = self.model.tasks[&seq].claim.is_some_and(|claim| claim.session == session);
        if mine {
            return;
        }
        let Some(tube) = self.tube(no, session) else { return };
        let refused = if self.model.is_alive(session) { "not taken" } else { "session ended" };
        self.check_answer(
            "ack unclaimed",
            Err(refused),
            tube.claimed(id).and_then(tubewell::Claim::ack),
        );
    }

    pub fn release(&mut self, rng: &mut Rng, delay: Duration) {
        let Some(mut held) = self.random_claim(rng) else { return };
        let no = self.model.tasks[&held.seq].tube;
        let timed = self.model.tubes[&no].timed;
        let delay = if timed { delay } else { Duration::ZERO };
        let after =
            self.model.stored(held.seq).map(|stored| delayed(stored, self.model.now, delay));
        let expected = self.if_claimed(&held, after);
        let answer = match held.claim.take() {
            Some(claim) => claim.release_in(delay),
            None => match self.tube(no, held.session) {
                Some(tube) => tube.claimed(held.id).and_then(|claim| claim.release_in(delay)),
                None => return self.claims.push(held),
            },
        };
        if !delay.is_zero() {
            return self.finish_claim("release", &held, expected, "release delayed", answer);
        }
        // An immediate release changes memory only: it writes nothing to the file.
        match self.check_answer("release", expected, answer) {
            Outcome::Done(_) => self.model.tasks.get_mut(&held.seq).unwrap().claim = None,
            _ => self.end_claim(&held),
        }
    }

    pub fn bury(&mut self, rng: &mut Rng) {
        let Some(mut held) = self.random_claim(rng) else { return };
        let Some(claim) = held.claim.take() else { return self.claims.push(held) };
        let stored = self.model.stored(held.seq);
        let expected =
            self.if_claimed(&held, stored.map(|it| Stored { state: StoredState::Buried, ..it }));
        self.finish_claim("bury", &held, expected, "bury", claim.bury(None));
    }

    pub fn touch(&mut self, rng: &mut Rng) {
        let Some(held) = self.random_claim(rng) else { return };
        let no = self.model.tasks[&held.seq].tube;
        let by = Duration::from_micros(1 + rng.below(300_000));
        let more = |at: u64| at.saturating_add(micros(by));
        let stored = self.model.stored(held.seq);
        let after =
            stored.map(|it| Stored { expires_at: more(it.expires_at), ttr: more(it.ttr), ..it });
        let mut expected = self.if_claimed(&held, after);
        if expected.is_ok() && !self.model.tubes[&no].timed {
            expected = Err("unsupported");
        }
        if let Some(claim) = &held.claim {
            let outcome = self.check_change("touch", no, expected, claim.touch(by));
            if let Outcome::Done(_) | Outcome::Unknown = outcome
                && let Some(claim) = &mut self.model.tasks.get_mut(&held.seq).unwrap().claim
            {
                claim.until = more(claim.until);
            }
        }
        self.claims.push(held);
    }

    /// Renews a claim, as a heartbeat does.
    pub fn renew(&mut self, rng: &mut Rng) {
        let Some(held) = self.random_claim(rng) else { return };
        let no = self.model.tasks[&held.seq].tube;
        let until = Duration::from_micros(1 + rng.below(500_000));
        let mut expected = self.if_claimed(&held, self.model.stored(held.seq));
        if expected.is_ok() && !self.model.tubes[&no].timed {
            expected = Err("unsupported");
        }
        if let Some(claim) = &held.claim
            && let Outcome::Done(()) = self.check_answer("renew", expected, claim.renew(until))
            && let Some(claim) = &mut self.model.tasks.get_mut(&held.seq).unwrap().claim
        {
            claim.until = self.model.now + micros(until);
        }
        self.claims.push(held);
    }

    // ---- abandoned claims

    /// Detaches a claim: it stays with its session.
    pub fn detach_claim(&mut self, rng: &mut Rng) {
        let Some(mut held) = self.random_claim(rng) else { return };
        if let Some(claim) = held.claim.take() {
            self.cover("claim detached");
            held.detached = true;
            let body = claim.body().to_vec();
            assert_eq!(claim.detach().body, body);
        }
        self.claims.push(held);
    }

    pub fn drop_claim(&mut self, rng: &mut Rng) {
        let Some(mut held) = self.random_claim(rng) else { return };
        if held.claim.take().is_none() {
            return self.claims.push(held);
        }
        self.cover("claim dropped");
        self.end_claim(&held);
    }

    /// Drops all handles of a session, as if its worker crashed. Claims are dropped or detached.
    pub fn drop_session(&mut self, rng: &mut Rng) {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let no = rng.pick(&known);
        self.waiters.retain(|waiter| waiter.session != no);
        let detach = rng.one_in(2);
        for mut held in std::mem::take(&mut self.claims) {
            if held.session != no {
                self.claims.push(held);
            } else if detach {
                drop(held.claim.take().map(Claim::detach));
            } else if held.claim.take().is_some() {
                self.end_claim(&held);
            }
        }
        self.sessions.remove(&no);
        self.cover("session dropped");
        let until = self.model.now + self.grace;
        if let Some(grace) = self.model.sessions.get_mut(&no) {
            *grace = Some(until);
        }
        self.model.expire();
    }

    /// Ends a session whose handles stay in use.
    pub fn end_session(&mut self, rng: &mut Rng) {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if known.is_empty() {
            return;
        }
        let no = rng.pick(&known);
        let session = self.sessions[&no].clone();
        match self.check_answer("end session", Ok(Vec::new()), session.end()) {
            Outcome::Done(()) => drop(self.model.sessions.remove(&no)),
            _ => assert!(self.disk.tripped()),
        }
        self.model.expire();
    }

    // ---- helpers

    pub fn random_claim(&mut self, rng: &mut Rng) -> Option<HeldClaim> {
        // Claims on tasks of dropped tubes are left out.
        let exists = |held: &HeldClaim| {
            self.model.names.values().any(|no| *no == self.model.tasks[&held.seq].tube)
        };
        let known: Vec<usize> =
            (0..self.claims.len()).filter(|at| exists(&self.claims[*at])).collect();
        if known.is_empty() { None } else { Some(self.claims.remove(rng.pick(&known))) }
    }

    /// Expects success if the session is alive.
    pub fn if_alive(&self, session: SessionNo) -> Expected {
        if self.model.is_alive(session) { Ok(Vec::new()) } else { Err("session ended") }
    }

    /// Expects the task to become `after` if its claim is still valid.
    pub fn if_claimed(&self, held: &HeldClaim, after: Option<Stored>) -> Expected {
        if !self.model.is_alive(held.session) {
            return Err("session ended");
        }
        // By id, any claim of the session on the task is valid.
        let by_id = |claim: model::Claim| claim.session == held.session;
        let claimed = match self.model.tasks[&held.seq].claim {
            Some(claim) if held.detached => by_id(claim),
            Some(claim) => claim.no == held.no,
            None => false,
        };
        if claimed { Ok(vec![Edit::Task(held.seq, after)]) } else { Err("not taken") }
    }

    /// Checks the answer of a verb that ends a claim. A claim consumed by the verb ends even if the
    /// verb is refused.
    fn finish_claim(
        &mut self,
        what: &str,
        held: &HeldClaim,
        expected: Expected,
        verb: &str,
        answer: tubewell::Result<tubewell::Receipt>,
    ) {
        let no = self.model.tasks[&held.seq].tube;
        match self.check_change(verb, no, expected, answer) {
            Outcome::Done(receipt) => {
                assert_eq!(receipt.id, held.id, "{what}");
                self.check_commit_number(no, receipt.commit);
                self.model.tasks.get_mut(&held.seq).unwrap().claim = None;
            }
            Outcome::Unknown => self.model.tasks.get_mut(&held.seq).unwrap().claim = None,
            Outcome::Refused | Outcome::StorageFailed => self.end_claim(held),
        }
    }

    /// Drops a claim: the task is released if this claim was still valid.
    pub fn end_claim(&mut self, held: &HeldClaim) {
        if !held.detached && self.model.has_claim(held.seq, held.no) {
            self.model.tasks.get_mut(&held.seq).unwrap().claim = None;
        }
    }
}

fn delayed(stored: Stored, now: u64, delay: Duration) -> Stored {
    if delay.is_zero() {
        return stored;
    }
    let expires_at = stored.expires_at.saturating_add(micros(delay));
    Stored { state: StoredState::Delayed(now + micros(delay)), expires_at, ..stored }
}
