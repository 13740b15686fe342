//! The options of `update` and `delete`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use clap::builder::ValueHint;

use super::{State, Tasks, TubeOrAll, number, priority};
use crate::{duration, moment};

/// A moment, or `None` for none.
pub type NotBefore = Option<SystemTime>;

#[derive(Debug, Args)]
pub struct Update {
    #[command(flatten)]
    pub tasks: Tasks,
    /// The new priority; 0 is the most urgent
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_negative_numbers = true)]
    pub priority: Option<u32>,
    /// How long from now until the task is ready; 0 makes it ready
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// The moment before which the task is not ready, such as 2026-12-24T09:00:00Z; none removes it
    #[arg(long, value_parser = moment::parse_or_none, value_name = "MOMENT")]
    #[arg(allow_hyphen_values = true)]
    pub not_before: Option<NotBefore>,
    /// The new body
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub body: Option<OsString>,
    /// Read the new body from this file; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "body", allow_hyphen_values = true)]
    pub body_file: Option<PathBuf>,
    /// A tag of the task, in place of its tags so far. May be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    pub place: TubeOrAll,
    /// The tasks
    #[arg(value_name = "ID", value_parser = number, allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// Delete these tasks only if they are in one of these states, separated by commas
    #[arg(long = "if", value_enum, value_delimiter = ',', value_name = "STATE", requires = "ids")]
    pub only_if: Vec<State>,
    /// Delete the tasks in this state
    #[arg(long, value_enum, conflicts_with = "ids")]
    pub state: Option<State>,
    /// Delete the buried tasks of this failure group
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ids", "state"])]
    pub group: Option<String>,
    /// Delete the tasks with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "ids")]
    pub tag: Option<String>,
    /// Delete at most this many of them. Default: all
    #[arg(long, value_name = "N", value_parser = number, conflicts_with_all = ["ids", "chosen"])]
    pub limit: Option<u64>,
    /// Delete these tasks, separated by commas, in whichever tubes they are
    #[arg(long = "id", value_name = "ID", value_parser = number, value_delimiter = ',')]
    #[arg(requires = "all_tubes", conflicts_with_all = ["state", "group", "tag"])]
    pub chosen: Vec<u64>,
    /// Delete all tasks that wait for them, too: up to this many in all
    #[arg(long, value_name = "N", value_parser = number, requires = "chosen")]
    #[arg(conflicts_with_all = ["ids", "state", "group", "tag"])]
    pub with_dependents: Option<u64>,
}

impl Delete {
    /// Whether it names tasks.
    pub fn has_ids(&self) -> bool {
        !self.ids.is_empty() || !self.chosen.is_empty()
    }
}
