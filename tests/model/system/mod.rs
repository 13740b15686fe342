//! The system under test: a store of the library and its reference model, with all comparisons.

mod checks;
mod conditions;
mod durable_steps;
mod edits;
mod history;
mod keys;
mod labels;
mod movement;
mod outcomes;
mod parents;
mod park;
mod put_wait;
mod reads;
mod restore;
mod schedules;
mod take;
mod take_wait;
mod time;
mod tubes;
mod verbs;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use tubewell::expert::Date;
use tubewell::{
    Claim, Durability, Error, Events, Filter, Result, Session, SessionId, Store, StoreOptions, Tube,
};

use super::convert::{agree, duration};
use super::reference::{
    Answer, ClaimNo, Model, SessionNo, Stage, Taken, TaskNo, Transition, TubeNo, WaitNo,
};
use super::steps::{Action, Among, CLIENTS, Pick, Setup, Step, TUBE_NAMES, TaskTemplate};
use super::stores::ManualClock;
use super::{convert, options, reference, steps, stores};
use park::ParkedClaim;
use put_wait::WaitingPut;
use take_wait::WaitingTake;
use watches::WaitingForEnd;

/// Opens and reopens the store of a run. It owns the resources that this needs.
pub type OpenStore = Box<dyn StorePlace>;

/// Where the store of a run is.
pub trait StorePlace {
    fn open(&self, options: StoreOptions) -> Store;

    /// Makes the next open find the store as it is now, while it is open: as if its process had
    /// been killed.
    fn kill(&self) {
        panic!("a store can be killed in a file only");
    }
}

impl<F: Fn(StoreOptions) -> Store> StorePlace for F {
    fn open(&self, options: StoreOptions) -> Store {
        self(options)
    }
}

pub struct System {
    open_store: OpenStore,
    clock: ManualClock,
    options: StoreOptions,
    store: Store,
    model: Model,
    /// The durability of each tube that has one of its own.
    durability: Vec<Option<Durability>>,
    /// The tube of each name, if it exists.
    tubes: Vec<Option<TubeNo>>,
    /// Handles of dropped tubes.
    dropped: Vec<Tube>,
    /// Client 0 uses the store's own session.
    clients: Vec<Client>,
    /// The library's id of each task ever put.
    ids: BTreeMap<TaskNo, u64>,
    /// The model's number of each id in `ids`.
    numbers: BTreeMap<u64, TaskNo>,
    /// The index of the name of each tube, of dropped ones too.
    names: BTreeMap<TubeNo, usize>,
    claims: BTreeMap<ClaimNo, HeldClaim>,
    /// The tokens of all claims that were parked.
    tokens: BTreeMap<ClaimNo, ParkedClaim>,
    /// The epochs of all claims so far.
    epochs: BTreeSet<u64>,
    waits: BTreeMap<WaitNo, WaitingTake>,
    puts: BTreeMap<WaitNo, WaitingPut>,
    watches: BTreeMap<WaitNo, WaitingForEnd>,
    /// The day of the first comparison of the numbers of a tube in this run, and what the numbers have
    /// in excess of the calls of this run since then.
    uncounted: BTreeMap<TubeNo, (Date, [i128; 2])>,
    events: Events,
    steps: u64,
    /// Number of steps between two full comparisons.
    check_every: u64,
}

/// A caller with a session of its own, which it opens when needed.
struct Client {
    no: SessionNo,
    id: SessionId,
    session: Option<Session>,
}

/// A claim that is kept as a handle.
struct HeldClaim {
    taken: Taken,
    tube: TubeNo,
    session: SessionNo,
    claim: Claim,
}

/// The first of the numbers that no task of the model has.
const UNKNOWN: TaskNo = 1 << 63;

/// The labels of the sessions of the clients.
const LABELS: [Option<&str>; CLIENTS] = [None, None, Some("worker-2")];

fn open_session(store: &Store, client: usize) -> Session {
    store.session(LABELS[client].unwrap_or_default()).unwrap()
}

impl System {
    pub fn new(setup: &Setup, open_store: OpenStore) -> System {
        System::with_durability(setup, open_store, Durability::Flush, 5)
    }

    /// `durability` is that of the tubes without one of their own.
    pub fn with_durability(
        setup: &Setup,
        open_store: OpenStore,
        durability: Durability,
        check_every: u64,
    ) -> System {
        let clock = ManualClock::new();
        let grace = duration(setup.grace);
        let options = Store::options().clock(&clock).session_grace(grace).durability(durability);
        let store = open_store.open(options.clone());
        let mut model = Model::new(setup.grace);
        let client = |client: usize| {
            let session = (client > 0).then(|| open_session(&store, client));
            Client {
                no: model.begin_session(LABELS[client]),
                id: session.as_ref().map_or(SessionId::from_bytes([0; 16]), Session::id),
                session,
            }
        };
        let clients = (0..CLIENTS).map(client).collect();
        let mut system = System {
            open_store,
            clock,
            options,
            events: store.events(Filter::new(), 1 << 16).unwrap(),
            store,
            model,
            durability: setup.tubes.iter().map(|tube| tube.durability).collect(),
            tubes: vec![None; setup.tubes.len()],
            dropped: Vec::new(),
            clients,
            ids: BTreeMap::new(),
            numbers: BTreeMap::new(),
            names: BTreeMap::new(),
            claims: BTreeMap::new(),
            tokens: BTreeMap::new(),
            epochs: BTreeSet::new(),
            waits: BTreeMap::new(),
            puts: BTreeMap::new(),
            watches: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            steps: 0,
            check_every,
        };
        for (tube, definition) in setup.tubes.iter().enumerate() {
            system.create_tube(tube, definition, false);
        }
        system.check();
        system
    }

    /// All transitions of tasks so far.
    pub fn transitions(&self) -> &BTreeSet<Transition> {
        self.model.transitions()
    }

    /// Those of tasks with a limited number of attempts.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn limited_transitions(&self) -> &BTreeSet<Transition> {
        self.model.limited_transitions()
    }

    /// What keeps ready tasks of sub-queues from being taken now.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn shut_sub_queues(&self) -> BTreeSet<&'static str> {
        self.model.shut_sub_queues()
    }

    /// What became of restored tasks with keys.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn restored_keys(&self) -> &BTreeSet<&'static str> {
        self.model.restored_keys()
    }

    /// What became of puts whose tokens were known.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn met_tokens(&self) -> &BTreeSet<&'static str> {
        self.model.met_tokens()
    }

    pub fn step(&mut self, step: Step) {
        self.steps += 1;
        let moved = matches!(
            step.action,
            Action::Advance { .. }
                | Action::SetWall { .. }
                | Action::Reopen { .. }
                | Action::Kill { .. }
        );
        self.act(step.action);
        self.settle_waits();
        self.show_moments();
        if self.model.has_children_to_tell() {
            self.tell_children();
        }
        self.sync_put_threads();
        self.collect_put_answers();
        if !moved {
            self.advance(0);
        }
        if step.poll {
            self.poll_waits();
        }
        self.check_waits();
        self.check_watches();
        self.check_statistics();
        if moved && self.check_every < 10 || self.steps.is_multiple_of(self.check_every) {
            self.check();
        }
    }

    /// Returns when the answers of waits are there, if there are waits.
    fn settle_waits(&self) {
        if !(self.waits.is_empty() && self.puts.is_empty() && self.watches.is_empty()) {
            stores::settle_waits(&self.store);
        }
    }

    /// Lets the store and the model show a moment by the same clocks, if these were set.
    fn show_moments(&self) {
        let tubes = self.model.tubes().keys();
        let mut tasks = tubes.flat_map(|tube| self.model.tasks(*tube));
        if self.model.is_set_anew()
            && let Some((no, task)) = tasks.next()
        {
            let _ = self.store.find(self.ids[&no]).unwrap();
            self.model.shown(task.put_at);
        }
    }

    /// Runs an action, unless the claim, wait or tube handle that it needs does not exist.
    fn act(&mut self, action: Action) {
        match action {
            Action::Put { client, tube, template, deferred } => {
                self.put(client, tube, &template, deferred);
            }
            Action::Requeue { client, tube, template, deferred } => {
                self.requeue(client, tube, &template, deferred);
            }
            Action::PutWait { client, tube, template, timeout } => {
                self.put_timeout(client, tube, &template, timeout);
            }
            Action::PutMany { client, tube, templates } => self.put_many(client, tube, &templates),
            Action::Restore { client, tube, tasks, deferred } => {
                self.restore_many(client, tube, &tasks, deferred);
            }
            action @ (Action::Schedule { .. }
            | Action::Reschedule { .. }
            | Action::ChangeTask { .. }
            | Action::Unschedule { .. }) => self.act_on_schedules(action),
            Action::PutBatch { client, tube, templates, count } => {
                self.put_many(client, tube, &repeated(&templates, count));
            }
            Action::Take { client, tube, keep } => self.take(client, tube, keep),
            Action::Claim { client, pick, keep } => self.claim(client, &pick, keep),
            Action::TakeMany { client, tube, max } => self.take_many(client, tube, max),
            Action::TakeAny { tubes, keep } => self.take_any(&tubes, keep),
            Action::Wait { client, tubes, timeout, keep } => {
                self.wait(client, &tubes, timeout, keep);
            }
            Action::Cancel { wait } => self.cancel(wait),
            Action::WaitDone { pick, waits } => self.wait_done(&pick, waits),
            Action::ById { client, pick, verb, deferred } => {
                self.by_id(client, &pick, verb, deferred);
            }
            Action::AckMany { client, tube, picks } => self.ack_many(client, tube, &picks),
            Action::DeleteMany { client, tube, picks } => self.delete_many(client, tube, &picks),
            Action::DeleteWhere { tube, state, limit } => self.delete_where(tube, state, limit),
            Action::KickGroup { tube, group, limit } => self.kick_group(tube, group, limit),
            Action::ByClaim { claim, verb } => self.by_claim(claim, verb),
            Action::ResumeClaim { client, token, any, keep } => {
                self.resume_claim(client, token, any, keep);
            }
            Action::AckClaims { claims } => self.ack_claims(&claims),
            Action::Kick { tube, count } => {
                self.tube_wide(tube, |tube, model, no| {
                    (tube.admin().kick(Filter::new().limit(count)), model.kick(no, count))
                });
            }
            Action::ReleaseAll { tube, forgive } => self.release_all(tube, forgive),
            Action::MoveAll { tube, to } => self.move_all(tube, to),
            Action::Truncate { tube } => {
                self.tube_wide(tube, |tube, model, no| {
                    (tube.admin().truncate(), model.truncate(no))
                });
            }
            Action::Pause { tube, time, deferred } => self.pause(tube, time, deferred),
            Action::PauseSubQueue { tube, name, time, deferred } => {
                self.pause_sub_queue(tube, name, time, deferred);
            }
            Action::SetLimit { name, most } => self.set_limit(name, most),
            Action::Alter { tube, options, by } => self.alter(tube, &options, by),
            Action::DropTube { tube } => self.drop_tube(tube),
            Action::CreateTube { client, tube, definition, same, opens } => {
                self.session_of(client);
                // An open that changes options is an alter, which has an action of its own.
                let alters = |no| {
                    let existing = self.definition(tube, no);
                    !same && existing.driver == definition.driver
                };
                let opens = opens && !self.tubes[tube].is_some_and(alters);
                let definition = match self.tubes[tube] {
                    Some(no) if same => self.definition(tube, no),
                    Some(_) => definition,
                    None => {
                        let mut keep_unsupported = definition.clone();
                        keep_unsupported.options.priority.get_or_insert(0);
                        keep_unsupported.options.capacity.get_or_insert(1);
                        if !(definition.driver.timed() && definition.driver.bounded()) {
                            self.create_tube(tube, &keep_unsupported, opens);
                        }
                        definition
                    }
                };
                self.create_tube(tube, &definition, opens);
            }
            Action::UseDroppedTube { tube } => self.use_dropped_tube(tube),
            Action::EndSession { client } => self.end_session(client.max(1)),
            Action::LeaveSession { client } => self.leave_session(client.max(1)),
            Action::ResumeSession { client } => self.resume_session(client.max(1)),
            Action::Advance { by } => {
                let by = self.resolve_clock_move(&by);
                self.advance(by);
            }
            Action::SetWall { to } => self.set_wall(to),
            Action::Reopen { closed_for } => self.reopen(&closed_for, false),
            Action::Kill { dead_for } => self.reopen(&dead_for, true),
        }
    }

    // ---- clients, tubes and tasks

    /// The session of this client. Opens a new one if the client has none.
    fn session_of(&mut self, client: usize) -> SessionNo {
        if client > 0 && self.clients[client].session.is_none() {
            let session = open_session(&self.store, client);
            let (no, id) = (self.model.begin_session(LABELS[client]), session.id());
            self.clients[client] = Client { no, id, session: Some(session) };
        }
        self.clients[client].no
    }

    /// A handle of the tube in the session of this client, if the tube exists.
    fn tube(&mut self, client: usize, tube: usize) -> Option<(Tube, TubeNo, SessionNo)> {
        let session = self.session_of(client);
        let found = self.store.find_tube(TUBE_NAMES[tube]);
        let handle = found.and_then(|found| match &self.clients[client].session {
            Some(session) => session.tube(&found),
            None => Ok(found),
        });
        match self.tubes[tube] {
            Some(no) => Some((handle.unwrap(), no, session)),
            None => {
                let name = TUBE_NAMES[tube].to_owned();
                assert_eq!(handle.err(), Some(Error::TubeNotFound { name, similar: None }));
                None
            }
        }
    }

    /// Compares a verb that acts on a whole tube.
    fn tube_wide<T: Debug + PartialEq>(
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

    /// The number of a task in the model; one of no task if the model has not put it.
    fn number(&self, id: u64) -> TaskNo {
        self.numbers.get(&id).copied().unwrap_or(UNKNOWN | id)
    }

    /// The selected task: its number in the model and its id in the library. If there is none to
    /// select, both are numbers of no task.
    fn pick(&self, pick: &Pick, tube: TubeNo, session: SessionNo) -> (TaskNo, u64) {
        let matching = |filter: &dyn Fn(&reference::Task) -> bool| {
            let tasks = self.model.tasks(tube).filter(|(_, task)| filter(task));
            tasks.map(|(no, _)| no).collect::<Vec<TaskNo>>()
        };
        let all = || matching(&|task| !matches!(task.stage(), Stage::Kept | Stage::Recurring));
        let or_all = |some: Vec<TaskNo>| if some.is_empty() { all() } else { some };
        let choices: Vec<TaskNo> = match pick.among {
            Among::Held => matching(&|task| task.is_held_by(session)),
            Among::Present => all(),
            Among::Parked => or_all(matching(&|task| task.stage() == Stage::Parked)),
            Among::Kept => or_all(matching(&|task| task.stage() == Stage::Kept)),
            Among::Schedules => or_all(matching(&|task| task.recur().is_some())),
            Among::Children => or_all(matching(&|task| !task.parents.is_empty())),
            Among::Parents => {
                let is_parent = |(no, _): &(TaskNo, _)| !self.model.children(*no).is_empty();
                let parents = self.model.tasks(tube).filter(is_parent).map(|(no, _)| no);
                or_all(parents.collect())
            }
            Among::EverPut => self.ids.keys().copied().collect(),
        };
        if choices.is_empty() {
            return (0, u64::MAX);
        }
        let no = *pick.index.get(&choices);
        (no, self.ids[&no])
    }
}

/// A batch of these templates, over and over: without keys, and each second one in a sub-queue.
fn repeated(templates: &[TaskTemplate], count: usize) -> Vec<TaskTemplate> {
    let mut batch: Vec<TaskTemplate> = templates.iter().cycle().take(count).cloned().collect();
    for template in &mut batch {
        template.key = None;
    }
    for (n, template) in batch.iter_mut().enumerate().step_by(2) {
        template.sub_queue = Some(format!("{}", n * 7 % 30));
    }
    batch
}
