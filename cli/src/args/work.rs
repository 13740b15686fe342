//! The options of `work`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::{duration, tube_names};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// Make it ready again, or delayed with --delay
    Release,
    /// Set it aside until it is kicked
    Bury,
}

#[derive(Debug, Args)]
pub struct Work {
    /// The tubes; a task is taken from the first that has one
    #[arg(required = true, value_name = "TUBE")]
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tubes: Vec<String>,
    /// How many commands run at a time
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How to handle a task whose command fails
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnFailure::Release)]
    pub on_failure: OnFailure,
    /// How long until a failed task is ready again. Default: 0, or the backoff of its tube
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// Bury a task after this many failed attempts. Default: never
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_takes: Option<u32>,
    /// Exit when no task is ready. Each task is tried once, or up to --max-takes times
    #[arg(long)]
    pub once: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::AnyPath)]
    pub command: Vec<OsString>,
}
