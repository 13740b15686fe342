//! What verbs are made on, the store, a tube, a claim, and its bytes in front of a verb.

use std::slice;
use std::sync::Arc;

use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::state::{ClaimKey, Core};
use crate::core::wire::{Input, Malformed, Wire, put_bytes, put_items, text, wire_struct};

/// A tube as a call names it. The number is enough to find it; an error has the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TubeRef<'a> {
    pub(crate) number: TubeNo,
    pub(crate) name: &'a str,
}

/// What a verb is made on.
pub(crate) trait Target: 'static {
    /// As a handle names it, and a peer.
    type Ref<'a>: Copy + Send + Sync;

    /// Refuses a call on what is not there.
    fn check(core: &mut Core, named: Self::Ref<'_>) -> Result<()>;

    /// The number of the tube.
    fn tube(named: Self::Ref<'_>) -> Option<TubeNo>;

    /// The claims that it is.
    fn claims<'a>(_named: &'a Self::Ref<'_>) -> &'a [ClaimKey] {
        &[]
    }

    /// As a call keeps it that waits.
    type Owned: Send + Sync;

    fn to_owned(named: Self::Ref<'_>) -> Self::Owned;

    fn as_ref(owned: &Self::Owned) -> Self::Ref<'_>;

    /// The bytes in front of a verb that is made on it.
    fn put(named: Self::Ref<'_>, number: u8, out: &mut Vec<u8>);
}

/// The store must be open.
pub(crate) enum InStore {}

impl Target for InStore {
    type Ref<'a> = ();

    #[inline]
    fn check(core: &mut Core, (): ()) -> Result<()> {
        core.check_open()
    }

    fn tube((): ()) -> Option<TubeNo> {
        None
    }

    type Owned = ();

    fn to_owned((): ()) {}

    fn as_ref((): &()) {}

    fn put((): (), number: u8, out: &mut Vec<u8>) {
        put_in_store(number, out);
    }
}

/// The tube must exist.
pub(crate) enum InTube {}

impl Target for InTube {
    type Ref<'a> = TubeRef<'a>;

    #[inline]
    fn check(core: &mut Core, tube: TubeRef<'_>) -> Result<()> {
        core.tube(tube.number, tube.name).map(drop)
    }

    fn tube(tube: TubeRef<'_>) -> Option<TubeNo> {
        Some(tube.number)
    }

    type Owned = TubeName;

    fn to_owned(tube: TubeRef<'_>) -> TubeName {
        TubeName { number: tube.number, name: tube.name.into() }
    }

    fn as_ref(tube: &TubeName) -> TubeRef<'_> {
        TubeRef { number: tube.number, name: &tube.name }
    }

    fn put(tube: TubeRef<'_>, number: u8, out: &mut Vec<u8>) {
        put_in_tube(tube, number, out);
    }
}

/// As [`TubeRef`], for a call that keeps it: on the tube while it waits, or on another one.
#[derive(Clone, Debug)]
pub(crate) struct TubeName {
    pub(crate) number: TubeNo,
    pub(crate) name: Arc<str>,
}

/// The most tubes that one take may name: it waits in each of them.
const TUBES_MAX: usize = 4096;

wire_struct! { TubeName { number, name } at most TUBES_MAX }

impl TubeName {
    /// The number. Refuses a tube that does not exist.
    pub(in crate::core) fn find(&self, core: &mut Core) -> Result<TubeNo> {
        core.tube(self.number, &self.name)?;
        Ok(self.number)
    }
}

/// The claim must be current, which the decision checks.
pub(crate) enum OfClaim {}

impl Target for OfClaim {
    type Ref<'a> = ClaimKey;

    #[inline]
    fn check(core: &mut Core, _: ClaimKey) -> Result<()> {
        core.check_open()
    }

    fn tube(key: ClaimKey) -> Option<TubeNo> {
        Some(key.tube)
    }

    fn claims(key: &ClaimKey) -> &[ClaimKey] {
        slice::from_ref(key)
    }

    type Owned = ClaimKey;

    fn to_owned(key: ClaimKey) -> ClaimKey {
        key
    }

    fn as_ref(key: &ClaimKey) -> ClaimKey {
        *key
    }

    fn put(key: ClaimKey, number: u8, out: &mut Vec<u8>) {
        out.push(ON_CLAIM);
        key.put(out);
        out.push(number);
    }
}

/// Claims of any tubes, each of which the decision checks by itself.
pub(crate) enum OfClaims {}

impl Target for OfClaims {
    type Ref<'a> = &'a [ClaimKey];

    #[inline]
    fn check(core: &mut Core, _: &[ClaimKey]) -> Result<()> {
        core.check_open()
    }

    /// That of the first claim.
    fn tube(claims: &[ClaimKey]) -> Option<TubeNo> {
        claims.first().map(|key| key.tube)
    }

    fn claims<'a>(claims: &'a &[ClaimKey]) -> &'a [ClaimKey] {
        claims
    }

    type Owned = Vec<ClaimKey>;

    fn to_owned(claims: &[ClaimKey]) -> Vec<ClaimKey> {
        claims.to_vec()
    }

    fn as_ref(claims: &Vec<ClaimKey>) -> &[ClaimKey] {
        claims
    }

    fn put(claims: &[ClaimKey], number: u8, out: &mut Vec<u8>) {
        out.push(number);
        put_items(claims.iter(), out);
    }
}

/// The numbers of the calls that have a verb in them.
const ON_TUBE: u8 = 1;
const ON_CLAIM: u8 = 2;

/// What a verb is made on, and its number there.
pub(in crate::core) enum Numbered<'a> {
    InStore(u8),
    InTube(TubeRef<'a>, u8),
    OfClaim(ClaimKey, u8),
}

fn put_in_store(number: u8, out: &mut Vec<u8>) {
    out.push(number);
}

fn put_in_tube(tube: TubeRef<'_>, number: u8, out: &mut Vec<u8>) {
    out.push(ON_TUBE);
    put_tube(tube.number, tube.name, out);
    out.push(number);
}

fn put_tube(number: TubeNo, name: &str, out: &mut Vec<u8>) {
    number.put(out);
    put_bytes(name.as_bytes(), out);
}

/// Reads what is in front of a verb. A verb of the store has one byte there, and one of many claims, which
/// follow it.
pub(in crate::core) fn get_target<'a>(input: &mut Input<'a>) -> Result<Numbered<'a>, Malformed> {
    Ok(match input.byte()? {
        ON_TUBE => {
            let tube = TubeRef { number: TubeNo::get(input)?, name: text(input)? };
            Numbered::InTube(tube, input.byte()?)
        }
        ON_CLAIM => {
            let key = ClaimKey::get(input)?;
            Numbered::OfClaim(key, input.byte()?)
        }
        number => Numbered::InStore(number),
    })
}
