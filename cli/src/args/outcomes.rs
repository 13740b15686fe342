//! The options of `outcome` and `resolve`, and the result of `ack`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::OneTask;

/// Where a result comes from.
#[derive(Debug, Args)]
pub struct ResultSource {
    /// The result. Default: none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub result: Option<OsString>,
    /// Read the result from this file; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "result", allow_hyphen_values = true)]
    pub result_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Outcome {
    #[command(flatten)]
    pub task: OneTask,
    /// Print the result only, unchanged
    #[arg(long, conflicts_with = "json")]
    pub result: bool,
}

#[derive(Debug, Args)]
pub struct Resolve {
    #[command(flatten)]
    pub task: OneTask,
    #[command(flatten)]
    pub result: ResultSource,
}
