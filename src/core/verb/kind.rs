//! What verbs do, and so what they wait for.

use crate::core::state::Buffer;

/// What a call does, and so whether it needs space in its write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads what is visible. It waits for no flush and no space.
    Look,
    /// It changes nothing that its caller can see. It needs no space, and may wait for the flush of what it reads.
    Read,
    /// It changes memory, and removes or adds a few rows at most. It needs no space: a process that
    /// goes must not wait.
    Memory,
    /// It adds rows, and waits while its write buffer is full.
    Edit,
    /// It changes nothing, and waits for space as an edit does.
    Space,
}

impl Kind {
    /// Whether it changes something that its caller can see.
    pub(crate) const fn changes(self) -> bool {
        matches!(self, Kind::Memory | Kind::Edit)
    }

    /// Whether it waits while its write buffer is full.
    pub(crate) const fn needs_space(self) -> bool {
        matches!(self, Kind::Edit | Kind::Space)
    }

    /// The write buffer that must have space before it is carried out.
    pub(crate) fn space_in(self, buffer: Buffer) -> Option<Buffer> {
        self.needs_space().then_some(buffer)
    }
}
