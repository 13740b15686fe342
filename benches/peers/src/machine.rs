//! Where a run took place, and what its disk can do.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::queue::Result;

/// Writes of which the median is taken.
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
    /// The median of fdatasync after 128 B at the end of a growing file.
    pub fdatasync_appended_us: f64,
    /// The same over a file that was written full.
    pub fdatasync_overwritten_us: f64,
}

impl Machine {
    /// Looks at the machine, and measures the disk that holds this directory.
    ///
    /// # Errors
    /// The disk cannot be written to.
    pub fn look(dir: &Path) -> Result<Machine> {
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

fn flush_time(dir: &Path, over: bool) -> Result<f64> {
    let path = dir.join("flush-time");
    let mut file = File::create(&path)?;
    if over {
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

/// As 2026-11-21 16:05, in UTC.
fn date(since_1970: Duration) -> String {
    let minutes = since_1970.as_secs() / 60;
    let (mut days, time) = (minutes / 1440, minutes % 1440);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, time / 60, time % 60)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u64::from(leap)
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

/// The type of the file system with the longest mount point that leads to this directory.
fn filesystem(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.into());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let point = words.next()?.to_owned();
        dir.starts_with(&point).then_some((point.len(), words.next()?.to_owned()))
    };
    // Of two mounts at one point the later one is seen.
    let best = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length);
    best.map_or_else(|| "unknown".into(), |(_, name)| name)
}

fn rustc() -> String {
    let asked = Command::new("rustc").arg("--version").output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "rustc unknown".into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::date;

    #[test]
    fn dates_know_leap_years() {
        let of = |seconds| date(Duration::from_secs(seconds));
        assert_eq!(of(0), "1970-01-01 00:00 UTC");
        assert_eq!(of(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(of(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(of(1_735_689_599), "2024-12-31 23:59 UTC");
        assert_eq!(of(1_795_277_012), "2026-11-21 16:03 UTC");
    }
}
