//! Time, and the lives of the store.

use tubewell::{Error, Store};

use super::reference::{Micros, Ties};
use super::steps::Move;
use super::words::duration;
use super::{Seat, System};

impl System {
    pub(super) fn distance(&self, way: &Move) -> Micros {
        match way {
            Move::By(by) => *by,
            Move::ToDue { nth, offset } => {
                let moment = self.model.moments().into_iter().nth(*nth);
                let moment = moment.and_then(|moment| moment.checked_add_signed(*offset));
                moment.map_or(0, |moment| moment.saturating_sub(self.model.now()))
            }
        }
    }

    /// Moves both clocks. While somebody waits, one moment at a time: who is given a task and loses
    /// it again before he looks may get a stale claim or go on waiting, see [`System::poll`]; and
    /// what is let in has to be there before time goes on.
    pub(super) fn advance(&mut self, by: Micros) {
        let target = self.model.now().saturating_add(by);
        while !(self.waits.is_empty() && self.puts.is_empty())
            && let Some(moment) = self.next_moment().filter(|moment| *moment < target)
        {
            self.advance_at_once(moment - self.model.now());
        }
        self.advance_at_once(target - self.model.now());
    }

    fn next_moment(&self) -> Option<Micros> {
        let now = self.model.now();
        self.model.moments().into_iter().find(|moment| *moment > now)
    }

    /// If the outcome depends on the order of things that fall due at one
    /// moment, the model follows the library, provided that some order leads there.
    fn advance_at_once(&mut self, by: Micros) {
        let target = self.model.now().saturating_add(by);
        let falls_due = self.model.moments().first().is_some_and(|moment| *moment <= target);
        if !falls_due {
            self.clock.advance(duration(by));
            return self.model.advance(by, Ties::default());
        }
        self.look();
        self.clock.advance(duration(by));
        self.settle_at_this_moment();
        for waiting in self.waits.values_mut() {
            waiting.look();
        }
        let before = self.model.clone();
        for ties in [Ties::default()].into_iter().chain(Ties::all()) {
            self.model = before.clone();
            self.model.advance(by, ties);
            let learned = self.learn_who_came_in();
            if self.differences().is_continue() {
                self.come_in();
                return self.fetch();
            }
            self.unlearn(&learned);
        }
        self.model = before;
        self.model.advance(by, Ties::default());
        let differences = self.differences();
        panic!("no order of what falls due leads there; with the usual one: {differences:#?}");
    }

    pub(super) fn reopen(&mut self, away: &Move) {
        self.look();
        let away = self.distance(away);
        self.store.close().unwrap();
        self.model.close();
        self.look();
        self.settle();
        self.come_in();
        for (at, held) in std::mem::take(&mut self.claims).into_values().enumerate() {
            if at % 2 == 0 {
                assert_eq!(held.claim.ack(), Err(Error::Closed));
            }
        }
        if let Some(tube) = self.dropped.pop() {
            assert_eq!(tube.put("too late"), Err(Error::Closed));
        }
        self.dropped.clear();
        for seat in &mut self.seats {
            seat.session = None;
        }
        // The last handle lets go of the file, and the new store gets it at once.
        let nothing = Store::in_memory().unwrap();
        self.events = nothing.subscribe(1);
        self.store = nothing;
        self.clock.advance(duration(away));
        self.store = (self.home)(self.options.clone());

        self.model.reopen(away);
        self.reopened = self.ids.last_key_value().map_or(0, |(no, _)| *no);
        self.seats[0] =
            Seat { no: self.model.begin_session(), id: self.store.session().id(), session: None };
        self.advance(0);
        self.model.events();
        self.events = self.store.subscribe(1 << 16);
        for tube in self.tubes.clone().into_iter().flatten() {
            self.check_bodies(tube);
        }
    }
}
