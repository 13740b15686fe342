//! The questions put to a damaged file: whatever is wrong must be noticed, and whatever is handed
//! out must be right.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Claim, Error, ManualClock, Place, State, Store, Tube};

use crate::disk::Disk;
use crate::specimen::{Image, Specimen, Tasks, clock, options};

/// More than so many refusals in a row, and a tube is given up.
const PATIENCE: usize = 8;

/// How a damaged file fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Nothing is missing and nothing is wrong.
    Harmless,
    /// It does not open.
    Refused,
    /// It opens as of an earlier commit, and says so by its number.
    RolledBack,
    /// `verify` finds it.
    Verified,
    /// `verify` is content, and a later call notices.
    Late,
}

/// What came to light on the way.
#[derive(Debug, Default)]
pub struct Report {
    pub commits: u64,
    /// What `verify` said.
    pub findings: Vec<String>,
    /// Errors of other calls.
    pub errors: Vec<String>,
    /// What is not as it should be. Must have been noticed.
    pub differences: Vec<String>,
    /// What must not be, noticed or not.
    pub wrong: Vec<String>,
    /// The tasks that were handed out with their bodies, by `peek` and by takes.
    pub peeked: BTreeSet<u64>,
    pub taken: BTreeSet<u64>,
}

/// Puts a damaged file to the test; what must not be is told in words.
pub fn trial(specimen: &Specimen, image: &Image, home: &Home) -> Result<(Fate, Report), String> {
    trial_with(specimen, image, home, false)
}

/// As `trial`; with `look_only`, a file in which `verify` finds damage is not worked on.
pub fn trial_with(
    specimen: &Specimen,
    image: &Image,
    home: &Home,
    look_only: bool,
) -> Result<(Fate, Report), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| Trial::run(specimen, image, home, look_only)));
    let report = match ran {
        Ok(Err(_)) => return Ok((Fate::Refused, Report::default())),
        Ok(Ok(report)) => report,
        Err(panic) => {
            let told = panic.downcast_ref::<String>().map(String::as_str);
            let told = told.or_else(|| panic.downcast_ref::<&str>().copied());
            return Err(format!("a panic got out: {}", told.unwrap_or("of no words")));
        }
    };
    if !report.wrong.is_empty() {
        return Err(report.wrong.join("; "));
    }
    let fate = if !report.findings.is_empty() {
        Fate::Verified
    } else if !report.errors.is_empty() {
        Fate::Late
    } else if !report.differences.is_empty() {
        return Err(format!("nobody noticed: {}", report.differences.join("; ")));
    } else if report.commits < image.last {
        Fate::RolledBack
    } else {
        Fate::Harmless
    };
    Ok((fate, report))
}

/// Where the damaged bytes are.
pub enum Home {
    Memory(Disk),
    File(PathBuf),
}

impl Home {
    pub fn of(bytes: Vec<u8>) -> Home {
        Home::Memory(Disk::new(bytes))
    }

    fn open(&self, clock: &ManualClock) -> Result<Store, Error> {
        match self {
            Home::Memory(disk) => options(clock).open_on(disk.plug()),
            Home::File(path) => options(clock).open(path),
        }
    }
}

struct Trial<'a> {
    home: &'a Home,
    specimen: &'a Specimen,
    clock: ManualClock,
    store: Store,
    report: Report,
}

impl<'a> Trial<'a> {
    fn run(
        specimen: &'a Specimen,
        image: &Image,
        home: &'a Home,
        look_only: bool,
    ) -> Result<Report, Error> {
        let clock = clock();
        let store = home.open(&clock)?;
        let commits = store.counters().opened_at;
        let report = Report { commits, ..Report::default() };
        let mut trial = Trial { home, specimen, clock, store, report };
        trial.verify();
        let expected = specimen.at(commits);
        if expected.is_empty() || commits > image.last {
            trial.report.differences.push(format!("there was no commit {commits}"));
        }
        let listed = trial.look();
        trial.compare(&listed, expected);
        if look_only && !trial.report.findings.is_empty() {
            return Ok(trial.report);
        }
        let kept = trial.take_all(&listed, expected);
        trial.go_on(&kept);
        Ok(trial.report)
    }

    fn verify(&mut self) {
        match self.store.verify() {
            Ok(findings) => self.report.findings.extend(findings),
            Err(error) => self.report.findings.push(error.to_string()),
        }
    }

    fn heard<T>(&mut self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.report.errors.push(error.to_string());
                None
            }
        }
    }

    /// A body that was handed out must be the one that was put.
    fn check_body(&mut self, how: &str, id: u64, body: &[u8]) {
        match self.specimen.originals.get(&id) {
            None => self.report.differences.push(format!("{how} task {id}, which never was")),
            Some(original) if original.body != body => {
                self.report.wrong.push(format!("{how} task {id} with a wrong body"));
            }
            Some(_) => {}
        }
    }

    /// All that the store tells about its tasks.
    fn look(&mut self) -> BTreeMap<u64, (String, State)> {
        let mut listed = BTreeMap::new();
        for info in self.store.tubes() {
            let Some(tube) = self.heard(self.store.tube(&info.name)) else { continue };
            for state in [State::Ready, State::Delayed, State::Buried] {
                for id in self.list(&tube, state) {
                    let known = listed.insert(id, (info.name.clone(), state));
                    if let Some(known) = known {
                        let told = format!("task {id} is in {:?} and in {known:?}", info.name);
                        self.report.differences.push(told);
                    }
                }
            }
        }
        for (id, original) in &self.specimen.originals {
            let name = listed.get(id).map_or(original.tube, |(tube, _)| tube.as_str());
            let Ok(tube) = self.store.tube(name) else { continue };
            match tube.peek(*id) {
                Ok(task) => {
                    self.check_body("peeked at", *id, &task.data);
                    self.report.peeked.insert(*id);
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => self.report.errors.push(error.to_string()),
            }
        }
        listed
    }

    fn list(&mut self, tube: &Tube, state: State) -> Vec<u64> {
        let (mut all, mut place): (_, Option<Place>) = (Vec::new(), None);
        while let Some(page) = self.heard(tube.list(state, place.take(), 1000)) {
            all.extend(page.tasks.iter().map(|task| task.id));
            match page.next {
                Some(_) if all.len() > 100_000 => {
                    self.report.wrong.push("a list without an end".into());
                    break;
                }
                Some(next) => place = Some(next),
                None => break,
            }
        }
        all
    }

    fn compare(&mut self, listed: &BTreeMap<u64, (String, State)>, expected: &[Arc<Tasks>]) {
        let told: Vec<String> =
            expected.iter().filter_map(|tasks| difference(listed, tasks)).collect();
        if told.len() == expected.len() {
            self.report.differences.extend(told);
        }
    }

    /// Takes and acks everything, delays over; answers with what could not be.
    fn take_all(
        &mut self,
        listed: &BTreeMap<u64, (String, State)>,
        expected: &[Arc<Tasks>],
    ) -> BTreeSet<u64> {
        self.clock.advance(Duration::from_secs(7200));
        for info in self.store.tubes() {
            let Some(tube) = self.heard(self.store.tube(&info.name)) else { continue };
            let kicked = tube.kick(1000);
            self.heard(kicked);
            self.empty(&tube);
        }
        let left: BTreeSet<u64> =
            listed.keys().filter(|id| !self.report.taken.contains(*id)).copied().collect();
        if expected.iter().all(|tasks| tasks.keys().any(|id| !self.report.taken.contains(id))) {
            self.report.differences.push(format!("not all could be taken: {left:?} are left"));
        }
        left
    }

    fn empty(&mut self, tube: &Tube) {
        let mut refused = 0;
        let mut held: Vec<Claim> = Vec::new();
        loop {
            match tube.try_take() {
                Ok(Some(claim)) => {
                    self.check_body("took", claim.id(), claim.data());
                    if !self.report.taken.insert(claim.id()) {
                        let told = format!("task {} was taken a second time", claim.id());
                        self.report.differences.push(told);
                        refused += 1;
                    }
                    held.push(claim);
                }
                Ok(None) if held.is_empty() => return,
                Ok(None) => {
                    for receipt in
                        self.heard(Claim::ack_many(std::mem::take(&mut held))).unwrap_or_default()
                    {
                        self.heard(receipt);
                    }
                }
                Err(error) => {
                    self.report.errors.push(error.to_string());
                    refused += 1;
                }
            }
            if refused > PATIENCE {
                return;
            }
        }
    }

    /// A store that seems sound goes on like one: new tasks get new ids, and after a restart
    /// there are those and nothing else.
    fn go_on(&mut self, left: &BTreeSet<u64>) {
        let mut put = BTreeMap::new();
        for info in self.store.tubes() {
            let Some(tube) = self.heard(self.store.tube(&info.name)) else { continue };
            let bodies = [0, 1, 2].map(|nth| vec![nth; 600 * usize::from(nth)]);
            let receipts = self.heard(tube.put_many(bodies.clone())).unwrap_or_default();
            for (receipt, body) in receipts.iter().zip(bodies) {
                put.insert(receipt.id, body);
                if self.specimen.originals.contains_key(&receipt.id) {
                    let told = format!("id {} was given out before", receipt.id);
                    self.report.differences.push(told);
                }
            }
        }
        let closed = self.store.close();
        self.heard(closed);
        let Some(store) = self.heard(self.home.open(&self.clock)) else { return };
        self.store = store;
        let noticed = !self.report.findings.is_empty();
        self.verify();
        if !noticed && !self.report.findings.is_empty() {
            let told = std::mem::take(&mut self.report.findings);
            self.report.errors.extend(told.into_iter().map(|told| format!("only later: {told}")));
        }
        for info in self.store.tubes() {
            let Some(tube) = self.heard(self.store.tube(&info.name)) else { continue };
            for state in [State::Ready, State::Delayed, State::Buried] {
                for id in self.list(&tube, state) {
                    if put.contains_key(&id) || left.contains(&id) {
                        continue;
                    }
                    self.report.differences.push(format!("task {id} is back after a restart"));
                }
            }
            for (id, body) in &put {
                match tube.peek(*id) {
                    Ok(task) if task.data == *body => {}
                    Ok(_) => self.report.wrong.push(format!("new task {id} has a wrong body")),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => self.report.errors.push(error.to_string()),
                }
            }
        }
    }
}

/// The first few things in which what is there is not what should be.
fn difference(listed: &BTreeMap<u64, (String, State)>, tasks: &Tasks) -> Option<String> {
    let lost = tasks.iter().filter_map(|(id, (tube, state))| match listed.get(id) {
        None => Some(format!("task {id} of {tube:?} is lost")),
        Some((in_tube, in_state)) if in_tube != tube || in_state != state => {
            Some(format!("task {id} of {tube:?} ({state:?}) is {in_state:?} in {in_tube:?}"))
        }
        Some(_) => None,
    });
    let back = listed.iter().filter(|(id, _)| !tasks.contains_key(id));
    let back = back.map(|(id, (tube, _))| format!("task {id} is back in {tube:?}"));
    let all: Vec<String> = lost.chain(back).take(4).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
