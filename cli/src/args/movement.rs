//! The options of `move` and `advance`.

use std::ffi::OsString;

use clap::Args;
use clap_complete::ArgValueCompleter;
use tubewell::ClaimToken;

use super::{PutOptions, number};
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
    #[arg(required_unless_present = "all", value_name = "ID", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// Move all tasks but those that are done
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
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
    #[command(flatten)]
    pub options: PutOptions,
}
