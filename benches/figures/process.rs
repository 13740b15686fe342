//! Child processes, for figures that need a process of their own: memory, kills, idle activity.
//!
//! A child prints lines of a name and a number. The line "ready" means that it can be killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::setting::Outcome;

/// A running child process.
pub struct ChildProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts this program with `--child` and these arguments, which name a workload of `child.rs`.
    pub fn start(arguments: &[&str]) -> Outcome<ChildProcess> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(ChildProcess { child, lines })
    }

    /// Waits for the end of the child, and returns the numbers that it printed, by name.
    pub fn answers(mut self) -> Outcome<HashMap<String, f64>> {
        let mut answers = HashMap::new();
        while let Some(line) = self.line()? {
            let (name, number) = line.split_once(' ').ok_or("no number")?;
            answers.insert(name.to_owned(), number.parse()?);
        }
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("the child process failed: {status}").into());
        }
        Ok(answers)
    }

    /// Kills the child as soon as it has printed "ready".
    pub fn kill_when_ready(mut self) -> Outcome {
        while let Some(line) = self.line()? {
            if line == "ready" {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(());
            }
        }
        Err("the child process ended before it could be killed".into())
    }

    fn line(&mut self) -> Outcome<Option<String>> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }
}
