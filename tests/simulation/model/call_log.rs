//! What the file must have after a kill or a power cut: the durability of tubes, and the log of
//! accepted calls that may not be in the file yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tubewell::Durability;

use super::{Edit, Micros, Model, NEVER, Seq, Stored, TubeNo};

/// When an answered change is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Temporary,
    Relaxed,
    Written,
    Flushed,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Temporary => "temporary",
            Level::Relaxed => "relaxed",
            Level::Written => "written",
            Level::Flushed => "flushed",
        }
    }
}

/// An accepted call whose edits may not be flushed yet.
#[derive(Debug)]
struct Call {
    edits: Vec<Edit>,
    /// When the store must have flushed it, unless its storage fails.
    flush_by: Micros,
}

#[derive(Clone, Debug, Default)]
struct File {
    tasks: BTreeMap<Seq, Stored>,
    tubes: BTreeSet<TubeNo>,
}

impl File {
    fn apply(&mut self, edits: &[Edit]) {
        for edit in edits {
            match edit {
                Edit::Task(seq, Some(stored)) => {
                    self.tasks.insert(*seq, *stored);
                }
                Edit::Task(seq, None) => {
                    self.tasks.remove(seq);
                }
                Edit::Tube(no, true) => {
                    self.tubes.insert(*no);
                }
                Edit::Tube(no, false) => {
                    self.tubes.remove(no);
                }
            }
        }
    }
}

/// What was found in an opened store: the names of its tubes, and its tasks with their tube's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub tubes: BTreeSet<String>,
    pub tasks: BTreeMap<Seq, (String, Stored)>,
}

/// What the file has for certain, and the calls after it.
#[derive(Debug, Default)]
pub(super) struct CallLog {
    /// What is in the file for certain, even after a power cut.
    file: File,
    /// All later calls. They are numbered over all runs of the store.
    pending: VecDeque<Call>,
    /// The number of the first pending call.
    first_pending: u64,
    /// The number of the first call that a kill may lose.
    first_unwritten: u64,
    /// As `first_unwritten`, before the power was cut.
    first_unwritten_before_cut: u64,
}

/// The calls that an opened store does not have.
pub struct Lost {
    pub calls: usize,
    /// Those among them that a kill would not have lost.
    pub written: u64,
}

impl Model {
    pub fn level(&self, tube: TubeNo) -> Level {
        let tube = &self.tubes[&tube];
        match tube.durability.unwrap_or(self.durability) {
            _ if tube.temporary => Level::Temporary,
            Durability::Relaxed { .. } => Level::Relaxed,
            Durability::Write { .. } => Level::Written,
            Durability::Flush => Level::Flushed,
        }
    }

    /// How long after a change in this tube its flush begins. A change that waits for its flush has
    /// no such time: the flush may fail.
    fn flush_within(&self, tube: TubeNo) -> Micros {
        let tube = &self.tubes[&tube];
        match tube.durability.unwrap_or(self.durability) {
            Durability::Relaxed { max_delay: within }
            | Durability::Write { flush_within: within }
                if !tube.temporary =>
            {
                u64::try_from(within.as_micros()).unwrap_or(NEVER)
            }
            _ => NEVER,
        }
    }

    /// Records the edits of an accepted call. Returns the call's number.
    pub fn record_call(&mut self, edits: &[Edit]) -> u64 {
        let stored = edits.iter().filter(|edit| match edit {
            Edit::Task(seq, _) => !self.tubes[&self.tasks[seq].tube].temporary,
            Edit::Tube(..) => true,
        });
        let within = edits.iter().map(|edit| match edit {
            Edit::Task(seq, _) => self.flush_within(self.tasks[seq].tube),
            Edit::Tube(..) => NEVER,
        });
        let flush_by = self.now.saturating_add(within.min().unwrap_or(NEVER));
        self.log.pending.push_back(Call { edits: stored.cloned().collect(), flush_by });
        self.log.first_pending + self.log.pending.len() as u64 - 1
    }

    /// A call that changed this tube has returned.
    pub fn mark_answered(&mut self, call: u64, tube: TubeNo) {
        match self.level(tube) {
            Level::Temporary | Level::Relaxed => {}
            // A record has everything that was decided before it.
            Level::Written => self.log.first_unwritten = self.log.first_unwritten.max(call + 1),
            Level::Flushed => self.mark_durable(call),
        }
    }

    /// Moves the edits of all calls up to this one into the file.
    pub fn mark_durable(&mut self, call: u64) {
        while self.log.first_pending <= call
            && let Some(call) = self.log.pending.pop_front()
        {
            self.log.first_pending += 1;
            self.log.file.apply(&call.edits);
        }
    }

    /// The clock has advanced and the storage works: calls whose flush was due are flushed.
    pub fn mark_due_flushes(&mut self) {
        if let Some(last) = self.log.pending.iter().rposition(|call| call.flush_by <= self.now) {
            self.mark_durable(self.log.first_pending + last as u64);
        }
    }

    /// The power was cut: written changes that were not flushed may be lost.
    pub fn cut_power(&mut self) {
        self.log.first_unwritten_before_cut = self.log.first_unwritten;
        self.log.first_unwritten = self.log.first_pending;
    }

    pub fn mark_all_durable(&mut self) {
        self.mark_durable(u64::MAX - 1);
    }

    /// Compares what was found in an opened store: it must be the file with the edits of the first
    /// pending calls, at least of those that were written. Returns the others, which were lost.
    #[track_caller]
    pub fn recover(&mut self, found: &Found) -> Lost {
        let mut file = self.log.file.clone();
        let mut matching = (self.visible_contents(&file) == *found).then_some((0, file.clone()));
        for (kept, call) in self.log.pending.iter().enumerate() {
            file.apply(&call.edits);
            // If several states match, the latest is assumed: the file cannot tell them apart.
            if self.visible_contents(&file) == *found {
                matching = Some((kept + 1, file.clone()));
            }
        }
        let Some((kept, file)) = matching else {
            panic!(
                "found {found:#?}\nwhich matches no call; in the file: {:#?}\npending: {:#?}",
                self.visible_contents(&self.log.file),
                self.log.pending
            );
        };
        let first_lost = self.log.first_pending + kept as u64;
        let lost = Lost {
            calls: self.log.pending.len() - kept,
            written: self.log.first_unwritten_before_cut.saturating_sub(first_lost),
        };
        let written = self.log.first_unwritten.saturating_sub(self.log.first_pending);
        assert!(
            kept as u64 >= written,
            "{written} pending calls were written, {kept} were found: {:#?}",
            self.log.pending
        );
        self.log.first_pending += self.log.pending.len() as u64;
        self.log.first_unwritten = self.log.first_pending;
        self.log.pending.clear();
        for (seq, task) in &mut self.tasks {
            if !self.tubes[&task.tube].temporary {
                task.stored = file.tasks.get(seq).copied();
            }
        }
        self.names = file.tubes.iter().map(|no| (self.tubes[no].name.clone(), *no)).collect();
        self.log.file = file;
        lost
    }

    /// What a store with this file would show.
    fn visible_contents(&self, file: &File) -> Found {
        let name = |seq: &Seq| self.tubes[&self.tasks[seq].tube].name.clone();
        let tasks = file.tasks.iter();
        Found {
            tubes: file.tubes.iter().map(|no| self.tubes[no].name.clone()).collect(),
            tasks: tasks
                .filter_map(|(seq, stored)| Some((*seq, (name(seq), stored.at(self.now)?))))
                .collect(),
        }
    }
}
