//! Transactions: the application's own tables and calls of the queue, in one commit.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use redb::{
    Key, MultimapTable, MultimapTableDefinition, ReadOnlyMultimapTable, ReadOnlyTable,
    ReadTransaction, Table, TableDefinition, TableError, Value,
};

use crate::core::verb::TubeName;
use crate::core::{Buffer, CallsSoFar, Core, EndRequest, TransactionCall};
use crate::handle::job_notes::{EndedInTransaction, JobNotes};
use crate::handle::store_handle::StoreHandle;
use crate::handle::trace::join;
use crate::runtime::StoreInner;
use crate::runtime::open_store::LocalHandle;
use crate::storage::{Engine, EngineTransaction, check_name};
use crate::{
    Claim, Error, EventKind, Failure, IntoOutcome, IntoPut, Mode, Outcome, Result, Store,
    TaskState, Tube,
};

impl Store {
    /// Runs a closure that writes the application's own tables and makes calls of the queue, and
    /// commits all of it with one commit of the file, or nothing.
    ///
    /// So an effect in the application's tables and the ack of the task that asked for it happen
    /// both or not at all: the effect is applied *exactly once*, also if the process is killed or
    /// the power fails at any moment. The same holds for rows of the application and the task that
    /// is put for them (a transactional outbox). The tables are [`redb`] tables in the file of the
    /// store.
    ///
    /// If the closure returns an error or panics, nothing is written, claims stand as before, and
    /// the error is returned or the panic goes on. Changes of other callers are not affected. The
    /// calls of the queue are checked when they are made and again before the commit: if a claim has
    /// ended meanwhile, nothing is written.
    ///
    /// Once this returns, all of it survives a killed process and a power cut, whatever the durability of the
    /// tubes. The call blocks until its commit is flushed, which takes longer than a put. Transactions run
    /// one after the other, so the call also waits for the transactions of other threads. Other callers work
    /// beside the closure. If it runs long, they wait when both halves of the journal are full (some 500 KiB
    /// each), or when they put a body of more than 256 KiB. In a store in memory they wait for the closure.
    /// After a kill, the next open may have to walk the file, at some 400 MiB a second.
    ///
    /// # Calls inside the closure
    /// The methods of [`Transaction`] are the calls that belong to the commit. Other calls on the
    /// store are not part of it, and take effect even if it fails. Those that may wait for a commit
    /// (put, take, ack, a look at a task, `tube`, flush, another `transact`, close and others) return
    /// [`InTransaction`](Error::InTransaction), since that commit may wait for the closure; those
    /// that do not block (statistics, list, renew, `find_tube`, the drop of a claim) work. The closure must not
    /// wait for another thread that makes such calls.
    ///
    /// # Errors
    /// Those of the closure; nothing was written. [`DiskFull`](Error::DiskFull),
    /// [`Unavailable`](Error::Unavailable), [`Closed`](Error::Closed),
    /// [`InTransaction`](Error::InTransaction), [`NotTaken`](Error::NotTaken) and the errors of a
    /// put: nothing was written. [`OutcomeUnknown`](Error::OutcomeUnknown): the storage failed
    /// during the commit. All of it is in the file or nothing, as the file shows when the storage
    /// works again; if nothing, the tasks of the claims are ready again.
    ///
    /// # Example: an account that is charged once
    /// ```
    /// use tubewell::redb::{ReadableTable, TableDefinition};
    /// use tubewell::{Outcome, Result, Store};
    ///
    /// const BALANCES: TableDefinition<&str, i64> = TableDefinition::new("balances");
    ///
    /// # let store = Store::in_memory()?;
    /// let payments = store.tube("payments")?;
    /// let receipts = store.tube("receipts")?;
    /// payments.put("ann")?;
    /// while let Some(claim) = payments.try_take()? {
    ///     store.transact(|tx| -> Result<()> {
    ///         let name = std::str::from_utf8(claim.body()).unwrap_or_default();
    ///         let mut balances = tx.open_table(BALANCES)?;
    ///         let balance = balances.get(name)?.map_or(0, |row| row.value());
    ///         balances.insert(name, balance - 5)?;
    ///         tx.put(&receipts, name)?;
    ///         tx.end(&claim, Outcome::done())
    ///     })?;
    /// }
    /// let balance = store.view(|tx| -> Result<_> {
    ///     let Some(balances) = tx.open_table(BALANCES)? else { return Ok(None) };
    ///     Ok(balances.get("ann")?.map(|row| row.value()))
    /// })?;
    /// assert_eq!(balance, Some(-5));
    /// assert_eq!(receipts.statistics()?.tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "exactly once")]
    #[doc(alias = "transaction")]
    #[doc(alias = "outbox")]
    pub fn transact<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.transact_unless_panicked(work) {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Returns the panic of the closure, after everything is taken back.
    fn transact_unless_panicked<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Result<T, E>, Box<dyn Any + Send>> {
        let store = match self.here("a transaction") {
            Ok(store) => store,
            Err(error) => return Ok(Err(error.into())),
        };
        let reservation = match store.inner().and_then(StoreInner::reserve_database) {
            Ok(reservation) => reservation,
            Err(error) => return Ok(Err(error.into())),
        };
        let engine = match reservation.begin() {
            Ok(engine) => engine,
            Err(error) => return Ok(Err(error.into())),
        };
        let transaction = Transaction {
            engine,
            store,
            calls: RefCell::default(),
            so_far: RefCell::default(),
            jobs: RefCell::default(),
        };
        let worked = catch_unwind(AssertUnwindSafe(|| work(&transaction)));
        let Transaction { engine, calls, jobs, .. } = transaction;
        match worked {
            Ok(Ok(answer)) => {
                let committed = reservation.commit(engine, calls.into_inner());
                Ok(committed
                    .map(|states| {
                        jobs.into_inner().into_iter().for_each(|job| job.note(&states));
                        answer
                    })
                    .map_err(E::from))
            }
            failed => {
                reservation.abort(engine);
                failed
            }
        }
    }

    /// Runs a closure that reads the application's own tables, as of the last
    /// [`transact`](Store::transact).
    ///
    /// The call blocks for its reads only, and blocks no other call. Until it returns, the file
    /// reuses no space and grows by what is written meanwhile, so keep the closure short.
    ///
    /// # Errors
    /// Those of the closure; [`Unavailable`](Error::Unavailable), [`Closed`](Error::Closed). If the
    /// store is closed, or its storage fails, while the closure runs, further reads in it fail.
    ///
    /// # Example
    /// See [`transact`](Store::transact).
    pub fn view<T, E: From<Error>>(
        &self,
        read: impl FnOnce(&View) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = self.here("a view")?;
        let transaction = store.inner()?.with_engine(Buffer::File, Engine::begin_view)?;
        read(&View { transaction })
    }
}

/// The transaction of one [`Store::transact`].
///
/// Calls of the queue are made with `&self`, so that tables may be open meanwhile. They become
/// visible, and claims end, with the commit.
pub struct Transaction<'a> {
    engine: EngineTransaction<'a>,
    store: &'a LocalHandle,
    calls: RefCell<Vec<TransactionCall>>,
    so_far: RefCell<CallsSoFar>,
    jobs: RefCell<Vec<EndedJob>>,
}

/// A job of a worker whose claim ends with the commit.
struct EndedJob {
    id: u64,
    notes: Arc<JobNotes>,
    kind: EventKind,
    failure: Option<Failure>,
}

impl EndedJob {
    /// Tells the worker of the job how its claim has ended. `states`: those of the tasks then.
    fn note(self, states: &[(u64, TaskState)]) {
        let EndedJob { id, notes, kind, failure } = self;
        if let Some((_, state)) = states.iter().find(|(ended, _)| *ended == id) {
            notes.note_ended(EndedInTransaction { kind, state: *state, failure });
        }
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("calls", &self.calls.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Transaction<'_> {
    /// Opens a table of the application, and creates it if it does not exist. A table can be open
    /// once at a time.
    ///
    /// # Errors
    /// [`TableReserved`](Error::TableReserved) for a name of the store's own tables, or one that
    /// begins with `tubewell`. [`Table`](Error::Table): it exists with other types or is open.
    #[track_caller]
    pub fn open_table<'t, K: Key + 'static, V: Value + 'static>(
        &'t self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Table<'t, K, V>> {
        check_name(redb::TableHandle::name(&definition))?;
        Ok(self.engine.tables().open_table(definition)?)
    }

    /// As [`open_table`](Transaction::open_table), for a table with several values for a key.
    ///
    /// # Errors
    /// Those of [`open_table`](Transaction::open_table).
    #[track_caller]
    pub fn open_multimap_table<'t, K: Key + 'static, V: Key + 'static>(
        &'t self,
        definition: MultimapTableDefinition<'_, K, V>,
    ) -> Result<MultimapTable<'t, K, V>> {
        check_name(redb::MultimapTableHandle::name(&definition))?;
        Ok(self.engine.tables().open_multimap_table(definition)?)
    }

    /// Deletes a table of the application with its rows. Returns whether there was one.
    ///
    /// # Errors
    /// Those of [`open_table`](Transaction::open_table).
    pub fn delete_table(&self, table: impl redb::TableHandle) -> Result<bool> {
        check_name(table.name())?;
        Ok(self.engine.tables().delete_table(table)?)
    }

    /// As [`delete_table`](Transaction::delete_table), for a table with several values for a key.
    ///
    /// # Errors
    /// Those of [`open_table`](Transaction::open_table).
    pub fn delete_multimap_table(&self, table: impl redb::MultimapTableHandle) -> Result<bool> {
        check_name(table.name())?;
        Ok(self.engine.tables().delete_multimap_table(table)?)
    }

    /// Puts a task with the commit. Returns the id that it will have: the application may store it
    /// in its own rows. The id is used up even if the transaction fails.
    ///
    /// The delay and the ttl of the task begin with the commit.
    ///
    /// # Errors
    /// Those of [`Tube::put`]; [`Full`](Error::Full) also if only acks of this transaction would free space.
    /// [`Invalid`](Error::Invalid): the tube is temporary, or of another store, or the put has
    /// [parents](crate::Put::after), a [key](crate::Put::on_key) that keeps or replaces its task, or an
    /// [idempotency key](crate::Put::idempotency_key), which the application can store in its own rows.
    /// After an error the put is no part of the transaction, and the closure may go on: a
    /// [`KeyInUse`](Error::KeyInUse) says that there is a task with the key already.
    pub fn put<T>(&self, tube: &Tube<T>, task: impl IntoPut<T>) -> Result<u64> {
        self.check_store(tube.handle())?;
        let into = tube.put_into(tube.handle(), join(tube.encode(task)))?;
        let id = self.store.inner()?.run(|core| {
            core.check_transaction_puts(std::slice::from_ref(&into), &self.so_far.borrow())
        })?;
        self.add(TransactionCall::Put { id, into });
        Ok(id)
    }

    /// Ends a claim with the commit, as [`Claim::end`] does: the task is done, with a result or without,
    /// goes back or is buried, and the tasks of [`Outcome::and_put`] are put. A job of a
    /// [worker](crate::worker) derefs to its claim: the commit ends the job, and what its handler returns
    /// after that has no effect.
    ///
    /// If the transaction fails, the claim stands as before. After the commit it has ended, and
    /// dropping its handle does nothing. The [key](crate::Put::key) of the task and its place in a full
    /// tube are free after the commit, and not for a put of the same transaction.
    ///
    /// # Errors
    /// Nothing of it is part of the transaction. [`NotTaken`](Error::NotTaken): the claim has ended, or
    /// this transaction ends it already. [`Unsupported`](Error::Unsupported): the driver has no delays.
    /// [`Invalid`](Error::Invalid): the tube is temporary, or of another store; a result is too large; a
    /// failure group has no bytes or more than 255; other tasks wait for the task; or the outcome
    /// [advances](Outcome::advance) the task or [detaches](Outcome::detach) the claim. The errors of
    /// [`put`](Transaction::put) for the tasks that are put.
    pub fn end<T, M: Mode>(&self, claim: &Claim<T, M>, outcome: impl IntoOutcome) -> Result<()> {
        self.check_store(&claim.held.handle)?;
        let outcome = Outcome::from_value(outcome);
        let Some(request) = outcome.into_request(&claim.held.handle)? else {
            return Err(Error::invalid(
                "a claim that is detached does not end; leave it out of the transaction",
            ));
        };
        request.check(self.store.open_store().max_body)?;
        let EndRequest { end, puts } = request;
        let key = claim.held.key();
        if self.so_far.borrow().ends(key.id) {
            return Err(Error::NotTaken { id: key.id });
        }
        let first = self.store.inner()?.run(|core| {
            core.check_transaction_end(key, &end)?;
            core.check_transaction_puts(&puts, &self.so_far.borrow())
        })?;
        if let Some(notes) = claim.held.notes() {
            let (id, kind, failure) = (key.id, end.kind(), end.failure().cloned());
            let job = EndedJob { id, notes: notes.clone(), kind, failure };
            self.jobs.borrow_mut().push(job);
        }
        self.add(TransactionCall::End { key, end });
        for (id, into) in (first..).zip(puts) {
            self.add(TransactionCall::Put { id, into });
        }
        Ok(())
    }

    /// Deletes a task of this tube with the commit, in any state and whichever session has taken it, as
    /// [`Tube::delete`] does.
    ///
    /// If the transaction fails, the task is there as before. A claim on it stands if the closure has failed, and has
    /// ended if the commit has. The
    /// [key](crate::Put::key) of the task and its place in a full tube are free after the commit, and not for
    /// a put of the same transaction.
    ///
    /// # Errors
    /// Nothing of it is part of the transaction. [`NotFound`](Error::NotFound): the tube has no such task, or
    /// this transaction ends its claim or deletes it already. [`HasDependents`](Error::HasDependents): other
    /// tasks wait for it. [`Invalid`](Error::Invalid): the tube is temporary, or of another store; the task
    /// waits for others, or is a schedule. [`StoreAdmin::delete`](crate::expert::StoreAdmin::delete) deletes
    /// such tasks, with a commit of its own.
    ///
    /// # Example: an account is closed, and its reminder is not needed
    /// ```
    /// use tubewell::redb::TableDefinition;
    /// use tubewell::{Result, Store};
    ///
    /// const REMINDERS: TableDefinition<&str, u64> = TableDefinition::new("reminders");
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// store.transact(|tx| -> Result<()> {
    ///     let id = tx.put(&mails, "dear ann")?;
    ///     tx.open_table(REMINDERS)?.insert("ann", id)?;
    ///     Ok(())
    /// })?;
    /// store.transact(|tx| -> Result<()> {
    ///     let mut reminders = tx.open_table(REMINDERS)?;
    ///     if let Some(id) = reminders.remove("ann")? {
    ///         tx.delete(&mails, id.value())?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(mails.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn delete<T>(&self, tube: &Tube<T>, id: u64) -> Result<()> {
        self.check_store(tube.handle())?;
        let of = TubeName::from(tube.head());
        let check = |core: &mut Core| core.check_transaction_delete(&of, id, &self.so_far.borrow());
        self.store.inner()?.run(check)?;
        self.add(TransactionCall::Delete { of, id });
        Ok(())
    }

    fn add(&self, call: TransactionCall) {
        self.so_far.borrow_mut().note(&call);
        self.calls.borrow_mut().push(call);
    }

    fn check_store(&self, other: &StoreHandle) -> Result<()> {
        if matches!(other, StoreHandle::Here(other) if self.store.is_same_store(other)) {
            return Ok(());
        }
        Err(Error::invalid("the tubes and claims of a transaction belong to its store"))
    }
}

/// The reads of one [`Store::view`].
pub struct View {
    transaction: ReadTransaction,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl View {
    /// Opens a table of the application; `None` if it does not exist.
    ///
    /// # Errors
    /// [`TableReserved`](Error::TableReserved) as in [`Transaction::open_table`].
    /// [`Table`](Error::Table): it has other types.
    pub fn open_table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Option<ReadOnlyTable<K, V>>> {
        check_name(redb::TableHandle::name(&definition))?;
        found(self.transaction.open_table(definition))
    }

    /// As [`open_table`](View::open_table), for a table with several values for a key.
    ///
    /// # Errors
    /// Those of [`open_table`](View::open_table).
    pub fn open_multimap_table<K: Key + 'static, V: Key + 'static>(
        &self,
        definition: MultimapTableDefinition<'_, K, V>,
    ) -> Result<Option<ReadOnlyMultimapTable<K, V>>> {
        check_name(redb::MultimapTableHandle::name(&definition))?;
        found(self.transaction.open_multimap_table(definition))
    }
}

fn found<T>(opened: Result<T, TableError>) -> Result<Option<T>> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
