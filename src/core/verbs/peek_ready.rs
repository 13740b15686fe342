//! What takes would get now. It takes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_drivers::{Header, Shelf};

use super::take::MAX_EXPIRED_PER_TAKE;
use crate::base::tube_no::TubeNo;
use crate::core::state::window::{Rank, ReadUpTo, WindowSlot};
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::values::task::TaskInfo;
use crate::{Error, Result};

/// The maximum number of tasks of one call: fewer than the window has slots.
const PEEK_MAX: usize = 1000;

verb! {
    /// The next tasks that takes would get now, in their order: as many as the gates let through.
    94 InTube Look: PeekReady { count: usize } -> Vec<TaskInfo>
}

impl Decide for PeekReady {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<TaskInfo>>> {
        core.peek_ready(number, self.count).map(Decided::now)
    }
}

impl Core {
    fn peek_ready(&mut self, number: TubeNo, count: usize) -> Result<Vec<TaskInfo>> {
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        tube.driver(|| self.tubes.known_drivers())?;
        if !self.open_gates(number, &mut { MAX_EXPIRED_PER_TAKE })? {
            return Ok(Vec::new());
        }
        let count = self.takes_allowed(number, count.min(PEEK_MAX));
        let (mut tasks, mut after) = (Vec::new(), None);
        // The next tasks of sub-queues whose first one a take would remove or bury.
        let mut seconds = BTreeMap::new();
        let mut left = MAX_EXPIRED_PER_TAKE;
        while tasks.len() < count {
            let next = self.next_takeable(number, after)?;
            let second = seconds.first_key_value().map(|(rank, _): (&Rank, &Arc<str>)| *rank);
            let (rank, header) = match next {
                Some((rank, header)) if second.is_none_or(|second| rank < second) => {
                    after = Some(rank);
                    (rank, header)
                }
                _ => {
                    let Some((rank, sub)) = seconds.pop_first() else { break };
                    (rank, self.read_ready(number, rank, &sub)?.map(|entry| entry.header))
                }
            };
            let Some(header) = header else { continue };
            if header.expires_at > self.now.timeline && !self.is_spent(number, &header) {
                tasks.push(self.describe_for_page(number, rank.1, Shelf::Ready, &header)?);
            } else if self.is_sub_queued(number) && left > 0 {
                left -= 1;
                let (next, _) = self.next_of_sub(number, &header.sub, Some(rank))?;
                seconds.extend(next.map(|next| (next, header.sub.clone())));
            }
        }
        Ok(tasks)
    }

    fn is_sub_queued(&self, number: TubeNo) -> bool {
        self.tubes.get(number).is_some_and(|tube| tube.definition.sub_queued)
    }

    /// How many takes the limit of taken tasks and the rate of a tube let through now, up to `most`.
    fn takes_allowed(&self, number: TubeNo, most: usize) -> usize {
        let Some(tube) = self.tubes.get(number) else { return 0 };
        let free = tube
            .definition
            .policies
            .max_taken
            .map_or(u64::MAX, |limit| limit.saturating_sub(tube.visible.tasks.taken));
        let most = most.min(usize::try_from(free).unwrap_or(usize::MAX));
        let Some(mut rate) = tube.gates.rate.clone() else { return most };
        let now = self.now.running;
        let has_token = |_: &usize| {
            let is_open = rate.opens_at(now) <= now;
            if is_open {
                rate.take(now);
            }
            is_open
        };
        (0..most).take_while(has_token).count()
    }

    /// The next task in the window after a rank, which is read on as needed. The header is missing if the
    /// task is damaged.
    fn next_takeable(
        &mut self,
        number: TubeNo,
        mut after: Option<Rank>,
    ) -> Result<Option<(Rank, Option<Header>)>> {
        loop {
            let Some(tube) = self.tubes.get(number) else { return Ok(None) };
            match tube.window.next_after(after) {
                // A take in another tube has reached the limit that both share.
                Some((rank, slot))
                    if tube.has_shared_limits() && self.is_sub_queue_shut(tube, slot.sub()) =>
                {
                    after = Some(rank);
                    continue;
                }
                Some((rank, WindowSlot::Read(entry))) => {
                    return Ok(Some((rank, Some(entry.header.clone()))));
                }
                Some((rank, WindowSlot::Unread(sub))) => {
                    let sub = sub.clone();
                    let entry = self.read_ready(number, rank, &sub)?;
                    return Ok(Some((rank, entry.map(|entry| entry.header))));
                }
                None => {}
            }
            let read_up_to = tube.window.read_up_to();
            if read_up_to == ReadUpTo::End {
                return Ok(None);
            }
            self.refill(number)?;
            let tube = self.tubes.get(number);
            if tube.is_none_or(|tube| tube.window.read_up_to() == read_up_to) {
                // The window is full of tasks that no take gets.
                return Ok(None);
            }
        }
    }
}
