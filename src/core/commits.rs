//! Commits: what is decided goes into a record of the journal or into the database, with the counts that have
//! changed and the header.

use tubewell_drivers::Table;

use crate::commit::{BatchGuard, Logged, LoggedRecord};
use crate::core::catalog::{FORMAT, HEADER, StoreHeader, count_key, encode};
use crate::core::state::{Buffer, Core, Wait};
use crate::storage::Checkpoint;

impl Core {
    /// Moves what is decided so far into a record of the journal. `None` if there is no journal, or
    /// if a leader must do it. Returns the number of the last record.
    pub(crate) fn log_to_journal(&mut self) -> Option<LoggedRecord> {
        let journal = self.buffers[Buffer::File].journal()?.clone();
        match self.log(Buffer::File, false)? {
            Logged::Record(number) => Some((journal, number)),
            Logged::Direct(_) => None,
        }
    }

    /// Moves what is decided so far into a commit. Returns as `WriteBuffer::log`.
    fn log(&mut self, buffer: Buffer, may_be_direct: bool) -> Option<Logged> {
        if self.needs_commit(buffer) {
            self.seal(buffer, false);
        }
        let logged = self.buffers[buffer].log(may_be_direct)?;
        if buffer == Buffer::File {
            self.ids.commit_is_logged();
        }
        self.effects.call_checkpointer |= self.buffers[buffer].edits.has_waiting_checkpoint();
        Some(logged)
    }

    /// Whether a flush needs a commit of its own. The first commit makes a store, and without a
    /// journal a flush is one.
    fn needs_commit(&self, buffer: Buffer) -> bool {
        let edits = &self.buffers[buffer];
        let must_reserve = buffer == Buffer::File && self.ids.must_be_reserved();
        must_reserve
            || edits.has_unlogged()
            || edits.journal().is_none()
            || edits.edits.last_commit() == 0
    }

    /// Moves what is decided so far into a commit, and begins its flush. `None` if a checkpoint must
    /// end first.
    pub(crate) fn begin_commit(&mut self, buffer: Buffer) -> Option<(Logged, BatchGuard)> {
        let logged = self.log(buffer, true)?;
        self.cancel_flush_timer(buffer);
        if buffer == Buffer::File {
            self.ids.flush_begins();
        }
        Some((logged, self.buffers[buffer].begin_flush()))
    }

    /// Moves everything into the last commit of a run, which the caller writes to the database. No
    /// other checkpoint may run. `None` if the store has no engine any more.
    pub(crate) fn begin_last_commit(&mut self) -> Option<(Checkpoint, BatchGuard)> {
        self.seal(Buffer::File, true);
        let edits = self.buffers[Buffer::File].log_directly()?;
        Some((edits, self.begin_direct_flush()))
    }

    /// Moves everything into a commit of the database that is written with the transaction of the
    /// application, which has reserved the database, and begins its flush.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn begin_commit_with_transaction(&mut self) -> (Checkpoint, BatchGuard) {
        self.seal(Buffer::File, false);
        self.cancel_flush_timer(Buffer::File);
        (self.buffers[Buffer::File].log_with_transaction(), self.begin_direct_flush())
    }

    /// Begins the flush of a commit that has all edits of the file.
    fn begin_direct_flush(&mut self) -> BatchGuard {
        self.ids.commit_is_logged();
        self.ids.flush_begins();
        self.buffers[Buffer::File].begin_flush()
    }

    /// Adds the rows that every commit writes to the active edits: the changed counts and, in the
    /// file, the header; and from time to time the numbers of the day.
    pub(in crate::core) fn seal(&mut self, buffer: Buffer, closing: bool) {
        let dirty_counts = std::mem::take(&mut self.buffers[buffer].dirty_counts);
        for number in dirty_counts {
            if let Some(tube) = self.tubes.get(number) {
                let (key, row) = (count_key(tube.definition.space), encode(&tube.counts));
                self.buffers[buffer].edits.active.replace(Table::Meta, key, row);
            }
        }
        self.write_days(buffer, closing);
        if buffer != Buffer::File {
            return;
        }
        self.note_lead(closing);
        let header = StoreHeader {
            format: FORMAT,
            commit: self.buffers[Buffer::File].edits.next_commit(),
            next_id: self.ids.next(),
            reserved: self.ids.reserve(),
            next_space: self.tubes.next_space(),
            timeline: self.now.timeline,
            closed: closing,
        };
        self.buffers[Buffer::File].edits.active.replace(
            Table::Meta,
            HEADER.to_vec(),
            encode(&header),
        );
    }

    /// Asks the writer thread for what a call waits for.
    pub(crate) fn ask_writer(&mut self, wait: &Wait) {
        match wait {
            Wait::Flush(buffer, _) => self.buffers[*buffer].has_waiters = true,
            Wait::Write(_) => {
                self.buffers[Buffer::File].needs_write = true;
                let effects = &mut self.effects;
                effects.call_checkpointer |= effects.writer_is_busy;
                effects.call_sweeper |= effects.writer_is_busy && self.threads.checkpoint_is_busy;
            }
        }
        self.effects.call_writer = true;
    }
}
