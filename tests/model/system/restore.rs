//! Tasks of another store that are put back.

use tubewell::Put;
use tubewell::expert::{LastFailure, Restore};

use super::System;
use super::checks::REPORTED;
use super::convert::{agree, duration, library_moment};
use super::outcomes::result_of;
use super::reference::{self, Draft, Restored, RestoredState, TubeNo};
use super::steps::{FailureTemplate, Group, RestoredTemplate, StateTemplate, TaskTemplate};

impl System {
    pub(super) fn restore_many(
        &mut self,
        client: usize,
        tube: usize,
        templates: &[RestoredTemplate],
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let mut next = self.store.admin().next_id().unwrap();
        let (mut tasks, mut wanted) = (Vec::new(), Vec::new());
        for (extra, template) in templates.iter().enumerate() {
            let (task, restored) = self.restored(template, no, extra);
            next += template.skipped_ids.unwrap_or(0);
            tasks.push(template.skipped_ids.iter().fold(task, |task, _| task.id(next)));
            wanted.push(restored);
            next += 1;
        }
        let got = if deferred {
            handle.to_async().admin().restore_many(tasks).wait()
        } else {
            handle.admin().restore_many(tasks)
        };
        if let Some((receipts, placed)) = agree(got, self.model.restore_many(no, &wanted)) {
            assert_eq!(receipts.len(), placed.len());
            for (receipt, placed) in receipts.into_iter().zip(placed) {
                self.record_put(receipt, placed);
            }
        }
    }

    /// The task to put back, for the library and for the model.
    fn restored(
        &self,
        template: &RestoredTemplate,
        tube: TubeNo,
        extra: usize,
    ) -> (Restore, Restored) {
        let RestoredTemplate { takes, forgiven, .. } = *template;
        let is_open = matches!(template.state, StateTemplate::Open);
        let no_delay = !is_open && !template.put.keep_unsupported;
        let delay = if no_delay { 0 } else { template.put.delay };
        let (put, draft) =
            self.draft(&TaskTemplate { delay, token: None, ..template.put.clone() }, tube, extra);
        let (put, draft) = match template.state {
            StateTemplate::Done { ttl: Some(ttl), .. } => with_ttl(put, draft, ttl),
            _ => (put, draft),
        };
        let mut task = Restore::new(put).takes(takes).forgiven(forgiven);
        let mut failure = None;
        if let Some(recorded) = &template.failure {
            let (library, model) = self.recorded(recorded);
            task = task.failure(library);
            failure = Some(model);
        }
        let state = match &template.state {
            StateTemplate::Open => RestoredState::Open,
            StateTemplate::Buried { group } => {
                let group = group.map(Group::name);
                task = group.iter().cloned().fold(task.buried(true), Restore::group);
                RestoredState::Buried { group }
            }
            StateTemplate::Done { size, .. } => {
                let result = size.map(|size| result_of(self.steps, size));
                task = task.done(result.clone());
                RestoredState::Done { result }
            }
        };
        let put_at = template.put_at.map(|moment| moment.at(self.model.wall()));
        task = put_at.map(library_moment).into_iter().fold(task, Restore::put_at);
        let has_id = template.skipped_ids.is_some();
        (task, Restored { draft, has_id, takes, forgiven, failure, put_at, state })
    }

    /// A failure that was recorded in another store.
    fn recorded(&self, template: &FailureTemplate) -> (LastFailure, reference::LastFailure) {
        let message = format!("{REPORTED} elsewhere in step {}", self.steps);
        let owner = Some("elsewhere".to_owned());
        let model = reference::LastFailure {
            kind: "reported",
            group: template.group.name(),
            message: Some(message.clone()),
            attempt: template.attempt,
            owner: owner.clone(),
            at: self.model.now() - template.ago,
        };
        let mut library = LastFailure::new(template.group.name(), message, template.attempt);
        (library.owner, library.ago) = (owner, duration(template.ago));
        (library, model)
    }
}

fn with_ttl(put: Put, draft: Draft, ttl: reference::Micros) -> (Put, Draft) {
    (put.ttl(duration(ttl)), Draft { ttl: Some(ttl), ..draft })
}
