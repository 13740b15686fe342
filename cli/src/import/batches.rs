//! The batches of an import: each is one commit, and one is written while the next one is read.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tubewell::expert::Restore;
use tubewell::{AsyncTube, Error, MAX_BODY, Put, Receipt, Store, Ticket, Tube};

use super::ids::{NewIds, Place};
use super::lines::{Chunk, Input};
use super::stop::{Refusal, Stop, is_refusal};
use super::waiting::Waiting;
use crate::args::{self, Format};
use crate::failure::{Exit, Failure};
use crate::output::{count, size};
use crate::progress::Progress;
use crate::signals;
use tubewell_json::put;

/// A batch is one commit. Larger ones take more memory and are hardly faster.
const BATCH_TASKS: usize = 50_000;
const BATCH_BYTES: usize = 32 << 20;
/// After this pause of the input the lines so far are stored.
const PAUSE: Duration = Duration::from_millis(100);
/// How long after the end of the input a signal may arrive that cut off the last line.
const SIGNAL_LAG: Duration = Duration::from_millis(250);

/// The tube that the lines go to.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) keeps_done: bool,
    pub(super) tube: AsyncTube,
    /// Its place among the tubes of the import.
    pub(super) number: u32,
}

/// A task to store, and the number of its line.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) line: u64,
    /// The id in the other store, if the place of the task is noted once it is stored.
    pub(super) id: Option<u64>,
    pub(super) restore: Restore,
}

/// A batch whose commit is under way.
struct InFlight {
    ticket: Ticket<Vec<Receipt>>,
    first: u64,
    last: u64,
    /// The number of its tube, and the ids of its tasks in the other store.
    tube: u32,
    ids: Vec<Option<u64>>,
}

pub(super) struct Import<'a> {
    pub(super) store: &'a Store,
    /// `None` until a line of an export names a tube.
    pub(super) target: Option<Target>,
    /// How many tubes the export has named.
    pub(super) tubes: u64,
    /// The tubes that tasks went to, and their numbers by their names.
    pub(super) tubes_by_number: Vec<Tube>,
    pub(super) numbers: BTreeMap<String, u32>,
    pub(super) args: &'a args::Import,
    pub(super) keeps_ids: bool,
    /// The id of the next task, if the import gives new ids and a task with parents was read.
    pub(super) next_id: Option<u64>,
    pub(super) signal: signals::StopSignal,
    /// The tasks to store next.
    pub(super) batch: Vec<Task>,
    pub(super) bytes: usize,
    /// How many parents they have.
    pub(super) parents: usize,
    /// The batch that is written while the next one is read.
    in_flight: Option<InFlight>,
    pub(super) stored: u64,
    /// Done tasks of tubes that keep none.
    pub(super) left_out: u64,
    /// Lines of which nothing was put, since a buried task has the key.
    pub(super) kept_buried: u64,
    /// The last line whose task is stored.
    pub(super) last: u64,
    pub(super) ids: NewIds,
    pub(super) waiting: Waiting,
    /// Tasks of batches that are not stored yet, whose ids are known after that: each may be that of
    /// the task that has its key.
    pub(super) unresolved: HashSet<u64>,
    /// How many tasks have parents that are not known.
    pub(super) unknown: u64,
}

impl<'a> Import<'a> {
    /// `path`: that of the store.
    pub(super) fn new(
        store: &'a Store,
        path: &Path,
        args: &'a args::Import,
        keeps_ids: bool,
        signal: signals::StopSignal,
    ) -> Import<'a> {
        Import {
            store,
            target: None,
            tubes: 0,
            tubes_by_number: Vec::new(),
            numbers: BTreeMap::new(),
            args,
            keeps_ids,
            next_id: None,
            signal,
            batch: Vec::new(),
            bytes: 0,
            parents: 0,
            in_flight: None,
            stored: 0,
            left_out: 0,
            kept_buried: 0,
            last: 0,
            ids: NewIds::default(),
            waiting: Waiting::new(path),
            unresolved: HashSet::new(),
            unknown: 0,
        }
    }
}

impl Import<'_> {
    /// Imports until the end of the input, or a reason to stop. No batch is in flight afterwards.
    pub(super) fn run(&mut self, input: &Receiver<Input>, progress: &Progress) -> Result<(), Stop> {
        let read = self.read(input, progress);
        let finished = self.finish_batch();
        // A batch that failed comes before a line that could not be read.
        let done = finished.and(read);
        let end = done.as_ref().err().map_or(u64::MAX, |stop| stop.line.unwrap_or(self.last + 1));
        match (done, self.store_waiting(end)) {
            (Err(stop), Err(other)) if stop.failure.exit == Exit::Failed => {
                Err(Stop { left: other.left, ..stop })
            }
            (done, waiting) => waiting.and(done),
        }
    }

    fn read(&mut self, input: &Receiver<Input>, progress: &Progress) -> Result<(), Stop> {
        let mut seen = 0;
        loop {
            let next = match input.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {
                    self.store_batch()?;
                    input.recv().ok()
                }
                other => other.ok(),
            };
            // Ctrl-C ends the writer of the pipe too, perhaps in the middle of a line. So after a
            // signal the end of the input does not count.
            if let Some(signal) = self.signal.number() {
                return Err(Stop::by_signal(signal));
            }
            match next {
                None => return self.store_batch(),
                Some(Input::End(last)) => {
                    if let Some(last) = last {
                        if let Ok(Input::Signal(signal)) = input.recv_timeout(SIGNAL_LAG) {
                            return Err(Stop::by_signal(signal));
                        }
                        self.add(last)?;
                    }
                    return self.store_batch();
                }
                Some(Input::Lines(chunk)) => {
                    seen += chunk.bytes;
                    self.add(chunk)?;
                    progress.set(seen);
                    progress.set_message(format!("{} stored", self.stored));
                }
                Some(Input::Broken(failure)) => {
                    self.store_batch()?;
                    return Err(Stop { failure, line: None, left: 0 });
                }
                Some(Input::TooLong(line)) => {
                    self.store_batch()?;
                    let limit = size(MAX_BODY as u64);
                    let why = format!("the line is too long: a body has at most {limit}");
                    return Err(Stop::at(line, Failure::new(Exit::Partly, why)));
                }
                Some(Input::Signal(signal)) => return Err(Stop::by_signal(signal)),
            }
        }
    }

    fn add(&mut self, chunk: Chunk) -> Result<(), Stop> {
        for (line, text) in (chunk.first..).zip(chunk.lines) {
            let size = text.len();
            match self.parse(line, text) {
                Ok(None) => {}
                Ok(Some(task)) => self.push(task, size)?,
                Err(refusal) => {
                    self.store_batch()?;
                    return Err(refusal.stop_at(line));
                }
            }
        }
        Ok(())
    }

    /// Adds a task to the batch, and stores that if it is large enough.
    pub(super) fn push(&mut self, task: Task, size: usize) -> Result<(), Stop> {
        self.batch.push(task);
        self.bytes += size;
        if self.batch.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES {
            self.store_batch()?;
        }
        Ok(())
    }

    /// The task of a line; `None` if it has none.
    fn parse(&mut self, line: u64, text: Vec<u8>) -> Result<Option<Task>, Refusal> {
        let options = &self.args.options;
        let put = match self.args.format {
            _ if self.args.all => return self.parse_exported(line, &text),
            Format::Lines => Some(options.apply(Put::new(text))),
            Format::Json => put::task(&text, &options.plain()).map_err(Refusal::Line)?,
        };
        let on_key = self.on_key();
        Ok(put.map(|put| Task { line, id: None, restore: Restore::new(put.on_key(on_key)) }))
    }

    pub(super) fn on_key(&self) -> tubewell::OnKey {
        self.args.on_key.map(Into::into).unwrap_or_default()
    }

    pub(super) fn store_batch(&mut self) -> Result<(), Stop> {
        (self.bytes, self.parents) = (0, 0);
        let batch = std::mem::take(&mut self.batch);
        self.put(&batch)
    }

    /// Begins the commit of a batch. If one of its tasks is refused, the batch is halved until that
    /// task is found: all tasks before it are stored.
    fn put(&mut self, batch: &[Task]) -> Result<(), Stop> {
        let (Some(first), Some(last), Some(to)) = (batch.first(), batch.last(), &self.target)
        else {
            return Ok(());
        };
        let (first, last, tube, to) = (first.line, last.line, to.number, to.tube.clone());
        let ticket = to.admin().restore_many(batch.iter().map(|task| task.restore.clone()));
        let ids = batch.iter().map(|task| task.id).collect();
        if !ticket.is_done() {
            let before = self.in_flight.replace(InFlight { ticket, first, last, tube, ids });
            return before.map_or(Ok(()), |batch| self.wait(batch));
        }
        match ticket.wait() {
            Ok(receipts) => {
                self.finish_batch()?;
                self.note(last, tube, ids, receipts);
                Ok(())
            }
            Err(error) if is_refusal(&error) && batch.len() > 1 => {
                let (early, late) = batch.split_at(batch.len() / 2);
                self.put(early)?;
                self.put(late)
            }
            Err(error) if is_refusal(&error) => {
                let failure = Failure::new(Exit::Partly, Failure::from(error).message);
                Err(Stop::at(first, failure))
            }
            Err(error) => Err(Stop { failure: error.into(), line: Some(first), left: 0 }),
        }
    }

    /// A batch is stored.
    fn note(&mut self, last: u64, tube: u32, ids: Vec<Option<u64>>, receipts: Vec<Receipt>) {
        self.stored += receipts.len() as u64;
        self.last = self.last.max(last);
        // Only a task that was kept for its key is buried by no line.
        let buried = receipts.iter().filter(|receipt| receipt.state == tubewell::TaskState::Buried);
        self.kept_buried += if self.args.all { 0 } else { buried.count() as u64 };
        for (old, receipt) in ids.into_iter().zip(receipts) {
            let Some(old) = old else { continue };
            self.ids.add(old, Place::Stored { tube, id: receipt.id });
            self.unresolved.remove(&old);
        }
    }

    pub(super) fn finish_batch(&mut self) -> Result<(), Stop> {
        self.in_flight.take().map_or(Ok(()), |batch| self.wait(batch))
    }

    fn wait(&mut self, batch: InFlight) -> Result<(), Stop> {
        let InFlight { ticket, first, last, tube, ids } = batch;
        match ticket.wait() {
            Ok(receipts) => {
                self.note(last, tube, ids, receipts);
                Ok(())
            }
            Err(error) => {
                let unknown = matches!(error, Error::OutcomeUnknown { .. });
                let mut failure = Failure::from(error);
                if unknown {
                    failure.message = format!(
                        "{}; `tubewell stats` shows whether lines {first} to {last} are stored",
                        failure.message
                    );
                }
                Err(Stop { failure, line: Some(first), left: 0 })
            }
        }
    }

    /// The failure of an import that stopped: how much is stored, and how to go on.
    pub(super) fn failure(&self, stop: Stop) -> Failure {
        let mut failure = stop.failure;
        failure.message = format!(
            "{}; {} stored",
            failure.message,
            match self.stored {
                0 => "nothing was".to_owned(),
                1 => "1 task was".to_owned(),
                number => format!("{number} tasks were"),
            }
        );
        if stop.left > 0 {
            let tasks = count(stop.left, "task");
            failure.hint = Some(format!(
                "tasks that wait for others are stored last: {tasks} of them are missing; \
                 to have them all, import the whole file into a new store"
            ));
        } else if failure.exit != Exit::Failed {
            let next = stop.line.unwrap_or(self.last + 1);
            let command =
                if self.args.all { "tubewell import --all" } else { "tubewell import …" };
            let mut hint = format!(
                "nothing from line {next} on was stored; to go on there: \
                 tail -n +{next} FILE | {command}"
            );
            if self.keeps_ids && self.stored > 0 {
                hint.push_str(
                    ", which gives new ids; to keep all ids import the whole file into a new store",
                );
            }
            failure.hint = Some(hint);
        }
        failure
    }
}
