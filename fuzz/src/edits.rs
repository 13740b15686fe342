//! Damage to the bytes of a disk, and to the rows of the database on it.

use arbitrary::{Arbitrary, Result, Unstructured};
use redb::{Database, TableDefinition};
use tubewell_drivers::Table;

use crate::disk::{Bytes, Disk, LEN_MAX, PAGE};
use crate::history::HISTORY;

type Row = (Vec<u8>, Vec<u8>);

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// Damages the bytes in one place, usually in a page that is not all zero.
pub fn damage(bytes: &mut Bytes, used: &[usize], u: &mut Unstructured<'_>) -> Result<()> {
    let kind = u.int_in_range(0..=9)?;
    let at = *u.choose(used)?;
    let mut page = bytes.page(at);
    let from = u.int_in_range(0..=PAGE - 1)?;
    match kind {
        0..=2 => page[from] ^= 1 << u.int_in_range(0..=7)?,
        3 => page[from] = u8::arbitrary(u)?,
        4 => {
            let new = <&[u8]>::arbitrary(u)?;
            let new = &new[..new.len().min(PAGE - from)];
            page[from..from + new.len()].copy_from_slice(new);
        }
        5 => page[from..].fill(0),
        6 => page.fill(*u.choose(&[0, 0xff])?),
        7 => {
            let other = *u.choose(used)?;
            bytes.set_page(at, &bytes.page(other));
            bytes.set_page(other, &page);
            return Ok(());
        }
        8 => {
            // A page of an earlier or later image.
            let (image, others) = HISTORY.image(u.int_in_range(0..=4)?);
            page = image.page(if u.ratio(2, 3)? { at } else { *u.choose(others)? });
        }
        _ => {
            let len = match u.int_in_range(0..=3)? {
                0 => at * PAGE + from,
                1 => at * PAGE,
                2 => bytes.len() + from,
                _ => usize::try_from(LEN_MAX).unwrap(),
            };
            bytes.set_len(len);
            return Ok(());
        }
    }
    bytes.set_page(at, &page);
    Ok(())
}

/// Damages one or two rows of a table. The pages of the engine stay valid.
pub fn damage_rows(disk: &Disk, u: &mut Unstructured<'_>) -> Result<()> {
    let table = *u.choose(&Table::ALL)?;
    let mut rows = read(disk, table);
    if rows.is_empty() {
        return Ok(());
    }
    let at = u.int_in_range(0..=rows.len() - 1)?;
    let (key, value) = rows[at].clone();
    let other = *u.choose(&[0, rows.len() / 2, rows.len() - 1])?;
    let mut new = match u.int_in_range(0..=5)? {
        0 => vec![(key, None)],
        1 => {
            let mut value = value;
            change(&mut value, u)?;
            vec![(key, Some(value))]
        }
        2 => {
            let mut changed = key.clone();
            change(&mut changed, u)?;
            vec![(key, None), (changed, Some(value))]
        }
        3 => {
            let mut changed = key;
            change(&mut changed, u)?;
            vec![(changed, Some(value))]
        }
        4 => {
            let (other_key, other_value) = rows.swap_remove(other);
            vec![(key, Some(other_value)), (other_key, Some(value))]
        }
        _ => vec![(key, Some(<&[u8]>::arbitrary(u)?.to_vec()))],
    };
    // The engine accepts an empty key, but tubewell never writes one.
    new.retain(|(key, _)| !key.is_empty());
    write(disk, table, new);
    Ok(())
}

fn change(bytes: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let at = u.int_in_range(0..=bytes.len() - 1)?;
    match u.int_in_range(0..=2)? {
        0 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
        1 => bytes[at] = u8::arbitrary(u)?,
        _ => bytes.truncate(at),
    }
    Ok(())
}

/// The rows of a table. The store must not be open.
pub fn read(disk: &Disk, table: Table) -> Vec<Row> {
    let database = open(disk);
    let transaction = redb::ReadableDatabase::begin_read(&database).unwrap();
    let Ok(rows) = transaction.open_table(definition(table)) else { return Vec::new() };
    let rows = rows.range::<&[u8]>(..).unwrap().map(|row| {
        let (key, value) = row.unwrap();
        (key.value().to_vec(), value.value().to_vec())
    });
    rows.collect()
}

/// Writes rows, and removes rows without a value. The store must not be open.
pub fn write(disk: &Disk, table: Table, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    let database = open(disk);
    let transaction = database.begin_write().unwrap();
    {
        let mut stored = transaction.open_table(definition(table)).unwrap();
        for (key, value) in rows {
            match value {
                Some(value) => drop(stored.insert(&key[..], &value[..]).unwrap()),
                None => drop(stored.remove(&key[..]).unwrap()),
            }
        }
    }
    transaction.commit().unwrap();
}

fn open(disk: &Disk) -> Database {
    redb::Builder::new().set_cache_size(1 << 20).create_with_backend(disk.share()).unwrap()
}
