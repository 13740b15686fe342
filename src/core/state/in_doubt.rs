//! A transaction of the application whose outcome is not known.

use crate::base::tube_no::TubeNo;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::buffers::Buffer;
use super::days::Counted;
use super::parents::Chore;

/// A transaction whose commit is being written, or has failed.
#[derive(Debug)]
pub(crate) struct InDoubt {
    /// The number of its commit.
    pub(in crate::core) commit: u64,
    /// Its changes, among those in flight.
    pub(in crate::core) changes: Range<usize>,
    /// How many endings were noted for its tasks before.
    pub(in crate::core) noted: Vec<(u64, usize)>,
    /// The tasks that it has acked or deleted.
    pub(in crate::core) over: Vec<TaskOver>,
    /// Those of them for which other tasks wait since.
    pub(in crate::core) waited_for: BTreeSet<u64>,
    /// The chores before it.
    pub(in crate::core) chores: BTreeMap<(Buffer, u64), Chore>,
    /// What it counts, by tube, once its commit is in the file.
    pub(in crate::core) counted: Vec<(TubeNo, Counted)>,
}

/// A task that a transaction has acked or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskOver {
    pub(in crate::core) id: u64,
    /// Its tube, and the space of that.
    pub(in crate::core) number: TubeNo,
    pub(in crate::core) space: u32,
}
