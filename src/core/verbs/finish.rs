//! Finish: the end of a task, and everything that follows from it, with one commit.
//!
//! A task ends with a result or goes on in another tube (advance), and any number of tasks are put.
//! All checks come before the first edit.

use std::collections::{BTreeMap, HashSet};

use tubewell_drivers::{Header, Shelf};

use super::keys::{KeyLookUp, key_of};
use super::put_keyed::{Step, replaced_tubes};
use super::tokens::LookUp;
use crate::commit::{Change, Keeping};
use crate::core::history::Past;
use crate::core::state::{ClaimKey, Core, Decided, FinishRequest, PutInto, PutRequest, Wait};
use crate::core::verb::{Decide, Limits, verb};
use crate::{Ending, Error, EventKind, OnKey, Receipt, Result, TaskState};

verb! {
    /// Ends a task for its holder, or lets it go on in another tube, and puts tasks.
    11 OfClaim Edit: FinishTask { request: FinishRequest } -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }
    }
}

impl Decide for FinishTask {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.finish(key, &self.request)
    }
}

impl Core {
    /// Ends a task for its holder, or lets it go on in another tube, and puts tasks.
    fn finish(&mut self, key: ClaimKey, finish: &FinishRequest) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        if finish.targets().next().is_none() {
            return self.ack(key, finish.result());
        }
        self.check_claim(key)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        // A token is looked up in its tube.
        finish.targets().try_for_each(|into| self.tube(into.tube, &into.name).map(drop))?;
        let look_ups = self.look_up_puts(puts_of(finish))?;
        let headers = self.headers_after(key, &header, finish, &look_ups)?;
        let bytes = finish.targets().map(|into| into.request.bytes()).sum();
        self.check_disk_space(number, bytes, headers.len())?;
        let replaced = replaced_tubes(finish.puts().iter().map(|into| &into.request), &look_ups);
        let targets = finish.targets().map(|into| into.tube);
        let mut numbers: Vec<u32> = [number].into_iter().chain(targets).chain(replaced).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut visibility = self.common_visibility(&numbers);
        let ends = finish.next().is_none();
        let children = if ends { self.first_children(number, id)? } else { Vec::new() };
        let past = match finish.next() {
            Some(next) => self.past_of(number, id, &header, next.tube)?,
            None => None,
        };
        numbers.extend(self.tubes_of(&children));
        if !finish.puts().is_empty() {
            let next_id = self.ids.next.saturating_add(finish.puts().len() as u64);
            visibility = self.visibility_with_ids(visibility, next_id);
        }
        let (end, steps, freed) = self.atomically_in(&numbers, |core| {
            let freed = core.free_first(number, id, &children)?;
            let look_ups = if freed.is_empty() {
                look_ups
            } else {
                // A put may replace a task that is free now.
                core.look_up_puts(puts_of(finish))?
            };
            let end = core.store_end_or_leave(number, id, &header, finish)?;
            let steps =
                core.insert_after(key, (&header, past.as_ref()), finish, headers, look_ups)?;
            Ok((end, steps, freed))
        })?;
        self.free_others(number, id, &children);
        self.count_ack(number, id);
        self.remove_claim(id);
        for (step, into) in steps.iter().zip(finish.targets()) {
            if let Step::New(task) = step {
                self.occupy(into.tube);
                if task.id != id {
                    self.note_id(task.id, false);
                }
            }
        }
        match finish.result() {
            Some(result) => self
                .note_ending_as(visibility, id, || Ending::Done { result: Some(result.to_vec()) }),
            None if finish.next().is_some() => self.note_freed(number, &header),
            None => {}
        }
        let is_kept = end.keeping == Keeping::Kept;
        let state = match steps.last() {
            Some(Step::New(task)) if task.id == id => task.to,
            _ => end.to,
        };
        let decided = self.decided(number, visibility, |commit| Receipt { id, state, commit });
        let mut wait = decided.wait;
        self.publish_together(|core| {
            core.make_visible(end, visibility);
            for change in freed {
                core.make_visible(change, visibility);
            }
            for (step, into) in steps.into_iter().zip(finish.targets()) {
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

    /// Checks the tasks of a finish and returns their headers: those of the new ones, then that of
    /// the one that goes on. Edits nothing.
    fn headers_after(
        &self,
        ClaimKey { tube: number, id, .. }: ClaimKey,
        header: &Header,
        finish: &FinishRequest,
        look_ups: &[Option<LookUp>],
    ) -> Result<Vec<Header>> {
        // The first task that is put into the tube of the finished one takes its place.
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut keys, mut tokens) = (HashSet::new(), HashSet::new());
        let look_ups = look_ups.iter().map(Option::as_ref).chain([None]);
        let targets = finish.targets().zip(look_ups);
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
                _ => !is_repeated,
            };
            // One that keeps the task with its key may remember nothing.
            if request.key.is_none() || request.on_key != OnKey::Keep {
                tokens.extend(token);
            }
            if !needs_place {
                return Ok(header);
            }
            let (before, freed) = (before.entry(*to).or_default(), u64::from(*to == number));
            if *before >= freed {
                let driver = tube.driver(|| self.known_drivers())?;
                tube.check_capacity(driver, *before - freed)?;
            }
            *before += 1;
            Ok(header)
        });
        let mut headers = headers.collect::<Result<Vec<Header>>>()?;
        if let (Some(next), Some(advanced)) = (finish.next(), headers.last_mut()) {
            if next.request.idempotency_key.is_some() {
                return Err(Error::invalid(
                    "a task that goes on is not put, so that it cannot have an idempotency key; leave it out",
                ));
            }
            advanced.created = header.created;
            keep_key(header, advanced)?;
            keep_tags(header, advanced);
            keep_schedule(header, advanced);
        }
        Ok(headers)
    }

    /// Stores the end of a task, or removes it from its tube if it goes on.
    fn store_end_or_leave(
        &mut self,
        number: u32,
        id: u64,
        header: &Header,
        finish: &FinishRequest,
    ) -> Result<Change> {
        let from = TaskState::Taken;
        if let Some(next) = finish.next() {
            self.move_children(number, id, next.tube)?;
            self.edit(number, |ledger| ledger.remove(id, Shelf::Ready, header))?;
            return Ok(self.leave(number, id, EventKind::Advance, from, header.clone()));
        }
        let (kind, to) = (EventKind::Ack, TaskState::Done);
        let task = (number, id);
        let keeping = self.store_end(task, kind, Shelf::Ready, header, finish.result())?;
        let end = self.change(number, id, kind, Some(from), to, Some(header.clone()));
        Ok(Change { keeping, ..end })
    }

    /// Stores the new tasks, and the one that goes on.
    fn insert_after(
        &mut self,
        ClaimKey { tube: number, id, .. }: ClaimKey,
        (header, past): (&Header, Option<&Past>),
        finish: &FinishRequest,
        mut headers: Vec<Header>,
        look_ups: Vec<Option<LookUp>>,
    ) -> Result<Vec<Step>> {
        // First, since the others may wait for it.
        let next = finish.next().and_then(|next| Some((next, headers.pop()?)));
        let arrival = match next {
            Some((next, header)) => {
                self.note_strays(next.tube);
                let (task, kind) = ((next.tube, id), EventKind::Advance);
                Some(Step::New(self.insert_task_as(task, kind, &next.request, header, past)?))
            }
            None => None,
        };
        let mut steps = Vec::with_capacity(headers.len() + 1);
        let mut ids = self.id_check();
        let own_key = key_of(header).map(|key| &**key);
        let kept_key = own_key.filter(|_| finish.next().is_some());
        // The keys whose tasks this call has changed.
        let mut keys: HashSet<&str> = own_key.into_iter().collect();
        let mut tokens = HashSet::new();
        let puts = finish.puts().iter().zip(look_ups).zip(headers);
        for ((PutInto { tube, request, .. }, look_up), header) in puts {
            let token = request.idempotency_key.as_deref();
            let is_repeated = token.is_some_and(|token| !tokens.insert((*tube, token)));
            let look_up = match request.key.as_deref() {
                _ if matches!(look_up, Some(LookUp::Seen(_))) => look_up,
                Some(key) if kept_key == Some(key) => {
                    steps.push(Step::Kept(self.over_key_of_advanced(number, id, request, key)?));
                    continue;
                }
                Some(key) if !keys.insert(key) => self.look_up_put_again(*tube, request)?,
                _ if is_repeated => self.look_up_put_again(*tube, request)?,
                _ => look_up,
            };
            steps.push(match self.put_over(*tube, request, look_up, None)? {
                Some(step) => step,
                None => {
                    let new_id = ids.assign(&self.restored, request.id)?;
                    Step::New(self.insert_task(*tube, new_id, request, header)?)
                }
            });
        }
        steps.extend(arrival);
        Ok(steps)
    }

    /// A put with the key of the task that goes on, which keeps it: it cannot be replaced.
    fn over_key_of_advanced(
        &self,
        number: u32,
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

/// The puts of a finish, each with its tube.
fn puts_of(finish: &FinishRequest) -> impl Iterator<Item = (u32, &PutRequest)> {
    finish.puts().iter().map(|into| (into.tube, &into.request))
}

/// A task that goes on keeps its tags, unless it gets others.
fn keep_tags(header: &Header, advanced: &mut Header) {
    if let (Some(more), []) = (&header.more, advanced.tags()) {
        advanced.edit_more(|advanced| advanced.tags = more.tags.clone());
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
