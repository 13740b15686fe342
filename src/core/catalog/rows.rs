//! The rows of the table `meta`: their keys, the header of the store, and the definitions and
//! counts of the tubes.

use std::borrow::Cow;

use bincode::{Decode, Encode};
use tubewell_drivers::{Counts, Reads, Row, Table, TubeTotals, Value, keys};

use crate::base::codec;
use crate::core::state::Definition;
use crate::storage::Engine;
use crate::{Error, Result};

/// The format that this release writes, and the newest that it reads.
pub(in crate::core) const FORMAT: u32 = 1;

/// The key of the header.
pub(crate) const HEADER: &[u8] = b"header";

/// Stored numbers are below this. No store can count to it, and a few such numbers can be added
/// without an overflow.
const MAX_CREDIBLE: u64 = 1 << 61;

/// The header row, written with every commit.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct StoreHeader {
    /// [`FORMAT`]. First, so that every release can read it.
    pub(in crate::core) format: u32,
    /// The number of this commit.
    pub(in crate::core) commit: u64,
    pub(in crate::core) next_id: u64,
    /// Ids below this may have been assigned, if the store was not closed.
    pub(in crate::core) reserved: u64,
    pub(in crate::core) next_space: u32,
    /// The moment of the store's timeline at this commit.
    pub(crate) timeline: u64,
    /// True only in the commit at close.
    pub(in crate::core) closed: bool,
}

/// The key of a tube's definition.
pub(in crate::core) fn tube_key(name: &str) -> Vec<u8> {
    [b"tube/", name.as_bytes()].concat()
}

/// The key of the counts of a space.
pub(crate) fn count_key(space: u32) -> Vec<u8> {
    [b"count/".as_slice(), &space.to_be_bytes()].concat()
}

/// The key of the pause of a sub-queue. No tube name has a control character, so the names are separate.
pub(in crate::core) fn pause_key(tube: &str, sub: &str) -> Vec<u8> {
    [b"paused/", tube.as_bytes(), b"\0", sub.as_bytes()].concat()
}

/// The names of the tube and of the sub-queue in the key of a pause.
pub(in crate::core) fn paused_names(key: &[u8]) -> Option<(&str, &str)> {
    let names = std::str::from_utf8(key.strip_prefix(b"paused/")?).ok()?;
    names.split_once('\0')
}

/// The key of a limit that tubes share.
pub(in crate::core) fn limit_key(name: &str) -> Vec<u8> {
    [b"limit/", name.as_bytes()].concat()
}

/// The key of the mark of a space to purge.
pub(in crate::core) fn purge_key(space: u32) -> Vec<u8> {
    [b"dying/".as_slice(), &space.to_be_bytes()].concat()
}

/// Encodes a row of the catalog.
pub(in crate::core) fn encode(row: &impl Encode) -> Value {
    codec::encode_row(row)
}

/// Decodes a row of the catalog; `what` names it in the error.
pub(crate) fn decode<T: Decode<()>>(what: &str, row: &Value) -> Result<T> {
    codec::decode_row(row).ok_or_else(|| Error::corrupt(format!("{what} cannot be read")))
}

/// The totals of all tubes in the file, and the spaces to purge, as of one commit.
pub(crate) fn stored_totals<R: Reads<Error = Error>>(
    rows: &mut R,
) -> Result<(Vec<TubeTotals>, Vec<u32>)> {
    let (mut ledger, mut purges) = (Vec::new(), Vec::new());
    for (key, value) in scan_all(rows)? {
        if key.starts_with(b"tube/") {
            let definition: Definition = decode("a tube's definition", &value)?;
            let counts = match rows.get(Table::Meta, &count_key(definition.space))? {
                Some(row) if !definition.policies.temporary => decode_counts(&row)?,
                _ => Counts::default(),
            };
            ledger.push(TubeTotals {
                name: definition.name,
                space: definition.space,
                sub_queued: definition.sub_queued,
                counts,
            });
        } else if let Some(space) = key.strip_prefix(b"dying/") {
            purges.extend(keys::whole_space(space));
        }
    }
    Ok((ledger, purges))
}

/// The spaces to purge whose tasks have no edges.
pub(in crate::core) fn spaces_without_edges<R: Reads<Error = Error>>(
    rows: &mut R,
) -> Result<Vec<u32>> {
    let marks = scan_all(rows)?;
    let spaces = marks.iter().filter(|(_, mark)| mark.is_empty());
    Ok(spaces.filter_map(|(key, _)| keys::whole_space(key.strip_prefix(b"dying/")?)).collect())
}

/// The number of the last commit in a file; 0 if there is none yet.
pub(crate) fn last_commit(engine: &Engine) -> Result<u64> {
    Ok(read_header(&mut engine.snapshot()?)?.map_or(0, |header| header.commit))
}

/// Refuses a file of a newer format.
pub(crate) fn check_format(engine: &Engine) -> Result<()> {
    read_header(&mut engine.snapshot()?).map(|_| ())
}

/// The tubes in a file and the spaces to purge, as far as they can be read; and the descriptions of
/// the rows that cannot be read.
pub(crate) fn read_catalog(rows: &[Row]) -> (Vec<Definition>, Vec<u32>, Vec<String>) {
    let (mut tubes, mut purges, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in rows {
        if let Some(name) = key.strip_prefix(b"tube/") {
            match codec::decode_row::<Definition>(value) {
                Some(definition) => tubes.push(definition),
                None => lost.push(format!("the definition of tube {:?}", text(name))),
            }
        } else if let Some(space) = key.strip_prefix(b"dying/") {
            purges.extend(keys::whole_space(space));
        }
    }
    (tubes, purges, lost)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Reads the header. `None` if the file has none.
pub(crate) fn read_header<R: Reads<Error = Error>>(rows: &mut R) -> Result<Option<StoreHeader>> {
    let Some(row) = rows.get(Table::Meta, HEADER)? else {
        return Ok(None);
    };
    let found: u32 = codec::decode_prefix(&row)
        .ok_or_else(|| Error::corrupt("the store's header cannot be read"))?;
    if found > FORMAT {
        return Err(Error::NewerFormat { what: "format", found, supported: FORMAT });
    }
    let header: StoreHeader = decode("the store's header", &row)?;
    credible("the store's header", &[header.commit, header.next_id, header.reserved])?;
    Ok(Some(header))
}

pub(in crate::core) fn decode_counts(row: &Value) -> Result<Counts> {
    let counts: Counts = decode("a tube's counts", row)?;
    let Counts { ready, delayed, buried, done, blocked, edges, recurring } = counts;
    credible("a tube's counts", &[ready, delayed, buried, done, blocked, edges, recurring])?;
    Ok(counts)
}

/// Rejects numbers that no store can reach.
fn credible(what: &str, numbers: &[u64]) -> Result<()> {
    if numbers.iter().all(|number| *number < MAX_CREDIBLE) {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} has numbers that no store can reach")))
}

/// Checks that a file without a header has no rows. A file with rows has lost its header, and must
/// not start again with the first id.
pub(in crate::core) fn check_empty<R: Reads<Error = Error>>(rows: &mut R) -> Result<()> {
    for table in Table::ALL {
        if !rows.scan(table, &[], &[u8::MAX; 600], 1)?.is_empty() {
            return Err(Error::corrupt("the store's header is missing"));
        }
    }
    Ok(())
}

/// All rows of the table `meta`.
pub(in crate::core) fn scan_all<R: Reads<Error = Error>>(rows: &mut R) -> Result<Vec<Row>> {
    rows.scan(Table::Meta, &[], &[u8::MAX; 300], usize::MAX)
}
