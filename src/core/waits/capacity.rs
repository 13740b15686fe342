//! What waits for space in a write buffer, first come, first served: futures, and calls.

use std::sync::Arc;

use crate::Result;
use crate::core::state::{Buffer, CapacitySlot, Core, Decided, InLine, Line, LineCall};
use crate::core::verb::{Decide, verb};

verb! {
    /// Nothing, once the write buffer of the file has space.
    0 InStore Space: Space {} -> ()
}

impl Decide for Space {
    fn decide(&self, _: &mut Core, (): ()) -> Result<Decided<()>> {
        Ok(Decided::now(()))
    }
}

/// How many rows the line fills at most while threads wait for space: the sweeper needs a buffer with fewer than
/// 512 rows.
const ROWS_BESIDE_BLOCKED_CALLERS: usize = 256;

impl Core {
    /// Whether a call may edit this write buffer now: fewer than `max_rows` rows are pending, the
    /// buffer is not full, and no call has waited for longer. On a store that is closed or has
    /// failed a call does not wait, since it is refused. `arrival` is set for a call that has
    /// waited.
    pub(crate) fn has_capacity(
        &self,
        buffer: Buffer,
        max_rows: usize,
        arrival: Option<u64>,
    ) -> bool {
        if self.check_open().is_err() {
            return true;
        }
        let (line, free) = (&self.waits.lines[buffer], self.free_rows(buffer));
        let is_next = match (arrival, line.first()) {
            (Some(arrival), Some(first)) => arrival < first,
            (Some(_), None) => true,
            // Calls that were called come first.
            (None, None) => line.called() < free,
            (None, Some(_)) => false,
        };
        is_next && free > 0 && self.buffers[buffer].edits.active.len() < max_rows
    }

    /// Adds a call to the line of a write buffer and has the writer thread commit that buffer.
    /// `arrival` is set for a call that has waited: it keeps its place.
    pub(crate) fn wait_for_capacity(
        &mut self,
        buffer: Buffer,
        max_rows: usize,
        arrival: Option<u64>,
    ) -> (u64, Arc<CapacitySlot>) {
        let arrival = arrival.unwrap_or_else(|| self.waits.next_arrival());
        let slot = Arc::new(CapacitySlot::new());
        self.stand_in_line(buffer, arrival, InLine::Future { slot: slot.clone(), max_rows });
        (arrival, slot)
    }

    /// Adds a call to the line of a write buffer: it is carried out once there is space. Returns its place,
    /// by which it can be withdrawn.
    pub(crate) fn wait_in_line(&mut self, buffer: Buffer, call: LineCall<Core>) -> u64 {
        let arrival = self.waits.next_arrival();
        self.stand_in_line(buffer, arrival, InLine::Call(call));
        arrival
    }

    /// Takes a call that was not carried out from the line. The caller drops it without the lock.
    pub(crate) fn withdraw_call(&mut self, buffer: Buffer, place: u64) -> Option<LineCall<Core>> {
        match self.waits.lines[buffer].leave(place)? {
            InLine::Call(call) => Some(call),
            InLine::Future { .. } => None,
        }
    }

    fn stand_in_line(&mut self, buffer: Buffer, arrival: u64, waiting: InLine<Core>) {
        self.waits.lines[buffer].stand(arrival, waiting);
        self.commit_for_waiters(buffer);
    }

    /// Has the writer thread commit a write buffer, so that it has space again.
    fn commit_for_waiters(&mut self, buffer: Buffer) {
        if self.buffers[buffer].is_dirty() {
            self.buffers[buffer].has_waiters = true;
            self.effects.call_writer = true;
        }
    }

    /// A call that was called looks for space now.
    pub(crate) fn answer_capacity_call(&mut self, buffer: Buffer) {
        self.waits.lines[buffer].note_looked();
    }

    /// A waiting call gives up. If it was called, its turn passes on.
    pub(crate) fn cancel_capacity_wait(&mut self, buffer: Buffer, arrival: u64) {
        if self.waits.lines[buffer].leave(arrival).is_none() {
            self.answer_capacity_call(buffer);
        }
    }

    /// Whether futures or calls wait for space.
    pub(crate) fn someone_waits_for_space(&self) -> bool {
        self.waits.lines.iter().any(|line| !line.is_empty())
    }

    /// Calls waiting futures in order of arrival, at most as many as there are free rows, or all of
    /// them once the store is closed or has failed. Stops at a call, which the caller carries out before
    /// it asks again. Runs each time the lock is released, so no freed space is missed.
    pub(crate) fn serve_capacity(&mut self) -> Option<LineCall<Core>> {
        Buffer::ALL.into_iter().find_map(|buffer| self.serve_buffer(buffer))
    }

    fn serve_buffer(&mut self, buffer: Buffer) -> Option<LineCall<Core>> {
        if self.waits.lines[buffer].is_empty() {
            return None;
        }
        let next = self.serve_some(buffer);
        if next.is_none() && !self.waits.lines[buffer].is_empty() {
            self.commit_for_waiters(buffer);
        }
        next
    }

    fn serve_some(&mut self, buffer: Buffer) -> Option<LineCall<Core>> {
        let refused = self.check_open().is_err();
        let free = self.rows_for_line(buffer);
        let rows = self.buffers[buffer].edits.active.len();
        let line = &mut self.waits.lines[buffer];
        while free > line.called() {
            let has_space = |waiting: &InLine<Core>| match waiting {
                InLine::Future { max_rows, .. } => refused || rows < *max_rows,
                InLine::Call(_) => true,
            };
            match line.call_first(has_space)? {
                InLine::Call(call) => return Some(call),
                InLine::Future { slot, .. } => {
                    line.note_called();
                    slot.fill(());
                    self.effects.after_unlock.deeds().capacity_slots.push(slot);
                }
            }
        }
        None
    }

    /// Whether a call in line has space.
    pub(crate) fn line_has_space(&self) -> bool {
        Buffer::ALL.into_iter().any(|buffer| {
            let line = &self.waits.lines[buffer];
            !line.is_empty() && self.rows_for_line(buffer) > line.called() && line.has_call()
        })
    }

    /// How many calls stand in line.
    pub(crate) fn calls_in_line(&self) -> usize {
        self.waits.lines.iter().map(Line::calls).sum()
    }

    /// The next call that waits for space, whether there is some or not.
    pub(crate) fn next_in_line(&mut self) -> Option<LineCall<Core>> {
        self.waits.lines.iter_mut().find_map(|line| match line.call_first(InLine::is_call)? {
            InLine::Call(call) => Some(call),
            InLine::Future { .. } => None,
        })
    }

    /// How many rows the line may fill. It leaves some to the threads that are blocked, which look for space
    /// later than the line does, and to the sweeper among them.
    fn rows_for_line(&self, buffer: Buffer) -> usize {
        if self.check_open().is_err() {
            return usize::MAX;
        }
        let free = self.free_rows(buffer);
        if !self.waits.has_blocked() {
            return free;
        }
        let most = (self.config.max_pending_rows / 2).min(ROWS_BESIDE_BLOCKED_CALLERS);
        free.min(most.saturating_sub(self.buffers[buffer].edits.active.len()))
    }

    /// How many rows a write buffer has left before it is full.
    fn free_rows(&self, buffer: Buffer) -> usize {
        if self.buffer_is_full(buffer) {
            return 0;
        }
        self.config.max_pending_rows.saturating_sub(self.buffers[buffer].edits.active.len())
    }
}
