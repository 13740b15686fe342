//! Records decode to what was encoded. Damaged records and those of newer releases are refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/recur.rs"]
mod recur;

use recur::plain_recur;
use std::fmt::Write;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tubewell_drivers::{
    Body, FAILURE_GROUP_MAX, Header, INLINE_MAX, KEY_MAX, More, NEVER, Record, Recur, RecurRule,
    SUB_QUEUE_MAX, Shelf, StoredEntries, TAG_MAX, TAGS_MAX, Traceparent, encode, position_of,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const ID: u64 = 9;
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// The first byte of a record with further fields: version 1 and the flag.
const WITH_MORE: u8 = 0x81;

fn plain(body: &[u8]) -> Header {
    Header {
        priority: 0,
        order: 0,
        created: 1_790_000_000_000_000,
        expires_at: NEVER,
        ttr: NEVER,
        ready_at: 0,
        takes: 0,
        size: body.len() as u64,
        body_checksum: Header::checksum_of(body),
        sub: "".into(),
        more: None,
    }
}

/// A schedule of an interval, with nothing that can be left out.
fn every() -> Recur {
    plain_recur(RecurRule::Every(7))
}

/// A schedule with everything.
fn cron() -> Recur {
    Recur {
        rule: RecurRule::Cron { expression: "1".into(), zone: "Z".into() },
        next: 300,
        fired: Some(0),
        last: Some(5),
        runs: 1,
        skipped: 6,
        times: Some(7),
        missed: 3,
        within: Some(8),
        skips_overlap: true,
        priority: Some(9),
        ttl: Some(10),
        ttr: Some(11),
        delay: 12,
        tags: ["nightly".into(), "mail".into()].into(),
        starting: Some(13),
        covered: Some(14),
    }
}

fn with_more(header: Header, more: More) -> Header {
    Header { more: Some(Arc::new(more)), ..header }
}

/// A row with this first byte and a right checksum.
fn framed(first: u8, rest: &[u8]) -> Vec<u8> {
    let seed = ID ^ (u64::from(first ^ 1) << 56);
    [&[first][..], &xxh3_64_with_seed(rest, seed).to_be_bytes(), rest].concat()
}

/// The bytes of a row behind its checksum.
fn content(header: &Header, body: &[u8]) -> Vec<u8> {
    encode(ID, header, body)[9..].to_vec()
}

fn refusal(row: Vec<u8>) -> String {
    Record::decode(ID, row.into()).unwrap_err().to_string()
}

fn assert_decodes(id: u64, header: &Header, body: &[u8]) {
    let record = Record::decode(id, encode(id, header, body)).unwrap();
    assert_eq!(&record.header, header);
    assert_eq!(record.inline(), if header.body_checksum.is_some() { &[] } else { body });
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

#[test]
fn plain_header_has_its_recorded_bytes() {
    let timed = Header {
        priority: 300,
        order: 300,
        expires_at: 1_790_000_900_000_000,
        ttr: 60_000_000,
        ready_at: 1_790_000_005_000_000,
        takes: 2,
        sub: "example.org".into(),
        ..plain(b"")
    };
    let large = vec![7; INLINE_MAX + 1];
    let extreme = Header {
        priority: u32::MAX,
        order: u64::MAX,
        created: 0,
        expires_at: 0,
        ttr: 0,
        ready_at: NEVER,
        takes: u32::MAX,
        sub: "straße".into(),
        ..plain(&large)
    };
    let rows: [(u64, Header, &[u8], &str); 3] = [
        (
            1,
            plain(b"body"),
            b"body",
            "01c178659b403a49950000fd00e025dafe5b0600fdfffffffffffffffffdffffffffffffffff0000\
             040000626f6479",
        ),
        (
            258,
            timed,
            b"",
            "012adacac5a915238bfb2c01fb2c01fd00e025dafe5b0600fd00c9ca0fff5b0600fc00879303fd40\
             2b72dafe5b06000200000b6578616d706c652e6f7267",
        ),
        (
            1 << 40,
            extreme,
            &large,
            "01d1e9cbe33a4407e0fcfffffffffdffffffffffffffff000000fdfffffffffffffffffcffffffff\
             fb010401fd1d14806bcca22abe0773747261c39f65",
        ),
    ];
    for (id, header, body, expected) in rows {
        assert_eq!(hex(&encode(id, &header, body)), expected);
        let empty = with_more(header.clone(), More::default());
        assert_eq!(hex(&encode(id, &empty, body)), expected, "with no field that is present");
        assert_decodes(id, &header, body);
    }
}

#[test]
fn header_with_more_has_its_recorded_bytes() {
    let all = More {
        max_attempts: Some(5),
        forgiven: 1,
        group: Some("timeout".into()),
        ended: Some(1_790_000_005_000_000),
        until: Some(1_790_000_900_000_000),
        notes: More::FAILURE_NOTE | More::RESULT_NOTE,
        key: Some("ann".into()),
        ..More::default()
    };
    let rows = [
        (More { max_attempts: Some(0), ..More::default() }, "0100"),
        (More { forgiven: 300, ..More::default() }, "02fb2c01"),
        (More { group: Some("".into()), ..More::default() }, "0400"),
        (More { ended: Some(0), ..More::default() }, "0800"),
        (More { until: Some(NEVER), ..More::default() }, "10fdffffffffffffffff"),
        (More { notes: More::RESULT_NOTE, ..More::default() }, "2002"),
        (More { key: Some("k".into()), ..More::default() }, "40016b"),
        (More { open_parents: 300, ..More::default() }, "80fb2c01"),
        (More { on_parent: More::BURY_ON_PARENT, ..More::default() }, "fb000102"),
        (More { not_before: Some(7), ..More::default() }, "fb000207"),
        (More { ttl_from: Some(300), ..More::default() }, "fb0004fb2c01"),
        (More { tags: tags(&["b", "ä"]), ..More::default() }, "fb000802016202c3a4"),
        (More { since: Some(7), ..More::default() }, "fb002007"),
        (More { spawned_by: Some((1, 2, 300)), ..More::default() }, "fb00400102fb2c01"),
        (
            More { recur: Some(every().into()), ..More::default() },
            "fb00800007fb2c0100000000000100000000000000",
        ),
        (
            More { recur: Some(cron().into()), ..More::default() },
            "fc00800200010131015afb2c010100010501060107030108010109010a010b0c02076e696768746c79046d61696c010d010e",
        ),
        (More { has_steps: true, ..More::default() }, "fc00000100"),
        (More { max_runtime: Some(300), ..More::default() }, "fc00000400fb2c01"),
        (More { max_runtime: Some(NEVER), ..More::default() }, "fc00000400fdffffffffffffffff"),
        (
            More { open_parents: 3, done_parents: 2, failed_parents: 1, ..More::default() },
            "fc80001800030201",
        ),
        (
            More { traceparent: Traceparent::parse(TRACEPARENT), ..More::default() },
            "fc000020004bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701",
        ),
        (all, "7f05010774696d656f7574fd402b72dafe5b0600fd00c9ca0fff5b06000303616e6e"),
    ];
    let plain = plain(b"body");
    let plain_fields = content(&plain, b"");
    for (more, expected) in rows {
        let header = with_more(plain.clone(), more);
        let row = encode(ID, &header, b"body");
        assert_eq!(row[0], WITH_MORE);
        assert_eq!(row[9..9 + plain_fields.len()], plain_fields);
        assert_eq!(hex(&row[9 + plain_fields.len()..]), format!("{expected}{}", hex(b"body")));
        assert_decodes(ID, &header, b"body");
    }
}

fn tags(tags: &[&str]) -> Arc<[Arc<str>]> {
    tags.iter().map(|tag| Arc::from(*tag)).collect()
}

#[test]
fn tags_beyond_their_limits_and_repeated_ones_are_refused() {
    let fields = "task 9: the header of its record cannot be read";
    let many: Vec<String> = (0..=TAGS_MAX).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for bad in [&["a", "b", "a"][..], &["a", ""], &[&"x".repeat(TAG_MAX + 1)], &many] {
        let header = with_more(plain(b""), More { tags: tags(bad), ..More::default() });
        assert_eq!(refusal(encode(9, &header, b"").to_vec()), fields, "{bad:?}");
    }
}

/// No release writes such a record, but its content is clear.
#[test]
fn flagged_record_without_a_field_decodes_to_a_plain_header() {
    let header = plain(b"body");
    for fields in [&[0][..], &[0b10_0010, 0, 0]] {
        let rest = [&content(&header, b""), fields, b"body"].concat();
        let record = Record::decode(ID, framed(WITH_MORE, &rest).into()).unwrap();
        assert_eq!((record.header.clone(), record.inline()), (header.clone(), &b"body"[..]));
    }
}

#[test]
fn unknown_field_note_or_version_is_refused_by_name() {
    let newer = |what: &str| {
        format!(
            "task 9: its record ({what}: a newer release of tubewell wrote it, use that release) \
             cannot be read"
        )
    };
    let plain = content(&plain(b""), b"");
    let fields = |more: &[u8]| framed(WITH_MORE, &[&plain, more].concat());
    assert_eq!(refusal(fields(&[0xfc, 0, 0, 0x40, 0, 0])), newer("field 22"));
    assert_eq!(refusal(fields(&[0xfc, 1, 8, 0x40, 0, 5, 0])), newer("field 22"));
    assert_eq!(refusal(fields(&[0xfb, 0, 1, 3])), newer("rule 3 for parents"));
    assert_eq!(refusal(fields(&[0xfc, 0, 0, 0, 0x80, 0])), newer("field 31"));
    assert_eq!(refusal(fields(&[0b10_0000, 0b101])), newer("note kind 2"));
    let endless = with_more(
        self::plain(b""),
        More {
            recur: Some(Recur { rule: RecurRule::Every(0), ..every() }.into()),
            ..More::default()
        },
    );
    let damaged = "task 9: the header of its record cannot be read";
    assert_eq!(refusal(framed(WITH_MORE, &content(&endless, b""))), damaged);
    let zeros = [&[0xfc, 0, 0, 0x20, 0][..], &[0; 25]].concat();
    assert_eq!(refusal(fields(&zeros)), damaged, "a traceparent without ids");
    assert_eq!(refusal(fields(&[0xfc, 0, 0, 2, 0, 0, 0])), damaged, "moments without a schedule");
    for (first, version) in [(2, 2), (0x82, 2), (255, 127)] {
        let what = format!("version {version}, this release reads version 1");
        assert_eq!(refusal(framed(first, b"anything")), newer(&what));
    }
}

#[test]
fn record_of_another_version_or_with_missing_fields_is_refused() {
    let header = with_more(plain(b""), More { group: Some("timeout".into()), ..More::default() });
    let length = "task 9: its record (wrong length) cannot be read";
    let fields = "task 9: the header of its record cannot be read";
    assert_eq!(refusal(framed(1, &content(&header, b""))), length);
    assert_eq!(refusal(framed(WITH_MORE, &content(&plain(b""), b""))), fields);
    let content = content(&header, b"");
    for end in 0..content.len() {
        assert_eq!(refusal(framed(WITH_MORE, &content[..end])), fields, "{end} bytes");
    }
}

#[test]
fn decode_refuses_a_header_with_more_beyond_its_limit_without_allocating() {
    let plain = content(&plain(b""), b"");
    let lengths = [&[0xfd; 9][..], &[0xfd, 0, 0, 0, 0, 0, 1, 0, 0], &[0xfb, 0, 0x41]];
    for length in lengths {
        let rest = [&plain, &[0b100][..], length, &vec![b'g'; 0x4100]].concat();
        assert_eq!(
            refusal(framed(WITH_MORE, &rest)),
            "task 9: the header of its record cannot be read",
            "{length:?}"
        );
    }
}

#[test]
fn largest_header_decodes() {
    let more = More {
        history: Some(StoredEntries { total: 1 << 62, count: 1000 }),
        max_attempts: Some(u32::MAX),
        max_runtime: Some(u64::MAX),
        forgiven: u32::MAX,
        group: Some("g".repeat(FAILURE_GROUP_MAX).into()),
        ended: Some(u64::MAX),
        until: Some(u64::MAX),
        notes: More::FAILURE_NOTE | More::RESULT_NOTE,
        key: Some("k".repeat(KEY_MAX).into()),
        open_parents: u32::MAX,
        on_parent: More::BURY_ON_PARENT,
        not_before: Some(u64::MAX),
        ttl_from: Some(u64::MAX),
        tags: (0..TAGS_MAX).map(|n| format!("{n:0>TAG_MAX$}").into()).collect(),
        since: Some(u64::MAX),
        spawned_by: Some((u64::MAX, u64::MAX, u64::MAX)),
        recur: Some(Arc::new(Recur {
            rule: RecurRule::Cron {
                expression: "e".repeat(255).into(),
                zone: "z".repeat(255).into(),
            },
            ..cron()
        })),
        has_steps: true,
        done_parents: u32::MAX,
        failed_parents: u32::MAX,
        traceparent: Traceparent::parse(TRACEPARENT),
    };
    let body = vec![7; INLINE_MAX];
    let header = Header {
        priority: u32::MAX,
        order: u64::MAX,
        takes: u32::MAX,
        sub: "s".repeat(SUB_QUEUE_MAX).into(),
        ..plain(&body)
    };
    assert_decodes(u64::MAX, &with_more(header, more), &body);
}

#[test]
fn edit_more_copies_shared_fields_and_removes_empty_ones() {
    let mut header = plain(b"");
    header.edit_more(|_| {});
    assert_eq!(header.more, None);
    header.edit_more(|more| more.ended = Some(7));
    let other = header.clone();
    header.edit_more(|more| more.until = Some(9));
    let more = |until| Some(Arc::new(More { ended: Some(7), until, ..More::default() }));
    assert_eq!((header.more.clone(), other.more), (more(Some(9)), more(None)));
    header.edit_more(|more| (more.ended, more.until) = (None, None));
    assert_eq!(header, plain(b""));
}

#[test]
fn attempts_are_takes_without_the_forgiven_ones() {
    let mut header = plain(b"");
    for (takes, forgiven, attempts) in [(0, 0, 0), (3, 0, 3), (3, 1, 2), (3, 4, 0)] {
        header.takes = takes;
        header.edit_more(|more| more.forgiven = forgiven);
        assert_eq!(header.attempts(), attempts);
    }
}

#[test]
fn attempts_left_follow_the_limit_of_the_task_before_that_of_the_tube() {
    let mut header = Header { takes: 3, ..plain(b"") };
    header.edit_more(|more| more.forgiven = 1);
    for (own, tube, left) in [
        (None, None, None),
        (None, Some(5), Some(3)),
        (None, Some(2), Some(0)),
        (None, Some(1), Some(0)),
        (None, Some(0), Some(0)),
        (Some(4), None, Some(2)),
        (Some(4), Some(9), Some(2)),
        (Some(9), Some(4), Some(7)),
        (Some(0), Some(9), Some(0)),
    ] {
        header.edit_more(|more| more.max_attempts = own);
        assert_eq!(header.attempts_left(tube), left, "{own:?} {tube:?}");
    }
}

fn mores() -> impl Strategy<Value = More> {
    let texts = || option::of(".{0,60}".prop_map(|text| Arc::from(text.as_str())));
    let numbers = (any::<Option<u32>>(), any::<u32>(), any::<[Option<u64>; 2]>(), 0..4_u32);
    let recur = option::of(prop_oneof![Just(every()), Just(cron())].prop_map(Arc::new));
    let waits = (0..3_u32, 0..3_u32, any::<[Option<u64>; 3]>());
    let tags = vec(".{1,9}", 0..4).prop_map(|mut tags| {
        tags.sort();
        tags.dedup();
        tags.iter().map(|tag| Arc::from(tag.as_str())).collect::<Arc<[Arc<str>]>>()
    });
    let schedules = (any::<Option<(u64, u64, u64)>>(), recur);
    (numbers, texts(), texts(), waits, tags, schedules).prop_map(
        |(
            numbers,
            group,
            key,
            (open_parents, on_parent, [not_before, ttl_from, since]),
            tags,
            (spawned_by, recur),
        )| {
            let (max_attempts, forgiven, [ended, until], notes) = numbers;
            let forgiven = if forgiven % 2 == 0 { 0 } else { forgiven };
            let more =
                More { max_attempts, forgiven, group, ended, until, notes, key, ..More::default() };
            More {
                open_parents,
                on_parent,
                not_before,
                ttl_from,
                tags,
                since,
                spawned_by,
                recur,
                ..more
            }
        },
    )
}

prop_compose! {
    fn tasks()(
        (priority, takes, order) in any::<(u32, u32, u64)>(),
        [created, expires_at, ttr, ready_at] in any::<[u64; 4]>(),
        sub in ".{0,60}",
        more in option::of(mores()),
        body in prop_oneof![vec(any::<u8>(), 0..80), vec(any::<u8>(), 1023..1027)],
    ) -> (Header, Vec<u8>) {
        let mut header = Header {
            priority,
            order,
            created,
            expires_at,
            ttr,
            ready_at,
            takes,
            size: body.len() as u64,
            body_checksum: Body::new(body.clone()).checksum(),
            sub: sub.as_str().into(),
            more: None,
        };
        if let Some(more) = more {
            header.edit_more(|fields| *fields = more);
        }
        (header, body)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn record_decodes_to_what_was_encoded((header, body) in tasks(), id: u64) {
        assert_decodes(id, &header, &body);
        let first = if header.more.is_some() { WITH_MORE } else { 1 };
        prop_assert_eq!(encode(id, &header, &body)[0], first);
    }

    #[test]
    fn damaged_record_is_refused(
        (header, body) in tasks(),
        id: u64,
        flips in vec((any::<prop::sample::Index>(), 0..8_u32), 1..4),
        cut: prop::sample::Index,
    ) {
        let row = encode(id, &header, &body);
        let mut bad = row.to_vec();
        for (at, bit) in flips {
            bad[at.index(row.len())] ^= 1 << bit;
        }
        prop_assert!(*bad == *row || Record::decode(id, bad.into()).is_err());
        prop_assert!(Record::decode(id, row[..cut.index(row.len())].into()).is_err());
        prop_assert!(Record::decode(id.wrapping_add(1), row).is_err());
    }

    /// With a right checksum, bytes are refused or have one meaning.
    #[test]
    fn any_content_is_refused_or_is_encoded_again(
        (header, body) in tasks(),
        version in 1..4_u8,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut rest = content(&header, &body);
        for (at, byte) in changes {
            let at = at.index(rest.len());
            rest[at] = byte;
        }
        if let Ok(record) = Record::decode(ID, framed(version, &rest).into()) {
            assert_decodes(ID, &record.header, record.inline());
        }
    }
}

#[test]
fn due_and_order_depend_on_the_shelf() {
    let mut header = Header { order: 3, expires_at: 500, ready_at: 200, ..plain(b"") };
    let all = |header: &Header| Shelf::ALL.map(|shelf| (header.due(shelf), header.order_on(shelf)));
    let [ready, delayed] = [(Some(500), 3), (Some(200), 3)];
    let (blocked, recurring) = (ready, delayed);
    assert_eq!(all(&header), [ready, delayed, (Some(500), 3), blocked, (None, 0), recurring]);
    // Buried in a tube that keeps all: its order stays.
    header.edit_more(|more| more.ended = Some(90));
    assert_eq!(all(&header), [ready, delayed, (Some(500), 3), blocked, (None, 90), recurring]);
    header.edit_more(|more| more.until = Some(400));
    assert_eq!(
        all(&header),
        [ready, delayed, (Some(400), 90), blocked, (Some(400), 90), recurring]
    );
    header.edit_more(|more| more.until = Some(600));
    assert_eq!(
        all(&header),
        [ready, delayed, (Some(500), 90), blocked, (Some(600), 90), recurring]
    );
    header.expires_at = NEVER;
    let [ready, blocked] = [(None, 3); 2];
    assert_eq!(
        all(&header),
        [ready, delayed, (Some(600), 90), blocked, (Some(600), 90), recurring]
    );
    header.edit_more(|more| more.until = Some(NEVER));
    assert_eq!(all(&header), [ready, delayed, (None, 90), blocked, (None, 90), recurring]);
    assert!(!position_of(1, Shelf::Done, &Header { order: 0, ..header }).is_default());
}

#[test]
fn delayed_task_is_due_at_the_end_of_its_delay_and_then_waits_for_its_moment() {
    let mut header = Header { ready_at: 200, expires_at: 500, ..plain(b"") };
    header.edit_more(|more| (more.not_before, more.ttl_from) = (Some(90), Some(300)));
    assert_eq!((header.due(Shelf::Delayed), header.moment(Shelf::Delayed)), (Some(200), None));
    header.ready_at = 0;
    assert_eq!((header.due(Shelf::Delayed), header.moment(Shelf::Delayed)), (None, Some(90)));
    for shelf in [Shelf::Ready, Shelf::Blocked, Shelf::Buried] {
        assert_eq!((header.due(shelf), header.moment(shelf)), (Some(500), None));
        assert!(header.is_expired(shelf, 500) && !header.is_expired(shelf, 499));
    }
    assert!(!header.is_expired(Shelf::Delayed, 500), "its ttl does not count yet");
    header.edit_more(|more| more.ttl_from = None);
    assert!(header.is_expired(Shelf::Delayed, 500));
}
