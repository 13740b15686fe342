//! The subscribers by what their filters ask for, so that an event finds those that want it without
//! asking the others.
//!
//! A filter asks about some of the fields tube, key, owner and tag: its shape. A subscriber is listed
//! at each combination of the values that it asks for, and there by kind: before it begins, and some
//! combinations at a time, so that no change of a task waits for all of them. An event makes one look-up
//! for each shape in use without a tag, at most 8, and one for each of its tags and each shape in use
//! with one, at most 8 too. Invariant: an event is delivered at most once to a subscriber. It has one
//! value of each field but its tags, so it meets at most one place of a subscriber that asks for no
//! tag. It may meet several of one that does, which is noted with the subscriber.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use super::places::{FIELDS, Facts, Place, TAG};
use crate::base::id_map::IdMap;
use crate::values::kinds::KindSet;

/// The number of a subscriber.
pub(super) type SubscriberId = u64;

/// The sets of fields that a filter may ask about.
const SHAPES: usize = 1 << (FIELDS + 1);

/// The first of the shapes that ask for a tag, which are the last ones.
const WITH_TAG: usize = 1 << TAG;

/// The subscribers `S` of a store, by their filters.
#[derive(Debug)]
pub(super) struct Index<S> {
    subscribers: IdMap<SubscriberId, Subscribed<S>>,
    next: SubscriberId,
    /// How many events were delivered.
    events: u64,
    places: Places,
    /// How many subscribers want each kind.
    wanted_by: [usize; KindSet::MOST],
    /// The kinds that some subscriber wants.
    wanted: KindSet,
}

#[derive(Debug)]
struct Subscribed<S> {
    kinds: KindSet,
    subscriber: S,
    /// The number of the last event that has met a place of it.
    met: u64,
}

/// The places at which there are subscribers.
#[derive(Debug, Default)]
struct Places {
    /// By the hash of what they ask for. Each value of an event is hashed once for all shapes.
    by_hash: IdMap<u64, Vec<(Place, Listed)>>,
    /// How many places there are of each shape.
    shapes: [usize; SHAPES],
    hasher: RandomState,
}

/// The subscribers at one place.
#[derive(Debug, Default)]
struct Listed {
    /// Those that want all kinds.
    any: BTreeSet<SubscriberId>,
    /// Those that want some kinds, by kind. No set is empty.
    by_kind: BTreeMap<usize, BTreeSet<SubscriberId>>,
}

impl Listed {
    /// Those that want the kind with this number.
    fn ids(&self, number: usize) -> impl Iterator<Item = &SubscriberId> {
        self.any.iter().chain(self.by_kind.get(&number).into_iter().flatten())
    }
}

impl<S> Default for Index<S> {
    fn default() -> Index<S> {
        Index {
            subscribers: IdMap::default(),
            next: 0,
            events: 0,
            places: Places::default(),
            wanted_by: [0; KindSet::MOST],
            wanted: KindSet::NONE,
        }
    }
}

impl<S> Index<S> {
    /// The kinds that some subscriber wants.
    pub(super) fn wanted(&self) -> KindSet {
        self.wanted
    }

    /// Whether some subscriber asks for tags.
    pub(super) fn asks_for_tags(&self) -> bool {
        self.places.shapes[WITH_TAG..].iter().any(|places| *places > 0)
    }

    /// Whether some subscriber wants an event.
    pub(super) fn wants(&self, facts: &Facts<'_>) -> bool {
        let number = facts.kind() as usize;
        self.places.find(facts).any(|listed| listed.ids(number).next().is_some())
    }

    /// Whether some subscriber that an event meets is one of these.
    pub(super) fn is_met_by(&self, facts: &Facts<'_>, is_one: impl Fn(&S) -> bool) -> bool {
        let number = facts.kind() as usize;
        let met = self.places.find(facts).flat_map(|listed| listed.ids(number));
        let mut met = met.filter_map(|id| self.subscribers.get(id));
        met.any(|subscribed| is_one(&subscribed.subscriber))
    }

    /// Whether some subscriber is one of these.
    pub(super) fn any(&self, is_one: impl Fn(&S) -> bool) -> bool {
        self.subscribers.values().any(|subscribed| is_one(&subscribed.subscriber))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// The number of a further subscriber, which is listed before it begins.
    pub(super) fn next_id(&mut self) -> SubscriberId {
        let id = self.next;
        self.next += 1;
        id
    }

    /// Lists a subscriber that wants these kinds at some places.
    pub(super) fn list(&mut self, id: SubscriberId, kinds: KindSet, places: &[Place]) {
        for place in places {
            let listed = self.places.entry(place);
            if kinds == KindSet::ALL {
                listed.any.insert(id);
                continue;
            }
            for number in kinds.numbers() {
                listed.by_kind.entry(number).or_default().insert(id);
            }
        }
    }

    /// Takes a subscriber that has ended, or has not begun, from some of its places.
    pub(super) fn unlist(&mut self, id: SubscriberId, kinds: KindSet, places: &[Place]) {
        for place in places {
            let listed = self.places.entry(place);
            listed.any.remove(&id);
            listed.by_kind.retain(|number, ids| {
                if kinds.has(*number) {
                    ids.remove(&id);
                }
                !ids.is_empty()
            });
            self.places.remove_if_empty(place);
        }
    }

    /// Begins to deliver to a subscriber, which is listed at all of its places.
    pub(super) fn begin(&mut self, id: SubscriberId, kinds: KindSet, subscriber: S) {
        for number in kinds.numbers() {
            self.wanted_by[number] += 1;
            self.wanted = self.wanted.with(number);
        }
        self.subscribers.insert(id, Subscribed { kinds, subscriber, met: 0 });
    }

    /// Delivers nothing more to a subscriber. It stays listed until the caller has unlisted it.
    pub(super) fn end(&mut self, id: SubscriberId) -> Option<S> {
        let Subscribed { kinds, subscriber, .. } = self.subscribers.remove(&id)?;
        for number in kinds.numbers() {
            self.wanted_by[number] -= 1;
            if self.wanted_by[number] == 0 {
                self.wanted = self.wanted.without(number);
            }
        }
        Some(subscriber)
    }

    /// Removes all subscribers.
    pub(super) fn clear(&mut self) -> Vec<S> {
        let index = std::mem::take(self);
        self.next = index.next;
        index.subscribers.into_values().map(|subscribed| subscribed.subscriber).collect()
    }

    /// Calls `deliver` with each subscriber whose filter lets an event pass.
    pub(super) fn for_each(&mut self, facts: &Facts<'_>, mut deliver: impl FnMut(&mut S)) {
        let number = facts.kind() as usize;
        self.events += 1;
        for listed in self.places.find(facts) {
            for id in listed.ids(number) {
                if let Some(subscribed) = self.subscribers.get_mut(id)
                    && subscribed.met != self.events
                {
                    subscribed.met = self.events;
                    deliver(&mut subscribed.subscriber);
                }
            }
        }
    }
}

impl Places {
    /// What is listed at the places that an event meets.
    fn find<'a>(&'a self, facts: &'a Facts<'_>) -> impl Iterator<Item = &'a Listed> + 'a {
        let asked = self.in_use(0..SHAPES).fold(0, |fields, shape| fields | shape);
        let hashes: [Option<u64>; FIELDS] = std::array::from_fn(|field| {
            let value = facts.field(field).filter(|_| asked & 1 << field != 0)?;
            Some(self.hasher.hash_one(value))
        });
        let find = move |shape: usize, tag: Option<(&str, u64)>| {
            let hash = |field| if field == TAG { Some(tag?.1) } else { hashes[field] };
            let listed = self.by_hash.get(&hash_of(shape, hash)?)?;
            let is_met = |place: &Place| place.is_met(facts, tag.map(|(tag, _)| tag));
            let found = listed.iter().find(|(place, _)| place.shape() == shape && is_met(place));
            found.map(|(_, listed)| listed)
        };
        let tags = if asked & WITH_TAG == 0 { &[][..] } else { facts.tags() };
        let of_tags = tags.iter().flat_map(move |tag| {
            let tag = Some((&**tag, self.hasher.hash_one(&**tag)));
            self.in_use(WITH_TAG..SHAPES).filter_map(move |shape| find(shape, tag))
        });
        self.in_use(0..WITH_TAG).filter_map(move |shape| find(shape, None)).chain(of_tags)
    }

    /// Those of these shapes that some place has.
    fn in_use(&self, shapes: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        shapes.filter(|shape| self.shapes[*shape] > 0)
    }

    /// What is listed at a place, which is added if it is new.
    fn entry(&mut self, place: &Place) -> &mut Listed {
        let places = self.by_hash.entry(self.hash(place)).or_default();
        let index = places.iter().position(|(other, _)| other == place).unwrap_or_else(|| {
            self.shapes[place.shape()] += 1;
            places.push((place.clone(), Listed::default()));
            places.len() - 1
        });
        &mut places[index].1
    }

    fn remove_if_empty(&mut self, place: &Place) {
        let hash = self.hash(place);
        let Some(places) = self.by_hash.get_mut(&hash) else { return };
        let before = places.len();
        places.retain(|(other, listed)| {
            other != place || !listed.any.is_empty() || !listed.by_kind.is_empty()
        });
        self.shapes[place.shape()] -= before - places.len();
        if places.is_empty() {
            self.by_hash.remove(&hash);
        }
    }

    fn hash(&self, place: &Place) -> u64 {
        let hash = |field| Some(self.hasher.hash_one(place.field(field)?));
        hash_of(place.shape(), hash).unwrap_or_default()
    }
}

/// The hash of a place of this shape, from those of its values; `None` if one of them is missing.
fn hash_of(shape: usize, hashes: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let fields = (0..=TAG).filter(|field| shape & 1 << field != 0);
    fields.map(hashes).try_fold(shape as u64, |hash, value| {
        Some(hash.rotate_left(21).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value?)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TaskState;
    use crate::events::event::Event;
    use crate::events::places::places_of;
    use crate::values::filter::Filter;
    use crate::values::kinds::EventKind::{self, Ack, Bury, Put};

    fn event(tube: &str, kind: EventKind, key: Option<&str>, owner: Option<&str>) -> Event {
        Event {
            tube: tube.into(),
            id: 0,
            kind,
            state: TaskState::Ready,
            key: key.map(Into::into),
            owner: owner.map(Into::into),
            cause: None,
            progress: None,
            details: None,
            missed: 0,
            seq: 0,
        }
    }

    impl Index<usize> {
        fn insert(&mut self, filter: &Filter, number: usize) -> SubscriberId {
            let (id, kinds) = (self.next_id(), filter.passing_kinds());
            self.list(id, kinds, &places_of(filter));
            self.begin(id, kinds, number);
            id
        }

        fn remove(&mut self, id: SubscriberId, filter: &Filter) -> Option<usize> {
            let ended = self.end(id);
            self.unlist(id, filter.passing_kinds(), &places_of(filter));
            ended
        }
    }

    /// The conditions of a filter; an empty list of names is none.
    struct Conditions {
        tubes: &'static [&'static str],
        keys: &'static [&'static str],
        owners: &'static [&'static str],
        tags: &'static [&'static str],
        kinds: Option<&'static [EventKind]>,
    }

    impl Conditions {
        fn filter(&self) -> Filter {
            let filter = self.tubes.iter().fold(Filter::new(), |it, tube| it.tube(*tube));
            let filter = self.keys.iter().fold(filter, |it, key| it.key(*key));
            let filter = self.owners.iter().fold(filter, |it, owner| it.owner(*owner));
            let filter = self.tags.iter().fold(filter, |it, tag| it.tag(*tag));
            match self.kinds {
                Some(kinds) => filter.kinds(kinds.iter().copied()),
                None => filter,
            }
        }

        fn pass(&self, event: &Event, tags: &[Arc<str>]) -> bool {
            let has = |names: &[&str], value: Option<&str>| {
                names.is_empty() || value.is_some_and(|value| names.contains(&value))
            };
            has(self.tubes, Some(&event.tube))
                && has(self.keys, event.key.as_deref())
                && has(self.owners, event.owner.as_deref())
                && (self.tags.is_empty() || tags.iter().any(|tag| self.tags.contains(&&**tag)))
                && self.kinds.is_none_or(|kinds| kinds.contains(&event.kind))
        }
    }

    #[test]
    fn event_is_delivered_once_to_each_subscriber_whose_filter_it_passes() {
        let mut filters = Vec::new();
        for tubes in [&[][..], &["a"], &["a", "b"], &["a", "a"]] {
            for keys in [&[][..], &["k"], &["k", "l"]] {
                for owners in [&[][..], &["o", "p"]] {
                    for tags in [&[][..], &["s"], &["s", "t", "u"]] {
                        for kinds in [None, Some(&[Ack][..]), Some(&[Put, Bury]), Some(&[])] {
                            filters.push(Conditions { tubes, keys, owners, tags, kinds });
                        }
                    }
                }
            }
        }
        let mut index = Index::default();
        let inserted = filters.iter().enumerate();
        let ids: Vec<SubscriberId> =
            inserted.map(|(number, it)| index.insert(&it.filter(), number)).collect();
        let mut events = Vec::new();
        for tube in ["a", "b", "c"] {
            for kind in [Put, Ack, Bury] {
                for key in [None, Some("k"), Some("m")] {
                    for owner in [None, Some("o"), Some("q")] {
                        for tags in [&[][..], &["t"], &["t", "x", "s"]] {
                            let tags: Vec<Arc<str>> =
                                tags.iter().map(|tag| (*tag).into()).collect();
                            events.push((event(tube, kind, key, owner), tags));
                        }
                    }
                }
            }
        }
        let delivered = |index: &mut Index<usize>, (event, tags): &(Event, Vec<Arc<str>>)| {
            let (mut to, facts) = (Vec::new(), Facts::of(event, tags));
            index.for_each(&facts, |number| to.push(*number));
            to.sort_unstable();
            assert_eq!(index.wants(&facts), !to.is_empty());
            to
        };
        let expected = |(event, tags): &(Event, Vec<Arc<str>>), from: usize| -> Vec<usize> {
            (from..filters.len()).filter(|n| filters[*n].pass(event, tags)).collect()
        };
        assert!(index.asks_for_tags());
        for event in &events {
            assert_eq!(delivered(&mut index, event), expected(event, 0), "{event:?}");
        }
        let half = filters.len() / 2;
        for (number, id) in ids[..half].iter().enumerate() {
            assert_eq!(index.remove(*id, &filters[number].filter()), Some(number));
        }
        for event in &events {
            assert_eq!(delivered(&mut index, event), expected(event, half), "{event:?}");
        }
        for (number, id) in ids.into_iter().enumerate() {
            let _ = index.remove(id, &filters[number].filter());
        }
        assert!(index.places.by_hash.is_empty() && index.wanted().is_empty());
        assert_eq!(index.places.shapes, [0; SHAPES]);
        assert!(!index.asks_for_tags());
    }
}
