//! Changes of a stored task that are neither an end nor a claim: of its priority, its body, its
//! delay, or its tags.
//!
//! Invariant: every copy of a header changes with it. A claim has one, which its end writes back;
//! the window has one, which is dropped, and offered anew when the change becomes visible.

use std::sync::Arc;

use tubewell_drivers::{Body, Draft, Found, Header, NEVER, Shelf, TAGS_MAX};

use super::outcome::{check_no_schedule, check_not_done};
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::history::Entry;
use crate::core::state::{Core, Decided, UpdateRequest, check_distinct_tags, too_many_tags};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::{Error, EventKind, Receipt, Result, TaskState};

verb! {
    /// Gives a task another priority, whatever its state.
    22 InTube Edit: SetPriority { id: u64, priority: u32 } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for SetPriority {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let SetPriority { id, priority } = *self;
        let request = UpdateRequest { priority: Some(priority), ..UpdateRequest::default() };
        core.check_update(number, &request)?;
        let found = core.find_current(number, id)?;
        check_no_schedule(id, &found)?;
        let mut header = core.newest_header(id, &found).clone();
        header.priority = priority;
        header.order = core.order_of(number, id, &found, &header, None)?;
        core.apply_update(number, id, &found, found.shelf, header, None)
    }
}

verb! {
    /// Changes a task that nobody has taken, and that is not done.
    23 InTube Edit: UpdateTask { id: u64, request: UpdateRequest } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }
    }
}

impl Decide for UpdateTask {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let UpdateTask { id, ref request } = *self;
        core.check_update(number, request)?;
        let found = core.find_current(number, id)?;
        core.check_waits(id, &found)?;
        let (mut header, mut shelf) = (found.record.header.clone(), found.shelf);
        header.priority = request.priority.unwrap_or(header.priority);
        let body = request.body.as_ref();
        if let Some(body) = body {
            header.size = body.len() as u64;
            header.body_checksum = body.checksum();
        }
        if request.priority.is_some() || body.is_some() {
            header.order = core.order_of(number, id, &found, &header, body)?;
        }
        if let Some(tags) = &request.tags
            && **tags != *header.tags()
        {
            header.edit_more(|more| more.tags = tags.clone());
        }
        if request.delay.is_some() || request.not_before.is_some() {
            shelf = core.rescheduled(id, shelf, &mut header, request)?;
            if shelf != found.shelf {
                let rules = core.rules(number)?;
                rules.note_ready(shelf, &mut header, rules.now);
            }
        }
        if let Some(body) = body {
            core.check_disk_space(number, body.len(), 1)?;
        }
        core.apply_update(number, id, &found, shelf, header, body)
    }
}

verb! {
    /// Adds tags to a task, whatever its state. Those that it has are skipped. Each tag is named once.
    60 InTube Edit: AddTags { id: u64, tags: Arc<[Arc<str>]> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, _: Limits) -> Result<()> {
            check_distinct_tags(&self.tags)
        }
    }
}

impl Decide for AddTags {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        core.edit_tags(on.number, self.id, |tags| {
            for tag in &*self.tags {
                if !tags.contains(tag) {
                    tags.push(tag.clone());
                }
            }
        })
    }
}

verb! {
    /// Removes tags of a task, whatever its state. Those that it has not are skipped. Each tag is named
    /// once.
    61 InTube Edit: RemoveTags { id: u64, tags: Arc<[Arc<str>]> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, _: Limits) -> Result<()> {
            check_distinct_tags(&self.tags)
        }
    }
}

impl Decide for RemoveTags {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        core.edit_tags(on.number, self.id, |tags| tags.retain(|tag| !self.tags.contains(tag)))
    }
}

impl Core {
    fn edit_tags(
        &mut self,
        number: TubeNo,
        id: u64,
        edit: impl FnOnce(&mut Vec<Arc<str>>),
    ) -> Result<Decided<Receipt>> {
        let found = self.find_current(number, id)?;
        check_no_schedule(id, &found)?;
        let mut header = self.newest_header(id, &found).clone();
        let mut tags = header.tags().to_vec();
        edit(&mut tags);
        if tags.len() > TAGS_MAX {
            return Err(too_many_tags());
        }
        if tags != header.tags() {
            header.edit_more(|more| more.tags = tags.into());
        }
        self.apply_update(number, id, &found, found.shelf, header, None)
    }

    /// Refuses a task that is taken or done.
    pub(in crate::core) fn check_waits(&self, id: u64, found: &Found) -> Result<()> {
        if let Some(why) = self.holder_of(id) {
            return Err(Error::NotReady { id, state: TaskState::Taken, why });
        }
        check_not_done(id, found)
    }

    /// Rejects changes that the driver does not support.
    fn check_update(&self, number: TubeNo, request: &UpdateRequest) -> Result<()> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        let timed = [
            ("a priority", request.priority.is_some()),
            ("a delay", request.delay.is_some()),
            ("a moment", request.not_before.is_some()),
        ];
        match timed.into_iter().find(|(_, given)| *given && !tube.definition.timed) {
            Some((what, _)) => Err(tube.unsupported(what)),
            None => Ok(()),
        }
    }

    /// The order key of a task with this header. `body` is its new body, if it gets one.
    fn order_of(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        header: &Header,
        body: Option<&Body>,
    ) -> Result<u64> {
        let stored;
        let body: &[u8] = if let Some(body) = body {
            body
        } else if found.record.header.body_checksum.is_some() {
            stored = self.edit(number, |ledger| ledger.body(id, found))?;
            &stored
        } else {
            found.record.inline()
        };
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.tubes.known_drivers())?;
        let sub = Some(&*header.sub).filter(|sub| !sub.is_empty());
        Ok(driver.order(&Draft::new(header.priority, sub, body)))
    }

    /// Sets the delay of a task that waits on this shelf, from now on, or its moment. Its ttl begins
    /// when it is ready, as after a put. Returns its shelf.
    fn rescheduled(
        &self,
        id: u64,
        shelf: Shelf,
        header: &mut Header,
        request: &UpdateRequest,
    ) -> Result<Shelf> {
        let now = self.now.timeline;
        let ttl_from = header.ttl_from().unwrap_or(header.ready_at);
        let before = match shelf {
            Shelf::Ready => now,
            // It waits for its moment, without a ttl, or its delay was over until now.
            Shelf::Delayed if ttl_from == 0 => now,
            Shelf::Delayed => ttl_from,
            // Its delay goes on while it waits for its parents.
            Shelf::Blocked => ttl_from.max(now),
            Shelf::Buried | Shelf::Done | Shelf::Recurring => {
                let (state, why) =
                    (TaskState::on_shelf(shelf), "it is buried; kick it first".into());
                return Err(Error::NotReady { id, state, why });
            }
        };
        if let Some(delay) = request.delay {
            header.ready_at = if delay == 0 { 0 } else { now.saturating_add(delay) };
        }
        if header.expires_at != NEVER {
            let ttl = header.expires_at.saturating_sub(before);
            header.expires_at = header.ready_at.max(now).saturating_add(ttl);
        }
        if header.more.is_some() || request.not_before.is_some() {
            header.edit_more(|more| {
                more.ttl_from = None;
                more.not_before = request.not_before.unwrap_or(more.not_before);
            });
        }
        self.clocks().aim(header);
        Ok(self.clocks().place(shelf == Shelf::Blocked, header))
    }

    /// The answer to a call that changes nothing.
    pub(in crate::core) fn unchanged(
        &self,
        number: TubeNo,
        id: u64,
        shelf: Shelf,
    ) -> Decided<Receipt> {
        let receipt = self.memory_receipt(number, id, self.state_of(id, shelf));
        self.once_visible(number, id, receipt)
    }

    /// Stores a changed header, and a new body if there is one, with all copies of the header. The
    /// one road for changes that end no claim and remove no task.
    fn apply_update(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        shelf: Shelf,
        mut header: Header,
        body: Option<&Body>,
    ) -> Result<Decided<Receipt>> {
        let old = &found.record.header;
        if body.is_none() && header == *self.newest_header(id, found) {
            return Ok(self.unchanged(number, id, shelf));
        }
        let entry = Entry::new(EventKind::Update, self.state_of(id, shelf));
        let entries = self.add_to_history(number, id, Some(old), &mut header, Some(entry));
        self.edit(number, |ledger| {
            ledger.update(id, found, shelf, &header, body)?;
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.empty_up_to.note_arrival(shelf, (header.order_on(shelf), id));
        }
        if body.is_some() {
            self.note_freed(number, old);
        }
        let change = self.updated((number, id), EventKind::Update, found, shelf, header);
        Ok(self.apply_change(number, change))
    }

    /// Updates what memory has of a task whose header was changed. Returns the change.
    pub(super) fn updated(
        &mut self,
        (number, id): (TubeNo, u64),
        kind: EventKind,
        found: &Found,
        shelf: Shelf,
        header: Header,
    ) -> Change {
        let old = (found.record.header.order, id);
        let tube = self.tubes.get_mut(number);
        if let Some(claim) = self.claims.get_mut(id) {
            if let Some(tube) = tube {
                tube.taken.remove(&old);
                tube.taken.insert((header.order, id));
            }
            claim.header = header;
            let taken = TaskState::Taken;
            return self.change(number, id, kind, Some(taken), taken, None);
        }
        if let Some(tube) = tube {
            tube.window.remove(old);
        }
        let (from, to) = (TaskState::on_shelf(found.shelf), TaskState::on_shelf(shelf));
        self.change(number, id, kind, Some(from), to, Some(header))
    }
}

#[cfg(test)]
mod tests {
    use crate::core::verbs::Ack;
    use crate::core::{Buffer, Grant, TakeAttempt};
    use crate::handle::take::read_claim;
    use crate::{FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBETTL, Update};

    /// More than the window keeps of the rows of ready tasks, so that a take reads the last of them.
    const TASKS: usize = 600;

    /// Takes a task whose body is not in memory, and lets `check` change it before the body is read.
    fn with_unread_take(driver: &str, size: usize, check: impl FnOnce(&Store, &Tube, Grant)) {
        let dir = tempfile::tempdir().unwrap();
        let open =
            || Store::options().clock(ManualClock::new()).open(dir.path().join("store")).unwrap();
        let store = open();
        let tube =
            store.create_tube("work", TubeOptions::new().priority(5).driver(driver)).unwrap();
        let put = |n: usize| {
            let put = Put::new(vec![7; size]);
            if driver == UTUBETTL { put.sub_queue(format!("{n}")) } else { put }
        };
        tube.put_many((0..TASKS).map(put)).unwrap();
        drop(tube);
        store.close().unwrap();
        let store = open();
        let tube = store.find_tube("work").unwrap();
        let heads = [store.inner().run(|core| core.find_tube("work")).unwrap()];
        let session = store.handle.own_session();
        let grant = loop {
            match store.local().take(&heads, session, Some(0)).unwrap() {
                TakeAttempt::Task(grant) if grant.row.is_none() => break grant,
                TakeAttempt::Task(_) => {}
                _ => panic!("the bodies of all tasks are in memory"),
            }
        };
        check(&store, &tube, grant);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    #[test]
    fn task_that_moves_with_its_priority_is_read_where_it_is() {
        for driver in [FIFOTTL, UTUBETTL] {
            for size in [1024, 2000] {
                if (driver, size) == (UTUBETTL, 1024) {
                    continue; // The record is read when the task is taken.
                }
                with_unread_take(driver, size, |store, tube, grant| {
                    tube.admin().set_priority(grant.id, 1).unwrap();
                    // Now the database has it there, too.
                    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
                    let claim = read_claim(store.local(), grant, None).unwrap().unwrap();
                    assert_eq!(claim.body(), vec![7; size]);
                    claim.ack().unwrap();
                });
            }
        }
    }

    #[test]
    fn task_that_gets_another_body_once_its_claim_has_ended_is_not_handed_out() {
        for (size, new) in [(1024, 2000), (2000, 1000), (2000, 3000)] {
            with_unread_take(FIFOTTL, size, |store, tube, grant| {
                let key = grant.key();
                tube.admin().revoke(grant.id).unwrap();
                let update = Update::new().body(vec![8; new]).priority(1);
                tube.update(grant.id, update).unwrap();
                assert_eq!(store.admin().verify().unwrap(), [""; 0]);
                let id = grant.id;
                assert!(read_claim(store.local(), grant, None).unwrap().is_none());
                assert!(store.handle.make(Buffer::File, key, &Ack { result: None }).is_err());
                assert_eq!(tube.claim(id).unwrap().body(), vec![8; new]);
            });
        }
    }
}
