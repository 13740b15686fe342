//! The reference model: what every call on the queue must answer, said as plainly as possible.
//!
//! One [`Model`] is one store through all its lives. It is written from the specification and
//! shares nothing with the library: plain maps, linear scans, no index, no file, no thread. Each
//! verb takes effect at once, serves those who wait, and returns.
//!
//! * Time is a number of microseconds that only [`Model::advance`] moves.
//! * Tubes, tasks, sessions, claims and waits are known by numbers which grow and are never used
//!   again. Whoever compares with a library keeps a map from these numbers to its names.
//! * Everything is `Clone`: to try what several orders of events lead to, advance several clones.
//!
//! What falls due at one moment may be done in any order; the specification does not say. The
//! order is an argument, [`Ties`], and a library is right if it does what some order leads to.

#![allow(dead_code, reason = "each kind of test asks for its own part")]

use std::collections::{BTreeMap, BTreeSet};

pub type Micros = u64;
pub type TubeNo = u64;
pub type TaskNo = u64;
pub type SessionNo = u64;
pub type ClaimNo = u64;
pub type WaitNo = u64;

/// The end of time: what never comes, or lasts for ever.
pub const NEVER: Micros = Micros::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    Fifo,
    Fifottl,
    Limfifottl,
    Utube,
    Utubettl,
}

impl Driver {
    pub const ALL: [Driver; 5] =
        [Driver::Fifo, Driver::Fifottl, Driver::Limfifottl, Driver::Utube, Driver::Utubettl];

    pub fn timed(self) -> bool {
        matches!(self, Driver::Fifottl | Driver::Limfifottl | Driver::Utubettl)
    }

    pub fn sub_queued(self) -> bool {
        matches!(self, Driver::Utube | Driver::Utubettl)
    }

    pub fn bounded(self) -> bool {
        self == Driver::Limfifottl
    }
}

/// The options of a tube.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub pri: Option<u32>,
    pub capacity: Option<u64>,
    pub temporary: bool,
}

impl Options {
    fn ttl(&self) -> Micros {
        self.ttl.unwrap_or(NEVER)
    }

    fn ttr(&self) -> Micros {
        self.ttr.unwrap_or(self.ttl())
    }

    fn pri(&self) -> u32 {
        self.pri.unwrap_or(0)
    }

    /// If there is a limit.
    fn capacity(&self) -> Option<u64> {
        self.capacity.filter(|capacity| *capacity > 0)
    }

    /// Whether they come to the same.
    fn same(&self, other: &Options) -> bool {
        let all = |it: &Options| (it.ttl(), it.ttr(), it.pri(), it.capacity(), it.temporary);
        all(self) == all(other)
    }
}

/// A task to be put.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub data: Vec<u8>,
    pub pri: Option<u32>,
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub delay: Micros,
    pub sub_queue: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Ready,
    Taken,
    Delayed,
    Buried,
    Done,
}

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotTaken,
    NotFound,
    Unsupported,
    Full,
    TubeExists,
    TubeDiffers,
    TubeDropped,
    TubeBusy,
    SessionUnknown,
    SessionEnded,
    Closed,
}

pub type Answer<T> = Result<T, Refusal>;

/// What is counted and reported about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Put,
    Take,
    Ack,
    Release,
    Bury,
    Kick,
    Delete,
    Touch,
    Ttl,
    Ttr,
    Delay,
}

/// What moves a task from state to state; finer than what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The verb itself, or the time over that it is named after.
    Verb(Verb),
    /// Put by who waited for room.
    LetIn,
    /// Releases that nobody asked for by that name.
    ClaimDropped,
    SessionEnded,
    ReleaseAll,
    /// Not counted.
    BuriedAlready,
    Renewed,
    Reopened,
    Truncated,
    TubeDropped,
}

impl Cause {
    fn counted_as(self) -> Option<Verb> {
        match self {
            Cause::Verb(verb) => Some(verb),
            Cause::LetIn => Some(Verb::Put),
            Cause::ClaimDropped | Cause::SessionEnded | Cause::ReleaseAll => Some(Verb::Release),
            _ => None,
        }
    }
}

/// A transition of a driver's state machine; it begins nowhere for a put.
pub type Mark = (Driver, Option<State>, Cause, State);

/// What a subscriber is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub tube: TubeNo,
    pub task: TaskNo,
    pub verb: Verb,
    pub state: State,
}

#[derive(Clone, Debug)]
pub struct Tube {
    pub name: String,
    pub driver: Driver,
    pub options: Options,
    calls: BTreeMap<Verb, u64>,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub tube: TubeNo,
    pub data: Vec<u8>,
    pub pri: u32,
    pub sub_queue: Option<String>,
    /// How often it was taken.
    pub takes: u32,
    pub ttr: Micros,
    /// When it was put, its ttl, and what was added to the ttl since, all together.
    pub dead: Micros,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Delayed { until: Micros },
    Taken(Claim),
    Buried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    no: ClaimNo,
    session: SessionNo,
    /// When the hold ends.
    until: Micros,
}

impl Task {
    pub fn state(&self) -> State {
        match self.place {
            Place::Ready => State::Ready,
            Place::Delayed { .. } => State::Delayed,
            Place::Taken(_) => State::Taken,
            Place::Buried => State::Buried,
        }
    }

    /// When it becomes ready by itself, or would if it lived.
    pub fn due(&self) -> Micros {
        match &self.place {
            Place::Delayed { until } => *until,
            Place::Taken(claim) => claim.until,
            Place::Ready | Place::Buried => NEVER,
        }
    }

    /// The claim on it and whose that is.
    pub fn claim(&self) -> Option<(ClaimNo, SessionNo)> {
        match &self.place {
            Place::Taken(claim) => Some((claim.no, claim.session)),
            _ => None,
        }
    }
}

/// Who says that he holds a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub session: SessionNo,
    /// This very claim, or else whichever claim the session has on the task now.
    pub claim: Option<ClaimNo>,
}

/// A task that was taken, and the claim on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub task: TaskNo,
    pub claim: ClaimNo,
}

#[derive(Clone, Debug)]
struct Wait {
    session: SessionNo,
    /// Where it looks first, second, ...
    tubes: Vec<TubeNo>,
    until: Micros,
    answer: Option<Answer<Option<Taken>>>,
}

/// A put that waits for room.
#[derive(Clone, Debug)]
struct PutWait {
    session: SessionNo,
    tube: TubeNo,
    draft: Draft,
    until: Micros,
    answer: Option<Answer<(TaskNo, State)>>,
}

// ---- what falls due

/// Kinds of things that fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A delay is over.
    Delay,
    /// A life is over.
    Dead,
    /// A hold is over.
    Hold,
    /// A session that everybody left has waited long enough for somebody to come back.
    Grace,
    /// A wait has lasted long enough.
    Wait,
}

/// In which order things are done that fall due at one moment; those of one kind in that of their
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ties {
    pub kinds: [Due; 5],
    pub serve: Serve,
}

/// When those who wait are served meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    AfterEach,
    AfterEachKind,
    AtTheEnd,
}

impl Default for Ties {
    fn default() -> Ties {
        let kinds = [Due::Delay, Due::Dead, Due::Hold, Due::Grace, Due::Wait];
        Ties { kinds, serve: Serve::AfterEachKind }
    }
}

impl Ties {
    /// Every order there is.
    pub fn all() -> Vec<Ties> {
        let mut orders: Vec<Vec<Due>> = vec![Vec::new()];
        for kind in Ties::default().kinds {
            orders = orders.iter().flat_map(|order| insertions(order, kind)).collect();
        }
        let kinds = orders.into_iter().filter_map(|order| <[Due; 5]>::try_from(order).ok());
        let serves = [Serve::AfterEachKind, Serve::AfterEach, Serve::AtTheEnd];
        kinds.flat_map(|kinds| serves.map(|serve| Ties { kinds, serve })).collect()
    }

    fn rank(self, kind: Due) -> Option<usize> {
        self.kinds.iter().position(|other| *other == kind)
    }
}

/// The list with one more at each of the places where it can go.
fn insertions(list: &[Due], kind: Due) -> Vec<Vec<Due>> {
    let insert = |at: usize| [&list[..at], &[kind], &list[at..]].concat();
    (0..=list.len()).map(insert).collect()
}

// ---- the store

#[derive(Clone, Debug)]
pub struct Model {
    now: Micros,
    /// How long a session that everybody left lives on.
    grace: Micros,
    tubes: BTreeMap<TubeNo, Tube>,
    tasks: BTreeMap<TaskNo, Task>,
    /// Those alive, and until when if everybody has left.
    sessions: BTreeMap<SessionNo, Option<Micros>>,
    /// In the order of their arrival, until their answer is fetched.
    waits: BTreeMap<WaitNo, Wait>,
    /// The same of puts.
    put_waits: BTreeMap<WaitNo, PutWait>,
    /// The last number given to anything.
    last: u64,
    events: Vec<Event>,
    marks: BTreeSet<Mark>,
}

impl Model {
    pub fn new(grace: Micros) -> Model {
        Model {
            now: 0,
            grace,
            tubes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            waits: BTreeMap::new(),
            put_waits: BTreeMap::new(),
            last: 0,
            events: Vec::new(),
            marks: BTreeSet::new(),
        }
    }

    pub fn now(&self) -> Micros {
        self.now
    }

    /// All transitions that ever happened.
    pub fn marks(&self) -> &BTreeSet<Mark> {
        &self.marks
    }

    /// What was reported since this was last asked.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    // ---- tubes

    pub fn create_tube(
        &mut self,
        name: &str,
        driver: Driver,
        options: &Options,
        if_not_exists: bool,
    ) -> Answer<TubeNo> {
        if let Some((no, tube)) = self.tubes.iter().find(|(_, tube)| tube.name == name) {
            return match (if_not_exists, tube.driver == driver && tube.options.same(options)) {
                (false, _) => Err(Refusal::TubeExists),
                (true, false) => Err(Refusal::TubeDiffers),
                (true, true) => Ok(*no),
            };
        }
        let timed = options.ttl.is_some() || options.ttr.is_some() || options.pri.is_some();
        if (timed && !driver.timed()) || (options.capacity.is_some() && !driver.bounded()) {
            return Err(Refusal::Unsupported);
        }
        let no = self.number();
        let (name, options) = (name.to_owned(), options.clone());
        self.tubes.insert(no, Tube { name, driver, options, calls: BTreeMap::new() });
        Ok(no)
    }

    pub fn drop_tube(&mut self, tube: TubeNo) -> Answer<()> {
        self.tube(tube)?;
        let waiting = self.waiting(tube) + self.waiting_puts(tube);
        if self.count(tube, State::Taken) > 0 || waiting > 0 {
            return Err(Refusal::TubeBusy);
        }
        self.remove_all(tube, Cause::TubeDropped);
        self.tubes.remove(&tube);
        Ok(())
    }

    pub fn truncate(&mut self, tube: TubeNo) -> Answer<()> {
        self.tube(tube)?;
        self.remove_all(tube, Cause::Truncated);
        self.serve();
        Ok(())
    }

    fn remove_all(&mut self, tube: TubeNo, cause: Cause) {
        for id in self.ids(tube) {
            self.remove(id, cause);
        }
    }

    pub fn tubes(&self) -> &BTreeMap<TubeNo, Tube> {
        &self.tubes
    }

    pub fn tube(&self, tube: TubeNo) -> Answer<&Tube> {
        self.tubes.get(&tube).ok_or(Refusal::TubeDropped)
    }

    /// The tasks of a tube.
    pub fn tasks(&self, tube: TubeNo) -> impl Iterator<Item = (TaskNo, &Task)> {
        self.tasks.iter().filter(move |(_, task)| task.tube == tube).map(|(id, task)| (*id, task))
    }

    fn ids(&self, tube: TubeNo) -> Vec<TaskNo> {
        self.tasks(tube).map(|(id, _)| id).collect()
    }

    pub fn count(&self, tube: TubeNo, state: State) -> u64 {
        self.tasks(tube).filter(|(_, task)| task.state() == state).count() as u64
    }

    /// How often something happened in a tube since the store was opened.
    pub fn calls(&self, tube: TubeNo, verb: Verb) -> u64 {
        let calls = self.tubes.get(&tube).map(|tube| &tube.calls);
        calls.and_then(|calls| calls.get(&verb)).copied().unwrap_or(0)
    }

    /// How many tasks have gone since the store was opened.
    pub fn done(&self, tube: TubeNo) -> u64 {
        self.calls(tube, Verb::Ack) + self.calls(tube, Verb::Delete)
    }

    // ---- putting

    pub fn put(&mut self, tube: TubeNo, draft: &Draft) -> Answer<(TaskNo, State)> {
        self.put_many(tube, std::slice::from_ref(draft)).map(|placed| placed[0])
    }

    /// All of them or none. The state is the one in which each is put, also if it is taken at once.
    pub fn put_many(&mut self, no: TubeNo, drafts: &[Draft]) -> Answer<Vec<(TaskNo, State)>> {
        let tube = self.tube(no)?.clone();
        for draft in drafts {
            let timed = draft.pri.is_some() || draft.ttl.is_some() || draft.ttr.is_some();
            if (timed || draft.delay > 0) && !tube.driver.timed()
                || draft.sub_queue.is_some() && !tube.driver.sub_queued()
            {
                return Err(Refusal::Unsupported);
            }
        }
        if !drafts.is_empty() && !self.has_room(no, drafts.len()) {
            return Err(Refusal::Full);
        }
        let put = Cause::Verb(Verb::Put);
        let placed = drafts.iter().map(|draft| self.place(no, &tube.options, draft, put)).collect();
        self.serve();
        Ok(placed)
    }

    fn has_room(&self, tube: TubeNo, tasks: usize) -> bool {
        let total = (self.tasks(tube).count() + tasks) as u64;
        self.tubes[&tube].options.capacity().is_none_or(|capacity| total <= capacity)
    }

    /// Begins a put that waits for room, in order of arrival. It may have its answer at once.
    pub fn put_wait(
        &mut self,
        session: SessionNo,
        tube: TubeNo,
        draft: &Draft,
        timeout: Micros,
    ) -> WaitNo {
        let answer = match self.put(tube, draft) {
            Err(Refusal::Full) if timeout > 0 => {
                (!self.alive(session)).then_some(Err(Refusal::SessionEnded))
            }
            answer => Some(answer),
        };
        let (no, until) = (self.number(), self.now.saturating_add(timeout));
        let draft = draft.clone();
        self.put_waits.insert(no, PutWait { session, tube, draft, until, answer });
        no
    }

    /// What it was answered, if it was.
    pub fn put_answer(&self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        self.put_waits.get(&wait)?.answer
    }

    /// The same; nobody waits any more.
    pub fn fetch_put(&mut self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        let answer = self.put_answer(wait)?;
        self.put_waits.remove(&wait);
        Some(answer)
    }

    /// How many puts wait for room in a tube.
    pub fn waiting_puts(&self, tube: TubeNo) -> u64 {
        let waits = |wait: &&PutWait| wait.answer.is_none() && wait.tube == tube;
        self.put_waits.values().filter(waits).count() as u64
    }

    /// Whether this session has such puts.
    pub fn waits_for_room(&self, session: SessionNo) -> bool {
        self.put_waits.values().any(|wait| wait.answer.is_none() && wait.session == session)
    }

    /// Lets those in who wait for room. A task's times begin then.
    fn let_in(&mut self) {
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        for no in waiting.map(|(no, _)| *no).collect::<Vec<_>>() {
            let (tube, draft) = (self.put_waits[&no].tube, self.put_waits[&no].draft.clone());
            if self.has_room(tube, 1) {
                let defaults = self.tubes[&tube].options.clone();
                let placed = self.place(tube, &defaults, &draft, Cause::LetIn);
                self.end_put_wait(no, Ok(placed));
            }
        }
    }

    /// The first answer counts.
    fn end_put_wait(&mut self, wait: WaitNo, answer: Answer<(TaskNo, State)>) {
        self.put_waits.entry(wait).and_modify(|wait| _ = wait.answer.get_or_insert(answer));
    }

    fn place(
        &mut self,
        tube: TubeNo,
        defaults: &Options,
        draft: &Draft,
        cause: Cause,
    ) -> (TaskNo, State) {
        let id = self.number();
        let ttl = draft.ttl.unwrap_or(defaults.ttl()).saturating_add(draft.delay);
        let place = match draft.delay {
            0 => Place::Ready,
            delay => Place::Delayed { until: self.now.saturating_add(delay) },
        };
        let task = Task {
            tube,
            data: draft.data.clone(),
            pri: draft.pri.unwrap_or(defaults.pri()),
            sub_queue: draft.sub_queue.clone().filter(|name| !name.is_empty()),
            takes: 0,
            ttr: draft.ttr.unwrap_or(defaults.ttr()),
            dead: self.now.saturating_add(ttl),
            place,
        };
        let state = task.state();
        self.tasks.insert(id, task);
        self.note(id, None, cause, state);
        (id, state)
    }

    // ---- taking

    /// Takes the first task there is, looking into the tubes in the order in which they are named.
    pub fn take(&mut self, session: SessionNo, tubes: &[TubeNo]) -> Answer<Option<Taken>> {
        for tube in tubes {
            self.tube(*tube)?;
        }
        if !self.alive(session) {
            return Err(Refusal::SessionEnded);
        }
        let found = tubes.iter().find_map(|tube| self.takeable(*tube));
        Ok(found.map(|id| self.claim(session, id)))
    }

    /// The most urgent task of those that may be taken.
    fn takeable(&self, tube: TubeNo) -> Option<TaskNo> {
        let gated = self.tubes.get(&tube).is_some_and(|tube| tube.driver.sub_queued());
        let free = |task: &Task| !gated || !self.busy(tube, task.sub_queue.as_ref());
        self.tasks(tube)
            .filter(|(_, task)| task.place == Place::Ready && task.dead > self.now && free(task))
            .min_by_key(|(id, task)| (task.pri, *id))
            .map(|(id, _)| id)
    }

    /// Whether one of the sub-queue's tasks is taken.
    fn busy(&self, tube: TubeNo, sub_queue: Option<&String>) -> bool {
        let same = |task: &Task| task.sub_queue.as_ref() == sub_queue;
        self.tasks(tube).any(|(_, task)| same(task) && task.state() == State::Taken)
    }

    fn claim(&mut self, session: SessionNo, id: TaskNo) -> Taken {
        let no = self.number();
        self.task(id).takes += 1;
        let until = self.now.saturating_add(self.task(id).ttr);
        self.change(id, Cause::Verb(Verb::Take), Place::Taken(Claim { no, session, until }));
        Taken { task: id, claim: no }
    }

    /// Begins a take that waits. It may have its answer at once.
    pub fn wait(
        &mut self,
        session: SessionNo,
        tubes: &[TubeNo],
        timeout: Micros,
    ) -> Answer<WaitNo> {
        let answer = self.take(session, tubes)?.map(|taken| Ok(Some(taken)));
        let no = self.number();
        let answer = answer.or((timeout == 0).then_some(Ok(None)));
        let (tubes, until) = (tubes.to_vec(), self.now.saturating_add(timeout));
        self.waits.insert(no, Wait { session, tubes, until, answer });
        Ok(no)
    }

    /// What a wait was answered, if it was.
    pub fn answer(&self, wait: WaitNo) -> Option<Answer<Option<Taken>>> {
        self.waits.get(&wait)?.answer
    }

    /// The same; the claim is the caller's from now on, and nobody waits any more.
    pub fn fetch(&mut self, wait: WaitNo) -> Option<Answer<Option<Taken>>> {
        let answer = self.answer(wait)?;
        self.waits.remove(&wait);
        Some(answer)
    }

    /// How many wait in a tube.
    pub fn waiting(&self, tube: TubeNo) -> u64 {
        let waits = |wait: &&Wait| wait.answer.is_none() && wait.tubes.contains(&tube);
        self.waits.values().filter(waits).count() as u64
    }

    /// Gives up waiting. What was answered already and not fetched goes back.
    pub fn cancel(&mut self, wait: WaitNo) {
        let answer = self.waits.remove(&wait).and_then(|wait| wait.answer);
        if let Some(Ok(Some(taken))) = answer {
            self.drop_claim(taken);
        }
    }

    /// Lets in who waits for room, and hands what can be taken to those who wait for that, in the
    /// order of their arrival.
    fn serve(&mut self) {
        self.let_in();
        let waiting = self.waits.iter().filter(|(_, wait)| wait.answer.is_none());
        for no in waiting.map(|(no, _)| *no).collect::<Vec<_>>() {
            let (session, tubes) = (self.waits[&no].session, self.waits[&no].tubes.clone());
            let found = tubes.iter().find_map(|tube| self.takeable(*tube));
            if let Some(id) = found {
                let taken = self.claim(session, id);
                self.end_wait(no, Ok(Some(taken)));
            }
        }
    }

    fn end_wait(&mut self, wait: WaitNo, answer: Answer<Option<Taken>>) {
        self.waits.entry(wait).and_modify(|wait| wait.answer = Some(answer));
    }

    // ---- what a holder may do

    /// A claim goes with its task; who names a task by its id names a tube too.
    fn held(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<&Claim> {
        if holder.claim.is_none() {
            self.tube(tube)?;
        }
        if !self.alive(holder.session) {
            return Err(Refusal::SessionEnded);
        }
        match self.tasks.get(&id).filter(|task| task.tube == tube).map(|task| &task.place) {
            Some(Place::Taken(claim))
                if claim.session == holder.session
                    && holder.claim.is_none_or(|no| no == claim.no) =>
            {
                Ok(claim)
            }
            _ => Err(Refusal::NotTaken),
        }
    }

    pub fn ack(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        let answers = self.ack_many(&[(tube, id, holder)]);
        answers[0]
    }

    /// An answer for each, and those who wait are served when all are done.
    pub fn ack_many(&mut self, held: &[(TubeNo, TaskNo, Holder)]) -> Vec<Answer<State>> {
        let ack = |&(tube, id, holder): &(TubeNo, TaskNo, Holder)| {
            self.held(tube, id, holder)?;
            self.remove(id, Cause::Verb(Verb::Ack));
            Ok(State::Done)
        };
        let answers = held.iter().map(ack).collect();
        self.serve();
        answers
    }

    /// The delay is added to the ttl.
    pub fn release(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        delay: Micros,
    ) -> Answer<State> {
        self.held(tube, id, holder)?;
        if delay > 0 && !self.tube(tube)?.driver.timed() {
            return Err(Refusal::Unsupported);
        }
        let until = self.now.saturating_add(delay);
        let place = if delay > 0 { Place::Delayed { until } } else { Place::Ready };
        self.change(id, Cause::Verb(Verb::Release), place);
        let task = self.task(id);
        task.dead = task.dead.saturating_add(delay);
        let state = task.state();
        self.serve();
        Ok(state)
    }

    /// Whether the claim is still the one on its task.
    pub fn stands(&self, taken: Taken) -> bool {
        let claim = self.tasks.get(&taken.task).and_then(Task::claim);
        claim.is_some_and(|(no, _)| no == taken.claim)
    }

    /// The end of a claim that was not ended in another way. A stale one ends without a trace.
    pub fn drop_claim(&mut self, taken: Taken) {
        if self.stands(taken) {
            self.change(taken.task, Cause::ClaimDropped, Place::Ready);
            self.serve();
        }
    }

    /// Adds to the hold, to the ttl and to the ttr. Nothing is looked at if nothing is to be added.
    pub fn touch(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        by: Micros,
    ) -> Answer<Option<State>> {
        if by == 0 {
            return Ok(None);
        }
        let mut claim = self.held_for_a_time(tube, id, holder)?;
        claim.until = claim.until.saturating_add(by);
        self.change(id, Cause::Verb(Verb::Touch), Place::Taken(claim));
        let task = self.task(id);
        task.ttr = task.ttr.saturating_add(by);
        task.dead = task.dead.saturating_add(by);
        Ok(Some(State::Taken))
    }

    /// Sets the hold anew and nothing else.
    pub fn renew(&mut self, tube: TubeNo, id: TaskNo, holder: Holder, hold: Micros) -> Answer<()> {
        let mut claim = self.held_for_a_time(tube, id, holder)?;
        claim.until = self.now.saturating_add(hold);
        self.change(id, Cause::Renewed, Place::Taken(claim));
        Ok(())
    }

    fn held_for_a_time(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<Claim> {
        let claim = self.held(tube, id, holder)?.clone();
        if self.tube(tube)?.driver.timed() { Ok(claim) } else { Err(Refusal::Unsupported) }
    }

    // ---- what anybody may do

    pub fn bury(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        match self.peek(tube, id)?.state() {
            State::Buried => self.change(id, Cause::BuriedAlready, Place::Buried),
            _ => self.change(id, Cause::Verb(Verb::Bury), Place::Buried),
        }
        self.serve();
        Ok(State::Buried)
    }

    /// What is said through a claim is said by its holder.
    pub fn bury_held(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        self.held(tube, id, holder)?;
        self.bury(tube, id)
    }

    /// The most urgent of the buried are ready again; how many.
    pub fn kick(&mut self, tube: TubeNo, count: u64) -> Answer<u64> {
        self.tube(tube)?;
        let buried = self.tasks(tube).filter(|(_, task)| task.place == Place::Buried);
        let mut order: Vec<_> = buried.map(|(id, task)| (task.pri, id)).collect();
        order.sort_unstable();
        order.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        for (_, id) in &order {
            self.change(*id, Cause::Verb(Verb::Kick), Place::Ready);
        }
        self.serve();
        Ok(order.len() as u64)
    }

    pub fn delete(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        self.peek(tube, id)?;
        self.remove(id, Cause::Verb(Verb::Delete));
        self.serve();
        Ok(State::Done)
    }

    pub fn peek(&self, tube: TubeNo, id: TaskNo) -> Answer<&Task> {
        self.tube(tube)?;
        self.tasks.get(&id).filter(|task| task.tube == tube).ok_or(Refusal::NotFound)
    }

    pub fn release_all(&mut self, tube: TubeNo) -> Answer<u64> {
        self.tube(tube)?;
        let taken = self.tasks(tube).filter(|(_, task)| task.state() == State::Taken);
        let taken: Vec<_> = taken.map(|(id, _)| id).collect();
        for id in &taken {
            self.change(*id, Cause::ReleaseAll, Place::Ready);
        }
        self.serve();
        Ok(taken.len() as u64)
    }

    // ---- sessions

    pub fn begin_session(&mut self) -> SessionNo {
        let no = self.number();
        self.sessions.insert(no, None);
        no
    }

    pub fn alive(&self, session: SessionNo) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The end of a session, whoever else is in it: its waits and its claims end.
    pub fn end_session(&mut self, session: SessionNo) {
        self.forget_session(session);
        self.serve();
    }

    fn forget_session(&mut self, session: SessionNo) {
        self.sessions.remove(&session);
        for wait in self.waits.values_mut().filter(|wait| wait.session == session) {
            wait.answer.get_or_insert(Err(Refusal::SessionEnded));
        }
        for wait in self.put_waits.values_mut().filter(|wait| wait.session == session) {
            wait.answer.get_or_insert(Err(Refusal::SessionEnded));
        }
        let his = |task: &Task| task.claim().is_some_and(|(_, holder)| holder == session);
        let held = self.tasks.iter().filter(|(_, task)| his(task));
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.change(id, Cause::SessionEnded, Place::Ready);
        }
    }

    /// The last one in a session leaves it. He does not wait for anything any more.
    pub fn leave_session(&mut self, session: SessionNo) {
        match self.grace {
            0 => self.end_session(session),
            grace => {
                let left = Some(self.now.saturating_add(grace));
                self.sessions.entry(session).and_modify(|until| *until = left);
            }
        }
    }

    /// Enters a session that is alive, left by everybody or not.
    pub fn resume_session(&mut self, session: SessionNo) -> Answer<()> {
        let until = self.sessions.get_mut(&session).ok_or(Refusal::SessionUnknown)?;
        *until = None;
        Ok(())
    }

    // ---- time

    /// Everything that will fall due, as things are: when, and the number of what.
    fn dues(&self) -> Vec<(Micros, Due, u64)> {
        let mut dues = Vec::new();
        for (id, task) in &self.tasks {
            match task.state() {
                State::Delayed => dues.push((task.due(), Due::Delay, *id)),
                State::Taken => dues.push((task.due(), Due::Hold, *id)),
                _ => {}
            }
            // A delay is part of the life, and over before it.
            if task.state() != State::Delayed {
                dues.push((task.dead, Due::Dead, *id));
            }
        }
        for (no, until) in &self.sessions {
            dues.extend(until.map(|until| (until, Due::Grace, *no)));
        }
        let waiting = self.waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::Wait, *no)));
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::Wait, *no)));
        dues.retain(|(when, ..)| *when != NEVER);
        dues
    }

    /// The moments at which something falls due, in order.
    pub fn moments(&self) -> BTreeSet<Micros> {
        self.dues().iter().map(|(when, ..)| *when).collect()
    }

    /// Moves the clock on, and does everything that falls due on the way, each at its moment.
    pub fn advance(&mut self, by: Micros, ties: Ties) {
        let target = self.now.saturating_add(by);
        while let Some(moment) = self.moments().first().filter(|moment| **moment <= target) {
            self.now = self.now.max(*moment);
            self.fall_due(ties);
        }
        self.now = target;
    }

    /// Does what is due by now.
    fn fall_due(&mut self, ties: Ties) {
        let mut before = None;
        loop {
            let due = self.dues().into_iter().filter(|(when, ..)| *when <= self.now);
            let Some((_, kind, no)) = due.min_by_key(|(_, kind, no)| (ties.rank(*kind), *no))
            else {
                break;
            };
            if ties.serve == Serve::AfterEachKind && before.is_some_and(|before| before != kind) {
                before = None;
                self.serve();
                continue;
            }
            before = Some(kind);
            match kind {
                Due::Delay => self.change(no, Cause::Verb(Verb::Delay), Place::Ready),
                Due::Hold => self.change(no, Cause::Verb(Verb::Ttr), Place::Ready),
                Due::Dead => self.expire(no),
                Due::Grace => self.forget_session(no),
                Due::Wait if self.waits.contains_key(&no) => self.end_wait(no, Ok(None)),
                Due::Wait => self.end_put_wait(no, Err(Refusal::Full)),
            }
            if ties.serve == Serve::AfterEach {
                self.serve();
            }
        }
        self.serve();
    }

    /// The end of a life counts as a delete too, and before it the end of a hold.
    fn expire(&mut self, id: TaskNo) {
        let state = self.tasks[&id].state();
        if state == State::Taken {
            self.count_call(id, Verb::Ttr, State::Ready);
        }
        self.count_call(id, Verb::Delete, State::Done);
        self.remove(id, Cause::Verb(Verb::Ttl));
    }

    // ---- lives

    /// The store is closed; nobody waits any more.
    pub fn close(&mut self) {
        for wait in self.waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
        for wait in self.put_waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
    }

    /// The store is opened again after this time. Claims and sessions are void, what is in
    /// temporary tubes is lost, and all counting begins anew. What fell due meanwhile is due now.
    pub fn reopen(&mut self, away: Micros) {
        self.now = self.now.saturating_add(away);
        self.waits.clear();
        self.put_waits.clear();
        self.sessions.clear();
        for (no, tube) in self.tubes.clone() {
            for id in self.ids(no) {
                if tube.options.temporary {
                    self.remove(id, Cause::Reopened);
                } else if self.tasks[&id].state() == State::Taken {
                    self.change(id, Cause::Reopened, Place::Ready);
                }
            }
        }
        for tube in self.tubes.values_mut() {
            tube.calls.clear();
        }
        self.events.clear();
    }

    // ---- changing and counting

    fn change(&mut self, id: TaskNo, cause: Cause, place: Place) {
        let task = self.task(id);
        let from = task.state();
        task.place = place;
        let to = task.state();
        self.note(id, Some(from), cause, to);
    }

    fn remove(&mut self, id: TaskNo, cause: Cause) {
        self.note(id, Some(self.tasks[&id].state()), cause, State::Done);
        self.tasks.remove(&id);
    }

    fn note(&mut self, id: TaskNo, from: Option<State>, cause: Cause, to: State) {
        let driver = self.tubes[&self.tasks[&id].tube].driver;
        self.marks.insert((driver, from, cause, to));
        if let Some(verb) = cause.counted_as() {
            self.count_call(id, verb, to);
        }
    }

    fn count_call(&mut self, id: TaskNo, verb: Verb, state: State) {
        let tube = self.tasks[&id].tube;
        let count = |tube: &mut Tube| *tube.calls.entry(verb).or_default() += 1;
        self.tubes.entry(tube).and_modify(count);
        self.events.push(Event { tube, task: id, verb, state });
    }

    #[expect(clippy::expect_used, reason = "a model that is wrong about itself is of no use")]
    fn task(&mut self, id: TaskNo) -> &mut Task {
        self.tasks.get_mut(&id).expect("a task that lives")
    }
}
