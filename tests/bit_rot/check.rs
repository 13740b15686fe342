//! Checks one damaged file: every difference from the undamaged file must be detected, and every
//! body that a call returns must be the one that was put.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Claim, Cursor, Error, Filter, ManualClock, Store, TaskState, Tube};

use crate::disk::Disk;
use crate::every_row::{self, Differences};
use crate::sample::{Image, Sample, Tasks, clock, options};

/// After more failed takes than this, the rest of a tube is skipped.
const MAX_FAILED_TAKES: usize = 8;
/// The states of tasks that a take may return, now or later.
const OPEN: [TaskState; 4] =
    [TaskState::Ready, TaskState::Delayed, TaskState::Buried, TaskState::Blocked];

/// How the damage of a file was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// No difference, so nothing to detect.
    Harmless,
    /// The open returned an error.
    Refused,
    /// The store opened at an earlier commit; the commit number shows it.
    RolledBack,
    /// `verify` returned findings.
    FoundByVerify,
    /// `verify` returned no findings; a later call returned an error.
    FoundLater,
}

/// What the calls returned.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of the last commit at the open.
    pub opened_at: u64,
    /// The findings of `verify`.
    pub findings: Vec<String>,
    /// Errors of other calls.
    pub errors: Vec<String>,
    /// Differences from the undamaged file. They are allowed if the damage was detected.
    pub differences: Vec<String>,
    /// Results that are never allowed.
    pub wrong: Vec<String>,
    /// Tasks whose body `peek` returned.
    pub peeked: BTreeSet<u64>,
    /// Tasks that were taken.
    pub taken: BTreeSet<u64>,
}

/// Checks a damaged file. The error describes damage that was not detected, or a result that is
/// never allowed.
pub fn check(sample: &Sample, image: &Image, medium: &Medium) -> Result<(Outcome, Report), String> {
    check_with(sample, image, medium, false)
}

/// As `check`. With `read_only`, no commit is made to a file in which `verify` finds damage.
pub fn check_with(
    sample: &Sample,
    image: &Image,
    medium: &Medium,
    read_only: bool,
) -> Result<(Outcome, Report), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| Check::run(sample, image, medium, read_only)));
    let report = match ran {
        Ok(Err(_)) => return Ok((Outcome::Refused, Report::default())),
        Ok(Ok(report)) => report,
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            return Err(format!("a call panicked: {}", message.unwrap_or("without a message")));
        }
    };
    if !report.wrong.is_empty() {
        return Err(report.wrong.join("; "));
    }
    let outcome = if !report.findings.is_empty() {
        Outcome::FoundByVerify
    } else if !report.errors.is_empty() {
        Outcome::FoundLater
    } else if !report.differences.is_empty() {
        return Err(format!("not detected: {}", report.differences.join("; ")));
    } else if report.opened_at < image.last_commit {
        Outcome::RolledBack
    } else {
        Outcome::Harmless
    };
    Ok((outcome, report))
}

/// Where the damaged bytes are.
pub enum Medium {
    Memory(Disk),
    File(PathBuf),
}

impl Medium {
    pub fn in_memory(bytes: Vec<u8>) -> Medium {
        Medium::Memory(Disk::new(bytes))
    }

    fn open(&self, clock: &ManualClock) -> Result<Store, Error> {
        match self {
            Medium::Memory(disk) => options(clock).open_on(disk.storage()),
            Medium::File(path) => options(clock).open(path),
        }
    }
}

struct Check<'a> {
    medium: &'a Medium,
    sample: &'a Sample,
    clock: ManualClock,
    store: Store,
    report: Report,
}

impl<'a> Check<'a> {
    fn run(
        sample: &'a Sample,
        image: &Image,
        medium: &'a Medium,
        read_only: bool,
    ) -> Result<Report, Error> {
        let clock = clock();
        let store = medium.open(&clock)?;
        let opened_at = store.admin().counters().unwrap().opened_at;
        let report = Report { opened_at, ..Report::default() };
        let mut check = Check { medium, sample, clock, store, report };
        check.verify();
        let expected = sample.tasks_at(opened_at);
        if expected.is_empty() || opened_at > image.last_commit {
            check.report.differences.push(format!("there was no commit {opened_at}"));
        }
        let listed = check.list_and_peek();
        check.compare(&listed, expected);
        // A store that has lost its newest commits has lost some of these rows as well.
        let is_newest = opened_at == image.last_commit;
        if is_newest {
            check.read_every_row(image);
        }
        if read_only && !check.report.findings.is_empty() {
            return Ok(check.report);
        }
        if is_newest {
            check.put_again();
        }
        let left = check.take_all(&listed, expected);
        check.put_and_reopen(&left);
        Ok(check.report)
    }

    fn verify(&mut self) {
        match self.store.admin().verify() {
            Ok(findings) => self.report.findings.extend(findings),
            Err(error) => self.report.findings.push(error.to_string()),
        }
    }

    /// Records the error of a call.
    fn ok<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.report.errors.push(error.to_string());
                None
            }
        }
    }

    /// A body that a call returned must be the one that was put.
    fn check_body(&mut self, call: &str, id: u64, body: &[u8]) {
        match self.sample.originals.get(&id) {
            None => self.report.differences.push(format!("{call} task {id}, which was never put")),
            Some(original) if original.body != body => {
                self.report.wrong.push(format!("{call} task {id} with a wrong body"));
            }
            Some(_) => {}
        }
    }

    /// Reads the rows of all kinds. What they say must be what they said before the damage.
    fn read_every_row(&mut self, image: &Image) {
        let Differences { errors, lost, wrong } =
            Differences::of(&every_row::read(&self.store), &image.found);
        self.report.errors.extend(errors);
        self.report.differences.extend(lost);
        self.report.wrong.extend(wrong);
    }

    /// A put with a token that the tube has stored must return the stored task.
    fn put_again(&mut self) {
        for (stored, put) in every_row::put_again(&self.store) {
            match self.ok(put) {
                Some(id) if id != stored => {
                    self.report.differences.push(format!("task {stored} was put again as {id}"));
                }
                _ => {}
            }
        }
    }

    /// Lists and peeks all tasks. Returns the tube and the state of each listed task.
    fn list_and_peek(&mut self) -> BTreeMap<u64, (String, TaskState)> {
        let mut listed = BTreeMap::new();
        for info in self.store.tubes().unwrap() {
            let Some(tube) = self.ok(self.store.find_tube(&info.name)) else { continue };
            for state in OPEN.into_iter().chain([TaskState::Done]) {
                for id in self.list(&tube, state) {
                    let earlier = listed.insert(id, (info.name.clone(), state));
                    if let Some(earlier) = earlier {
                        let text = format!("task {id} is in {:?} and in {earlier:?}", info.name);
                        self.report.differences.push(text);
                    }
                }
            }
        }
        for (id, original) in &self.sample.originals {
            let name = listed.get(id).map_or(original.tube, |(tube, _)| tube.as_str());
            let Ok(tube) = self.store.find_tube(name) else { continue };
            match tube.query().task(*id) {
                Ok(task) => {
                    self.check_body("peeked at", *id, &task.body);
                    self.report.peeked.insert(*id);
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => self.report.errors.push(error.to_string()),
            }
        }
        listed
    }

    fn list(&mut self, tube: &Tube, state: TaskState) -> Vec<u64> {
        let (mut all, mut cursor): (_, Option<Cursor>) = (Vec::new(), None);
        while let Some(page) = self.ok(tube.query().list(state, cursor.take(), 1000)) {
            all.extend(page.items.iter().map(|task| task.id));
            if page.damaged > 0 {
                self.report.errors.push(format!("{} damaged tasks", page.damaged));
            }
            match page.next {
                Some(_) if all.len() > 100_000 => {
                    self.report.wrong.push("a list does not end".into());
                    break;
                }
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        all
    }

    fn compare(&mut self, listed: &BTreeMap<u64, (String, TaskState)>, expected: &[Arc<Tasks>]) {
        let found: Vec<String> =
            expected.iter().filter_map(|tasks| difference(listed, tasks)).collect();
        if found.len() == expected.len() {
            self.report.differences.extend(found);
        }
    }

    /// Takes and acks all tasks, after all delays have elapsed. Returns the tasks that are left.
    fn take_all(
        &mut self,
        listed: &BTreeMap<u64, (String, TaskState)>,
        expected: &[Arc<Tasks>],
    ) -> BTreeSet<u64> {
        self.clock.advance(Duration::from_secs(7200));
        for info in self.store.tubes().unwrap() {
            let Some(tube) = self.ok(self.store.find_tube(&info.name)) else { continue };
            let kicked = tube.admin().kick(Filter::new().limit(1000));
            self.ok(kicked);
            self.take_and_ack_all(&tube);
        }
        let left: BTreeSet<u64> =
            listed.keys().filter(|id| !self.report.taken.contains(*id)).copied().collect();
        let is_left = |(id, (_, state)): (&u64, &(&str, TaskState))| {
            OPEN.contains(state) && !self.report.taken.contains(id)
        };
        if expected.iter().all(|tasks| tasks.iter().any(is_left)) {
            self.report.differences.push(format!("tasks that could not be taken: {left:?}"));
        }
        left
    }

    fn take_and_ack_all(&mut self, tube: &Tube) {
        let mut failed = 0;
        let mut claims: Vec<Claim> = Vec::new();
        loop {
            match tube.try_take() {
                Ok(Some(claim)) => {
                    self.check_body("took", claim.id(), claim.body());
                    if !self.report.taken.insert(claim.id()) {
                        let text = format!("task {} was taken a second time", claim.id());
                        self.report.differences.push(text);
                        failed += 1;
                    }
                    claims.push(claim);
                }
                Ok(None) if claims.is_empty() => return,
                Ok(None) => {
                    for receipt in self
                        .ok(Claim::end_many(std::mem::take(&mut claims), |_| {
                            tubewell::Outcome::done()
                        }))
                        .unwrap_or_default()
                    {
                        self.ok(receipt);
                    }
                }
                Err(error) => {
                    self.report.errors.push(error.to_string());
                    failed += 1;
                }
            }
            if failed > MAX_FAILED_TAKES {
                return;
            }
        }
    }

    /// Puts tasks, which must get unused ids, and reopens the store, which must then have these
    /// tasks, those left by the takes, and no others.
    fn put_and_reopen(&mut self, left: &BTreeSet<u64>) {
        let mut put = BTreeMap::new();
        for info in self.store.tubes().unwrap() {
            let Some(tube) = self.ok(self.store.find_tube(&info.name)) else { continue };
            let bodies = [0, 1, 2].map(|nth| vec![nth; 600 * usize::from(nth)]);
            let receipts = self.ok(tube.put_many(bodies.clone())).unwrap_or_default();
            for (receipt, body) in receipts.iter().zip(bodies) {
                put.insert(receipt.id, body);
                if self.sample.originals.contains_key(&receipt.id) {
                    let text = format!("id {} was used before", receipt.id);
                    self.report.differences.push(text);
                }
            }
        }
        let closed = self.store.close();
        self.ok(closed);
        let Some(store) = self.ok(self.medium.open(&self.clock)) else { return };
        self.store = store;
        let detected = !self.report.findings.is_empty();
        self.verify();
        if !detected && !self.report.findings.is_empty() {
            let findings = std::mem::take(&mut self.report.findings);
            let later = findings.into_iter().map(|text| format!("after a reopen: {text}"));
            self.report.errors.extend(later);
        }
        for info in self.store.tubes().unwrap() {
            let Some(tube) = self.ok(self.store.find_tube(&info.name)) else { continue };
            for state in OPEN {
                for id in self.list(&tube, state) {
                    if put.contains_key(&id) || left.contains(&id) {
                        continue;
                    }
                    self.report.differences.push(format!("task {id} is back after a reopen"));
                }
            }
            for (id, body) in &put {
                match tube.query().task(*id) {
                    Ok(task) if task.body == *body => {}
                    Ok(_) => self.report.wrong.push(format!("new task {id} has a wrong body")),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => self.report.errors.push(error.to_string()),
                }
            }
        }
    }
}

/// The first differences between the listed and the expected tasks, at most four.
fn difference(listed: &BTreeMap<u64, (String, TaskState)>, tasks: &Tasks) -> Option<String> {
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
