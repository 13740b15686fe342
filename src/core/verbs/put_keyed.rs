//! Puts of tasks with a key, and calls that put several tasks of which some have a key or a token.

use std::collections::HashSet;
use std::sync::Arc;

use tubewell_drivers::Shelf;

use super::keys::KeyLookUp;
use super::replace::Replacement;
use super::tokens::LookUp;
use crate::base::id_map::IdMap;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::core::state::{Core, Decided, IdCheck, PutRequest, Wait};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::{Error, OnKey, Receipt, Result};

/// What became of a task of a call that puts several.
pub(super) enum Step {
    New(Change),
    Kept(Decided<Receipt>),
    Replaced(Replacement),
}

impl Step {
    /// The id of the task that is put, kept or replaced.
    pub(super) fn id(&self) -> u64 {
        match self {
            Step::New(change) => change.id,
            Step::Kept(kept) => kept.answer.id,
            Step::Replaced(replacement) => replacement.id(),
        }
    }
}

/// A call that puts several tasks, as far as it has got.
struct Steps<'a> {
    ids: IdCheck,
    /// How many places of the capacity the tasks so far take up.
    places: u64,
    /// The keys of the tasks so far.
    keys: HashSet<&'a str>,
    /// Their tokens.
    tokens: HashSet<&'a str>,
}

impl<'a> Steps<'a> {
    fn new(ids: IdCheck) -> Steps<'a> {
        Steps { ids, places: 0, keys: HashSet::new(), tokens: HashSet::new() }
    }

    /// Adds a task. Returns whether one before it has the same key or token.
    fn note(&mut self, request: &'a PutRequest) -> bool {
        let has_key = request.key.as_deref().is_some_and(|key| !self.keys.insert(key));
        let has_token =
            request.idempotency_key.as_deref().is_some_and(|token| !self.tokens.insert(token));
        has_key || has_token
    }
}

verb! {
    /// Puts a task with the key of a task that exists, and replaces that.
    5 InTube Edit: Requeue { request: PutRequest } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check_requeue(limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Send("requeue"))
        }

        #[cfg(feature = "tracing")]
        fn puts(&mut self) -> &mut [PutRequest] {
            std::slice::from_mut(&mut self.request)
        }

        #[cfg(feature = "tracing")]
        fn id_in(receipt: &Receipt) -> Option<u64> {
            Some(receipt.id)
        }
    }
}

impl Decide for Requeue {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let Requeue { request } = self;
        core.tubes.get(number).ok_or(Error::Closed)?.check_put(request)?;
        if let Some(seen) = core.put_again(number, request)? {
            return Ok(seen);
        }
        let Some(key) = &request.key else { return Err(Error::invalid("requeue needs a key")) };
        match core.live_key(key)? {
            KeyLookUp::Task(keyed) if keyed.found.shelf == Shelf::Recurring => {
                Err(core.key_in_use(key, &keyed))
            }
            KeyLookUp::Task(keyed) => core.replace(number, request, keyed, Some(0)),
            KeyLookUp::Free(_) => Err(Error::KeyNotFound { key: key.to_string() }),
        }
    }
}

impl Core {
    /// Puts a task with a key. `is_next`: it has waited for capacity, and there is some.
    pub(super) fn put_with_key(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
        key: &Arc<str>,
        is_next: bool,
    ) -> Result<Decided<Receipt>> {
        let places = if is_next { None } else { Some(0) };
        self.tubes.get(number).ok_or(Error::Closed)?.check_put(request)?;
        match self.live_key(key)? {
            KeyLookUp::Free(left_over) => {
                if !is_next {
                    self.check_no_waiting_put(number)?;
                }
                self.clear_key(number, key, left_over);
                self.put_new(number, request)
            }
            KeyLookUp::Task(keyed) => match request.on_key_of(&keyed.found) {
                OnKey::Reject => Err(self.key_in_use(key, &keyed)),
                OnKey::Keep => Ok(self.keep_keyed(&keyed)),
                OnKey::Replace => self.replace(number, request, keyed, places),
            },
        }
    }

    /// Puts all of these tasks, or none. Some of them have a key or a token. A task is seen by those
    /// behind it.
    pub(super) fn put_many_with_look_ups(
        &mut self,
        number: TubeNo,
        requests: &[PutRequest],
    ) -> Result<Decided<Vec<Receipt>>> {
        // Expired tasks are removed before the edits of the call.
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        requests.iter().try_for_each(|request| tube.check_put(request))?;
        let look_ups = self.look_up_puts(requests.iter().map(|request| (number, request)))?;
        let is_new = |look_up: &Option<LookUp>| !matches!(look_up, Some(LookUp::Seen(_)));
        let new = requests.iter().zip(&look_ups).filter(|(_, look_up)| is_new(look_up));
        let bytes = new.clone().map(|(request, _)| request.bytes()).sum();
        let count = new.count();
        if count > 0 {
            self.check_disk_space(number, bytes, count)?;
        }
        let mut so_far = Steps::new(self.ids.check());
        let mut numbers = vec![number];
        numbers.extend(replaced_tubes(requests.iter(), &look_ups));
        let steps = self.atomically_in(&numbers, |core| {
            let puts = requests.iter().zip(look_ups);
            let steps =
                puts.map(|(request, look_up)| core.put_step(number, request, look_up, &mut so_far));
            let steps = steps.collect::<Result<Vec<Step>>>()?;
            if so_far.places > 0 {
                core.check_no_waiting_put(number)?;
            }
            Ok(steps)
        })?;
        let visibility = self.common_visibility(&numbers);
        Ok(self.finish_steps(number, requests, steps, visibility))
    }

    /// Makes the edits of one task.
    fn put_step<'a>(
        &mut self,
        number: TubeNo,
        request: &'a PutRequest,
        look_up: Option<LookUp>,
        so_far: &mut Steps<'a>,
    ) -> Result<Step> {
        let has_changed = so_far.note(request);
        let look_up = if has_changed { self.look_up_put_again(number, request)? } else { look_up };
        if let Some(step) = self.put_over(number, request, look_up, Some(&mut so_far.places))? {
            return Ok(step);
        }
        let header = self.new_header(number, request, Some(so_far.places))?;
        so_far.places += u64::from(!request.is_done());
        let id = so_far.ids.assign(&self.ids, request.id)?;
        Ok(Step::New(self.insert_task(number, id, request, header)?))
    }

    /// Makes the edits of the one put of a call that does something else, too.
    pub(super) fn put_besides(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
        look_up: Option<LookUp>,
    ) -> Result<Step> {
        let mut so_far = Steps::new(self.ids.check());
        let step = self.put_step(number, request, look_up, &mut so_far)?;
        if so_far.places > 0 {
            self.check_no_waiting_put(number)?;
        }
        Ok(step)
    }

    /// Makes the edits of a task if it was put before or another one has its key. `None`: the caller
    /// inserts the task. `places`: those of the capacity that the call has taken up; `None` if there is
    /// capacity.
    pub(super) fn put_over(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
        look_up: Option<LookUp>,
        places: Option<&mut u64>,
    ) -> Result<Option<Step>> {
        let look_up = match look_up {
            Some(LookUp::Seen(id)) => return Ok(Some(Step::Kept(self.answer_seen(number, id)?))),
            Some(LookUp::Key(look_up)) => look_up,
            None => return Ok(None),
        };
        let Some(key) = &request.key else { return Ok(None) };
        let keyed = match look_up {
            KeyLookUp::Task(keyed) => keyed,
            KeyLookUp::Free(left_over) => {
                self.clear_key(number, key, left_over);
                return Ok(None);
            }
        };
        match request.on_key_of(&keyed.found) {
            OnKey::Reject => Err(self.key_in_use(key, &keyed)),
            OnKey::Keep => Ok(Some(Step::Kept(self.keep_keyed(&keyed)))),
            OnKey::Replace => {
                let before = places.as_deref().copied();
                let header = self.replaced_header(number, request, &keyed, before)?;
                if let Some(places) = places {
                    *places += u64::from(keyed.needs_place(number));
                }
                let replacement = self.store_replacement(number, request, keyed, header)?;
                Ok(Some(Step::Replaced(replacement)))
            }
        }
    }

    /// Makes all changes of a call visible, in order.
    pub(super) fn finish_steps(
        &mut self,
        number: TubeNo,
        requests: &[PutRequest],
        steps: Vec<Step>,
        visibility: Visibility,
    ) -> Decided<Vec<Receipt>> {
        for (step, request) in steps.iter().zip(requests) {
            if let Step::New(change) = step {
                self.note_id(change.id, request.id.is_some());
            }
        }
        let visibility = self.visibility_with_ids(visibility, self.ids.next());
        let mut receipts = Decided { answer: Vec::with_capacity(steps.len()), wait: None };
        let has_changed = steps.iter().any(|step| !matches!(step, Step::Kept(_)));
        let keeps = steps.iter().any(|step| matches!(step, Step::Kept(_)));
        // A kept task that the call itself has replaced was looked up while its claim stood.
        let mut replaced = IdMap::default();
        let own = has_changed.then(|| self.decided(number, visibility, |commit| commit));
        let commit = own.as_ref().map_or(0, |own| own.answer);
        self.publish_together(|core| {
            for step in steps {
                let receipt = match step {
                    Step::New(change) => {
                        let receipt = Receipt { id: change.id, state: change.to, commit };
                        core.make_put_visible(change, visibility);
                        receipt
                    }
                    Step::Replaced(replacement) => {
                        let (id, state) = (replacement.id(), replacement.state());
                        if keeps {
                            replaced.insert(id, state);
                        }
                        core.finish_replacement(number, replacement, visibility);
                        Receipt { id, state, commit }
                    }
                    Step::Kept(kept) => {
                        receipts.wait = Wait::later(kept.wait, receipts.wait.take());
                        let state = replaced.get(&kept.answer.id).copied();
                        Receipt { state: state.unwrap_or(kept.answer.state), ..kept.answer }
                    }
                };
                receipts.answer.push(receipt);
            }
            // Not before: the oldest one may be any of them.
            for state in requests.iter().filter_map(|request| request.restored_as) {
                core.trim(number, state.shelf(), visibility);
            }
        });
        receipts.wait = Wait::later(own.and_then(|own| own.wait), receipts.wait);
        receipts
    }
}

/// The tubes of the tasks that these puts replace.
pub(super) fn replaced_tubes<'a>(
    puts: impl Iterator<Item = &'a PutRequest>,
    look_ups: &[Option<LookUp>],
) -> impl Iterator<Item = TubeNo> {
    puts.zip(look_ups).filter_map(|(put, look_up)| match look_up {
        Some(LookUp::Key(KeyLookUp::Task(keyed))) if put.on_key == OnKey::Replace => {
            Some(keyed.number)
        }
        _ => None,
    })
}
