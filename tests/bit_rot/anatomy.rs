//! Where in a file which row is, as far as rows can be told apart from outside.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use redb::backends::InMemoryBackend;
use redb::{
    Builder, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableHandle,
};

pub const PAGE: usize = 4096;
/// Where the engine's bytes begin: behind the journal.
pub const FRONT: usize = 1 << 20;
/// How a page of the engine begins that has rows.
const LEAF: u8 = 1;

/// What a byte belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The file's title, or the engine's header.
    Header,
    /// Records, the newest or old ones.
    Journal,
    /// A row of this table, newest or an old copy of it.
    Key(String),
    Value(String),
    /// A whole page of such rows.
    Page(String),
    /// In a page of rows, but in none of them.
    Frame,
    /// Branches, the engine's own tables, old pages.
    Other,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("header"),
            Place::Journal => f.write_str("journal"),
            Place::Key(table) => write!(f, "{table} keys"),
            Place::Value(table) => write!(f, "{table} values"),
            Place::Page(table) => write!(f, "{table} pages"),
            Place::Frame => f.write_str("frames of leaves"),
            Place::Other => f.write_str("other pages"),
        }
    }
}

/// A row and where its bytes are.
#[derive(Clone, Debug)]
pub struct Found {
    pub table: String,
    pub key: Vec<u8>,
    pub key_at: Range<usize>,
    pub value_at: Range<usize>,
}

impl Found {
    /// The task of a row of `tasks` or `bodies`: its key ends with the id.
    pub fn id(&self) -> u64 {
        u64::from_be_bytes(self.key[self.key.len() - 8..].try_into().unwrap())
    }
}

pub struct Anatomy {
    pub rows: Vec<Found>,
    /// Pages that are not all zeros.
    pub pages: Vec<usize>,
}

impl Anatomy {
    pub fn of(bytes: &[u8]) -> Anatomy {
        let known = rows(bytes);
        let zeros = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let pages: Vec<usize> =
            (0..bytes.len() / PAGE).filter(|n| !zeros(&bytes[n * PAGE..][..PAGE])).collect();
        let behind = pages.iter().filter(|page| **page >= FRONT / PAGE);
        let leaves = behind.flat_map(|page| leaf(bytes, page * PAGE));
        let rows = leaves.filter_map(|(key_at, value_at)| {
            let named = known.get(&bytes[key_at.clone()])?;
            let (table, _) = named.iter().find(|(_, value)| bytes[value_at.clone()] == **value)?;
            Some(Found {
                table: table.clone(),
                key: bytes[key_at.clone()].to_vec(),
                key_at,
                value_at,
            })
        });
        Anatomy { rows: rows.collect(), pages }
    }

    pub fn place(&self, at: usize) -> Place {
        if let near @ (Place::Header | Place::Journal) = self.page(at / PAGE) {
            return near;
        }
        for row in &self.rows {
            if row.key_at.contains(&at) {
                return Place::Key(row.table.clone());
            }
            if row.value_at.contains(&at) {
                return Place::Value(row.table.clone());
            }
        }
        let near = |row: &Found| row.key_at.start / PAGE == at / PAGE;
        if self.rows.iter().any(near) { Place::Frame } else { Place::Other }
    }

    /// What a whole page is.
    pub fn page(&self, page: usize) -> Place {
        let here = self.rows.iter().find(|row| row.key_at.start / PAGE == page);
        match here {
            _ if page == 0 || page == FRONT / PAGE => Place::Header,
            _ if page < FRONT / PAGE => Place::Journal,
            Some(row) => Place::Page(row.table.clone()),
            None => Place::Other,
        }
    }
}

/// Key to the tables that have it, each with its value.
type Rows = HashMap<Vec<u8>, Vec<(String, Vec<u8>)>>;

/// All rows of a sound file that are not in its journal only.
fn rows(bytes: &[u8]) -> Rows {
    let bytes = &bytes[FRONT..];
    let medium = InMemoryBackend::new();
    medium.set_len(bytes.len() as u64).unwrap();
    medium.write(0, bytes).unwrap();
    let database = Builder::new().create_with_backend(medium).unwrap();
    let read = database.begin_read().unwrap();
    let mut rows = Rows::new();
    let names: Vec<String> = read.list_tables().unwrap().map(|t| t.name().to_owned()).collect();
    for name in names {
        let table = read.open_table(TableDefinition::<&[u8], &[u8]>::new(&name)).unwrap();
        for row in table.iter().unwrap() {
            let (key, value) = row.unwrap();
            let named = rows.entry(key.value().to_vec()).or_default();
            named.push((name.clone(), value.value().to_vec()));
        }
    }
    rows
}

/// The pairs of a page of the engine's, if it is one that has pairs: kind, number of pairs, ends of
/// keys, ends of values, keys, values.
fn leaf(bytes: &[u8], at: usize) -> Vec<(Range<usize>, Range<usize>)> {
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
