//! Whether what memory holds agrees with itself.

use tubewell_drivers::{Shelf, TubeTotals, position_of, verify_rows};

use crate::Result;
use crate::core::state::{Core, MEMORY, TubeState};
use crate::statistics::TubeInfo;

impl Core {
    /// Audits the temporary tubes, and the claims, waits and numbers of all. One sentence for
    /// each defect.
    pub(crate) fn verify_memory(&mut self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        if self.buffers[MEMORY].engine().is_some() {
            let ledger: Vec<TubeTotals> = self
                .tubes
                .values()
                .filter(|tube| tube.buffer == MEMORY)
                .map(TubeState::ledger)
                .collect();
            let purges = self.purges(MEMORY);
            findings = verify_rows(&mut self.buffers[MEMORY], &ledger, &purges, &mut |_| {})?;
        }
        self.check_claims(&mut findings)?;
        self.check_tubes(&mut findings);
        Ok(findings)
    }

    /// Every claim is on a ready task, known to its tube and its session, alone in its sub-queue.
    fn check_claims(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let claims: Vec<_> = self.claims.iter().map(|(id, claim)| (*id, claim.clone())).collect();
        for (id, claim) in claims {
            let position = position_of(id, Shelf::Ready, &claim.header);
            if self.edit(claim.tube, |ledger| ledger.at(&position))?.is_none() {
                findings.push(format!("task {id} is claimed but not stored as ready"));
            }
            let Some(tube) = self.tubes.get(&claim.tube) else {
                findings.push(format!("task {id} is claimed in a tube that is gone"));
                continue;
            };
            if !tube.taken.contains(&(claim.header.order, id)) {
                findings.push(format!(
                    "tube {:?}: claimed task {id} is not among the taken",
                    tube.definition.name
                ));
            }
            if tube.definition.sub_queued && tube.busy.get(&claim.header.sub) != Some(&id) {
                findings.push(format!(
                    "tube {:?}: the sub-queue of claimed task {id} is not held by it",
                    tube.definition.name
                ));
            }
            if self.sessions.get(&claim.session).is_none_or(|session| !session.claims.contains(&id))
            {
                findings.push(format!("task {id} is claimed by a session that does not know it"));
            }
        }
        Ok(())
    }

    fn check_tubes(&self, findings: &mut Vec<String>) {
        for (number, tube) in &self.tubes {
            let claims = self.claims.values().filter(|claim| claim.tube == *number).count();
            let mut say =
                |what: &str| findings.push(format!("tube {:?}: {what}", tube.definition.name));
            if claims != tube.taken.len() {
                say("the taken tasks are not those that are claimed");
            }
            if !tube.waiting_takes.is_empty() && tube.window.best().is_some() {
                say("somebody waits although there is a task");
            }
            // What is not yet visible makes the two kinds of counts differ.
            let (seen, stored) = (&tube.visible.tasks, &tube.counts);
            let same = seen.ready + seen.taken == stored.ready
                && seen.delayed == stored.delayed
                && seen.buried == stored.buried
                && seen.total == tube.places
                && seen.taken == tube.taken.len() as u64;
            if self.invisible.is_empty() && !same {
                say("the statistics are not those of the stored tasks");
            }
        }
    }

    pub(crate) fn tube_infos(&self) -> Vec<TubeInfo> {
        self.names
            .values()
            .filter_map(|number| self.tubes.get(number))
            .map(TubeState::info)
            .collect()
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

    fn info(&self) -> TubeInfo {
        TubeInfo {
            waiting: self.waiting_takes.len() as u64,
            waiting_puts: self.waiting_puts.len() as u64,
            ..self.definition.info(self.driver.is_some())
        }
    }
}
