//! Where a task belongs in a trace: the `traceparent` of W3C trace context, version 00.

use std::fmt;

use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

/// The bytes of a trace id.
const TRACE_ID: usize = 16;
/// The bytes of the id of a span.
const SPAN_ID: usize = 8;
/// The bytes of both ids and of the flags.
const BYTES: usize = TRACE_ID + SPAN_ID + 1;
/// The bytes of the text: the version, the ids and the flags in hex, with a hyphen between them.
const TEXT: usize = 55;
/// The places of the hyphens.
const HYPHENS: [usize; 3] = [2, 35, 52];

/// A trace id, the id of a span and flags. Neither id is all zeros. Its text is the header `traceparent` of
/// [W3C trace context](https://www.w3.org/TR/trace-context/#traceparent-header), version 00:
/// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traceparent([u8; BYTES]);

impl Traceparent {
    /// Reads the text; `None` if it has another form, which capital letters are too, or if an id is all zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Traceparent> {
        let text: &[u8; TEXT] = text.as_bytes().try_into().ok()?;
        if !text.starts_with(b"00") || HYPHENS.iter().any(|at| text[*at] != b'-') {
            return None;
        }
        let digits = [&text[3..35], &text[36..52], &text[53..]];
        let pairs = digits.iter().flat_map(|digits| digits.chunks_exact(2));
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Traceparent::of(bytes)
    }

    /// Reads the text of a header, of version 00 or a newer one, whose ids are those of version 00
    /// ([W3C trace context, 4.3](https://www.w3.org/TR/trace-context/#versioning-of-traceparent)). `None` if it has another
    /// form: the standard wants such a header to be ignored.
    #[must_use]
    pub fn of_header(text: &str) -> Option<Traceparent> {
        let text = text.trim();
        let (known, rest) = text.split_at_checked(TEXT)?;
        let (version, ids) = known.split_at_checked(2)?;
        let is_version = version != "ff" && version.bytes().all(|it| digit(it).is_some());
        let may_follow = rest.is_empty() || version != "00" && rest.starts_with('-');
        if !is_version || !may_follow {
            return None;
        }
        Traceparent::parse(&format!("00{ids}"))
    }

    fn of(bytes: [u8; BYTES]) -> Option<Traceparent> {
        let (trace, rest) = bytes.split_at(TRACE_ID);
        let is_set = |id: &[u8]| id.iter().any(|byte| *byte != 0);
        (is_set(trace) && is_set(&rest[..SPAN_ID])).then_some(Traceparent(bytes))
    }
}

fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, rest) = self.0.split_at(TRACE_ID);
        f.write_str("00")?;
        for part in [trace, &rest[..SPAN_ID], &rest[SPAN_ID..]] {
            f.write_str("-")?;
            part.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

impl Encode for Traceparent {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.encode(encoder)
    }
}

impl<C> Decode<C> for Traceparent {
    fn decode<D: bincode::de::Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Traceparent::of(Decode::decode(decoder)?).ok_or(DecodeError::Other("an id of zeros"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::Traceparent;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn text_is_read_and_written_as_it_is() {
        let highest = "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff";
        let lowest = "00-00000000000000000000000000000001-0000000000000001-00";
        for text in [TEXT, highest, lowest] {
            assert_eq!(Traceparent::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn header_is_read_or_ignored() {
        let read = |text: &str| Traceparent::of_header(text).map(|read| read.to_string());
        assert_eq!(read(TEXT).as_deref(), Some(TEXT));
        assert_eq!(read(&format!(" {TEXT}")).as_deref(), Some(TEXT));
        for newer in [TEXT.replacen("00", "cc", 1), TEXT.replacen("00", "cc", 1) + "-more"] {
            assert_eq!(read(&newer).as_deref(), Some(TEXT));
        }
        for other in [
            String::new(),
            "00".into(),
            TEXT.to_uppercase(),
            TEXT.replacen("00", "ff", 1),
            TEXT.replacen("00", "zz", 1),
            format!("{TEXT}-more"),
            TEXT.replacen("00", "cc", 1) + "more",
            TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            TEXT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            TEXT.replace("00f067aa0ba902b7", "00f067aa0ba902é"),
            TEXT.replace('-', "_"),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }

    #[test]
    fn every_other_text_is_refused() {
        for at in 0..TEXT.len() {
            for other in ["", "g", "A", " ", "0-", "é"] {
                let text = format!("{}{other}{}", &TEXT[..at], &TEXT[at + 1..]);
                assert_eq!(Traceparent::parse(&text), None, "{text:?}");
            }
        }
        for text in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(Traceparent::parse(text), None, "{text:?}");
        }
    }
}
