//! Steps, tasks that are held by their ids, parked claims and sessions.

use std::time::Duration;

use tubewell::{Claim, Error, Failure, Filter, Outcome, Put, SessionId};

use super::{HOUR, MINUTE, SECOND, Script, put};

impl Script<'_> {
    pub fn steps(&self) {
        self.about("steps");
        let (jobs, plain) = (self.jobs(), self.plain());
        put(&jobs, Put::new("steps").priority(1));
        let claim = jobs.try_take().unwrap().unwrap();
        self.note("step", claim.step("measure", || Ok::<u32, Error>(21)));
        self.note("step again", claim.step::<u32, Error>("again", || Ok(22)));
        self.note("spawn", claim.spawn("child", &plain, "spawned"));
        self.note("steps", claim.steps());
        let id = claim.id();
        self.note("release", claim.release());
        self.note("steps of a task", jobs.query().steps(id));
        let first = jobs.query().first_steps(id, 1);
        self.note("steps left", first.as_ref().map(|(_, left)| *left).map_err(Error::clone));
        self.note("first step", first.map(|(steps, _)| steps));
        let claim = jobs.claim(id).unwrap();
        self.note("stored step", claim.step("measure", || Ok::<u32, Error>(99)));
        self.note("ack", claim.ack());
    }

    pub fn held_by_id(&self) {
        self.about("tasks that are held by their ids");
        let jobs = self.jobs();
        let take = |name: &str| {
            put(&jobs, Put::new(name).priority(1));
            jobs.try_take().unwrap().unwrap().detach().info.id
        };
        let failure = Failure::new("refused", "by id");
        self.note("ack", jobs.claimed(take("ack")).and_then(tubewell::Claim::ack));
        self.note(
            "release",
            jobs.claimed(take("release")).and_then(|claim| claim.release_in(HOUR)),
        );
        let id = take("touch");
        self.note("touch", jobs.claimed(id).and_then(|claim| claim.touch(SECOND)));
        self.note("renew", jobs.claimed(id).and_then(|claim| claim.renew(MINUTE)));
        self.note("fail", jobs.claimed(take("fail")).and_then(|claim| claim.fail(failure.clone())));
        self.note(
            "snooze",
            jobs.claimed(take("snooze")).and_then(|claim| claim.end(Outcome::snooze(HOUR))),
        );
        self.note(
            "bury_with",
            jobs.claimed(take("bury_with")).and_then(|claim| claim.bury(failure.clone())),
        );
        self.note(
            "ack_with",
            jobs.claimed(take("ack_with")).and_then(|claim| claim.end(Outcome::result("by id"))),
        );
        self.note("revoke", jobs.admin().revoke(take("revoke")));
        self.note("not taken", jobs.claimed(100).and_then(tubewell::Claim::ack));
        self.note("release_all", jobs.admin().release(Filter::new()));
        take("revoke_all");
        self.note("revoke_all", jobs.admin().revoke(Filter::new()));
    }

    pub fn parked(&self) {
        self.about("a parked claim");
        let jobs = self.jobs();
        put(&jobs, Put::new("parked").priority(0));
        let token = jobs.try_take().unwrap().unwrap().park(HOUR).unwrap();
        self.note("owner", jobs.query().owner(token.id()));
        let claim = self.store.resume_claim(&token);
        self.note("resume_claim", &claim);
        self.note("ack", claim.unwrap().ack());
        self.note("resume_claim again", self.store.resume_claim(&token));
    }

    pub fn sessions(&self) {
        self.about("sessions");
        let (store, jobs) = (self.store, self.jobs());
        let session = store.session("second").unwrap();
        self.note("describe", session.describe("worker", "of the conversation"));
        put(&jobs, Put::new("of a session").priority(0));
        let claim = session.tube(&jobs).unwrap().try_take();
        self.note("take", &claim);
        let claim: Claim = claim.unwrap().unwrap();
        self.note("owners", store.owners().unwrap());
        self.note("owner", claim.owner().unwrap());
        self.note("undescribe", session.undescribe());
        let id = session.id();
        drop(session);
        let task = claim.id();
        let _ = claim.detach();
        // The session is in its grace, and its claim stands.
        let resumed = store.resume_session(id).unwrap();
        self.note("owner of its task", jobs.query().owner(task));
        self.note("claimed", resumed.tube(&jobs).unwrap().claimed(task));
        self.note("not claimed", resumed.tube(&jobs).unwrap().claimed(task + 1));
        self.note("end", resumed.end());
        self.note("released", jobs.query().task(task));
        let last = store.session("last").unwrap();
        let id = last.id();
        drop(last);
        self.note("resume", store.resume_session(id).map(drop));
        self.note("unknown", store.resume_session(SessionId::from_bytes([9; 16])).map(drop));
        self.note("delete", jobs.delete(task));
        self.advance(Duration::ZERO);
    }
}
