//! The options of `top`.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;

use crate::{duration, tube_names};

#[derive(Debug, Args)]
pub struct Top {
    /// The tube to open first. Default: all tubes are shown
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: Option<String>,
    /// How often the view may change by itself; at least 1s
    #[arg(long, value_parser = interval, value_name = "DURATION", default_value = "1s")]
    #[arg(allow_hyphen_values = true)]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    if interval < Duration::from_secs(1) {
        return Err("write 1s or more".into());
    }
    Ok(interval)
}
