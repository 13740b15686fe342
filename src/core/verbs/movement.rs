//! Movement: tasks that go on in another tube, in their state.
//!
//! A move removes all rows of a task from one space and writes them in the other one, with one
//! commit. It is two changes: the task leaves the one tube, and enters the other one. They become
//! visible together, with the stronger durability of both tubes.

use tubewell_drivers::{Contents, Draft, Found, Header, NEVER, Shelf};

use super::select::{LIVE, Selected};
use super::selected::{SelectStep, at_most};
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::core::history::Entry;
use crate::core::state::{Core, Decided, TubeState};
use crate::core::verb::TubeName;
use crate::options::micros;
use crate::values::filter::Filter;
use crate::values::task::Cursor;
use crate::{Error, EventKind, Result, TaskState};

/// The maximum number of tasks that one call looks at while it holds the lock.
const MOVE_STEP: usize = 256;
/// The maximum bytes of bodies, notes and steps that one call moves. One task may have more.
const MOVE_BYTES: u64 = 1 << 20;

/// A task that is to move: everything that the edits of its rows need.
struct Move {
    id: u64,
    found: Found,
    contents: Contents,
    /// The header of the task in the tube that it leaves.
    left: Header,
    /// Its header in the other tube, and its shelf there.
    header: Header,
    shelf: Shelf,
}

/// Why a task of a step does not move.
enum Unmoved {
    /// It is damaged: it stays, and the step goes on.
    Damaged,
    Refused(Error),
}

impl Core {
    /// Moves selected tasks with ids below `below` to another tube, as many as fit into one step. If that
    /// tube is full, those for which it had space move.
    pub(super) fn move_selected(
        &mut self,
        number: TubeNo,
        to: &TubeName,
        filter: &Filter,
        (after, below): (Option<&Cursor>, u64),
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let to = to.find(self)?;
        self.check_move(number, to)?;
        let (bound, selected) = self.select(number, filter, after, at_most(limit, MOVE_STEP))?;
        let (tasks, next) = self.plan_moves((number, to), filter, selected, below)?;
        let step = SelectStep::new(tasks.len() as u64, bound, next);
        if tasks.is_empty() {
            return Ok(Decided { answer: step, wait: None });
        }
        let visibility = self.common_visibility(&[number, to]);
        self.carry_out_moves(number, to, tasks, visibility)?;
        Ok(self.decided(number, visibility, |_| step))
    }

    /// Refuses a move that has no other tube as its target, or one in another write buffer: two
    /// write buffers have no common commit.
    fn check_move(&self, number: TubeNo, to: TubeNo) -> Result<()> {
        if number == to {
            return Err(Error::invalid(format!(
                "a task cannot be moved to the tube in which it is, {:?}; name another one",
                self.name_of(to)
            )));
        }
        self.check_one_buffer(number, to)
    }

    pub(in crate::core) fn check_one_buffer(&self, number: TubeNo, to: TubeNo) -> Result<()> {
        if self.buffer_of(number) == self.buffer_of(to) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "tubes {:?} and {:?} have no common commit, since one of them is temporary; use two \
             calls",
            self.name_of(number),
            self.name_of(to)
        )))
    }

    /// Refuses one more task than `more` further ones: the tube is full, its driver is not known, or
    /// the disk is full.
    fn check_target(&mut self, to: TubeNo, bytes: u64, more: u64) -> Result<()> {
        let tube = self.tubes.get(to).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.tubes.known_drivers())?;
        tube.check_capacity(driver, more)?;
        self.check_disk_space(to, usize::try_from(bytes).unwrap_or(usize::MAX), 1)
    }

    /// Reads the tasks that move in this step. Returns them, and where the next step begins.
    fn plan_moves(
        &mut self,
        tubes: (TubeNo, TubeNo),
        filter: &Filter,
        Selected { tasks, next }: Selected,
        below: u64,
    ) -> Result<(Vec<Move>, Option<Cursor>)> {
        let (mut moves, mut bytes, mut last) = (Vec::new(), 0_u64, None);
        for (id, found) in tasks {
            let cursor = self.cursor_of_selected(filter, id, &found);
            let size = found.record.header.size;
            if !moves.is_empty() && bytes.saturating_add(size) > MOVE_BYTES {
                return Ok((moves, last));
            }
            if id < below && self.may_move(&found) {
                match self.plan_one_of_step(tubes, id, found, moves.len() as u64) {
                    Ok(task) => {
                        let moved = task.contents.bytes() as u64;
                        if !moves.is_empty() && bytes.saturating_add(moved) > MOVE_BYTES {
                            return Ok((moves, last));
                        }
                        bytes = bytes.saturating_add(moved);
                        moves.push(task);
                    }
                    Err(Unmoved::Damaged) => {}
                    Err(Unmoved::Refused(Error::Full { .. } | Error::DiskFull { .. }))
                        if !moves.is_empty() =>
                    {
                        return Ok((moves, last));
                    }
                    Err(Unmoved::Refused(error)) => return Err(error),
                }
            }
            last = Some(cursor);
        }
        Ok((moves, next))
    }

    /// Whether a selected task moves: not one that the sweeper is about to remove, and none that is done,
    /// which is kept by the tube in which it has ended.
    fn may_move(&self, found: &Found) -> bool {
        LIVE.contains(&found.shelf)
            && !found.record.header.is_expired(found.shelf, self.now.timeline)
    }

    /// Plans the move of a task, with `more` tasks of the same step before it.
    fn plan_one_of_step(
        &mut self,
        (number, to): (TubeNo, TubeNo),
        id: u64,
        found: Found,
        more: u64,
    ) -> Result<Move, Unmoved> {
        self.check_target(to, found.record.header.size, more).map_err(Unmoved::Refused)?;
        let contents = match self.edit(number, |ledger| ledger.contents(id, &found)) {
            // It stays, and `verify` reports it.
            Err(Error::Corrupt { .. }) => return Err(Unmoved::Damaged),
            contents => contents.map_err(Unmoved::Refused)?,
        };
        self.plan_move((number, to), id, found, contents).map_err(Unmoved::Refused)
    }

    fn plan_move(
        &self,
        (number, to): (TubeNo, TubeNo),
        id: u64,
        found: Found,
        contents: Contents,
    ) -> Result<Move> {
        let left = match self.claims.get(id) {
            // The attempt does not count, as after a revoke.
            Some(claim) => self.rules(number)?.forgive(claim.header.clone()),
            None => found.record.header.clone(),
        };
        let mut header = left.clone();
        let shelf = match self.claims.get(id) {
            // Its claim ends.
            Some(_) => self.clocks().gate(found.shelf, &mut header),
            None => found.shelf,
        };
        let header = self.moved_header(number, to, shelf, header, &contents.body)?;
        Ok(Move { id, found, contents, left, header, shelf })
    }

    /// The header of a task in the tube to which it moves. It keeps its age, its attempts, its
    /// priority and its times; a task of a tube without them gets those of the new tube.
    fn moved_header(
        &self,
        number: TubeNo,
        to: TubeNo,
        shelf: Shelf,
        mut header: Header,
        body: &[u8],
    ) -> Result<Header> {
        let had_times = self.tubes.get(number).is_some_and(|tube| tube.definition.timed);
        let tube = self.tubes.get(to).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.tubes.known_drivers())?;
        tube.check_moved(shelf, &header)?;
        let definition = &tube.definition;
        if !had_times && definition.timed {
            let policies = &definition.policies;
            header.priority = policies.priority;
            header.expires_at = self.now.timeline.saturating_add(micros(policies.ttl));
            header.ttr = micros(policies.ttr);
        }
        let sub = Some(&*header.sub).filter(|sub| !sub.is_empty());
        let (order, sub) = tube.place_of(&Draft::new(header.priority, sub, body), driver)?;
        let mut header = Header { order, sub, ..header };
        let rules = self.rules(to)?;
        // It waits anew there.
        rules.note_ready(shelf, &mut header, rules.now);
        Ok(if shelf == Shelf::Buried { rules.keep_buried(header) } else { header })
    }

    /// Moves the rows of tasks, all or none, and makes the moves visible: the claims on the tasks end,
    /// and takers of the other tube get them.
    fn carry_out_moves(
        &mut self,
        number: TubeNo,
        to: TubeNo,
        tasks: Vec<Move>,
        visibility: Visibility,
    ) -> Result<()> {
        let arrivals = self.atomically_in(&[number, to], |core| {
            let arrivals = tasks.iter().map(|task| core.move_rows(number, to, task));
            arrivals.collect::<Result<Vec<Change>>>()
        })?;
        let mut leaves = Vec::with_capacity(tasks.len());
        for Move { id, found, left, .. } in tasks {
            self.note_freed(number, &left);
            let from = self.remove_from_memory(number, &found, id);
            leaves.push(self.leave(number, id, EventKind::Move, from, left));
            self.occupy(to);
        }
        let buried = arrivals.iter().filter(|arrival| arrival.to == TaskState::Buried).count();
        self.publish_together(|core| {
            for (leave, arrival) in leaves.into_iter().zip(arrivals) {
                core.make_visible(leave, visibility);
                core.make_visible(arrival, visibility);
            }
            // After the last arrival: the rows of all are there, and a task is not forgotten before it
            // has arrived.
            for _ in 0..buried {
                core.trim(to, Shelf::Buried, visibility);
            }
        });
        Ok(())
    }

    /// Moves the rows of a task. Returns its arrival.
    fn move_rows(&mut self, number: TubeNo, to: TubeNo, task: &Move) -> Result<Change> {
        let Move { id, found, contents, header, shelf, .. } = task;
        let (id, shelf, mut header) = (*id, *shelf, header.clone());
        let entry = Entry::new(EventKind::Move, TaskState::on_shelf(shelf));
        let before = Some(&found.record.header);
        let entries = self.add_to_history(to, id, before, &mut header, Some(entry));
        let parents = self.parents_of(number, id, found)?;
        self.move_children(number, id, to)?;
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))?;
        let row = self.edit(to, |ledger| {
            let row = ledger.insert_with(id, shelf, &header, contents)?;
            ledger.write_entries(id, &header, &entries);
            ledger.add_edges(id, &parents);
            Ok(row)
        })?;
        self.tubes.note_stray(to);
        if let Some(tube) = self.tubes.get_mut(to) {
            // It may have been buried before tasks that were forgotten.
            tube.empty_up_to.note_arrival(shelf, (header.order_on(shelf), id));
        }
        let state = TaskState::on_shelf(shelf);
        let arrival = self.change(to, id, EventKind::Move, None, state, Some(header));
        Ok(Change { row: Some(row), ..arrival })
    }

    /// The change with which a task leaves its tube. Its arrival in another one follows.
    pub(super) fn leave(
        &self,
        number: TubeNo,
        id: u64,
        kind: EventKind,
        from: TaskState,
        header: Header,
    ) -> Change {
        let change = self.change(number, id, kind, Some(from), TaskState::Done, Some(header));
        Change { is_intermediate: true, ..change }
    }

    /// A task takes a place of its tube.
    pub(super) fn occupy(&mut self, number: TubeNo) {
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.occupied += 1;
        }
    }

    /// When changes become visible that one call makes in several tubes: as the strongest of their
    /// durabilities demands.
    pub(in crate::core) fn common_visibility(&self, numbers: &[TubeNo]) -> Visibility {
        use Visibility::{Flushed, Memory, Within, Written};
        numbers.iter().map(|number| self.visibility(*number)).fold(Memory, |one, other| {
            match (one, other) {
                (Flushed, _) | (_, Flushed) => Flushed,
                (Memory, other) | (other, Memory) => other,
                (Within(one), Within(other)) => Within(one.min(other)),
                (Written(one), Written(other) | Within(other)) | (Within(other), Written(one)) => {
                    Written(one.min(other))
                }
            }
        })
    }

    fn name_of(&self, number: TubeNo) -> &str {
        self.tubes.get(number).map_or("", |tube| &tube.definition.name)
    }
}

impl TubeState {
    /// Refuses a task of another tube that has an option which the driver does not support.
    fn check_moved(&self, shelf: Shelf, header: &Header) -> Result<()> {
        let traits = self.definition.traits();
        let timed = [
            ("a priority", header.priority != self.definition.policies.priority),
            ("a ttl", header.expires_at != NEVER),
            ("a ttr", header.ttr != NEVER),
            ("a moment", header.not_before().is_some()),
            ("a delay", shelf == Shelf::Delayed || header.ready_at > 0),
        ];
        if let Some((what, _)) = timed.into_iter().find(|(_, has)| *has && !traits.timed) {
            return Err(self.unsupported(what));
        }
        if !traits.sub_queued && !header.sub.is_empty() {
            return Err(self.unsupported("sub-queues"));
        }
        Ok(())
    }
}
