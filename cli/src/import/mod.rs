//! `import`: a task for each line of standard input, in large atomic batches.

mod lines;
mod parse;

use std::io::{IsTerminal, stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::json;
use tubewell::{Deferred, Error, Put, Receipt, Store, Ticket, WhenFull};

use crate::args::{self, Format};
use crate::commands::with_options;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count, note};
use crate::progress::Progress;
use crate::{signals, store};
use lines::Chunk;
pub use lines::{Input, cut};
pub use parse::task;

/// A batch is one commit. Larger ones take more memory and are hardly faster.
const BATCH_TASKS: usize = 50_000;
const BATCH_BYTES: usize = 32 << 20;
/// When the input pauses so long, what has come is stored.
const PAUSE: Duration = Duration::from_millis(100);

/// Imports standard input.
pub fn run(store: &Store, asked: &args::Import, output: &mut Output) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
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
    signals::forward(move |signal| stop.send(Input::Signal(signal)).is_ok())?;
    lines::read_in_background(to)?;
    let mut import = Import {
        tube: tube.deferred(WhenFull::Block),
        asked,
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
        output.object(&json!({ "tube": asked.tube, "stored": stored, "failed_line": line }))?;
    }
    match done {
        Ok(()) if output.json => Ok(()),
        Ok(()) => output.line(format!("stored {} in {}", count(stored, "task"), asked.tube)),
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

/// A batch on its way into the file.
struct Flight {
    ticket: Ticket<Vec<Receipt>>,
    first: u64,
    last: u64,
}

struct Import<'a> {
    tube: Deferred,
    asked: &'a args::Import,
    /// Tasks to be stored next, each with the number of its line.
    batch: Vec<(u64, Put)>,
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
        let mut seen = 0;
        loop {
            let next = match input.recv_timeout(PAUSE) {
                Err(RecvTimeoutError::Timeout) => {
                    self.store()?;
                    input.recv().ok()
                }
                other => other.ok(),
            };
            match next {
                None | Some(Input::End) => return self.store(),
                Some(Input::Lines(chunk)) => {
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
                    return Err(Stop::at(line, Failure::new(Exit::Partly, "it is too long")));
                }
                Some(Input::Signal(signal)) => {
                    let failure = Failure::new(Exit::Signal(signal), "stopped by a signal");
                    return Err(Stop { failure, line: None });
                }
            }
        }
    }

    fn add(&mut self, chunk: Chunk) -> Result<(), Stop> {
        let options = &self.asked.options;
        for (line, text) in (chunk.first..).zip(chunk.lines) {
            let size = text.len();
            let parsed = match self.asked.format {
                Format::Lines => Ok(Some(with_options(Put::new(text), options))),
                Format::Json => parse::task(&text, options),
            };
            match parsed {
                Ok(None) => continue,
                Ok(Some(task)) => self.batch.push((line, task)),
                Err(why) => {
                    self.store()?;
                    return Err(Stop::at(line, Failure::new(Exit::Partly, why)));
                }
            }
            self.bytes += size;
            if self.batch.len() >= BATCH_TASKS || self.bytes >= BATCH_BYTES {
                self.store()?;
            }
        }
        Ok(())
    }

    fn store(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.put(&batch)
    }

    /// Sends a batch on its way, wholly. If one of its tasks is refused, the halves tell which: all
    /// before it are stored.
    fn put(&mut self, batch: &[(u64, Put)]) -> Result<(), Stop> {
        let (Some((first, _)), Some((last, _))) = (batch.first(), batch.last()) else {
            return Ok(());
        };
        let (first, last) = (*first, *last);
        match self.tube.put_many(batch.iter().map(|(_, task)| task.clone())) {
            Ok(ticket) => {
                let before = self.flying.replace(Flight { ticket, first, last });
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
        let Flight { ticket, first, last } = flight;
        match ticket.wait() {
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

/// Whether a task cannot be put, rather than that the store cannot be written.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. } | Error::Unsupported { .. } | Error::Full { .. })
}

impl Stop {
    fn at(line: u64, failure: Failure) -> Stop {
        Stop { failure: failure.about(format!("line {line}")), line: Some(line) }
    }
}
