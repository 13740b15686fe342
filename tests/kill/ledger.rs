//! What the children of all lives have reported, and whether the store agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tubewell::{Claim, FIFO, State, Store, TubeOptions};

use crate::breaking::{Moment, OwnDriver};
use crate::dice::{self, Dice};

/// More tasks than this are not left in a tube for the next life.
const MANY: u64 = 200;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Sure {
    #[default]
    No,
    Perhaps,
    Yes,
}

#[derive(Clone, Debug, Default)]
struct Task {
    tube: String,
    id: u64,
    gone: Sure,
    buried: Sure,
}

/// Tasks that were put together.
#[derive(Clone, Copy, Debug)]
struct Group {
    many: u64,
    gone: Sure,
}

#[derive(Debug, Default)]
pub struct Ledger {
    life: u64,
    tasks: BTreeMap<String, Task>,
    groups: BTreeMap<String, Group>,
    /// The relaxed puts of this life, in order, and how many of them are safe.
    hasty: Vec<String>,
    hasty_safe: usize,
    max_id: Option<u64>,
    compared: u64,
    unreported: u64,
    relaxed_lost: u64,
}

impl Ledger {
    pub fn summary(&self) -> String {
        format!(
            "{} tasks compared, {} put without a report, {} relaxed puts lost as they may be",
            self.compared, self.unreported, self.relaxed_lost
        )
    }

    /// Takes down what a child has reported.
    pub fn enter(&mut self, life: u64, reported: &[String]) {
        self.life = life;
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["p" | "t", tube, label, id] => self.there(tube, label, id.parse().unwrap()),
                ["r", label, id] => {
                    self.max_id = self.max_id.max(id.parse().ok());
                    self.hasty.push(label.to_owned());
                }
                ["s", _] => self.hasty_safe = self.hasty.len(),
                ["m", group, many] => {
                    let group =
                        (group.to_owned(), Group { many: many.parse().unwrap(), gone: Sure::No });
                    self.groups.extend([group]);
                }
                ["x" | "X", "bulk"] => {
                    let gone = if words[0] == "x" { Sure::Perhaps } else { Sure::Yes };
                    self.groups.values_mut().for_each(|group| group.gone = group.gone.max(gone));
                }
                ["f", label] => self.task(label).gone = Sure::Perhaps,
                ["F", label] => self.task(label).gone = Sure::Yes,
                ["b", label] => self.task(label).buried = Sure::Perhaps,
                ["B", label] => self.task(label).buried = Sure::Yes,
                ["k" | "K", tube] => {
                    let buried = if words[0] == "k" { Sure::Perhaps } else { Sure::No };
                    let of_tube = |task: &&mut Task| task.tube == tube && task.buried != Sure::No;
                    self.tasks.values_mut().filter(of_tube).for_each(|task| task.buried = buried);
                }
                ["d" | "D", _] | ["c"] => {}
                _ => panic!("no report: {line:?}"),
            }
        }
    }

    fn task(&mut self, label: &str) -> &mut Task {
        self.tasks.get_mut(label).unwrap_or_else(|| panic!("{label} was never in hand"))
    }

    /// Its put is certain: it was acknowledged, or somebody had the task in hand.
    fn there(&mut self, tube: &str, label: &str, id: u64) {
        self.max_id = self.max_id.max(Some(id));
        let new = Task { tube: tube.to_owned(), id, ..Task::default() };
        let task = self.tasks.entry(label.to_owned()).or_insert(new);
        assert_eq!((task.id, &*task.tube), (id, tube), "{label}");
    }

    /// Opens the store of a dead child, compares, and leaves it for the next one.
    pub fn check(&mut self, path: &Path, dice: &mut Dice) {
        let before = self.max_id;
        let own = OwnDriver(Moment::of("none"));
        let store = Store::options().driver(own).open(path).unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0], "verify");
        let mut found = BTreeMap::new();
        for tube in store.tubes() {
            look_through(&store, &tube.name, &mut found);
        }
        self.compared += found.len() as u64;
        self.max_id = self.max_id.max(found.values().map(|it| it.id).max());
        self.compare_groups(&mut found);
        self.compare_hasty(&mut found);
        self.compare_tasks(found);
        let probe =
            store.create_tube("probe", FIFO, TubeOptions::new().if_not_exists(true)).unwrap();
        let id = probe.put("an id").unwrap().id;
        assert!(Some(id) > self.max_id, "id {id} after {:?}, {before:?} reported", self.max_id);
        self.max_id = Some(id);
        probe.delete(id).unwrap();
        self.thin_out(&store);
        if dice.one_in(2) {
            store.close().unwrap();
        }
    }

    fn compare_tasks(&mut self, found: BTreeMap<String, Found>) {
        for (label, task) in &mut self.tasks {
            let state = found.get(label).map(|it| it.state);
            let fits = match state {
                None => task.gone != Sure::No,
                Some(state) => {
                    let buried = task.buried == Sure::Perhaps
                        || (task.buried == Sure::Yes) == (state == State::Buried);
                    task.gone != Sure::Yes && buried
                }
            };
            assert!(fits, "{label} is found {state:?}, but reported {task:?}");
            task.gone = if state.is_none() { Sure::Yes } else { Sure::No };
            task.buried = if state == Some(State::Buried) { Sure::Yes } else { Sure::No };
        }
        for (label, it) in found {
            // Its put was under way when the process died.
            let life = label.split('.').next().unwrap().parse::<u64>().unwrap();
            let known = self.tasks.get(&label);
            assert!(known.is_some() || life == self.life, "{label} was put in no life: {it:?}");
            self.unreported += u64::from(known.is_none());
            let buried = if it.state == State::Buried { Sure::Yes } else { Sure::No };
            assert!(known.is_some() || buried == Sure::No, "{label} was buried by nobody");
            self.there(&it.tube, &label, it.id);
        }
        self.tasks.retain(|_, task| task.gone != Sure::Yes);
    }

    /// What was put together is there together, and gone together.
    fn compare_groups(&mut self, found: &mut BTreeMap<String, Found>) {
        let mut there: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for label in found.iter().filter(|(_, it)| it.tube == "bulk").map(|(label, _)| label) {
            let mut parts = label.rsplitn(3, '.');
            let many = parts.next().unwrap().parse().unwrap();
            let group = parts.nth(1).unwrap().to_owned();
            there.entry(group).or_insert((0, many)).0 += 1;
        }
        found.retain(|_, it| it.tube != "bulk");
        for (group, (count, many)) in &there {
            assert_eq!(count, many, "half of the group {group}");
            let of_this_life = group.starts_with(&format!("{}.", self.life));
            assert!(self.groups.contains_key(group) || of_this_life, "{group} came back");
        }
        let mut emptied = BTreeSet::new();
        for (name, group) in &self.groups {
            let is = there.contains_key(name);
            match group.gone {
                Sure::No => assert!(is, "{name} of {} is lost", group.many),
                Sure::Yes => assert!(!is, "{name} came back"),
                Sure::Perhaps => drop(emptied.insert(is)),
            }
        }
        assert!(emptied.len() < 2, "a tube is half emptied");
        let left = |(name, (_, many))| (name, Group { many, gone: Sure::No });
        self.groups = there.into_iter().map(left).collect();
    }

    /// Of what was relaxed, the latest may be lost; of the rest, nothing.
    fn compare_hasty(&mut self, found: &mut BTreeMap<String, Found>) {
        let mine = format!("{}.", self.life);
        let mut latest: Vec<u64> = found
            .iter()
            .filter(|(label, it)| it.tube == "hasty" && label.starts_with(&mine))
            .map(|(label, _)| label.rsplit('.').next().unwrap().parse().unwrap())
            .collect();
        latest.sort_unstable();
        assert!(latest.iter().copied().eq(0..latest.len() as u64), "no prefix: {latest:?}");
        let lost = self.hasty.len().saturating_sub(latest.len());
        assert!(self.hasty.len() - lost >= self.hasty_safe, "{latest:?} of {:?}", self.hasty);
        self.relaxed_lost += lost as u64;
        (self.hasty, self.hasty_safe) = (Vec::new(), 0);
    }

    /// Takes and finishes what would make the rounds slower and slower.
    fn thin_out(&mut self, store: &Store) {
        for info in store.tubes() {
            let tube = store.tube(&info.name).unwrap();
            if tube.statistics().unwrap().tasks.total <= MANY {
                continue;
            }
            if info.name == "bulk" {
                tube.truncate().unwrap();
                self.groups.clear();
                continue;
            }
            let claims = tube.take_many(10_000, std::time::Duration::ZERO).unwrap();
            for claim in &claims {
                let label = dice::label_of(claim.data()).unwrap();
                assert!(self.tasks.remove(&label).is_some(), "{label} is nobody's");
            }
            for answer in Claim::ack_many(claims).unwrap() {
                answer.unwrap();
            }
        }
    }
}

#[derive(Debug)]
struct Found {
    tube: String,
    state: State,
    id: u64,
}

fn look_through(store: &Store, name: &str, found: &mut BTreeMap<String, Found>) {
    let tube = store.tube(name).unwrap();
    // Delayed ones first: one that becomes due meanwhile is seen twice rather than never.
    for state in [State::Delayed, State::Buried, State::Ready, State::Taken] {
        let mut place = None;
        loop {
            let page = tube.list(state, place, 1000).unwrap();
            for info in page.tasks {
                assert_ne!(state, State::Taken, "{name}: {} is taken by the dead", info.id);
                let task = tube.peek(info.id).unwrap();
                let label = dice::label_of(&task.data);
                let label =
                    label.unwrap_or_else(|| panic!("{name}: the body of {} differs", info.id));
                let it = Found { tube: name.to_owned(), state, id: info.id };
                let twice = found.insert(label, it);
                assert!(twice.is_none_or(|it| it.id == info.id), "{} twice", info.id);
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
    }
}
