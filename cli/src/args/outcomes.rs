//! The options of `outcome` and `resolve`, and the result of `ack`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;
use clap_complete::ArgValueCompleter;

use super::number;
use crate::tube_names;

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
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The task
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: u64,
    /// Print the result only, unchanged
    #[arg(long, conflicts_with = "json")]
    pub result: bool,
}

#[derive(Debug, Args)]
pub struct Resolve {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The task
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: u64,
    #[command(flatten)]
    pub result: ResultSource,
}
