//! The library and the model side by side.

mod checks;
mod lives;
mod room;
mod take;
mod tubes;
mod verbs;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use tubewell::{
    Claim, Durability, Error, ManualClock, Result, Session, SessionId, Store, StoreOptions,
    Subscription, Tube,
};

use super::reference::{Answer, ClaimNo, Mark, Model, SessionNo, Taken, TaskNo, TubeNo, WaitNo};
use super::steps::{Action, Among, NAMES, Pick, SEATS, Setup, Sketch, Step};
use super::words::{agree, duration};
use super::{reference, steps, words};
use room::Putting;
use wait::Waiting;

/// Opens the store of a run, again and again; what it needs for that is gone with it.
pub type Home = Box<dyn Fn(StoreOptions) -> Store>;

pub struct System {
    home: Home,
    clock: ManualClock,
    options: StoreOptions,
    store: Store,
    model: Model,
    relaxed: Vec<bool>,
    /// The tube of each name, if there is one.
    tubes: Vec<Option<TubeNo>>,
    /// Handles of tubes that were dropped.
    dropped: Vec<Tube>,
    /// The first is the store's own session.
    seats: Vec<Seat>,
    /// The library's id of each task that ever was.
    ids: BTreeMap<TaskNo, u64>,
    /// The other way round.
    numbers: BTreeMap<u64, TaskNo>,
    /// In which of the tubes it was put.
    homes: BTreeMap<TaskNo, usize>,
    /// Tasks up to this one have lived through a close.
    reopened: TaskNo,
    claims: BTreeMap<ClaimNo, Held>,
    /// Of all claims that ever were.
    epochs: BTreeSet<u64>,
    waits: BTreeMap<WaitNo, Waiting>,
    puts: BTreeMap<WaitNo, Putting>,
    events: Subscription,
    steps: u64,
    /// After how many steps everything is compared.
    check_every: u64,
}

/// Somebody who opens a session when he needs one.
struct Seat {
    no: SessionNo,
    id: SessionId,
    session: Option<Session>,
}

/// A claim that its holder has as a handle.
struct Held {
    taken: Taken,
    tube: TubeNo,
    session: SessionNo,
    claim: Claim,
}

impl System {
    pub fn new(setup: &Setup, home: Home) -> System {
        System::with(setup, home, Durability::Flush, 5)
    }

    /// Tubes that are not relaxed by themselves are of this durability.
    pub fn with(setup: &Setup, home: Home, durability: Durability, check_every: u64) -> System {
        let clock = ManualClock::new();
        let grace = duration(setup.grace);
        let options = Store::options().clock(&clock).session_grace(grace).durability(durability);
        let store = home(options.clone());
        let mut model = Model::new(setup.grace);
        let seat = |session: Option<Session>| Seat {
            no: model.begin_session(),
            id: session.as_ref().map_or(SessionId::from_bytes([0; 16]), Session::id),
            session,
        };
        let sessions = std::iter::repeat_with(|| Some(store.session())).take(SEATS - 1);
        let seats = std::iter::once(None).chain(sessions).map(seat).collect();
        let mut system = System {
            home,
            clock,
            options,
            events: store.subscribe(1 << 16),
            store,
            model,
            relaxed: setup.tubes.iter().map(|tube| tube.relaxed).collect(),
            tubes: vec![None; setup.tubes.len()],
            dropped: Vec::new(),
            seats,
            ids: BTreeMap::new(),
            numbers: BTreeMap::new(),
            homes: BTreeMap::new(),
            reopened: 0,
            claims: BTreeMap::new(),
            epochs: BTreeSet::new(),
            waits: BTreeMap::new(),
            puts: BTreeMap::new(),
            steps: 0,
            check_every,
        };
        for (tube, definition) in setup.tubes.iter().enumerate() {
            system.create_tube(0, tube, definition, false);
        }
        system.check();
        system
    }

    /// What has happened to tasks until now.
    pub fn marks(&self) -> &BTreeSet<Mark> {
        self.model.marks()
    }

    pub fn step(&mut self, step: Step) {
        self.steps += 1;
        let moved = matches!(step.action, Action::Advance { .. } | Action::Reopen { .. });
        self.act(step.action);
        self.settle();
        self.come_in();
        if !moved {
            self.advance(0);
        }
        if step.look {
            self.look();
        }
        self.check_waits();
        self.check_statistics();
        if moved && self.check_every < 10 || self.steps.is_multiple_of(self.check_every) {
            self.check();
        }
    }

    /// Does what is said, unless what it is about does not exist.
    fn act(&mut self, action: Action) {
        match action {
            Action::Put { seat, tube, draft, deferred } => self.put(seat, tube, &draft, deferred),
            Action::PutWait { seat, tube, draft, timeout } => {
                self.put_wait(seat, tube, &draft, timeout);
            }
            Action::PutMany { seat, tube, drafts } => self.put_many(seat, tube, &drafts),
            Action::PutCrowd { seat, tube, drafts, count } => {
                let mut crowd: Vec<Sketch> = drafts.iter().cycle().take(count).cloned().collect();
                for (n, sketch) in crowd.iter_mut().enumerate().step_by(2) {
                    sketch.sub_queue = Some(format!("{}", n * 7 % 30));
                }
                self.put_many(seat, tube, &crowd);
            }
            Action::Take { seat, tube, keep } => self.take(seat, tube, keep),
            Action::TakeMany { seat, tube, max } => self.take_many(seat, tube, max),
            Action::TakeAny { tubes, keep } => self.take_any(&tubes, keep),
            Action::Wait { seat, tubes, timeout, keep } => self.wait(seat, &tubes, timeout, keep),
            Action::Cancel { wait } => self.cancel(wait),
            Action::ById { seat, pick, verb, deferred } => self.by_id(seat, &pick, verb, deferred),
            Action::AckMany { seat, tube, picks } => self.ack_many(seat, tube, &picks),
            Action::ByClaim { claim, verb } => self.by_claim(claim, verb),
            Action::AckClaims { claims } => self.ack_claims(&claims),
            Action::Kick { tube, count } => {
                self.of_tube(tube, |tube, model, no| (tube.kick(count), model.kick(no, count)));
            }
            Action::ReleaseAll { tube } => {
                self.of_tube(tube, |tube, model, no| (tube.release_all(), model.release_all(no)));
            }
            Action::Truncate { tube } => {
                self.of_tube(tube, |tube, model, no| (tube.truncate(), model.truncate(no)));
            }
            Action::DropTube { tube } => self.drop_tube(tube),
            Action::CreateTube { seat, tube, definition, same, if_not_exists } => {
                self.sit(seat);
                let definition = match self.tubes[tube] {
                    Some(no) if same => self.definition(tube, no),
                    Some(_) => definition,
                    None => {
                        let mut wild = definition.clone();
                        wild.options.pri.get_or_insert(0);
                        wild.options.capacity.get_or_insert(1);
                        if !(definition.driver.timed() && definition.driver.bounded()) {
                            self.create_tube(seat, tube, &wild, if_not_exists);
                        }
                        definition
                    }
                };
                self.create_tube(seat, tube, &definition, if_not_exists);
            }
            Action::UseDroppedTube { tube } => self.use_dropped_tube(tube),
            Action::EndSession { seat } => self.end_session(seat.max(1)),
            Action::LeaveSession { seat } => self.leave_session(seat.max(1)),
            Action::ResumeSession { seat } => self.resume_session(seat.max(1)),
            Action::Advance { by } => {
                let by = self.distance(&by);
                self.advance(by);
            }
            Action::Reopen { away } => self.reopen(&away),
        }
    }

    // ---- who and what

    /// A session for this seat; a new one if the last has ended or was left.
    fn sit(&mut self, seat: usize) -> SessionNo {
        if seat > 0 && self.seats[seat].session.is_none() {
            let session = self.store.session();
            self.seats[seat] =
                Seat { no: self.model.begin_session(), id: session.id(), session: Some(session) };
        }
        self.seats[seat].no
    }

    /// A handle of the tube for this seat, if there is such a tube.
    fn tube(&mut self, seat: usize, tube: usize) -> Option<(Tube, TubeNo, SessionNo)> {
        let session = self.sit(seat);
        let handle = match &self.seats[seat].session {
            Some(session) => session.tube(NAMES[tube]),
            None => self.store.tube(NAMES[tube]),
        };
        match self.tubes[tube] {
            Some(no) => Some((handle.unwrap(), no, session)),
            None => {
                let name = NAMES[tube].to_owned();
                assert_eq!(handle.err(), Some(Error::TubeNotFound { name }));
                None
            }
        }
    }

    /// A verb that concerns all of a tube.
    fn of_tube<T: Debug + PartialEq>(
        &mut self,
        tube: usize,
        verb: impl FnOnce(&Tube, &mut Model, TubeNo) -> (Result<T>, Answer<T>),
    ) {
        if let Some((handle, no, _)) = self.tube(0, tube) {
            let (got, want) = verb(&handle, &mut self.model, no);
            if let Some((got, want)) = agree(got, want) {
                assert_eq!(got, want);
            }
        }
    }

    fn number(&self, id: u64) -> TaskNo {
        *self.numbers.get(&id).unwrap_or_else(|| panic!("nobody put a task {id}"))
    }

    /// The task that is meant, and what the library calls it. There may be none such.
    fn pick(&self, pick: &Pick, tube: TubeNo, session: SessionNo) -> (TaskNo, u64) {
        let tasks = self.model.tasks(tube);
        let held = |task: &reference::Task| task.claim().is_some_and(|(_, who)| who == session);
        let choices: Vec<TaskNo> = match pick.among {
            Among::Held => tasks.filter(|(_, task)| held(task)).map(|(no, _)| no).collect(),
            Among::Living => tasks.map(|(no, _)| no).collect(),
            Among::Known => self.ids.keys().copied().collect(),
        };
        if choices.is_empty() {
            return (0, u64::MAX);
        }
        let no = *pick.index.get(&choices);
        (no, self.ids[&no])
    }
}
