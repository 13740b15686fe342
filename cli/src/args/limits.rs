//! The options that limit sub-queues, and those of `set-limit`.

use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use tubewell::{Rate, TubeOptions};

use super::whole;

pub(super) fn rates() -> Vec<CompletionCandidate> {
    ["1/1s", "10/1s", "5000/1h"].map(CompletionCandidate::new).into()
}

#[derive(Debug, Args)]
pub struct SubQueueOptions {
    /// How many tasks of each sub-queue may be taken at a time (utube, utubettl). Default: 1
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub sub_queue_limit: Option<u32>,
    /// How many tasks of each sub-queue may be taken in a period: 1/1s, see below.
    /// Default: no limit
    #[arg(long, value_name = "RATE", add = ArgValueCandidates::new(rates))]
    pub sub_queue_rate: Option<Rate>,
    /// Whether its sub-queues share the limits of `set-limit` with those of other such tubes, by
    /// name. Default: false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub shared_limits: Option<bool>,
}

impl SubQueueOptions {
    /// The given options, changed by these.
    pub fn over(&self, mut options: TubeOptions) -> TubeOptions {
        if let Some(limit) = self.sub_queue_limit {
            options = options.sub_queue_limit(limit);
        }
        if let Some(rate) = self.sub_queue_rate {
            options = options.sub_queue_rate(rate);
        }
        if let Some(shared) = self.shared_limits {
            options = options.shared_limits(shared);
        }
        options
    }
}

#[derive(Debug, Args)]
pub struct SetLimit {
    /// The name of the limit, which is that of sub-queues
    pub name: String,
    /// How many tasks may be taken at a time, or none to remove the limit
    #[arg(value_name = "N", value_parser = most, allow_negative_numbers = true)]
    pub most: Most,
}

/// A limit, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most(pub Option<u32>);

fn most(text: &str) -> Result<Most, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let wrong = |_| "write a whole number, such as 2, or none".to_owned();
    text.parse().map(|most| Most(Some(most))).map_err(wrong)
}
