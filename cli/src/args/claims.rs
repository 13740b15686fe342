//! The options of `claim`, and of the commands that have its token.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use tubewell::ClaimToken;

use super::number;
use crate::{duration, tube_names};

#[derive(Debug, Args)]
pub struct ClaimTask {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The task. Default: the next one that is ready
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: Option<u64>,
    /// How long the claim lasts; then the task is ready again
    #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
    #[arg(default_value = "1h", allow_hyphen_values = true)]
    pub hold: Duration,
    /// How long to wait for a task that is ready. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    #[arg(conflicts_with = "id")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct Ack {
    /// What `claim` printed
    pub token: ClaimToken,
}

#[derive(Debug, Args)]
pub struct Release {
    /// What `claim` printed
    pub token: ClaimToken,
    /// How long until the task is ready again. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct Renew {
    /// What `claim` printed
    pub token: ClaimToken,
    /// How long the claim lasts from now on
    #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
    #[arg(default_value = "1h", allow_hyphen_values = true)]
    pub hold: Duration,
}
