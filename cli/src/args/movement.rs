//! The options of `move` and `advance`.

use std::ffi::OsString;

use clap::Args;
use clap_complete::ArgValueCompleter;
use tubewell::ClaimToken;

use super::{PutOptions, State, number};
use crate::tube_names;

#[derive(Debug, Args)]
pub struct Move {
    /// The tube of the tasks
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The tube to which they move
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub to: String,
    /// The tasks
    #[arg(required_unless_present_any = ["all", "state", "group", "tag"])]
    #[arg(value_name = "ID", value_parser = number, allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// Move all tasks but those that are done
    #[arg(long, conflicts_with_all = ["ids", "state", "group", "tag"])]
    pub all: bool,
    /// Move the tasks in this state
    #[arg(long, value_enum, conflicts_with = "ids")]
    pub state: Option<State>,
    /// Move the buried tasks of this failure group, in the order of their burials
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ids", "state"])]
    pub group: Option<String>,
    /// Move the tasks with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "ids")]
    pub tag: Option<String>,
    /// Move at most this many of them. Default: all
    #[arg(long, value_name = "N", value_parser = number, conflicts_with = "ids")]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
pub struct Advance {
    /// What `claim` printed
    pub token: ClaimToken,
    /// The tube in which the task goes on
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub to: String,
    /// Its body there; - is standard input. Default: the one that it has
    pub body: Option<OsString>,
    /// It keeps its body, priority, sub-queue, tags, ttr, limits and what is left of its ttl
    #[arg(long, conflicts_with_all = ["body", "PutOptions"])]
    pub unchanged: bool,
    #[command(flatten)]
    pub options: PutOptions,
}
