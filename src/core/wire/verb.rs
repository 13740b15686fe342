//! What the verbs need that are types: names that are borrowed.

use super::basic::{Wire, put_bytes, text};
use super::input::{Input, Malformed};
use crate::core::call::TubeRef;

pub(in crate::core) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_bytes(text.as_bytes(), out);
}

pub(in crate::core) fn get_text<'a>(input: &mut Input<'a>) -> Result<&'a str, Malformed> {
    text(input)
}

pub(in crate::core) fn put_tube(tube: TubeRef<'_>, out: &mut Vec<u8>) {
    tube.number.put(out);
    put_text(tube.name, out);
}

pub(in crate::core) fn get_tube<'a>(input: &mut Input<'a>) -> Result<TubeRef<'a>, Malformed> {
    Ok(TubeRef { number: u32::get(input)?, name: text(input)? })
}
