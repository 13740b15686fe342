//! The settings of a run, and functions that its subjects share: bodies, percentiles, memory.

use std::error::Error;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A result; any error ends the run.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The default length of a body, in bytes.
pub const BODY: usize = 128;

/// The duration of a [`phase`].
pub const PHASE: Duration = Duration::from_millis(400);

/// The settings on the command line.
pub struct Setting {
    pub dir: PathBuf,
    /// Also measure with ten million tasks.
    pub large: bool,
    /// The duration of each phase of the subjects that measure for a given time.
    pub duration: Duration,
}

impl Setting {
    /// The path for a new store; removes an existing file.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let path = self.dir.join(format!("{name}.tubewell"));
        let _ = std::fs::remove_file(&path);
        path
    }
}

/// A body for [`checked`]: a number, and bytes that depend on it.
pub fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = vec![mix(number); size];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

/// The number of a body that was taken. Panics if the body differs from what was put.
pub fn checked(body: &[u8], size: usize) -> u64 {
    assert_eq!(body.len(), size, "the body has another length than was put");
    let number = u64::from_le_bytes(body[..8].try_into().expect("eight bytes"));
    assert!(
        body[8..].iter().all(|byte| *byte == mix(number)),
        "the body differs from what was put"
    );
    number
}

fn mix(number: u64) -> u8 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

/// Times in microseconds. A time is negative if the event came before the start of the measurement.
#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e6);
    }

    pub fn add_signed(&mut self, micros: f64) {
        self.0.push(micros);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The time that `share` of all times, from 0 to 1, do not exceed.
    pub fn percentile(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = (self.0.len() as f64 * share) as usize;
        self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }

    pub fn max(&mut self) -> f64 {
        self.percentile(1.0)
    }
}

/// Runs a call and measures its time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let answer = work();
    (answer, start.elapsed())
}

/// Runs `work` in several threads for one phase, with a number that no other call gets. Returns how
/// much is done a second; a thread stops early if its work returns 0.
pub fn phase(threads: usize, work: impl Fn(u64) -> Outcome<usize> + Sync) -> Outcome<f64> {
    let start = Instant::now();
    let done: Outcome<Vec<usize>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads as u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut done = 0;
                    for n in (thread..).step_by(threads) {
                        if start.elapsed() >= PHASE {
                            break;
                        }
                        match work(n)? {
                            0 => break,
                            more => done += more,
                        }
                    }
                    Ok(done)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    Ok(done?.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median of the values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The length of a file in MiB.
pub fn mebibytes(path: &Path) -> f64 {
    std::fs::metadata(path).map(|meta| meta.len()).unwrap_or_default() as f64 / f64::from(1 << 20)
}

/// The resident memory of this process in MiB; 0 where the operating system does not report it.
pub fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// The median time in microseconds to write 128 bytes over existing blocks and flush them.
pub fn flush_time(dir: &Path) -> std::io::Result<f64> {
    let mut flushes = 0..500;
    Ok(flush_times(dir, || flushes.next().is_some())?.percentile(0.5))
}

/// Writes 128 bytes over existing blocks and flushes them, as long as `goes_on` is true.
pub fn flush_times(dir: &Path, mut goes_on: impl FnMut() -> bool) -> std::io::Result<Times> {
    const BLOCKS: u64 = (1 << 20) / BODY as u64;
    let path = dir.join("flush-time");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    let mut times = Times::default();
    for n in (0..BLOCKS).cycle() {
        if !goes_on() {
            break;
        }
        let start = Instant::now();
        file.seek(SeekFrom::Start(n * BODY as u64))?;
        file.write_all(&body(n, BODY))?;
        file.sync_data()?;
        times.add(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(times)
}
