//! Tables of the application, whose types only the application knows: copied as bytes.
//!
//! The engine opens a table only with the names and widths of its types. It tells them when a table
//! is opened with others, so a table is opened as one of [`UntypedKey`] and [`UntypedValue`], which
//! have the names and widths that this thread has set. The order of keys is not known: rows are
//! read in their order, and each one is inserted behind all others.

use std::cell::RefCell;
use std::cmp::Ordering;

use redb::{
    Durability, Key, MultimapTableDefinition, MultimapTableHandle, ReadTransaction,
    ReadableMultimapTable, ReadableTable, ReadableTableMetadata, TableDefinition, TableError,
    TableHandle, TypeName, Value, WriteTransaction,
};
use tubewell_drivers::Table;

/// No type has this width.
const NO_WIDTH: Option<usize> = Some(usize::MAX);

/// The types of the table that this thread copies.
#[derive(Clone, Default)]
struct Types {
    key: Option<TypeName>,
    value: Option<TypeName>,
    key_width: Option<usize>,
    value_width: Option<usize>,
    /// The key and the value that are inserted: they are behind all others.
    last_key: Vec<u8>,
    last_value: Vec<u8>,
}

thread_local! {
    static TYPES: RefCell<Types> = RefCell::default();
}

/// A key of any type.
#[derive(Debug)]
struct UntypedKey;

/// A value of any type, also as the key of the values of a multimap table.
#[derive(Debug)]
struct UntypedValue;

macro_rules! untyped {
    ($type:ty, $name:ident, $width:ident, $last:ident) => {
        impl Value for $type {
            type SelfType<'a> = &'a [u8];
            type AsBytes<'a> = &'a [u8];

            fn fixed_width() -> Option<usize> {
                TYPES.with_borrow(|types| types.$width)
            }

            fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
            where
                Self: 'a,
            {
                data
            }

            fn as_bytes<'a, 'b: 'a>(value: &'a Self::SelfType<'b>) -> &'a [u8]
            where
                Self: 'b,
            {
                value
            }

            fn type_name() -> TypeName {
                let name = TYPES.with_borrow(|types| types.$name.clone());
                name.unwrap_or_else(|| TypeName::new("tubewell::Unknown"))
            }
        }

        impl Key for $type {
            fn compare(one: &[u8], other: &[u8]) -> Ordering {
                if one == other {
                    return Ordering::Equal;
                }
                let is_last = TYPES.with_borrow(|types| one == types.$last);
                if is_last { Ordering::Greater } else { Ordering::Less }
            }
        }
    };
}

untyped!(UntypedKey, key, key_width, last_key);
untyped!(UntypedValue, value, value_width, last_value);

/// Whether a table is one of the store.
fn is_own(name: &str) -> bool {
    !Table::ALL.iter().any(|table| table.name() == name)
}

/// The names of the tables that the application has, with one value for a key and with several.
pub(super) fn own_tables(
    transaction: &ReadTransaction,
) -> Result<(Vec<String>, Vec<String>), redb::Error> {
    let tables = transaction.list_tables()?.map(|table| table.name().to_owned());
    let multimaps = transaction.list_multimap_tables()?.map(|table| table.name().to_owned());
    Ok((tables.filter(|name| is_own(name)).collect(), multimaps.collect()))
}

/// The number of rows in the tables of the application.
pub(super) fn own_rows(transaction: &ReadTransaction) -> Result<u64, redb::Error> {
    let mut rows = 0;
    for table in transaction.list_tables()?.filter(|table| is_own(table.name())) {
        rows += transaction.open_untyped_table(table)?.len()?;
    }
    for table in transaction.list_multimap_tables()? {
        rows += transaction.open_untyped_multimap_table(table)?.len()?;
    }
    Ok(rows)
}

/// Copies the tables of the application into another database: up to `bytes` bytes with each of its
/// transactions, which `begin` begins.
pub(super) fn copy_own_tables(
    from: &ReadTransaction,
    begin: &dyn Fn() -> Result<WriteTransaction, redb::Error>,
    bytes: usize,
) -> Result<(), redb::Error> {
    let (tables, multimaps) = own_tables(from)?;
    for name in tables {
        let definition = TableDefinition::<UntypedKey, UntypedValue>::new(&name);
        let _types = TypesGuard::find(|| from.open_table(definition).map(drop))?;
        let source = from.open_table(definition)?;
        let rows = source.iter()?.map(|row| {
            let row = row?;
            Ok((row.0.value().to_vec(), row.1.value().to_vec()))
        });
        write_in_steps(begin, bytes, source.len()?, rows, |to, rows| {
            let mut table = to.open_table(definition)?;
            for (key, value) in rows {
                set_last(key, &[]);
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })?;
    }
    for name in multimaps {
        let definition = MultimapTableDefinition::<UntypedKey, UntypedValue>::new(&name);
        let _types = TypesGuard::find(|| from.open_multimap_table(definition).map(drop))?;
        let source = from.open_multimap_table(definition)?;
        let rows = source.iter()?.flat_map(|found| {
            let (key, values) = match found {
                Ok((key, values)) => (key.value().to_vec(), values),
                Err(error) => return Box::new(std::iter::once(Err(error))) as Rows<'_>,
            };
            Box::new(values.map(move |value| Ok((key.clone(), value?.value().to_vec()))))
        });
        write_in_steps(begin, bytes, source.len()?, rows, |to, rows| {
            let mut table = to.open_multimap_table(definition)?;
            for (key, value) in rows {
                set_last(key, value);
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

type Row = (Vec<u8>, Vec<u8>);
type Rows<'a> = Box<dyn Iterator<Item = Result<Row, redb::StorageError>> + 'a>;

/// Writes rows with transactions of up to `bytes` bytes, and at least one. Damaged pages can form a
/// cycle: more rows than the table has are an error.
fn write_in_steps(
    begin: &dyn Fn() -> Result<WriteTransaction, redb::Error>,
    bytes: usize,
    mut left: u64,
    mut rows: impl Iterator<Item = Result<Row, redb::StorageError>>,
    write: impl Fn(&WriteTransaction, &[Row]) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut is_over = false;
    while !is_over {
        let (mut step, mut size) = (Vec::new(), 0);
        while size < bytes {
            let Some(row) = rows.next() else {
                is_over = true;
                break;
            };
            let (key, value) = row?;
            left = left.checked_sub(1).ok_or_else(|| {
                redb::Error::Corrupted("a table of the application has too many rows".into())
            })?;
            size += key.len() + value.len();
            step.push((key, value));
        }
        let mut transaction = begin()?;
        transaction.set_durability(Durability::None)?;
        write(&transaction, &step)?;
        transaction.commit()?;
    }
    Ok(())
}

fn set_last(key: &[u8], value: &[u8]) {
    TYPES.with_borrow_mut(|types| {
        types.last_key.clear();
        types.last_key.extend_from_slice(key);
        types.last_value.clear();
        types.last_value.extend_from_slice(value);
    });
}

/// The types of a table are set until this is dropped.
struct TypesGuard;

impl TypesGuard {
    /// Finds the types of a table: `open` opens it.
    fn find(open: impl Fn() -> Result<(), TableError>) -> Result<TypesGuard, redb::Error> {
        let guard = TypesGuard;
        TYPES.set(Types::default());
        if let Err(TableError::TableTypeMismatch { key, value, .. }) = open() {
            TYPES.with_borrow_mut(|types| (types.key, types.value) = (Some(key), Some(value)));
        }
        // With a width that no type has, the engine tells the one of the table: of the key first.
        TYPES.with_borrow_mut(|types| (types.key_width, types.value_width) = (NO_WIDTH, NO_WIDTH));
        if let Err(TableError::TypeDefinitionChanged { width, .. }) = open() {
            TYPES.with_borrow_mut(|types| types.key_width = width);
        }
        if let Err(TableError::TypeDefinitionChanged { width, .. }) = open() {
            TYPES.with_borrow_mut(|types| types.value_width = width);
        }
        open()?;
        Ok(guard)
    }
}

impl Drop for TypesGuard {
    fn drop(&mut self) {
        TYPES.set(Types::default());
    }
}
