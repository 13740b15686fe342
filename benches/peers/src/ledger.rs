//! Records which bodies were put and which were taken, and finds wrong, lost and duplicate ones.
//!
//! In a queue of jobs each body is delivered twice: its first attempt fails, the second one is acked.
//!
//! A body is plain text, so that any peer can store it: its serial number and a checksum in
//! hexadecimal, then letters that depend on the serial number.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the serial number and the checksum.
const HEADER: usize = 32;
/// Serial numbers per allocation of marks.
const CHUNK: u64 = 1 << 20;
const CHUNKS: usize = 1 << 10;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Faults that are described; all are counted.
const EXAMPLES_MAX: usize = 5;

pub struct Ledger {
    length: usize,
    jobs: bool,
    letters: Vec<u8>,
    next: AtomicU64,
    taken: AtomicU64,
    /// Bodies put and taken by another process, which has its own ledger.
    remote: (AtomicU64, AtomicU64),
    /// Bodies that were delivered.
    delivered: Marks,
    /// Bodies that were delivered again after a failure. Jobs only.
    again: Marks,
    faults: AtomicU64,
    examples: Mutex<Vec<String>>,
}

/// The end of one delivery: the taker fails the job or acks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Reports a failure, so that the job is delivered again.
    Fail,
    /// Acks it with a result.
    Ack,
}

/// One bit per serial number.
struct Marks(Vec<OnceLock<Box<[AtomicU64]>>>);

impl Ledger {
    /// A ledger for bodies of `length` bytes, at least 40.
    pub fn new(length: usize) -> Ledger {
        Ledger {
            length: length.max(HEADER + 8),
            jobs: false,
            letters: letters(length + 4096),
            next: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            remote: (AtomicU64::new(0), AtomicU64::new(0)),
            delivered: Marks::new(),
            again: Marks::new(),
            faults: AtomicU64::new(0),
            examples: Mutex::new(Vec::new()),
        }
    }

    /// A ledger for jobs, which are delivered twice.
    pub fn for_jobs(length: usize) -> Ledger {
        Ledger { jobs: true, ..Ledger::new(length) }
    }

    /// Whether the bodies are jobs.
    pub fn is_for_jobs(&self) -> bool {
        self.jobs
    }

    /// Replaces `body` with the next body. The caller must put it exactly once.
    pub fn fill(&self, body: &mut Vec<u8>) {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        let filler = self.filler(serial);
        body.clear();
        body.extend_from_slice(&hex(serial));
        body.extend_from_slice(&hex(xxh3_64_with_seed(filler, serial)));
        body.extend_from_slice(filler);
    }

    /// The next body.
    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.length);
        self.fill(&mut body);
        body
    }

    /// Checks a body that was taken, and records a fault if it is wrong or a duplicate. A job must
    /// not be taken this way, since its attempts must be counted.
    pub fn check(&self, body: &[u8]) {
        let Some(serial) = self.intact(body) else { return };
        if self.jobs {
            return self.fault(format!("job {serial} was delivered after the last phase"));
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.delivered.mark(serial) {
            self.fault(format!("body {serial} was delivered twice"));
        }
    }

    /// Checks a job that was taken, and returns what to do with it: the first attempt fails, the
    /// second one is acked. Records a fault if the body is wrong or delivered more than twice, or if
    /// `attempt`, which the queue has counted from 1, is not the number of deliveries.
    pub fn check_job(&self, body: &[u8], attempt: Option<u32>) -> Verdict {
        let Some(serial) = self.intact(body) else { return Verdict::Ack };
        let (expected, verdict) =
            if self.delivered.mark(serial) { (2, Verdict::Ack) } else { (1, Verdict::Fail) };
        if let Some(attempt) = attempt.filter(|&attempt| attempt != expected) {
            self.fault(format!("delivery {expected} of job {serial} was counted as {attempt}"));
        }
        if verdict == Verdict::Ack {
            self.taken.fetch_add(1, Ordering::Relaxed);
            if self.again.mark(serial) {
                self.fault(format!("job {serial} was delivered more than twice"));
            }
        }
        verdict
    }

    /// Records a fault.
    pub fn fault(&self, what: String) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let mut examples = self.examples.lock();
        if examples.len() < EXAMPLES_MAX {
            examples.push(what);
        }
    }

    /// Adds bodies that another process has put, and bodies that it has taken and checked.
    pub fn add_remote(&self, put: u64, taken: u64) {
        self.remote.0.fetch_add(put, Ordering::Relaxed);
        self.remote.1.fetch_add(taken, Ordering::Relaxed);
    }

    /// Bodies made so far.
    pub fn put(&self) -> u64 {
        self.next.load(Ordering::Relaxed) + self.remote.0.load(Ordering::Relaxed)
    }

    /// Intact bodies taken so far; of jobs, those taken for the second time.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed) + self.remote.1.load(Ordering::Relaxed)
    }

    /// Records a fault for each lost body, and for each job that was not delivered again after its
    /// failure. The queue must have been drained.
    pub fn count_lost(&self) {
        let here = self.next.load(Ordering::Relaxed);
        let last = if self.jobs { &self.again } else { &self.delivered };
        let lost: Vec<u64> = (0..here).filter(|&serial| !last.marked(serial)).collect();
        if let Some(first) = lost.first() {
            self.faults.fetch_add(lost.len() as u64 - 1, Ordering::Relaxed);
            self.fault(format!("{} bodies were lost, the first is {first}", lost.len()));
        }
        let (put, taken) = (&self.remote.0, &self.remote.1);
        let lost = put.load(Ordering::Relaxed).saturating_sub(taken.load(Ordering::Relaxed));
        if lost > 0 {
            self.faults.fetch_add(lost - 1, Ordering::Relaxed);
            self.fault(format!("{lost} bodies were lost"));
        }
    }

    /// The number of faults, and descriptions of the first ones.
    pub fn faults(&self) -> (u64, Vec<String>) {
        (self.faults.load(Ordering::Relaxed), self.examples.lock().clone())
    }

    fn filler(&self, serial: u64) -> &[u8] {
        let start = usize::try_from(serial.wrapping_mul(0x9E37_79B9) % 4096).unwrap_or_default();
        &self.letters[start..start + self.length - HEADER]
    }

    /// The serial number of a body that this ledger made, if it is intact.
    fn serial(&self, body: &[u8]) -> Option<u64> {
        if body.len() != self.length {
            return None;
        }
        let (serial, checksum) = (unhex(&body[..16])?, unhex(&body[16..HEADER])?);
        let put = serial < self.next.load(Ordering::Relaxed);
        let intact = put && checksum == xxh3_64_with_seed(&body[HEADER..], serial);
        intact.then_some(serial)
    }

    /// As `serial`. Records a fault if the body is wrong.
    fn intact(&self, body: &[u8]) -> Option<u64> {
        let serial = self.serial(body);
        if serial.is_none() {
            let start = String::from_utf8_lossy(&body[..body.len().min(HEADER)]);
            self.fault(format!("a wrong body of {} bytes, \"{start}…\"", body.len()));
        }
        serial
    }
}

impl Marks {
    fn new() -> Marks {
        Marks((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }

    /// Marks a body; returns whether it was marked before.
    fn mark(&self, serial: u64) -> bool {
        let Some((chunk, word, bit)) = mark_position(serial) else { return false };
        let chunk = self.0[chunk].get_or_init(|| {
            (0..CHUNK / 64).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into_boxed_slice()
        });
        chunk[word].fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    fn marked(&self, serial: u64) -> bool {
        mark_position(serial).is_none_or(|(chunk, word, bit)| {
            self.0[chunk].get().is_some_and(|chunk| chunk[word].load(Ordering::Relaxed) & bit != 0)
        })
    }
}

fn mark_position(serial: u64) -> Option<(usize, usize, u64)> {
    let chunk = usize::try_from(serial / CHUNK).ok().filter(|&chunk| chunk < CHUNKS)?;
    let word = usize::try_from(serial % CHUNK / 64).ok()?;
    Some((chunk, word, 1 << (serial % 64)))
}

/// Pseudo-random letters, so that compression finds no pattern.
fn letters(count: usize) -> Vec<u8> {
    let mut state = 0x0123_4567_89AB_CDEF_u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b'a' + u8::try_from((state >> 33) % 26).unwrap_or_default()
        })
        .collect()
}

fn hex(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair.copy_from_slice(&[byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
    text
}

fn unhex(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |number, &digit| {
        Some(number << 4 | u64::from(char::from(digit).to_digit(16)?))
    })
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Verdict};

    #[test]
    fn body_taken_once_and_intact_is_no_fault() {
        for length in [128, 4096] {
            let ledger = Ledger::new(length);
            let bodies: Vec<_> = (0..3000).map(|_| ledger.body()).collect();
            assert!(bodies.iter().all(|body| body.len() == length && body.is_ascii()));
            for body in &bodies {
                ledger.check(body);
            }
            ledger.count_lost();
            assert_eq!(ledger.faults(), (0, Vec::new()));
        }
    }

    #[test]
    fn body_that_is_changed_duplicated_lost_or_never_put_is_a_fault() {
        let ledger = Ledger::new(128);
        let (mut first, second) = (ledger.body(), ledger.body());
        ledger.check(&second);
        ledger.check(&second);
        first[127] ^= 1;
        ledger.check(&first);
        let other = Ledger::new(128);
        let third = (0..3).map(|_| other.body()).last().unwrap_or_default();
        ledger.check(&third);
        ledger.count_lost();
        let (count, examples) = ledger.faults();
        assert_eq!(count, 4, "{examples:?}");
        assert!(examples[0].contains("twice") && examples[3].contains("lost"), "{examples:?}");
    }

    #[test]
    fn job_that_fails_once_and_is_acked_is_no_fault() {
        let ledger = Ledger::for_jobs(128);
        let jobs: Vec<_> = (0..100).map(|_| ledger.body()).collect();
        for (verdict, attempt) in [(Verdict::Fail, 1), (Verdict::Ack, 2)] {
            for (n, job) in jobs.iter().enumerate() {
                let counted = Some(attempt).filter(|_| n % 2 == 0);
                assert_eq!(ledger.check_job(job, counted), verdict);
            }
        }
        ledger.count_lost();
        assert_eq!((ledger.faults(), ledger.taken()), ((0, Vec::new()), 100));
    }

    #[test]
    fn job_that_is_lost_after_its_failure_or_delivered_too_often_is_a_fault() {
        let ledger = Ledger::for_jobs(128);
        let (lost, thrice, miscounted) = (ledger.body(), ledger.body(), ledger.body());
        ledger.check_job(&lost, Some(1));
        for job in [&thrice, &thrice, &thrice, &miscounted] {
            ledger.check_job(job, None);
        }
        ledger.check_job(&miscounted, Some(1));
        ledger.check(&miscounted);
        ledger.count_lost();
        let (count, examples) = ledger.faults();
        assert_eq!(count, 4, "{examples:?}");
        for (example, part) in examples.iter().zip(["more than", "counted", "after", "lost"]) {
            assert!(example.contains(part), "{examples:?}");
        }
    }
}
