//! Where a run takes place, and what its subjects share: bodies, percentiles, memory.

use std::error::Error;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Anything may end a run.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The length of a body where nothing else is said.
pub const BODY: usize = 128;

/// What the command line says.
pub struct Setting {
    pub dir: PathBuf,
    /// Measure what takes many minutes, too.
    pub large: bool,
}

impl Setting {
    /// The path of a store that is not there yet.
    pub fn fresh(&self, name: &str) -> PathBuf {
        let path = self.dir.join(format!("{name}.tubewell"));
        let _ = std::fs::remove_file(&path);
        path
    }
}

/// A body that is checked when it is taken: its number, and what follows from it.
pub fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = vec![mix(number); size];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

/// The number of a body; whoever takes another one than was put stops the run.
pub fn checked(body: &[u8], size: usize) -> u64 {
    assert_eq!(body.len(), size, "a body came back with another length");
    let number = u64::from_le_bytes(body[..8].try_into().expect("eight bytes"));
    assert!(body[8..].iter().all(|byte| *byte == mix(number)), "a body came back damaged");
    number
}

fn mix(number: u64) -> u8 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

/// Times in microseconds, negative ones for what came before it was looked for.
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

    /// The time that this share of all do not exceed.
    pub fn percentile(&mut self, share: f64) -> f64 {
        self.0.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = (self.0.len() as f64 * share) as usize;
        self.0.get(index.min(self.0.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }

    pub fn most(&mut self) -> f64 {
        self.percentile(1.0)
    }
}

/// Times one call.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let answer = work();
    (answer, start.elapsed())
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median of these.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Length of a file in MiB.
pub fn mebibytes(path: &Path) -> f64 {
    std::fs::metadata(path).map(|meta| meta.len()).unwrap_or_default() as f64 / f64::from(1 << 20)
}

/// Memory of this process that is in RAM, in MiB; 0 where the system does not tell.
pub fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// How long the disk takes to make 128 bytes safe, in microseconds: over blocks that have been
/// written before.
pub fn disk_floor(dir: &Path) -> std::io::Result<f64> {
    let path = dir.join("floor");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    let mut times = Times::default();
    for n in 0..500_u64 {
        let start = Instant::now();
        file.seek(SeekFrom::Start(n * BODY as u64))?;
        file.write_all(&body(n, BODY))?;
        file.sync_data()?;
        times.add(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(times.percentile(0.5))
}
