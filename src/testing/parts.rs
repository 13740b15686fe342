//! The conditions of a filter, one by one.

use super::condition::Condition;
use crate::{Filter, TaskState};

/// A condition by which a listing selects tasks.
pub(super) struct Part {
    pub(super) verb: &'static str,
    pub(super) rest: String,
    /// A filter with this condition alone.
    pub(super) filter: Filter,
}

/// Takes the conditions out of a filter that no listing has: ids and keys.
pub(super) fn take_unlisted<'a, T>(filter: &mut Filter) -> Vec<Condition<'a, T>> {
    let keys = std::mem::take(&mut filter.keys);
    let of_keys = (!keys.is_empty()).then(|| {
        let rest = one_of("key", keys.iter());
        Condition::of_verb("has", rest, move |task| {
            task.info.key.as_deref().is_some_and(|key| keys.iter().any(|wanted| **wanted == *key))
        })
    });
    let of_ids = filter.ids.take().map(|ids| {
        let rest = one_of("id", ids.iter());
        Condition::of_verb("has", rest, move |task| ids.contains(&task.info.id))
    });
    of_ids.into_iter().chain(of_keys).collect()
}

/// The conditions of a filter by which a listing selects. Its order is no condition.
pub(super) fn parts(filter: &Filter) -> Vec<Part> {
    let part = |verb, rest, filter| Part { verb, rest, filter };
    let new = Filter::new;
    let state = filter.state.or(filter.soonest_first.then_some(TaskState::Delayed));
    let tag = filter.wanted_tag();
    let group = filter.group.as_deref();
    let sub_queue = filter.sub_queue.as_deref();
    let owner = filter.wanted_owner();
    [
        state.map(|state| part("is", state.to_string(), new().state(state))),
        tag.map(|tag| part("has", format!("the tag {tag:?}"), new().tag(tag))),
        group.map(|name| part("is", format!("in the failure group {name:?}"), new().group(name))),
        sub_queue.map(|name| part("is", of_sub_queue(name), new().sub_queue(name))),
        owner.map(|label| part("is", format!("taken by {label:?}"), new().owner(label))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_sub_queue(name: &str) -> String {
    if name.is_empty() {
        "without a sub-queue".into()
    } else {
        format!("in the sub-queue {name:?}")
    }
}

fn one_of(what: &str, wanted: impl Iterator<Item: std::fmt::Debug>) -> String {
    let wanted: Vec<String> = wanted.map(|wanted| format!("{wanted:?}")).collect();
    match &wanted[..] {
        [only] => format!("the {what} {only}"),
        all => format!("one of the {what}s [{}]", all.join(", ")),
    }
}
