//! The places of filters in the index of subscriptions, and what they ask about of an event.

use std::sync::Arc;

use super::event::Event;
use crate::values::filter::Filter;
use crate::values::kinds::EventKind;

/// What filters ask about of an event, but for its kind and its tags: tube, key, owner.
pub(super) const FIELDS: usize = 3;

/// The field behind them, of which an event may have several values: its tags.
pub(super) const TAG: usize = FIELDS;

/// What filters ask about of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    kind: EventKind,
    fields: [Option<&'a str>; FIELDS],
    tags: &'a [Arc<str>],
}

impl<'a> Facts<'a> {
    pub(crate) fn new(
        kind: EventKind,
        tube: &'a str,
        key: Option<&'a str>,
        owner: Option<&'a str>,
        tags: &'a [Arc<str>],
    ) -> Facts<'a> {
        Facts { kind, fields: [Some(tube), key, owner], tags }
    }

    pub(super) fn of(event: &'a Event, tags: &'a [Arc<str>]) -> Facts<'a> {
        Facts::new(event.kind, &event.tube, event.key.as_deref(), event.owner.as_deref(), tags)
    }

    pub(super) fn kind(&self) -> EventKind {
        self.kind
    }

    /// Whether the event has a tube and a kind only.
    pub(super) fn is_plain(&self) -> bool {
        let [_, others @ ..] = self.fields;
        self.tags.is_empty() && others.iter().all(Option::is_none)
    }

    pub(super) fn field(&self, field: usize) -> Option<&'a str> {
        self.fields[field]
    }

    pub(super) fn tags(&self) -> &'a [Arc<str>] {
        self.tags
    }
}

/// A value for each field that a filter asks about. `None`: any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place([Option<Arc<str>>; FIELDS + 1]);

impl Place {
    /// The fields that it asks about, one bit for each.
    pub(super) fn shape(&self) -> usize {
        let asks = self.0.iter().enumerate().filter(|(_, value)| value.is_some());
        asks.fold(0, |shape, (field, _)| shape | 1 << field)
    }

    pub(super) fn field(&self, field: usize) -> Option<&str> {
        self.0[field].as_deref()
    }

    /// Whether an event has the values that it asks for, with one of its tags or none.
    pub(super) fn is_met(&self, facts: &Facts<'_>, tag: Option<&str>) -> bool {
        let mut fields = self.0.iter().zip(facts.fields.into_iter().chain([tag]));
        fields.all(|(asked, value)| asked.is_none() || asked.as_deref() == value)
    }
}

/// The places of the index at which an event that passes finds the subscription: it meets one of
/// them for each of its tags that the filter asks for, or exactly one if it asks for none.
pub(super) fn places_of(filter: &Filter) -> Vec<Place> {
    let mut places = vec![Place::default()];
    let fields = [&filter.tubes, &filter.keys, &filter.owners, &filter.tags];
    for (field, values) in fields.into_iter().enumerate() {
        if values.is_empty() {
            continue;
        }
        let with = |place: &Place, value: &Arc<str>| {
            let mut place = place.clone();
            place.0[field] = Some(value.clone());
            place
        };
        let all = places.iter().flat_map(|place| values.iter().map(|it| with(place, it)));
        places = all.collect();
    }
    places
}
