//! The options of `set-limit`.

use clap::Args;

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
