//! What is put, and what is done with tasks.

use tubewell::{Claim, Put, Receipt, WhenFull};

use super::reference::{ClaimNo, Draft, Holder, Refusal, State, TaskNo, TubeNo};
use super::steps::{Among, ByClaim, ById, Choice, Pick, Sketch};
use super::words::{
    agree, agree_on_receipt, agree_on_receipts, agree_on_touch, duration, state_of, twice_refused,
};
use super::{Held, System};

impl System {
    /// What is put, in the words of both. `extra` keeps the bodies of one step apart.
    pub(super) fn draft(&self, sketch: &Sketch, tube: TubeNo, extra: usize) -> (Put, Draft) {
        let driver = self.model.tubes()[&tube].driver;
        let (timed, sub_queued) =
            (sketch.wild || driver.timed(), sketch.wild || driver.sub_queued());
        let mut data = format!("{}.{extra}", self.steps).into_bytes();
        data.resize(sketch.size, b'-');
        let draft = Draft {
            data,
            pri: sketch.pri.filter(|_| timed),
            ttl: sketch.ttl.filter(|_| timed),
            ttr: sketch.ttr.filter(|_| timed),
            delay: if timed { sketch.delay } else { 0 },
            sub_queue: sketch.sub_queue.clone().filter(|_| sub_queued),
        };
        let mut put = Put::new(draft.data.clone()).delay(duration(draft.delay));
        if let Some(pri) = draft.pri {
            put = put.pri(pri);
        }
        if let Some(ttl) = draft.ttl {
            put = put.ttl(duration(ttl));
        }
        if let Some(ttr) = draft.ttr {
            put = put.ttr(duration(ttr));
        }
        if let Some(name) = &draft.sub_queue {
            put = put.sub_queue(name.as_str());
        }
        (put, draft)
    }

    pub(super) fn put(&mut self, seat: usize, tube: usize, sketch: &Sketch, deferred: bool) {
        let Some((handle, no, _)) = self.tube(seat, tube) else { return };
        let (put, draft) = self.draft(sketch, no, 0);
        let got = if deferred {
            handle.deferred(WhenFull::Block).put(put).and_then(tubewell::Ticket::wait)
        } else {
            handle.put(put)
        };
        let want = self.model.put(no, &draft);
        if !twice_refused(&got, &want)
            && let Some((receipt, placed)) = agree(got, want)
        {
            self.learn(tube, receipt, placed);
        }
    }

    pub(super) fn put_many(&mut self, seat: usize, tube: usize, sketches: &[Sketch]) {
        let Some((handle, no, _)) = self.tube(seat, tube) else { return };
        let drafts = sketches.iter().enumerate();
        let drafts = drafts.map(|(extra, sketch)| self.draft(sketch, no, extra));
        let (puts, drafts): (Vec<Put>, Vec<Draft>) = drafts.unzip();
        let (got, want) = (handle.put_many(puts), self.model.put_many(no, &drafts));
        if !twice_refused(&got, &want)
            && let Some((receipts, placed)) = agree(got, want)
        {
            assert_eq!(receipts.len(), placed.len());
            for (receipt, placed) in receipts.into_iter().zip(placed) {
                self.learn(tube, receipt, placed);
            }
        }
    }

    /// Ids grow and are never used again, in none of the store's lives.
    fn learn(&mut self, tube: usize, receipt: Receipt, (no, state): (TaskNo, State)) {
        assert_eq!(state_of(receipt.state), state);
        if let Some((before, id)) = self.ids.last_key_value() {
            assert!(*before < no && *id < receipt.id, "id {} after {id}", receipt.id);
        }
        self.ids.insert(no, receipt.id);
        self.numbers.insert(receipt.id, no);
        self.homes.insert(no, tube);
    }

    pub(super) fn by_id(&mut self, seat: usize, pick: &Pick, verb: ById, deferred: bool) {
        let Some((tube, tube_no, session)) = self.tube(seat, pick.tube) else { return };
        let mut pick = pick.clone();
        if matches!(verb, ById::Bury | ById::Delete | ById::Peek) {
            // These are for all.
            pick.among = if deferred { pick.among } else { Among::Living };
        }
        let (no, id) = self.pick(&pick, tube_no, session);
        let (model, holder) = (&mut self.model, Holder { session, claim: None });
        let later = tube.deferred(WhenFull::Block);
        let wait = tubewell::Ticket::wait;
        let (got, want) = match verb {
            ById::Ack if deferred => (later.ack(id).and_then(wait), model.ack(tube_no, no, holder)),
            ById::Ack => (tube.ack(id), model.ack(tube_no, no, holder)),
            ById::Release { delay } => {
                let want = model.release(tube_no, no, holder, delay);
                let delay = duration(delay);
                let got = if deferred {
                    later.release(id, delay).and_then(wait)
                } else {
                    tube.release(id, delay)
                };
                (got, want)
            }
            ById::Bury if deferred => (later.bury(id).and_then(wait), model.bury(tube_no, no)),
            ById::Bury => (tube.bury(id), model.bury(tube_no, no)),
            ById::Delete if deferred => {
                (later.delete(id).and_then(wait), model.delete(tube_no, no))
            }
            ById::Delete => (tube.delete(id), model.delete(tube_no, no)),
            ById::Touch { by } => {
                let got = tube.touch(id, duration(by));
                return agree_on_touch(got, model.touch(tube_no, no, holder, by), id);
            }
            ById::Renew { hold } => {
                let want = model.renew(tube_no, no, holder, hold);
                agree(tube.renew(id, duration(hold)), want);
                return;
            }
            ById::Peek => {
                if let Some((got, want)) = agree(tube.peek(id), self.model.peek(tube_no, no)) {
                    assert_eq!(got.data, want.data);
                    assert_eq!(self.seen(&got.info), self.should_see(no, want));
                }
                return;
            }
        };
        agree_on_receipt(got, want, id);
    }

    pub(super) fn ack_many(&mut self, seat: usize, tube: usize, picks: &[Pick]) {
        let Some((tube, tube_no, session)) = self.tube(seat, tube) else { return };
        let picked = picks.iter().map(|pick| self.pick(pick, tube_no, session));
        let picked: Vec<(TaskNo, u64)> = picked.collect();
        let ids: Vec<u64> = picked.iter().map(|(_, id)| *id).collect();
        let holder = Holder { session, claim: None };
        let held: Vec<_> = picked.iter().map(|(no, _)| (tube_no, *no, holder)).collect();
        agree_on_receipts(tube.ack_many(&ids), self.model.ack_many(&held), &ids);
    }

    pub(super) fn by_claim(&mut self, claim: Choice, verb: ByClaim) {
        if self.claims.is_empty() {
            return;
        }
        let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
        let Held { taken, tube, session, claim } = self.claims.remove(claim.get(&numbers)).unwrap();
        let holder = Holder { session, claim: Some(taken.claim) };
        let (id, no) = (claim.id(), taken.task);
        let model = &mut self.model;
        let (got, want) = match verb {
            ByClaim::Ack { deferred: false } => (claim.ack(), model.ack(tube, no, holder)),
            ByClaim::Ack { deferred: true } => {
                let ticket = claim.ack_deferred(WhenFull::Block);
                (ticket.and_then(tubewell::Ticket::wait), model.ack(tube, no, holder))
            }
            ByClaim::Release { delay } => {
                let got = claim.release(duration(delay));
                let want = model.release(tube, no, holder, delay);
                if want == Err(Refusal::Unsupported) {
                    // The handle is gone, and what it held is let go.
                    model.drop_claim(taken);
                }
                (got, want)
            }
            ByClaim::Bury => (claim.bury(), model.bury_held(tube, no, holder)),
            ByClaim::Touch { by } => {
                agree_on_touch(claim.touch(duration(by)), model.touch(tube, no, holder, by), id);
                self.claims.insert(taken.claim, Held { taken, tube, session, claim });
                return;
            }
            ByClaim::Renew { hold } => {
                agree(claim.renew(duration(hold)), model.renew(tube, no, holder, hold));
                self.claims.insert(taken.claim, Held { taken, tube, session, claim });
                return;
            }
            ByClaim::Drop => {
                drop(claim);
                return model.drop_claim(taken);
            }
            ByClaim::Detach => {
                assert_eq!(claim.detach().info.id, id);
                return;
            }
        };
        agree_on_receipt(got, want, id);
    }

    pub(super) fn ack_claims(&mut self, claims: &[Choice]) {
        let (mut ids, mut held, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for index in claims {
            let numbers: Vec<ClaimNo> = self.claims.keys().copied().collect();
            if !numbers.is_empty()
                && let Some(one) = self.claims.remove(index.get(&numbers))
            {
                ids.push(one.claim.id());
                let holder = Holder { session: one.session, claim: Some(one.taken.claim) };
                held.push((one.tube, one.taken.task, holder));
                handles.push(one.claim);
            }
        }
        agree_on_receipts(Claim::ack_many(handles), self.model.ack_many(&held), &ids);
    }
}
