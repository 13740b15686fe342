//! Puts of several tasks with one commit.

use tubewell_drivers::Header;

use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::state::{Core, Decided, PutRequest, TubeState};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::{Receipt, Result};

verb! {
    /// Puts all of these tasks, or none.
    4 InTube Edit: PutMany { requests: Vec<PutRequest> } -> Vec<Receipt> {
        fn may_repeat(&self) -> bool {
            self.requests.iter().all(PutRequest::may_repeat)
        }

        fn refusal_waits(&self) -> bool {
            self.requests.iter().any(PutRequest::has_key)
        }

        fn check(&self, limits: Limits) -> Result<()> {
            PutRequest::check_all(&self.requests, limits.max_body)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(if self.requests.iter().all(PutRequest::is_plain) {
                Operation::Send("put_many")
            } else {
                Operation::Restore("restore_many")
            })
        }

        #[cfg(feature = "tracing")]
        fn puts(&mut self) -> &mut [PutRequest] {
            &mut self.requests
        }
    }
}

impl Decide for PutMany {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<Receipt>>> {
        let PutMany { requests } = self;
        let bytes = requests.iter().map(PutRequest::bytes).sum();
        if requests.is_empty() {
            return Ok(Decided { answer: Vec::new(), wait: None });
        }
        if requests.iter().any(|request| request.has_key() || request.idempotency_key.is_some()) {
            return core.put_many_with_look_ups(number, requests);
        }
        let headers = core.new_headers(number, requests)?;
        let next_id = core.check_ids(requests)?;
        core.check_disk_space(number, bytes, requests.len())?;
        let visibility = core.put_visibility(number, next_id);
        let changes = core.atomically(number, |core| {
            let mut next = core.ids.next();
            let tasks = requests.iter().zip(headers);
            let puts = tasks.map(|(request, header)| {
                let id = request.id.unwrap_or(next);
                next = next.max(id + 1);
                core.insert_task(number, id, request, header)
            });
            puts.collect::<Result<Vec<Change>>>()
        })?;
        for (change, request) in changes.iter().zip(requests) {
            core.note_id(change.id, request.id.is_some());
        }
        let stored: Vec<_> = changes.iter().map(|change| (change.id, change.to)).collect();
        let ended = requests.iter().filter_map(|request| request.restored_as);
        core.publish_together(|core| {
            for change in changes {
                core.make_put_visible(change, visibility);
            }
            for state in ended {
                core.trim(number, state.shelf(), visibility);
            }
        });
        Ok(core.decided(number, visibility, |commit| {
            stored.into_iter().map(|(id, state)| Receipt { id, state, commit }).collect()
        }))
    }
}

impl Core {
    /// Checks the tasks of one call and returns their headers. Edits nothing.
    fn new_headers(&self, number: TubeNo, requests: &[PutRequest]) -> Result<Vec<Header>> {
        let has_waiting = |tube: &TubeState| !tube.waiting_puts.is_empty();
        let full = self.tubes.get(number).filter(|tube| has_waiting(tube)).map(TubeState::full);
        let mut more = 0;
        let headers = requests.iter().map(|request| {
            let header = self.new_header(number, request, Some(more))?;
            more += u64::from(!request.is_done());
            Ok(header)
        });
        let headers = headers.collect::<Result<Vec<Header>>>()?;
        if more > 0 { full.map_or(Ok(headers), Err) } else { Ok(headers) }
    }

    /// Refuses restored ids that this store may have assigned; returns the id that follows these
    /// tasks.
    fn check_ids(&self, requests: &[PutRequest]) -> Result<u64> {
        let mut ids = self.ids.check();
        requests.iter().try_for_each(|request| ids.assign(&self.ids, request.id).map(drop))?;
        Ok(ids.next())
    }
}
