//! Bodies of tasks. The label, the version and the filler's length at the start of a body determine
//! all its other bytes, so that a changed byte is detected.

use crate::rng::Rng;

/// The body that a task with this label is put with, with so many bytes of filler.
pub fn with_label(label: &str, filler: u64) -> Vec<u8> {
    with_version(label, 0, filler)
}

/// The body that a task has after so many replacements of its body.
pub fn with_version(label: &str, version: u64, filler: u64) -> Vec<u8> {
    let mut bytes = format!("{label}|{version}|{filler}|").into_bytes();
    let mut rng = Rng::new(bytes.iter().fold(filler, |sum, byte| {
        sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(*byte))
    }));
    bytes.extend((0..filler).map(|_| rng.next().to_le_bytes()[0]));
    bytes
}

/// The label and the version of a body; `None` if a byte of the body has changed.
pub fn label_and_version(bytes: &[u8]) -> Option<(String, u64)> {
    let mut parts = bytes.splitn(4, |byte| *byte == b'|');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let label = text()?;
    let version = text()?.parse().ok()?;
    let filler = text()?.parse().ok()?;
    let is_whole = filler <= bytes.len() as u64 && with_version(label, version, filler) == bytes;
    is_whole.then(|| (label.to_owned(), version))
}

/// The label of a body; `None` if a byte of the body has changed.
pub fn label(bytes: &[u8]) -> Option<String> {
    label_and_version(bytes).map(|(label, _)| label)
}

/// Bytes of filler, below and above the sizes at which the store keeps bodies differently.
pub fn random_filler(rng: &mut Rng) -> u64 {
    match rng.range(0..40) {
        0..=3 => rng.range(900..1100),
        4..=6 => rng.range(3900..4300),
        7 => 20_000,
        _ => rng.range(0..200),
    }
}
