//! Events of changes: the change, and where it comes from.
//!
//! A claim has left memory before the change that ends it is visible. So its owner and the cause of
//! its end are noted until then, if there are readers of events. Invariant: only tasks with changes
//! that are not yet visible have such a note.

use std::sync::Arc;

use super::state::{ClaimState, Core, TubeState};
use super::verbs::key_of;
use crate::commit::Change;
use crate::events::QueuedEvent;
use crate::task::Progress;
use crate::{Event, EventKind, State};

impl Core {
    /// Whether events of a tube may have a reader.
    fn has_event_readers(&self, number: u32) -> bool {
        !self.wanted_events.is_empty()
            || self.tubes.get(&number).is_some_and(|tube| tube.callback.is_some())
    }

    /// Notes the owner of a claim that has left memory, for the readers of events.
    pub(super) fn note_owner(&mut self, id: u64, claim: &ClaimState) {
        let (owner, key) = (self.label_of(claim), key_of(&claim.header).cloned());
        let origin = self.origins.entry(id).or_default();
        (origin.owner, origin.key) = (owner, key);
    }

    /// Notes why a claim has ended, or that no more is to be said than the kind does.
    pub(super) fn note_cause<T: Into<Arc<str>>>(&mut self, number: u32, id: u64, cause: Option<T>) {
        if self.has_event_readers(number) {
            self.origins.entry(id).or_default().cause = cause.map(Into::into);
        }
    }

    /// Notes the key of a task whose change has no header.
    pub(super) fn note_key(&mut self, number: u32, id: u64, key: Option<&Arc<str>>) {
        if let Some(key) = key
            && self.has_event_readers(number)
        {
            self.origins.entry(id).or_default().key = Some(key.clone());
        }
    }

    /// Forgets what was noted of a task, unless it has changes that are not yet visible.
    #[inline]
    pub(super) fn forget_origin(&mut self, id: u64) {
        if !self.origins.is_empty() && !self.invisible.contains_key(&id) {
            self.origins.remove(&id);
        }
    }

    /// Queues the event of a change that becomes visible, if it may have a reader.
    pub(super) fn queue_event(&mut self, change: &Change) {
        if self.has_event_readers(change.tube) {
            self.queue_event_of(change);
        }
        if !change.is_intermediate {
            self.forget_origin(change.id);
        }
    }

    /// Queues the event of a progress report.
    pub(super) fn queue_progress(&mut self, number: u32, id: u64, progress: Progress) {
        let Some(tube) = self.tubes.get(&number) else { return };
        if !self.wants(tube, EventKind::Progress) {
            return;
        }
        let claim = self.claims.get(&id);
        let event = Event {
            tube: tube.definition.name.clone(),
            id,
            kind: EventKind::Progress,
            state: State::Taken,
            key: claim.and_then(|claim| key_of(&claim.header)).cloned(),
            owner: claim.and_then(|claim| self.label_of(claim)),
            cause: None,
            progress: Some(progress),
            missed: 0,
            seq: 0,
        };
        let callback = tube.callback.clone();
        self.effects.events.push(QueuedEvent { event, callback });
    }

    /// Checks that no origin is noted of a task whose changes are visible.
    pub(super) fn check_origins(&self, findings: &mut Vec<String>) {
        for id in self.origins.keys().filter(|id| !self.invisible.contains_key(id)) {
            findings.push(format!("the origin of changes of task {id} is kept, which are visible"));
        }
    }

    fn queue_event_of(&mut self, change: &Change) {
        let Some(tube) = self.tubes.get(&change.tube) else { return };
        if self.wants(tube, change.kind) {
            let event = self.event_of(tube, change);
            let callback = tube.callback.clone();
            self.effects.events.push(QueuedEvent { event, callback });
        }
        if change.is_intermediate
            && let Some(header) = &change.header
        {
            // The change that follows may have no header.
            self.note_key(change.tube, change.id, key_of(header));
        }
    }

    fn wants(&self, tube: &TubeState, kind: EventKind) -> bool {
        self.wanted_events.contains(kind) || tube.callback.is_some()
    }

    fn event_of(&self, tube: &TubeState, change: &Change) -> Event {
        let (claim, origin) = (self.claims.get(&change.id), self.origins.get(&change.id));
        let is_of_claim = change.from == Some(State::Taken) || change.to == State::Taken;
        let header = change.header.as_ref().or(claim.map(|claim| &claim.header));
        let key = match header {
            Some(header) => key_of(header).cloned(),
            None => origin.and_then(|origin| origin.key.clone()),
        };
        let owner = match claim {
            _ if !is_of_claim => None,
            Some(claim) => self.label_of(claim),
            None => origin.and_then(|origin| origin.owner.clone()),
        };
        let noted = || origin.and_then(|origin| origin.cause.clone());
        let group = change.header.as_ref().and_then(|header| header.more.as_ref()?.group.clone());
        let cause = match (change.kind, change.to) {
            (EventKind::Update, _) => None,
            (_, State::Buried) => group,
            (EventKind::Lost, State::Taken) => Some("overdue".into()),
            (EventKind::Fail | EventKind::Release | EventKind::Lost, _) => noted(),
            (EventKind::Delete, _) if change.is_intermediate => Some("expired".into()),
            _ => None,
        };
        Event {
            tube: tube.definition.name.clone(),
            id: change.id,
            kind: change.kind,
            state: change.to,
            key,
            owner,
            cause,
            progress: None,
            missed: 0,
            seq: 0,
        }
    }
}
