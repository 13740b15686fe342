//! The options of `work`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use tubewell::Backoff;

use super::create::backoffs;
use super::whole;
use crate::{duration, tube_names};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// Make it ready again, or delayed with --delay
    Release,
    /// Set it aside until it is kicked
    Bury,
}

/// The order in which the tubes are asked for the next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// The first tube that has a task
    Listed,
    /// The tubes take turns
    RoundRobin,
    /// A random order for each task
    Shuffled,
}

#[derive(Clone, Debug, Args)]
pub struct Work {
    /// The tubes; a task is taken from the first that has one, or as --order says
    #[arg(required = true, value_name = "TUBE")]
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tubes: Vec<String>,
    /// How many commands run at a time
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = whole::<u16>(1, 1024))]
    pub jobs: u16,
    /// The order in which the tubes are asked for the next task
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Listed)]
    pub order: Order,
    /// How long a command may run; then it is ended, and has failed. Default: no limit
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub max_runtime: Option<Duration>,
    /// How to handle a task whose command fails
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnFailure::Release)]
    pub on_failure: OnFailure,
    /// How long until a failed or snoozed task is ready again. Default: 0, or the backoff of its tube
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// The backoff of failed tasks of tubes without one: 10s, or 1s,factor=2,cap=1h. Default: none
    #[arg(long, value_name = "BACKOFF", conflicts_with = "delay")]
    #[arg(add = ArgValueCandidates::new(backoffs))]
    pub backoff: Option<Backoff>,
    /// Bury a task after this many failed attempts. Default: never
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub max_attempts: Option<u32>,
    /// Keep standard output as the result of the task
    #[arg(long)]
    pub keep_output: bool,
    /// Exit when no task is ready. Each task is tried once, or up to --max-attempts times
    #[arg(long)]
    pub once: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::AnyPath)]
    pub command: Vec<OsString>,
}
