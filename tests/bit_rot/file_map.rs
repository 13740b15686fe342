//! Finds the rows of a store in the bytes of its file.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use redb::backends::InMemoryBackend;
use redb::{
    Builder, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableHandle,
};

pub const PAGE: usize = 4096;
/// Where the engine's bytes begin, after the journal.
pub const ENGINE_START: usize = 1 << 20;
/// The first byte of an engine page that has rows.
const LEAF: u8 = 1;

/// What a byte or a page belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// The page with the file header, or with the engine's header.
    Header,
    /// Journal records, new or outdated.
    Journal,
    /// The key of a row of this table. The row may be an outdated copy.
    Key(String),
    /// The value of such a row.
    Value(String),
    /// A whole page with rows of this table.
    Page(String),
    /// A byte between the rows of a page.
    Frame,
    /// Branch pages, the engine's own tables, unused pages.
    Other,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Header => f.write_str("header"),
            Location::Journal => f.write_str("journal"),
            Location::Key(table) => write!(f, "{table} keys"),
            Location::Value(table) => write!(f, "{table} values"),
            Location::Page(table) => write!(f, "{table} pages"),
            Location::Frame => f.write_str("frames of leaves"),
            Location::Other => f.write_str("other pages"),
        }
    }
}

/// A row and the position of its bytes.
#[derive(Clone, Debug)]
pub struct Row {
    pub table: String,
    pub key: Vec<u8>,
    pub key_at: Range<usize>,
    pub value_at: Range<usize>,
}

impl Row {
    /// The task id of a row of `tasks` or `bodies`, whose keys end with it.
    pub fn id(&self) -> u64 {
        u64::from_be_bytes(self.key[self.key.len() - 8..].try_into().unwrap())
    }
}

/// The rows and used pages of a file.
pub struct FileMap {
    pub rows: Vec<Row>,
    /// Pages that are not all zeros.
    pub pages: Vec<usize>,
}

impl FileMap {
    pub fn new(bytes: &[u8]) -> FileMap {
        let current = read_rows(bytes);
        let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let pages: Vec<usize> =
            (0..bytes.len() / PAGE).filter(|n| !is_zero(&bytes[n * PAGE..][..PAGE])).collect();
        let engine_pages = pages.iter().filter(|page| **page >= ENGINE_START / PAGE);
        let leaves = engine_pages.flat_map(|page| parse_leaf(bytes, page * PAGE));
        let rows = leaves.filter_map(|(key_at, value_at)| {
            let same_key = current.get(&bytes[key_at.clone()])?;
            let (table, _) =
                same_key.iter().find(|(_, value)| bytes[value_at.clone()] == **value)?;
            Some(Row {
                table: table.clone(),
                key: bytes[key_at.clone()].to_vec(),
                key_at,
                value_at,
            })
        });
        FileMap { rows: rows.collect(), pages }
    }

    /// What the byte at this offset belongs to.
    pub fn byte(&self, at: usize) -> Location {
        if let location @ (Location::Header | Location::Journal) = self.page(at / PAGE) {
            return location;
        }
        for row in &self.rows {
            if row.key_at.contains(&at) {
                return Location::Key(row.table.clone());
            }
            if row.value_at.contains(&at) {
                return Location::Value(row.table.clone());
            }
        }
        let in_page = |row: &Row| row.key_at.start / PAGE == at / PAGE;
        if self.rows.iter().any(in_page) { Location::Frame } else { Location::Other }
    }

    /// What a whole page belongs to.
    pub fn page(&self, page: usize) -> Location {
        let row = self.rows.iter().find(|row| row.key_at.start / PAGE == page);
        match row {
            _ if page == 0 || page == ENGINE_START / PAGE => Location::Header,
            _ if page < ENGINE_START / PAGE => Location::Journal,
            Some(row) => Location::Page(row.table.clone()),
            None => Location::Other,
        }
    }
}

/// From a key to the tables that have it, each with its value.
type RowsByKey = HashMap<Vec<u8>, Vec<(String, Vec<u8>)>>;

/// All rows of an undamaged file, except those that are only in its journal.
fn read_rows(bytes: &[u8]) -> RowsByKey {
    let bytes = &bytes[ENGINE_START..];
    let medium = InMemoryBackend::new();
    medium.set_len(bytes.len() as u64).unwrap();
    medium.write(0, bytes).unwrap();
    let database = Builder::new().create_with_backend(medium).unwrap();
    let read = database.begin_read().unwrap();
    let mut rows = RowsByKey::new();
    let names: Vec<String> = read.list_tables().unwrap().map(|t| t.name().to_owned()).collect();
    for name in names {
        let table = read.open_table(TableDefinition::<&[u8], &[u8]>::new(&name)).unwrap();
        for row in table.iter().unwrap() {
            let (key, value) = row.unwrap();
            let same_key = rows.entry(key.value().to_vec()).or_default();
            same_key.push((name.clone(), value.value().to_vec()));
        }
    }
    rows
}

/// The positions of the keys and values of a leaf page; empty for other pages. The layout of a
/// leaf: kind, number of pairs, ends of keys, ends of values, keys, values.
fn parse_leaf(bytes: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let number = |from: usize| -> Option<usize> {
        let four = bytes.get(from..from + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let pairs = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
    if bytes[at] != LEAF || pairs > PAGE / 8 {
        return Vec::new();
    }
    let (key_ends, value_ends) = (at + 4, at + 4 + 4 * pairs);
    let mut found = Vec::new();
    let mut key = at + 4 + 8 * pairs;
    let last_key = pairs.checked_sub(1).and_then(|last| number(key_ends + 4 * last));
    let Some(mut value) = last_key.map(|end| at + end) else { return found };
    for nth in 0..pairs {
        let ends = number(key_ends + 4 * nth).zip(number(value_ends + 4 * nth));
        let Some((key_end, value_end)) = ends.map(|(k, v)| (at + k, at + v)) else { break };
        if key > key_end || value > value_end || value_end > bytes.len() {
            break;
        }
        found.push((key..key_end, value..value_end));
        (key, value) = (key_end, value_end);
    }
    found
}
