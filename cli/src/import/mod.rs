//! `import`: a task for each line of standard input, in large atomic batches; or, line by line, what
//! `export` wrote.

mod lines;
mod parse;

use std::io::{IsTerminal, stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::json;
use tubewell::{Deferred, Error, MAX_BODY, Put, Receipt, Store, Ticket, Tube, WhenFull};

use crate::args::{self, Format};
use crate::commands::with_options;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count, note, size};
use crate::progress::Progress;
use crate::{signals, store};
use lines::Chunk;
pub use lines::{Input, cut};
use parse::Exported;
pub use parse::task;

/// A batch is one commit. Larger ones take more memory and are hardly faster.
const BATCH_TASKS: usize = 50_000;
const BATCH_BYTES: usize = 32 << 20;
/// When the input pauses so long, what has come is stored.
const PAUSE: Duration = Duration::from_millis(100);
/// How long after it a signal may come that has cut off the last line.
const MOMENT: Duration = Duration::from_millis(50);

/// Imports standard input.
pub fn run(store: &Store, asked: &args::Import, output: &mut Output) -> Outcome {
    let tube = asked.tube.as_ref().map(|name| store::tube_to_fill(store, name)).transpose()?;
    if stdin().is_terminal() {
        note("reading tasks from the terminal, one a line; Ctrl-D ends");
    }
    let progress = match lines::length() {
        // A bar would get between the lines that are being typed.
        None if stdin().is_terminal() => Progress::none(),
        Some(bytes) => Progress::bytes("importing", bytes),
        None => Progress::stream("importing"),
    };
    let (to, input) = sync_channel(4);
    let stop = to.clone();
    let signal = signals::forward(move |signal| stop.send(Input::Signal(signal)).is_ok())?;
    lines::read_in_background(to)?;
    let mut import = Import {
        store,
        tube: tube.map(|tube| Target::new(&tube)),
        tubes: 0,
        asked,
        signal,
        batch: Vec::new(),
        bytes: 0,
        flying: None,
        stored: 0,
        last: 0,
    };
    let done = import.all(&input, &progress);
    progress.end();
    let stored = import.stored;
    if output.json {
        let line = done.as_ref().err().and_then(|stop| stop.line);
        let mut told = json!({ "stored": stored, "failed_line": line });
        match &asked.tube {
            Some(tube) => told["tube"] = json!(tube),
            None => told["tubes"] = json!(import.tubes),
        }
        output.object(&told)?;
    }
    match done {
        Ok(()) if output.json => Ok(()),
        Ok(()) => {
            let place = asked.tube.clone().unwrap_or_else(|| count(import.tubes, "tube"));
            output.line(format!("stored {} in {place}", count(stored, "task")))
        }
        Err(stop) => Err(stop.told(stored, import.last)),
    }
}

/// Why an import ended early.
struct Stop {
    failure: Failure,
    /// The first line that is not in the store.
    line: Option<u64>,
}

impl Stop {
    fn told(self, stored: u64, last: u64) -> Failure {
        let mut failure = self.failure;
        failure.message = format!(
            "{}; {} stored",
            failure.message,
            match stored {
                0 => "nothing was".to_owned(),
                1 => "1 task was".to_owned(),
                _ => format!("{stored} tasks were"),
            }
        );
        if failure.exit != Exit::Failed {
            let next = self.line.unwrap_or(last + 1);
            failure.hint = Some(format!(
                "nothing from line {next} on was stored; to go on there: \
                 tail -n +{next} FILE | tubewell import …"
            ));
        }
        failure
    }
}

/// Where tasks go.
#[derive(Clone)]
struct Target {
    name: String,
    driver: String,
    tube: Deferred,
}

impl Target {
    fn new(tube: &Tube) -> Target {
        Target {
            name: tube.name().to_owned(),
            driver: tube.driver().to_owned(),
            tube: tube.deferred(WhenFull::Block),
        }
    }
}

/// A task to be stored, and the number of its line.
#[derive(Clone)]
struct Task {
    line: u64,
    put: Put,
    buried: bool,
}

/// A batch on its way into the file.
struct Flight {
    to: Deferred,
    /// Which of its tasks are to be buried.
    buried: Vec<usize>,
    ticket: Ticket<Vec<Receipt>>,
    first: u64,
    last: u64,
}

struct Import<'a> {
    store: &'a Store,
    /// `None` until an export names one.
    tube: Option<Target>,
    /// How many an export has named.
    tubes: u64,
    asked: &'a args::Import,
    signal: signals::Asked,
    /// Tasks to be stored next.
    batch: Vec<Task>,
    bytes: usize,
    /// The batch that is being written while the next one is read.
    flying: Option<Flight>,
    stored: u64,
    /// The last line of which the task is stored.
    last: u64,
}

impl Import<'_> {
    /// Imports until the end of the input, or a reason to stop. Nothing is on its way afterwards.
    fn all(&mut self, input: &Receiver<Input>, progress: &Progress) -> Result<(), Stop> {
        let read = self.read(input, progress);
        let landed = self.land();
        // What did not reach the file came before what could not be read.
        landed.and(read)
    }

    fn read(&mut self, input: &Receiver<Input>, progress: &Progress) -> Result<(), Stop> {
        let (mut seen, mut cut_off) = (0, false);
        loop {
            let next = match input.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {
                    self.store()?;
                    input.recv().ok()
                }
                other => other.ok(),
            };
            // Ctrl-C ends the one who writes, too: what looks like the end of the input, in the
            // middle of a line perhaps, is none.
            if let Some(signal) = self.signal.to_stop() {
                return Err(Stop::by(signal));
            }
            match next {
                None => return self.store(),
                Some(Input::End) => {
                    if cut_off && let Ok(Input::Signal(signal)) = input.recv_timeout(MOMENT) {
                        return Err(Stop::by(signal));
                    }
                    return self.store();
                }
                Some(Input::Lines(chunk)) => {
                    cut_off = chunk.bytes == 0 && !chunk.lines.is_empty();
                    seen += chunk.bytes;
                    self.add(chunk)?;
                    progress.set(seen);
                    progress.say(format!("{} stored", self.stored));
                }
                Some(Input::Broken(failure)) => {
                    self.store()?;
                    return Err(Stop { failure, line: None });
                }
                Some(Input::TooLong(line)) => {
                    self.store()?;
                    let why =
                        format!("it is too long: a body has {} at most", size(MAX_BODY as u64));
                    return Err(Stop::at(line, Failure::new(Exit::Partly, why)));
                }
                Some(Input::Signal(signal)) => return Err(Stop::by(signal)),
            }
        }
    }

    fn add(&mut self, chunk: Chunk) -> Result<(), Stop> {
        for (line, text) in (chunk.first..).zip(chunk.lines) {
            let size = text.len();
            let stop = |why: String| Stop::at(line, Failure::new(Exit::Partly, why));
            match self.parse(line, text) {
                Ok(None) => continue,
                Ok(Some(task)) => self.batch.push(task),
                Err(Refusal::Line(why)) => {
                    self.store()?;
                    return Err(stop(why));
                }
                Err(Refusal::Store(told)) => return Err(told),
            }
            self.bytes += size;
            if self.batch.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES {
                self.store()?;
            }
        }
        Ok(())
    }

    /// The task of a line; `None` if it has none.
    fn parse(&mut self, line: u64, text: Vec<u8>) -> Result<Option<Task>, Refusal> {
        let options = &self.asked.options;
        let put = match self.asked.format {
            _ if self.asked.all => return self.parse_exported(line, &text),
            Format::Lines => Some(with_options(Put::new(text), options)),
            Format::Json => parse::task(&text, options).map_err(Refusal::Line)?,
        };
        Ok(put.map(|put| Task { line, put, buried: false }))
    }

    fn parse_exported(&mut self, line: u64, text: &[u8]) -> Result<Option<Task>, Refusal> {
        let refused = |error: Error| Refusal::Line(Failure::from(error).message);
        match parse::exported(text).map_err(Refusal::Line)? {
            None => Ok(None),
            Some(Exported::Tube { name, driver, options }) => {
                self.store().map_err(Refusal::Store)?;
                let tube = self.store.create_tube(&name, &driver, options).map_err(refused)?;
                self.tubes += 1;
                self.tube = Some(Target::new(&tube));
                Ok(None)
            }
            Some(Exported::Task { tube, task }) => {
                if self.tube.as_ref().is_none_or(|target| target.name != tube) {
                    self.store().map_err(Refusal::Store)?;
                    // Input that goes on in the middle has not named it.
                    let found = self.store.tube(&tube).map_err(refused)?;
                    self.tube = Some(Target::new(&found));
                }
                let driver = self.tube.as_ref().map_or("", |target| &target.driver);
                Ok(Some(Task { line, buried: task.buried, put: task.put(driver) }))
            }
        }
    }

    fn store(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.put(&batch)
    }

    /// Sends a batch on its way, wholly. If one of its tasks is refused, the halves tell which: all
    /// before it are stored.
    fn put(&mut self, batch: &[Task]) -> Result<(), Stop> {
        let (Some(one), Some(other), Some(to)) = (batch.first(), batch.last(), &self.tube) else {
            return Ok(());
        };
        let (first, last, to) = (one.line, other.line, to.tube.clone());
        match to.put_many(batch.iter().map(|task| task.put.clone())) {
            Ok(ticket) => {
                let tasks = batch.iter().enumerate();
                let buried = tasks.filter(|(_, task)| task.buried).map(|(nth, _)| nth).collect();
                let before = self.flying.replace(Flight { to, buried, ticket, first, last });
                before.map_or(Ok(()), |flight| self.wait(flight))
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
            Err(error) => Err(Stop { failure: error.into(), line: Some(first) }),
        }
    }

    fn land(&mut self) -> Result<(), Stop> {
        self.flying.take().map_or(Ok(()), |flight| self.wait(flight))
    }

    fn wait(&mut self, flight: Flight) -> Result<(), Stop> {
        let Flight { to, buried, ticket, first, last } = flight;
        let stored = ticket.wait().and_then(|receipts| {
            // Decided one by one, and flushed together.
            let set_aside = buried.iter().filter_map(|nth| receipts.get(*nth));
            let tickets = set_aside.map(|put| to.bury(put.id)).filter(is_there);
            let tickets = tickets.collect::<tubewell::Result<Vec<_>>>()?;
            tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop))?;
            Ok(receipts)
        });
        match stored {
            Ok(receipts) => {
                self.stored += receipts.len() as u64;
                self.last = last;
                Ok(())
            }
            Err(error) => {
                let unknown = matches!(error, Error::OutcomeUnknown { .. });
                let mut failure = Failure::from(error);
                if unknown {
                    failure.message = format!(
                        "{}; whether lines {first} to {last} are stored shows in `tubewell stats`",
                        failure.message
                    );
                }
                Err(Stop { failure, line: Some(first) })
            }
        }
    }
}

/// Why a line gives no task.
enum Refusal {
    /// The line is wrong.
    Line(String),
    /// What came before it could not be stored.
    Store(Stop),
}

/// Whether a task that was put a moment ago has not come to the end of its life already.
fn is_there<T>(buried: &tubewell::Result<T>) -> bool {
    !matches!(buried, Err(Error::NotFound { .. }))
}

/// Whether a task cannot be put, rather than that the store cannot be written.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. } | Error::Unsupported { .. } | Error::Full { .. })
}

impl Stop {
    fn by(signal: u8) -> Stop {
        let failure = Failure::new(Exit::Signal(signal), "stopped by a signal");
        Stop { failure, line: None }
    }

    fn at(line: u64, failure: Failure) -> Stop {
        Stop { failure: failure.about(format!("line {line}")), line: Some(line) }
    }
}
