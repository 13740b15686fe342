//! Which bodies went in and which came out.
//!
//! A body is plain text, so that any peer can carry it: its serial number and a checksum in
//! hexadecimal, then letters that depend on the serial number.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Serial number and checksum.
const HEAD: usize = 32;
/// Serial numbers whose marks are kept together.
const CHUNK: u64 = 1 << 20;
const CHUNKS: usize = 1 << 10;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Faults that are told in words; all are counted.
const TOLD: usize = 5;

pub struct Ledger {
    length: usize,
    letters: Vec<u8>,
    next: AtomicU64,
    taken: AtomicU64,
    /// Bodies put and taken that another process keeps a ledger of.
    elsewhere: (AtomicU64, AtomicU64),
    marks: Vec<OnceLock<Box<[AtomicU64]>>>,
    faults: AtomicU64,
    told: Mutex<Vec<String>>,
}

impl Ledger {
    /// A ledger for bodies of so many bytes, at least 40.
    pub fn new(length: usize) -> Ledger {
        Ledger {
            length: length.max(HEAD + 8),
            letters: letters(length + 4096),
            next: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            elsewhere: (AtomicU64::new(0), AtomicU64::new(0)),
            marks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            faults: AtomicU64::new(0),
            told: Mutex::new(Vec::new()),
        }
    }

    /// Makes `body` the next one. It is to be put, and put once.
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

    /// Looks at a body that was taken, and notes what is wrong with it.
    pub fn check(&self, body: &[u8]) {
        let Some(serial) = self.serial(body) else {
            let start = String::from_utf8_lossy(&body[..body.len().min(HEAD)]);
            return self.fault(format!("a wrong body of {} bytes, \"{start}…\"", body.len()));
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.mark(serial) {
            self.fault(format!("body {serial} was handed out twice"));
        }
    }

    /// Notes something that is wrong.
    pub fn fault(&self, what: String) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push(what);
        }
    }

    /// Notes so many bodies more that were put and taken in another process, which looks at each.
    pub fn add_elsewhere(&self, put: u64, taken: u64) {
        self.elsewhere.0.fetch_add(put, Ordering::Relaxed);
        self.elsewhere.1.fetch_add(taken, Ordering::Relaxed);
    }

    /// Bodies handed out to be put so far.
    pub fn put(&self) -> u64 {
        self.next.load(Ordering::Relaxed) + self.elsewhere.0.load(Ordering::Relaxed)
    }

    /// Sound bodies taken so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed) + self.elsewhere.1.load(Ordering::Relaxed)
    }

    /// Notes the bodies that never came back; for a queue that has been drained.
    pub fn settle(&self) {
        let here = self.next.load(Ordering::Relaxed);
        let lost: Vec<u64> = (0..here).filter(|&serial| !self.marked(serial)).collect();
        if let Some(first) = lost.first() {
            self.faults.fetch_add(lost.len() as u64 - 1, Ordering::Relaxed);
            self.fault(format!("{} bodies were lost, the first is {first}", lost.len()));
        }
        let (put, taken) = (&self.elsewhere.0, &self.elsewhere.1);
        let lost = put.load(Ordering::Relaxed).saturating_sub(taken.load(Ordering::Relaxed));
        if lost > 0 {
            self.faults.fetch_add(lost - 1, Ordering::Relaxed);
            self.fault(format!("{lost} bodies were lost"));
        }
    }

    /// What was wrong: how much of it, and the first few in words.
    pub fn faults(&self) -> (u64, Vec<String>) {
        (self.faults.load(Ordering::Relaxed), self.told.lock().clone())
    }

    fn filler(&self, serial: u64) -> &[u8] {
        let start = usize::try_from(serial.wrapping_mul(0x9E37_79B9) % 4096).unwrap_or_default();
        &self.letters[start..start + self.length - HEAD]
    }

    /// The serial number of a body that is one of ours, whole.
    fn serial(&self, body: &[u8]) -> Option<u64> {
        if body.len() != self.length {
            return None;
        }
        let (serial, checksum) = (unhex(&body[..16])?, unhex(&body[16..HEAD])?);
        let put = serial < self.next.load(Ordering::Relaxed);
        let sound = put && checksum == xxh3_64_with_seed(&body[HEAD..], serial);
        sound.then_some(serial)
    }

    /// Marks it as taken; whether it was before.
    fn mark(&self, serial: u64) -> bool {
        let Some((chunk, word, bit)) = place(serial) else { return false };
        let chunk = self.marks[chunk].get_or_init(|| {
            (0..CHUNK / 64).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into_boxed_slice()
        });
        chunk[word].fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    fn marked(&self, serial: u64) -> bool {
        place(serial).is_none_or(|(chunk, word, bit)| {
            self.marks[chunk]
                .get()
                .is_some_and(|chunk| chunk[word].load(Ordering::Relaxed) & bit != 0)
        })
    }
}

fn place(serial: u64) -> Option<(usize, usize, u64)> {
    let chunk = usize::try_from(serial / CHUNK).ok().filter(|&chunk| chunk < CHUNKS)?;
    let word = usize::try_from(serial % CHUNK / 64).ok()?;
    Some((chunk, word, 1 << (serial % 64)))
}

/// Letters in no order that a compressor would find.
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
    use super::Ledger;

    #[test]
    fn a_body_that_comes_back_whole_and_once_is_no_fault() {
        for length in [128, 4096] {
            let ledger = Ledger::new(length);
            let bodies: Vec<_> = (0..3000).map(|_| ledger.body()).collect();
            assert!(bodies.iter().all(|body| body.len() == length && body.is_ascii()));
            for body in &bodies {
                ledger.check(body);
            }
            ledger.settle();
            assert_eq!(ledger.faults(), (0, Vec::new()));
        }
    }

    #[test]
    fn a_body_that_is_changed_doubled_lost_or_never_put_is_a_fault() {
        let ledger = Ledger::new(128);
        let (mut first, second) = (ledger.body(), ledger.body());
        ledger.check(&second);
        ledger.check(&second);
        first[127] ^= 1;
        ledger.check(&first);
        let elsewhere = Ledger::new(128);
        let third = (0..3).map(|_| elsewhere.body()).last().unwrap_or_default();
        ledger.check(&third);
        ledger.settle();
        let (count, told) = ledger.faults();
        assert_eq!(count, 4, "{told:?}");
        assert!(told[0].contains("twice") && told[3].contains("lost"), "{told:?}");
    }
}
