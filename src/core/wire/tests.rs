//! Tests of the encoding.

/// The numbers of the variants of an enum.
pub(super) trait Numbered {
    const NUMBERS: &'static [u8];
}

#[test]
fn call_reads_back() {
    use super::{Input, Parts, decode_call, encode_call};
    use crate::core::{Call, TubeRef, Verb};

    let call = Call::Tube(TubeRef { number: 300, name: "jobs" }, Verb::DeleteMany(&[1, 2, 300]));
    let mut bytes = Vec::new();
    encode_call(&call, &mut bytes);
    let (mut input, parts) = (Input::new(&bytes), Parts::default());
    let decoded = decode_call(&mut input, &parts).unwrap();
    assert_eq!(format!("{decoded:?}"), format!("{call:?}"));
    assert!(input.rest().is_empty());
}
