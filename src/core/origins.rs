//! Events of changes: the change, and where it comes from.
//!
//! A claim has left memory before the change that ends it is visible. So its owner and the cause of
//! its end are noted until then, also without a reader of events: one may begin meanwhile. Invariant:
//! only tasks with changes that are not yet visible have such a note.

use std::sync::Arc;

use tubewell_drivers::Header;

use super::state::{ClaimState, Core};
use super::verbs::key_of;
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::events::{EventDetails, Facts, QueuedEvent, Tags};
use crate::values::task::Progress;
use crate::{Event, EventKind, TaskState};

/// The maximum bytes of the bodies in the events that are delivered together. One event may have more.
const BYTES_OF_EVENTS: u64 = 4 << 20;

impl Core {
    /// Notes the owner of a claim that has left memory, and what its header says.
    pub(super) fn note_owner(&mut self, id: u64, claim: &ClaimState) {
        let (owner, key, tags) =
            (self.label_of(claim), key_of(&claim.header).cloned(), tags_of(&claim.header));
        let priority = self.asked_priority(&claim.header);
        let says_more = owner.is_some() || key.is_some() || tags.is_some() || priority.is_some();
        if says_more || self.events.origin(id).is_some() {
            let origin = self.events.origin_or_new(id);
            (origin.owner, origin.key, origin.tags) = (owner, key, tags);
            origin.priority = priority;
        }
    }

    /// Notes why a claim has ended, or that no more is to be said than the kind does.
    pub(super) fn note_cause<T: Into<Arc<str>>>(&mut self, id: u64, cause: Option<T>) {
        if let Some(cause) = cause {
            self.events.origin_or_new(id).cause = Some(cause.into());
        } else if let Some(origin) = self.events.origin_mut(id) {
            origin.cause = None;
        }
    }

    /// Notes what a header says of a task whose change has none: its key and its tags.
    pub(super) fn note_header(&mut self, id: u64, header: &Header) {
        let (key, tags) = (key_of(header).cloned(), tags_of(header));
        let priority = self.asked_priority(header);
        if key.is_some() || tags.is_some() || priority.is_some() {
            let origin = self.events.origin_or_new(id);
            (origin.key, origin.tags, origin.priority) = (key, tags, priority);
        }
    }

    /// The priority of a task, if a filter asks for details.
    fn asked_priority(&self, header: &Header) -> Option<u32> {
        self.events.readers.some_ask_for_details().then_some(header.priority)
    }

    /// Forgets what was noted of a task, unless it has changes that are not yet visible.
    #[inline]
    pub(super) fn forget_origin(&mut self, id: u64) {
        if self.events.has_origins() && !self.publishing.is_invisible(id) {
            self.events.forget(id);
        }
    }

    /// Queues the event of a change that becomes visible, if it may have a reader.
    pub(super) fn queue_event(&mut self, change: &Change) {
        self.queue_event_with(change, None);
        if change.is_intermediate
            && let Some(header) = &change.header
        {
            // The change that follows may have no header.
            self.note_header(change.id, header);
        }
        if !change.is_intermediate {
            self.forget_origin(change.id);
        }
    }

    /// Queues the event of a progress report.
    pub(super) fn queue_progress(&mut self, number: TubeNo, id: u64, progress: Progress) {
        let (kind, state) = (EventKind::Progress, TaskState::Taken);
        let change = self.change(number, id, kind, Some(state), state, None);
        self.queue_event_with(&change, Some(progress));
    }

    /// Checks that no origin is noted of a task whose changes are visible.
    pub(super) fn check_origins(&self, findings: &mut Vec<String>) {
        for id in self.events.tasks().filter(|id| !self.publishing.is_invisible(*id)) {
            findings.push(format!("the origin of changes of task {id} is kept, which are visible"));
        }
    }

    fn queue_event_with(&mut self, change: &Change, progress: Option<Progress>) {
        let Some(tube) = self.tubes.get(change.tube) else { return };
        let has_callback = tube.callback.is_some();
        if !has_callback && !self.events.readers.wanted().contains(change.kind) {
            return;
        }
        let (key, owner) = (self.key_of_change(change), self.owner_of_change(change));
        let (name, tags) = (&tube.definition.name, self.asked_tags_of_change(change));
        let facts = || {
            let (key, owner) = (key.map(|key| &**key), owner.map(|owner| &**owner));
            Facts::new(change.kind, name, key, owner, tags.as_deref().unwrap_or_default())
        };
        if !has_callback && !self.events.readers.want(&facts(), &tube.unwanted) {
            return;
        }
        let asks_for_details = self.events.readers.ask_for_details(&facts());
        let event = Event {
            tube: name.clone(),
            id: change.id,
            kind: change.kind,
            state: change.to,
            key: key.cloned(),
            owner: owner.cloned(),
            cause: self.cause_of_change(change),
            progress,
            details: None,
            missed: 0,
            seq: 0,
        };
        let callback = tube.callback.clone();
        let details = asks_for_details.then(|| Arc::new(self.details_of_change(change)));
        self.effects.events.push(QueuedEvent { event, tags, details, callback });
    }

    /// The task of a change, as it is now. What cannot be read is left out: `verify` reports it. The bodies of many
    /// events that are delivered together are limited.
    fn details_of_change(&mut self, change: &Change) -> EventDetails {
        let (number, id) = (change.tube, change.id);
        let found = self.find(number, id).ok();
        let header = change.header.as_ref().or_else(|| Some(&self.claims.get(id)?.header));
        let header = header.or(found.as_ref().map(|found| &found.record.header));
        let (priority, tags) = match (header, self.events.origin(id)) {
            (Some(header), _) => (header.priority, tags_of(header)),
            (None, Some(origin)) => (origin.priority.unwrap_or_default(), origin.tags.clone()),
            (None, None) => (0, None),
        };
        let tags = tags.iter().flat_map(|tags| tags.iter().map(ToString::to_string)).collect();
        let mut details = EventDetails { priority, tags, ..EventDetails::default() };
        if let Some(found) = found {
            details.failure = self.last_failure(number, id, &found.record.header).ok().flatten();
            let before = self.effects.bytes_of_events;
            let bytes = before.saturating_add(found.record.header.size);
            if before == 0 || bytes <= BYTES_OF_EVENTS {
                details.body = self.read_body(number, id, &found).ok().map(|body| body.to_vec());
                self.effects.bytes_of_events = bytes;
            }
        }
        details
    }

    fn key_of_change<'a>(&'a self, change: &'a Change) -> Option<&'a Arc<str>> {
        let id = change.id;
        let header = change.header.as_ref();
        match header.or_else(|| Some(&self.claims.get(id)?.header)) {
            Some(header) => key_of(header),
            None => self.events.origin(id)?.key.as_ref(),
        }
    }

    /// The tags of the task of a change, if it has any and a filter asks for tags.
    fn asked_tags_of_change(&self, change: &Change) -> Option<Tags> {
        if !self.events.readers.ask_for_tags() {
            return None;
        }
        let id = change.id;
        match change.header.as_ref().or_else(|| Some(&self.claims.get(id)?.header)) {
            Some(header) => tags_of(header),
            None => self.events.origin(id)?.tags.clone(),
        }
    }

    fn owner_of_change(&self, change: &Change) -> Option<&Arc<str>> {
        let taken = TaskState::Taken;
        if change.from != Some(taken) && change.to != taken {
            return None;
        }
        match self.claims.get(change.id) {
            Some(claim) => self.label(claim),
            None => self.events.origin(change.id)?.owner.as_ref(),
        }
    }

    fn cause_of_change(&self, change: &Change) -> Option<Arc<str>> {
        match (change.kind, change.to) {
            (EventKind::Update, _) => None,
            (_, TaskState::Buried) => change.header.as_ref()?.more.as_ref()?.group.clone(),
            (EventKind::Lost, TaskState::Taken) => Some("overdue".into()),
            (EventKind::Fail | EventKind::Release | EventKind::Lost, _) => {
                self.events.origin(change.id)?.cause.clone()
            }
            (EventKind::Delete, _) if change.is_intermediate => Some("expired".into()),
            _ => None,
        }
    }
}

/// The tags of a task with this header, if it has any.
fn tags_of(header: &Header) -> Option<Tags> {
    let more = header.more.as_ref()?;
    (!more.tags.is_empty()).then(|| more.tags.clone())
}

#[cfg(test)]
mod tests {
    use crate::core::claims::End;
    use crate::{EventKind, FIFO, Failure, Filter, Put, Store, TubeOptions};

    #[test]
    fn subscription_that_begins_before_the_flush_gets_the_owner_the_cause_and_the_key() {
        let store = Store::in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let ids = ["a", "b"].map(|key| tube.put(Put::new("x").key(key).tag("t")).unwrap().id);
        let worker = store.session("worker").unwrap();
        let of_worker = worker.tube(&tube).unwrap();
        let [acked, failed] = ids.map(|id| {
            let claim = of_worker.try_take().unwrap().unwrap();
            let key = claim.held.key();
            let _ = claim.detach();
            assert_eq!(key.id, id);
            key
        });
        store.inner().run(|core| {
            core.ack(acked, None).unwrap();
            let failure = &Failure::new("smtp", "refused");
            core.end_held(failed, End::Fail { delay: None, failure }).unwrap();
        });
        let events = store.events(Filter::new().tag("t"), 10).unwrap();
        store.flush().unwrap();
        let said = |kind, key: &str, cause: Option<&str>| {
            (kind, Some(key.to_owned()), Some("worker".to_owned()), cause.map(str::to_owned))
        };
        let mut seen = Vec::new();
        while let Some(event) = events.try_recv() {
            let [key, owner, cause] =
                [event.key, event.owner, event.cause].map(|text| text.map(|text| text.to_string()));
            seen.push((event.kind, key, owner, cause));
        }
        let expected = [said(EventKind::Ack, "a", None), said(EventKind::Fail, "b", Some("smtp"))];
        assert_eq!(seen, expected);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
