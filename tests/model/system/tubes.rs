//! Tubes and sessions.

use std::time::Duration;

use tubewell::{Durability, Error, Filter, Outcome, TubeOptions};

use super::convert::{
    agree, backoff_of, counting_of, duration, keep_of, library_moment, name_of, rate_of,
};
use super::options::only;
use super::reference::{Micros, NEVER, Options, TubeNo};
use super::steps::{Alter, Choice, Definition, TUBE_NAMES};
use super::{Client, System};

impl System {
    pub(super) fn definition(&self, tube: usize, no: TubeNo) -> Definition {
        let known = &self.model.tubes()[&no];
        Definition {
            driver: known.driver,
            options: known.options.clone(),
            durability: self.durability[tube],
        }
    }

    pub(super) fn create_tube(&mut self, tube: usize, wanted: &Definition, opens: bool) {
        let Definition { driver, options, durability } = wanted;
        let (name, given) = (TUBE_NAMES[tube], options_of(options, *durability));
        let given = given.driver(name_of(*driver));
        let got = if opens {
            self.store.open_tube(name, given)
        } else {
            self.store.create_tube(name, given)
        };
        let want = self.model.create_tube(name, *driver, options, opens);
        if let Some((handle, no)) = agree(got, want) {
            assert_eq!((handle.name(), handle.driver()), (TUBE_NAMES[tube], name_of(*driver)));
            self.tubes[tube] = Some(no);
            self.names.insert(no, tube);
        }
    }

    /// Changes the options of a tube, apart from its retention and the limit of its claims.
    pub(super) fn alter(&mut self, tube: usize, options: &Options, by: Alter) {
        let Some((handle, no, _)) = self.tube(0, tube) else { return };
        if self.model.waiting(no) > 0 && self.model.waiting_puts(no) > 0 {
            // The specification leaves open whether a take gets the task of a put that is admitted.
            return;
        }
        // A claim has the attempts that its task had left when it was taken.
        self.poll_waits();
        let Definition { driver, options: old, durability } = self.definition(tube, no);
        let Options { max_runtime, keep_done, keep_buried, temporary, .. } = old;
        let wanted = Options { max_runtime, keep_done, keep_buried, temporary, ..options.clone() };
        let given = only(options_of(&wanted, durability));
        let got = match by {
            Alter::Tube => handle.admin().alter(given),
            Alter::Deferred => handle.to_async().admin().alter(given).wait(),
            Alter::Create => {
                self.store.open_tube(TUBE_NAMES[tube], given.driver(name_of(driver))).map(drop)
            }
        };
        agree(got, self.model.alter(no, &wanted));
        self.uncounted.remove(&no);
    }

    pub(super) fn pause(&mut self, tube: usize, time: Micros, deferred: bool) {
        let Some((handle, no, _)) = self.tube(0, tube) else { return };
        let later = handle.to_async();
        let until = self.model.wall().saturating_add(time);
        let got = match (time, deferred) {
            (0, false) => handle.admin().unpause(),
            (0, true) => later.admin().unpause().wait(),
            (NEVER, false) => handle.admin().pause(),
            (NEVER, true) => later.admin().pause().wait(),
            // The wall clock was never set, or set right.
            (_, false) if until == self.model.now() + time => {
                handle.admin().pause_until(library_moment(until))
            }
            (_, false) => handle.admin().pause_for(duration(time)),
            (_, true) => later.admin().pause_for(duration(time)).wait(),
        };
        agree(got, self.model.pause(no, time));
    }

    pub(super) fn pause_sub_queue(
        &mut self,
        tube: usize,
        name: &str,
        time: Micros,
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(0, tube) else { return };
        let later = handle.to_async();
        let got = match (time, deferred) {
            (0, false) => handle.admin().unpause_sub_queue(name),
            (0, true) => later.admin().unpause_sub_queue(name).wait(),
            (_, false) => handle.admin().pause_sub_queue(name, duration(time)),
            (_, true) => later.admin().pause_sub_queue(name, duration(time)).wait(),
        };
        agree(got, self.model.pause_sub_queue(no, name, time));
    }

    pub(super) fn set_limit(&mut self, name: &str, most: Option<u32>) {
        match most {
            Some(most) => self.store.admin().set_limit(name, most).unwrap(),
            None => self.store.admin().remove_limit(name).unwrap(),
        }
        self.model.set_limit(name, most.map(u64::from));
    }

    pub(super) fn drop_tube(&mut self, tube: usize) {
        let Some((handle, no, _)) = self.tube(0, tube) else {
            let name = TUBE_NAMES[tube].to_owned();
            let got = self.store.drop_tube(TUBE_NAMES[tube]);
            assert_eq!(got, Err(Error::TubeNotFound { name, similar: None }));
            return;
        };
        if agree(self.store.drop_tube(TUBE_NAMES[tube]), self.model.drop_tube(no)).is_some() {
            self.tubes[tube] = None;
            self.dropped.push(handle);
        }
    }

    /// All verbs on a handle of a dropped tube are refused, even if a new tube has its name.
    pub(super) fn use_dropped_tube(&mut self, tube: Choice) {
        if self.dropped.is_empty() {
            return;
        }
        let tube = tube.get(&self.dropped);
        let id = self.ids.values().next_back().copied().unwrap_or(0);
        let schedule = tubewell::Schedule::every("k", Duration::from_secs(1));
        let answers = [
            tube.put("too late").map(drop),
            tube.try_take().map(drop),
            tube.claimed(id).and_then(tubewell::Claim::ack).map(drop),
            tube.claimed(id).and_then(|claim| claim.end(Outcome::result("result"))).map(drop),
            tube.admin().resolve(id, ()).map(drop),
            tube.admin().forget(id).map(drop),
            tube.ending(id).map(drop),
            tube.wait_done(id, Duration::ZERO).map(drop),
            tube.query().groups().map(drop),
            tube.query().list(Filter::new().group("timeout").newest_first(), None, 1).map(drop),
            tube.claimed(id).and_then(tubewell::Claim::release).map(drop),
            tube.claimed(id).and_then(|claim| claim.touch(Duration::from_secs(1))).map(drop),
            tube.claimed(id).and_then(|claim| claim.renew(Duration::from_secs(1))),
            tube.admin().bury(id, None).map(drop),
            tube.admin().kick(Filter::new().limit(1)).map(drop),
            tube.delete(id).map(drop),
            tube.admin().set_priority(id, 1).map(drop),
            tube.update(id, tubewell::Update::new()).map(drop),
            tube.cancel(id).map(drop),
            tube.admin().delete(Filter::new().ids([id])).map(drop),
            tube.admin()
                .delete(tubewell::Filter::new().state(tubewell::TaskState::Ready))
                .map(drop),
            tube.admin().kick(tubewell::Filter::new()).map(drop),
            tube.admin().log(id, "text").map(drop),
            tube.query().history(id).map(drop),
            tube.query().task(id).map(drop),
            tube.admin().add_parents(id, tube, &[id]).map(drop),
            tube.admin().remove_parents(id, None).map(drop),
            tube.query().parents(id).map(drop),
            tube.query().children(id).map(drop),
            tube.schedule(schedule, "").map(drop),
            tube.schedules().change(tubewell::Schedule::of("k")).map(drop),
            tube.schedules().change_task("k", "").map(drop),
            tube.schedules().get("k").map(drop),
            tube.schedules().remove("k").map(drop),
            tube.schedules().list(None, 1).map(drop),
            tube.admin().release(Filter::new()).map(drop),
            tube.admin().truncate(),
            tube.admin().pause(),
            tube.admin().unpause(),
            tube.admin().alter(TubeOptions::new()),
            tube.admin().pause_sub_queue("x", Duration::ZERO),
            tube.query().paused_sub_queues().map(drop),
            tube.info().map(drop),
            tube.query().list(tubewell::TaskState::Ready, None, 1).map(drop),
            tube.statistics().map(drop),
        ];
        for answer in answers {
            assert_eq!(answer, Err(Error::TubeDropped { name: tube.name().to_owned() }));
        }
    }

    // ---- sessions

    pub(super) fn end_session(&mut self, client: usize) {
        let handle = self.tube(client, 0);
        let Some(session) = self.clients[client].session.take() else { return };
        session.end().unwrap();
        self.model.end_session(self.clients[client].no);
        if let Some((tube, ..)) = handle {
            assert_eq!(tube.try_take().map(drop), Err(Error::SessionEnded));
        }
    }

    /// Drops the last handle of the session, after its waits and claim handles.
    pub(super) fn leave_session(&mut self, client: usize) {
        let no = self.clients[client].no;
        if self.model.has_waiting_put(no) {
            // The waiting put keeps a handle of the session.
            return;
        }
        let Some(session) = self.clients[client].session.take() else { return };
        let waits = self.waits.iter().filter(|(_, waiting)| waiting.session == no);
        for wait in waits.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.drop_wait(wait);
        }
        let held = self.claims.iter().filter(|(_, held)| held.session == no);
        for claim in held.map(|(no, _)| *no).collect::<Vec<_>>() {
            let _ = self.claims.remove(&claim).unwrap().claim.detach();
        }
        drop(session);
        self.model.leave_session(no);
    }

    pub(super) fn resume_session(&mut self, client: usize) {
        let Client { no, id, .. } = self.clients[client];
        let got = self.store.resume_session(id);
        if let Err(error) = &got {
            assert_eq!(*error, Error::SessionUnknown { id });
        }
        if let Some((session, ())) = agree(got, self.model.resume_session(no)) {
            assert_eq!(session.id(), id);
            self.clients[client].session.get_or_insert(session);
        }
    }
}

/// The options of a tube, for the library.
fn options_of(options: &Options, durability: Option<Durability>) -> TubeOptions {
    let mut given = TubeOptions::default();
    given = given.temporary(options.temporary);
    if let Some(ttl) = options.ttl {
        given = given.ttl(duration(ttl));
    }
    if let Some(ttr) = options.ttr {
        given = given.ttr(duration(ttr));
    }
    if let Some(priority) = options.priority {
        given = given.priority(priority);
    }
    if let Some(capacity) = options.capacity {
        given = given.capacity(capacity);
    }
    if let Some(max_runtime) = options.max_runtime {
        given = given.max_runtime(duration(max_runtime));
    }
    if let Some(max_attempts) = options.max_attempts {
        given = given.max_attempts(max_attempts);
    }
    given = given.count_takes(counting_of(options.counting));
    given = given.backoff(backoff_of(options.backoff));
    given = given.reclaim_delay(duration(options.reclaim_delay));
    if let Some(keep) = options.keep_done {
        given = given.keep_done(keep_of(keep));
    }
    if let Some(keep) = options.keep_buried {
        given = given.keep_buried(keep_of(keep));
    }
    if let Some(durability) = durability {
        given = given.durability(durability);
    }
    if let Some(limit) = options.max_taken {
        given = given.max_taken(limit);
    }
    if let Some(rate) = options.rate {
        given = given.rate(rate_of(rate));
    }
    if let Some(limit) = options.sub_queue_limit {
        given = given.sub_queue_limit(u32::try_from(limit).unwrap());
    }
    if let Some(rate) = options.sub_queue_rate {
        given = given.sub_queue_rate(rate_of(rate));
    }
    if let Some(cooldown) = options.sub_queue_cooldown {
        given = given.sub_queue_cooldown(duration(cooldown));
    }
    given = given.history(u32::try_from(options.history).unwrap());
    given = given.shared_limits(options.shared_limits);
    given.metrics(if options.metrics { 1000 } else { 0 })
}
