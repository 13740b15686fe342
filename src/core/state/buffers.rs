//! The write buffers of a store: one of its file, and one of the temporary tubes.

use std::ops::{Index, IndexMut};

/// Which write buffer has the rows of a tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Buffer {
    /// That of the file.
    File,
    /// That of the temporary tubes.
    Memory,
}

impl Buffer {
    pub(crate) const ALL: [Buffer; 2] = [Buffer::File, Buffer::Memory];
}

/// Something of each write buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PerBuffer<T> {
    file: T,
    memory: T,
}

impl<T> PerBuffer<T> {
    pub(crate) fn new(file: T, memory: T) -> PerBuffer<T> {
        PerBuffer { file, memory }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.file, &self.memory].into_iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.file, &mut self.memory].into_iter()
    }
}

impl<T> Index<Buffer> for PerBuffer<T> {
    type Output = T;

    #[inline]
    fn index(&self, buffer: Buffer) -> &T {
        match buffer {
            Buffer::File => &self.file,
            Buffer::Memory => &self.memory,
        }
    }
}

impl<T> IndexMut<Buffer> for PerBuffer<T> {
    #[inline]
    fn index_mut(&mut self, buffer: Buffer) -> &mut T {
        match buffer {
            Buffer::File => &mut self.file,
            Buffer::Memory => &mut self.memory,
        }
    }
}
