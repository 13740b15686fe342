//! The options of the commands on tags.

use clap::Args;

use super::{OneTask, Shown, number};

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
    /// How many tags to leave out first
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = number)]
    pub skip: u64,
    /// Print all tags
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Tagged {
    /// The tag
    pub tag: String,
    #[command(flatten)]
    pub shown: Shown,
}
