//! Errors: why a call did not do its work.

/// The result of a call on the queue.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed, and what is true afterwards.
///
/// Unless a variant says otherwise, the call has changed nothing. Match on the variants: the texts
/// are for people, and may change. [`is_transient`](Error::is_transient) returns whether a retry of
/// the same call can succeed.
///
/// # Example
/// ```
/// use tubewell::{Error, Store};
///
/// let store = Store::in_memory()?;
/// store.tube("mail")?;
/// let error = store.find_tube("mial").unwrap_err();
/// assert_eq!(error.to_string(), r#"tube "mial" not found; did you mean "mail"?"#);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session has no claim on this task: the claim has expired, the task was released, buried
    /// or removed, another session has taken it, or it was never taken. Take a task again.
    #[error(
        "task {id} is not taken by this session: its claim has ended, or there never was one; \
         take a task again"
    )]
    NotTaken {
        /// The id of the task.
        id: u64,
    },
    /// The tube has no task with this id: it was removed, or never existed. Check the id and the tube;
    /// [`Store::find`](crate::Store::find) looks for a task in all tubes.
    #[error(
        "task {id} not found in this tube: it was removed, or never existed; check the id and the tube"
    )]
    NotFound {
        /// The id of the task.
        id: u64,
    },
    /// The id cannot be restored: a task of this store has it or may have had it, or a put was
    /// assigned a higher one. Restore the task without its id, or into a new store.
    #[error(
        "id {id} cannot be restored: this store has assigned it or a higher one; restore the task \
         without its id, or into a new store"
    )]
    IdUsed {
        /// The id to restore.
        id: u64,
    },
    /// The task is not buried, so that it cannot be kicked. It is unchanged. Kick only buried tasks.
    #[error(
        "task {id} is not buried, so it cannot be kicked; look at its state, and kick buried tasks"
    )]
    NotBuried {
        /// The id of the task.
        id: u64,
    },
    /// The task is taken, done, or cannot be taken now: it cannot be claimed by its id, resolved,
    /// buried, updated or cancelled. It is unchanged.
    #[error("task {id} is not free: {why}")]
    NotReady {
        /// The id of the task.
        id: u64,
        /// Its state.
        state: crate::TaskState,
        /// Which session has taken it, how long its delay is, or what else prevents the call.
        why: String,
    },
    /// A task of the store has this key, so that the put was refused. Look at that task, use another
    /// key, or say what happens then: [`OnKey`](crate::OnKey).
    #[error("key {key:?} is in use by task {id}, which is {state}; {}", key_advice(*state))]
    KeyInUse {
        /// The key.
        key: String,
        /// The id of the task that has it.
        id: u64,
        /// The state of that task.
        state: crate::TaskState,
    },
    /// No task of the store has this key: it was never put, or it was removed. Put it.
    #[error("no task has the key {key:?}: it was removed, or never put; put it")]
    KeyNotFound {
        /// The key.
        key: String,
    },
    /// The task is not done, so that it cannot be forgotten. It is unchanged.
    #[error("task {id} is {state}, not done; delete it, or forget it when it is done")]
    NotDone {
        /// The id of the task.
        id: u64,
        /// Its state.
        state: crate::TaskState,
    },
    /// Other tasks wait for this task, so that it cannot be deleted without them, or moved if they are more
    /// than 10,000. It is unchanged.
    #[error(
        "{count} tasks wait for task {id}, so it cannot be deleted or moved; delete them with it, \
         remove it from their parents, or resolve it"
    )]
    HasDependents {
        /// The id of the task.
        id: u64,
        /// How many tasks wait for it; at most 10,000 are counted.
        count: u64,
    },
    /// The task would wait for itself: one of the parents waits for it, through any number of tasks.
    /// Its parents are unchanged.
    #[error("task {id} would wait for itself; leave the parent out that waits for it")]
    Cycle {
        /// The id of the task.
        id: u64,
    },
    /// The task is in another state than those in which the call changes it: a call on a schedule names the
    /// key of a task. It is unchanged. Name another task, or leave it.
    #[error("task {id} is {state}, not {wanted}; it is unchanged")]
    WrongState {
        /// The id of the task.
        id: u64,
        /// Its state.
        state: crate::TaskState,
        /// The states in which the call changes it.
        wanted: String,
    },
    /// The store has no tube with this name. [`Store::tubes`](crate::Store::tubes) lists its tubes.
    #[error("tube {name:?} not found; {}", advice(similar.as_deref()))]
    TubeNotFound {
        /// The requested name.
        name: String,
        /// The name of a tube that differs so little that the requested name may be a misspelling
        /// of it.
        similar: Option<String>,
    },
    /// The store has a tube with this name. [`open_tube`](crate::Store::open_tube) opens it.
    #[error("tube {name:?} already exists; open it with open_tube")]
    TubeExists {
        /// The requested name.
        name: String,
    },
    /// The store has a tube with this name, and its driver, or an option that never changes, is not the
    /// requested one.
    #[error(
        "tube {name:?} already exists, but {what}; request what it has, or use another name (neither the \
         driver nor temporary is ever altered)"
    )]
    TubeDiffers {
        /// The requested name.
        name: String,
        /// The first difference.
        what: String,
    },
    /// The tube cannot be dropped while tasks of it are taken, or calls wait in it.
    #[error("tube {name:?} cannot be dropped: {why}; try again later")]
    TubeBusy {
        /// The name of the tube.
        name: String,
        /// What prevents the drop.
        why: String,
    },
    /// The tube of this handle was dropped, and its tasks were removed.
    #[error("tube {name:?} was dropped; to use a new tube with that name, open it again")]
    TubeDropped {
        /// The name of the dropped tube.
        name: String,
    },
    /// No driver with this name is registered. Register it, or use one that is.
    #[error("driver {name:?} is not registered; register it, or use one of {known}")]
    DriverUnknown {
        /// The requested driver.
        name: String,
        /// The names of the registered drivers.
        known: String,
    },
    /// A driver with this name is registered, and stays registered.
    #[error("driver {name:?} is already registered; use another name")]
    DriverExists {
        /// The name of both drivers.
        name: String,
    },
    /// The driver of the tube does not have this option or operation.
    #[error("the {driver} driver does not support {what}; leave it out, or use another driver")]
    Unsupported {
        /// The option or the operation.
        what: String,
        /// The driver of the tube.
        driver: String,
    },
    /// An argument is outside its limits.
    #[error("{what}")]
    Invalid {
        /// The argument and its limit.
        what: String,
    },
    /// The tube is full. Wait for space with [`put_timeout`](crate::Tube::put_timeout), or try again
    /// after tasks were removed.
    #[error(
        "tube {tube:?} is full: its capacity is {capacity} tasks; wait for space, or try later"
    )]
    Full {
        /// The name of the tube.
        tube: String,
        /// The largest number of tasks in the tube.
        capacity: u64,
    },
    /// Back pressure: too many changes wait to be written, and the caller asked not to wait
    /// ([`refuse_when_full`](crate::Tube::refuse_when_full)).
    /// Try again later.
    #[error("too many changes wait to be written; try again later, or let the call block")]
    Overloaded,
    /// No session with this id is alive: it has ended, and its tasks were released. Open a new one.
    #[error("session {id} not found: it has ended, or never existed; open a new session")]
    SessionUnknown {
        /// The requested id.
        id: crate::SessionId,
    },
    /// The session of this handle has ended, and its tasks were released.
    #[error("the session has ended; open a new session")]
    SessionEnded,
    /// The store was closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// Another process, or another handle in this process, has the store open. A store has one
    /// owner at a time.
    #[error("{path} is in use: a store has one owner at a time; close the other one first")]
    InUse {
        /// The path of the file.
        path: String,
    },
    /// Another process, or another server of this one, listens at the address at which a store is to
    /// be served. Nothing is served there. Use another address, or end that process.
    #[error("{address} is in use: {why}; use another address, or end that process")]
    AddressInUse {
        /// The address.
        address: String,
        /// What uses it.
        why: String,
    },
    /// The file exists, and was not replaced.
    #[error("{path} already exists; name a new file, or remove this one first")]
    FileExists {
        /// The path of the file.
        path: String,
    },
    /// A newer release of tubewell wrote this file.
    #[error(
        "the file has {what} {found}, and this release reads {what} {supported} or lower; use a \
         newer release of tubewell"
    )]
    NewerFormat {
        /// Which number of the file is too high. `layout`: the version of the parts of the file. `format`:
        /// the version of the rows in its tables. `journal version`: the version of a journal record.
        /// `table`: the index of a table in the file.
        what: &'static str,
        /// The version of the file.
        found: u32,
        /// The highest version that this release reads.
        supported: u32,
    },
    /// The file is not a store.
    #[error("{path} is not a tubewell store: {why}; check the path")]
    NotAStore {
        /// The path of the file.
        path: String,
        /// What the file has instead.
        why: String,
    },
    /// The storage failed before the flush of this call, or in a written tube its write, was complete. The
    /// store has accepted the call, and applies it as soon as the storage works again. If the process ends
    /// before that, the call is applied completely or not at all, as the next open shows. Or the connection
    /// to the owner of the store broke, or was closed, before the answer: the call was carried out or not. A
    /// put with an [`idempotency_key`](crate::Put::idempotency_key) can be made again.
    #[error(
        "the outcome is unknown because the storage or the connection failed: {why}; look at the \
         task before you repeat the call"
    )]
    OutcomeUnknown {
        /// The error of the storage or of the connection.
        why: String,
    },
    /// The storage has failed, and this call did nothing. The store retries the storage by itself,
    /// immediately and then at least every few seconds, and resumes when it works. Changes of written
    /// and relaxed tubes that were answered before, and are not yet flushed, are lost if the process or
    /// the machine stops before that.
    #[error("the store is unavailable because its storage failed: {why}; try again later")]
    Unavailable {
        /// The first failure of the storage.
        why: String,
    },
    /// The store stopped because its file is damaged or because of a defect, and this call did
    /// nothing. Close the store, open it again, and call [`verify`](crate::expert::StoreAdmin::verify).
    #[error("the store has stopped: {why}; close it, open it again, and verify it")]
    Stopped {
        /// What stopped the store.
        why: String,
    },
    /// The process that owns the store cannot be reached. Nothing changed: the call was not sent, or
    /// changes nothing. The connection makes itself again; try again later.
    #[error("the owner of the store cannot be reached: {why}; try again later")]
    NotConnected {
        /// The address, and the reason.
        why: String,
    },
    /// The owner of the store has refused the connection, or this process has refused the owner: the
    /// secret is wrong, they speak no version of the protocol in common, the socket is one of another
    /// user. The connection has ended, and does not make itself again. Nothing changed: the call was
    /// not sent, or changes nothing. Correct the cause, and connect again.
    #[error(
        "the connection to the owner of the store is refused: {why}; correct that, and connect again"
    )]
    Refused {
        /// The address, and the reason.
        why: String,
    },
    /// The owner of the store already makes or keeps as much for other processes as it does at a time: two of
    /// [`verify`](crate::expert::StoreAdmin::verify) and [`backup`](crate::expert::StoreAdmin::backup), four
    /// of [`catch_up`](crate::expert::StoreAdmin::catch_up), or one of the limits on waiting calls,
    /// subscriptions, answers that are not read and tubes. Nothing changed. Try again later.
    #[error(
        "the owner of the store has {what} already, and takes no more at a time; try again later"
    )]
    OwnerBusy {
        /// What it makes or keeps, and how much.
        what: String,
    },
    /// This process is a fork of the one that has opened the store, or has connected to it. Nothing changed:
    /// a fork has a copy of the memory, but neither the threads nor the right to write to the file. Fork
    /// first, and open the store then, as a daemon does; or [`connect`](crate::connect) to the owner after
    /// the fork. What the store hands out returns nothing there, and its drop does nothing.
    #[error(
        "the store is open in process {opened_in}, of which this one is a fork; open it, or connect to \
         it, after the fork"
    )]
    Forked {
        /// The id of the process that has opened the store.
        opened_in: u32,
    },
    /// Only the process that owns the store can do this. Nothing changed.
    #[error("{what} is only possible in the process that owns the store; do it there")]
    OwnerOnly {
        /// What it is.
        what: String,
    },
    /// The disk is full, and calls that store more data are refused: puts, new bodies, results and
    /// steps. Nothing changed. Takes, acks, releases, buries, kicks and deletes continue in
    /// reserved disk space. Refused calls succeed again once disk space is free.
    #[error("the disk is full: no more data can be stored in {path}; free disk space")]
    DiskFull {
        /// The path of the file.
        path: String,
    },
    /// Bytes of the file are not what was written. Call [`verify`](crate::expert::StoreAdmin::verify).
    #[error("the file is damaged: {what}; verify the store")]
    Corrupt {
        /// What is damaged, as far as it is known.
        what: String,
    },
    /// The operating system refused an operation.
    #[error("{what}")]
    Io {
        /// The operation, and the error of the operating system.
        what: String,
    },
    /// The call was made inside the closure of [`Store::transact`], on its thread, and may wait for
    /// a commit, which waits for the closure: use the methods of its transaction, or make the call
    /// after it.
    ///
    /// [`Store::transact`]: https://docs.rs/tubewell/latest/tubewell/struct.Store.html#method.transact
    #[error(
        "the call may wait for the transaction whose closure makes it; use the methods of the \
         transaction, or make the call after it"
    )]
    InTransaction,
    /// The table belongs to the store: to this release, or by the beginning of its name to a later
    /// one.
    #[error("table {name:?} belongs to the store; use another name, without \"tubewell\" in front")]
    TableReserved {
        /// The requested name.
        name: String,
    },
    /// redb refused a call on a table of the application: it exists with other types, is open
    /// already, or a row is too large.
    #[error("{what}")]
    Table {
        /// The error of redb.
        what: String,
    },
    /// A job of a [worker](crate::worker) must return now: its claim has ended, or the worker stops.
    /// Returned by [`Job::check`](crate::worker::Job::check). Return this error from the handler: the
    /// attempt does not fail then.
    #[error("the job of task {id} must return now: {why}; return this error from its handler")]
    Interrupted {
        /// The id of the task.
        id: u64,
        /// Why it must return.
        why: String,
    },
    /// A body could not be encoded from its type, or decoded to it. A taken task whose body cannot
    /// be decoded was buried.
    #[error("the body does not match its type: {what}; use the type and codec that wrote it")]
    Codec {
        /// The error of the codec.
        what: String,
    },
}

impl Error {
    /// Whether the same call can succeed later although its caller changes nothing: a retry with
    /// backoff makes sense.
    ///
    /// This is so if the error ends by itself, or as other callers continue:
    /// [`Full`](Error::Full), [`Overloaded`](Error::Overloaded), [`TubeBusy`](Error::TubeBusy),
    /// [`NotReady`](Error::NotReady), [`InUse`](Error::InUse),
    /// [`AddressInUse`](Error::AddressInUse), [`DiskFull`](Error::DiskFull),
    /// [`Unavailable`](Error::Unavailable), [`NotConnected`](Error::NotConnected) and
    /// [`OwnerBusy`](Error::OwnerBusy). The failed call has changed nothing, so a retry does nothing
    /// twice.
    ///
    /// It is not so for [`OutcomeUnknown`](Error::OutcomeUnknown): the store may still apply the
    /// first call, and a second one would then be applied too. Nor is it for [`Io`](Error::Io),
    /// whose cause is not known to end.
    ///
    /// # Example: put with backoff
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Receipt, Result, Tube};
    ///
    /// fn put_with_backoff(tube: &Tube, body: &str) -> Result<Receipt> {
    ///     let mut pause = Duration::from_millis(10);
    ///     loop {
    ///         match tube.put(body) {
    ///             Err(error) if error.is_transient() && pause < Duration::from_secs(10) => {
    ///                 std::thread::sleep(pause);
    ///                 pause *= 2;
    ///             }
    ///             result => return result,
    ///         }
    ///     }
    /// }
    /// ```
    #[doc(alias = "retry")]
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::TubeBusy { .. }
            | Error::NotReady { .. }
            | Error::Full { .. }
            | Error::Overloaded
            | Error::InUse { .. }
            | Error::AddressInUse { .. }
            | Error::Unavailable { .. }
            | Error::NotConnected { .. }
            | Error::OwnerBusy { .. }
            | Error::DiskFull { .. } => true,
            Error::NotTaken { .. }
            | Error::NotFound { .. }
            | Error::IdUsed { .. }
            | Error::NotBuried { .. }
            | Error::NotDone { .. }
            | Error::HasDependents { .. }
            | Error::Cycle { .. }
            | Error::WrongState { .. }
            | Error::KeyInUse { .. }
            | Error::KeyNotFound { .. }
            | Error::TubeNotFound { .. }
            | Error::TubeExists { .. }
            | Error::TubeDiffers { .. }
            | Error::TubeDropped { .. }
            | Error::DriverUnknown { .. }
            | Error::DriverExists { .. }
            | Error::Unsupported { .. }
            | Error::Invalid { .. }
            | Error::SessionUnknown { .. }
            | Error::SessionEnded
            | Error::Closed
            | Error::FileExists { .. }
            | Error::NewerFormat { .. }
            | Error::NotAStore { .. }
            | Error::OutcomeUnknown { .. }
            | Error::Stopped { .. }
            | Error::Corrupt { .. }
            | Error::Io { .. }
            | Error::InTransaction
            | Error::TableReserved { .. }
            | Error::Table { .. }
            | Error::Interrupted { .. }
            | Error::Refused { .. }
            | Error::Forked { .. }
            | Error::OwnerOnly { .. }
            | Error::Codec { .. } => false,
        }
    }

    /// The name of the variant, such as `NotTaken`: for logs, spans and counters. It has no part of a body or a key, which the
    /// text of an error may have.
    ///
    /// ```
    /// assert_eq!(tubewell::Error::NotTaken { id: 7 }.name(), "NotTaken");
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        let mut shown = format!("{self:?}");
        shown.truncate(shown.find([' ', '{', '(']).unwrap_or(shown.len()));
        shown
    }

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

/// What to do about a key that a task, or a schedule, in this state has.
fn key_advice(state: crate::TaskState) -> &'static str {
    match state {
        crate::TaskState::Recurring => "it is a schedule: use another key, or remove the schedule",
        _ => "use another key, or see `Put::on_key` for a put, and delete that task for a schedule",
    }
}

/// What to do about a tube that was not found.
fn advice(similar: Option<&str>) -> String {
    match similar {
        Some(name) => format!("did you mean {name:?}?"),
        None => "check the name".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    /// One error of each variant, and whether it is transient. The match fails to compile if a
    /// variant is added; the length of the list then shows that it is missing here.
    fn all() -> Vec<(Error, bool)> {
        let text = || String::from("jobs");
        let all = vec![
            (Error::NotTaken { id: 7 }, false),
            (Error::NotFound { id: 7 }, false),
            (Error::TubeNotFound { name: text(), similar: None }, false),
            (Error::TubeExists { name: text() }, false),
            (Error::TubeDiffers { name: text(), what: text() }, false),
            (Error::TubeBusy { name: text(), why: text() }, true),
            (Error::TubeDropped { name: text() }, false),
            (Error::DriverUnknown { name: text(), known: text() }, false),
            (Error::DriverExists { name: text() }, false),
            (Error::Unsupported { what: text(), driver: text() }, false),
            (Error::Invalid { what: text() }, false),
            (Error::Full { tube: text(), capacity: 7 }, true),
            (Error::Overloaded, true),
            (Error::SessionUnknown { id: SessionId::from_bytes([7; 16]) }, false),
            (Error::SessionEnded, false),
            (Error::Closed, false),
            (Error::InUse { path: text() }, true),
            (Error::FileExists { path: text() }, false),
            (Error::NewerFormat { what: "format", found: 9, supported: 1 }, false),
            (Error::NotAStore { path: text(), why: text() }, false),
            (Error::OutcomeUnknown { why: text() }, false),
            (Error::Unavailable { why: text() }, true),
            (Error::Stopped { why: text() }, false),
            (Error::DiskFull { path: text() }, true),
            (Error::Corrupt { what: text() }, false),
            (Error::Io { what: text() }, false),
            (Error::Codec { what: text() }, false),
            (Error::IdUsed { id: 7 }, false),
            (Error::NotBuried { id: 7 }, false),
            (Error::NotReady { id: 7, state: crate::TaskState::Taken, why: text() }, true),
            (Error::NotDone { id: 7, state: crate::TaskState::Ready }, false),
            (Error::WrongState { id: 7, state: crate::TaskState::Ready, wanted: text() }, false),
            (Error::KeyInUse { key: text(), id: 7, state: crate::TaskState::Ready }, false),
            (Error::KeyNotFound { key: text() }, false),
            (Error::InTransaction, false),
            (Error::TableReserved { name: text() }, false),
            (Error::Table { what: text() }, false),
            (Error::HasDependents { id: 7, count: 3 }, false),
            (Error::Cycle { id: 7 }, false),
            (Error::Interrupted { id: 7, why: text() }, false),
            (Error::NotConnected { why: text() }, true),
            (Error::OwnerOnly { what: text() }, false),
            (Error::Refused { why: text() }, false),
            (Error::AddressInUse { address: text(), why: text() }, true),
            (Error::OwnerBusy { what: text() }, true),
            (Error::Forked { opened_in: 7 }, false),
        ];
        let places: Vec<u32> = all.iter().map(|(error, _)| place(error)).collect();
        assert_eq!(places, (0..46).collect::<Vec<_>>(), "a variant is missing");
        all
    }

    fn place(error: &Error) -> u32 {
        match error {
            Error::NotTaken { .. } => 0,
            Error::NotFound { .. } => 1,
            Error::TubeNotFound { .. } => 2,
            Error::TubeExists { .. } => 3,
            Error::TubeDiffers { .. } => 4,
            Error::TubeBusy { .. } => 5,
            Error::TubeDropped { .. } => 6,
            Error::DriverUnknown { .. } => 7,
            Error::DriverExists { .. } => 8,
            Error::Unsupported { .. } => 9,
            Error::Invalid { .. } => 10,
            Error::Full { .. } => 11,
            Error::Overloaded => 12,
            Error::SessionUnknown { .. } => 13,
            Error::SessionEnded => 14,
            Error::Closed => 15,
            Error::InUse { .. } => 16,
            Error::FileExists { .. } => 17,
            Error::NewerFormat { .. } => 18,
            Error::NotAStore { .. } => 19,
            Error::OutcomeUnknown { .. } => 20,
            Error::Unavailable { .. } => 21,
            Error::Stopped { .. } => 22,
            Error::DiskFull { .. } => 23,
            Error::Corrupt { .. } => 24,
            Error::Io { .. } => 25,
            Error::Codec { .. } => 26,
            Error::IdUsed { .. } => 27,
            Error::NotBuried { .. } => 28,
            Error::NotReady { .. } => 29,
            Error::NotDone { .. } => 30,
            Error::WrongState { .. } => 31,
            Error::KeyInUse { .. } => 32,
            Error::KeyNotFound { .. } => 33,
            Error::InTransaction => 34,
            Error::TableReserved { .. } => 35,
            Error::Table { .. } => 36,
            Error::HasDependents { .. } => 37,
            Error::Cycle { .. } => 38,
            Error::Interrupted { .. } => 39,
            Error::NotConnected { .. } => 40,
            Error::OwnerOnly { .. } => 41,
            Error::Refused { .. } => 42,
            Error::AddressInUse { .. } => 43,
            Error::OwnerBusy { .. } => 44,
            Error::Forked { .. } => 45,
        }
    }

    #[test]
    fn is_transient_is_true_for_errors_that_end_without_the_caller() {
        for (error, transient) in all() {
            assert_eq!(error.is_transient(), transient, "{error:?}");
        }
    }

    /// A message is one line, has no period at its end, and has the values of its fields.
    #[test]
    fn every_message_is_one_line_and_names_its_subject() {
        for (error, _) in all() {
            let text = error.to_string();
            assert!(!text.contains('\n') && !text.contains("  "), "{text:?}");
            assert!(!text.ends_with('.') && !text.ends_with(';'), "{text:?}");
            let has_subject = !matches!(
                error,
                Error::Overloaded
                    | Error::SessionEnded
                    | Error::Closed
                    | Error::InTransaction
                    | Error::NewerFormat { .. }
            );
            let subjects = ["jobs", "7", "0707"];
            assert_eq!(
                subjects.iter().any(|subject| text.contains(subject)),
                has_subject,
                "{text}"
            );
        }
    }

    #[test]
    fn tube_not_found_suggests_a_similar_name_only_if_there_is_one() {
        let error = |similar: Option<&str>| {
            let similar = similar.map(str::to_owned);
            Error::TubeNotFound { name: "mial".into(), similar }.to_string()
        };
        assert_eq!(error(Some("mail")), r#"tube "mial" not found; did you mean "mail"?"#);
        assert_eq!(error(None), r#"tube "mial" not found; check the name"#);
    }
}
