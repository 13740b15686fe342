//! The options of a tube as they are in effect.

use std::time::Duration;

use tubewell_drivers::{NEVER, Traits};

use super::declare::NAMES;
use super::{Policies, TubeOptions};
use crate::micros::{duration, micros_ceil};
use crate::{Error, Result};

impl Policies {
    /// The options of a tube with this driver.
    pub(crate) fn new(options: &TubeOptions, driver: &str, traits: Traits) -> Result<Policies> {
        options.check()?;
        let mut policies = Policies::in_effect(options);
        if options.ttr.is_none() {
            policies.ttr = policies.ttl;
        }
        if let Some(what) = policies.unsupported(traits) {
            return Err(Error::Unsupported { what: what.into(), driver: driver.into() });
        }
        Ok(policies)
    }

    /// The options that lead to these.
    pub(super) fn options(&self) -> TubeOptions {
        let mut options = self.to_options();
        // A ttr without a limit is the default in a tube whose ttl has none.
        options.ttr = options.ttr.or(options.ttl.map(|_| Duration::MAX));
        options
    }

    /// The first option that differs, as a clause. A pause is no difference.
    pub(crate) fn difference(&self, other: &Policies) -> Option<String> {
        self.differences(other).next().map(|(_, clause)| clause)
    }

    /// The first difference that no alter removes, as a clause.
    pub(crate) fn lasting_difference(&self, other: &Policies) -> Option<String> {
        self.differences(other).find(|(altered, _)| !altered).map(|(_, clause)| clause)
    }

    fn differences(&self, other: &Policies) -> impl Iterator<Item = (bool, String)> + use<> {
        let pairs = self.values().into_iter().zip(other.values());
        let named = pairs.zip(NAMES).filter(|(((_, mine), (_, theirs)), _)| mine != theirs);
        named.map(|(((_, mine), (_, theirs)), (name, altered))| {
            (*altered, format!("its {name} is {mine}, not {theirs}"))
        })
    }
}

/// A time in microseconds; [`NEVER`] without a limit.
pub(crate) fn micros(time: Option<Duration>) -> u64 {
    time.map_or(NEVER, micros_ceil)
}

/// A time as the file keeps it.
pub(super) fn whole(time: Duration) -> Duration {
    duration(micros_ceil(time))
}

/// A time as the file keeps it; `None` without a limit.
pub(super) fn limited(time: Duration) -> Option<Duration> {
    Some(micros_ceil(time)).filter(|time| *time != NEVER).map(duration)
}
