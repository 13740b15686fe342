//! Puts: the checks of a task, of the tube's capacity and of disk space, and the insert.
//!
//! All checks come before the first edit.

use std::sync::Arc;

use tubewell_drivers::{Draft, Driver, Header, Load, NEVER, SUB_QUEUE_MAX};

use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Keeping, Visibility};
use crate::core::history::{Entry, Past};
use crate::core::state::{Buffer, Core, Decided, PutRequest, TubeState, traceparent_of};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::options::micros;
use crate::{Error, EventKind, Receipt, Result, TaskState};

/// An upper estimate of the bytes that a task needs in the file beside its body.
const TASK_OVERHEAD: u64 = 512;

verb! {
    /// Puts a task. Refuses it if the tube is full, or if puts wait for capacity: they come first.
    1 InTube Edit: PutTask { request: PutRequest } -> Receipt {
        fn may_repeat(&self) -> bool {
            self.request.may_repeat()
        }

        fn refusal_waits(&self) -> bool {
            self.request.has_key()
        }

        fn check(&self, limits: Limits) -> Result<()> {
            self.request.check(limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Send("put"))
        }

        #[cfg(feature = "tracing")]
        fn puts(&mut self) -> &mut [PutRequest] {
            std::slice::from_mut(&mut self.request)
        }

        #[cfg(feature = "tracing")]
        fn id_in(receipt: &Receipt) -> Option<u64> {
            Some(receipt.id)
        }
    }
}

impl Decide for PutTask {
    #[inline]
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        core.put(number, &self.request)
    }
}

verb! {
    /// The id of the next task that is put.
    18 InStore Look: NextId {} -> u64 {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for NextId {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<u64>> {
        Ok(Decided::now(core.ids.next()))
    }
}

impl TubeState {
    /// Rejects options that the driver does not support.
    pub(in crate::core) fn check_put(&self, request: &PutRequest) -> Result<()> {
        let traits = self.definition.traits();
        let timed = [
            ("a priority", request.priority.is_some()),
            // How long a done task is kept, in a tube of any driver.
            ("a ttl", request.ttl.is_some() && !request.is_done()),
            ("a ttr", request.ttr.is_some()),
            ("a max_runtime", request.max_runtime.is_some()),
            ("a delay", request.delay > 0),
            ("a moment", request.not_before.is_some()),
        ];
        for (what, given) in timed {
            if given && !traits.timed {
                return Err(self.unsupported(what));
            }
        }
        if request.sub.is_some() && !traits.sub_queued {
            return Err(self.unsupported("sub-queues"));
        }
        Ok(())
    }

    /// The header of a new task, without its times.
    fn header_without_times(&self, request: &PutRequest, driver: &dyn Driver) -> Result<Header> {
        self.check_put(request)?;
        let priority = request.priority.unwrap_or(self.definition.policies.priority);
        let draft = Draft::new(priority, request.sub.as_deref(), &request.body);
        let (order, sub) = self.place_of(&draft, driver)?;
        let mut header = Header {
            priority,
            order,
            created: 0,
            expires_at: NEVER,
            ttr: NEVER,
            ready_at: 0,
            takes: request.takes,
            size: request.body.len() as u64,
            body_checksum: request.body.checksum(),
            sub,
            more: None,
        };
        if request.max_attempts.is_some()
            || request.max_runtime.is_some()
            || request.key.is_some()
            || request.not_before.is_some()
            || request.traceparent.is_some()
            || !request.tags.is_empty()
        {
            let traceparent = request.traceparent.as_deref().map(traceparent_of).transpose()?;
            header.edit_more(|more| {
                (more.max_attempts, more.key) = (request.max_attempts, request.key.clone());
                (more.max_runtime, more.traceparent) = (request.max_runtime, traceparent);
                (more.not_before, more.tags) = (request.not_before, request.tags.clone());
            });
        }
        Ok(header)
    }

    /// The order and the sub-queue of a task in this tube.
    pub(super) fn place_of(
        &self,
        draft: &Draft<'_>,
        driver: &dyn Driver,
    ) -> Result<(u64, Arc<str>)> {
        let sub = if self.definition.sub_queued { driver.sub_queue(draft) } else { "".into() };
        if sub.len() > SUB_QUEUE_MAX {
            return Err(Error::invalid(format!(
                "the driver returned a sub-queue name of {} bytes, the limit is {SUB_QUEUE_MAX}",
                sub.len()
            )));
        }
        let sub = if sub.is_empty() { Arc::default() } else { Arc::from(&*sub) };
        Ok((driver.order(draft), sub))
    }

    /// Refuses tasks if the tube is full with this many more tasks, or if puts wait for capacity:
    /// they come first.
    pub(super) fn check_capacity(&self, driver: &dyn Driver, more: u64) -> Result<()> {
        if self.waiting_puts.is_empty() && driver.admit(&self.load(more)) {
            return Ok(());
        }
        Err(self.full())
    }

    /// The load of the tube with this many more tasks.
    pub(in crate::core) fn load(&self, more: u64) -> Load {
        Load::new(self.occupied + more, self.definition.policies.capacity)
    }

    pub(super) fn full(&self) -> Error {
        Error::Full {
            tube: self.definition.name.to_string(),
            capacity: self.definition.policies.capacity,
        }
    }
}

impl Core {
    /// Puts a task. Refuses it if the tube is full, or if puts wait for capacity: they come first.
    pub(in crate::core) fn put(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        if let Some(seen) = self.put_again(number, request)? {
            return Ok(seen);
        }
        if let Some(key) = &request.key {
            return self.put_with_key(number, request, key, false);
        }
        if let Some(tube) = self.tubes.get(number)
            && !tube.waiting_puts.is_empty()
        {
            tube.check_put(request)?;
            return Err(tube.full());
        }
        self.put_new(number, request)
    }

    /// Puts a task that has waited for capacity.
    pub(in crate::core) fn put_now(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        if let Some(seen) = self.put_again(number, request)? {
            return Ok(seen);
        }
        match &request.key {
            Some(key) => self.put_with_key(number, request, key, true),
            None => self.put_new(number, request),
        }
    }

    /// Puts a task whose key no other task has.
    pub(super) fn put_new(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        let header = self.new_header(number, request, Some(0))?;
        self.check_disk_space(number, request.bytes(), 1)?;
        let visibility = self.put_visibility(number, self.ids.next().saturating_add(1));
        let id = request.id.unwrap_or(self.ids.next());
        let change = self.insert_task(number, id, request, header)?;
        let state = change.to;
        self.note_id(id, request.id.is_some());
        self.make_put_visible(change, visibility);
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    /// Refuses a task for which there may be no capacity, since puts wait for it: they come first.
    pub(in crate::core) fn check_no_waiting_put(&self, number: TubeNo) -> Result<()> {
        match self.tubes.get(number) {
            Some(tube) if !tube.waiting_puts.is_empty() => Err(tube.full()),
            _ => Ok(()),
        }
    }

    /// As `visibility`, for tasks whose ids are below `next_id`. If the file has not reserved these
    /// ids yet, the tasks become visible after a flush: otherwise a take could return an id that a
    /// later run assigns again.
    pub(in crate::core) fn put_visibility(&self, number: TubeNo, next_id: u64) -> Visibility {
        self.visibility_with_ids(self.visibility(number), next_id)
    }

    pub(super) fn visibility_with_ids(&self, visibility: Visibility, next_id: u64) -> Visibility {
        let at_risk = self.ids.are_at_risk_below(next_id);
        match visibility {
            Visibility::Written(_) | Visibility::Within(_) if at_risk => Visibility::Flushed,
            visibility => visibility,
        }
    }

    /// Checks a put and returns the header of its task. Edits nothing. `more`: the tasks of the
    /// same call before this one; `None` if the caller checks the capacity.
    pub(in crate::core) fn new_header(
        &self,
        number: TubeNo,
        request: &PutRequest,
        more: Option<u64>,
    ) -> Result<Header> {
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.tubes.known_drivers())?;
        let mut header = tube.header_without_times(request, driver)?;
        if let Some(more) = more.filter(|_| !request.is_done())
            && !driver.admit(&tube.load(more))
        {
            return Err(tube.full());
        }
        let now = self.now.timeline;
        header.created = now;
        if tube.definition.timed {
            let policies = &tube.definition.policies;
            let ttl = request.ttl.unwrap_or_else(|| micros(policies.ttl));
            header.expires_at = now.saturating_add(ttl).saturating_add(request.delay);
            header.ttr = request.ttr.unwrap_or_else(|| micros(policies.ttr));
            if request.delay > 0 {
                header.ready_at = now.saturating_add(request.delay);
            }
            self.clocks().aim(&mut header);
        }
        if request.restored_as.is_some() || request.history.is_some() {
            header = self.restored_header(number, request, header)?;
        }
        Ok(header)
    }

    /// Refuses tasks for which the disk has no space. The engine's pages are up to twice as large
    /// as their content.
    pub(in crate::core) fn check_disk_space(
        &mut self,
        number: TubeNo,
        bytes: usize,
        tasks: usize,
    ) -> Result<()> {
        let in_file = self.buffer_of(number) == Buffer::File;
        if in_file { self.check_space_in_file(bytes, tasks) } else { Ok(()) }
    }

    /// As `check_disk_space`, for tasks of the file.
    pub(super) fn check_space_in_file(&mut self, bytes: usize, tasks: usize) -> Result<()> {
        let buffer = &self.buffers[Buffer::File];
        let Some(engine) = buffer.engine() else { return Ok(()) };
        let needed = (bytes as u64).saturating_add(TASK_OVERHEAD.saturating_mul(tasks as u64));
        let pending = (buffer.edits.bytes() as u64).saturating_mul(2);
        let fits_in_file = self.idle.free_in_file >= needed && engine.has_ballast();
        if !engine.admits(needed.saturating_mul(2), pending) && !fits_in_file {
            return Err(Error::DiskFull { path: engine.counters().name().to_owned() });
        }
        self.idle.free_in_file = self.idle.free_in_file.saturating_sub(needed);
        Ok(())
    }

    /// Notes that a task is removed from the file: its space can be used again.
    pub(in crate::core) fn note_freed(&mut self, number: TubeNo, header: &Header) {
        if self.buffer_of(number) == Buffer::File {
            let freed = header.size.saturating_add(TASK_OVERHEAD);
            self.idle.free_in_file = self.idle.free_in_file.saturating_add(freed);
        }
    }

    /// Stores a new task. The caller notes its id and makes it visible.
    #[inline]
    pub(in crate::core) fn insert_task(
        &mut self,
        number: TubeNo,
        id: u64,
        request: &PutRequest,
        header: Header,
    ) -> Result<Change> {
        self.insert_task_as((number, id), EventKind::Put, request, header, None)
    }

    /// As `insert_task`, with a change of this kind. `past`: the history that the task had in another
    /// tube.
    #[inline]
    pub(in crate::core) fn insert_task_as(
        &mut self,
        (number, id): (TubeNo, u64),
        kind: EventKind,
        request: &PutRequest,
        mut header: Header,
        past: Option<&Past>,
    ) -> Result<Change> {
        let parents = self.block(number, id, request, &mut header)?;
        let shelf = match request.restored_as {
            Some(state) => state.shelf(),
            None => self.clocks().place(!parents.is_empty(), &mut header),
        };
        if header.created != self.now.timeline {
            // It was in another tube or store before.
            let rules = self.rules(number)?;
            rules.note_ready(shelf, &mut header, rules.now);
        }
        if request.restored_as.is_some()
            && let Some(tube) = self.tubes.get_mut(number)
        {
            // It may have ended before tasks that were forgotten.
            tube.empty_up_to.note_arrival(shelf, (header.order_on(shelf), id));
        }
        let notes = self.restored_notes(request);
        let steps = self.restored_steps(id, request);
        let state = TaskState::on_shelf(shelf);
        let entry = Entry::new(kind, state);
        let entries = match (past, request.entries()) {
            (Some(past), _) => self.continue_history(number, id, past, &mut header, entry),
            (None, []) => self.add_to_history(number, id, None, &mut header, Some(entry)),
            (None, restored) => self.restore_entries(number, id, &mut header, restored),
        };
        let row = self.edit_and_remember(number, id, request, |ledger| {
            let row = ledger.insert(id, shelf, &header, &request.body)?;
            ledger.write_entries(id, &header, &entries);
            for (note, bytes) in &notes {
                ledger.set_note(id, false, *note, bytes);
            }
            for (name, row) in steps {
                ledger.write_step(id, &name, row);
            }
            ledger.add_edges(id, &parents);
            Ok(row)
        })?;
        let change = self.change(number, id, kind, None, state, Some(header));
        let keeping = if request.is_done() { Keeping::Kept } else { Keeping::Unchanged };
        Ok(Change { row: Some(row), keeping, ..change })
    }

    #[inline]
    pub(in crate::core) fn make_put_visible(&mut self, change: Change, visibility: Visibility) {
        if let Some(tube) = self.tubes.get_mut(change.tube) {
            tube.occupied += u64::from(change.keeping != Keeping::Kept);
            if change.kind == EventKind::Put {
                tube.put_ids.note(change.id);
            }
        }
        self.make_visible(change, visibility);
    }

    /// Notes that a task has this id. The id of a restored task was accepted before.
    pub(in crate::core) fn note_id(&mut self, id: u64, is_restored: bool) {
        if is_restored {
            self.ids.note_restored(id, self.now.running);
        } else {
            self.ids.note(id);
        }
    }
}
