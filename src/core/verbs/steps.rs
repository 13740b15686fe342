//! Durable steps: what the work on a task has finished, stored through the claim.
//!
//! Each call checks the claim first, so a worker whose claim has ended stores nothing and begins
//! nothing. A step is stored once. The first one writes the record, too, which says that the task
//! has steps. What a step causes besides, a put or the wait for tasks, is in the same commit.

use std::slice;

use tubewell_drivers::{NEVER, STEPS_MAX, StepRow, Value, check_step, encode_step};
use xxhash_rust::xxh3::xxh3_64;

use super::keys::KeyLookUp;
use super::put_keyed::replaced_tubes;
use super::tokens::LookUp;
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided, KnownSteps, PutInto, Wait, check_size};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::core::wire::wire_struct;
use crate::values::step::{
    Step, StepKind, check_step_name, named_twice, number as step_number, too_many_steps,
};
use crate::{Error, EventKind, OnKey, Receipt, Result, TaskState};

/// How many bytes of steps an answer has, unless a single one has more.
const LIST_BYTES: usize = 4 << 20;

/// Some steps of a task, by name.
#[derive(Debug)]
pub(crate) struct StepPage {
    pub(crate) steps: Vec<Step>,
    /// How many steps follow them.
    pub(crate) left: usize,
}

wire_struct! { StepPage { steps, left } }

verb! {
    /// Some steps of a task: those whose names follow `after`, or the first ones; at most `most`.
    31 InTube Read: Steps { id: u64, after: Option<Box<str>>, most: Option<usize> } -> StepPage {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Steps {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<StepPage>> {
        core.steps(number, self.id, self.after.as_deref(), self.most.unwrap_or(usize::MAX))
    }
}

verb! {
    /// The value of a step; `None` if it is not stored.
    33 OfClaim Read: ReadStep { name: Box<str> } -> Option<Vec<u8>>
}

verb! {
    /// Stores the value of a step that is not stored.
    34 OfClaim Edit: WriteStep { name: Box<str>, value: Vec<u8> } -> Receipt {
        fn check(&self, limits: Limits) -> Result<()> {
            check_size("value of the step", &self.value, limits.max_body)
        }
    }
}

verb! {
    /// Puts a task, once. Answers its id.
    35 OfClaim Edit: Spawn { name: Box<str>, into: PutInto } -> u64 {
        fn check(&self, limits: Limits) -> Result<()> {
            self.into.request.check(limits.max_body)
        }
    }
}

verb! {
    /// A sleep, which begins with the first call. Answers how long it still lasts. In microseconds.
    36 OfClaim Edit: Sleep { name: Box<str>, time: u64 } -> u64
}

verb! {
    /// Some steps of a task, for its holder: the first ones by name, or those whose names follow.
    38 OfClaim Read: StepsHeld { after: Option<Box<str>> } -> StepPage
}

impl Decide for ReadStep {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Option<Vec<u8>>>> {
        core.check_claim(key)?;
        Ok(match core.stored_step(key, &self.name, StepKind::Value)? {
            None => Decided { answer: None, wait: None },
            value => core.stored_before(key, value),
        })
    }
}

impl Decide for WriteStep {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        let WriteStep { name, value } = self;
        core.check_claim(key)?;
        if core.stored_step(key, name, StepKind::Value)?.is_some() {
            return Err(named_twice(name));
        }
        core.check_disk_space(key.tube, value.len(), 1)?;
        core.add_step(key, name, StepKind::Value, value)
    }
}

impl Decide for Spawn {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<u64>> {
        core.spawn(key, &self.name, &self.into)
    }
}

impl Decide for Sleep {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<u64>> {
        core.sleep(key, &self.name, self.time)
    }
}

impl Decide for StepsHeld {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<StepPage>> {
        core.check_claim(key)?;
        core.steps(key.tube, key.id, self.after.as_deref(), usize::MAX)
    }
}

impl Core {
    /// Puts a task, unless an earlier attempt has put it. Returns its id. The put and the step are
    /// one commit.
    fn spawn(
        &mut self,
        key: ClaimKey,
        name: &str,
        PutInto { tube: to, name: tube_name, request }: &PutInto,
    ) -> Result<Decided<u64>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(value) = self.stored_step(key, name, StepKind::Spawned)? {
            let child = read_number(id, name, &value)?;
            return Ok(self.stored_before(key, child));
        }
        self.tube(*to, tube_name)?.check_put(request)?;
        self.check_one_buffer(number, *to)?;
        let mut look_ups = self.look_up_puts([(*to, request)].into_iter())?;
        if let (Some(Some(LookUp::Key(KeyLookUp::Task(keyed)))), Some(own)) =
            (look_ups.first(), &request.key)
            && keyed.id == id
            && request.on_key == OnKey::Replace
        {
            // It would begin anew, without its steps, while it is worked on.
            return Err(self.key_in_use(own, keyed));
        }
        self.check_disk_space(number, request.bytes(), 2)?;
        self.next_step_number(key)?;
        let mut numbers = vec![number, *to];
        numbers.extend(replaced_tubes(slice::from_ref(request).iter(), &look_ups));
        numbers.sort_unstable();
        numbers.dedup();
        let next_id = self.ids.next().saturating_add(1);
        let visibility = self.visibility_with_ids(self.common_visibility(&numbers), next_id);
        let (put, change) = self.atomically_in(&numbers, |core| {
            let put = core.put_besides(*to, request, look_ups.pop().flatten())?;
            let child = put.id().to_be_bytes();
            let change = core.store_step(key, name, StepKind::Spawned, &child)?;
            Ok((put, change))
        })?;
        let child = put.id();
        self.make_visible(change, visibility);
        let puts = self.finish_steps(*to, slice::from_ref(request), vec![put], visibility);
        let own = self.decided(number, visibility, |_| child);
        Ok(Decided { answer: child, wait: Wait::later(own.wait, puts.wait) })
    }

    /// How long a sleep still lasts, in microseconds. It begins with the first call.
    fn sleep(&mut self, key: ClaimKey, name: &str, time: u64) -> Result<Decided<u64>> {
        self.check_claim(key)?;
        if let Some(value) = self.stored_step(key, name, StepKind::Sleep)? {
            let until = read_number(key.id, name, &value)?;
            let left = until.saturating_sub(self.now.timeline);
            return Ok(self.stored_before(key, if until == NEVER { NEVER } else { left }));
        }
        let until = self.now.timeline.saturating_add(time);
        let added = self.add_step(key, name, StepKind::Sleep, &until.to_be_bytes())?;
        Ok(added.map(|_| time))
    }

    /// The steps of a task whose names follow `after`, or the first ones, by name: as many as fit
    /// into an answer, so that the lock is not held for long. If the last change of the task is not
    /// yet visible, the answer waits for the flush.
    fn steps(
        &mut self,
        number: TubeNo,
        id: u64,
        after: Option<&str>,
        most: usize,
    ) -> Result<Decided<StepPage>> {
        let found = self.find(number, id)?;
        let header = &found.record.header;
        let page =
            self.edit(number, |ledger| ledger.steps_after(id, header, after, most, LIST_BYTES))?;
        let now = self.now.timeline;
        let wall = self.wall.at(now);
        let rows = page.rows.into_iter();
        let steps = rows.map(|(name, row)| decode_step(id, name, &row, now, wall));
        let page = StepPage { steps: steps.collect::<Result<_>>()?, left: page.left };
        Ok(Decided { answer: page, wait: self.wait_of_last_change(number, id) })
    }

    /// The value of a stored step; `None` if it is not stored. Refuses one of another kind.
    pub(in crate::core) fn stored_step(
        &mut self,
        ClaimKey { tube: number, id, .. }: ClaimKey,
        name: &str,
        kind: StepKind,
    ) -> Result<Option<Vec<u8>>> {
        check_step_name(name)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let is_new = |steps: &KnownSteps| !steps.names.contains(&xxh3_64(name.as_bytes()));
        if !claim.header.has_steps() || claim.steps.as_ref().is_some_and(is_new) {
            return Ok(None);
        }
        let header = claim.header.clone();
        let row = self.edit(number, |ledger| ledger.step(id, &header, name))?;
        let Some(row) = row else { return Ok(None) };
        let stored = check_step(id, name, Some(&row))?;
        if stored.kind == kind.byte() {
            return Ok(Some(stored.value.to_vec()));
        }
        let stored = StepKind::from_byte(stored.kind).map_or("?", StepKind::as_str);
        Err(Error::invalid(format!(
            "the step {name:?} is stored as one of kind {stored}, and cannot be one of kind {}; name \
             a new step if the work has changed",
            kind.as_str()
        )))
    }

    /// The answer about a step that is stored: after its flush.
    pub(in crate::core) fn stored_before<T>(
        &self,
        ClaimKey { tube, id, .. }: ClaimKey,
        answer: T,
    ) -> Decided<T> {
        Decided { answer, wait: self.wait_of_last_change(tube, id) }
    }

    /// Stores a further step, and nothing else.
    pub(in crate::core) fn add_step(
        &mut self,
        key: ClaimKey,
        name: &str,
        kind: StepKind,
        value: &[u8],
    ) -> Result<Decided<Receipt>> {
        let change = self.store_step(key, name, kind, value)?;
        Ok(self.apply_change(key.tube, change))
    }

    /// The number of the next step of a task. Refuses more than a task can have. Reads the names of
    /// the steps that earlier attempts have stored, once for each claim.
    pub(in crate::core) fn next_step_number(&mut self, key: ClaimKey) -> Result<u16> {
        let ClaimKey { tube: number, id, .. } = key;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let next = if let Some(steps) = &claim.steps {
            steps.next
        } else {
            let mut steps = KnownSteps::default();
            let header = claim.header.clone();
            steps.next = self.edit(number, |ledger| {
                ledger.visit_step_names(id, &header, |name| {
                    steps.names.insert(xxh3_64(name.as_bytes()));
                })
            })?;
            let next = steps.next;
            if let Some(claim) = self.claims.get_mut(id) {
                claim.steps = Some(steps);
            }
            next
        };
        let number = u16::try_from(next).ok().filter(|_| next < STEPS_MAX);
        number.ok_or_else(too_many_steps)
    }

    /// Writes the rows of a further step. Returns the change of its task. It changes the claim, so
    /// an edit that may fail comes before it.
    fn store_step(
        &mut self,
        key: ClaimKey,
        name: &str,
        kind: StepKind,
        value: &[u8],
    ) -> Result<Change> {
        let ClaimKey { tube: number, id, .. } = key;
        let next = self.next_step_number(key)?;
        let row = encode_step(id, name, StepRow { number: next, kind: kind.byte(), value });
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let header = if claim.header.has_steps() && !self.keeps_history(number, &claim.header) {
            self.edit(number, |ledger| {
                ledger.write_step(id, name, row);
                Ok(())
            })?;
            None
        } else {
            let mut header = claim.header.clone();
            let found = self.find(number, id)?;
            header.edit_more(|more| more.has_steps = true);
            let entry = Entry { text: Some(name), ..Entry::new(EventKind::Step, TaskState::Taken) };
            let before = Some(&found.record.header);
            let entries = self.add_to_history(number, id, before, &mut header, Some(entry));
            self.edit(number, |ledger| {
                ledger.rewrite(id, &found, &header);
                ledger.write_step(id, name, row);
                ledger.write_entries(id, &header, &entries);
                Ok(())
            })?;
            Some(header)
        };
        if let Some(claim) = self.claims.get_mut(id) {
            if let Some(header) = header {
                claim.header = header;
            }
            let steps = claim.steps.get_or_insert_default();
            steps.names.insert(xxh3_64(name.as_bytes()));
            steps.next += 1;
        }
        let taken = TaskState::Taken;
        Ok(self.change(number, id, EventKind::Step, Some(taken), taken, None))
    }
}

impl StepPage {
    /// Adds the steps to those before them. Returns whether these are all.
    pub(crate) fn add_to(self, steps: &mut Vec<Step>) -> bool {
        let is_last = self.left == 0 || self.steps.is_empty();
        steps.extend(self.steps);
        is_last
    }
}

/// Decodes a row of the steps of a task. `now` and `wall` are this moment, on the timeline and on
/// the wall clock.
pub(crate) fn decode_step(id: u64, name: String, row: &Value, now: u64, wall: u64) -> Result<Step> {
    let StepRow { kind, value, .. } = check_step(id, &name, Some(row))?;
    let kind = StepKind::from_byte(kind).ok_or_else(|| unreadable(id, &name))?;
    let value = match kind {
        StepKind::Sleep => match read_number(id, &name, value)? {
            NEVER => NEVER,
            until if until < now => wall.saturating_sub(now - until),
            until => wall.saturating_add(until - now),
        }
        .to_be_bytes()
        .to_vec(),
        _ => value.to_vec(),
    };
    Ok(Step { name, kind, value })
}

/// The row of a step of a task that is restored. `now` and `wall` as in `decode_step`.
pub(super) fn encode_restored(id: u64, number: u16, step: &Step, now: u64, wall: u64) -> Value {
    let until = step_number(&step.value).filter(|_| step.kind == StepKind::Sleep);
    let until = until.map(|until| match until {
        NEVER => NEVER,
        until if until < wall => now.saturating_sub(wall - until),
        until => now.saturating_add(until - wall),
    });
    let until = until.map(u64::to_be_bytes);
    let value = until.as_ref().map_or(step.value.as_slice(), |until| until);
    encode_step(id, &step.name, StepRow { number, kind: step.kind.byte(), value })
}

fn read_number(id: u64, name: &str, value: &[u8]) -> Result<u64> {
    step_number(value).ok_or_else(|| unreadable(id, name))
}

fn unreadable(id: u64, name: &str) -> Error {
    Error::corrupt(format!("task {id}: its step {name:?} cannot be read"))
}
