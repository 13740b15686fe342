//! Reads of a damaged file: every row and every key that can still be read.

use tubewell_drivers::{Reads, Table, Value, keys};

use crate::Result;
use crate::storage::{Engine, Snapshot};

/// How often an unreadable range of keys is halved without finding a readable part.
const MAX_HALVINGS: u32 = 10;
/// The number of ranges that are tried. More would find nothing more in any damaged file.
const MAX_RANGES: u32 = 20_000;

pub(super) struct Reader<'a> {
    engine: &'a Engine,
    rows: Snapshot,
}

impl<'a> Reader<'a> {
    pub(super) fn new(engine: &'a Engine) -> Result<Reader<'a>> {
        Ok(Reader { engine, rows: engine.snapshot()? })
    }

    pub(super) fn engine(&self) -> &'a Engine {
        self.engine
    }

    pub(super) fn rows(&mut self) -> &mut Snapshot {
        &mut self.rows
    }

    /// A row; `None` if it does not exist or cannot be read.
    pub(super) fn get(&mut self, table: Table, key: &[u8]) -> Option<Value> {
        self.rows.get(table, key).unwrap_or_else(|_| {
            self.renew_snapshot();
            None
        })
    }

    /// The readable keys of a range, and whether these are all of them. An unreadable range is read
    /// forwards and backwards up to the damage; what is left is halved and read again.
    pub(super) fn keys(&mut self, table: Table, from: &[u8], to: &[u8]) -> (Vec<Vec<u8>>, bool) {
        self.keys_halving(table, from, to, MAX_HALVINGS)
    }

    /// As `keys`, for a range of a single task: what is left between the damaged parts is not read,
    /// since there may be many such ranges.
    pub(super) fn keys_of_task(&mut self, table: Table, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.keys_halving(table, prefix, &keys::end_of(prefix), 0).0
    }

    fn keys_halving(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        max_halvings: u32,
    ) -> (Vec<Vec<u8>>, bool) {
        let mut found = Vec::new();
        let (mut gaps, mut tried) = (0, 0);
        let mut ranges = vec![(from.to_vec(), to.to_vec(), max_halvings)];
        while let Some((mut from, mut to, halvings)) = ranges.pop() {
            tried += 1;
            let before = found.len();
            let mut is_complete = false;
            for backwards in [false, true] {
                let each = &mut |key: &[u8]| found.push(key.to_vec());
                if self.rows.database_keys(table, &from, &to, backwards, each).is_ok() {
                    is_complete = true;
                    break;
                }
                self.renew_snapshot();
                match (found.len() > before, found.last()) {
                    (true, Some(last)) if backwards => to.clone_from(last),
                    (true, Some(last)) => from = keys::after(last),
                    _ => {}
                }
            }
            if is_complete {
                continue;
            }
            let left = if found.len() > before { max_halvings } else { halvings.saturating_sub(1) };
            match middle(&from, &to).filter(|_| left > 0 && tried < MAX_RANGES) {
                Some(middle) => {
                    ranges.push((middle.clone(), to, left));
                    ranges.push((from, middle, left));
                }
                None => gaps += 1,
            }
        }
        self.rows.apply_journal_to_keys(table, from, to, &mut found);
        found.sort_unstable();
        found.dedup();
        (found, gaps == 0)
    }

    /// Takes a new snapshot. The old one is not used again after a failure of the engine.
    fn renew_snapshot(&mut self) {
        if let Ok(rows) = self.engine.snapshot() {
            self.rows = rows;
        }
    }
}

/// A key about halfway between two others; `None` if there is none.
fn middle(from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let inner = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 16];
        let rest = key.get(inner..).unwrap_or_default();
        let length = rest.len().min(16);
        bytes[..length].copy_from_slice(&rest[..length]);
        u128::from_be_bytes(bytes)
    };
    let (low, high) = (number(from), number(to));
    let half = low.checked_add(high.checked_sub(low)? / 2)?;
    let mut middle = to[..inner].to_vec();
    middle.extend_from_slice(&half.to_be_bytes());
    (from < &middle[..] && &middle[..] < to).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_is_between_its_arguments() {
        assert_eq!(middle(&[1, 0], &[1, 4]).unwrap()[..2], [1, 2]);
        assert!(middle(&[], &[255; 5]).is_some());
        assert_eq!(middle(&[1, 2], &[1, 2]), None);
        let (mut low, high) = (vec![0; 21], vec![0, 0, 1]);
        for _ in 0..64 {
            let Some(next) = middle(&low, &high) else { return };
            assert!(low < next && next < high);
            low = next;
        }
    }
}
