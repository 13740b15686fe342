//! Calls of an operator on the tasks of several tubes: kicks, deletes and failure groups.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::StoreAdmin;
use crate::core::TaskEdit;
use crate::core::list::DeleteTasks;
use crate::values::ending::FailureGroup;
use crate::values::filter::{Filter, check_count};
use crate::values::statistics::TaskCounts;
use crate::{AsyncStore, AsyncTube, Error, Mode, Result, TaskState};

impl<M: Mode> StoreAdmin<'_, M> {
    /// Kicks the buried tasks of all tubes that meet all conditions of `filter`, and returns how many. A
    /// filter with [tubes](Filter::tube) kicks tasks of these tubes only.
    ///
    /// It makes the call of [`Admin::kick`](crate::Admin::kick) for one tube after the other, in the order of
    /// their names: order, commits and flushes are those of that call. A [`limit`](Filter::limit) holds for
    /// all tubes together. The tubes are those that have buried tasks when the call begins. After a killed
    /// process or a power cut, the tasks that were kicked before are ready. A dropped ticket ends the call
    /// after the tasks of one commit.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) as of [`Admin::kick`](crate::Admin::kick);
    /// [`TubeNotFound`](Error::TubeNotFound): the filter has a tube that does not exist. Nothing was kicked.
    /// After the other errors of [`Admin::kick`](crate::Admin::kick), the tasks of earlier tubes are ready,
    /// and the tasks of later tubes are buried. The same call, made again, handles the remaining tasks.
    ///
    /// # Example: the work of a customer, whatever it is
    /// ```
    /// use tubewell::{Failure, Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// for name in ["mails", "reports"] {
    ///     let tube = store.tube(name)?;
    ///     tube.put(Put::new("work").tag("customer 7"))?;
    ///     tube.try_take()?.unwrap().bury(Failure::new("account", "it is locked"))?;
    /// }
    /// assert_eq!(store.admin().kick(Filter::new().tag("customer 7"))?, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "redrive")]
    #[doc(alias = "retry")]
    pub fn kick(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        let (tubes, filter) = filter.into().split_tubes();
        let checked = filter.for_kick();
        let store = self.store.to_async();
        M::begin(async move { kick_in(&store, tubes, checked?).await })
    }

    /// Deletes the tasks of all tubes that meet all conditions of `filter`, and returns how many. The filter
    /// has ids, a state, a failure group or a tag; with [tubes](Filter::tube) it selects tasks of these tubes.
    ///
    /// # Chosen tasks
    /// Tasks with chosen [`ids`](Filter::ids) are found in whichever tubes they are, and deleted with one
    /// commit: a crash leaves all of them or none. They may wait for each other, in different tubes too. The
    /// call skips ids that no tube has, tasks that do not meet the other conditions, and tasks that move to
    /// another tube during the call. The search looks for each id as [`Store::find`](crate::Store::find)
    /// does. [`delete_with_dependents`](StoreAdmin::delete_with_dependents) deletes all that wait for them,
    /// too.
    ///
    /// # Other tasks
    /// They are deleted as by [`Admin::delete`](crate::Admin::delete), in one tube after the other in the
    /// order of their names. A [`limit`](Filter::limit) holds for all tubes together. Selected tasks that
    /// wait for each other are deleted together in whichever of the tubes they are, up to 10,000 with one
    /// commit. The tubes are those that have tasks when the call begins; a task that is put during the call
    /// stays. A dropped ticket ends the call after the tasks of one commit. If the ticket of a call with
    /// chosen tasks is dropped, all of them or none are deleted.
    ///
    /// Once this returns, the tasks do not come back after a killed process or a power cut. The call blocks
    /// for the flush of each commit.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) as of [`Admin::delete`](crate::Admin::delete), for a limit beside ids, and
    /// if chosen tasks are in a temporary tube and in another one, which have no common commit;
    /// [`TubeNotFound`](Error::TubeNotFound): the filter has a tube that does not exist. Nothing was deleted.
    /// [`HasDependents`](Error::HasDependents): a task that is not selected waits for one of them, or they
    /// are more than one commit deletes, or than the limit. After this error, and the others of
    /// [`Admin::delete`](crate::Admin::delete), no task with a chosen id was deleted. Without chosen ids, the
    /// tasks of earlier tubes are deleted, and the tasks of later tubes stay, except those that were deleted
    /// together with a task that they waited for.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let (fetch, parse) = (store.tube("fetch")?, store.tube("parse")?);
    /// let page = fetch.put(Put::new("page 1").tag("customer 7"))?.id;
    /// let words = parse.put(Put::new("words").after(&fetch, [page]).tag("customer 7"))?.id;
    /// assert!(matches!(fetch.admin().delete(page), Err(Error::HasDependents { .. })));
    /// assert_eq!(store.admin().delete(Filter::new().ids([page, words]))?, 2); // or by the tag
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "purge")]
    pub fn delete(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        let (tubes, filter) = filter.into().split_tubes();
        let (store, checked) = (self.store.to_async(), filter.check_delete());
        if let Some(ids) = filter.ids.clone() {
            let filter = Filter { ids: None, ..filter };
            let checked = checked.and_then(|()| filter.check_delete_of_ids());
            return M::begin_call(&self.store.handle, async move {
                checked?;
                delete_of_ids(&store, tubes, ids, filter, None).await
            });
        }
        M::begin(async move {
            checked?;
            delete_in(&store, tubes, filter).await
        })
    }

    /// Deletes the tasks with these ids and all tasks that wait for them, directly or through others, in
    /// whichever tubes they are: `most` tasks in all, at most 10,000. Returns how many.
    ///
    /// They are deleted with one commit: a crash leaves all of them or none. Once this returns, they do not
    /// come back after a killed process or a power cut. The call blocks for a flush. Ids that no tube has are
    /// skipped.
    ///
    /// # Errors
    /// [`HasDependents`](Error::HasDependents): they are more than `most` tasks, more than 10,000, or more
    /// than 100,000 rows of history and steps. It names the first task of which some dependents would be
    /// left. [`Invalid`](Error::Invalid): the ids alone are more than `most` or 10,000, or have more than
    /// 100,000 rows; or they are in a temporary tube and in another one. [`Corrupt`](Error::Corrupt): a task
    /// with one of the ids cannot be read. In these cases, and after the errors of every call, nothing was
    /// deleted. After [`OutcomeUnknown`](Error::OutcomeUnknown) all are deleted when the storage works again,
    /// or perhaps none if the process ends before that.
    ///
    /// # Example: give up an order with all that follows from it
    /// ```
    /// use tubewell::{Error, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let (orders, mails) = (store.tube("orders")?, store.tube("mails")?);
    /// let order = orders.put("pack")?.id;
    /// let sent = orders.put(Put::new("send").after(&orders, [order]))?.id;
    /// mails.put(Put::new("it is on its way").after(&orders, [sent]))?;
    ///
    /// let admin = store.admin();
    /// let refused = admin.delete_with_dependents([order], 2);
    /// assert_eq!(refused, Err(Error::HasDependents { id: sent, count: 1 }));
    /// assert_eq!(admin.delete_with_dependents([order], 100)?, 3);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "cascade")]
    #[doc(alias = "chain")]
    pub fn delete_with_dependents(
        &self,
        ids: impl IntoIterator<Item: Borrow<u64>>,
        most: u64,
    ) -> M::Answer<u64> {
        let ids: BTreeSet<u64> = ids.into_iter().map(|id| *id.borrow()).collect();
        let store = self.store.to_async();
        M::begin_call(&self.store.handle, async move {
            check_count(ids.len())?;
            delete_of_ids(&store, Vec::new(), ids, Filter::new(), Some(most)).await
        })
    }

    /// The failure groups of the buried tasks of each tube, as [`Query::groups`](crate::Query::groups) has
    /// them, by the names of the tubes. Tubes without any are left out.
    ///
    /// Asks one tube after the other: those that have buried tasks when the call begins. Does not block, and
    /// includes changes whose flush is not done.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Failure, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// mails.put("to: ann")?;
    /// mails.try_take()?.unwrap().bury(Failure::new("smtp", "connection refused"))?;
    /// for (tube, groups) in store.admin().groups()? {
    ///     println!("{tube}: {} of {}", groups[0].count, groups[0].name);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "errors")]
    pub fn groups(&self) -> M::Answer<BTreeMap<String, Vec<FailureGroup>>> {
        let store = self.store.to_async();
        M::run(async move {
            let mut all = BTreeMap::new();
            for tube in tubes_of(&store, Vec::new(), Some(TaskState::Buried)).await? {
                match unless_dropped(tube.query().groups().await)? {
                    Some(groups) if !groups.is_empty() => {
                        all.insert(tube.name().to_owned(), groups);
                    }
                    _ => {}
                }
            }
            Ok(all)
        })
    }
}

async fn kick_in(store: &AsyncStore, tubes: Vec<Arc<str>>, filter: Filter) -> Result<u64> {
    let tubes = tubes_of(store, tubes, Some(TaskState::Buried)).await?;
    edit_each(tubes, filter, || TaskEdit::Kick, None).await
}

async fn delete_in(store: &AsyncStore, names: Vec<Arc<str>>, filter: Filter) -> Result<u64> {
    let below = store.admin().next_id().await?;
    let tubes = tubes_of(store, names.clone(), filter.wanted_state()).await?;
    edit_each(tubes, filter, || TaskEdit::DeleteAcross(names.clone()), Some(below)).await
}

/// Changes the selected tasks of these tubes with ids below `below`, up to the limit in all.
async fn edit_each(
    tubes: Vec<AsyncTube>,
    filter: Filter,
    edit: impl Fn() -> TaskEdit,
    below: Option<u64>,
) -> Result<u64> {
    let mut changed = 0;
    for tube in tubes {
        let limit = filter.limit.map(|limit| limit.saturating_sub(changed));
        if limit == Some(0) {
            break;
        }
        let selected = Filter { limit, ..filter.clone() };
        let edited = tube.edit_selected(Ok((selected, edit())), below).await;
        changed += unless_dropped(edited)?.unwrap_or(0);
    }
    Ok(changed)
}

/// The call that deletes these tasks together, in the tubes in which it finds them.
async fn delete_of_ids(
    store: &AsyncStore,
    names: Vec<Arc<str>>,
    ids: BTreeSet<u64>,
    filter: Filter,
    most: Option<u64>,
) -> Result<DeleteTasks> {
    for name in &names {
        store.find_tube(name).await?;
    }
    let mut tasks: BTreeMap<Arc<str>, BTreeSet<u64>> = BTreeMap::new();
    for id in ids {
        let Some(task) = store.find(id).await? else { continue };
        if names.is_empty() || names.iter().any(|name| **name == *task.tube) {
            tasks.entry(task.tube.into()).or_default().insert(id);
        }
    }
    Ok(DeleteTasks { tasks, filter, most })
}

/// The tubes with these names, or else all that have tasks in this state, in the order of their names.
async fn tubes_of(
    store: &AsyncStore,
    names: Vec<Arc<str>>,
    state: Option<TaskState>,
) -> Result<Vec<AsyncTube>> {
    let mut tubes = Vec::new();
    if names.is_empty() {
        for (name, statistics) in store.statistics().await? {
            if has_tasks(&statistics.tasks, state) {
                tubes.extend(unless_dropped(store.find_tube(&name).await)?);
            }
        }
        return Ok(tubes);
    }
    for name in names.into_iter().collect::<BTreeSet<_>>() {
        tubes.push(store.find_tube(&name).await?);
    }
    Ok(tubes)
}

fn has_tasks(tasks: &TaskCounts, state: Option<TaskState>) -> bool {
    let all = tasks.total + tasks.kept + tasks.recurring;
    state.map_or(all, |state| tasks.of(state)) > 0
}

/// `None` if the tube was dropped since: none of its tasks is left.
fn unless_dropped<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::TubeDropped { .. } | Error::TubeNotFound { .. }) => Ok(None),
        answer => answer.map(Some),
    }
}
