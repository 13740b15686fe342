//! What a change does that finds no space.

/// What a change of a handle does while too many changes wait to be written (back pressure).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It blocks, or stands in line, until there is space.
    Wait,
    /// It is refused, and changes nothing.
    Refuse,
}
