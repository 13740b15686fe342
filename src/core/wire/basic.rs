//! The encoding of numbers, texts, times and collections.
//!
//! Numbers are LEB128: seven bits to a byte, the least first. Texts and bytes follow their length,
//! items their number. No type contains itself, so that the nesting is bounded by the types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::PUT_MANY_TASKS;

use super::input::{Input, Malformed, TOO_LARGE};
use crate::base::moment::{Moment, micros_of, system_time};
use crate::base::tube_no::TubeNo;
use crate::{Error, Result};

/// What an allocation takes at least.
const ALLOCATION: usize = 32;

/// A value that can be sent to another process. It has at least one byte.
pub(crate) trait Wire: Sized {
    /// How many of them a list of a request may have: as many as the largest call accepts.
    const MOST: usize = 10_000;

    /// The memory behind a value that is as short as can be, in bytes.
    const BEHIND: usize = 0;

    fn put(&self, out: &mut Vec<u8>);

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed>;
}

pub(crate) fn to_bytes<T: Wire>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

/// Decodes a value. Refuses bytes that are left over.
pub(crate) fn from_bytes<T: Wire>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut input = Input::new(bytes);
    let value = T::get(&mut input)?;
    input.end()?;
    Ok(value)
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits are left")]
fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(in crate::core) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.len().put(out);
    out.extend_from_slice(bytes);
}

pub(in crate::core) fn put_items<'t, T: Wire + 't>(
    items: impl ExactSizeIterator<Item = &'t T>,
    out: &mut Vec<u8>,
) {
    items.len().put(out);
    for item in items {
        item.put(out);
    }
}

pub(in crate::core) fn text<'a>(input: &mut Input<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(input.bytes()?).map_err(|_| Malformed::Invalid("a text is not UTF-8"))
}

impl Wire for u64 {
    /// Ids of tasks: as many as one `put_many` puts.
    const MOST: usize = PUT_MANY_TASKS;

    fn put(&self, out: &mut Vec<u8>) {
        put_number(*self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<u64, Malformed> {
        input.number()
    }
}

impl Wire for TubeNo {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<TubeNo, Malformed> {
        u32::get(input).map(TubeNo)
    }
}

impl Wire for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_number((*self).into(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<u32, Malformed> {
        u32::try_from(input.number()?).map_err(|_| TOO_LARGE)
    }
}

/// As `u64`, so that both sides may have other sizes. It is a limit: one that does not fit is the
/// highest.
impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(*self as u64, out);
    }

    fn get(input: &mut Input<'_>) -> Result<usize, Malformed> {
        Ok(usize::try_from(input.number()?).unwrap_or(usize::MAX))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    fn get(input: &mut Input<'_>) -> Result<bool, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Invalid("neither true nor false")),
        }
    }
}

impl Wire for () {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    fn get(input: &mut Input<'_>) -> Result<(), Malformed> {
        match input.byte()? {
            0 => Ok(()),
            _ => Err(Malformed::Invalid("a value where none is expected")),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Option<T>, Malformed> {
        bool::get(input)?.then(|| T::get(input)).transpose()
    }
}

/// The error of a call is a value too.
impl<T: Wire> Wire for Result<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Result<T>, Malformed> {
        if bool::get(input)? { Ok(Ok(T::get(input)?)) } else { Ok(Err(Error::get(input)?)) }
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Box<T>, Malformed> {
        T::get(input).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Arc<T>, Malformed> {
        T::get(input).map(Arc::new)
    }
}

impl Wire for String {
    const BEHIND: usize = ALLOCATION;

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<String, Malformed> {
        text(input).map(str::to_owned)
    }
}

impl Wire for Box<str> {
    const BEHIND: usize = ALLOCATION;

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Box<str>, Malformed> {
        text(input).map(Box::from)
    }
}

impl Wire for Arc<str> {
    const BEHIND: usize = ALLOCATION;

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Arc<str>, Malformed> {
        text(input).map(Arc::from)
    }
}

impl Wire for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Vec<u8>, Malformed> {
        input.bytes().map(<[u8]>::to_vec)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_items(self.iter(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Vec<T>, Malformed> {
        let count = input.count(T::MOST, size_of::<T>() + T::BEHIND)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(T::get(input)?);
        }
        Ok(items)
    }
}

impl<T: Wire> Wire for Arc<[T]>
where
    Arc<[T]>: Default,
{
    fn put(&self, out: &mut Vec<u8>) {
        put_items(self.iter(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Arc<[T]>, Malformed> {
        let items: Vec<T> = Wire::get(input)?;
        Ok(if items.is_empty() { Arc::default() } else { items.into() })
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<BTreeMap<K, V>, Malformed> {
        distinct::<(K, V), _>(input, BTreeMap::len, "a key comes twice")
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_items(self.iter(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<BTreeSet<T>, Malformed> {
        distinct::<T, _>(input, BTreeSet::len, "an item comes twice")
    }
}

/// Reads a list whose items come once each.
fn distinct<T: Wire, C: FromIterator<T>>(
    input: &mut Input<'_>,
    len: impl Fn(&C) -> usize,
    twice: &'static str,
) -> Result<C, Malformed> {
    let items: Vec<T> = Wire::get(input)?;
    let count = items.len();
    let all = C::from_iter(items);
    if len(&all) < count { Err(Malformed::Invalid(twice)) } else { Ok(all) }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<(A, B), Malformed> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

impl Wire for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Duration, Malformed> {
        let (secs, nanos) = (u64::get(input)?, u32::get(input)?);
        if nanos >= 1_000_000_000 {
            return Err(Malformed::Invalid("a time has more than a second of nanoseconds"));
        }
        Ok(Duration::new(secs, nanos))
    }
}

/// In microseconds since 1970, as the file has it.
impl Wire for Moment {
    fn put(&self, out: &mut Vec<u8>) {
        micros_of(*self).put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Moment, Malformed> {
        u64::get(input).map(system_time)
    }
}
