//! Changes of many tasks: those that meet conditions, or those with chosen ids.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncTube, Filter, TaskState};
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::content::{Content, object};
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// What a call does to the tasks that it selects.
#[derive(Clone, Copy, Deserialize, PartialEq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ManyChange {
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
    /// The label of the session that has taken them.
    owner: Option<String>,
    sub_queue: Option<String>,
    /// Without it, all of them.
    limit: Option<u64>,
    /// The tube to which they move.
    to: Option<String>,
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

impl Selection {
    fn filter(&self, chosen: Chosen) -> Filter {
        let mut filter = Filter::new();
        filter = self.state.into_iter().fold(filter, Filter::state);
        filter = self.tag.iter().fold(filter, Filter::tag);
        filter = self.group.iter().fold(filter, Filter::group);
        filter = self.owner.iter().fold(filter, Filter::owner);
        filter = self.sub_queue.iter().fold(filter, Filter::sub_queue);
        filter = self.limit.into_iter().fold(filter, Filter::limit);
        chosen.ids.into_iter().fold(filter, Filter::ids)
    }

    /// The tube to which a move goes; other changes have none.
    pub(super) fn target(&self, is_move: bool) -> Answer<Option<&str>> {
        match (self.to.as_deref(), is_move) {
            (None, true) => Err(Problem::invalid("to: say to which tube, as in ?to=later")),
            (Some(_), false) => Err(Problem::invalid("to: only a move has it; leave it out")),
            (to, _) => Ok(to),
        }
    }
}

/// Changes the selected tasks of a tube.
///
/// The conditions are those of the query, or the content names the ids. With a `limit` the call changes so many tasks
/// at most: a client that wants to show its progress, or to stop, calls again until fewer were changed.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/{change}", tag = "many tasks",
    params(("tube" = String, Path), ("change" = inline(ManyChange), Path), Selection),
    request_body(content = Option<Chosen>, content_type = "application/json"),
    responses((status = 200, body = Changed, content_type = "application/json"), Problems),
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Names((name, change)): Names<(String, String)>,
    Options(selection): Options<Selection>,
    content: Content,
) -> Answer {
    let change = query::word(&change)?;
    let tube = shared.tube(&name).await?;
    let to = selection.target(change == ManyChange::Move)?;
    let to = match to {
        Some(to) => Some(shared.tube(to).await?),
        None => None,
    };
    let filter = selection.filter(object(&content.bytes)?);
    let changed = change_selected(&tube, change, filter, to.as_ref()).await?;
    shared.answers.json(StatusCode::OK, &Changed { changed })
}

async fn change_selected(
    tube: &AsyncTube,
    change: ManyChange,
    filter: Filter,
    to: Option<&AsyncTube>,
) -> tubewell::Result<u64> {
    let admin = tube.admin();
    match change {
        ManyChange::Kick => admin.kick(filter).await,
        ManyChange::Delete => admin.delete(filter).await,
        ManyChange::Release => admin.release(filter).await,
        ManyChange::Revoke => admin.revoke(filter).await,
        ManyChange::Move => admin.move_to(to.unwrap_or(tube), filter).await,
    }
}

/// Makes the selected buried tasks of all tubes ready.
#[utoipa::path(
    post, path = "/v1/kick", tag = "many tasks", params(Selection),
    responses((status = 200, body = Changed, content_type = "application/json"), Problems),
)]
pub(super) async fn kick_all(
    State(shared): State<Arc<Shared>>,
    Options(selection): Options<Selection>,
    content: Content,
) -> Answer {
    selection.target(false)?;
    let filter = selection.filter(object(&content.bytes)?);
    let changed = shared.later.admin().kick(filter).await?;
    shared.answers.json(StatusCode::OK, &Changed { changed })
}

/// Deletes the selected tasks of all tubes.
#[utoipa::path(
    post, path = "/v1/delete", tag = "many tasks", params(Selection),
    request_body(content = Option<Chosen>, content_type = "application/json"),
    responses((status = 200, body = Changed, content_type = "application/json"), Problems),
)]
pub(super) async fn delete_all(
    State(shared): State<Arc<Shared>>,
    Options(selection): Options<Selection>,
    content: Content,
) -> Answer {
    selection.target(false)?;
    let filter = selection.filter(object(&content.bytes)?);
    let changed = shared.later.admin().delete(filter).await?;
    shared.answers.json(StatusCode::OK, &Changed { changed })
}
