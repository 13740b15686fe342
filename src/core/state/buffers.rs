//! The write buffers of a store, by index.

/// The index of the write buffer of the file.
pub(crate) const FILE: usize = 0;
/// The index of the write buffer of the temporary tubes.
pub(crate) const MEMORY: usize = 1;
