//! Steps that wait: sleeps, and waits for other tasks. The task is given back meanwhile.

use std::time::Duration;

use tubewell_drivers::NEVER;

use crate::base::micros::{duration, micros_ceil};
use crate::core::list::{Join, Sleep};
use crate::core::verb::TubeName;
use crate::handle::claim::Held;
use crate::{Mode, Result, Tube};

impl Held {
    /// How long the sleep of this name still lasts; zero once it is over. It begins with the first
    /// call, in this attempt or an earlier one, and goes on while the store is closed.
    pub(crate) fn sleep_step(&self, name: &str, time: Duration) -> Result<Duration> {
        let named = self.name_step(name)?;
        let left = self.make(&Sleep { name: name.into(), time: micros_ceil(time) });
        named.keep(left).map(time_left)
    }

    /// As `sleep_step`, as a future that blocks no thread.
    pub(crate) async fn sleep_step_async(&self, name: &str, time: Duration) -> Result<Duration> {
        let named = self.name_step(name)?;
        let left = self.make_async(&Sleep { name: name.into(), time: micros_ceil(time) }).await;
        named.keep(left).map(time_left)
    }

    /// Whether these tasks, of this tube or of others to which they have gone on, are over. If one
    /// is not, the claim has ended when this returns: the task is blocked until they are, and the
    /// attempt is forgiven. In the next attempt the wait of this name is over.
    pub(crate) fn join_step<T, M: Mode>(
        &self,
        name: &str,
        tube: &Tube<T, M>,
        ids: &[u64],
    ) -> Result<bool> {
        let named = self.name_step(name)?;
        named.keep(self.make(&self.join(name, tube, ids)?))
    }

    /// As `join_step`, as a future that blocks no thread.
    pub(crate) async fn join_step_async<T, M: Mode>(
        &self,
        name: &str,
        tube: &Tube<T, M>,
        ids: &[u64],
    ) -> Result<bool> {
        let named = self.name_step(name)?;
        named.keep(self.make_async(&self.join(name, tube, ids)?).await)
    }

    fn join<T, M: Mode>(&self, name: &str, tube: &Tube<T, M>, ids: &[u64]) -> Result<Join> {
        tube.check_store(&self.handle)?;
        Ok(Join { name: name.into(), of: TubeName::from(tube.head()), ids: ids.to_vec() })
    }
}

fn time_left(micros: u64) -> Duration {
    if micros == NEVER { Duration::MAX } else { duration(micros) }
}

#[cfg(test)]
mod tests;
