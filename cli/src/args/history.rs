//! The options of `log`.

use clap::Args;

use super::OneTask;

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    pub task: OneTask,
    /// The text of the entry, at most 1024 bytes
    #[arg(allow_hyphen_values = true)]
    pub text: String,
}
