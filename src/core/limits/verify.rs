//! The checks of limits that `verify` makes.

use std::collections::BTreeMap;

use tubewell_drivers::{Reads, Row, Table};

use crate::Result;
use crate::core::catalog::{encode, limit_key, pause_key};
use crate::core::state::{Buffer, Core};

impl Core {
    /// Checks that holders are claims or have an end that is not yet visible, that shared limits count
    /// them, that pauses and limits have their rows, and that alarms are set exactly if takes wait.
    pub(in crate::core) fn check_limits(&mut self, findings: &mut Vec<String>) -> Result<()> {
        self.check_holders(findings);
        self.check_alarms(findings);
        self.check_limit_rows(findings)
    }

    fn check_holders(&self, findings: &mut Vec<String>) {
        let mut shared: BTreeMap<&str, u64> = BTreeMap::new();
        for tube in self.tubes.values() {
            let name = &tube.definition.name;
            for (sub, holders) in &tube.busy {
                let lost = |id: &u64| !self.is_claimed(*id) && !self.publishing.is_invisible(*id);
                for id in holders.ids().into_iter().filter(lost) {
                    findings
                        .push(format!("tube {name:?}: task {id} holds {sub:?} without a claim"));
                }
                if tube.has_shared_limits() {
                    *shared.entry(sub).or_default() += holders.len() as u64;
                }
            }
        }
        let counted = self.gates.limits.taken.iter().map(|(sub, taken)| (&**sub, *taken));
        if !shared.into_iter().eq(counted) {
            findings.push("the shared limits count other tasks than those that are taken".into());
        }
        for sub in self.gates.limits.wrongly_refused() {
            findings.push(format!("a tube waits for the limit {sub:?}, which is not reached"));
        }
    }

    fn check_alarms(&self, findings: &mut Vec<String>) {
        let mut set = 0;
        for (number, tube) in self.tubes.iter() {
            let Some(limits) = &tube.limits else { continue };
            let is_waited_for = tube.has_waiting_takers();
            let openings = is_waited_for.then(|| limits.next_openings(self.now));
            let wanted = openings.unwrap_or_default();
            let alarms = limits.alarms.iter().flatten();
            set += alarms.clone().count();
            let are_set =
                alarms.clone().all(|at| self.gates.sub_queue_alarms.contains(*at, number));
            // Those that are due were not processed yet.
            if !are_set || limits.alarms != wanted && !limits.has_opened(self.now) {
                let name = &tube.definition.name;
                findings.push(format!("tube {name:?}: the alarms of its sub-queues are wrong"));
            }
        }
        if set != self.gates.sub_queue_alarms.len() {
            findings.push("an alarm is set for a sub-queue for which no take waits".into());
        }
    }

    fn check_limit_rows(&mut self, findings: &mut Vec<String>) -> Result<()> {
        let mut expected: Vec<Row> = Vec::new();
        for tube in self.tubes.values() {
            for (sub, until) in tube.limits.iter().flat_map(|limits| limits.pauses()) {
                let key = pause_key(&tube.definition.name, sub);
                expected.push((key, encode(&until)));
            }
        }
        for (name, most) in &self.gates.limits.most {
            expected.push((limit_key(name), encode(most)));
        }
        expected.sort();
        let mut stored = Vec::new();
        for prefix in [b"limit/".as_slice(), b"paused/"] {
            let end = [&prefix[..prefix.len() - 1], b"0"].concat();
            stored.extend(self.buffers[Buffer::File].scan(
                Table::Meta,
                prefix,
                &end,
                usize::MAX,
            )?);
        }
        if stored != expected {
            findings.push("the stored limits and pauses differ from those in memory".into());
        }
        Ok(())
    }
}
