//! The limits of names, bodies and batches, each with its reason.

/// Longest tube name, in bytes: long enough for a path or a URL host, short enough for a key.
pub const TUBE_NAME_MAX: usize = 255;

/// Longest sub-queue name, in bytes. It is part of a key, which is copied when pages split.
pub const SUB_QUEUE_MAX: usize = 255;

/// Largest body, in bytes. A body is held in memory while it is put and while it is taken.
pub const BODY_MAX: usize = 64 << 20;

/// Bodies up to this size sit in their record: one row to write, one to read. Above it they have
/// a row of their own, so that a change of state does not rewrite them (a page has 4 KiB).
pub const INLINE_MAX: usize = 1024;

/// Most tasks of one atomic `put_many`: its transaction is built in memory.
pub const PUT_MANY_TASKS: usize = 100_000;

/// Most bytes of bodies of one atomic `put_many`.
pub const PUT_MANY_BYTES: usize = 256 << 20;

/// Most tasks of one page of `list`.
pub const PAGE_MAX: usize = 10_000;

/// "Never" on either line of time, in microseconds.
pub const NEVER: u64 = u64::MAX;
