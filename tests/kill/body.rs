//! Bodies of tasks. The label at the start of a body determines all its other bytes, so that a
//! changed byte is detected.

use crate::rng::Rng;

/// The body with this label and so many bytes of filler.
pub fn with_label(label: &str, filler: u64) -> Vec<u8> {
    let mut bytes = format!("{label}|{filler}|").into_bytes();
    let mut rng = Rng::new(label.bytes().fold(filler, |sum, byte| {
        sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
    }));
    bytes.extend((0..filler).map(|_| rng.next().to_le_bytes()[0]));
    bytes
}

/// The label of a body; `None` if a byte of the body has changed.
pub fn label(bytes: &[u8]) -> Option<String> {
    let mut parts = bytes.splitn(3, |byte| *byte == b'|');
    let label = std::str::from_utf8(parts.next()?).ok()?;
    let filler = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    (filler <= bytes.len() as u64 && with_label(label, filler) == bytes).then(|| label.to_owned())
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
