//! The end of a task by its holder, and everything that follows from it, with one commit.
//!
//! A task ends, goes back, or goes on in another tube (advance), and any number of tasks are put.
//! All of it is made, or nothing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tubewell_drivers::{Body, Header, NEVER, PUT_MANY_BYTES, Shelf};

use super::keys::{KeyLookUp, key_of};
use super::put_keyed::{Step, replaced_tubes};
use super::tokens::LookUp;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Keeping, Visibility};
use crate::core::claims::{End, Fate};
use crate::core::history::{Entry, Past};
use crate::core::state::{
    ClaimEnd, ClaimKey, Core, Decided, EndRequest, PutInto, PutRequest, TaskEnd, Wait,
};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, verb};
use crate::values::ending::FailureKind;
use crate::{Ending, Error, EventKind, OnKey, Receipt, Result, TaskState};

verb! {
    /// Ends a task for its holder, gives it back, or lets it go on in another tube, and puts tasks.
    11 OfClaim Edit: EndTask { request: EndRequest } -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn forgives(&self) -> bool {
            self.request.end.forgives()
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Settle(self.request.end.kind().as_str()))
        }
    }
}

verb! {
    /// As `EndTask`, for claims in any tubes: one end for each of them.
    5 OfClaims Edit: EndClaims { ends: Vec<ClaimEnd> } -> Vec<Result<Receipt>> {
        const ENDS_CLAIM: bool = true;

        fn check(&self, limits: Limits) -> Result<()> {
            let requests = self.ends.iter().map(|end| &end.request);
            requests.clone().try_for_each(|request| request.check_each(limits.max_body))?;
            EndRequest::check_number("end_many", requests)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Settle("end_many"))
        }
    }
}

impl EndTask {
    /// An end that puts nothing.
    pub(crate) fn alone(end: TaskEnd) -> EndTask {
        EndTask { request: EndRequest::alone(end) }
    }
}

impl Decide for EndTask {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_task(key, &self.request)
    }
}

impl Decide for EndClaims {
    fn decide(&self, core: &mut Core, on: &[ClaimKey]) -> Result<Decided<Vec<Result<Receipt>>>> {
        if on.len() != self.ends.len() {
            return Err(Error::invalid("each claim that a call ends has one end"));
        }
        Ok(core.end_tasks(on, &self.ends))
    }
}

impl TaskEnd {
    /// As the end of a claim whose task goes back; `None` for an ack, an advance and a bury.
    pub(super) fn as_end(&self) -> Option<End<'_>> {
        match self {
            TaskEnd::Ack { .. }
            | TaskEnd::Advance(_)
            | TaskEnd::AdvanceUnchanged { .. }
            | TaskEnd::Bury(_) => None,
            TaskEnd::Release { delay } => Some(End::Release { delay: *delay }),
            TaskEnd::Snooze { delay } => Some(End::Snooze { delay: *delay }),
            TaskEnd::Fail { delay, failure } => Some(End::Fail { delay: *delay, failure }),
        }
    }
}

/// What has become of a task whose claim ends, as far as its rows are concerned.
enum Ended {
    /// It is done, or has left its tube.
    Left(Change),
    /// It goes back, or is buried.
    Stays(EventKind, Fate),
}

impl Ended {
    fn state(&self) -> TaskState {
        match self {
            Ended::Left(change) => change.to,
            Ended::Stays(_, fate) => TaskState::on_shelf(fate.shelf),
        }
    }
}

impl Core {
    /// Ends each of these claims with one commit. Each end succeeds or fails by itself. The task of one
    /// that fails is released, if its handle has gone.
    pub(in crate::core) fn end_tasks(
        &mut self,
        claims: &[ClaimKey],
        ends: &[ClaimEnd],
    ) -> Decided<Vec<Result<Receipt>>> {
        let mut answers = Decided { answer: Vec::with_capacity(ends.len()), wait: None };
        let mut carried = 0;
        for (key, ClaimEnd { request, keeps_claim }) in claims.iter().zip(ends) {
            let ended = self.check_carried(*key, request, &mut carried);
            let ended = ended.and_then(|()| self.end_task(*key, request)).map(|decided| {
                answers.wait = Wait::later(decided.wait, answers.wait.take());
                decided.answer
            });
            if ended.is_err() && !keeps_claim {
                // Its handle has gone. A failure that matters is that of the next call.
                let _ = self.release_if_current(*key, request.end.forgives());
            }
            answers.answer.push(ended);
        }
        answers
    }

    /// Refuses more bytes than one call puts, of bodies that the call does not bring along.
    fn check_carried(&self, key: ClaimKey, request: &EndRequest, carried: &mut u64) -> Result<()> {
        if let TaskEnd::AdvanceUnchanged { .. } = &request.end {
            let size = self.claims.get(key.id).map_or(0, |claim| claim.header.size);
            *carried = carried.saturating_add(size);
            if *carried > PUT_MANY_BYTES as u64 {
                return Err(PutRequest::too_many("the end of claims"));
            }
        }
        Ok(())
    }

    /// Ends a claim as its holder asks, and puts the tasks that follow.
    fn end_task(&mut self, key: ClaimKey, request: &EndRequest) -> Result<Decided<Receipt>> {
        if let TaskEnd::AdvanceUnchanged { tube, name } = &request.end {
            let end = TaskEnd::Advance(Box::new(self.put_unchanged(key, *tube, name)?));
            return self.end_and_put(key, &EndRequest { end, puts: request.puts.clone() });
        }
        if request.targets().next().is_some() {
            return self.end_and_put(key, request);
        }
        if let Some(end) = request.end.as_end() {
            return self.end_held(key, end);
        }
        if let TaskEnd::Bury(failure) = &request.end {
            self.check_claim(key)?;
            return self.bury(key.tube, key.id, failure.as_ref());
        }
        self.ack(key, request.result())
    }

    /// The put with which a task goes on in the tube `to` with the body and the options that it has. A
    /// task of a tube without times gets those of the other tube.
    fn put_unchanged(&mut self, key: ClaimKey, to: TubeNo, name: &Arc<str>) -> Result<PutInto> {
        let id = key.id;
        self.check_claim(key)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        let found = self.find(key.tube, id)?;
        let body = self.edit(key.tube, |ledger| ledger.body(id, &found))?;
        let had_times = self.tubes.get(key.tube).is_some_and(|tube| tube.definition.timed);
        let tube = self.tube(to, name)?;
        let mut request = PutRequest::like(&header, Body::new(body));
        if had_times {
            // A tube without times refuses those that a task has, and a priority that is not its own.
            let (is_timed, own) = (tube.definition.timed, tube.definition.policies.priority);
            let ttl = match header.expires_at {
                NEVER => NEVER,
                expires_at => expires_at.saturating_sub(self.now.timeline),
            };
            request.priority = Some(header.priority).filter(|it| is_timed || *it != own);
            request.ttl = Some(ttl).filter(|it| is_timed || *it != NEVER);
            request.ttr = Some(header.ttr).filter(|it| is_timed || *it != NEVER);
        }
        Ok(PutInto { tube: to, name: Arc::clone(name), request })
    }

    /// Ends a task for its holder, gives it back or lets it go on in another tube, and puts tasks.
    fn end_and_put(&mut self, key: ClaimKey, request: &EndRequest) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(end) = request.end.as_end() {
            self.check_delay(number, end)?;
        }
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        // A token is looked up in its tube.
        request.targets().try_for_each(|into| self.tube(into.tube, &into.name).map(drop))?;
        let look_ups = self.look_up_puts(puts_of(request))?;
        let headers = self.headers_after(key, &header, request, &look_ups)?;
        let bytes = request.targets().map(|into| into.request.bytes()).sum();
        self.check_disk_space(number, bytes, headers.len())?;
        let replaced = replaced_tubes(request.puts().iter().map(|into| &into.request), &look_ups);
        let targets = request.targets().map(|into| into.tube);
        let mut numbers: Vec<TubeNo> =
            [number].into_iter().chain(targets).chain(replaced).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut visibility = self.common_visibility(&numbers);
        let children = if request.is_ack() { self.first_children(number, id)? } else { Vec::new() };
        let past = match request.next() {
            Some(next) => self.past_of(number, id, &header, next.tube)?,
            None => None,
        };
        numbers.extend(self.tubes_of(&children));
        if !request.puts().is_empty() {
            let next_id = self.ids.next().saturating_add(request.puts().len() as u64);
            visibility = self.visibility_with_ids(visibility, next_id);
        }
        let past = (&header, past.as_ref());
        let (ended, steps, freed) = self.atomically_in(&numbers, |core| {
            let freed = core.free_first(number, id, &children)?;
            let look_ups = if freed.is_empty() {
                look_ups
            } else {
                // A put may replace a task that is free now.
                core.look_up_puts(puts_of(request))?
            };
            if request.leaves() {
                let left = core.store_end_or_leave(number, id, &header, request)?;
                let steps = core.insert_after(key, past, request, headers, look_ups)?;
                return Ok((Ended::Left(left), steps, freed));
            }
            // Last, since it notes what an edit that fails after it could not take back.
            let steps = core.insert_after(key, past, request, headers, look_ups)?;
            let (kind, fate) = core.edit_fate(key, &request.end, visibility)?;
            Ok((Ended::Stays(kind, fate), steps, freed))
        })?;
        if request.leaves() {
            self.free_others(number, id, &children);
            self.count_ack(number, id);
        }
        self.remove_claim(id);
        for (step, into) in steps.iter().zip(request.targets()) {
            if let Step::New(task) = step {
                self.occupy(into.tube);
                if task.id != id {
                    self.note_id(task.id, false);
                }
            }
        }
        match request.result() {
            Some(result) => self
                .note_ending_as(visibility, id, || Ending::Done { result: Some(result.to_vec()) }),
            None if request.next().is_some() => self.note_freed(number, &header),
            None => {}
        }
        let state = match steps.last() {
            Some(Step::New(task)) if task.id == id => task.to,
            _ => ended.state(),
        };
        let decided = self.decided(number, visibility, |commit| Receipt { id, state, commit });
        let mut wait = decided.wait;
        self.publish_together(|core| {
            let is_kept = core.make_end_visible((number, id), ended, visibility);
            for change in freed {
                core.make_visible(change, visibility);
            }
            for (step, into) in steps.into_iter().zip(request.targets()) {
                match step {
                    Step::New(change) => core.make_visible(change, visibility),
                    Step::Kept(kept) => wait = Wait::later(kept.wait, wait.take()),
                    Step::Replaced(replacement) => {
                        core.finish_replacement(into.tube, replacement, visibility);
                    }
                }
            }
            if is_kept {
                core.trim(number, Shelf::Done, visibility);
            }
        });
        Ok(Decided { answer: decided.answer, wait })
    }

    /// Returns whether the task is done and kept.
    fn make_end_visible(
        &mut self,
        task: (TubeNo, u64),
        ended: Ended,
        visibility: Visibility,
    ) -> bool {
        match ended {
            Ended::Left(change) => {
                let is_kept = change.keeping == Keeping::Kept;
                self.make_visible(change, visibility);
                is_kept
            }
            Ended::Stays(kind, fate) => {
                self.make_fate_visible(task, kind, TaskState::Taken, fate, visibility);
                false
            }
        }
    }

    /// Edits the rows of a task that its holder gives back or buries. The caller removes the claim, and
    /// makes the change visible.
    pub(super) fn edit_fate(
        &mut self,
        key: ClaimKey,
        end: &TaskEnd,
        visibility: Visibility,
    ) -> Result<(EventKind, Fate)> {
        let ClaimKey { tube: number, id, .. } = key;
        let claim = self.claims.get(id).ok_or(Error::NotTaken { id })?;
        let (header, owner) = (claim.header.clone(), self.label_of(claim));
        let rules = self.rules(number)?;
        let (mut fate, kind) = match (end, end.as_end()) {
            (_, Some(end)) => (rules.fate(id, header, end), end.kind()),
            (TaskEnd::Bury(failure), None) => {
                (rules.bury(header, failure.clone(), FailureKind::Call), EventKind::Bury)
            }
            (_, None) => return Err(Error::invalid("the task leaves its tube")),
        };
        if fate.is_plain() {
            let entry = Entry::new(kind, TaskState::Ready);
            self.write_header(id, number, &mut fate.header, Some(entry))?;
        } else {
            let found = self.find(number, id)?;
            self.carry_out_fate((number, id), &found, kind, &mut fate, owner, visibility)?;
        }
        Ok((kind, fate))
    }

    /// Checks the tasks of an end and returns their headers: those of the new ones, then that of
    /// the one that goes on. Edits nothing.
    fn headers_after(
        &self,
        ClaimKey { tube: number, id, .. }: ClaimKey,
        header: &Header,
        asked: &EndRequest,
        look_ups: &[Option<LookUp>],
    ) -> Result<Vec<Header>> {
        // The first task that is put into the tube of one that leaves it takes its place.
        let mut before: BTreeMap<TubeNo, u64> = BTreeMap::new();
        let (mut keys, mut tokens) = (HashSet::new(), HashSet::new());
        let look_ups = look_ups.iter().map(Option::as_ref).chain([None]);
        let targets = asked.targets().zip(look_ups);
        let headers = targets.map(|(PutInto { tube: to, name, request }, look_up)| {
            let tube = self.tube(*to, name)?;
            self.check_one_buffer(number, *to)?;
            let header = self.new_header(*to, request, None)?;
            let is_repeated = request.key.as_deref().is_some_and(|key| !keys.insert(key));
            let token = request.idempotency_key.as_deref().map(|token| (*to, token));
            let needs_place = match look_up {
                Some(LookUp::Seen(_)) => false,
                _ if token.is_some_and(|token| tokens.contains(&token)) => false,
                Some(LookUp::Key(KeyLookUp::Task(keyed))) if keyed.id != id => {
                    request.on_key == OnKey::Replace && keyed.needs_place(*to)
                }
                // It keeps its key.
                Some(LookUp::Key(KeyLookUp::Task(_))) if !asked.is_ack() => false,
                _ => !is_repeated,
            };
            // One that keeps the task with its key may remember nothing.
            if request.key.is_none() || request.on_key != OnKey::Keep {
                tokens.extend(token);
            }
            if !needs_place {
                return Ok(header);
            }
            let (before, freed) =
                (before.entry(*to).or_default(), u64::from(*to == number && asked.leaves()));
            if *before >= freed {
                let driver = tube.driver(|| self.tubes.known_drivers())?;
                tube.check_capacity(driver, *before - freed)?;
            }
            *before += 1;
            Ok(header)
        });
        let mut headers = headers.collect::<Result<Vec<Header>>>()?;
        if let (Some(next), Some(advanced)) = (asked.next(), headers.last_mut()) {
            if next.request.idempotency_key.is_some() {
                return Err(Error::invalid(
                    "a task that goes on is not put, so that it cannot have an idempotency key; leave it out",
                ));
            }
            advanced.created = header.created;
            keep_key(header, advanced)?;
            keep_tags(header, advanced);
            keep_traceparent(header, advanced);
            keep_schedule(header, advanced);
        }
        Ok(headers)
    }

    /// Stores the end of a task, or removes it from its tube if it goes on.
    fn store_end_or_leave(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &Header,
        asked: &EndRequest,
    ) -> Result<Change> {
        let from = TaskState::Taken;
        if let Some(next) = asked.next() {
            self.move_children(number, id, next.tube)?;
            self.edit(number, |ledger| ledger.remove(id, Shelf::Ready, header))?;
            return Ok(self.leave(number, id, EventKind::Advance, from, header.clone()));
        }
        let (kind, to) = (EventKind::Ack, TaskState::Done);
        let task = (number, id);
        let keeping = self.store_end(task, kind, Shelf::Ready, header, asked.result())?;
        let end = self.change(number, id, kind, Some(from), to, Some(header.clone()));
        Ok(Change { keeping, ..end })
    }

    /// Stores the new tasks, and the one that goes on.
    fn insert_after(
        &mut self,
        ClaimKey { tube: number, id, .. }: ClaimKey,
        (header, past): (&Header, Option<&Past>),
        asked: &EndRequest,
        mut headers: Vec<Header>,
        look_ups: Vec<Option<LookUp>>,
    ) -> Result<Vec<Step>> {
        // First, since the others may wait for it.
        let next = asked.next().and_then(|next| Some((next, headers.pop()?)));
        let arrival = match next {
            Some((next, header)) => {
                self.tubes.note_stray(next.tube);
                let (task, kind) = ((next.tube, id), EventKind::Advance);
                Some(Step::New(self.insert_task_as(task, kind, &next.request, header, past)?))
            }
            None => None,
        };
        let mut steps = Vec::with_capacity(headers.len() + 1);
        let mut ids = self.ids.check();
        let own_key = key_of(header).map(|key| &**key);
        let kept_key = own_key.filter(|_| !asked.is_ack());
        // The keys whose tasks this call has changed.
        let mut keys: HashSet<&str> = own_key.into_iter().collect();
        let mut tokens = HashSet::new();
        let puts = asked.puts().iter().zip(look_ups).zip(headers);
        for ((PutInto { tube, request, .. }, look_up), header) in puts {
            let token = request.idempotency_key.as_deref();
            let is_repeated = token.is_some_and(|token| !tokens.insert((*tube, token)));
            let look_up = match request.key.as_deref() {
                _ if matches!(look_up, Some(LookUp::Seen(_))) => look_up,
                Some(key) if kept_key == Some(key) => {
                    steps.push(Step::Kept(self.over_kept_key(number, id, request, key)?));
                    continue;
                }
                Some(key) if !keys.insert(key) => self.look_up_put_again(*tube, request)?,
                _ if is_repeated => self.look_up_put_again(*tube, request)?,
                _ => look_up,
            };
            steps.push(match self.put_over(*tube, request, look_up, None)? {
                Some(step) => step,
                None => {
                    let new_id = ids.assign(&self.ids, request.id)?;
                    Step::New(self.insert_task(*tube, new_id, request, header)?)
                }
            });
        }
        steps.extend(arrival);
        Ok(steps)
    }

    /// A put with the key of the task, which keeps it: the task cannot be replaced.
    fn over_kept_key(
        &self,
        number: TubeNo,
        id: u64,
        request: &PutRequest,
        key: &str,
    ) -> Result<Decided<Receipt>> {
        let state = TaskState::Taken;
        if request.on_key != OnKey::Keep {
            return Err(Error::KeyInUse { key: key.to_owned(), id, state });
        }
        Ok(Decided { answer: self.memory_receipt(number, id, state), wait: None })
    }
}

/// The puts that follow an end, each with its tube.
fn puts_of(asked: &EndRequest) -> impl Iterator<Item = (TubeNo, &PutRequest)> {
    asked.puts().iter().map(|into| (into.tube, &into.request))
}

/// A task that goes on keeps its tags, unless it gets others.
fn keep_tags(header: &Header, advanced: &mut Header) {
    if let (Some(more), []) = (&header.more, advanced.tags()) {
        advanced.edit_more(|advanced| advanced.tags = more.tags.clone());
    }
}

/// A task that goes on stays in its trace, unless it gets another place.
fn keep_traceparent(header: &Header, advanced: &mut Header) {
    if let (Some(traceparent), None) = (header.traceparent(), advanced.traceparent()) {
        advanced.edit_more(|advanced| advanced.traceparent = Some(traceparent));
    }
}

/// A run of a schedule that goes on is one still.
fn keep_schedule(header: &Header, advanced: &mut Header) {
    if let Some(spawned_by) = header.more.as_ref().and_then(|more| more.spawned_by) {
        advanced.edit_more(|more| more.spawned_by = Some(spawned_by));
    }
}

/// A task that goes on keeps its key. Refuses another one.
fn keep_key(header: &Header, advanced: &mut Header) -> Result<()> {
    let key = key_of(header);
    if let Some(named) = key_of(advanced)
        && key != Some(named)
    {
        return Err(Error::invalid(format!(
            "a task that goes on keeps its key, so that it cannot get the key {named:?}; leave it out"
        )));
    }
    advanced.edit_more(|more| more.key = key.cloned());
    Ok(())
}
