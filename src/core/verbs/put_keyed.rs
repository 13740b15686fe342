//! Puts of tasks with a key.

use std::collections::HashSet;
use std::sync::Arc;

use super::keys::{KeyLookUp, Keyed};
use super::put::IdCheck;
use super::replace::Replacement;
use crate::commit::Change;
use crate::core::state::{Core, Decided, PutRequest, Wait};
use crate::{Error, OnKey, Receipt, Result};

/// What became of a task of a call that puts several.
enum Step {
    New(Change),
    Kept(Decided<Receipt>),
    Replaced(Replacement),
}

/// A call that puts several tasks, as far as it has got.
struct Steps<'a> {
    ids: IdCheck,
    /// How many places of the capacity the tasks so far take up.
    places: u64,
    /// The keys of the tasks so far.
    keys: HashSet<&'a str>,
}

impl Core {
    /// Puts a task with a key. `is_next`: it has waited for capacity, and there is some.
    pub(super) fn put_with_key(
        &mut self,
        number: u32,
        request: &PutRequest,
        key: &Arc<str>,
        is_next: bool,
    ) -> Result<Decided<Receipt>> {
        let places = if is_next { None } else { Some(0) };
        self.tubes.get(&number).ok_or(Error::Closed)?.check_put(request)?;
        match self.live_key(key)? {
            KeyLookUp::Free(left_over) => {
                if !is_next {
                    self.check_no_waiting_put(number)?;
                }
                self.clear_key(number, key, left_over);
                self.put_new(number, request)
            }
            KeyLookUp::Task(keyed) => match request.on_key {
                OnKey::Reject => Err(self.key_in_use(key, &keyed)),
                OnKey::Keep => Ok(self.keep_keyed(&keyed)),
                OnKey::Replace => self.replace(number, request, keyed, places),
            },
        }
    }

    /// Puts a task with the key of a task that exists, and replaces that.
    pub(in crate::core) fn requeue(
        &mut self,
        number: u32,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        self.tubes.get(&number).ok_or(Error::Closed)?.check_put(request)?;
        let Some(key) = &request.key else { return Err(Error::invalid("requeue needs a key")) };
        match self.live_key(key)? {
            KeyLookUp::Task(keyed) => self.replace(number, request, keyed, Some(0)),
            KeyLookUp::Free(_) => Err(Error::KeyNotFound { key: key.to_string() }),
        }
    }

    /// Puts all of these tasks, or none. Some of them have a key. A task is seen by those behind it.
    pub(super) fn put_many_with_keys(
        &mut self,
        number: u32,
        requests: &[PutRequest],
    ) -> Result<Decided<Vec<Receipt>>> {
        // Expired tasks are removed before the edits of the call.
        let mut look_ups = Vec::with_capacity(requests.len());
        for request in requests {
            self.tubes.get(&number).ok_or(Error::Closed)?.check_put(request)?;
            let look_up = request.key.as_deref().map(|key| self.live_key(key));
            look_ups.push(look_up.transpose()?);
        }
        let bytes = requests.iter().map(PutRequest::bytes).sum();
        self.check_disk_space(number, bytes, requests.len())?;
        let mut so_far = Steps { ids: self.id_check(), places: 0, keys: HashSet::new() };
        let steps = self.atomically(number, |core| {
            let puts = requests.iter().zip(look_ups);
            let steps =
                puts.map(|(request, look_up)| core.put_step(number, request, look_up, &mut so_far));
            let steps = steps.collect::<Result<Vec<Step>>>()?;
            if so_far.places > 0 {
                core.check_no_waiting_put(number)?;
            }
            Ok(steps)
        })?;
        Ok(self.finish_steps(number, requests, steps))
    }

    /// Makes the edits of one task.
    fn put_step<'a>(
        &mut self,
        number: u32,
        request: &'a PutRequest,
        look_up: Option<KeyLookUp>,
        so_far: &mut Steps<'a>,
    ) -> Result<Step> {
        let look_up = match request.key.as_deref() {
            Some(key) if !so_far.keys.insert(key) => Some(self.look_up_key(key)?),
            _ => look_up,
        };
        match (look_up, &request.key) {
            (Some(KeyLookUp::Task(keyed)), Some(key)) => match request.on_key {
                OnKey::Reject => Err(self.key_in_use(key, &keyed)),
                OnKey::Keep => Ok(Step::Kept(self.keep_keyed(&keyed))),
                OnKey::Replace => self.replace_step(number, request, keyed, so_far),
            },
            (free, key) => {
                if let (Some(KeyLookUp::Free(left_over)), Some(key)) = (free, key) {
                    self.clear_key(number, key, left_over);
                }
                let header = self.new_header(number, request, Some(so_far.places))?;
                so_far.places += u64::from(!request.is_done());
                let id = so_far.ids.assign(&self.restored, request)?;
                Ok(Step::New(self.insert_task(number, id, request, header)?))
            }
        }
    }

    fn replace_step(
        &mut self,
        number: u32,
        request: &PutRequest,
        keyed: Keyed,
        so_far: &mut Steps<'_>,
    ) -> Result<Step> {
        let header = self.replaced_header(number, request, &keyed, Some(so_far.places))?;
        so_far.places += u64::from(keyed.takes_no_place());
        Ok(Step::Replaced(self.store_replacement(number, request, keyed, header)?))
    }

    /// Makes all changes of a call visible, in order.
    fn finish_steps(
        &mut self,
        number: u32,
        requests: &[PutRequest],
        steps: Vec<Step>,
    ) -> Decided<Vec<Receipt>> {
        for (step, request) in steps.iter().zip(requests) {
            if let Step::New(change) = step {
                self.note_id(change.id, request.id.is_some());
            }
        }
        let visibility = self.put_visibility(number, self.ids.next);
        let mut receipts = Decided { answer: Vec::with_capacity(steps.len()), wait: None };
        let has_changed = steps.iter().any(|step| !matches!(step, Step::Kept(_)));
        let own = has_changed.then(|| self.decided(number, visibility, |commit| commit));
        let commit = own.as_ref().map_or(0, |own| own.answer);
        self.publish_together(|core| {
            for (step, request) in steps.into_iter().zip(requests) {
                let receipt = match step {
                    Step::New(change) => {
                        let receipt = Receipt { id: change.id, state: change.to, commit };
                        core.make_put_visible(change, visibility);
                        receipt
                    }
                    Step::Replaced(replacement) => {
                        let (id, state) = (replacement.id(), replacement.state());
                        core.finish_replacement(number, replacement, visibility);
                        Receipt { id, state, commit }
                    }
                    Step::Kept(kept) => {
                        receipts.wait = Wait::later(kept.wait, receipts.wait.take());
                        kept.answer
                    }
                };
                receipts.answer.push(receipt);
                if let Some(state) = request.restored_as {
                    core.trim(number, state.shelf(), visibility);
                }
            }
        });
        receipts.wait = Wait::later(own.and_then(|own| own.wait), receipts.wait);
        receipts
    }
}
