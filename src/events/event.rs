//! Events as values: what happened to a task.

use std::sync::Arc;

use crate::TaskState;
use crate::values::ending::LastFailure;
use crate::values::kinds::EventKind;
use crate::values::task::Progress;

/// A change of a task. It is delivered after the commit that holds the change, or right after the
/// change if only memory changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// The name of the tube.
    pub tube: Arc<str>,
    /// The id of the task.
    pub id: u64,
    /// What happened.
    pub kind: EventKind,
    /// The state of the task after the change.
    pub state: TaskState,
    /// The key of the task, if it has one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub key: Option<Arc<str>>,
    /// The label of the session that took the task, has it, or had it until this change. `None` if
    /// no session had it, or if the session has no label.
    #[cfg_attr(feature = "serde", serde(default))]
    pub owner: Option<Arc<str>>,
    /// Why it happened, if the kind does not say it. A task that is buried has its failure group,
    /// and `Fail` has the group of the failure that was reported. `Release` has `session ended` if
    /// its holder has not released it. `Lost` has `overdue`, `replaced` or `transaction failed`.
    /// `Delete` has `expired` if the ttl of the task elapsed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cause: Option<Arc<str>>,
    /// What the holder reported, for an event of kind `Progress`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub progress: Option<Progress>,
    /// The task, if the filter of the subscription asks for [details](crate::Filter::details).
    #[cfg_attr(feature = "serde", serde(default))]
    pub details: Option<Arc<EventDetails>>,
    /// How many events that match its filter the subscription has missed directly before this one,
    /// because its buffer was full. 0 for a callback.
    #[cfg_attr(feature = "serde", serde(default))]
    pub missed: u64,
    /// The number of the event in this run of the store. The numbers increase. Those of a
    /// subscription without a filter have a gap only if events were dropped. A filter and the
    /// callback of a tube leave out events, so their numbers have gaps.
    pub seq: u64,
}

/// The task of an event, for a subscription whose filter asks for [details](crate::Filter::details). It is
/// read when the change is visible, so it may have changed once more since the change of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct EventDetails {
    /// Its priority.
    pub priority: u32,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its last failure, if one is recorded.
    pub failure: Option<LastFailure>,
    /// Its body. `None` if the task is not stored any more in its tube: it was deleted, has expired, goes on in
    /// another tube, or is done in a tube that does not [keep](crate::TubeOptions::keep_done) what is done. `None`
    /// also if there is no room for it: one call or flush delivers the bodies of up to 4 MiB of tasks, or of one
    /// task, and those that wait for all connections of a store are limited to 64 MiB. `Query::task` reads it then.
    pub body: Option<Vec<u8>>,
}

impl EventDetails {
    /// The same without the body.
    pub(super) fn without_body(&self) -> EventDetails {
        let EventDetails { priority, ref tags, ref failure, .. } = *self;
        EventDetails { priority, tags: tags.clone(), failure: failure.clone(), body: None }
    }

    /// The memory that it takes, with its texts and its body.
    fn memory(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| size_of::<String>() + tag.len()).sum();
        let of_failure = |failure: &LastFailure| {
            let owner = failure.owner.as_ref().map_or(0, String::len);
            failure.group.len() + failure.message.len() + owner
        };
        let failure = self.failure.as_ref().map_or(0, of_failure);
        size_of::<EventDetails>() + tags + failure + self.body.as_ref().map_or(0, Vec::len)
    }
}

impl Event {
    /// The memory that it takes, with its texts and its details.
    pub(super) fn memory(&self) -> usize {
        let texts = [Some(&self.tube), self.key.as_ref(), self.owner.as_ref(), self.cause.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let progress = self.progress.as_ref().and_then(|progress| progress.text.as_ref());
        let details = self.details.as_ref().map_or(0, |details| details.memory());
        size_of::<Event>() + texts + progress.map_or(0, |text| text.len()) + details
    }
}
