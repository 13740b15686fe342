//! Filters: which events a subscription receives.

use std::sync::Arc;

use super::event::{Event, EventKind, KindSet};
use crate::{Error, Result};

/// The maximum number of combinations of the values of a filter. It keeps a subscription below a few
/// MiB of memory, and what it adds to the index below a millisecond or two.
const COMBINATIONS_MAX: usize = 4096;

/// Which events a subscription receives; for [`Store::events`](crate::Store::events).
///
/// A new filter lets all events pass. Each condition restricts it: an event passes if it meets all
/// conditions. A condition that is set several times, with several values, is met by an event with
/// any of them. A tube, key, label or tag that does not exist is no error: it may exist later.
///
/// A filter is a value, so the store looks up the subscriptions that want an event and asks no
/// others, however many there are. A subscription takes memory for
/// each combination of its tubes, keys, owners and tags, of which it has at most 4096: 20 tubes with
/// 200 keys are 4000. For more, use several subscriptions, or ask for less and check the events that
/// come.
///
/// # Example
/// ```
/// use tubewell::{EventKind, FIFO, Filter, Put, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let mails = store.create_tube("mails", FIFO, TubeOptions::new())?;
/// let ended = Filter::new().tube("mails").kinds([EventKind::Ack, EventKind::Bury]).key("mail 7");
/// let events = store.events(ended, 100)?;
///
/// mails.put(Put::new("to: ann").key("mail 7"))?;
/// mails.put("to: bob")?;
/// while let Some(mail) = mails.try_take()? {
///     mail.ack()?;
/// }
/// let event = events.try_recv().unwrap();
/// assert_eq!((event.kind, event.key.as_deref()), (EventKind::Ack, Some("mail 7")));
/// assert!(events.try_recv().is_none());
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a filter selects nothing by itself"]
pub struct Filter {
    pub(crate) tubes: Vec<Arc<str>>,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) owners: Vec<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) kinds: Option<KindSet>,
}

impl Filter {
    /// A filter that lets all events pass.
    pub fn new() -> Filter {
        Filter::default()
    }

    /// Only events of this tube.
    pub fn tube(mut self, name: impl Into<Arc<str>>) -> Filter {
        add(&mut self.tubes, name.into());
        self
    }

    /// Only events of these kinds. Without any kind, no event passes.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Filter {
        let before = self.kinds.unwrap_or_default();
        self.kinds = Some(before.union(kinds.into_iter().collect()));
        self
    }

    /// Only events of the task with this key.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Filter {
        add(&mut self.keys, key.into());
        self
    }

    /// Only events of claims of sessions with this label; see
    /// [`Store::session_named`](crate::Store::session_named) and [`Event::owner`].
    pub fn owner(mut self, label: impl Into<Arc<str>>) -> Filter {
        add(&mut self.owners, label.into());
        self
    }

    /// Only events of tasks with this [tag](crate::Put::tag). An event of a task that has several of
    /// the tags asked for is received once.
    ///
    /// What counts are the tags after the change: an edit that adds the tag passes, one that removes
    /// it does not. The tags of a taken task are those that it has when the event is made.
    ///
    /// # Example
    /// ```
    /// use tubewell::{EventKind, FIFO, Filter, Put, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.create_tube("mails", FIFO, TubeOptions::new())?;
    /// let events = store.events(Filter::new().tag("ann").tag("news"), 100)?;
    ///
    /// mails.put(Put::new("to: ann").tag("ann").tag("news"))?;
    /// mails.put("to: bob")?;
    /// while let Some(mail) = mails.try_take()? {
    ///     mail.ack()?;
    /// }
    /// let kinds = std::iter::from_fn(|| events.try_recv()).map(|event| event.kind);
    /// assert!(kinds.eq([EventKind::Put, EventKind::Take, EventKind::Ack]));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn tag(mut self, tag: impl Into<Arc<str>>) -> Filter {
        add(&mut self.tags, tag.into());
        self
    }

    /// Refuses a filter that would take up too much space in the index. Returns the number of its combinations.
    pub(crate) fn check(&self) -> Result<usize> {
        let fields = [
            ("tubes", &self.tubes),
            ("keys", &self.keys),
            ("owners", &self.owners),
            ("tags", &self.tags),
        ];
        let asked: Vec<_> = fields.iter().filter(|(_, values)| !values.is_empty()).collect();
        let count = asked.iter().fold(1, |count: usize, (_, it)| count.saturating_mul(it.len()));
        if count <= COMBINATIONS_MAX {
            return Ok(count);
        }
        let counts = asked.iter().map(|(name, values)| format!("{} {name}", values.len()));
        Err(Error::invalid(format!(
            "a filter of events may have at most {COMBINATIONS_MAX} combinations; this one has {count} \
             ({}): use several subscriptions, or ask for less and check the events that come",
            counts.collect::<Vec<_>>().join(" with ")
        )))
    }

    /// The kinds that pass.
    pub(super) fn passing_kinds(&self) -> KindSet {
        self.kinds.unwrap_or(KindSet::ALL)
    }

    /// The places of the index at which an event that passes finds the subscription: it meets one of
    /// them for each of its tags that the filter asks for, or exactly one if it asks for none.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = vec![Place::default()];
        let fields = [&self.tubes, &self.keys, &self.owners, &self.tags];
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
}

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

fn add(values: &mut Vec<Arc<str>>, value: Arc<str>) {
    if !values.contains(&value) {
        values.push(value);
    }
}
