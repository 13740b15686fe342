//! Tokens: puts that can be made again.

use std::collections::BTreeSet;

use super::{Draft, Micros, Model, State, Status, TaskNo, TubeNo};

/// How long a put is remembered by its token, if it does not say it.
const IDEMPOTENCY_KEY_TIME: Micros = 3_600_000_000;

impl Model {
    /// The task of an earlier put with the token of this one, and its state now. It is done if it has
    /// left the tube.
    pub(super) fn seen(&self, tube: TubeNo, draft: &Draft) -> Option<(TaskNo, State)> {
        let put = self.tokens.get(&(tube, draft.token.clone()?));
        let (id, _) = put.filter(|(_, until)| *until > self.now)?;
        let task = self.tasks.get(id).filter(|task| task.tube == tube);
        let state = task.map_or(State::Done, |task| {
            let is_delayed = matches!(task.status, Status::Delayed { .. });
            let counts = !(is_delayed && task.ttl_from.is_some());
            if counts && task.expires_at <= self.now { State::Done } else { task.state() }
        });
        Some((*id, state))
    }

    /// Remembers a put that has changed something.
    pub(super) fn remember(&mut self, tube: TubeNo, draft: &Draft, id: TaskNo) {
        if let Some(token) = &draft.token {
            let until = self.now.saturating_add(draft.unique_for.unwrap_or(IDEMPOTENCY_KEY_TIME));
            let before = self.tokens.insert((tube, token.clone()), (id, until));
            self.met_tokens.extend(before.map(|_| "forgotten"));
        }
    }

    /// What became of puts whose tokens were known.
    pub fn met_tokens(&self) -> &BTreeSet<&'static str> {
        &self.met_tokens
    }

    pub(super) fn forget_tokens(&mut self, tube: TubeNo) {
        self.tokens.retain(|(of, _), _| *of != tube);
    }
}
