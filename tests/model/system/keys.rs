//! Tasks by their keys.

use tubewell::OnKey;

use super::System;
use super::convert::{agree, state_of, two_refusals_apply};
use super::reference;
use super::steps::{KEYS, KEYS_OF_RUNS, TaskTemplate};

impl System {
    /// Puts the task anew that has the key of the template, or the first key.
    pub(super) fn requeue(
        &mut self,
        client: usize,
        tube: usize,
        template: &TaskTemplate,
        deferred: bool,
    ) {
        let Some((handle, no, _)) = self.tube(client, tube) else { return };
        let key = template.key.clone().unwrap_or(KEYS[0].to_owned());
        let template = TaskTemplate { key: None, ..template.clone() };
        let (put, mut draft) = self.draft(&template, no, 0);
        (draft.key, draft.on_key) = (Some(key.clone()), reference::OnKey::Replace);
        let got = if deferred {
            handle.to_async().requeue(&key, put).wait()
        } else {
            handle.requeue(&key, put)
        };
        let want = self.model.requeue(no, &draft);
        if !two_refusals_apply(&got, &want)
            && let Some((receipt, placed)) = agree(got, want)
        {
            self.record_put(receipt, placed);
        }
    }

    /// Compares which tasks have which keys.
    #[track_caller]
    pub(super) fn check_keys(&self) {
        for key in KEYS.into_iter().chain(KEYS_OF_RUNS) {
            let got = self.store.by_key(key).unwrap();
            let got = got.map(|it| (it.tube, self.number(it.id), state_of(it.state)));
            let want = self
                .model
                .by_key(key)
                .map(|(no, task)| (self.model.tubes()[&task.tube].name.clone(), no, task.state()));
            assert_eq!(got, want, "the task with the key {key}");
        }
    }
}

pub(super) fn on_key_of(on_key: reference::OnKey) -> OnKey {
    match on_key {
        reference::OnKey::Reject => OnKey::Reject,
        reference::OnKey::Keep => OnKey::Keep,
        reference::OnKey::Replace => OnKey::Replace,
    }
}
