//! Reads of tasks and of counts that change nothing, and what the pages of listings share.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use tubewell_drivers::{BODY_MAX, Found, Header, NEVER, Note, Position, Shelf};

use super::keys::key_of;
use crate::base::micros::{duration, limit};
use crate::base::moment::system_time;
use crate::base::tube_no::TubeNo;
use crate::core::state::window::Rank;
use crate::core::state::{Clocks, Core, Decided, WallClock};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::text::quoted;
use crate::values::spawned_by::SpawnedBy;
use crate::values::statistics::Statistics;
use crate::values::task::{Cursor, CursorOf, Task, TaskInfo};
use crate::{Bytes, Error, Result, TaskState};

verb! {
    /// A task, whose body and result are empty unless they are wanted. If its last change is not yet visible, the
    /// answer waits for the flush.
    32 InTube Read: Peek { id: u64, with_body: bool } -> Task {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Peek {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Task>> {
        let id = self.id;
        let found = core.find(number, id)?;
        let info = core.describe_with_failure(number, id, found.shelf, &found.record.header)?;
        let task = if self.with_body {
            let body = core.read_body(number, id, &found)?;
            Task::of(info, body).with_result(core.result_beside_body(number, id, &found)?)
        } else {
            Task::of(info, Vec::new())
        };
        Ok(core.once_visible(number, id, task))
    }
}

impl Core {
    /// The body of a task, which shares its row.
    pub(in crate::core) fn read_body(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<Bytes> {
        let row = self.edit(number, |ledger| ledger.row_with_body(id, found))?;
        Ok(Bytes::tail(row, found.record.header.size))
    }

    /// As `read_result`, unless the result and the body are too large for one answer to a peer.
    pub(super) fn result_beside_body(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<Option<Vec<u8>>> {
        let (result, body) = (self.read_result(number, id, found)?, found.record.header.size);
        let fits = |result: &Vec<u8>| body.saturating_add(result.len() as u64) <= BODY_MAX as u64;
        Ok(result.filter(fits))
    }

    /// The result of a task, if it is done and has one.
    pub(in crate::core) fn read_result(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<Option<Vec<u8>>> {
        let header = &found.record.header;
        if !Note::Result.is_in(header) {
            return Ok(None);
        }
        self.edit(number, |ledger| ledger.note(id, header, Note::Result))
    }
}

verb! {
    /// The counts of a tube.
    49 InTube Look: CountsOf {} -> Statistics
}

impl Decide for CountsOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Statistics>> {
        let tube = core.tubes.get(number);
        Ok(Decided::now(tube.map_or_else(Statistics::default, |tube| tube.visible)))
    }
}

verb! {
    /// The counts of all tubes, by name.
    17 InStore Look: AllCounts {} -> BTreeMap<String, Statistics> {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for AllCounts {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<BTreeMap<String, Statistics>>> {
        let tubes = core.tubes.values();
        let counts = tubes.map(|tube| (tube.definition.name.to_string(), tube.visible));
        Ok(Decided::now(counts.collect()))
    }
}

impl Core {
    /// The next taken tasks of a tube, and where the following ones begin.
    pub(super) fn taken_after(
        &self,
        number: TubeNo,
        after: Option<&Cursor>,
        limit: usize,
    ) -> (Vec<Rank>, Option<Cursor>) {
        use std::ops::Bound::{Excluded, Unbounded};
        let Some(tube) = self.tubes.get(number) else { return (Vec::new(), None) };
        let from = after.map_or(Unbounded, |cursor| Excluded(rank_of(cursor)));
        let taken: Vec<Rank> = tube.taken.range((from, Unbounded)).take(limit).copied().collect();
        let last = taken.last().filter(|_| taken.len() == limit);
        let next = last.map(|(order, id)| cursor(Shelf::Ready, *order, *id));
        (taken, next)
    }

    /// As `describe_with_failure`. A damaged failure is left out, and reported by `verify`.
    pub(in crate::core) fn describe_for_page(
        &mut self,
        number: TubeNo,
        id: u64,
        shelf: Shelf,
        header: &Header,
    ) -> Result<TaskInfo> {
        match self.describe_with_failure(number, id, shelf, header) {
            Err(Error::Corrupt { .. }) => Ok(self.describe(number, id, shelf, header)),
            described => described,
        }
    }

    /// The public description of a task, claim and last failure included.
    pub(crate) fn describe_with_failure(
        &mut self,
        number: TubeNo,
        id: u64,
        shelf: Shelf,
        header: &Header,
    ) -> Result<TaskInfo> {
        let failure = self.last_failure(number, id, header)?;
        Ok(TaskInfo { failure, ..self.describe(number, id, shelf, header) })
    }

    /// The public description of a task, claim included.
    pub(crate) fn describe(
        &self,
        number: TubeNo,
        id: u64,
        shelf: Shelf,
        header: &Header,
    ) -> TaskInfo {
        let claim = self.claims.get(id);
        let state = if claim.is_some() { TaskState::Taken } else { TaskState::on_shelf(shelf) };
        let header = claim.map_or(header, |claim| &claim.header);
        let claim_left = self.claim_time_left(id).map(duration);
        let tube = self.tubes.get(number).map(|tube| &tube.definition);
        let name = tube.map(|tube| &*tube.name).unwrap_or_default();
        let info = describe(name, id, state, header, self.clocks());
        let of_tube = tube.and_then(|tube| tube.policies.max_attempts);
        let (max_attempts, attempts_left) =
            (header.max_attempts(of_tube), header.attempts_left(of_tube));
        let (due_in, progress) = (info.due_in.or(claim_left), self.progress_of(id));
        let reclaimed_in = claim.and_then(|claim| claim.reclaim_delay_left(self.now.running));
        let reclaimed_in = reclaimed_in.map(limit);
        TaskInfo { max_attempts, attempts_left, due_in, reclaimed_in, progress, ..info }
    }
}

/// The cursor before the first task of every listing. No task has this id.
pub(super) fn start_cursor() -> Cursor {
    cursor(Shelf::Ready, 0, NEVER)
}

/// A cursor of a listing that sub-queues do not divide.
pub(super) fn cursor(shelf: Shelf, order: u64, id: u64) -> Cursor {
    Cursor::from(Position { shelf, order, id, sub: "".into() })
}

/// Where a task is stored.
pub(in crate::core) fn found_position(id: u64, found: &Found) -> Position {
    let header = &found.record.header;
    let (shelf, order, sub) = (found.shelf, header.order_on(found.shelf), header.sub.clone());
    Position { shelf, order, id, sub }
}

pub(super) fn rank_of(cursor: &Cursor) -> Rank {
    (cursor.position.order, cursor.position.id)
}

fn is_start(cursor: &Cursor) -> bool {
    *cursor == start_cursor()
}

/// What the pages of a list have.
#[derive(Clone, Copy)]
pub(in crate::core) enum Listing<'a> {
    State(TaskState),
    /// The buried tasks of a failure group.
    Group(&'a str),
    Tag(&'a str),
    /// The delayed tasks, by the times at which they become ready.
    Soonest,
    /// All tasks of a tube, state by state.
    All,
}

impl Listing<'_> {
    fn has(self, cursor: &Cursor) -> bool {
        cursor.tube.is_none() && self.has_place(cursor)
    }

    fn has_place(self, cursor: &Cursor) -> bool {
        match (self, &cursor.of) {
            (Listing::State(state), None) => cursor.position.shelf == state.shelf(),
            (Listing::All, None) | (Listing::Soonest, Some(CursorOf::Soonest)) => true,
            (Listing::Group(name), Some(CursorOf::Group(of)))
            | (Listing::Tag(name), Some(CursorOf::Tag(of))) => **of == *name,
            _ => false,
        }
    }
}

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Listing::State(state) => write!(f, "{state} tasks"),
            Listing::Group(name) => write!(f, "failure group {}", quoted(name)),
            Listing::Tag(tag) => write!(f, "tag {}", quoted(tag)),
            Listing::Soonest => f.write_str("delayed tasks with the soonest one first"),
            Listing::All => f.write_str("all tasks"),
        }
    }
}

/// The cursor after which a page begins; `None` for the first page. Refuses that of another list:
/// the scan would begin among the rows of another shelf, or tasks would be left out.
pub(in crate::core) fn begin_of_page<'a>(
    after: Option<&'a Cursor>,
    listing: Listing<'_>,
) -> Result<Option<&'a Cursor>> {
    let begin = after.filter(|cursor| !is_start(cursor));
    if begin.is_some_and(|cursor| !listing.has(cursor)) {
        return Err(Error::invalid(format!(
            "the cursor is not of a page of {listing}; list again from the first page"
        )));
    }
    Ok(begin)
}

/// The tube and the place in it at which a page of all tubes begins; `None` for the first page.
pub(super) fn begin_in_tubes(after: Option<&Cursor>) -> Result<Option<(Arc<str>, Cursor)>> {
    let Some(after) = after.filter(|cursor| !is_start(cursor)) else { return Ok(None) };
    let Some(tube) = &after.tube else {
        return Err(Error::invalid(
            "the cursor is not of a page of all tubes; list again from the first page",
        ));
    };
    Ok(Some((tube.clone(), Cursor { tube: None, ..after.clone() })))
}

/// Where the page after one without tasks begins: where that one does.
pub(in crate::core) fn cursor_of_empty_page(after: Option<&Cursor>) -> Cursor {
    after.cloned().unwrap_or_else(start_cursor)
}

/// The description of a task that was taken, by what its claim has, in a process that no longer
/// reaches the store: how much of its ttl is left is not known.
pub(crate) fn describe_unreachable(tube: &str, id: u64, header: &Header) -> TaskInfo {
    let clocks = Clocks { now: 0, wall: &WallClock::default() };
    TaskInfo { ttl_left: None, ..describe(tube, id, TaskState::Taken, header, clocks) }
}

/// The public description of a task at a moment, from its record only.
pub(crate) fn describe(
    tube: &str,
    id: u64,
    state: TaskState,
    header: &Header,
    clocks: Clocks<'_>,
) -> TaskInfo {
    let left = |until: u64| duration(until.saturating_sub(clocks.now));
    let until = match state {
        // Its ttl has ended with it: the rest of the time that it is kept.
        TaskState::Done => header.due(Shelf::Done).unwrap_or(NEVER),
        _ => header.expires_at,
    };
    TaskInfo {
        id,
        tube: tube.to_owned(),
        state,
        priority: header.priority,
        sub_queue: (!header.sub.is_empty()).then(|| header.sub.to_string()),
        key: key_of(header).map(ToString::to_string),
        tags: header.tags().iter().map(ToString::to_string).collect(),
        takes: header.takes,
        attempts: header.attempts(),
        max_attempts: header.max_attempts(None),
        attempts_left: header.attempts_left(None),
        open_parents: header.open_parents(),
        failure: None,
        group: header.more.as_ref().and_then(|more| Some(more.group.as_deref()?.to_owned())),
        size: header.size,
        ttl_left: (until != NEVER).then(|| left(until)),
        ttr: (header.ttr != NEVER).then(|| duration(header.ttr)),
        max_runtime: header.own_max_runtime().map(limit),
        due_in: matches!(state, TaskState::Delayed | TaskState::Recurring)
            .then(|| limit(clocks.left(header))),
        reclaimed_in: None,
        not_before: header.not_before().map(system_time),
        progress: None,
        spawned_by: header.more.as_ref().and_then(|more| more.spawned_by).map(SpawnedBy::of),
        has_steps: header.has_steps(),
        put_at: system_time(clocks.shown(header.created)),
        ended_at: ended_at(header, state).map(|time| system_time(clocks.shown(time))),
        traceparent: header.traceparent().map(|it| it.to_string()),
    }
}

/// When a task in this state was buried or done, on the timeline, if its record has that.
fn ended_at(header: &Header, state: TaskState) -> Option<u64> {
    let has_ended = matches!(state, TaskState::Buried | TaskState::Done);
    header.more.as_ref().filter(|_| has_ended)?.ended
}
