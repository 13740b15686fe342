//! The bytes in front of a verb that is a type: those of the call that it is, what it is made on, its number.

use super::basic::{Wire, put_bytes, put_items, text};
use super::input::{Input, Malformed};
use crate::core::state::{ClaimKey, Holder};
use crate::core::verb::Claimed;
use crate::core::verb::TubeRef;

/// The numbers of the calls that have a verb in them.
const ON_TUBE: u8 = 1;
const ON_CLAIM: u8 = 2;
/// The number of the verbs of a tube that have one of a holder in them.
const HELD: u8 = 13;

/// What a verb is made on, and its number there.
pub(in crate::core) enum Numbered<'a> {
    InStore(u8),
    InTube(TubeRef<'a>, u8),
    OfClaim(Claimed<'a>, u8),
}

pub(in crate::core) fn put_in_store(number: u8, out: &mut Vec<u8>) {
    out.push(number);
}

pub(in crate::core) fn put_in_tube(tube: TubeRef<'_>, number: u8, out: &mut Vec<u8>) {
    out.push(ON_TUBE);
    put_tube(tube.number, tube.name, out);
    out.push(number);
}

pub(in crate::core) fn put_of_claim(claimed: Claimed<'_>, number: u8, out: &mut Vec<u8>) {
    let Claimed { key, tube } = claimed;
    if let Some(name) = tube {
        out.push(ON_TUBE);
        put_tube(key.tube, name, out);
        out.push(HELD);
        key.by.put(out);
        key.id.put(out);
    } else {
        out.push(ON_CLAIM);
        key.put(out);
    }
    out.push(number);
}

pub(in crate::core) fn put_of_claims(claims: &[ClaimKey], number: u8, out: &mut Vec<u8>) {
    out.push(number);
    put_items(claims.iter(), out);
}

fn put_tube(number: u32, name: &str, out: &mut Vec<u8>) {
    number.put(out);
    put_bytes(name.as_bytes(), out);
}

/// Reads what is in front of a verb. A verb of the store has one byte there, and one of many claims, which
/// follow it.
pub(in crate::core) fn get_target<'a>(input: &mut Input<'a>) -> Result<Numbered<'a>, Malformed> {
    Ok(match input.byte()? {
        ON_TUBE => {
            let tube = TubeRef { number: u32::get(input)?, name: text(input)? };
            match input.byte()? {
                HELD => {
                    let (by, id) = (Holder::get(input)?, u64::get(input)?);
                    let key = ClaimKey { tube: tube.number, by, id };
                    Numbered::OfClaim(Claimed { key, tube: Some(tube.name) }, input.byte()?)
                }
                number => Numbered::InTube(tube, number),
            }
        }
        ON_CLAIM => {
            let key = ClaimKey::get(input)?;
            Numbered::OfClaim(Claimed { key, tube: None }, input.byte()?)
        }
        number => Numbered::InStore(number),
    })
}
