//! Edges: the parents of a put, and those that are added and removed later.

use std::collections::BTreeSet;

use tubewell_drivers::{
    EdgeEnd, Found, Header, More, PAGE_MAX, PARENTS_MAX, Shelf, children, move_parent, parents,
};

use crate::base::tube_no::TubeNo;
use crate::core::claims::{IS_DONE, IS_SCHEDULE};
use crate::core::history::Entry;
use crate::core::state::{Core, Decided, ParentEnd, PutRequest, check_parents};
use crate::core::verb::{Decide, TubeName, TubeRef, verb};
use crate::core::verbs::KeyLookUp;
use crate::{Error, EventKind, Receipt, Result, TaskState};

verb! {
    /// Adds parents, tasks of the tube `of`, to a task that is not taken, buried or done.
    62 InTube Edit: AddParents { id: u64, of: TubeName, parents: Vec<u64> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for AddParents {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let AddParents { id, ref of, parents: ref ids } = *self;
        let of = of.find(core)?;
        check_parents(ids.len())?;
        let found = core.find(number, id)?;
        core.check_may_wait(id, &found)?;
        let mut named = NamedParents::default();
        core.find_open(number, of, ids, &mut named)?;
        // Those that are over change nothing.
        let (mut open, _) = named.counted();
        let buffer = core.buffer_of(number);
        let known = parents(&mut core.buffers[buffer], id, None, usize::MAX)?;
        open.retain(|(parent, _)| known.iter().all(|(other, _)| other != parent));
        if open.is_empty() {
            return Ok(core.unchanged(number, id, found.shelf));
        }
        check_parents(known.len() + open.len())?;
        core.check_no_cycle(number, id, &open)?;
        let mut header = found.record.header.clone();
        header.edit_more(|more| {
            more.open_parents = more.open_parents.saturating_add(count_of(&open));
        });
        let entry = Entry::new(EventKind::Block, TaskState::Blocked);
        let before = Some(&found.record.header);
        let entries = core.add_to_history(number, id, before, &mut header, Some(entry));
        core.edit(number, |ledger| {
            if found.shelf == Shelf::Blocked {
                ledger.rewrite(id, &found, &header);
            } else {
                ledger.move_to_shelf(id, &found, Shelf::Blocked, &header)?;
            }
            ledger.write_entries(id, &header, &entries);
            ledger.add_edges(id, &open);
            Ok(())
        })?;
        let from = core.remove_from_memory(number, &found, id);
        let (kind, to) = (EventKind::Block, TaskState::Blocked);
        let change = core.change(number, id, kind, Some(from), to, Some(header));
        Ok(core.apply_change(number, change))
    }
}

verb! {
    /// Removes these parents of a task, or all.
    63 InTube Edit: RemoveParents { id: u64, parents: Option<Vec<u64>> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for RemoveParents {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let RemoveParents { id, parents: ref ids } = *self;
        let found = core.find(number, id)?;
        let mut removed = core.parents_of(number, id, &found)?;
        removed.retain(|(parent, _)| ids.as_ref().is_none_or(|ids| ids.contains(parent)));
        if removed.is_empty() {
            return Ok(core.unchanged(number, id, found.shelf));
        }
        let from = TaskState::on_shelf(found.shelf);
        let (to, mut header) = core.without_parents(number, &found, count_of(&removed), None)?;
        let kind = EventKind::Unblock;
        let entry = Some(Entry::new(kind, TaskState::on_shelf(to)));
        core.write_without_parents((number, id), &found, to, &mut header, &removed, entry)?;
        let change =
            core.change(number, id, kind, Some(from), TaskState::on_shelf(to), Some(header));
        Ok(core.apply_change(number, change))
    }
}

verb! {
    /// The open parents of a task.
    95 InTube Look: Parents { id: u64 } -> Vec<u64>
}

impl Decide for Parents {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<u64>>> {
        let found = core.find(number, self.id)?;
        let parents = core.parents_of(number, self.id, &found)?;
        Ok(Decided::now(parents.into_iter().map(|(id, _)| id).collect()))
    }
}

verb! {
    /// The first tasks that wait for a task.
    96 InTube Look: Children { id: u64 } -> Vec<u64>
}

impl Decide for Children {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<u64>>> {
        core.find(number, self.id)?;
        let children = core.children_of(number, self.id, PAGE_MAX)?;
        Ok(Decided::now(children.into_iter().map(|(id, _)| id).collect()))
    }
}

/// The tasks that a call names as parents.
#[derive(Debug, Default)]
pub(super) struct NamedParents {
    open: Vec<EdgeEnd>,
    /// Those that were over before.
    over: Vec<u64>,
}

impl NamedParents {
    /// Those that are to be waited for, each once, and how many of the others there are.
    pub(super) fn counted(mut self) -> (Vec<EdgeEnd>, u32) {
        self.open.sort_unstable();
        self.open.dedup_by_key(|(id, _)| *id);
        self.over.sort_unstable();
        self.over.dedup();
        let over = u32::try_from(self.over.len()).unwrap_or(u32::MAX);
        (self.open, over)
    }
}

/// Counts parents for which a task waits no more, since they have ended so; `None`: a call has removed them. A
/// task that waits for no more of them forgets how they have ended, unless its record has a rule for parents
/// anyway: its record is as if it had never waited.
pub(super) fn leave_parents(more: &mut More, count: u32, ended: Option<ParentEnd>) {
    more.open_parents = more.open_parents.saturating_sub(count);
    match ended {
        None => {}
        Some(ParentEnd::Done) => more.done_parents = more.done_parents.saturating_add(count),
        Some(_) => more.failed_parents = more.failed_parents.saturating_add(count),
    }
    if more.open_parents == 0 && more.on_parent == 0 {
        (more.done_parents, more.failed_parents) = (0, 0);
    }
}

impl Core {
    /// The parents of a put that are not over. Counts them in the header of its task.
    pub(in crate::core) fn block(
        &mut self,
        number: TubeNo,
        id: u64,
        request: &PutRequest,
        header: &mut Header,
    ) -> Result<Vec<EdgeEnd>> {
        let Some(after) = request.after.as_deref().filter(|_| !request.is_done()) else {
            return Ok(Vec::new());
        };
        let mut named = NamedParents::default();
        for (name, ids) in &after.parents {
            // A task that goes on or is replaced.
            if id < self.ids.next() && ids.contains(&id) {
                return Err(Error::Cycle { id });
            }
            let of = self.find_tube(name)?.number;
            self.find_open(number, of, ids, &mut named)?;
        }
        for key in &after.keys {
            self.find_open_by_key(number, key, &mut named)?;
        }
        let (open, over) = named.counted();
        self.check_no_cycle(number, id, &open)?;
        header.edit_more(|more| {
            more.open_parents = count_of(&open);
            // A task that does not wait has no progress to tell.
            (more.done_parents, more.failed_parents) = (if open.is_empty() { 0 } else { over }, 0);
            more.on_parent = after.on_parent.number();
        });
        Ok(open)
    }

    /// The first children of a task. Looks nothing up in a tube without edges.
    pub(in crate::core) fn children_of(
        &mut self,
        number: TubeNo,
        id: u64,
        limit: usize,
    ) -> Result<Vec<EdgeEnd>> {
        let Some(tube) = self.tubes.get(number).filter(|tube| tube.counts.edges > 0) else {
            return Ok(Vec::new());
        };
        children(&mut self.buffers[tube.buffer], id, None, limit)
    }

    /// A task of this tube goes on in the tube `to`: the edges to its children name that. A task with
    /// too many children is refused.
    pub(in crate::core) fn move_children(
        &mut self,
        number: TubeNo,
        id: u64,
        to: TubeNo,
    ) -> Result<()> {
        if number == to {
            return Ok(());
        }
        let children = self.children_of(number, id, PARENTS_MAX + 1)?;
        if children.len() > PARENTS_MAX {
            return Err(Error::HasDependents { id, count: children.len() as u64 });
        }
        let space = |number| self.tubes.get(number).map_or(0, |tube| tube.definition.space);
        let (from, to, buffer) = (space(number), space(to), self.buffer_of(number));
        if children.is_empty() {
            return Ok(());
        }
        for (child, _) in &children {
            move_parent(&mut self.buffers[buffer], *child, (id, to));
        }
        let count = i64::try_from(children.len()).unwrap_or(i64::MAX);
        self.count_edges(vec![(from, -count), (to, count)]);
        Ok(())
    }

    /// Refuses to delete a task that others wait for.
    pub(in crate::core) fn check_no_children(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<()> {
        // The children of a task that is done are being freed.
        if found.shelf == Shelf::Done {
            return Ok(());
        }
        match self.children_of(number, id, PAGE_MAX)?.len() as u64 {
            0 => Ok(()),
            count => Err(Error::HasDependents { id, count }),
        }
    }

    /// Shelf and header of a task that waits for `count` parents less, since they have ended so. `None`: a call
    /// has removed them.
    pub(super) fn without_parents(
        &self,
        number: TubeNo,
        found: &Found,
        count: u32,
        ended: Option<ParentEnd>,
    ) -> Result<(Shelf, Header)> {
        let mut header = found.record.header.clone();
        header.edit_more(|more| leave_parents(more, count, ended));
        if found.shelf != Shelf::Blocked || header.open_parents() > 0 {
            return Ok((found.shelf, header));
        }
        if header.ready_at > self.now.timeline {
            return Ok((Shelf::Delayed, header));
        }
        header.ready_at = 0;
        let shelf = self.clocks().gate(Shelf::Blocked, &mut header);
        let rules = self.rules(number)?;
        rules.note_ready(shelf, &mut header, rules.now);
        Ok((shelf, header))
    }

    /// Writes that a task of a tube no longer waits for these parents.
    pub(super) fn write_without_parents(
        &mut self,
        (number, id): (TubeNo, u64),
        found: &Found,
        to: Shelf,
        header: &mut Header,
        removed: &[EdgeEnd],
        entry: Option<Entry<'_>>,
    ) -> Result<()> {
        let entries = self.add_to_history(number, id, Some(&found.record.header), header, entry);
        self.edit(number, |ledger| {
            if to == found.shelf {
                ledger.rewrite(id, found, header);
                ledger.remove_edges(id, removed);
            } else {
                // Removes all edges.
                ledger.move_to_shelf(id, found, to, header)?;
            }
            ledger.write_entries(id, header, &entries);
            Ok(())
        })
    }

    /// Counts edges that were added or removed in the tubes of their parents.
    #[cold]
    pub(in crate::core) fn count_edges(&mut self, changes: Vec<(u32, i64)>) {
        for (space, change) in &changes {
            self.count_edge(*space, *change);
        }
        self.undo.note_edges(changes);
    }

    /// Takes back what `count_edges` has counted.
    pub(in crate::core) fn take_back_edges(&mut self, changes: Vec<(u32, i64)>) {
        for (space, change) in changes {
            self.count_edge(space, -change);
        }
    }

    fn count_edge(&mut self, space: u32, change: i64) {
        // The edges of a space that is purged are not counted.
        let Some(number) = self.tubes.of_space(space) else { return };
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.counts.edges = tube.counts.edges.saturating_add_signed(change);
            self.buffers[tube.buffer].dirty_counts.insert(number);
        }
    }

    /// Finds the task with a key, and adds it to those that are named.
    fn find_open_by_key(
        &mut self,
        number: TubeNo,
        key: &str,
        named: &mut NamedParents,
    ) -> Result<()> {
        let KeyLookUp::Task(keyed) = self.look_up_key(key)? else {
            return Err(Error::KeyNotFound { key: key.to_owned() });
        };
        if self.buffer_of(keyed.number) != self.buffer_of(number) {
            return Err(in_other_buffer());
        }
        #[cfg(feature = "redb")]
        if let Some(over) = self.wait_for_over(keyed.id) {
            named.open.push(over);
            return Ok(());
        }
        if keyed.found.shelf == Shelf::Recurring {
            return Err(is_a_schedule(keyed.id));
        }
        if keyed.found.shelf == Shelf::Done {
            named.over.push(keyed.id);
        } else {
            let space = self.tubes.get(keyed.number).map(|tube| tube.definition.space);
            named.open.extend(space.map(|space| (keyed.id, space)));
        }
        Ok(())
    }

    /// Adds these tasks, of the tube `of` or of one to which they have gone on, to those that are named.
    pub(super) fn find_open(
        &mut self,
        number: TubeNo,
        of: TubeNo,
        ids: &[u64],
        named: &mut NamedParents,
    ) -> Result<()> {
        if self.buffer_of(of) != self.buffer_of(number) {
            return Err(in_other_buffer());
        }
        for id in ids {
            #[cfg(feature = "redb")]
            if let Some(over) = self.wait_for_over(*id) {
                named.open.push(over);
                continue;
            }
            match self.locate(of, *id)? {
                None if *id >= self.ids.next() => return Err(Error::NotFound { id: *id }),
                None | Some((_, Shelf::Done)) => named.over.push(*id),
                Some((_, Shelf::Recurring)) => return Err(is_a_schedule(*id)),
                Some((tube, _)) if self.buffer_of(tube) != self.buffer_of(number) => {
                    return Err(in_other_buffer());
                }
                Some((tube, _)) => {
                    let space = self.tubes.get(tube).map(|tube| tube.definition.space);
                    named.open.extend(space.map(|space| (*id, space)));
                }
            }
        }
        Ok(())
    }

    /// The tube and the shelf of a task: of this tube or, if it is not there, of another one. The tube of
    /// a taken task is known. One that was put into this tube is only in another one if it has moved.
    fn locate(&mut self, of: TubeNo, id: u64) -> Result<Option<(TubeNo, Shelf)>> {
        let of = self.claims.get(id).map_or(of, |claim| claim.tube);
        if let Some(found) = self.edit(of, |ledger| ledger.find(id))? {
            return Ok(Some((of, found.shelf)));
        }
        if id >= self.ids.next() {
            return Ok(None);
        }
        let was_put_here = self.tubes.get(of).is_some_and(|tube| tube.put_ids.contains(id));
        for number in self.other_tubes(of, was_put_here) {
            if let Some(found) = self.edit(number, |ledger| ledger.find(id))? {
                return Ok(Some((number, found.shelf)));
            }
        }
        Ok(None)
    }

    /// The other tubes that have tasks, or only those to which tasks have moved in this run of the store.
    pub(in crate::core) fn other_tubes(
        &self,
        number: TubeNo,
        only_with_strays: bool,
    ) -> Vec<TubeNo> {
        let has_tasks = |other: &TubeNo| {
            self.visit();
            *other != number && self.tubes.get(*other).is_some_and(|tube| tube.counts.stored() > 0)
        };
        if only_with_strays {
            return self.tubes.with_strays().filter(has_tasks).collect();
        }
        self.tubes.names().map(|(_, number)| number).filter(has_tasks).collect()
    }

    pub(in crate::core) fn parents_of(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<Vec<EdgeEnd>> {
        if found.record.header.open_parents() == 0 {
            return Ok(Vec::new());
        }
        let buffer = self.buffer_of(number);
        parents(&mut self.buffers[buffer], id, None, usize::MAX)
    }

    /// Refuses a task that cannot be blocked now.
    fn check_may_wait(&self, id: u64, found: &Found) -> Result<()> {
        let (state, why) = match found.shelf {
            Shelf::Ready => match self.holder_of(id) {
                None => return Ok(()),
                Some(holder) => (TaskState::Taken, holder),
            },
            Shelf::Delayed | Shelf::Blocked => return Ok(()),
            Shelf::Buried => (TaskState::Buried, "it is buried; kick it first".to_owned()),
            Shelf::Done => (TaskState::Done, IS_DONE.to_owned()),
            Shelf::Recurring => (TaskState::Recurring, IS_SCHEDULE.to_owned()),
        };
        Err(Error::NotReady { id, state, why })
    }

    /// Refuses parents that wait for the task, through any number of tasks.
    pub(super) fn check_no_cycle(
        &mut self,
        number: TubeNo,
        id: u64,
        open: &[EdgeEnd],
    ) -> Result<()> {
        let rows = self.buffer_of(number);
        if open.iter().any(|(parent, _)| *parent == id) {
            return Err(Error::Cycle { id });
        }
        if open.is_empty() || children(&mut self.buffers[rows], id, None, 1)?.is_empty() {
            return Ok(());
        }
        let mut above: Vec<u64> = open.iter().map(|(parent, _)| *parent).collect();
        let mut seen: BTreeSet<u64> = above.iter().copied().collect();
        let mut left = PARENTS_MAX;
        while let Some(task) = above.pop() {
            for (parent, _) in parents(&mut self.buffers[rows], task, None, left + 1)? {
                if parent == id {
                    return Err(Error::Cycle { id });
                }
                left = left.checked_sub(1).ok_or_else(too_many_edges)?;
                if seen.insert(parent) {
                    above.push(parent);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn count_of(edges: &[EdgeEnd]) -> u32 {
    u32::try_from(edges.len()).unwrap_or(u32::MAX)
}

fn is_a_schedule(id: u64) -> Error {
    Error::invalid(format!(
        "task {id} is a schedule, which is never done; name one of its runs as the parent"
    ))
}

fn in_other_buffer() -> Error {
    Error::invalid("a task and its parents must be in temporary tubes, or none of them")
}

fn too_many_edges() -> Error {
    Error::invalid(format!(
        "there are more than {PARENTS_MAX} edges above these parents, which is the limit"
    ))
}
