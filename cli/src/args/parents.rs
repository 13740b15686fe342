//! The options of the commands on parents, the tasks that a task waits for.

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{OneTask, number};
use crate::tube_names;

#[derive(Debug, Args)]
pub struct AddParents {
    #[command(flatten)]
    pub task: OneTask,
    /// The tasks that must be done before this one can be taken
    #[arg(required = true, value_name = "PARENT", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub parents: Vec<u64>,
    /// The tube of the parents. Default: the tube of the task
    #[arg(long, value_name = "TUBE", add = ArgValueCompleter::new(tube_names::complete))]
    pub parent_tube: Option<String>,
}

#[derive(Debug, Args)]
pub struct RemoveParents {
    #[command(flatten)]
    pub task: OneTask,
    /// The tasks for which it does not have to wait
    #[arg(required_unless_present = "all", value_name = "PARENT", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub parents: Vec<u64>,
    /// Remove all parents of the task
    #[arg(long, conflicts_with = "parents")]
    pub all: bool,
}
