//! Schedules and their runs.

use std::collections::BTreeMap;

use tubewell::expert::Recurrence;
use tubewell::{Overlap, Put, Receipt, Result, Schedule, ScheduleInfo, Tube};

use super::System;
use super::convert::{
    agree, duration, library_moment, micros_or_never, missed_of, model_moment, state_of,
};
use super::reference::{Draft, Micros, Missed, OnKey, RestoredRuns, TaskNo, Terms, TubeNo};
use super::steps::{Action, RestoredRunsTemplate, TaskTemplate, TermsTemplate};

/// All properties of a schedule except the body of its runs.
#[derive(Debug, PartialEq)]
pub(super) struct ScheduleView {
    key: String,
    every: Micros,
    next: Micros,
    due_in: Micros,
    counts: (u64, u64),
    last: Option<TaskNo>,
    times: Option<u64>,
    missed: tubewell::Missed,
    within: Option<Micros>,
    overlap: Overlap,
    priority: Option<u32>,
    ttl: Option<Micros>,
    ttr: Option<Micros>,
    delay: Micros,
    sub_queue: Option<String>,
    max_attempts: Option<u32>,
    max_runtime: Option<u64>,
    tags: Vec<String>,
    size: u64,
    stopped: Option<String>,
}

impl System {
    pub(super) fn act_on_schedules(&mut self, action: Action) {
        match action {
            Action::Schedule { client, tube, key, terms, restored, deferred } => {
                self.schedule(client, tube, &key, (&terms, restored), deferred);
            }
            Action::Reschedule { client, tube, key, terms, deferred } => {
                self.reschedule(client, tube, &key, &terms, deferred);
            }
            Action::ChangeTask { client, tube, key, task, deferred } => {
                self.change_task(client, tube, &key, &task, deferred);
            }
            Action::Unschedule { tube, key, deferred } => self.unschedule(tube, &key, deferred),
            _ => unreachable!("an action on a schedule"),
        }
    }

    fn schedule(
        &mut self,
        client: usize,
        tube: usize,
        key: &str,
        (template, restored): (&TermsTemplate, Option<RestoredRunsTemplate>),
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let all = TermsTemplate {
            every: Some(template.every.unwrap_or(1_000_000)),
            starting: template.starting,
            times: Some(template.times.flatten()),
            missed: Some(template.missed.unwrap_or(Missed::Latest(1))),
            within: Some(template.within.flatten()),
            skips_overlap: Some(template.skips_overlap.unwrap_or(false)),
            put: Some(template.put.clone().unwrap_or_default()),
        };
        let (put, terms) = self.terms(&all, no);
        let (mut schedule, put) = (schedule_of(key, &terms), put.unwrap_or_default());
        let has_id = restored.is_some_and(|it| it.skipped_ids.is_some());
        let restored = restored.map(|RestoredRunsTemplate { skipped_ids, runs, skipped }| {
            let id = skipped_ids.map(|skipped| self.store.admin().next_id().unwrap() + skipped);
            schedule = schedule.clone().restored(id, runs, skipped);
            RestoredRuns { has_id, runs, skipped }
        });
        let got = if deferred {
            handle.to_async().schedule(schedule, put).wait()
        } else {
            handle.schedule(schedule, put)
        };
        if let Some((receipt, placed)) = agree(got, self.model.schedule(no, key, &terms, restored))
        {
            self.record_put(receipt, placed);
        }
    }

    fn reschedule(
        &mut self,
        client: usize,
        tube: usize,
        key: &str,
        template: &TermsTemplate,
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        assert!(template.put.is_none(), "the task is changed by itself");
        let (_, terms) = self.terms(template, no);
        let change = schedule_of(key, &terms);
        let got = if deferred {
            handle.to_async().schedules().change(change).wait()
        } else {
            handle.schedules().change(change)
        };
        self.agree_on_change(got, (no, key), &terms);
    }

    fn change_task(
        &mut self,
        client: usize,
        tube: usize,
        key: &str,
        task: &TaskTemplate,
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let template = TermsTemplate { put: Some(task.clone()), ..TermsTemplate::default() };
        let (put, terms) = self.terms(&template, no);
        let put = put.unwrap_or_default();
        let got = if deferred {
            handle.to_async().schedules().change_task(key, put).wait()
        } else {
            handle.schedules().change_task(key, put)
        };
        self.agree_on_change(got, (no, key), &terms);
    }

    fn agree_on_change(&mut self, got: Result<Receipt>, (tube, key): (TubeNo, &str), to: &Terms) {
        let want = self.model.reschedule(tube, key, to);
        if let Some((receipt, placed)) = agree(got, want) {
            self.record_put(receipt, placed);
        }
    }

    fn unschedule(&mut self, tube: usize, key: &str, deferred: bool) {
        let Some((handle, ..)) = self.tube(0, tube) else { return };
        let got = unschedule(&handle, key, deferred);
        if let Some((receipt, (no, state))) = agree(got, self.model.unschedule(key)) {
            assert_eq!((self.number(receipt.id), state_of(receipt.state)), (no, state));
        }
    }

    /// What a call says of a schedule, for the model, and the task of its runs, for the library.
    fn terms(&self, template: &TermsTemplate, tube: TubeNo) -> (Option<Put>, Terms) {
        let wall = self.model.wall();
        let put = template.put.as_ref().map(|put| {
            let allowed = TaskTemplate {
                key: None,
                on_key: OnKey::Reject,
                token: None,
                not_before: None,
                ..put.clone()
            };
            let put = if put.keep_unsupported { put } else { &allowed };
            self.draft_without_parents(put, tube, 0)
        });
        let (put, draft): (Option<Put>, Option<Draft>) = put.unzip();
        let terms = Terms {
            every: template.every,
            starting: template.starting.map(|moment| moment.at(wall)),
            times: template.times,
            missed: template.missed,
            within: template.within,
            skips_overlap: template.skips_overlap,
            put: draft,
        };
        (put, terms)
    }

    /// Records the ids of the runs that were put with a move of the clock, from this id on. Those
    /// of other tasks are known. Returns their numbers in the model.
    pub(super) fn learn_ids_of_runs(&mut self, first: u64) -> Vec<TaskNo> {
        let mut learned = self.model.take_new_tasks();
        learned.retain(|no| !self.ids.contains_key(no));
        let mut id = first;
        for no in &learned {
            while self.numbers.contains_key(&id) {
                id += 1;
            }
            self.ids.insert(*no, id);
            self.numbers.insert(id, *no);
        }
        learned
    }

    /// All schedules of a tube, page by page. Asserts that they are in the order of their ids, and found
    /// by their keys.
    pub(super) fn actual_schedules(
        &self,
        tube: &Tube,
        limit: usize,
    ) -> BTreeMap<TaskNo, ScheduleView> {
        let (mut all, mut ids, mut after) = (BTreeMap::new(), Vec::new(), None);
        loop {
            let page = tube.schedules().list(after, limit).unwrap();
            assert!(page.items.len() <= limit && page.damaged == 0);
            for info in page.items {
                assert_eq!(tube.schedules().get(&info.key).unwrap().as_ref(), Some(&info));
                ids.push(info.id);
                all.insert(self.number(info.id), self.actual_schedule(info));
            }
            after = page.next;
            if after.is_none() {
                assert!(ids.is_sorted() && ids.len() == all.len(), "{ids:?}");
                return all;
            }
        }
    }

    fn actual_schedule(&self, info: ScheduleInfo) -> ScheduleView {
        let Recurrence::Every(every) = info.recurrence else { panic!("{info:?}") };
        ScheduleView {
            key: info.key,
            every: micros_or_never(every),
            next: model_moment(info.next),
            due_in: micros_or_never(info.due_in),
            counts: (info.runs, info.skipped),
            last: info.last.map(|id| self.number(id)),
            times: info.times,
            missed: info.missed,
            within: info.within.map(micros_or_never),
            overlap: info.overlap,
            priority: info.priority,
            ttl: info.ttl.map(micros_or_never),
            ttr: info.ttr.map(micros_or_never),
            delay: micros_or_never(info.delay),
            sub_queue: info.sub_queue,
            max_attempts: info.max_attempts,
            max_runtime: info.max_runtime.map(micros_or_never),
            tags: info.tags,
            size: info.size,
            stopped: info.stopped,
        }
    }

    pub(super) fn expected_schedules(&self, tube: TubeNo) -> BTreeMap<TaskNo, ScheduleView> {
        let schedules = self.model.schedules(tube);
        let view =
            |(no, task, recur): (TaskNo, &super::reference::Task, &super::reference::Recur)| {
                let recur = recur.clone();
                let view = ScheduleView {
                    key: task.key.clone().unwrap(),
                    every: recur.every,
                    next: recur.next,
                    due_in: recur.due.saturating_sub(self.model.now()),
                    counts: (recur.runs, recur.skipped),
                    last: recur.last,
                    times: recur.times,
                    missed: missed_of(recur.missed),
                    within: recur.within,
                    overlap: overlap_of(recur.skips_overlap),
                    priority: recur.put.priority,
                    ttl: recur.put.ttl,
                    ttr: recur.put.ttr,
                    delay: recur.put.delay,
                    sub_queue: recur.put.sub_queue,
                    max_attempts: recur.put.max_attempts,
                    max_runtime: recur.put.max_runtime,
                    tags: recur.put.tags,
                    size: recur.put.data.len() as u64,
                    stopped: None,
                };
                (no, view)
            };
        schedules.map(view).collect()
    }
}

/// What the terms name.
fn schedule_of(key: &str, terms: &Terms) -> Schedule {
    let every = terms.every.map(|every| Schedule::every(key, duration(every)));
    let mut named = every.unwrap_or_else(|| Schedule::of(key));
    named = terms.starting.map(library_moment).into_iter().fold(named, Schedule::starting);
    named = terms.times.into_iter().fold(named, Schedule::times);
    named = terms.missed.map(missed_of).into_iter().fold(named, Schedule::missed);
    let within = terms.within.map(|within| within.map(duration));
    named = within.into_iter().fold(named, Schedule::within);
    let overlap = terms.skips_overlap.map(overlap_of);
    overlap.into_iter().fold(named, Schedule::overlap)
}

fn overlap_of(skips: bool) -> Overlap {
    if skips { Overlap::Skip } else { Overlap::Allow }
}

fn unschedule(tube: &Tube, key: &str, deferred: bool) -> Result<Receipt> {
    if deferred {
        tube.to_async().schedules().remove(key).wait()
    } else {
        tube.schedules().remove(key)
    }
}
