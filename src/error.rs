//! What a call can answer instead of doing its work.

use std::str::FromStr;

use crate::SessionId;

/// The result of a call on the queue.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was not carried out, and what is true afterwards.
///
/// Unless a variant says otherwise, nothing has changed. The texts are for people; match on the
/// variants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session holds no claim on this task: it is gone, not taken, somebody else's, or the
    /// claim has ended since. Take again.
    #[error(
        "task {id} is not taken by this session (it may have timed out, been finished, or never existed)"
    )]
    NotTaken {
        /// The task that was named.
        id: u64,
    },
    /// The tube has no such task (any more).
    #[error("task {id} not found in this tube")]
    NotFound {
        /// The task that was named.
        id: u64,
    },
    /// The id cannot be restored: a task of this store has it, may have had it, or has a higher one
    /// that the store gave out itself. Restore the task without an id, or into a new store.
    #[error("id {id} cannot be restored: this store has used it, or has given out a higher one")]
    IdUsed {
        /// The id that was named.
        id: u64,
    },
    /// The task is not buried, so it cannot be kicked. It stays as it is.
    #[error("task {id} is not buried")]
    NotBuried {
        /// The task that was named.
        id: u64,
    },
    /// The catalog has no tube of this name. Create it first.
    #[error("tube {name:?} not found: create it first")]
    TubeNotFound {
        /// The name that was asked for.
        name: String,
    },
    /// The name is taken. Open the tube instead, or create it with `if_not_exists`.
    #[error("tube {name:?} already exists: open it, or create it with if_not_exists")]
    TubeExists {
        /// The name that was asked for.
        name: String,
    },
    /// The tube exists with another driver or other options than those asked for.
    #[error("tube {name:?} already exists, but {what}")]
    TubeDiffers {
        /// The name that was asked for.
        name: String,
        /// The first difference.
        what: String,
    },
    /// The tube cannot be dropped while somebody works on it.
    #[error("tube {name:?} cannot be dropped: {why}")]
    TubeBusy {
        /// The tube.
        name: String,
        /// Who is in the way.
        why: String,
    },
    /// The tube behind this handle was dropped. Its tasks are gone.
    #[error("tube {name:?} was dropped")]
    TubeDropped {
        /// The name that the tube had.
        name: String,
    },
    /// No driver of this name is registered. Register it, or use one of the known ones.
    #[error("no driver {name:?} is registered (known: {known})")]
    DriverUnknown {
        /// The driver that was asked for.
        name: String,
        /// Those that are registered.
        known: String,
    },
    /// A driver of this name is registered already; it stays.
    #[error("a driver {name:?} is registered already")]
    DriverExists {
        /// The name of both.
        name: String,
    },
    /// The tube's driver does not do this. Use a driver that does, or leave the option out.
    #[error("the {driver} driver does not support {what}")]
    Unsupported {
        /// The option or verb.
        what: String,
        /// The driver of the tube.
        driver: String,
    },
    /// An argument is outside its limits.
    #[error("{what}")]
    Invalid {
        /// Which argument, which limit.
        what: String,
    },
    /// The tube is at its capacity. Try again when tasks have left it, or wait for room.
    #[error("tube {tube:?} is full: its capacity is {capacity} tasks")]
    Full {
        /// The tube.
        tube: String,
        /// How many tasks it takes.
        capacity: u64,
    },
    /// Too much waits for its flush, and the call was not to block. Try again later.
    #[error("too much waits to be written: try again, or let the call block")]
    Overloaded,
    /// No session of this id is alive. Its tasks have been released; open a new session.
    #[error("session {id} is unknown: it never existed or has ended")]
    SessionUnknown {
        /// The id that was asked for.
        id: SessionId,
    },
    /// The session behind this handle was ended. Its tasks have been released.
    #[error("the session has ended")]
    SessionEnded,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another process, or another handle in this one, has the store open.
    #[error("{path} is in use: a store has one owner at a time; close the other one first")]
    InUse {
        /// The file.
        path: String,
    },
    /// There is a file of this name, and it stays. Name a new one, or remove it first.
    #[error("{path} exists already: name a new file, or remove it first")]
    FileExists {
        /// The file.
        path: String,
    },
    /// A newer tubewell wrote this file. Use a release that knows its format.
    #[error(
        "the store has {what} {found}, this tubewell reads up to {supported}: use a newer release"
    )]
    NewerFormat {
        /// Which of the file's two numbers: `layout`, for where things lie in it, or `format`, for
        /// what its rows hold.
        what: &'static str,
        /// That of the file.
        found: u32,
        /// The highest that this release reads.
        supported: u32,
    },
    /// The file is something else.
    #[error("{path} is not a tubewell store: {why}")]
    NotAStore {
        /// The file.
        path: String,
        /// What is there instead.
        why: String,
    },
    /// The storage failed before the flush that was to hold this call was through. The call was
    /// decided, and the store goes on trying to write it down: once the storage works again it is
    /// applied. If the process ends before that, it is applied wholly or not at all; which of the
    /// two shows when the store is opened again.
    #[error("the outcome is unknown, the storage failed: {why}")]
    OutcomeUnknown {
        /// What the engine said.
        why: String,
    },
    /// The storage has failed, and this call did nothing. The store tries the storage again by
    /// itself, at once and then every few seconds at least, and goes on when it works; what it
    /// needs is for whatever ails the storage to pass.
    #[error("the store is unavailable until its storage works again: {why}; try later")]
    Unavailable {
        /// The first failure.
        why: String,
    },
    /// Damage in the file, or a defect, stopped the store, and this call did nothing. Close it and
    /// open it again; check it with [`verify`](crate::Store::verify).
    #[error("the store has stopped: {why}; close it and open it again")]
    Stopped {
        /// What happened.
        why: String,
    },
    /// The disk has no more room, so no task is put. What is there can be taken and finished: take,
    /// ack, release, bury, kick and delete go on in room that was set aside for them. Puts go on
    /// once there is room again.
    #[error("the disk is full: nothing can be put into {path} until there is room on it again")]
    DiskFull {
        /// The file.
        path: String,
    },
    /// Bytes in the file are not what was written. Run `verify`.
    #[error("the file is damaged: {what}")]
    Corrupt {
        /// Where, as far as it is known.
        what: String,
    },
    /// The operating system refused.
    #[error("{what}")]
    Io {
        /// What was tried, and its answer.
        what: String,
    },
    /// A typed body could not be encoded or decoded. A taken task whose body does not decode has
    /// been buried.
    #[error("the body does not fit its type: {what}")]
    Codec {
        /// What the codec said.
        what: String,
    },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid { what: what.into() }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Error {
        Error::Corrupt { what: what.into() }
    }
}

impl From<tubewell_drivers::RecordError> for Error {
    fn from(error: tubewell_drivers::RecordError) -> Error {
        Error::corrupt(error.to_string())
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<SessionId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| digits)
            .map(|number| SessionId::from_bytes(number.to_be_bytes()))
            .ok_or_else(|| Error::invalid("a session id has 32 hexadecimal digits"))
    }
}
