//! Peers that are processes of their own: they are started for a row and do not outlive it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::queue::Result;

/// Starts the rest of its arguments in its own place, after a watcher that waits for the end of
/// standard input and then kills it. So it ends with us, even if we are killed.
const GUARD: &str = r#"exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" </dev/null 3<&-"#;

/// How long a process that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// A process that ends, or is killed, when this is dropped.
pub struct Process {
    pub child: Child,
    /// Its end is the end of the process.
    pub stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts a process that does not read its standard input. What it says goes to a file.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn guarded(program: &str, arguments: &[&str], log: &Path) -> Result<Process> {
        let log = File::create(log)?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard", program]).args(arguments);
        Process::start(command.stdout(log.try_clone()?).stderr(log))
    }

    /// Starts a process that ends with its standard input.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Process> {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        Ok(Process { child, stdin })
    }

    /// Whether it is still there.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Closes its standard input, which is to end it, and waits until it has ended.
    ///
    /// # Errors
    /// It had to be killed.
    pub fn end(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        self.stdin = None;
        let asked = Instant::now();
        while self.runs() {
            if asked.elapsed() > GRACE {
                self.child.kill()?;
                self.child.wait()?;
                return Err("it did not end by itself and was killed".into());
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

/// What a program says of its version, or why it does not run.
///
/// # Errors
/// It cannot be run.
pub fn version_of(program: &str) -> std::result::Result<String, String> {
    let said = Command::new(program)
        .arg("-v")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("not installed: {program}: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout);
    let line = said.lines().next().unwrap_or_default();
    Ok(line.split_whitespace().last().unwrap_or_default().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::Process;
    use crate::queue::Result;

    #[test]
    fn a_process_that_reads_nothing_ends_with_its_handle() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut process = Process::guarded("sleep", &["1000"], &dir.path().join("log"))?;
        assert!(process.runs());
        process.end()
    }

    #[test]
    fn a_process_that_does_not_heed_its_end_is_killed() -> Result<()> {
        let mut process = Process::start(Command::new("sleep").arg("1000"))?;
        assert!(process.runs());
        assert!(process.end().is_err());
        Ok(())
    }
}
