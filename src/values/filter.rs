//! Filters: the tasks that a call is about, and the events that a subscription receives.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::values::kinds::{EventKind, KindSet};
use crate::{Error, Result, TaskState};

/// The maximum number of combinations of the values of a filter of events. It keeps a subscription below a
/// few MiB of memory, and what it adds to the index below a millisecond or two.
const COMBINATIONS_MAX: usize = 4096;

/// The maximum number of ids of a filter: a delete and a kick change the tasks that they name with one
/// commit.
pub(crate) const IDS_MAX: usize = 10_000;

/// Which tasks a call is about, or which events a subscription receives: those that meet all conditions.
///
/// A new filter has no condition: it selects all tasks, or all events. A key, label, group or tag that does
/// not exist is no error. A [`TaskState`] converts to a filter of the tasks in this state, and `&Filter` to
/// a clone, so that a loop over pages needs none. An id converts to a filter of the task with this id.
///
/// Each call uses some of the conditions, and refuses the others with [`Invalid`](Error::Invalid), which
/// names the condition:
///
/// | calls | conditions |
/// |---|---|
/// | [`Query::list`](crate::Query::list), [`Query::tasks`](crate::Query::tasks) | `state`, `tag`, `group`, `owner`, `sub_queue`, `newest_first`, `soonest_first` |
/// | [`Store::list`](crate::Store::list) | the same, and `tube`; `soonest_first` only with a `tube` |
/// | [`Admin::delete`](crate::Admin::delete), [`Admin::kick`](crate::Admin::kick), [`Admin::move_to`](crate::Admin::move_to) | `ids`, `state`, `tag`, `group`, `limit` |
/// | [`StoreAdmin::delete`](crate::expert::StoreAdmin::delete), [`StoreAdmin::kick`](crate::expert::StoreAdmin::kick) | the same, and `tube`, with several values; a delete of `ids` has no `limit` |
/// | [`Admin::release`](crate::Admin::release), [`Admin::revoke`](crate::Admin::revoke) | `ids`, `state`, `tag`, `owner`, `limit` |
/// | [`testing::expect`](crate::testing::expect) | those of [`Query::list`](crate::Query::list), `ids`, `key` |
/// | [`Store::events`](crate::Store::events) | `tube`, `key`, `owner`, `tag`, `kinds`, each with several values; `details` |
///
/// # Filters of events
/// A condition that is set several times, with several values, is met by an event with any of them.
///
/// The store looks up the subscriptions that want an event and asks no
/// others, however many there are. A subscription takes memory for
/// each combination of its tubes, keys, owners and tags, of which it has at most 4096: 20 tubes with
/// 200 keys are 4000. For more, use several subscriptions, or ask for less and check the events that
/// come.
///
/// # Example: the failures of a customer, and ten dead letters of one cause
/// ```
/// use tubewell::{Filter, TaskState, Store};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
/// let failures = mails.query().list(Filter::new().state(TaskState::Buried).tag("customer 7"), None, 100)?;
/// assert!(failures.items.is_empty());
/// assert_eq!(mails.admin().kick(Filter::new().group("timeout").limit(10))?, 0);
/// # Ok::<(), tubewell::Error>(())
/// ```
///
/// # Example: events
/// ```
/// use tubewell::{EventKind, Filter, Put, Store};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
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
#[doc(alias = "where")]
#[doc(alias = "condition")]
pub struct Filter {
    pub(crate) tubes: Vec<Arc<str>>,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) owners: Vec<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) kinds: Option<KindSet>,
    pub(crate) ids: Option<BTreeSet<u64>>,
    pub(crate) state: Option<TaskState>,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) sub_queue: Option<Arc<str>>,
    pub(crate) limit: Option<u64>,
    pub(crate) newest_first: bool,
    pub(crate) soonest_first: bool,
    pub(crate) details: bool,
}

/// Tasks in this state.
impl From<TaskState> for Filter {
    fn from(state: TaskState) -> Filter {
        Filter::new().state(state)
    }
}

/// The task with this id.
impl From<u64> for Filter {
    fn from(id: u64) -> Filter {
        Filter::new().ids([id])
    }
}

/// The same tasks.
impl From<&Filter> for Filter {
    fn from(filter: &Filter) -> Filter {
        filter.clone()
    }
}

impl Filter {
    /// A filter without a condition. A call that deletes refuses it.
    pub fn new() -> Filter {
        Filter::default()
    }

    /// Of this tube. Default: of any tube.
    pub fn tube(mut self, name: impl AsRef<str>) -> Filter {
        add(&mut self.tubes, name.as_ref());
        self
    }

    /// With one of these ids, of which a filter has up to 10,000. Without any id, no task is selected.
    /// Default: with any id.
    ///
    /// An id without a task is skipped, so that the call can be repeated. The call changes the tasks in the
    /// order of their ids: a delete and a kick change all of them with one commit, or none.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let ids: Vec<u64> = jobs.put_many(["a", "b", "c"])?.iter().map(|put| put.id).collect();
    /// assert_eq!(jobs.admin().delete(Filter::new().ids(&ids[1..]))?, 2);
    /// assert_eq!(jobs.admin().delete(Filter::new().ids(&ids))?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "batch")]
    pub fn ids(mut self, ids: impl IntoIterator<Item: Borrow<u64>>) -> Filter {
        let wanted = ids.into_iter().map(|id| *id.borrow());
        self.ids.get_or_insert_default().extend(wanted);
        self
    }

    /// In this state. Default: in any state, but buried with a [`group`](Filter::group), taken with an
    /// [`owner`](Filter::owner), and delayed with [`soonest_first`](Filter::soonest_first). A kick selects
    /// buried tasks only.
    pub fn state(mut self, state: TaskState) -> Filter {
        self.state = Some(state);
        self
    }

    /// Buried tasks of this failure group, in the order of their burials. Default: of any group, and of
    /// none.
    #[doc(alias = "dead letter")]
    pub fn group(mut self, name: impl AsRef<str>) -> Filter {
        self.group = Some(name.as_ref().into());
        self
    }

    /// With this [tag](crate::Put::tag). Tasks are in the order of their ids; a delete, a kick and a move of
    /// those of a failure group go by their burials. Default: with any tags, and with none.
    ///
    /// An event of a task that has several of the tags asked for is received once. What counts are the tags
    /// after the change: an edit that adds the tag passes, one that removes it does not. The tags of a taken
    /// task are those that it has when the event is made.
    ///
    /// # Example
    /// ```
    /// use tubewell::{EventKind, Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
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
    #[doc(alias = "label")]
    pub fn tag(mut self, tag: impl AsRef<str>) -> Filter {
        add(&mut self.tags, tag.as_ref());
        self
    }

    /// Of the task with this key: for events, and for the [assertions](crate::testing) of tests.
    /// [`Store::by_key`](crate::Store::by_key) finds the task.
    pub fn key(mut self, key: impl AsRef<str>) -> Filter {
        add(&mut self.keys, key.as_ref());
        self
    }

    /// Of this sub-queue. Default: of any sub-queue, and of none. The empty name is that of the tasks
    /// without a sub-queue.
    pub fn sub_queue(mut self, name: impl AsRef<str>) -> Filter {
        self.sub_queue = Some(name.as_ref().into());
        self
    }

    /// Tasks that a session with this label has taken, or has [parked](crate::Claim::park); events of its
    /// claims ([`Event::owner`](crate::Event::owner)). Default: of any session, and of none. See
    /// [`Store::session`](crate::Store::session).
    #[doc(alias = "worker")]
    pub fn owner(mut self, label: impl AsRef<str>) -> Filter {
        add(&mut self.owners, label.as_ref());
        self
    }

    /// Events of these kinds. Without any kind, no event passes. Default: of any kind.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Filter {
        let before = self.kinds.unwrap_or_default();
        self.kinds = Some(before.union(kinds.into_iter().collect()));
        self
    }

    /// At most this many tasks, for a call that changes them. Default: without a limit. A listing has a
    /// limit for each page instead.
    pub fn limit(mut self, tasks: u64) -> Filter {
        self.limit = Some(tasks);
        self
    }

    /// Lists the tasks in the reverse order: the last one of the listing first, so the newest one of
    /// tasks that are done, in a failure group, or have a tag. Default: the first one first.
    pub fn newest_first(mut self) -> Filter {
        self.newest_first = true;
        self
    }

    /// Lists delayed tasks in the order in which they become ready: by the end of their delay, or by
    /// their [moment](crate::Put::not_before). Default: in the order in which takes would get them.
    ///
    /// A task with a delay and a moment is listed by its delay until the delay has elapsed. A task that never becomes
    /// ready by itself is not listed. The rows that are looked at are those of all tasks of the store that
    /// wait for a time, a ttl too, so a page may have fewer tasks than others. A cursor stays valid while
    /// tasks come and go: each task that stays is listed once. If the wall clock is set between two
    /// pages, a task that waits for its delay may be in none or in both. Clocks that are less than a
    /// second apart count as the same.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// for minutes in [30, 10, 20] {
    ///     mails.put(Put::new("mail").delay(Duration::from_secs(60 * minutes)))?;
    /// }
    /// let next = mails.query().list(Filter::new().soonest_first(), None, 2)?.items;
    /// assert_eq!(next.iter().map(|task| task.id).collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "scheduled")]
    pub fn soonest_first(mut self) -> Filter {
        self.soonest_first = true;
        self
    }

    /// The events have [details](crate::Event::details): the priority, the tags, the last failure and the body of their
    /// tasks. Default: they do not.
    ///
    /// Each of these events reads its task when its change is visible, so the calls that change such tasks take longer.
    /// An event that waits in the subscription holds its body in memory; through a connection, the bodies that wait are
    /// limited, and further events come [without](crate::expert::EventDetails::body). A callback of a tube gets no details.
    ///
    /// The event of a task that is buried after its last attempt may also be of kind `Release`, `Ttr` or `Lost`: its
    /// [state](crate::Event::state) says so.
    ///
    /// # Example: what fails, with its body
    /// ```
    /// use tubewell::{EventKind, Failure, Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let failed = Filter::new().kinds([EventKind::Fail, EventKind::Bury]).details();
    /// let events = store.events(failed, 100)?;
    ///
    /// mails.put("to: ann")?;
    /// mails.try_take()?.unwrap().bury(Failure::new("smtp", "no such address"))?;
    /// let details = events.try_recv().and_then(|event| event.details).unwrap();
    /// assert_eq!(details.body.as_deref(), Some(&b"to: ann"[..]));
    /// assert_eq!(details.failure.as_ref().unwrap().message, "no such address");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn details(mut self) -> Filter {
        self.details = true;
        self
    }

    /// The state of the wanted tasks, if all have the same one.
    pub(crate) fn wanted_state(&self) -> Option<TaskState> {
        let of_group = self.group.as_ref().map(|_| TaskState::Buried);
        let of_owner = self.owners.first().map(|_| TaskState::Taken);
        let soonest = self.soonest_first.then_some(TaskState::Delayed);
        self.state.or(of_group).or(of_owner).or(soonest)
    }

    /// The wanted tube, in a checked filter of tasks.
    pub(crate) fn wanted_tube(&self) -> Option<&str> {
        self.tubes.first().map(|name| &**name)
    }

    /// The wanted tubes, and the other conditions.
    pub(crate) fn split_tubes(mut self) -> (Vec<Arc<str>>, Filter) {
        (std::mem::take(&mut self.tubes), self)
    }

    /// The wanted tag, in a checked filter of tasks.
    pub(crate) fn wanted_tag(&self) -> Option<&str> {
        self.tags.first().map(|tag| &**tag)
    }

    /// The label of the wanted owner, in a checked filter of tasks.
    pub(crate) fn wanted_owner(&self) -> Option<&str> {
        self.owners.first().map(|label| &**label)
    }

    /// Whether each task of the state or the failure group that is read is wanted.
    pub(crate) fn wants_all_of_a_list(&self) -> bool {
        self.tags.is_empty() && self.owners.is_empty() && self.sub_queue.is_none()
    }

    /// The kinds that pass.
    pub(crate) fn passing_kinds(&self) -> KindSet {
        self.kinds.unwrap_or(KindSet::ALL)
    }

    /// Refuses what a listing of a tube cannot use, and conditions that no task can meet together.
    pub(crate) fn check_list(&self) -> Result<()> {
        self.check_uses("a listing of a tube", &LISTED)?;
        self.check_can_meet()
    }

    /// Refuses what a listing of a store cannot use, and conditions that no task can meet together.
    pub(crate) fn check_list_of_store(&self) -> Result<()> {
        const LISTED_OF_STORE: [&str; 8] = {
            let [state, tag, group, owner, sub_queue, newest, soonest] = LISTED;
            [state, tag, group, owner, sub_queue, newest, soonest, "tube"]
        };
        self.check_uses("a listing of a store", &LISTED_OF_STORE)?;
        if self.tubes.is_empty() && self.soonest_first {
            return Err(cannot_use("a listing of all tubes", "soonest_first"));
        }
        self.check_can_meet()
    }

    /// Refuses what a delete cannot use. One without a condition would delete all tasks.
    pub(crate) fn check_delete(&self) -> Result<()> {
        self.check_uses("a delete", &SELECTED)?;
        let has_condition = self.ids.is_some()
            || self.state.is_some()
            || self.group.is_some()
            || !self.tags.is_empty();
        if !has_condition {
            return Err(Error::invalid(
                "a filter of tasks to delete needs ids, a state, a failure group or a tag; truncate \
                 removes all tasks",
            ));
        }
        self.check_can_meet()
    }

    /// Refuses what a delete of chosen tasks of any tubes cannot use besides their ids.
    pub(crate) fn check_delete_of_ids(&self) -> Result<()> {
        self.check_uses("a delete of ids in a store", &["state", "tag", "group"])?;
        self.check_can_meet()
    }

    /// As a filter of buried tasks. Refuses one that a kick cannot use.
    pub(crate) fn for_kick(self) -> Result<Filter> {
        let buried = if self.state.is_none() { self.state(TaskState::Buried) } else { self };
        buried.check_kick().map(|()| buried)
    }

    /// Refuses what `for_kick` does not return.
    pub(crate) fn check_kick(&self) -> Result<()> {
        self.check_uses("a kick", &SELECTED)?;
        match self.state {
            Some(TaskState::Buried) => Ok(()),
            Some(state) => Err(Error::invalid(format!(
                "a {state} task cannot be kicked, only buried tasks can; leave the `state` out"
            ))),
            None => Err(Error::invalid("a kick selects buried tasks")),
        }
    }

    /// Refuses what a move cannot use.
    pub(crate) fn check_move(&self) -> Result<()> {
        self.check_uses("a move", &SELECTED)?;
        if let Some(state @ (TaskState::Done | TaskState::Recurring)) = self.state {
            return Err(Error::invalid(format!(
                "a {state} task stays in its tube: what is done is kept where it has ended, and a schedule \
                 puts into its own tube; leave the `state` out"
            )));
        }
        self.check_can_meet()
    }

    /// Refuses what a call that ends claims cannot use.
    pub(crate) fn check_end_claims(&self) -> Result<()> {
        self.check_uses("a call that ends claims", &["ids", "state", "tag", "owner", "limit"])?;
        match self.state {
            None | Some(TaskState::Taken) => Ok(()),
            Some(state) => Err(Error::invalid(format!(
                "no {state} task has a claim, only taken tasks have; leave the `state` out"
            ))),
        }
    }

    /// Refuses a filter that events cannot pass by, or that would take up too much space in the index of
    /// subscriptions. Returns the number of its combinations.
    pub(crate) fn check_events(&self) -> Result<usize> {
        let call = "a subscription to events";
        self.check_used(call, &["tube", "key", "owner", "tag", "kinds", "details"])?;
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

    /// Refuses conditions that a call on tasks does not use, and several values of one.
    fn check_uses(&self, call: &str, used: &[&str]) -> Result<()> {
        self.check_used(call, used)?;
        check_count(self.ids.as_ref().map_or(0, BTreeSet::len))?;
        let fields = [("tube", &self.tubes), ("owner", &self.owners), ("tag", &self.tags)];
        match fields.into_iter().find(|(_, values)| values.len() > 1) {
            Some((name, values)) => Err(Error::invalid(format!(
                "{call} uses one `{name}` of a filter, and this one has {}; make a call for each",
                values.len()
            ))),
            None => Ok(()),
        }
    }

    fn check_used(&self, call: &str, used: &[&str]) -> Result<()> {
        let conditions = [
            ("tube", !self.tubes.is_empty()),
            ("ids", self.ids.is_some()),
            ("state", self.state.is_some()),
            ("group", self.group.is_some()),
            ("tag", !self.tags.is_empty()),
            ("key", !self.keys.is_empty()),
            ("sub_queue", self.sub_queue.is_some()),
            ("owner", !self.owners.is_empty()),
            ("kinds", self.kinds.is_some()),
            ("limit", self.limit.is_some()),
            ("newest_first", self.newest_first),
            ("soonest_first", self.soonest_first),
            ("details", self.details),
        ];
        let unused = |(name, is_set): &(&str, bool)| *is_set && !used.contains(name);
        match conditions.iter().find(|condition| unused(condition)) {
            Some((name, _)) => Err(cannot_use(call, name)),
            None => Ok(()),
        }
    }

    /// Refuses conditions that no task can meet together.
    fn check_can_meet(&self) -> Result<()> {
        if self.soonest_first
            && (self.newest_first || self.wanted_state() != Some(TaskState::Delayed))
        {
            return Err(Error::invalid(
                "delayed tasks alone are listed with the soonest one first; leave out other states, the \
                 group, the owner and the other order",
            ));
        }
        match (self.state, &self.group, self.wanted_owner()) {
            (_, Some(_), Some(_)) => Err(Error::invalid(
                "a task in a failure group is buried, and one with an owner is taken; leave one of \
                 them out",
            )),
            (Some(state), Some(_), None) if state != TaskState::Buried => {
                Err(Error::invalid(format!(
                    "no {state} task is in a failure group, only buried tasks are; leave the state out"
                )))
            }
            (Some(state), None, Some(_)) if state != TaskState::Taken => Err(Error::invalid(
                format!("no {state} task has an owner, only taken tasks have; leave the state out"),
            )),
            _ => Ok(()),
        }
    }
}

/// The conditions that a listing of a tube uses.
const LISTED: [&str; 7] =
    ["state", "tag", "group", "owner", "sub_queue", "newest_first", "soonest_first"];

/// The conditions that a delete, a kick or a move uses.
const SELECTED: [&str; 5] = ["ids", "state", "tag", "group", "limit"];

/// Refuses more ids than a filter has.
pub(crate) fn check_count(ids: usize) -> Result<()> {
    if ids <= IDS_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a filter has at most {IDS_MAX} ids, and this one has {ids}; split them"
    )))
}

fn cannot_use(call: &str, condition: &str) -> Error {
    Error::invalid(format!(
        "{call} cannot use the condition `{condition}` of a filter; leave it out"
    ))
}

fn add(values: &mut Vec<Arc<str>>, value: &str) {
    if !values.iter().any(|known| **known == *value) {
        values.push(value.into());
    }
}
