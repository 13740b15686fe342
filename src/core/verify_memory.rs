//! The part of `verify` that checks the state in memory: temporary tubes, claims, waits and counts.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use tubewell_drivers::{Reads, Shelf, Table, TubeTotals, keys, position_of, verify_rows};

use crate::base::tube_no::TubeNo;
use crate::core::state::window::ReadUpTo;
use crate::core::state::{Buffer, Core, PerBuffer, TubeState, WatchKey};
use crate::{Error, Result};

impl Core {
    /// Checks the rows of the temporary tubes, and the claims, waits and counts of all tubes.
    /// Returns one sentence for each finding.
    pub(crate) fn verify_memory(&mut self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        if self.buffers[Buffer::Memory].engine().is_some() {
            let ledger: Vec<TubeTotals> = self
                .tubes
                .values()
                .filter(|tube| tube.buffer == Buffer::Memory)
                .map(TubeState::ledger)
                .collect();
            let purges = self.purges(Buffer::Memory);
            findings =
                verify_rows(&mut self.buffers[Buffer::Memory], &ledger, &purges, &mut |_| {
                    ControlFlow::Continue(())
                })?;
        }
        self.check_claims(&mut findings)?;
        self.check_claim_rows(&mut findings)?;
        self.check_keys(&mut findings)?;
        self.check_tubes(&mut findings);
        self.check_waiting_takes(&mut findings)?;
        self.check_gates(&mut findings);
        self.check_limits(&mut findings)?;
        self.check_empty_up_to(&mut findings)?;
        self.check_watches(&mut findings);
        self.check_session_waits(&mut findings);
        self.check_origins(&mut findings);
        self.check_days(&mut findings);
        Ok(findings)
    }

    /// Checks that every claim is on a stored ready task, is listed in its tube and its session,
    /// is a holder of its sub-queue, and is found by its end if it is parked.
    fn check_claims(&mut self, findings: &mut Vec<String>) -> Result<()> {
        if !self.claims.are_found_by_end() {
            findings.push("the parked claims are not found by their ends".into());
        }
        let claims: Vec<_> = self.claims.iter().map(|(id, claim)| (id, claim.clone())).collect();
        for (id, claim) in claims {
            let position = position_of(id, Shelf::Ready, &claim.header);
            if self.edit(claim.tube, |ledger| ledger.at(&position))?.is_none() {
                findings.push(format!("task {id} is claimed but not stored as ready"));
            }
            let Some(tube) = self.tubes.get(claim.tube) else {
                findings.push(format!("task {id} is claimed in a tube that does not exist"));
                continue;
            };
            if !tube.taken.contains(&(claim.header.order, id)) {
                findings.push(format!(
                    "tube {:?}: claimed task {id} is not listed as taken",
                    tube.definition.name
                ));
            }
            let holders = tube.busy.get(&claim.header.sub);
            if tube.definition.sub_queued && !holders.is_some_and(|held| held.contains(id)) {
                findings.push(format!(
                    "tube {:?}: claimed task {id} does not occupy its sub-queue",
                    tube.definition.name
                ));
            }
            if claim.parked_until().is_none()
                && self
                    .sessions
                    .get(claim.session)
                    .is_none_or(|session| !session.claims.contains(&id))
            {
                findings.push(format!("task {id} is not listed in the session that claims it"));
            }
        }
        Ok(())
    }

    /// Checks that the claims that were counted or parked, and no others, have a row.
    fn check_claim_rows(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let mut expected: PerBuffer<BTreeSet<Vec<u8>>> = PerBuffer::default();
        for (id, claim) in self.claims.iter().filter(|(_, claim)| claim.has_row()) {
            if let Some(tube) = self.tubes.get(claim.tube) {
                expected[tube.buffer].insert(keys::by_id(tube.definition.space, id));
            }
        }
        for buffer in Buffer::ALL {
            let expected = &mut expected[buffer];
            if self.buffers[buffer].engine().is_none() {
                continue;
            }
            let rows = self.buffers[buffer].scan(Table::Claims, &[], &[u8::MAX; 13], usize::MAX)?;
            let purges = self.purges(buffer);
            for (key, _) in rows {
                let is_purged = keys::space_of(&key).is_some_and(|space| purges.contains(&space));
                if !expected.remove(&key) && !is_purged {
                    let id = keys::id_of(&key).unwrap_or_default();
                    findings.push(format!("a row of \"claims\" has no claim on task {id}"));
                }
            }
            for key in &*expected {
                let id = keys::id_of(key).unwrap_or_default();
                findings.push(format!("the claim on task {id} has no row"));
            }
        }
        Ok(())
    }

    /// Checks that no task in a temporary tube has the key of a task in the file. Each key has one
    /// row in the rows of either.
    fn check_keys(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let mut from = vec![keys::KEY];
        while self.buffers[Buffer::Memory].engine().is_some() {
            let end = keys::end_of(&[keys::KEY]);
            let rows = self.buffers[Buffer::Memory].scan(Table::Index, &from, &end, 1024)?;
            let Some((last, _)) = rows.last() else { break };
            from = keys::after(last);
            for (_, value) in rows {
                let Some(key) = self.key_of_row(&value)? else { continue };
                let tasks = self.tasks_with_key(&key)?;
                if tasks.len() > 1 {
                    findings.push(format!("tasks {tasks:?} have the same key {key:?}"));
                }
            }
        }
        Ok(())
    }

    fn check_tubes(&self, findings: &mut Vec<String>) {
        for (number, tube) in self.tubes.iter() {
            let of_tube = || self.claims.values().filter(|claim| claim.tube == number);
            let (claims, overdue) =
                (of_tube().count(), of_tube().filter(|it| it.is_overdue).count());
            let mut report =
                |what: &str| findings.push(format!("tube {:?}: {what}", tube.definition.name));
            if claims != tube.taken.len() {
                report("the number of taken tasks differs from the number of claims");
            }
            if tube.visible.tasks.overdue != overdue as u64 {
                report("the number of overdue tasks differs from the number of overdue claims");
            }
            // The counts may differ by changes that are not yet visible.
            let (visible, stored) = (&tube.visible.tasks, &tube.counts);
            let same = visible.ready + visible.taken == stored.ready
                && visible.delayed == stored.delayed
                && visible.blocked == stored.blocked
                && visible.buried == stored.buried
                && visible.kept == stored.done
                && visible.recurring == stored.recurring
                && visible.total == tube.occupied
                && visible.taken == tube.taken.len() as u64;
            if self.publishing.is_all_visible() && !same {
                report("the statistics differ from the counts of the stored tasks");
            }
        }
    }

    /// Checks that no take waits for a tube with a takeable task and no shut gate.
    fn check_waiting_takes(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let now = self.now;
        let is_waited_for = |tube: &TubeState| {
            let is_due = tube.alarm_is_due(now)
                || tube.limits.as_ref().is_some_and(|limits| limits.has_opened(now));
            tube.has_waiting_takers() && !tube.is_shut(now) && !is_due
        };
        let waited_for = self.tubes.iter().filter(|(_, tube)| is_waited_for(tube));
        for number in waited_for.map(|(number, _)| number).collect::<Vec<_>>() {
            if self.has_takeable(number)? {
                let name = self.head(number).name;
                findings.push(format!(
                    "tube {name:?}: a caller waits although there is a takeable task"
                ));
            }
        }
        Ok(())
    }

    /// Whether a tube has a takeable task, gates ignored.
    fn has_takeable(&mut self, number: TubeNo) -> Result<bool> {
        loop {
            let Some(tube) = self.tubes.get(number) else { return Ok(false) };
            let shared = tube.has_shared_limits();
            let mut after = None;
            while let Some((rank, slot)) = tube.window.next_after(after) {
                // A slot whose shared limit was reached in another tube stays until a take meets it.
                if !(shared && self.is_sub_queue_shut(tube, slot.sub())) {
                    return Ok(true);
                }
                after = Some(rank);
            }
            if tube.window.read_up_to() == ReadUpTo::End {
                return Ok(false);
            }
            self.refill(number)?;
        }
    }

    /// Checks that there is no task up to the rank up to which a shelf is known to be empty.
    fn check_empty_up_to(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let known = self.tubes.iter().map(|(number, tube)| (number, tube.empty_up_to));
        for (number, known) in known.collect::<Vec<_>>() {
            for (shelf, rank) in [(Shelf::Done, known.done), (Shelf::Buried, known.buried)] {
                let Some(rank) = rank else { continue };
                let first = self.edit(number, |ledger| ledger.undamaged(shelf, None, 1))?.pop();
                if let Some((id, found)) = first
                    && (found.record.header.order_on(shelf), id) <= rank
                {
                    findings.push(format!("task {id} is on a part of its shelf that is empty"));
                }
            }
        }
        Ok(())
    }

    /// Checks that every watch waits for something that is still to come, and that the endings to
    /// answer with belong to changes that are not yet visible.
    fn check_watches(&mut self, findings: &mut Vec<String>) {
        for id in
            self.waits.watches.tasks_with_endings().filter(|id| !self.publishing.is_invisible(*id))
        {
            findings.push(format!("the ending of task {id} is kept although it is visible"));
        }
        if !self.waits.watches.are_found_by_tube() {
            findings.push("the waits for tasks are not those of their tubes".into());
        }
        let watches: Vec<(WatchKey, TubeNo)> =
            self.waits.watches.iter().map(|(key, watch)| (key, watch.tube)).collect();
        for (key, tube) in watches {
            match key {
                WatchKey::Task(id, _) if self.publishing.is_invisible(id) => {}
                // A damaged record is reported with the rows.
                WatchKey::Task(id, _) => match self.ending_of(tube, id) {
                    Ok(None) | Err(Error::Corrupt { .. }) => {}
                    _ => findings.push(format!(
                        "a caller waits for the end of task {id}, which is over or does not exist"
                    )),
                },
                WatchKey::Tube(number, _) if self.is_drained(number) => {
                    findings
                        .push(format!("a caller waits for tube {}, which is drained", number.0));
                }
                WatchKey::Tube(..) | WatchKey::Ready(..) => {}
            }
        }
    }
}

impl TubeState {
    fn ledger(&self) -> TubeTotals {
        TubeTotals {
            name: self.definition.name.clone(),
            space: self.definition.space,
            sub_queued: self.definition.sub_queued,
            counts: self.counts,
        }
    }
}
