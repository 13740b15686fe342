//! The options of the commands on tags.

use clap::Args;

use super::{OneTask, number};

#[derive(Debug, Args)]
pub struct EditTags {
    #[command(flatten)]
    pub task: OneTask,
    /// The tags
    #[arg(required = true, value_name = "TAG")]
    pub tags: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Tags {
    /// The largest number of tags to print
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = number)]
    pub limit: u64,
}

#[derive(Debug, Args)]
pub struct Tagged {
    /// The tag
    pub tag: String,
    /// Print the whole body of each task
    #[arg(long)]
    pub bodies: bool,
    /// The largest number of tasks to print
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = number)]
    pub limit: u64,
    /// How many tasks to leave out first
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = number)]
    pub skip: u64,
    /// Print all tasks
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}
