//! Puts, and verbs on existing tasks.

use std::time::Duration;

use tubewell::{Claim, Failure, Filter, Outcome, Put, Receipt, Result, Tube};

use super::checks::REPORTED;
use super::convert::{
    agree, agree_on_one, agree_on_receipt, agree_on_receipts, agree_on_touch, duration,
    library_moment, library_state, state_of, two_refusals_apply,
};
use super::edits::edit;
use super::keys::on_key_of;
use super::outcomes::{forget, kick_task, resolve, result_of};
use super::reference::{
    self, Answer, ClaimNo, Draft, Holder, Micros, Model, Refusal, State, Taken, TaskNo, TubeNo,
};
use super::steps::{Among, ByClaim, ById, Choice, Group, Pick, TaskTemplate};
use super::watches::ending_of;
use super::{HeldClaim, System};

impl System {
    /// The task to put, for the library and for the model. `extra` makes the bodies of one step
    /// differ.
    pub(super) fn draft(
        &self,
        template: &TaskTemplate,
        tube: TubeNo,
        extra: usize,
    ) -> (Put, Draft) {
        let (mut put, mut draft) = self.draft_without_parents(template, tube, extra);
        if self.steps.is_multiple_of(3) {
            let traceparent = format!("00-{:032x}-{:016x}-01", self.steps + 1, extra + 1);
            put = put.traceparent(traceparent.as_str());
            draft.traceparent = Some(traceparent);
        }
        self.with_parents(put, draft, template)
    }

    /// As `draft`, for a task that waits for no other and belongs in no trace.
    pub(super) fn draft_without_parents(
        &self,
        template: &TaskTemplate,
        tube: TubeNo,
        extra: usize,
    ) -> (Put, Draft) {
        let driver = self.model.tubes()[&tube].driver;
        let (timed, sub_queued) = (
            template.keep_unsupported || driver.timed(),
            template.keep_unsupported || driver.sub_queued(),
        );
        let wall = self.model.wall();
        let mut data = format!("{}.{extra}", self.steps).into_bytes();
        data.resize(template.size, b'-');
        let draft = Draft {
            data,
            priority: template.priority.filter(|_| timed),
            ttl: template.ttl.filter(|_| timed),
            ttr: template.ttr.filter(|_| timed),
            delay: if timed { template.delay } else { 0 },
            not_before: template.not_before.filter(|_| timed).map(|moment| moment.at(wall)),
            sub_queue: template.sub_queue.clone().filter(|_| sub_queued),
            max_attempts: template.max_attempts,
            max_runtime: template.max_runtime.filter(|_| timed),
            key: template.key.clone(),
            on_key: template.on_key,
            token: template.token.clone(),
            unique_for: template.unique_for.filter(|_| template.token.is_some()),
            traceparent: None,
            tags: template.tags.clone(),
            after: reference::After::default(),
        };
        let mut put = Put::new(draft.data.clone().into()).delay(duration(draft.delay));
        if let Some(priority) = draft.priority {
            put = put.priority(priority);
        }
        if let Some(ttl) = draft.ttl {
            put = put.ttl(duration(ttl));
        }
        if let Some(ttr) = draft.ttr {
            put = put.ttr(duration(ttr));
        }
        if let Some(limit) = draft.max_attempts {
            put = put.max_attempts(limit);
        }
        if let Some(most) = draft.max_runtime {
            put = put.max_runtime(duration(most));
        }
        if let Some(moment) = draft.not_before {
            put = put.not_before(library_moment(moment));
        }
        if let Some(name) = &draft.sub_queue {
            put = put.sub_queue(name.as_str());
        }
        if let Some(key) = &draft.key {
            put = put.key(key.as_str()).on_key(on_key_of(draft.on_key));
        }
        if let Some(token) = &draft.token {
            put = put.idempotency_key(token.as_str());
        }
        if let Some(time) = draft.unique_for {
            put = put.unique_for(duration(time));
        }
        put = draft.tags.iter().fold(put, |put, tag| put.tag(tag.as_str()));
        (put, draft)
    }

    pub(super) fn put(
        &mut self,
        client: usize,
        tube: usize,
        template: &TaskTemplate,
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let (put, draft) = self.draft(template, no, 0);
        let mut put_ending = None;
        let got = if deferred {
            handle.to_async().put(put).wait()
        } else if self.steps.is_multiple_of(4) {
            let put = handle.put_and_wait(put, std::time::Duration::ZERO);
            put.map(|(receipt, ending)| {
                put_ending = ending;
                receipt
            })
        } else {
            handle.put(put)
        };
        let want = self.model.put(no, &draft);
        if let Some(ending) = put_ending
            && (draft.key.is_none() && draft.token.is_none())
            && draft.ttl.or(self.model.tubes()[&no].options.ttl) != Some(0)
        {
            let ended = want.as_ref().ok().map(|(task, _)| self.model.ending(no, *task));
            assert_eq!(ended, Some(Ok(Some(ending_of(ending)))));
        }
        if !two_refusals_apply(&got, &want)
            && let Some((receipt, placed)) = agree(got, want)
        {
            self.record_put(receipt, placed);
        }
    }

    pub(super) fn put_many(&mut self, client: usize, tube: usize, templates: &[TaskTemplate]) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let drafts = templates.iter().enumerate();
        let drafts = drafts.map(|(extra, template)| self.draft(template, no, extra));
        let (puts, drafts): (Vec<Put>, Vec<Draft>) = drafts.unzip();
        let (got, want) = (handle.put_many(puts), self.model.put_many(no, &drafts));
        if !two_refusals_apply(&got, &want)
            && let Some((receipts, placed)) = agree(got, want)
        {
            assert_eq!(receipts.len(), placed.len());
            for (receipt, placed) in receipts.into_iter().zip(placed) {
                self.record_put(receipt, placed);
            }
        }
    }

    /// Records the id of a new task. Asserts that ids grow, over all runs of the store. A task that
    /// had the key of the put has its id already.
    pub(super) fn record_put(&mut self, receipt: Receipt, (no, state): (TaskNo, State)) {
        assert_eq!(state_of(receipt.state), state);
        if let Some(id) = self.ids.get(&no) {
            assert_eq!(*id, receipt.id);
            return;
        }
        self.record_id(no, receipt.id);
    }

    pub(super) fn record_id(&mut self, no: TaskNo, new: u64) {
        if let Some((before, id)) = self.ids.last_key_value() {
            assert!(*before < no && *id < new, "id {new} after {id}");
        }
        self.ids.insert(no, new);
        self.numbers.insert(new, no);
    }

    pub(super) fn by_id(&mut self, client: usize, pick: &Pick, verb: ById, deferred: bool) {
        let Some((tube, tube_no, session)) = self.tube(client, pick.tube) else { return };
        if let ById::SetPriority { .. } = verb {
            // A claim has the priority that its task had when it was taken.
            self.poll_waits();
        }
        let pick = Pick { among: among(&verb, pick.among, deferred), ..pick.clone() };
        let (no, id) = self.pick(&pick, tube_no, session);
        let model = &mut self.model;
        let steps = self.steps;
        let later = tube.to_async();
        let (got, want) = match verb {
            ById::Resolve { size } => {
                let result = size.map(|size| result_of(steps, size));
                let got = resolve(&tube, id, result.as_deref(), deferred);
                (got, model.resolve(tube_no, no, result))
            }
            ById::Forget => (forget(&tube, id, deferred), model.forget(tube_no, no)),
            ById::Kick => (kick_task(&tube, id, deferred), model.kick_task(tube_no, no)),
            ById::Bury if deferred => {
                (later.admin().bury(id, None).wait(), model.bury(tube_no, no))
            }
            ById::Bury => (tube.admin().bury(id, None), model.bury(tube_no, no)),
            ById::Delete if deferred => (later.delete(id).wait(), model.delete(tube_no, no)),
            ById::Delete => (tube.delete(id), model.delete(tube_no, no)),
            ById::Revoke => {
                return agree_on_one(tube.admin().revoke(id), model.revoke(tube_no, no));
            }
            ById::DeleteIf { state } => {
                let filter = Filter::from(id).state(library_state(state));
                let got = if deferred {
                    later.admin().delete(filter).wait()
                } else {
                    tube.admin().delete(filter)
                };
                return agree_on_one(got, model.delete_if(tube_no, no, state));
            }
            ById::EditTags { .. }
            | ById::SetPriority { .. }
            | ById::Log
            | ById::Update { .. }
            | ById::Cancel => edit((&tube, id), (model, tube_no, no), &verb, steps, deferred),
            ById::AddParents { of, parents } => {
                return self.add_parents((&tube, tube_no), (no, id), (of, &parents), deferred);
            }
            ById::RemoveParents { parent } => {
                return self.remove_parents((&tube, tube_no), (no, id), parent, deferred);
            }
            ById::MoveTo { to } => {
                return self.move_to(client, (&tube, tube_no), (no, id), to, deferred);
            }
            ById::Peek => {
                if let Some((got, want)) =
                    agree(tube.query().task(id), self.model.peek(tube_no, no))
                {
                    assert_eq!(got.body, want.data);
                    assert_eq!(self.actual_view(&got.info), self.expected_view(want));
                }
                return;
            }
            verb => {
                let holder = Holder { session, claim: None };
                return self.by_holder((&tube, tube_no), (no, id), holder, verb, deferred);
            }
        };
        agree_on_receipt(got, want, id);
    }

    /// The verbs of the holder, which find its claim first.
    fn by_holder(
        &mut self,
        (tube, tube_no): (&Tube, TubeNo),
        (no, id): (TaskNo, u64),
        holder: Holder,
        verb: ById,
        deferred: bool,
    ) {
        let (steps, model) = (self.steps, &mut self.model);
        let (claim, held) = (tube.claimed(id), model.claimed(tube_no, no, holder));
        let (got, want) = match verb {
            ById::Ack => (
                claim.and_then(|claim| ack(claim, deferred)),
                held.and_then(|()| model.ack(tube_no, no, holder)),
            ),
            ById::AckWith { size } => {
                let result = result_of(steps, size);
                let want = held.and_then(|()| model.ack_with(tube_no, no, holder, result.clone()));
                (claim.and_then(|claim| ack_with(claim, result, deferred)), want)
            }
            ById::Release { delay } => (
                claim.and_then(|claim| release(claim, duration(delay), deferred)),
                held.and_then(|()| model.release(tube_no, no, holder, delay)),
            ),
            ById::Fail { delay, group } => {
                let reported = report(group, steps);
                let want = held.and_then(|()| model.fail(tube_no, no, holder, delay, &reported));
                let failure = failure_of(&reported).clone();
                (claim.and_then(|claim| fail(claim, delay, failure, false)), want)
            }
            ById::Snooze { delay } => (
                claim.and_then(|claim| claim.end(Outcome::snooze(duration(delay)))),
                held.and_then(|()| model.snooze(tube_no, no, holder, delay)),
            ),
            ById::BuryWith { group } => {
                let reported = report(group, steps);
                let want = held.and_then(|()| model.bury_with(tube_no, no, holder, &reported));
                let failure = failure_of(&reported).clone();
                (claim.and_then(|claim| claim.bury(failure)), want)
            }
            ById::Touch { by } => {
                let got = claim.and_then(|claim| claim.touch(duration(by)));
                let want = held.and_then(|()| model.touch(tube_no, no, holder, by));
                return agree_on_touch(got, want, id);
            }
            ById::Renew { time_left } => {
                let want = held.and_then(|()| model.renew(tube_no, no, holder, time_left));
                agree(claim.and_then(|claim| claim.renew(duration(time_left))), want);
                return;
            }
            other => unreachable!("{other:?} is no verb of the holder"),
        };
        agree_on_receipt(got, want, id);
    }

    pub(super) fn ack_many(&mut self, client: usize, tube: usize, picks: &[Pick]) {
        let Some((tube, tube_no, session)) = self.tube(client, tube) else { return };
        let picked = picks.iter().map(|pick| self.pick(pick, tube_no, session));
        let picked: Vec<(TaskNo, u64)> = picked.collect();
        let ids: Vec<u64> = picked.iter().map(|(_, id)| *id).collect();
        let holder = Holder { session, claim: None };
        let held: Vec<_> = picked.iter().map(|(no, _)| (tube_no, *no, holder)).collect();
        let want = self.model.ack_many(&held);
        let found: Vec<_> = ids.iter().map(|id| tube.claimed(*id)).collect();
        // Those that are held are acked with one commit.
        let (mut claims, mut answers) = (Vec::new(), Vec::new());
        for claim in found {
            answers.push(claim.map(|claim| claims.push(claim)));
        }
        let mut acked = Claim::end_many(claims, |_| Outcome::done()).unwrap().into_iter();
        let got = answers.into_iter().map(|answer| answer.and_then(|()| acked.next().unwrap()));
        agree_on_receipts(Ok(got.collect()), want, &ids);
    }

    pub(super) fn by_claim(&mut self, claim: Choice, verb: ByClaim) {
        if self.claims.is_empty() {
            return;
        }
        let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
        let HeldClaim { taken, tube, session, claim } =
            self.claims.remove(claim.get(&numbers)).unwrap();
        let holder = Holder { session, claim: Some(taken.claim) };
        let (id, no) = (claim.id(), taken.task);
        let held = |claim| HeldClaim { taken, tube, session, claim };
        let (model, steps) = (&mut self.model, self.steps);
        let (got, want) = match verb {
            ByClaim::Ack { deferred } => (ack(claim, deferred), model.ack(tube, no, holder)),
            ByClaim::AckWith { size, deferred } => {
                let result = result_of(steps, size);
                let want = model.ack_with(tube, no, holder, result.clone());
                (ack_with(claim, result, deferred), want)
            }
            ByClaim::Release { delay } => {
                let got = claim.release_in(duration(delay));
                let release = |model: &mut Model| model.release(tube, no, holder, delay);
                (got, drop_if_refused(model, taken, release))
            }
            ByClaim::Fail { delay, group, deferred } => {
                let failure = report(group, steps);
                let got = fail(claim, delay, failure_of(&failure), deferred);
                (
                    got,
                    drop_if_refused(model, taken, |model| {
                        model.fail(tube, no, holder, delay, &failure)
                    }),
                )
            }
            ByClaim::Snooze { delay, deferred } => {
                let got = if deferred {
                    claim.into_async().end(Outcome::snooze(duration(delay))).wait()
                } else {
                    claim.end(Outcome::snooze(duration(delay)))
                };
                let snooze = |model: &mut Model| model.snooze(tube, no, holder, delay);
                (got, give_back_if_refused(model, taken, snooze))
            }
            ByClaim::BuryWith { group, deferred } => {
                let failure = report(group, steps);
                let got = if deferred {
                    claim.into_async().bury(failure_of(&failure)).wait()
                } else {
                    claim.bury(failure_of(&failure))
                };
                let bury = |model: &mut Model| model.bury_with(tube, no, holder, &failure);
                (got, drop_if_refused(model, taken, bury))
            }
            ByClaim::Bury => (claim.bury(None), model.bury_held(tube, no, holder)),
            ByClaim::Touch { by } => {
                agree_on_touch(claim.touch(duration(by)), model.touch(tube, no, holder, by), id);
                self.claims.insert(taken.claim, held(claim));
                return;
            }
            ByClaim::Log { deferred } => return self.log_held(held(claim), deferred),
            ByClaim::RunStep { name } => return self.run_step(held(claim), name),
            ByClaim::Spawn { name, to } => return self.spawn(held(claim), name, &to),
            ByClaim::Checkpoint { size, deferred } => {
                let mut data = format!("{steps}.checkpoint").into_bytes();
                data.resize(size, b'+');
                let (claim, got) = checkpoint(claim, &data, deferred);
                agree_on_receipt(got, model.checkpoint(tube, no, holder, data), id);
                self.claims.insert(taken.claim, held(claim));
                return;
            }
            ByClaim::Renew { time_left } => {
                agree(claim.renew(duration(time_left)), model.renew(tube, no, holder, time_left));
                self.claims.insert(taken.claim, held(claim));
                return;
            }
            ByClaim::Finish { result, puts, advance, deferred } => {
                let held = held(claim);
                return self.finish_task(held, result, &puts, advance.as_ref(), deferred);
            }
            ByClaim::Park { hold, deferred } => return self.park(held(claim), hold, deferred),
            ByClaim::Drop => {
                drop(claim);
                return model.drop_claim(taken);
            }
            ByClaim::Detach => {
                assert_eq!(claim.detach().info.id, id);
                return;
            }
        };
        agree_on_receipt(got, want, id);
    }

    fn log_held(&mut self, held: HeldClaim, deferred: bool) {
        let text = format!("step {} of a worker", self.steps);
        let HeldClaim { claim, .. } = held;
        let (claim, got) = log(claim, &text, deferred);
        let held = HeldClaim { claim, ..held };
        let (no, id) = (held.taken.task, held.claim.id());
        let holder = Holder { session: held.session, claim: Some(held.taken.claim) };
        agree_on_receipt(got, self.model.log_held((held.tube, no), holder, &text), id);
        self.claims.insert(held.taken.claim, held);
    }

    pub(super) fn ack_claims(&mut self, claims: &[Choice]) {
        let (mut ids, mut held, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for index in claims {
            let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
            if !numbers.is_empty()
                && let Some(one) = self.claims.remove(index.get(&numbers))
            {
                ids.push(one.claim.id());
                let holder = Holder { session: one.session, claim: Some(one.taken.claim) };
                held.push((one.tube, one.taken.task, holder));
                handles.push(one.claim);
            }
        }
        agree_on_receipts(
            Claim::end_many(handles, |_| Outcome::done()),
            self.model.ack_many(&held),
            &ids,
        );
    }
}

fn log(claim: Claim, text: &str, later: bool) -> (Claim, Result<Receipt>) {
    if later {
        let claim = claim.into_async();
        let got = claim.log(text).wait();
        return (claim.into_blocking(), got);
    }
    let got = claim.log(text);
    (claim, got)
}

fn checkpoint(mut claim: Claim, data: &[u8], later: bool) -> (Claim, Result<Receipt>) {
    let got = if later {
        let mut asynchronous = claim.into_async();
        let got = asynchronous.checkpoint(data).wait();
        claim = asynchronous.into_blocking();
        got
    } else {
        claim.checkpoint(data)
    };
    if got.is_ok() {
        assert_eq!(claim.body(), data);
    }
    (claim, got)
}

/// Among which tasks a verb is tried, which may need no claim.
fn among(verb: &ById, among: Among, deferred: bool) -> Among {
    match (verb, among) {
        (_, Among::Schedules) => Among::Schedules,
        (ById::Forget, Among::Held) => Among::Kept,
        (ById::RemoveParents { .. }, Among::Held | Among::EverPut) => Among::Children,
        (
            ById::Bury
            | ById::Kick
            | ById::Delete
            | ById::Resolve { .. }
            | ById::SetPriority { .. }
            | ById::EditTags { .. }
            | ById::Log
            | ById::Update { .. }
            | ById::Cancel
            | ById::DeleteIf { .. }
            | ById::AddParents { .. }
            | ById::Peek
            | ById::MoveTo { .. }
            | ById::Revoke,
            Among::Held | Among::EverPut,
        ) if !deferred => Among::Present,
        (_, among) => among,
    }
}

/// The failure that a worker reports in a step.
fn report(group: Group, step: u64) -> reference::Failure {
    reference::Failure { group: group.name(), message: format!("{REPORTED} in step {step}") }
}

fn failure_of(failure: &reference::Failure) -> Failure {
    Failure::new(failure.group.as_str(), failure.message.as_str())
}

fn ack(claim: Claim, deferred: bool) -> Result<Receipt> {
    if deferred { claim.into_async().ack().wait() } else { claim.ack() }
}

fn ack_with(claim: Claim, result: Vec<u8>, deferred: bool) -> Result<Receipt> {
    if deferred {
        claim.into_async().end(Outcome::result(result)).wait()
    } else {
        claim.end(Outcome::result(result))
    }
}

fn release(claim: Claim, delay: Duration, deferred: bool) -> Result<Receipt> {
    if deferred { claim.into_async().release_in(delay).wait() } else { claim.release_in(delay) }
}

fn fail(claim: Claim, delay: Option<Micros>, failure: Failure, deferred: bool) -> Result<Receipt> {
    match delay.map(duration) {
        None if deferred => claim.into_async().fail(failure).wait(),
        None => claim.fail(failure),
        Some(delay) if deferred => claim.into_async().end(Outcome::fail_in(delay, failure)).wait(),
        Some(delay) => claim.end(Outcome::fail_in(delay, failure)),
    }
}

/// As `drop_if_refused`, for a snooze: the attempt is forgiven all the same.
fn give_back_if_refused(
    model: &mut Model,
    taken: Taken,
    snooze: impl FnOnce(&mut Model) -> Answer<State>,
) -> Answer<State> {
    let want = snooze(model);
    if matches!(want, Err(Refusal::Unsupported)) {
        model.give_back(taken);
    }
    want
}

/// A call that is refused before the claim is looked at, or with a claim that stands, consumes the
/// handle, which drops the claim.
pub(super) fn drop_if_refused<T>(
    model: &mut Model,
    taken: Taken,
    call: impl FnOnce(&mut Model) -> Answer<T>,
) -> Answer<T> {
    use Refusal::{
        Cycle, Full, Invalid, KeyInUse, KeyNotFound, NotFound, TubeNotFound, Unsupported,
    };

    let want = call(model);
    let of_parents = matches!(want, Err(Cycle | KeyNotFound | NotFound | TubeNotFound));
    if of_parents || matches!(want, Err(Unsupported | Invalid | Full | KeyInUse)) {
        model.drop_claim(taken);
    }
    want
}
