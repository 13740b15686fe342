//! Peers that are separate processes. A process is started for a row and ends with it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::queue::Result;

/// Replaces itself with the program in its arguments, after it has started a watcher that kills the
/// program at the end of standard input. The program therefore ends with this process, even if this
/// process is killed.
const GUARD: &str = r#"exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" </dev/null 3<&-"#;

/// A process that has not ended this long after the end of its standard input is killed.
const GRACE: Duration = Duration::from_secs(3);

/// A process. Dropping the value ends the process, or kills it.
pub struct Process {
    pub child: Child,
    /// Closing it ends the process.
    pub stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts a program that does not read its standard input, with its output in the file `log`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn guarded(program: &str, arguments: &[&str], log: &Path) -> Result<Process> {
        let log = File::create(log)?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard", program]).args(arguments);
        Process::start(command.stdout(log.try_clone()?).stderr(log))
    }

    /// Starts a program that ends at the end of its standard input.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &mut Command) -> Result<Process> {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        Ok(Process { child, stdin })
    }

    /// Whether the process has not ended yet.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Closes the standard input of the process, and waits until the process has ended.
    ///
    /// # Errors
    /// The process did not end in time and was killed.
    pub fn end(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        self.stdin = None;
        let closed = Instant::now();
        while self.runs() {
            if closed.elapsed() > GRACE {
                self.child.kill()?;
                self.child.wait()?;
                return Err(
                    format!("the process did not end within {GRACE:?} and was killed").into()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The version that a program prints.
///
/// # Errors
/// The program cannot be run.
pub fn version_of(program: &str) -> std::result::Result<String, String> {
    let output = Command::new(program)
        .arg("-v")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("not installed: {program}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    Ok(line.split_whitespace().last().unwrap_or_default().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::Process;
    use crate::queue::Result;

    #[test]
    fn end_stops_a_guarded_process() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut process = Process::guarded("sleep", &["1000"], &dir.path().join("log"))?;
        assert!(process.runs());
        process.end()
    }

    #[test]
    fn end_kills_a_process_that_ignores_the_end_of_its_input() -> Result<()> {
        let mut process = Process::start(Command::new("sleep").arg("1000"))?;
        assert!(process.runs());
        assert!(process.end().is_err());
        Ok(())
    }
}
