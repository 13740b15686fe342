//! Processes of their own, for what can only be seen of one: its memory, its death, its idling.
//!
//! A child prints lines of a name and a number; "ready" means that it now waits to be killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tubewell::{State, Store, Tube};

use super::idle;
use super::setting::{BODY, Outcome, body, checked, millis, resident, timed};

/// A child that was started.
pub struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again, to do one of the things below.
    pub fn start(arguments: &[&str]) -> Outcome<Process> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Process { child, lines })
    }

    /// All that it has to say, once it has ended.
    pub fn answers(mut self) -> Outcome<HashMap<String, f64>> {
        let mut answers = HashMap::new();
        while let Some(line) = self.line()? {
            let (name, number) = line.split_once(' ').ok_or("no number")?;
            answers.insert(name.to_owned(), number.parse()?);
        }
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a child ended with {status}").into());
        }
        Ok(answers)
    }

    /// Kills it as soon as it is ready.
    pub fn kill_when_ready(mut self) -> Outcome {
        while let Some(line) = self.line()? {
            if line == "ready" {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(());
            }
        }
        Err("a child ended before it could be killed".into())
    }

    fn line(&mut self) -> Outcome<Option<String>> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }
}

/// What a child was started for.
pub fn work(verb: &str, rest: &[String]) -> Outcome {
    let path = rest.first().map(Path::new).ok_or("a child needs a path")?;
    let number = |nth: usize| rest.get(nth).and_then(|text| text.parse::<u64>().ok());
    match verb {
        "open" => open(path, number(1).ok_or("how much cache?")?),
        "work" => work_on(path, number(1).ok_or("how long to rest?")?),
        "idle" => idle::child(path, number(1).ok_or("how long?")?),
        _ => Err(format!("no child does {verb:?}").into()),
    }
}

fn say(name: &str, value: f64) {
    println!("{name} {value}");
}

/// Opens the store, works a little, and tells what that took.
fn open(path: &Path, cache: u64) -> Outcome {
    let options = Store::options().cache_size(usize::try_from(cache)?);
    let (store, opened) = timed(|| options.open(path));
    let (store, after) = (store?, resident());
    let tube = store.tube("work")?;
    let (claim, first) = timed(|| tube.try_take());
    let claim = claim?.ok_or("nothing to take")?;
    checked(claim.data(), BODY);
    say("open", millis(opened));
    say("first", millis(opened + first));
    say("reads", store.counters().reads as f64);
    say("opened", after);
    drop(claim);
    walk(&tube)?;
    for n in 0..2000 {
        let claim = tube.try_take()?.ok_or("nothing to take")?;
        tube.put(body(n, BODY))?;
        claim.ack()?;
    }
    say("worked", resident());
    store.close()?;
    Ok(())
}

/// Reads so many tasks that the cache is full, where there is more in the file than that.
fn walk(tube: &Tube) -> Outcome {
    let mut after = None;
    for _ in 0..500 {
        let page = tube.list(State::Ready, after, 1000)?;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Works on the store until it is killed, after a rest of so many milliseconds.
fn work_on(path: &Path, rest: u64) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.tube("work")?;
    for n in 0..200 {
        let claim = tube.try_take()?.ok_or("nothing to take")?;
        tube.put(body(n, BODY))?;
        claim.ack()?;
    }
    std::thread::sleep(Duration::from_millis(rest));
    println!("ready");
    std::io::stdout().flush()?;
    if rest > 0 {
        std::thread::park();
    }
    loop {
        tube.put(body(1, BODY))?;
    }
}
