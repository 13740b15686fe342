//! Changes of many tasks: those that meet conditions, or those with chosen ids.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncTube, Cursor, Filter, Store, TaskState, Tube};
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::content::{Content, object};
use super::pages::Pages;
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// What a call does to the tasks that it selects.
#[derive(Clone, Copy, Deserialize, PartialEq, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ManyChange {
    /// Makes buried tasks ready.
    Kick,
    Delete,
    /// Moves tasks that are not done to the tube `to`.
    Move,
    /// Ends claims; the attempts count.
    Release,
    /// Ends claims; the attempts do not count.
    Revoke,
}

impl ManyChange {
    /// The state in which the tasks are that it changes, if it is one.
    fn state(self) -> Option<TaskState> {
        match self {
            ManyChange::Kick => Some(TaskState::Buried),
            ManyChange::Release | ManyChange::Revoke => Some(TaskState::Taken),
            ManyChange::Move | ManyChange::Delete => None,
        }
    }

    /// Whether a call may begin behind the tasks of another. Deleted tasks are met by no later call, and those that wait
    /// for each other go together.
    fn goes_on(self) -> bool {
        self != ManyChange::Delete
    }
}

/// Which tasks, and how many of them at most.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Selection {
    #[param(value_type = Option<schema::TaskState>, inline)]
    state: Option<TaskState>,
    tag: Option<String>,
    /// The failure group of buried tasks.
    group: Option<String>,
    /// The label of the session that has taken them: of `release` and `revoke`.
    owner: Option<String>,
    /// Without it, all of them.
    limit: Option<u64>,
    /// The `next` of the call before: of a change with a tag and a limit.
    #[param(value_type = Option<String>)]
    after: Option<Cursor>,
    /// The tube to which they move.
    to: Option<String>,
}

/// Which tasks of all tubes, and how many of them at most.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SelectionOfAll {
    #[param(value_type = Option<schema::TaskState>, inline)]
    state: Option<TaskState>,
    tag: Option<String>,
    /// The failure group of buried tasks.
    group: Option<String>,
    /// Without it, all of them.
    limit: Option<u64>,
    /// The `next` of the call before: of a kick with a tag and a limit.
    #[param(value_type = Option<String>)]
    after: Option<Cursor>,
}

/// The tasks with these ids.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    ids: Option<Vec<u64>>,
}

/// How many tasks were changed.
#[derive(Serialize, ToSchema)]
pub(super) struct Changed {
    pub(super) changed: u64,
}

/// How many tasks were changed, and where the next call goes on.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedMany)]
struct ChangedJson {
    changed: u64,
    /// What the next call has as `after`; null if it has nothing to change, or begins anew.
    #[schema(value_type = Option<String>)]
    next: Option<Cursor>,
}

impl From<SelectionOfAll> for Selection {
    fn from(selection: SelectionOfAll) -> Selection {
        let SelectionOfAll { state, tag, group, limit, after } = selection;
        Selection { state, tag, group, owner: None, limit, after, to: None }
    }
}

impl Chosen {
    fn among(self, filter: Filter, limit: Option<u64>) -> Filter {
        self.ids.into_iter().fold(limit.into_iter().fold(filter, Filter::limit), Filter::ids)
    }
}

/// A change of the tasks that meet conditions or have chosen ids: by pages where the next call can go on behind them.
struct Selected {
    filter: Filter,
    pages: Option<Pages>,
}

impl Selected {
    fn new(change: ManyChange, selection: Selection, chosen: Chosen) -> Answer<Selected> {
        let Selection { state, tag, group, owner, limit, after, to: _ } = selection;
        let filter = query::conditions(state, tag.as_ref(), group.as_ref(), owner.as_ref());
        let by_pages = change.goes_on() && tag.is_some() && chosen.ids.is_none();
        let of_pages = limit.filter(|_| by_pages);
        let pages = Pages::of(filter.clone(), change.state(), of_pages, after)?;
        Ok(Selected { filter: chosen.among(filter, limit), pages })
    }

    /// Changes tasks of a tube, or of all tubes. Returns how many, and where the next call goes on.
    fn change(
        self,
        store: &Store,
        tube: Option<&Tube>,
        make: impl Fn(Option<&Tube>, Filter) -> tubewell::Result<u64>,
    ) -> tubewell::Result<(u64, Option<Cursor>)> {
        match self.pages {
            Some(pages) => pages.change(store, tube, make),
            None => Ok((make(tube, self.filter)?, None)),
        }
    }
}

/// The tube to which a move goes; other changes have none.
pub(super) async fn target(
    shared: &Shared,
    to: Option<&str>,
    is_move: bool,
) -> Answer<Option<AsyncTube>> {
    match (to, is_move) {
        (Some(to), true) => Ok(Some(shared.tube(to).await?)),
        (None, true) => Err(Problem::invalid("to: say to which tube, as in ?to=later")),
        (Some(_), false) => Err(Problem::invalid("to: only a move has it; leave it out")),
        (None, false) => Ok(None),
    }
}

/// Changes the selected tasks of a tube.
///
/// The conditions are those of the query, or the content names the ids. `limit` is the maximum number of
/// changed tasks. A client that shows its progress, or can be stopped, repeats the call until it changes fewer,
/// with the `next` of the answer as `after` if it has one.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/{change}", operation_id = "change_tasks", tag = "many tasks",
    params(("tube" = String, Path), ("change" = inline(ManyChange), Path), Selection),
    request_body(content = Option<Chosen>, content_type = "application/json"),
    responses((status = 200, body = ChangedJson, content_type = "application/json"), Problems),
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Names((name, change)): Names<(String, String)>,
    Options(selection): Options<Selection>,
    content: Content,
) -> Answer {
    let change: ManyChange = query::word(&change)?;
    let tube = shared.tube(&name).await?;
    let to = target(&shared, selection.to.as_deref(), change == ManyChange::Move).await?;
    let selected = Selected::new(change, selection, object(&content.bytes)?)?;
    shared
        .change_many(move |store| {
            let tube = tube.to_blocking();
            selected.change(store, Some(&tube), |in_tube, filter| {
                let admin = in_tube.unwrap_or(&tube).admin();
                match (change, &to) {
                    (ManyChange::Kick, _) => admin.kick(filter),
                    (ManyChange::Delete, _) => admin.delete(filter),
                    (ManyChange::Release, _) => admin.release(filter),
                    (ManyChange::Revoke, _) => admin.revoke(filter),
                    (ManyChange::Move, Some(to)) => admin.move_to(to, filter),
                    (ManyChange::Move, None) => Ok(0),
                }
            })
        })
        .await
}

/// Makes the selected buried tasks of all tubes ready.
#[utoipa::path(
    post, path = "/v1/all/kick", operation_id = "kick_tasks", tag = "many tasks", params(SelectionOfAll),
    responses((status = 200, body = ChangedJson, content_type = "application/json"), Problems),
)]
pub(super) async fn kick_all(
    State(shared): State<Arc<Shared>>,
    Options(selection): Options<SelectionOfAll>,
    _: Content,
) -> Answer {
    let selected = Selected::new(ManyChange::Kick, selection.into(), Chosen::default())?;
    shared
        .change_many(move |store| {
            selected.change(store, None, |tube, filter| match tube {
                Some(tube) => tube.admin().kick(filter),
                None => store.admin().kick(filter),
            })
        })
        .await
}

/// Deletes the selected tasks of all tubes.
#[utoipa::path(
    post, path = "/v1/all/delete", operation_id = "delete_tasks", tag = "many tasks", params(SelectionOfAll),
    request_body(content = Option<Chosen>, content_type = "application/json"),
    responses((status = 200, body = ChangedJson, content_type = "application/json"), Problems),
)]
pub(super) async fn delete_all(
    State(shared): State<Arc<Shared>>,
    Options(selection): Options<SelectionOfAll>,
    content: Content,
) -> Answer {
    let selected = Selected::new(ManyChange::Delete, selection.into(), object(&content.bytes)?)?;
    shared
        .change_many(move |store| {
            selected.change(store, None, |_, filter| store.admin().delete(filter))
        })
        .await
}

impl Shared {
    /// Makes a change of many tasks, on a thread that other calls do not wait for: a step that waits for no flush
    /// would not give way to them. Few are made at a time, so that reads have threads, too. The change goes on if its
    /// client has gone.
    async fn change_many(
        &self,
        change: impl FnOnce(&Store) -> tubewell::Result<(u64, Option<Cursor>)> + Send + 'static,
    ) -> Answer {
        let Ok(place) = self.changes.clone().acquire_owned().await else {
            return Err(tubewell::Error::Closed.into());
        };
        self.read(move |store, answers| {
            let _place = place;
            let (changed, next) = change(store)?;
            answers.json(StatusCode::OK, &ChangedJson { changed, next })
        })
        .await
    }
}
