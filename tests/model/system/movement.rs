//! Movement of tasks to other tubes, and what is put with their ends.

use std::collections::BTreeSet;

use tubewell::{Filter, Outcome, Tube};

use super::convert::{agree, agree_on_one, state_of};
use super::outcomes::result_of;
use super::reference::{Finish, Holder, Refusal, TaskNo, TubeNo};
use super::steps::TaskTemplate;
use super::verbs::drop_if_refused;
use super::{HeldClaim, System};

/// More tasks may be moved in several steps, between which other callers are served.
const MOST_MOVED: usize = 200;

impl System {
    pub(super) fn move_to(
        &mut self,
        client: usize,
        (tube, tube_no): (&Tube, TubeNo),
        (no, id): (TaskNo, u64),
        to: usize,
        deferred: bool,
    ) {
        let Some((target, to_no, _)) = self.tube(client, to) else { return };
        let got = if deferred {
            tube.to_async().admin().move_to(&target, id).wait()
        } else {
            tube.admin().move_to(&target, id)
        };
        agree_on_one(got, self.model.move_to(tube_no, no, to_no));
    }

    /// Moves all tasks of a tube. In a tube with sub-queues it is left open which tasks come first:
    /// such a move is made if none is refused.
    pub(super) fn move_all(&mut self, tube: usize, to: usize) {
        let (Some((handle, no, _)), Some((target, to_no, _))) =
            (self.tube(0, tube), self.tube(0, to))
        else {
            return;
        };
        let refusal = self.model.clone().move_all(no, to_no).err();
        let is_open = self.model.tubes()[&no].driver.sub_queued()
            && matches!(refusal, Some(Refusal::Full | Refusal::Unsupported));
        if is_open || self.model.in_order_of_moves(no).len() > MOST_MOVED {
            return;
        }
        if let Some((got, want)) =
            agree(handle.admin().move_to(&target, Filter::new()), self.model.move_all(no, to_no))
        {
            assert_eq!(got, want);
        }
    }

    pub(super) fn finish_task(
        &mut self,
        held: HeldClaim,
        result: Option<usize>,
        puts: &[(usize, TaskTemplate)],
        advance: Option<&(usize, TaskTemplate)>,
        deferred: bool,
    ) {
        let HeldClaim { taken, tube, session, claim } = held;
        let (mut and_put, mut wanted) = (Vec::new(), Finish::default());
        for (extra, (to, template)) in puts.iter().enumerate() {
            let Some((target, to_no, _)) = self.tube(0, *to) else { continue };
            let (put, draft) = self.draft(template, to_no, extra);
            and_put.push((target, put));
            wanted.puts.push((to_no, draft));
        }
        let mut given = Outcome::done();
        if let Some((to, template)) = advance
            && let Some((target, to_no, _)) = self.tube(0, *to)
        {
            // A task that goes on has no token.
            let template = TaskTemplate { token: None, ..template.clone() };
            let (put, draft) = self.draft(&template, to_no, puts.len());
            given = Outcome::advance(&target, put);
            wanted.advance = Some((to_no, draft));
        } else if let Some(size) = result {
            let result = result_of(self.steps, size);
            given = Outcome::result(result.clone());
            wanted.result = Some(result);
        }
        given = and_put.into_iter().fold(given, |given, (target, put)| given.and_put(&target, put));
        let (id, next_id) = (claim.id(), self.store.admin().next_id().unwrap());
        let got = if deferred { claim.into_async().end(given).wait() } else { claim.end(given) };
        let holder = Holder { session, claim: Some(taken.claim) };
        let want = drop_if_refused(&mut self.model, taken, |model| {
            model.finish(tube, taken.task, holder, &wanted)
        });
        if let Some((receipt, (state, puts))) = agree(got, want) {
            assert_eq!((receipt.id, state_of(receipt.state)), (id, state));
            // Other tasks had the keys of some of them.
            let new = puts.into_iter().map(|(no, _)| no);
            let new: BTreeSet<TaskNo> = new.filter(|no| !self.ids.contains_key(no)).collect();
            for (new_id, no) in (next_id..).zip(new) {
                self.record_id(no, new_id);
            }
        }
    }
}
