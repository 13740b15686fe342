//! The options of `days`.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::whole;
use crate::tube_names;

#[derive(Debug, Args)]
pub struct Days {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// How many days, up to and including today
    #[arg(long, default_value_t = 30, value_name = "N")]
    #[arg(value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub last: u32,
    /// Plot how these times are distributed over all these days
    #[arg(long, value_enum, value_name = "TIMES", conflicts_with = "json")]
    pub plot: Option<Plot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plot {
    /// How long tasks were ready before they were taken
    Wait,
    /// How long tasks were taken before they were finished
    Run,
}
