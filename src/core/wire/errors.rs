//! The encoding of errors.

use super::macros::wire_enum;
use crate::Error;

wire_enum! { Error {
    0 => NotTaken { id },
    1 => NotFound { id },
    2 => TubeNotFound { name, similar },
    3 => TubeExists { name },
    4 => TubeDiffers { name, what },
    5 => TubeBusy { name, why },
    6 => TubeDropped { name },
    7 => DriverUnknown { name, known },
    8 => DriverExists { name },
    9 => Unsupported { what, driver },
    10 => Invalid { what },
    11 => Full { tube, capacity },
    12 => Overloaded,
    13 => SessionUnknown { id },
    14 => SessionEnded,
    15 => Closed,
    16 => InUse { path },
    17 => FileExists { path },
    18 => NewerFormat { what: FormatPart, found, supported },
    19 => NotAStore { path, why },
    20 => OutcomeUnknown { why },
    21 => Unavailable { why },
    22 => Stopped { why },
    23 => DiskFull { path },
    24 => Corrupt { what },
    25 => Io { what },
    26 => Codec { what },
    27 => IdUsed { id },
    28 => NotBuried { id },
    29 => NotReady { id, state, why },
    30 => NotDone { id, state },
    31 => WrongState { id, state, wanted },
    32 => KeyInUse { key, id, state },
    33 => KeyNotFound { key },
    34 => InTransaction,
    35 => TableReserved { name },
    36 => Table { what },
    37 => HasDependents { id, count },
    38 => Cycle { id },
    39 => Interrupted { id, why },
    40 => NotConnected { why },
    41 => OwnerOnly { what },
    42 => Refused { why },
    43 => AddressInUse { address, why },
    44 => OwnerBusy { what },
    45 => Forked { opened_in },
}}

/// What [`Error::NewerFormat`] names.
#[derive(Clone, Copy, Debug)]
enum FormatPart {
    Layout,
    Format,
    Table,
    Journal,
    Other,
}

wire_enum! { FormatPart { 0 => Layout, 1 => Format, 2 => Table, 3 => Journal, 4 => Other } }

impl From<&&'static str> for FormatPart {
    fn from(name: &&'static str) -> FormatPart {
        match *name {
            "layout" => FormatPart::Layout,
            "format" => FormatPart::Format,
            "table" => FormatPart::Table,
            "journal version" => FormatPart::Journal,
            _ => FormatPart::Other,
        }
    }
}

impl From<FormatPart> for &'static str {
    fn from(part: FormatPart) -> &'static str {
        match part {
            FormatPart::Layout => "layout",
            FormatPart::Format => "format",
            FormatPart::Table => "table",
            FormatPart::Journal => "journal version",
            FormatPart::Other => "version",
        }
    }
}
