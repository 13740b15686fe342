//! Tests of the encoding. The samples are made by the macros that make the encoding, so that there is
//! one of every variant.

mod any_values;
mod checks;
mod samples;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};

use tubewell_drivers::Body;

use super::{Input, Malformed, Wire, from_bytes, to_bytes};
use crate::base::tube_no::TubeNo;
use crate::core::TaskEdit;
use crate::core::list::{
    Ack, AddTags, EditTasks, EndClaims, Peek, PutMany, PutTask, SetLimit, Space,
};
use crate::core::list::{SeeVerb, each_verb, with_verb};
use crate::core::state::{ClaimKey, Grant, PutRequest, ScheduleRequest};
use crate::core::verb::{
    Begin, InStore, InTube, Kind, Named, OfClaim, OfClaims, OnVerb, TubeRef, Verb, put_verb,
};
use crate::events::Delivered;
use crate::values::counters::{ClockReport, Counters};
use crate::values::kinds::KindSet;
use crate::values::schedule::Recurrence;
use crate::values::scrape::{StoreScrape, TubeScrape};
use crate::values::step::StepKind;
use crate::values::task::CursorOf;
use crate::{
    Counting, Durability, Ending, Error, Event, EventKind, Filter, Missed, OnKey, OnParent,
    Overlap, Receipt, Result, SessionId, TaskState, TubeInfo, TubeOptions,
};
use xxhash_rust::xxh3::xxh3_64;

/// An enum whose variants have numbers.
pub(in crate::core) trait Numbered: Sized {
    const VARIANTS: &'static [(u8, &'static str)];

    fn sample_of(number: u8, random: &mut Random) -> Self;
}

/// A value of a type, for a test.
pub(in crate::core) trait Sample: Sized {
    fn sample(random: &mut Random) -> Self;
}

pub(in crate::core) fn any_variant<T: Numbered>(random: &mut Random) -> T {
    let (number, _) = T::VARIANTS[random.below(T::VARIANTS.len())];
    T::sample_of(number, random)
}

/// Numbers that are the same in each run.
pub(in crate::core) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Decodes a call, and encodes it again.
fn read_back(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    with_verb(&mut Input::of_request(bytes), Again)
}

pub(super) const JOBS: TubeRef<'static> = TubeRef { number: TubeNo(300), name: "jobs" };

pub(super) fn key() -> ClaimKey {
    let session = SessionId::from_bytes([7; 16]);
    ClaimKey { tube: TubeNo(300), id: 9, session, epoch: 5 }
}

/// Samples of the verbs, as calls with their names and kinds.
#[derive(Default)]
struct Samples(Vec<(&'static str, Kind, Vec<u8>)>);

impl Samples {
    fn add<V: Begin + Sample>(&mut self, on: &[Named<'_, V>]) {
        for seed in 0..16 {
            let verb = V::sample(&mut Random::new(seed << 8 | u64::from(V::NUMBER)));
            for on in on {
                let mut bytes = Vec::new();
                put_verb(*on, &verb, &mut bytes);
                self.0.push((V::NAME, V::KIND, bytes));
            }
        }
    }
}

impl SeeVerb for Samples {
    fn in_store<V: Begin<On = InStore> + Sample>(&mut self) {
        self.add::<V>(&[()]);
    }

    fn in_tube<V: Begin<On = InTube> + Sample>(&mut self) {
        self.add::<V>(&[JOBS]);
    }

    fn of_claim<V: Begin<On = OfClaim> + Sample>(&mut self) {
        self.add::<V>(&[key()]);
    }

    fn of_claims<V: Begin<On = OfClaims> + Sample>(&mut self) {
        self.add::<V>(&[&[], &[key()], &[key(), key()]]);
    }
}

fn all_verbs() -> Vec<(&'static str, Kind, Vec<u8>)> {
    let mut samples = Samples::default();
    each_verb(&mut samples);
    samples.0
}

/// Encodes a verb again.
struct Again;

impl OnVerb for Again {
    type Done = Vec<u8>;

    fn run<V: Begin>(self, on: Named<'_, V>, input: &mut Input<'_>) -> Result<Vec<u8>, Malformed> {
        let verb = V::get(input)?;
        input.end()?;
        let mut bytes = Vec::new();
        put_verb(on, &verb, &mut bytes);
        Ok(bytes)
    }
}

fn all_calls() -> Vec<(String, Vec<u8>)> {
    all_verbs().into_iter().map(|(name, _, bytes)| (name.to_owned(), bytes)).collect()
}

type Decode = fn(&[u8]) -> Result<Vec<u8>, Malformed>;

fn again<T: Wire>(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    from_bytes::<T>(bytes).map(|value| to_bytes(&value))
}

/// A value as bytes, and how it is read back.
struct Encoded {
    name: String,
    bytes: Vec<u8>,
    again: Decode,
}

fn variants<T: Numbered + Wire>(name: &str, check: fn(&T, &T)) -> Vec<Encoded> {
    let mut all = Vec::new();
    for (number, variant) in T::VARIANTS {
        for seed in 0..16 {
            let value = T::sample_of(*number, &mut Random::new(seed << 8 | u64::from(*number)));
            let bytes = to_bytes(&value);
            assert_eq!(bytes[0], *number, "{name}::{variant}");
            check(&from_bytes(&bytes).unwrap(), &value);
            all.push(Encoded { name: format!("{name}::{variant}"), bytes, again: again::<T> });
        }
    }
    all
}

fn values<T: Sample + Wire + Debug>(name: &str) -> Vec<Encoded> {
    let values = (0..64).map(|seed| {
        let value = T::sample(&mut Random::new(seed));
        let bytes = to_bytes(&value);
        same(&from_bytes::<T>(&bytes).unwrap(), &value);
        Encoded { name: name.into(), bytes, again: again::<T> }
    });
    values.collect()
}

fn same<T: Debug>(decoded: &T, value: &T) {
    assert_eq!(format!("{decoded:?}"), format!("{value:?}"));
}

fn all_values() -> Vec<Encoded> {
    let lists = [
        variants("Error", same::<Error>),
        variants("TaskState", same::<TaskState>),
        variants("EventKind", same::<EventKind>),
        variants("StepKind", same::<StepKind>),
        variants("Ending", same::<Ending>),
        variants("OnKey", same::<OnKey>),
        variants("OnParent", same::<OnParent>),
        variants("Missed", same::<Missed>),
        variants("Overlap", same::<Overlap>),
        variants("Recurrence", same::<Recurrence>),
        variants("Durability", same::<Durability>),
        variants("Counting", same::<Counting>),
        variants("CursorOf", same::<CursorOf>),
        variants("Shelf", same::<tubewell_drivers::Shelf>),
        variants("RecurRule", same::<tubewell_drivers::RecurRule>),
        values::<Grant>("Grant"),
        values::<Event>("Event"),
        values::<Filter>("Filter"),
        values::<Counters>("Counters"),
        values::<StoreScrape>("StoreScrape"),
        values::<TubeScrape>("TubeScrape"),
        values::<Delivered>("Delivered"),
        values::<ClockReport>("ClockReport"),
        values::<PutRequest>("PutRequest"),
        values::<ScheduleRequest>("ScheduleRequest"),
        values::<TubeOptions>("TubeOptions"),
        values::<(Receipt, Option<Ending>)>("(Receipt, Option<Ending>)"),
        values::<Result<bool>>("Result<bool>"),
        values::<Option<std::time::Duration>>("Option<Duration>"),
        values::<Vec<SessionId>>("Vec<SessionId>"),
    ];
    lists.into_iter().flatten().collect()
}

#[test]
fn every_call_reads_back() {
    for (name, bytes) in all_calls() {
        assert_eq!(read_back(&bytes).as_ref(), Ok(&bytes), "{name}");
    }
}

#[test]
fn every_value_reads_back() {
    for Encoded { name, bytes, again } in all_values() {
        assert_eq!(again(&bytes).as_ref(), Ok(&bytes), "{name}");
    }
}

/// The numbers of the kinds in a filter are those of the kinds in an event.
#[test]
fn kinds_of_a_filter_have_the_numbers_of_events() {
    for (number, name) in EventKind::VARIANTS {
        let kind = EventKind::sample_of(*number, &mut Random::new(1));
        let bits = KindSet::from_iter([kind]).bits();
        assert_eq!(bits, 1 << number, "{name}");
    }
}

#[test]
fn numbers_of_variants_are_named_once() {
    fn check<T: Numbered>() {
        let mut numbers: Vec<u8> = T::VARIANTS.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), T::VARIANTS.len());
    }
    check::<Error>();
}

/// A line for each variant of the protocol, with a checksum of its samples. A line that changes is
/// another protocol: peers of another release must refuse each other.
#[test]
fn protocol_is_as_recorded() {
    let mut lines: Vec<(String, Vec<u8>)> = Vec::new();
    let values = all_values().into_iter().map(|value| (value.name, value.bytes));
    for (name, bytes) in all_calls().into_iter().chain(values) {
        match lines.last_mut() {
            Some((last, all)) if *last == name => all.extend(bytes),
            _ => lines.push((name, bytes)),
        }
    }
    let mut text = String::new();
    for (name, bytes) in lines {
        writeln!(text, "{:016x} {name}", xxh3_64(&bytes)).unwrap();
    }
    let recorded = include_str!("tests/protocol.txt");
    let changed: Vec<&str> =
        text.lines().filter(|line| !recorded.lines().any(|other| other == *line)).collect();
    assert_eq!(changed, Vec::<&str>::new(), "the protocol is now:\n{text}");
    assert!(text.lines().eq(recorded.lines()), "the protocol has fewer values:\n{text}");
}

/// A line for each call, with its kinds: what it changes and whether it waits for space are seen at a
/// glance, and a test of the calls that read has the list of them.
#[test]
fn kinds_of_calls_are_as_recorded() {
    let mut lines: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut add = |name: String, kind: Kind| {
        if lines.last().is_none_or(|(last, _)| *last != name) {
            lines.push((name, BTreeSet::new()));
        }
        lines.last_mut().unwrap().1.insert(format!("{kind:?}"));
    };
    for (name, kind, _) in all_verbs() {
        add(name.to_owned(), kind);
    }
    let line = |(name, kinds): (String, BTreeSet<String>)| {
        format!("{} {name}\n", kinds.into_iter().collect::<Vec<_>>().join("|"))
    };
    let text: String = lines.into_iter().map(line).collect();
    assert!(text == include_str!("../kinds.txt"), "the kinds are now:\n{text}");
}

#[test]
fn verbs_have_these_bytes() {
    fn check<V: Verb>(on: Named<'_, V>, verb: &V, bytes: &[u8]) {
        let mut put = Vec::new();
        put_verb(on, verb, &mut put);
        assert_eq!(put, bytes, "{}", V::NAME);
        assert_eq!(read_back(bytes).unwrap(), bytes, "{}", V::NAME);
    }
    let request = PutRequest::of_body(tubewell_drivers::Body::new(b"work".to_vec()));
    let put = b"\x01\xac\x02\x04jobs\x01\0\0\0\0\0\0\0\0\0\0\0\x04work\0\0\0\0\0\0\0\0";
    check(JOBS, &PutTask { request }, put);
    check((), &Space {}, b"\x00");
    check((), &SetLimit { name: "host".into(), most: Some(3) }, b"\x0b\x04host\x01\x03");
    let filter = Filter::new().ids([1, 2, 128]);
    let delete = EditTasks { filter, edit: TaskEdit::Delete, after: None, below: None, limit: 5 };
    let bytes =
        b"\x01\xac\x02\x04jobs\x1c\0\0\0\0\0\x01\x03\x01\x02\x80\x01\0\0\0\0\0\0\0\0\0\0\x05";
    check(JOBS, &delete, bytes);
    let peek = Peek { id: 300, with_body: true };
    check(JOBS, &peek, b"\x01\xac\x02\x04jobs\x20\xac\x02\x01");
    let ack = Ack { result: Some(b"ok".to_vec()) };
    let of_claim = b"\x02\xac\x02\x09\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x05\x00\x01\x02ok";
    check(key(), &ack, of_claim);
}

#[test]
fn answers_have_these_bytes() {
    fn check<T: Wire>(answer: &Result<T>, bytes: &[u8]) {
        assert_eq!(to_bytes(answer), bytes);
        let decoded: Result<T> = from_bytes(bytes).unwrap();
        assert_eq!(to_bytes(&decoded), bytes);
    }
    let receipt = Receipt { id: 300, state: TaskState::Buried, commit: u64::MAX };
    check(&Ok(()), b"\x01\x00");
    check(&Ok(receipt), b"\x01\xac\x02\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    check(&Ok(Some(b"v".to_vec())), b"\x01\x01\x01v");
    let acks: Vec<Result<Receipt>> = vec![Err(Error::NotTaken { id: 9 })];
    check(&Ok(acks), b"\x01\x01\x00\x00\x09");
    let full: Result<()> = Err(Error::Full { tube: "jobs".into(), capacity: 9 });
    check(&full, b"\x00\x0b\x04jobs\x09");
    let newer: Result<()> = Err(Error::NewerFormat { what: "layout", found: 3, supported: 2 });
    check(&newer, b"\x00\x12\x00\x03\x02");
}

#[test]
fn unknown_format_number_has_a_general_name() {
    let error = Error::NewerFormat { what: "page size", found: 3, supported: 2 };
    let decoded: Error = from_bytes(&to_bytes(&error)).unwrap();
    assert_eq!(decoded, Error::NewerFormat { what: "version", found: 3, supported: 2 });
}

/// 9 was a take of several tasks, which are a request of their own.
#[test]
fn number_of_a_removed_verb_is_unknown() {
    let call = [&b"\x01\xac\x02\x04jobs\x09"[..], &[7; 16], b"\x03"].concat();
    let refused = read_back(&call).unwrap_err();
    assert_eq!(refused, Malformed::Invalid("an unknown number of a call"));
}

#[test]
fn truncated_bytes_are_malformed() {
    for (name, bytes) in all_calls() {
        for length in 0..bytes.len() {
            assert!(read_back(&bytes[..length]).is_err(), "{name} {length}");
        }
        assert!(read_back(&[&bytes[..], &[0]].concat()).is_err(), "{name}");
    }
    for Encoded { name, bytes, again } in all_values() {
        for length in 0..bytes.len() {
            assert!(again(&bytes[..length]).is_err(), "{name} {length}");
        }
        assert!(again(&[&bytes[..], &[0]].concat()).is_err(), "{name}");
    }
}

/// Other bytes than a peer of this release sends: changed, cut out, repeated, or any.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1)).min(bytes.len());
        let other = [0, 1, 0x7f, 0x80, 0xff, random.byte()][random.below(6)];
        match random.below(4) {
            0 if at < bytes.len() => drop(bytes.remove(at)),
            1 => bytes.insert(at, other),
            2 => bytes.splice(at..at, [other; 9]).for_each(drop),
            _ if at < bytes.len() => bytes[at] = other,
            _ => {}
        }
    }
    bytes
}

/// The most memory that decoding takes.
fn memory_of(decode: impl FnOnce()) -> u64 {
    allocation_counter::measure(decode).bytes_max
}

#[test]
fn damaged_bytes_do_not_panic_and_need_little_memory() {
    let mut random = Random::new(17);
    for (name, bytes) in all_calls() {
        for _ in 0..8 {
            let bytes = damaged(&bytes, &mut random);
            let memory = memory_of(|| {
                let _ = read_back(&bytes).is_ok();
            });
            assert!(memory <= (64 * bytes.len() as u64) + (128 << 10), "{name}: {memory}");
        }
    }
    for Encoded { name, bytes, again } in all_values() {
        for _ in 0..8 {
            let bytes = damaged(&bytes, &mut random);
            let memory = memory_of(|| drop(again(&bytes)));
            assert!(memory <= (256 * bytes.len() as u64) + (128 << 10), "{name}: {memory}");
        }
    }
}

#[test]
fn any_bytes_do_not_panic() {
    let mut random = Random::new(19);
    for length in 0..2000 {
        let bytes: Vec<u8> = (0..length % 97).map(|_| random.byte()).collect();
        let _ = read_back(&bytes);
        let _ = from_bytes::<Result<Receipt>>(&bytes);
        let _ = from_bytes::<Result<TubeInfo>>(&bytes);
        let _ = from_bytes::<Grant>(&bytes);
        let _ = from_bytes::<Event>(&bytes);
    }
}

fn bytes_in_tube<V: Verb<On = InTube>>(verb: &V) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_verb(JOBS, verb, &mut bytes);
    bytes
}

/// A list of so many items, as the last field of a call whose list is empty.
fn list_of(count: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.pop();
    (count as u64).put(&mut bytes);
    bytes.resize(bytes.len() + count, 0);
    bytes
}

#[test]
fn list_with_more_items_than_a_call_accepts_is_refused_before_it_is_decoded() {
    let mut ends = Vec::new();
    put_verb(&[][..], &EndClaims { ends: Vec::new() }, &mut ends);
    for (call, most) in [
        (bytes_in_tube(&PutMany { requests: Vec::new() }), 100_000),
        (ends, 100_000),
        (bytes_in_tube(&AddTags { id: 9, tags: [].into() }), 10_000),
    ] {
        let bytes = list_of(most + 1, call.clone());
        let memory = memory_of(|| {
            let refused = read_back(&bytes).err();
            assert_eq!(refused, Some(Malformed::TooMany { count: most + 1, most }));
        });
        assert_eq!(memory, 0, "{call:?}");
        let allowed = list_of(most, call.clone());
        assert!(!matches!(read_back(&allowed), Err(Malformed::TooMany { .. })), "{call:?}");
    }
    assert!(read_back(&[&[5][..], &to_bytes(&u64::MAX)].concat()).is_err());
}

/// Each of the lists is short, and there are many of them: all tasks of a `put_many` have thousands of tags.
#[test]
fn all_lists_of_a_call_together_take_a_limited_memory() {
    const TAGS: usize = 9000;
    let task = to_bytes(&PutRequest::of_body(Body::new(Vec::new())));
    let tags = task.len() - 10;
    assert_eq!(task[tags], 0, "the number of tags");
    let mut many = task[..tags].to_vec();
    TAGS.put(&mut many);
    many.resize(many.len() + TAGS, 0);
    many.extend_from_slice(&task[tags + 1..]);
    let mut bytes = bytes_in_tube(&PutMany { requests: Vec::new() });
    bytes.pop();
    let tasks = 100;
    tasks.put(&mut bytes);
    bytes.extend(many.repeat(tasks));
    let memory = memory_of(|| assert_eq!(read_back(&bytes).err(), Some(Malformed::TooLarge)));
    assert!(memory < 64 * bytes.len() as u64, "{memory}");
}

#[test]
fn numbers_have_one_encoding() {
    for (number, bytes) in [
        (0, &b"\0"[..]),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (u64::MAX, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ] {
        assert_eq!(to_bytes(&number), bytes);
        assert_eq!(from_bytes::<u64>(bytes), Ok(number));
    }
    for bytes in [
        &b"\x80\0"[..],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        &[0xff; 40],
    ] {
        assert!(from_bytes::<u64>(bytes).is_err(), "{bytes:?}");
    }
    assert!(from_bytes::<u32>(&to_bytes(&(1_u64 << 32))).is_err());
    assert!(from_bytes::<bool>(&[2]).is_err());
    assert!(from_bytes::<TaskState>(&[7]).is_err());
    assert!(from_bytes::<String>(b"\x01\xff").is_err());
}

#[test]
fn malformed_bytes_become_an_error_that_says_what_to_do() {
    let error = Error::from(read_back(b"\xff").unwrap_err());
    assert_eq!(
        error.to_string(),
        "the bytes of a call are not valid: an unknown number of a call; use the same release on both \
         sides"
    );
}
