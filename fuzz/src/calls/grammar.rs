//! The requests of a connection, as lists of fields in the order in which they are encoded.
//!
//! It is written down a second time here, apart from the encoding, so that a request of a peer of an
//! older release stays what it was.

mod requests;
mod values;

pub use requests::REQUEST;

/// A field, by what it is good for.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    Flag,
    /// A flag that is not sent any more.
    Unsent,
    /// The number and the name of a tube.
    Tube,
    TubeNumber,
    TubeName,
    Driver,
    /// The id of a task.
    Id,
    /// A set of ids of tasks.
    Ids,
    Session,
    Epoch,
    /// An id, a session and an epoch: a claim in a tube.
    Claim,
    /// A claim that was handed out, by its id and its epoch.
    Granted,
    /// Microseconds.
    Time,
    /// As `Time`, mostly zero.
    Delay,
    /// Microseconds of the wall clock.
    Moment,
    /// Seconds and nanoseconds.
    Span,
    /// A small number, or a huge one.
    Count,
    /// As `Count`, in 32 bits.
    Count32,
    /// As `Count32`, mostly zero.
    Few,
    /// A factor in thousandths: most are 1 or 2.
    Factor,
    /// A share in thousandths.
    Share,
    /// As `Span`, mostly zero.
    ShortSpan,
    /// The interval of a schedule.
    Interval,
    /// A day since 1970.
    Day,
    Order,
    Key,
    Token,
    Tag,
    SubQueue,
    Group,
    Label,
    Text,
    StepName,
    Limit,
    Cron,
    Zone,
    Body,
    Kinds,
    /// A path in a folder that does not exist.
    Path,
    Option(&'static Field),
    List(&'static Field),
    All(&'static [Field]),
    /// A variant, after its number.
    One(&'static Choice),
    /// The variant that has this field is one of these, with its number and its name: they had a number
    /// together when there were inputs already.
    Among(&'static [Variant], &'static [usize]),
    /// One of these, without a number.
    Either(&'static [Field]),
    /// This byte.
    Byte(u8),
    /// As the first field of a variant, which is this request then, with its number and its name. Of what is
    /// in front of the variant, it has the tube.
    Request(u8, &'static str),
    /// As the only field of a variant, which is this choice then.
    Instead(&'static Choice),
    /// As the only field of a variant, which depends on a time then: it is the first one without a time,
    /// and for others the second one, as an end of this number after the time.
    ByTime((u8, &'static str), (u8, &'static str), u8),
}

/// Fields of which one is chosen.
#[derive(Debug)]
pub struct Choice {
    /// Of a type with variants; [`VERBS`] for verbs, whose names are enough.
    pub name: &'static str,
    /// The variants that are chosen in most cases, by their places in the list.
    pub often: &'static [usize],
    pub variants: &'static [Variant],
    /// Variants that were added when there were inputs already. With them in the list above, these would mean
    /// something else.
    pub later: &'static [Variant],
}

/// The name of a choice among verbs.
pub const VERBS: &str = "";

impl Choice {
    /// The name of a variant among all: of a verb, that in `src/core/kinds.txt`.
    pub fn full_name(&self, variant: &str) -> String {
        if self.name == VERBS { variant.to_owned() } else { format!("{}::{variant}", self.name) }
    }
}

/// The number, the name and the fields of a variant.
pub type Variant = (u8, &'static str, &'static [Field]);
