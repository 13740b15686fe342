//! The limits of names, bodies and batches, each with its reason.

/// Maximum length of a tube name, in bytes: enough for a path or a URL host, and short in a key.
pub const TUBE_NAME_MAX: usize = 255;

/// The priority of tasks without one, in tubes without one.
pub const DEFAULT_PRIORITY: u32 = 100;

/// The order key of such tasks, and of all tasks of drivers without priorities.
pub(crate) const DEFAULT_ORDER: u64 = DEFAULT_PRIORITY as u64;

/// Maximum length of a sub-queue name, in bytes. It is part of a key, and keys are copied when a
/// page splits.
pub const SUB_QUEUE_MAX: usize = 255;

/// Maximum length of the name of a failure group, in bytes. Each task of the group has it in its
/// record.
pub const FAILURE_GROUP_MAX: usize = 255;

/// Maximum length of the key of a task, in bytes: enough for a URL. It is in the record of the task; the
/// key of its row in the index has the hash of a long one.
pub const KEY_MAX: usize = 4096;

/// Maximum length of the token of a put, in bytes: enough for a UUID or a SHA-256 as text. It is in
/// two keys of the index.
pub const IDEMPOTENCY_KEY_MAX: usize = 64;

/// How long a token of a put is remembered if the put does not say it, in microseconds: an hour. Long
/// enough for a caller that is started again, and short enough for the file: 100 such puts a second are
/// 360,000 tokens, with some 130 bytes each if they are UUIDs as text.
pub const IDEMPOTENCY_KEY_TIME: u64 = 3_600_000_000;

/// How long a token of a put can be remembered, in microseconds: 366 days. Enough for once a year; one such put a
/// second makes 32 million tokens in that time, some 4 GB.
pub const IDEMPOTENCY_KEY_TIME_MAX: u64 = 366 * 24 * IDEMPOTENCY_KEY_TIME;

/// Maximum number of tags of a task. Each one costs a put two rows of the index.
pub const TAGS_MAX: usize = 32;

/// Maximum length of a tag, in bytes. It is in the record of each task that has it, and in keys of
/// the index.
pub const TAG_MAX: usize = 255;

/// Maximum number of entries in the history of a task. All of them are removed with the task, in one
/// commit.
pub const HISTORY_MAX: u32 = 1000;

/// Maximum length of the text of an entry in a history, in bytes.
pub const HISTORY_TEXT_MAX: usize = 1024;

/// Maximum number of steps of a task that are stored. All of them are removed with the task, in one
/// commit.
pub const STEPS_MAX: u32 = 1000;

/// Maximum length of the name of a step, in bytes. It is part of a key.
pub const STEP_NAME_MAX: usize = 255;

/// Maximum length of a body, in bytes. A body is in memory while it is put and while it is taken.
pub const BODY_MAX: usize = 64 << 20;

/// Maximum length of an inline body, in bytes. An inline body is stored in the task's record: one
/// row to write and to read. A larger body has a row of its own, so that a change of the task's
/// state does not write it again. (A page has 4 KiB.)
pub const INLINE_MAX: usize = 1024;

/// Maximum number of tasks of one `put_many`. Its transaction is built in memory.
pub const PUT_MANY_TASKS: usize = 100_000;

/// Maximum size of all bodies of one `put_many`, in bytes.
pub const PUT_MANY_BYTES: usize = 256 << 20;

/// Maximum number of parents of a task, and of the edges above it that are read to find a cycle. The
/// edges of a task are removed with one commit.
pub const PARENTS_MAX: usize = 10_000;

/// Maximum number of tasks of one page of `list`.
pub const PAGE_MAX: usize = 10_000;

/// "Never", as a time in microseconds.
pub const NEVER: u64 = u64::MAX;
