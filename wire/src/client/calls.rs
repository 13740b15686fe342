//! The table of calls: in flight, and waiting to be sent. No I/O.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::buffer::Buffer;
use super::options::CallKind;
use super::slot::Slot;
use crate::frame::{self, Kind};
use crate::limits::FREE;
use crate::outbox::Outbox;
use crate::sync::Arc;

/// The longest body that is kept while its call is in flight, to be sent again if nothing of it was sent.
const KEPT: usize = 4096;

/// The receiver of what a call returns.
#[derive(Clone)]
pub(crate) enum Caller {
    Call(Arc<Slot>),
    Items(Arc<Buffer>),
    /// The caller has gone: the answer is an orphan.
    Gone,
}

struct Entry {
    caller: Caller,
    kind: CallKind,
    /// There while the call is not sent, or if it may be sent again.
    body: Option<Vec<u8>>,
    stage: Stage,
    /// Its bytes, if it was sent.
    bytes: usize,
    /// An earlier connection may have sent it.
    was_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not sent. Without a connection it fails at `deadline`.
    Waiting { deadline: Option<Instant> },
    /// Sent, beginning at this position of the output.
    Sent { position: u64, cancelled: bool },
}

/// All calls without an answer.
#[derive(Default)]
pub(crate) struct Calls {
    entries: HashMap<u64, Entry>,
    /// Calls that are not sent, in the order in which they are to be. Some may have been dropped.
    waiting: VecDeque<u64>,
    in_flight: usize,
    /// The bytes of the calls in flight, and how many there may be; `None` for any number.
    bytes: usize,
    pub(crate) most_bytes: Option<usize>,
    last: u64,
}

/// A call that has failed.
pub(crate) struct Lost {
    pub(crate) caller: Caller,
    /// The server may have carried it out.
    pub(crate) in_doubt: bool,
}

impl Entry {
    /// A call that fails, and would do so if it was not sent. The socket may have taken `written` bytes.
    fn fail(self, written: u64) -> Lost {
        let is_sent = matches!(self.stage, Stage::Sent { position, .. } if position < written);
        Lost { caller: self.caller, in_doubt: self.kind.changes && (self.was_sent || is_sent) }
    }
}

/// What an answer found.
pub(crate) enum Found {
    /// A call in flight. `in_doubt`: it changes something, and the server may have carried it out on an earlier
    /// connection.
    Caller { caller: Caller, in_doubt: bool },
    /// There is no such call.
    Unknown,
}

impl Calls {
    /// Adds a call. It fails at `deadline` if it was not sent by then.
    pub(crate) fn add(
        &mut self,
        caller: Caller,
        kind: CallKind,
        body: Vec<u8>,
        deadline: Option<Instant>,
    ) -> u64 {
        self.last += 1;
        let (body, stage) = (Some(body), Stage::Waiting { deadline });
        let entry = Entry { caller, kind, body, stage, bytes: 0, was_sent: false };
        self.entries.insert(self.last, entry);
        self.waiting.push_back(self.last);
        self.last
    }

    /// Appends waiting calls to the output, while fewer than `limit` are in flight, and bytes are left for the next
    /// one. A call longer than `frame` is returned: the limit of this server is lower than that of the one before.
    pub(crate) fn send(
        &mut self,
        outbox: &mut Outbox,
        limit: usize,
        frame: usize,
    ) -> Vec<(Lost, usize)> {
        let mut too_large = Vec::new();
        while self.in_flight < limit {
            let Some(number) = self.waiting.front().copied() else { break };
            let Some(entry) = self.entries.get_mut(&number) else {
                self.waiting.pop_front();
                continue;
            };
            let body = entry.body.as_deref().unwrap_or_default();
            let bytes = frame::EMPTY + body.len();
            let fits = self.most_bytes.is_none_or(|most| self.bytes + bytes <= most);
            if !fits && self.bytes > FREE {
                break;
            }
            self.waiting.pop_front();
            if body.len() > frame {
                let size = body.len();
                too_large.extend(self.entries.remove(&number).map(|entry| (entry.fail(0), size)));
                continue;
            }
            let position = outbox.append(Kind::Call, number, body);
            entry.stage = Stage::Sent { position, cancelled: false };
            entry.bytes = bytes;
            if !entry.kind.resend && body.len() > KEPT {
                entry.body = None;
            }
            self.in_flight += 1;
            self.bytes += bytes;
        }
        too_large
    }

    /// Whether more calls than one were sent and have no answer.
    pub(crate) fn are_several_in_flight(&self) -> bool {
        self.in_flight > 1
    }

    /// Whether every call has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The call has ended: removes it.
    pub(crate) fn ended(&mut self, number: u64) -> Found {
        // A call that is not sent stays: its caller still waits for it.
        if self.caller(number).is_none() {
            return Found::Unknown;
        }
        let Some(entry) = self.entries.remove(&number) else { return Found::Unknown };
        self.in_flight = self.in_flight.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        let in_doubt = entry.kind.changes && entry.was_sent;
        Found::Caller { caller: entry.caller, in_doubt }
    }

    /// The caller of a call in flight, which goes on.
    pub(crate) fn caller(&self, number: u64) -> Option<&Caller> {
        let entry = self.entries.get(&number)?;
        matches!(entry.stage, Stage::Sent { .. }).then_some(&entry.caller)
    }

    /// Takes the caller of a call that goes on.
    pub(crate) fn disown(&mut self, number: u64) -> Option<Caller> {
        let entry = self.entries.get_mut(&number)?;
        Some(std::mem::replace(&mut entry.caller, Caller::Gone))
    }

    /// The caller has gone. Appends what the server has to know.
    pub(crate) fn abandon(&mut self, number: u64, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.caller = Caller::Gone;
        if entry.kind.cancel {
            self.cancel(number, outbox);
        }
    }

    /// Cancels a call: it is not sent any more, or the server is told.
    pub(crate) fn cancel(&mut self, number: u64, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        match &mut entry.stage {
            Stage::Waiting { .. } => {
                self.entries.remove(&number);
                // Numbers without a call are skipped; with many of them the queue is rebuilt.
                if self.waiting.len() > 2 * self.entries.len() + 64 {
                    self.waiting.retain(|number| self.entries.contains_key(number));
                }
            }
            Stage::Sent { cancelled, .. } => {
                if !std::mem::replace(cancelled, true) {
                    outbox.append(Kind::Cancel, number, b"");
                    entry.kind.resend = false;
                    entry.body = None;
                }
            }
        }
    }

    /// Tells the server how many items of a call were taken.
    pub(crate) fn taken(&self, number: u64, count: u64, outbox: &mut Outbox) {
        if let Some(Entry { stage: Stage::Sent { cancelled: false, .. }, .. }) =
            self.entries.get(&number)
        {
            outbox.append_with(|out| frame::put_count(out, number, count));
        }
    }

    /// The connection has broken. The socket may have taken `written` bytes. Calls of which nothing was sent,
    /// and those that may be sent again, wait until `deadline`; the others fail, in the order of the calls.
    pub(crate) fn broke(&mut self, written: u64, deadline: Instant) -> Vec<Lost> {
        let mut again = Vec::new();
        let mut lost = Vec::new();
        self.entries.retain(|&number, entry| {
            if let Stage::Sent { position, cancelled } = entry.stage {
                let was_sent = position < written;
                let resend = !cancelled && entry.body.is_some() && (entry.kind.resend || !was_sent);
                if !resend {
                    let caller = std::mem::replace(&mut entry.caller, Caller::Gone);
                    lost.push((number, Lost { caller, in_doubt: was_sent }));
                    return false;
                }
                entry.was_sent |= was_sent;
                again.push(number);
            }
            entry.stage = Stage::Waiting { deadline: Some(deadline) };
            true
        });
        // They were made before all that wait.
        again.sort_unstable();
        for number in again.into_iter().rev() {
            self.waiting.push_front(number);
        }
        (self.in_flight, self.bytes) = (0, 0);
        lost.sort_unstable_by_key(|&(number, _)| number);
        lost.into_iter().map(|(_, lost)| lost).collect()
    }

    /// Removes the waiting calls whose time is over.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Lost> {
        let mut expired = Vec::new();
        while self.first_deadline().is_some_and(|deadline| deadline <= now) {
            let Some(number) = self.waiting.pop_front() else { break };
            expired.extend(self.entries.remove(&number).map(|entry| entry.fail(0)));
        }
        expired
    }

    /// When the first of the waiting calls fails. They wait in the order of their deadlines.
    pub(crate) fn first_deadline(&mut self) -> Option<Instant> {
        while let Some(number) = self.waiting.front() {
            if let Some(Entry { stage: Stage::Waiting { deadline }, .. }) = self.entries.get(number)
            {
                return *deadline;
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Removes all calls, in their order. The socket may have taken `written` bytes.
    pub(crate) fn take_all(&mut self, written: u64) -> Vec<Lost> {
        self.waiting.clear();
        (self.in_flight, self.bytes) = (0, 0);
        let mut entries: Vec<_> = self.entries.drain().collect();
        entries.sort_unstable_by_key(|&(number, _)| number);
        entries.into_iter().map(|(_, entry)| entry.fail(written)).collect()
    }
}
