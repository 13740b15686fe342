//! The formats of a file. A store has the lowest one that can say what is in it.

use tubewell_drivers::{Header, More};

/// The newest format that this release reads, and the one of a store that has or had tasks with steps.
pub(crate) const FORMAT: u32 = 7;
/// The format of a store that has or had tags, history, schedules or metrics.
pub(crate) const FORMAT_WITH_LABELS: u32 = 6;
/// The format of a store that has or had keys of tasks, parents, moments, gates or limits.
pub(crate) const FORMAT_WITH_GATES: u32 = 5;
/// The format of a store that has or had limits of attempts, failures or kept outcomes.
pub(crate) const FORMAT_WITH_OUTCOMES: u32 = 4;
/// The format of a store with parked claims, or with a tube that limits the time of a claim.
pub(crate) const FORMAT_WITH_CLAIMS: u32 = 3;
/// The format of a store with a written tube: a release that does not know that durability would
/// never flush such a tube.
pub(crate) const FORMAT_WITH_WRITTEN_TUBES: u32 = 2;
/// The format of a store with none of these.
pub(crate) const FIRST_FORMAT: u32 = 1;

/// The lowest format of a store with a task that has this header.
#[inline]
pub(super) fn format_of(header: &Header) -> u32 {
    let Some(more) = header.more.as_deref() else { return FIRST_FORMAT };
    let is_new = !more.tags.is_empty()
        || more.history.is_some()
        || more.since.is_some()
        || more.spawned_by.is_some()
        || more.recur.is_some();
    match more {
        _ if more.has_steps => FORMAT,
        _ if is_new => FORMAT_WITH_LABELS,
        More { key: None, open_parents: 0, not_before: None, .. } => FORMAT_WITH_OUTCOMES,
        _ => FORMAT_WITH_GATES,
    }
}
