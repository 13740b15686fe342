//! A runner of long child processes in the manner of Blueque: the children work for hours, and outlive
//! the runner if it exits, is killed, or crashes. The next run of it finishes their tasks.
//!
//! ```sh
//! cargo run --example runner -- FOLDER FILM...   # puts a task for each film, and works
//! cargo run --example runner -- FOLDER           # continues after a kill
//! ```
//!
//! Without arguments it makes a film in a temporary folder, and names one that is missing. The claim of
//! a task is parked before its child starts, so the task stays taken if the runner dies. A child has its
//! output locked, and the operating system releases the lock when the child ends, also if it is killed.
//! So a later runner can wait for it without polling, and without its process id, which a new process
//! may have by then. For Unix: other systems do not pass a lock on to a child.
//!
//! It takes its tasks without a `Worker`: a claim outlives the take and the runner, and a thread that has
//! waited for the child ends the task, in this run or in a later one. The end of a handler is not the end of a task.

use std::error::Error as StdError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tubewell::{Claim, ClaimToken, Ending, Error, Failure, Filter, Keep, Store, Tube, TubeOptions};

/// How many children run at a time. Those of earlier runners count.
const CHILDREN: u64 = 2;
const ATTEMPTS: u32 = 3;
/// The label of the sessions of all runners.
const LABEL: &str = "runner";

type Outcome<T = ()> = Result<T, Box<dyn StdError + Send + Sync>>;

/// The work, in the child process: writes the result to the file `result`.
fn child(film: &Path, result: &Path) -> Outcome {
    let bytes = fs::read(film).map_err(|error| format!("cannot read the film: {error}"))?;
    let sum = bytes.iter().fold(0, |sum, byte| sum + u64::from(*byte));
    // The result is there as a whole or not at all, also after a power cut.
    let part = result.with_extension("part");
    let mut file = File::create(&part)?;
    write!(file, "{} bytes, sum {sum}", bytes.len())?;
    file.sync_all()?;
    fs::rename(&part, result)?;
    Ok(())
}

struct Runner {
    store: Store,
    films: Tube,
    /// The outputs of the children, which they have locked, and their results. The files have the
    /// tokens of the parked claims as names.
    logs: PathBuf,
    results: PathBuf,
}

impl Runner {
    fn open(folder: &Path) -> Outcome<Arc<Runner>> {
        let (logs, results) = (folder.join("logs"), folder.join("results"));
        fs::create_dir_all(&logs)?;
        fs::create_dir_all(&results)?;
        let store = Store::open(folder.join("queue.tubewell"))?;
        let options = TubeOptions::new()
            .max_taken(CHILDREN)
            .max_attempts(ATTEMPTS)
            .keep_done(Keep::new().count(1000));
        let films = store.session(LABEL)?.tube(&store.open_tube("films", options)?)?;
        Ok(Arc::new(Runner { store, films, logs, results }))
    }

    /// Works until no film is left. A runner in a service has no end: it leaves `close` out.
    fn run(self: &Arc<Self>) -> Outcome {
        let parked = self.parked()?;
        self.revoke_others(&parked)?;
        let earlier: Vec<_> = parked
            .into_iter()
            .inspect(|token| println!("task {}: its child is from an earlier run", token.id()))
            .map(|token| self.watch(token, None))
            .collect();
        let runner = self.clone();
        let closer = thread::spawn(move || {
            let drained = runner.films.wait_drained(Duration::MAX);
            join(earlier);
            drained.and(runner.store.close())
        });
        let mut watchers = Vec::new();
        loop {
            match self.films.take() {
                Ok(task) => watchers.push(self.start(task)?),
                Err(Error::Closed) => break,
                Err(error) => return Err(error.into()),
            }
            watchers.retain(|watcher| !watcher.is_finished());
        }
        join(watchers);
        closer.join().map_err(|_| "a thread has panicked")??;
        Ok(())
    }

    /// The tokens of the claims whose child was started.
    fn parked(&self) -> Outcome<Vec<ClaimToken>> {
        let logs = fs::read_dir(&self.logs)?.collect::<io::Result<Vec<_>>>()?;
        logs.iter().map(|log| Ok(log.file_name().to_string_lossy().parse()?)).collect()
    }

    /// Ends the claims of runners that died after the park and before the start of the child.
    fn revoke_others(&self, parked: &[ClaimToken]) -> Outcome {
        let taken = Filter::new().owner(LABEL); // at most `CHILDREN`
        for task in self.films.query().list(&taken, None, 100)?.items {
            if !parked.iter().any(|token| token.id() == task.id) {
                self.films.admin().revoke(task.id)?;
            }
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, task: Claim) -> Outcome<JoinHandle<()>> {
        let (id, attempt) = (task.id(), task.attempt());
        let film = String::from_utf8(task.body().to_vec())?;
        // It needs no limit of time, since a runner notices the end of a child in any case.
        let token = task.park(Duration::MAX)?;
        let log = File::create(self.logs.join(token.to_string()))?;
        log.lock()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child").arg(&film).arg(self.results.join(token.to_string()));
        // The child inherits the lock with its output, and must not keep the output of the runner.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A Ctrl-C in the terminal ends the runner and not the child.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn()?;
        println!("task {id}: attempt {attempt} at {film} is process {}", child.id());
        Ok(self.watch(token, Some(child)))
    }

    /// Waits in a thread for the end of a child, and finishes its task.
    fn watch(self: &Arc<Self>, token: ClaimToken, child: Option<Child>) -> JoinHandle<()> {
        let runner = self.clone();
        thread::spawn(move || {
            let ended = runner.wait(&token, child).and_then(|()| runner.finish(&token));
            // Its claim is still parked, unless it was revoked.
            ended.unwrap_or_else(|error| println!("task {}: {error}; start again", token.id()));
        })
    }

    fn wait(&self, token: &ClaimToken, child: Option<Child>) -> Outcome {
        if let Some(mut child) = child {
            child.wait()?; // without it, a child of this process stays a zombie
        }
        // Processes that the child has started, and left behind, have the lock too.
        File::open(self.logs.join(token.to_string()))?.lock()?;
        Ok(())
    }

    fn finish(&self, token: &ClaimToken) -> Outcome {
        let log = self.logs.join(token.to_string());
        let result = self.results.join(token.to_string());
        let task = match self.store.resume_claim(token) {
            Ok(task) => task,
            // A runner died after the ack, or the claim was revoked: only the files are left.
            Err(Error::NotTaken { .. } | Error::NotFound { .. }) => {
                let _ = fs::remove_file(&result); // there may be none
                return Ok(fs::remove_file(&log)?);
            }
            Err(error) => return Err(error.into()),
        };
        if let Ok(text) = fs::read(&result) {
            // The files go last: after a crash before the ack, the next run acks the task.
            task.end(tubewell::Outcome::result(text))?;
            println!("task {}: its child is done", token.id());
            fs::remove_file(&result)?;
            fs::remove_file(&log)?;
        } else {
            let output = fs::read_to_string(&log)?;
            let why = if output.is_empty() { "the child was killed" } else { output.trim_end() };
            // The log goes first: the next attempt must not be mistaken for this one.
            fs::remove_file(&log)?;
            println!("task {}: {why}", token.id());
            task.fail(Failure::new("child", why))?;
        }
        Ok(())
    }

    fn report(&self) -> Outcome {
        for film in self.films.query().tasks(Filter::new(), None, 1000)?.items {
            let name = String::from_utf8_lossy(&film.body);
            match self.films.ending(film.info.id)? {
                Some(Ending::Done { result }) => {
                    println!("{name}: {}", String::from_utf8_lossy(&result.unwrap_or_default()));
                }
                Some(Ending::Buried { failure: Some(failure) }) => {
                    println!("{name}: failed {} times: {}", failure.attempt, failure.message);
                }
                other => println!("{name}: {other:?}"),
            }
        }
        Ok(())
    }
}

/// Waits for the end of threads that have reported their errors themselves.
fn join(watchers: Vec<JoinHandle<()>>) {
    for watcher in watchers {
        let _ = watcher.join();
    }
}

fn main() -> Outcome {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if let [mode, film, result] = &arguments[..]
        && mode == Path::new("--child")
    {
        return child(film, result);
    }
    if cfg!(not(unix)) {
        return Err("other systems than Unix do not pass a lock on to a child process".into());
    }
    let temporary = tempfile::tempdir()?;
    let (folder, films) = match arguments.split_first() {
        Some((folder, films)) => (folder.clone(), films.to_vec()),
        None => {
            let film = temporary.path().join("film");
            fs::write(&film, "a very short film")?;
            (temporary.path().to_owned(), vec![film, temporary.path().join("missing")])
        }
    };
    let runner = Runner::open(&folder)?;
    runner.films.put_many(films.iter().map(|film| film.to_string_lossy().into_owned()))?;
    runner.run()?;
    drop(runner);
    Runner::open(&folder)?.report()
}
