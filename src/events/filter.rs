//! Filters: which events a subscription receives.

use std::sync::Arc;

use super::event::{Event, EventKind, KindSet};

/// Which events a subscription receives; for [`Store::events`](crate::Store::events).
///
/// A new filter lets all events pass. Each condition restricts it: an event passes if it meets all
/// conditions. A condition that is set several times, with several values, is met by an event with
/// any of them. A tube, key or label that does not exist is no error: it may exist later.
///
/// A filter is a value, so the store does not ask each subscription about each event. Events that
/// no subscription wants cost the changes that cause them nothing. A subscription takes memory for
/// each combination of its tubes, keys and owners.
///
/// # Example
/// ```
/// use tubewell::{EventKind, FIFO, Filter, Put, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let mails = store.create_tube("mails", FIFO, TubeOptions::new())?;
/// let ended = Filter::new().tube("mails").kinds([EventKind::Ack, EventKind::Bury]).key("mail 7");
/// let events = store.events(ended, 100);
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
    tubes: Vec<Arc<str>>,
    keys: Vec<Arc<str>>,
    owners: Vec<Arc<str>>,
    kinds: Option<KindSet>,
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

    /// The kinds that pass.
    pub(super) fn passing_kinds(&self) -> KindSet {
        self.kinds.unwrap_or(KindSet::ALL)
    }

    /// The places of the index at which an event that passes looks for the subscription: it looks
    /// at exactly one of them.
    pub(super) fn places(&self) -> Vec<Place> {
        let choices = |of: &[Arc<str>]| match of {
            [] => vec![None],
            values => values.iter().cloned().map(Some).collect(),
        };
        let (tubes, keys, owners) =
            (choices(&self.tubes), choices(&self.keys), choices(&self.owners));
        let mut places = Vec::with_capacity(tubes.len() * keys.len() * owners.len());
        for tube in &tubes {
            for key in &keys {
                for owner in &owners {
                    let (tube, key, owner) = (tube.clone(), key.clone(), owner.clone());
                    places.push(Place { tube, key, owner });
                }
            }
        }
        places
    }
}

/// What a filter asks of an event, but for its kind. `None`: any value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    tube: Option<Arc<str>>,
    key: Option<Arc<str>>,
    owner: Option<Arc<str>>,
}

impl Place {
    /// How many sets of fields a place may ask for.
    pub(super) const SHAPES: usize = 8;

    /// Which fields it asks for, as a number below `SHAPES`.
    pub(super) fn shape(&self) -> usize {
        usize::from(self.tube.is_some())
            | usize::from(self.key.is_some()) << 1
            | usize::from(self.owner.is_some()) << 2
    }

    /// The place of this shape that an event meets; `None` if the event does not have the fields.
    pub(super) fn of(event: &Event, shape: usize) -> Option<Place> {
        let asks = |field: usize| shape & 1 << field != 0;
        let field = |asked: bool, value: &Option<Arc<str>>| match (asked, value) {
            (false, _) => Some(None),
            (true, None) => None,
            (true, Some(value)) => Some(Some(value.clone())),
        };
        Some(Place {
            tube: asks(0).then(|| event.tube.clone()),
            key: field(asks(1), &event.key)?,
            owner: field(asks(2), &event.owner)?,
        })
    }
}

fn add(values: &mut Vec<Arc<str>>, value: Arc<str>) {
    if !values.contains(&value) {
        values.push(value);
    }
}
