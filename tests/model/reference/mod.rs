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

mod put;
mod sessions;
mod take;
mod time;
mod verbs;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use put::PutWait;
use take::Wait;
pub use time::Ties;
pub use words::*;

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
