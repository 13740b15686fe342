//! Runs the recorded scenarios on the public interface.
//!
//! The scenarios are those of `tests/vectors`, or of the folder named by `TUBEWELL_VECTORS`;
//! `tests/vectors/FORMAT.md` says how they are written. Every scenario of every `.json` file is
//! run. One that differs is reported with its first differing step, and the others still run.
//! The program fails when any scenario differed, when a file cannot be read, when a field or a
//! verb is not known, and when there is nothing to run.
//!
//! What the recordings leave open is decided here, in one place:
//!
//! * a step without `task`, and a task whose put was refused, name a task that does not exist;
//! * `ack`, `release`, `touch`, `bury`, `delete` and `put` answer with a receipt, which has no data:
//!   for them the data of the put is compared, for `take`, `take_result` and `peek` the data that
//!   came back;
//! * a time below zero is zero;
//! * a blocking take answers only after it has told its waker so.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use serde::Deserialize;
use tubewell::{
    Claim, Error, ManualClock, Put, Receipt, Session, State, Statistics, Store, TakeFuture, Task,
    Tube, TubeOptions,
};

const TUBE: &str = "recorded";

/// No scenario puts so many tasks that one has this id.
const NO_TASK: u64 = u64::MAX;

fn main() -> ExitCode {
    let folder = std::env::var_os("TUBEWELL_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("vectors"),
        PathBuf::from,
    );
    match run_folder(&folder) {
        Ok(outcome) => {
            println!("{} scenarios", outcome.scenarios);
            if outcome.scenarios == 0 {
                println!("nothing to run in {}", folder.display());
                return ExitCode::FAILURE;
            }
            if outcome.failed > 0 {
                println!("{} failed", outcome.failed);
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Outcome {
    scenarios: usize,
    failed: usize,
}

fn run_folder(folder: &Path) -> Result<Outcome, String> {
    let unreadable = |error: &dyn fmt::Display| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();

    // All are read before any is run, so that a damaged file cannot hide behind a difference.
    let mut scenarios = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let file: File =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        scenarios.extend(file.scenarios);
    }

    let mut failed = 0;
    for scenario in &scenarios {
        let result = catch_unwind(AssertUnwindSafe(|| run_scenario(scenario)))
            .unwrap_or_else(|_| Err("panicked, see above".to_owned()));
        if let Err(difference) = result {
            failed += 1;
            println!("{}: {difference}", scenario.name);
        }
    }
    Ok(Outcome { scenarios: scenarios.len(), failed })
}

// ---- the files

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    driver: String,
    options: RecordedTubeOptions,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedTubeOptions {
    pri: Option<u32>,
    ttl: Option<f64>,
    ttr: Option<f64>,
    capacity: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Put {
        session: u32,
        data: String,
        options: PutOptions,
        want: Option<Answer>,
    },
    Take {
        session: u32,
        timeout: f64,
        want: Option<Answer>,
    },
    Ack {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Release {
        session: u32,
        task: Option<usize>,
        options: ReleaseOptions,
        want: Option<Answer>,
    },
    Touch {
        session: u32,
        task: Option<usize>,
        seconds: f64,
        want: Option<Answer>,
    },
    Bury {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Kick {
        session: u32,
        count: u64,
        want: Option<Answer>,
    },
    Delete {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Peek {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    ReleaseAll {
        session: Option<u32>,
    },
    Stats {
        session: Option<u32>,
        want: Option<Answer>,
    },
    Advance {
        seconds: f64,
    },
    Truncate {
        session: Option<u32>,
    },
    Disconnect {
        session: u32,
    },
    /// The waiter's session is its own, whichever number is written there.
    TakeBegin {
        #[serde(rename = "session")]
        _session: Option<u32>,
        waiter: u32,
        timeout: f64,
    },
    TakeResult {
        waiter: u32,
        want: Option<Answer>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutOptions {
    pri: Option<u32>,
    ttl: Option<f64>,
    ttr: Option<f64>,
    delay: Option<f64>,
    utube: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseOptions {
    delay: Option<f64>,
}

/// What a step answers: in a recording what is wanted, and in the same form what was got.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The ordinal, the state and the data.
    Task(usize, String, String),
    /// Always `true`.
    None(bool),
    Error(String),
    Count(u64),
    Stats(RecordedStatistics),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedStatistics {
    tasks: BTreeMap<String, u64>,
    calls: BTreeMap<String, u64>,
}

/// A recorded time, to the microsecond.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time below zero is zero, one that is too long the longest; the cast does both"
)]
fn duration(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).round() as u64)
}

// ---- one scenario

fn run_scenario(scenario: &Scenario) -> Result<(), String> {
    let mut run = Run::new(scenario).map_err(|error| format!("cannot begin: {error}"))?;
    for (number, step) in scenario.steps.iter().enumerate() {
        let (got, want) = run.step(step);
        let differs = match (&got, want) {
            (got, Some(want)) => !matches(got, want),
            // A step with nothing to compare must still work.
            (Answer::Error(error), None) => !["not_taken", "not_found"].contains(&error.as_str()),
            (_, None) => false,
        };
        if differs {
            let want = want.map_or("nothing in particular".to_owned(), |want| format!("{want:?}"));
            return Err(format!("step {number}: {step:?}\n    wanted {want}\n    got    {got:?}"));
        }
    }
    let defects = run.store.verify().map_err(|error| format!("verify: {error}"))?;
    if !defects.is_empty() {
        return Err(format!("verify after the last step: {defects:#?}"));
    }
    Ok(())
}

/// The same answer; of statistics, whatever the recording names.
fn matches(got: &Answer, want: &Answer) -> bool {
    match (got, want) {
        (Answer::Stats(got), Answer::Stats(want)) => {
            let contains = |got: &BTreeMap<String, u64>, want: &BTreeMap<String, u64>| {
                want.iter().all(|(name, count)| got.get(name) == Some(count))
            };
            contains(&got.tasks, &want.tasks) && contains(&got.calls, &want.calls)
        }
        (got, want) => got == want,
    }
}

struct Run {
    clock: ManualClock,
    store: Store,
    /// The handle for steps that name no session.
    tube: Tube,
    /// By the number in the recording, from the first call until `disconnect`.
    sessions: HashMap<u32, (Session, Tube)>,
    waiters: HashMap<u32, Waiter>,
    /// By ordinal: the id, unless the put was refused, and the data.
    puts: Vec<(Option<u64>, String)>,
}

/// A blocking take in a session of its own. The session, and so the claim, lives as long as this.
struct Waiter {
    _tube: Tube,
    taking: Option<Pin<Box<TakeFuture>>>,
    bell: Arc<Bell>,
    answer: Option<Result<Option<Task>, Error>>,
}

/// The waker of one waiter.
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiter {
    /// Polls, but only if the take has asked for it.
    fn answer_the_bell(&mut self) {
        if !self.bell.0.swap(false, Ordering::SeqCst) {
            return;
        }
        let Some(taking) = &mut self.taking else { return };
        let waker = Waker::from(Arc::clone(&self.bell));
        if let Poll::Ready(answer) = taking.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.taking = None;
            self.answer = Some(answer.map(|claim| claim.map(Claim::detach)));
        }
    }
}

impl Run {
    fn new(scenario: &Scenario) -> Result<Run, Error> {
        let recorded = &scenario.options;
        let mut options = TubeOptions::default();
        if let Some(pri) = recorded.pri {
            options = options.pri(pri);
        }
        if let Some(ttl) = recorded.ttl {
            options = options.ttl(duration(ttl));
        }
        if let Some(ttr) = recorded.ttr {
            options = options.ttr(duration(ttr));
        }
        if let Some(capacity) = recorded.capacity {
            options = options.capacity(capacity);
        }
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory()?;
        let tube = store.create_tube(TUBE, &scenario.driver, options)?;
        Ok(Run {
            clock,
            store,
            tube,
            sessions: HashMap::new(),
            waiters: HashMap::new(),
            puts: Vec::new(),
        })
    }

    /// Does one step; what it answered and what it should have.
    fn step<'a>(&mut self, step: &'a Step) -> (Answer, Option<&'a Answer>) {
        let (result, want) = match step {
            Step::Put { session, data, options, want } => {
                (self.put(*session, data, options), want.as_ref())
            }
            Step::Take { session, timeout, want } => (self.take(*session, *timeout), want.as_ref()),
            Step::Ack { session, task, want } => {
                (self.by_id(*session, *task, Tube::ack), want.as_ref())
            }
            Step::Release { session, task, options, want } => {
                let delay = duration(options.delay.unwrap_or(0.0));
                (self.by_id(*session, *task, |tube, id| tube.release(id, delay)), want.as_ref())
            }
            Step::Touch { session, task, seconds, want } => {
                (self.touch(*session, *task, duration(*seconds)), want.as_ref())
            }
            Step::Bury { session, task, want } => {
                (self.by_id(*session, *task, Tube::bury), want.as_ref())
            }
            Step::Kick { session, count, want } => (
                self.of(*session).and_then(|tube| tube.kick(*count)).map(Answer::Count),
                want.as_ref(),
            ),
            Step::Delete { session, task, want } => {
                (self.by_id(*session, *task, Tube::delete), want.as_ref())
            }
            Step::Peek { session, task, want } => {
                let id = self.id(*task);
                let peeked = self.of(*session).and_then(|tube| tube.peek(id));
                (peeked.map(|task| self.task(&task)), want.as_ref())
            }
            Step::ReleaseAll { session } => {
                let released = self.of_any(*session).and_then(|tube| tube.release_all());
                (released.map(Answer::Count), None)
            }
            Step::Stats { session, want } => {
                let counted = self.of_any(*session).and_then(|tube| tube.statistics());
                (counted.map(|counted| Answer::Stats(recorded(&counted))), want.as_ref())
            }
            Step::Advance { seconds } => {
                self.clock.advance(duration(*seconds));
                (Ok(Answer::None(true)), None)
            }
            Step::Truncate { session } => {
                let truncated = self.of_any(*session).and_then(|tube| tube.truncate());
                (truncated.map(|()| Answer::None(true)), None)
            }
            Step::Disconnect { session } => (self.disconnect(*session), None),
            Step::TakeBegin { waiter, timeout, .. } => {
                (self.take_begin(*waiter, duration(*timeout)), None)
            }
            Step::TakeResult { waiter, want } => (self.take_result(*waiter), want.as_ref()),
        };
        for waiter in self.waiters.values_mut() {
            waiter.answer_the_bell();
        }
        (result.unwrap_or_else(|error| refusal(&error)), want)
    }

    /// The tube as the session of this number sees it, which begins now if it has not yet.
    fn of(&mut self, session: u32) -> Result<Tube, Error> {
        if let Some((_, tube)) = self.sessions.get(&session) {
            return Ok(tube.clone());
        }
        let opened = self.store.session();
        let tube = opened.tube(TUBE)?;
        self.sessions.insert(session, (opened, tube.clone()));
        Ok(tube)
    }

    fn of_any(&mut self, session: Option<u32>) -> Result<Tube, Error> {
        match session {
            Some(session) => self.of(session),
            None => Ok(self.tube.clone()),
        }
    }

    fn id(&self, ordinal: Option<usize>) -> u64 {
        ordinal.and_then(|ordinal| self.puts.get(ordinal)?.0).unwrap_or(NO_TASK)
    }

    /// A task that came back whole.
    fn task(&self, task: &Task) -> Answer {
        let data = String::from_utf8_lossy(&task.data).into_owned();
        match self.puts.iter().position(|(id, _)| *id == Some(task.info.id)) {
            Some(ordinal) => Answer::Task(ordinal, character(task.info.state), data),
            None => Answer::Error(format!("nobody put a task {} ({data:?})", task.info.id)),
        }
    }

    fn put(&mut self, session: u32, data: &str, options: &PutOptions) -> Result<Answer, Error> {
        let mut put = Put::new(data);
        if let Some(pri) = options.pri {
            put = put.pri(pri);
        }
        if let Some(ttl) = options.ttl {
            put = put.ttl(duration(ttl));
        }
        if let Some(ttr) = options.ttr {
            put = put.ttr(duration(ttr));
        }
        if let Some(delay) = options.delay {
            put = put.delay(duration(delay));
        }
        if let Some(utube) = &options.utube {
            put = put.sub_queue(utube.as_str());
        }
        let result = self.of(session)?.put(put);
        let ordinal = self.puts.len();
        self.puts.push((result.as_ref().ok().map(|receipt| receipt.id), data.to_owned()));
        match result {
            Ok(receipt) => Ok(Answer::Task(ordinal, character(receipt.state), data.to_owned())),
            Err(Error::Full { .. }) => Ok(Answer::None(true)),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, session: u32, timeout: f64) -> Result<Answer, Error> {
        if timeout > 0.0 {
            // Nothing would ever end it: the clock stands still between the steps.
            return Ok(Answer::Error("a take that waits is written take_begin".to_owned()));
        }
        let claim = self.of(session)?.take(Duration::ZERO)?;
        Ok(claim.map_or(Answer::None(true), |claim| self.task(&claim.detach())))
    }

    /// A verb that names a task and answers with a receipt.
    fn by_id(
        &mut self,
        session: u32,
        ordinal: Option<usize>,
        verb: impl FnOnce(&Tube, u64) -> Result<Receipt, Error>,
    ) -> Result<Answer, Error> {
        let id = self.id(ordinal);
        let receipt = verb(&self.of(session)?, id)?;
        Ok(self.receipt(ordinal, &receipt))
    }

    fn receipt(&self, ordinal: Option<usize>, receipt: &Receipt) -> Answer {
        match ordinal.and_then(|ordinal| Some((ordinal, self.puts.get(ordinal)?))) {
            Some((ordinal, (Some(id), data))) if *id == receipt.id => {
                Answer::Task(ordinal, character(receipt.state), data.clone())
            }
            _ => Answer::Error(format!("a receipt for another task: {receipt:?}")),
        }
    }

    fn touch(
        &mut self,
        session: u32,
        ordinal: Option<usize>,
        by: Duration,
    ) -> Result<Answer, Error> {
        let id = self.id(ordinal);
        let receipt = self.of(session)?.touch(id, by)?;
        Ok(receipt.map_or(Answer::None(true), |receipt| self.receipt(ordinal, &receipt)))
    }

    fn disconnect(&mut self, session: u32) -> Result<Answer, Error> {
        if let Some((session, _tube)) = self.sessions.remove(&session) {
            session.end()?;
        }
        Ok(Answer::None(true))
    }

    fn take_begin(&mut self, waiter: u32, timeout: Duration) -> Result<Answer, Error> {
        let tube = self.store.session().tube(TUBE)?;
        let mut begun = Waiter {
            taking: Some(Box::pin(tube.take_async(timeout))),
            _tube: tube,
            bell: Arc::new(Bell(AtomicBool::new(true))),
            answer: None,
        };
        begun.answer_the_bell();
        match self.waiters.insert(waiter, begun) {
            None => Ok(Answer::None(true)),
            Some(_) => Ok(Answer::Error(format!("there is a waiter {waiter} already"))),
        }
    }

    fn take_result(&mut self, waiter: u32) -> Result<Answer, Error> {
        let Some(waiter) = self.waiters.get_mut(&waiter) else {
            return Ok(Answer::Error(format!("there is no waiter {waiter}")));
        };
        waiter.answer_the_bell();
        match waiter.answer.clone() {
            Some(Ok(Some(task))) => Ok(self.task(&task)),
            Some(Ok(None)) | None => Ok(Answer::None(true)),
            Some(Err(error)) => Err(error),
        }
    }
}

fn character(state: State) -> String {
    state.as_char().to_string()
}

/// How the recordings call a refusal. Those that they have no name for differ from all wanted.
fn refusal(error: &Error) -> Answer {
    Answer::Error(match error {
        Error::NotTaken { .. } => "not_taken".to_owned(),
        Error::NotFound { .. } => "not_found".to_owned(),
        other => format!("{other:?}"),
    })
}

/// All counters under the names of the recordings. One that is asked for and is not here differs.
fn recorded(statistics: &Statistics) -> RecordedStatistics {
    let Statistics { tasks, calls, .. } = statistics;
    let named = |counts: &[(&str, u64)]| {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    RecordedStatistics {
        tasks: named(&[
            ("ready", tasks.ready),
            ("taken", tasks.taken),
            ("delayed", tasks.delayed),
            ("buried", tasks.buried),
            ("total", tasks.total),
            ("done", tasks.done),
        ]),
        calls: named(&[
            ("put", calls.put),
            ("take", calls.take),
            ("ack", calls.ack),
            ("release", calls.release),
            ("bury", calls.bury),
            ("kick", calls.kick),
            ("delete", calls.delete),
            ("touch", calls.touch),
            ("ttl", calls.ttl),
            ("ttr", calls.ttr),
            ("delay", calls.delay),
        ]),
    }
}
