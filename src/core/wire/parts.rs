//! What a decoded call refers to.

use std::sync::{Arc, OnceLock};

use tubewell_drivers::Body;

use super::basic::{Wire, put_bytes, put_items, text};
use super::input::{Input, Malformed};
use crate::core::call::{EdgeVerb, HistoryVerb, WaitVerb};
use crate::core::catalog::TubeRequest;
use crate::core::state::{About, ClaimKey, FinishRequest, Holder, PutInto, PutRequest, WatchKey};
use crate::listing::Where;
use crate::task::Cursor;
use crate::token::ClaimToken;
use crate::{Failure, SessionId, State};

/// The values that a decoded call refers to. No call refers to more than two.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    kept: [OnceLock<Part>; 2],
}

/// As [`Wire`], for a value that borrows from the input, or from [`Parts`].
pub(super) trait Borrowing<'a>: Sized {
    fn put_part(&self, out: &mut Vec<u8>);

    fn get_part(input: &mut Input<'a>, parts: &'a Parts) -> Result<Self, Malformed>;
}

/// A value that [`Parts`] can keep.
pub(super) trait Kept: Wire {
    fn into_part(self) -> Part;

    fn from_part(part: &Part) -> Option<&Self>;
}

impl Parts {
    fn keep<T: Kept>(&self, value: T) -> Result<&T, Malformed> {
        let mut part = value.into_part();
        for place in &self.kept {
            match place.set(part) {
                Ok(()) => {
                    let kept = place.get().and_then(T::from_part);
                    return kept.ok_or(Malformed::Invalid("another part of a call"));
                }
                Err(refused) => part = refused,
            }
        }
        Err(Malformed::Invalid("a call has too many parts"))
    }
}

macro_rules! kept {
    ($($type:ty => $part:ident;)*) => {
        #[derive(Debug)]
        pub(super) enum Part {
            $($part(Box<$type>),)*
        }

        $(impl Kept for $type {
            fn into_part(self) -> Part {
                Part::$part(Box::new(self))
            }

            fn from_part(part: &Part) -> Option<&$type> {
                if let Part::$part(value) = part { Some(value) } else { None }
            }
        })*
    };
}

kept! {
    PutRequest => Put;
    PutInto => PutInto;
    FinishRequest => Finish;
    TubeRequest => Tube;
    Where => Where;
    Cursor => Cursor;
    ClaimToken => Token;
    Failure => Failure;
    About => About;
    Body => Body;
    Arc<str> => Text;
    Vec<ClaimKey> => Claims;
    Vec<u64> => Ids;
}

macro_rules! owned {
    ($($type:ty),*) => {$(
        impl<'a> Borrowing<'a> for $type {
            fn put_part(&self, out: &mut Vec<u8>) {
                self.put(out);
            }

            fn get_part(input: &mut Input<'a>, _: &'a Parts) -> Result<$type, Malformed> {
                Wire::get(input)
            }
        }
    )*};
}

owned! {
    u32, u64, usize, bool, Option<u32>, Option<u64>, State, SessionId, ClaimKey, Holder, WatchKey,
    WaitVerb, EdgeVerb, HistoryVerb
}

impl<'a, T: Kept> Borrowing<'a> for &'a T {
    fn put_part(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn get_part(input: &mut Input<'a>, parts: &'a Parts) -> Result<&'a T, Malformed> {
        parts.keep(T::get(input)?)
    }
}

impl<'a, T: Wire> Borrowing<'a> for &'a [T]
where
    Vec<T>: Kept,
{
    fn put_part(&self, out: &mut Vec<u8>) {
        put_items(self.iter(), out);
    }

    fn get_part(input: &mut Input<'a>, parts: &'a Parts) -> Result<&'a [T], Malformed> {
        parts.keep(Vec::get(input)?).map(Vec::as_slice)
    }
}

impl<'a, T: ?Sized> Borrowing<'a> for Option<&'a T>
where
    &'a T: Borrowing<'a>,
{
    fn put_part(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put_part(out);
        }
    }

    fn get_part(input: &mut Input<'a>, parts: &'a Parts) -> Result<Option<&'a T>, Malformed> {
        bool::get(input)?.then(|| Borrowing::get_part(input, parts)).transpose()
    }
}

impl<'a> Borrowing<'a> for &'a str {
    fn put_part(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn get_part(input: &mut Input<'a>, _: &'a Parts) -> Result<&'a str, Malformed> {
        text(input)
    }
}

impl<'a> Borrowing<'a> for &'a [u8] {
    fn put_part(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn get_part(input: &mut Input<'a>, _: &'a Parts) -> Result<&'a [u8], Malformed> {
        input.bytes()
    }
}
