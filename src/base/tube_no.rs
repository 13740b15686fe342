//! The number of a tube.

/// The number of a tube in one run of the store: the space that its rows had when the run met it first. After
/// a truncate its space is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TubeNo(pub(crate) u32);
