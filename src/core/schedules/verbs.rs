//! The verbs on schedules: schedule, change, remove and restore.

use std::sync::Arc;

use tubewell_drivers::{Body, Header, NEVER, Recur, RecurRule, Shelf};

use super::moments::set_due;
use super::runs::request_of_run;
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::state::{Core, Decided, PutRequest, ScheduleRequest, check_key};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::core::verbs::{KeyLookUp, Keyed};
use crate::{Error, EventKind, Receipt, Result, TaskState};

verb! {
    /// Stores a schedule, or brings the one that has its key in line.
    64 InTube Edit: SetSchedule { key: Arc<str>, request: ScheduleRequest } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check_new(&self.key, limits.max_body)
        }
    }
}

impl Decide for SetSchedule {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let SetSchedule { key, request } = self;
        let tube = core.tubes.get(number).ok_or(Error::Closed)?;
        tube.driver(|| core.tubes.known_drivers())?;
        request.put.as_ref().map_or(Ok(()), |put| tube.check_put(put))?;
        match core.live_key(key)? {
            KeyLookUp::Free(left_over) => {
                let (header, body) = core.new_schedule(number, key, request)?;
                core.check_disk_space(number, body.len(), 1)?;
                let own_id = request.restored.and_then(|restored| restored.id);
                let id = core.ids.check().assign(&core.ids, own_id)?;
                core.clear_key(number, key, left_over);
                core.insert_schedule(number, id, own_id.is_some(), header, body)
            }
            KeyLookUp::Task(keyed)
                if keyed.found.shelf == Shelf::Recurring && request.restored.is_none() =>
            {
                core.change_schedule(number, keyed, request, false)
            }
            KeyLookUp::Task(keyed) => Err(core.key_in_use(key, &keyed)),
        }
    }
}

verb! {
    /// Changes a schedule by its key. If it is in another tube, it goes on in this one.
    65 InTube Edit: ChangeSchedule { key: Arc<str>, request: ScheduleRequest } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check_change(&self.key, limits.max_body)
        }
    }
}

impl Decide for ChangeSchedule {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        let keyed = core.schedule_of_key(&self.key)?;
        core.change_schedule(on.number, keyed, &self.request, true)
    }
}

verb! {
    /// Removes a schedule by its key, in whichever tube it is. Its runs stay.
    66 InTube Edit: RemoveSchedule { key: Box<str> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, _: Limits) -> Result<()> {
            check_key(&self.key)
        }
    }
}

impl Decide for RemoveSchedule {
    fn decide(&self, core: &mut Core, _: TubeRef<'_>) -> Result<Decided<Receipt>> {
        let Keyed { number, id, found } = core.schedule_of_key(&self.key)?;
        core.delete_found(number, id, &found)
    }
}

impl Core {
    fn schedule_of_key(&mut self, key: &str) -> Result<Keyed> {
        match self.live_key(key)? {
            KeyLookUp::Task(keyed) if keyed.found.shelf == Shelf::Recurring => Ok(keyed),
            KeyLookUp::Task(keyed) => {
                let state = self.state_of(keyed.id, keyed.found.shelf);
                let wanted = TaskState::Recurring.to_string();
                Err(Error::WrongState { id: keyed.id, state, wanted })
            }
            KeyLookUp::Free(_) => Err(Error::KeyNotFound { key: key.to_owned() }),
        }
    }

    /// The header and the body of a new schedule. Edits nothing.
    fn new_schedule<'a>(
        &self,
        number: TubeNo,
        key: &Arc<str>,
        request: &'a ScheduleRequest,
    ) -> Result<(Header, &'a Body)> {
        let (rule, put) = request.rule_and_task()?;
        let next = match (request.starting, request.restored) {
            (Some(next), Some(_)) => self.restored_moment(rule, next)?,
            (starting, _) => self.first_moment(rule, starting)?,
        };
        if next == NEVER {
            return Err(Error::invalid("the schedule has no run: its first moment never comes"));
        }
        let mut header = self.new_header(number, put, None)?;
        let counted = request.restored.map(|restored| (restored.runs, restored.skipped));
        let (runs, skipped) = counted.unwrap_or_default();
        let mut recur = Recur {
            rule: rule.clone(),
            next,
            fired: None,
            last: None,
            runs,
            skipped,
            times: None,
            missed: 1,
            within: None,
            skips_overlap: false,
            priority: None,
            ttl: None,
            ttr: None,
            delay: 0,
            tags: Arc::default(),
            starting: self.starting_of_new(rule, next, request)?,
            covered: None,
        };
        apply_terms(&mut recur, request)?;
        set_template(&mut header, &mut recur, put);
        header.edit_more(|more| more.key = Some(key.clone()));
        set_due(&mut header, recur, next);
        Ok((header, &put.body))
    }

    /// The moment before which a new schedule has no run. That of a restored one is not known: its next
    /// run is such a moment, unless it is the next one of its expression.
    fn starting_of_new(
        &self,
        rule: &RecurRule,
        next: u64,
        request: &ScheduleRequest,
    ) -> Result<Option<u64>> {
        if matches!(rule, RecurRule::Every(_)) {
            return Ok(None);
        }
        if request.restored.is_none() {
            return Ok(request.starting);
        }
        let is_later = next > self.first_moment(rule, None)?;
        Ok(is_later.then_some(next))
    }

    fn insert_schedule(
        &mut self,
        number: TubeNo,
        id: u64,
        is_restored: bool,
        header: Header,
        body: &Body,
    ) -> Result<Decided<Receipt>> {
        self.note_aligned_header(number, &header);
        let visibility = self.put_visibility(number, self.ids.next().max(id).saturating_add(1));
        self.edit(number, |ledger| ledger.insert(id, Shelf::Recurring, &header, body))?;
        self.note_id(id, is_restored);
        let state = TaskState::Recurring;
        self.note_header(id, &header);
        let change = self.change(number, id, EventKind::Schedule, None, state, None);
        self.make_visible(change, visibility);
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    /// Changes a schedule, and moves it to this tube if it is in another one. `may_start`: the request
    /// may say when the next run is.
    fn change_schedule(
        &mut self,
        number: TubeNo,
        keyed: Keyed,
        request: &ScheduleRequest,
        may_start: bool,
    ) -> Result<Decided<Receipt>> {
        self.check_one_buffer(keyed.number, number)?;
        let header = self.changed_header(number, &keyed, request, may_start)?;
        let mut body = request.put.as_ref().map(|put| &put.body);
        if let Some(new) = body
            && self.has_body(&keyed, new)?
        {
            body = None;
        }
        self.check_disk_space(number, body.map_or(0, |body| body.len()), 1)?;
        let Keyed { number: before, id, found } = keyed;
        let old = &found.record.header;
        if before == number && body.is_none() && header == *old {
            return Ok(self.unchanged(number, id, found.shelf));
        }
        self.note_aligned_header(number, &header);
        let visibility = self.common_visibility(&[before, number]);
        let (recurring, kind) = (TaskState::Recurring, EventKind::Schedule);
        if before == number {
            let shelf = Shelf::Recurring;
            self.edit(number, |ledger| ledger.update(id, &found, shelf, &header, body))?;
            self.note_header(id, &header);
            let change = self.change(number, id, kind, Some(recurring), recurring, None);
            self.make_visible(change, visibility);
        } else {
            let mut contents = self.edit(before, |ledger| ledger.contents(id, &found))?;
            if let Some(body) = body {
                contents.body = body.clone();
            }
            self.atomically_in(&[before, number], |core| {
                core.edit(before, |ledger| ledger.remove(id, Shelf::Recurring, old))?;
                core.edit(number, |ledger| {
                    ledger.insert_with(id, Shelf::Recurring, &header, &contents)
                })
            })?;
            // Its runs so far stay there.
            self.tubes.note_stray(before);
            let (moved, done) = (EventKind::Move, TaskState::Done);
            let leave = self.change(before, id, moved, Some(recurring), done, None);
            let arrival = self.change(number, id, moved, None, recurring, None);
            self.publish_together(|core| {
                core.note_header(id, old);
                core.make_visible(Change { is_intermediate: true, ..leave }, visibility);
                core.note_header(id, &header);
                core.make_visible(arrival, visibility);
            });
        }
        Ok(self.decided(number, visibility, |commit| Receipt { id, state: recurring, commit }))
    }

    /// Whether a schedule has this body already.
    fn has_body(&mut self, keyed: &Keyed, body: &Body) -> Result<bool> {
        let Keyed { number, id, found } = keyed;
        let old = &found.record.header;
        if (old.size, old.body_checksum) != (body.len() as u64, body.checksum()) {
            return Ok(false);
        }
        match self.edit(*number, |ledger| ledger.body(*id, found)) {
            // The new one takes its place.
            Err(Error::Corrupt { .. }) => Ok(false),
            stored => Ok(stored?[..] == body[..]),
        }
    }

    /// The header of a schedule after changes. Edits nothing.
    fn changed_header(
        &self,
        number: TubeNo,
        keyed: &Keyed,
        request: &ScheduleRequest,
        may_start: bool,
    ) -> Result<Header> {
        let old = &keyed.found.record.header;
        let id = keyed.id;
        let mut recur = old.recur().cloned().ok_or_else(|| no_recurrence(id))?;
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        tube.driver(|| self.tubes.known_drivers())?;
        let (mut header, next) = (old.clone(), recur.next);
        self.change_moments(&mut recur, request, may_start)?;
        apply_terms(&mut recur, request)?;
        if let Some(put) = &request.put {
            let template = self.new_header(number, put, None)?;
            (header.priority, header.sub) = (template.priority, template.sub);
            (header.size, header.body_checksum) = (put.body.len() as u64, put.body.checksum());
            set_template(&mut header, &mut recur, put);
        }
        tube.check_put(&request_of_run(&header, &recur, Body::new(Vec::new())))?;
        if recur.next != next || request.rule.is_some() {
            let due = if recur.next == next { due_of(old).max(next) } else { recur.next };
            set_due(&mut header, recur, due);
        } else {
            header.edit_more(|more| more.recur = Some(recur.into()));
        }
        Ok(header)
    }

    /// Changes when the runs are.
    fn change_moments(
        &self,
        recur: &mut Recur,
        request: &ScheduleRequest,
        may_start: bool,
    ) -> Result<()> {
        let starting = request.starting.filter(|_| may_start);
        let rule = request.rule.as_ref().filter(|rule| **rule != recur.rule);
        if rule.is_none() && starting.is_none() {
            return Ok(());
        }
        let (had_interval, next) = (matches!(recur.rule, RecurRule::Every(_)), recur.next);
        let is_due = recur.next <= self.time_of(&recur.rule);
        if let Some(rule) = rule {
            recur.rule = rule.clone();
        }
        let is_cron = matches!(recur.rule, RecurRule::Cron { .. });
        (recur.starting, recur.covered) = (starting.filter(|_| is_cron), None);
        let has_interval = matches!(recur.rule, RecurRule::Every(_));
        recur.next = match (&recur.rule, starting, recur.fired) {
            // A run that is due, and waits or is not yet put, keeps its moment.
            (_, None, _) if is_due && had_interval == has_interval => recur.next,
            (RecurRule::Every(_), None, Some(fired)) if had_interval => {
                self.moment_after(&recur.rule, fired)?
            }
            // It keeps the moment of its first run.
            (RecurRule::Every(_), None, None) if had_interval => recur.next,
            (RecurRule::Every(interval), None, _) => self.now.timeline.saturating_add(*interval),
            (rule, starting, _) => self.first_moment(rule, starting)?,
        };
        // A moment of another clock, or a run that is to be put once more and does not wait yet.
        if had_interval != has_interval || recur.next != next && recur.fired == Some(recur.next) {
            recur.fired = None;
        }
        if recur.next == NEVER {
            return Err(Error::invalid("the schedule would have no further run; remove it"));
        }
        Ok(())
    }
}

/// The damage of a schedule without a recurrence.
pub(super) fn no_recurrence(id: u64) -> Error {
    Error::corrupt(format!("schedule {id}: its record says nothing of its runs"))
}

/// The time at which a schedule is due, on the clock of its rule.
fn due_of(header: &Header) -> u64 {
    let shelf = Shelf::Recurring;
    header.moment(shelf).or_else(|| header.due(shelf)).unwrap_or(NEVER)
}

fn apply_terms(recur: &mut Recur, request: &ScheduleRequest) -> Result<()> {
    if let Some(times) = request.times {
        if times.is_some_and(|times| times <= recur.runs) {
            return Err(Error::invalid(format!(
                "the schedule has put {} runs already; remove it to end it now",
                recur.runs
            )));
        }
        recur.times = times;
    }
    recur.missed = request.missed.unwrap_or(recur.missed);
    recur.within = request.within.unwrap_or(recur.within);
    recur.skips_overlap = request.skips_overlap.unwrap_or(recur.skips_overlap);
    Ok(())
}

/// Takes over what the runs put. The schedule itself is at the same position for all of its runs,
/// without a ttl and a ttr.
fn set_template(header: &mut Header, recur: &mut Recur, put: &PutRequest) {
    (recur.priority, recur.ttl, recur.ttr, recur.delay) =
        (put.priority, put.ttl, put.ttr, put.delay);
    (header.order, header.expires_at, header.ttr) = (0, NEVER, NEVER);
    header.sub = put.sub.as_deref().map_or_else(Arc::default, Arc::from);
    recur.tags = put.tags.clone();
    header.edit_more(|more| {
        (more.max_attempts, more.max_runtime) = (put.max_attempts, put.max_runtime);
        more.tags = Arc::default();
    });
}
