//! The options of `claim`, and of the commands that have its token.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use tubewell::ClaimToken;

use super::{ResultSource, number};
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
    #[command(flatten)]
    pub result: ResultSource,
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
pub struct Fail {
    /// What `claim` printed
    pub token: ClaimToken,
    /// The failure group: a short name that failures of one kind share
    #[arg(long, value_name = "NAME", value_parser = group)]
    pub group: String,
    /// What went wrong, for people. Default: empty
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// How long until the next attempt. Default: the backoff of the tube
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct Snooze {
    /// What `claim` printed
    pub token: ClaimToken,
    /// How long until the task is ready again
    #[arg(value_parser = duration::parse, value_name = "DELAY", allow_hyphen_values = true)]
    pub delay: Duration,
}

#[derive(Debug, Args)]
pub struct Bury {
    /// The tube of the tasks; or what `claim` printed, for its task
    #[arg(value_name = "TUBE|TOKEN", add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The tasks
    #[arg(value_name = "ID", value_parser = number, allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// The failure group: a short name that failures of one kind share. Default: none
    #[arg(long, value_name = "NAME", value_parser = group, conflicts_with = "ids")]
    pub group: Option<String>,
    /// What went wrong, for people. Default: empty
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "group")]
    pub message: Option<String>,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The tasks
    #[arg(required_unless_present = "all", value_name = "ID", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// End all claims of the tube
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
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

/// The name of a failure group.
fn group(name: &str) -> Result<String, String> {
    match name.len() {
        1..=255 => Ok(name.into()),
        length => Err(format!("a group has 1 to 255 bytes, not {length}; see --message")),
    }
}
