//! The machine of a run, and the flush time of its disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::queue::Result;

/// Writes per measurement; the result is their median.
const FLUSHES: u64 = 500;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// UTC.
    pub date: String,
    pub system: String,
    pub processor: String,
    pub cores: usize,
    pub filesystem: String,
    pub rustc: String,
    /// Median time of fdatasync after writing 128 B at the end of a growing file.
    pub fdatasync_appended_us: f64,
    /// The same when the write replaces existing blocks.
    pub fdatasync_overwritten_us: f64,
}

impl Machine {
    /// Describes the machine, and measures the disk that has the directory `dir`.
    ///
    /// # Errors
    /// A file in `dir` cannot be written.
    pub fn inspect(dir: &Path) -> Result<Machine> {
        Ok(Machine {
            date: date(SystemTime::now().duration_since(UNIX_EPOCH)?),
            system: system(),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            filesystem: filesystem(dir),
            rustc: rustc(),
            fdatasync_appended_us: flush_time(dir, false)?,
            fdatasync_overwritten_us: flush_time(dir, true)?,
        })
    }
}

fn flush_time(dir: &Path, overwrite: bool) -> Result<f64> {
    let path = dir.join("flush-time");
    let mut file = File::create(&path)?;
    if overwrite {
        file.write_all(&vec![0; 1 << 20])?;
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
    }
    let mut times = Vec::new();
    for _ in 0..FLUSHES {
        let start = Instant::now();
        file.write_all(&[7; 128])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    std::fs::remove_file(path)?;
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Formats a time as 2026-11-21 16:05 UTC.
fn date(since_1970: Duration) -> String {
    let minutes = since_1970.as_secs() / 60;
    let date = tubewell::expert::Date::of(UNIX_EPOCH + since_1970);
    format!("{date} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim_end().into()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).into()
}

/// The type of the file system that has the directory `dir`: of the mount points above it, the
/// longest.
fn filesystem(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.into());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let point = words.next()?.to_owned();
        dir.starts_with(&point).then_some((point.len(), words.next()?.to_owned()))
    };
    // A later mount hides an earlier one at the same mount point.
    let best = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length);
    best.map_or_else(|| "unknown".into(), |(_, name)| name)
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "rustc unknown".into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::date;

    #[test]
    fn date_handles_leap_years() {
        let of = |seconds| date(Duration::from_secs(seconds));
        assert_eq!(of(0), "1970-01-01 00:00 UTC");
        assert_eq!(of(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(of(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(of(1_735_689_599), "2024-12-31 23:59 UTC");
        assert_eq!(of(1_795_277_012), "2026-11-21 16:03 UTC");
    }
}
