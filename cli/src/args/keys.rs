//! The options of tasks with a key.

use std::ffi::OsString;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{PutOptions, number};
use crate::tube_names;

#[derive(Debug, Args)]
pub struct Requeue {
    /// The tube in which the task is afterwards
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The key of the task
    pub key: String,
    /// The new body. Default, and for -: standard input
    pub body: Option<OsString>,
    #[command(flatten)]
    pub options: PutOptions,
}

#[derive(Debug, Args)]
pub struct Find {
    /// The key of the task
    #[arg(required_unless_present = "id")]
    pub key: Option<String>,
    /// The id of the task, instead of its key
    #[arg(long, value_name = "ID", value_parser = number, conflicts_with = "key")]
    pub id: Option<u64>,
    /// Print the body only
    #[arg(long, conflicts_with = "json")]
    pub body: bool,
}
