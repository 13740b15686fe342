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
}

#[derive(Debug, Args)]
pub struct Tagged {
    /// The tag
    pub tag: String,
    #[command(flatten)]
    pub shown: Shown,
}
