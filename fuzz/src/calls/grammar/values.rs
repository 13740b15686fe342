//! What requests are made of: tasks, options, conditions, cursors.

use super::Field::{
    All, Body, Byte, Count, Count32, Cron, Delay, Either, Epoch, Factor, Few, Flag, Group, Id, Ids,
    Interval, Key, Kinds, Label, List, Moment, One, Option, Order, Share, ShortSpan, Span,
    StepName, SubQueue, Tag, Text, Time, Token, TubeName, TubeNumber, Zone,
};
use super::{Choice, Field};

pub static STATE: Choice = Choice {
    name: "State",
    often: &[0, 1, 4],
    later: &[],
    variants: &[
        (0, "Ready", &[]),
        (1, "Taken", &[]),
        (2, "Delayed", &[]),
        (3, "Blocked", &[]),
        (4, "Buried", &[]),
        (5, "Recurring", &[]),
        (6, "Done", &[]),
    ],
};

static ON_KEY: Choice = Choice {
    name: "OnKey",
    often: &[0, 0, 1, 2],
    later: &[],
    variants: &[(0, "Reject", &[]), (1, "Keep", &[]), (2, "Replace", &[])],
};

static ON_PARENT: Choice = Choice {
    name: "OnParent",
    often: &[0, 1, 2],
    later: &[],
    variants: &[(0, "Wait", &[]), (1, "Release", &[]), (2, "Bury", &[])],
};

static SHELF: Choice = Choice {
    name: "Shelf",
    often: &[0, 2],
    later: &[],
    variants: &[
        (1, "Ready", &[]),
        (2, "Delayed", &[]),
        (3, "Buried", &[]),
        (4, "Blocked", &[]),
        (5, "Done", &[]),
        (6, "Recurring", &[]),
    ],
};

static CURSOR_OF: Choice = Choice {
    name: "CursorOf",
    often: &[0, 1],
    later: &[],
    variants: &[(0, "Group", &[Group]), (1, "Tag", &[Tag]), (2, "Soonest", &[])],
};

static COUNTING: Choice = Choice {
    name: "Counting",
    often: &[0, 1, 2],
    later: &[],
    variants: &[(0, "Lazily", &[]), (1, "Written", &[]), (2, "Flushed", &[])],
};

static DURABILITY: Choice = Choice {
    name: "Durability",
    often: &[0, 1, 2],
    later: &[],
    variants: &[(0, "Flush", &[]), (1, "Write", &[Span]), (2, "Relaxed", &[Span])],
};

static RULE: Choice = Choice {
    name: "RecurRule",
    often: &[0, 0, 1],
    later: &[],
    variants: &[(0, "Every", &[Interval]), (1, "Cron", &[Cron, Zone])],
};

static KIND: Choice = Choice {
    name: "EventKind",
    often: &[0, 1, 2, 3, 4],
    later: &[],
    variants: &[
        (0, "Put", &[]),
        (2, "Take", &[]),
        (9, "Fail", &[]),
        (27, "Log", &[]),
        (28, "Step", &[]),
    ],
};

static STEP_KIND: Choice = Choice {
    name: "StepKind",
    often: &[0, 1, 2, 3],
    later: &[],
    variants: &[(0, "Value", &[]), (1, "Spawned", &[]), (2, "Sleep", &[]), (3, "Join", &[])],
};

pub const CLAIM: Field = All(&[TubeNumber, Field::Claim]);
pub const CLAIM_TOKEN: Field = All(&[TubeName, Id, Epoch]);
pub const FAILURE: Field = All(&[Group, Text]);
/// Of one tube: pages of all tubes are read in `exercise`.
pub const CURSOR: Field = All(&[POSITION, Option(&One(&CURSOR_OF)), NONE]);
const POSITION: Field = All(&[One(&SHELF), Order, Id, SubQueue]);
/// A filter of a delete or a move.
pub const FILTER_OF_CHANGE: Field = All(&[
    OF_ANY_NAME,
    List(&Tag),
    NONE,
    Option(&Ids),
    Option(&One(&STATE)),
    Option(&Group),
    LIMITED,
]);
/// As `FILTER_OF_CHANGE`, of the tasks with some ids.
pub const FILTER_OF_IDS: Field =
    All(&[OF_ANY_NAME, EMPTY, NONE, SOME, Ids, Option(&One(&STATE)), NONE, LIMITED]);
/// What a filter of a delete has besides ids that are not in it: they stand before it.
pub const FILTER_OF_CHOSEN: Field = All(&[
    OF_ANY_NAME,
    List(&Tag),
    NONE,
    NONE,
    Option(&One(&STATE)),
    Option(&Group),
    NONE,
    NONE,
    OFF,
    OFF,
    OFF,
]);
/// A filter of a kick: of buried tasks.
pub const FILTER_OF_KICK: Field =
    All(&[OF_ANY_NAME, List(&Tag), NONE, Option(&Ids), SOME, BURIED, Option(&Group), LIMITED]);
/// A filter of the claims that a call ends.
pub const FILTER_OF_CLAIMS: Field =
    All(&[EMPTY, EMPTY, List(&Label), List(&Tag), NONE, Option(&Ids), NONE, NONE, LIMITED]);
/// As `FILTER_OF_CLAIMS`, on some ids.
pub const FILTER_OF_CLAIMS_ON: Field =
    All(&[OF_ANY_NAME, EMPTY, NONE, SOME, Ids, NONE, NONE, NONE, NONE, OFF, OFF, OFF]);
/// The tubes, keys and owners of a filter without any.
const OF_ANY_NAME: Field = All(&[EMPTY, EMPTY, EMPTY]);
/// How a filter of a change ends: no sub-queue, a limit, no order, no details.
const LIMITED: Field = All(&[NONE, Option(&Count), OFF, OFF, OFF]);
/// A filter of a listing of a tube.
pub const FILTER_OF_TUBE: Field = All(&[EMPTY, LISTED]);
/// A filter of a listing of a store.
pub const FILTER_OF_STORE: Field = All(&[List(&TubeName), LISTED]);
/// What a filter of a listing has behind its tubes.
const LISTED: Field = All(&[
    EMPTY,
    List(&Label),
    List(&Tag),
    NONE,
    NONE,
    Option(&One(&STATE)),
    Option(&Group),
    Option(&SubQueue),
    NONE,
    Flag,
    Flag,
    OFF,
]);
/// A filter of events.
pub const FILTER_OF_EVENTS: Field = All(&[
    List(&TubeName),
    List(&Key),
    List(&Label),
    List(&Tag),
    Option(&Kinds),
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    OFF,
    OFF,
    Flag,
]);
/// A list without values.
const EMPTY: Field = Byte(0);
/// The number of this state.
const BURIED: Field = Byte(4);
/// A flag that is not set.
const OFF: Field = Byte(0);

/// What a put says before the body: priority, ttl, ttr, delay, moment, sub-queue, attempts.
const TERMS: Field = All(&[
    Option(&Count32),
    Option(&Time),
    Option(&Time),
    Delay,
    Option(&Moment),
    Option(&SubQueue),
    Option(&Count32),
    // No limit of a claim: existing inputs keep their meaning.
    NONE,
]);
const AFTER: Field = All(&[List(&All(&[TubeName, List(&Id)])), List(&Key), One(&ON_PARENT)]);
const NONE: Field = Byte(0);
const SOME: Field = Byte(1);
/// No takes: as many as a new task has.
const UNTAKEN: Field = Byte(0);
const REJECT: Field = Byte(0);
const REPLACE: Field = Byte(2);

/// A put of a program: it has no id, no takes and no history, and its token is the last field.
pub const PUT: Field = All(&[
    TERMS,
    Option(&Key),
    One(&ON_KEY),
    List(&Tag),
    Body,
    Option(&AFTER),
    NONE,
    UNTAKEN,
    NONE,
    NONE,
    Option(&Token),
    // Remembered for an hour: existing inputs keep their meaning.
    NONE,
    // In no trace.
    NONE,
]);
pub const REQUEUED: Field = All(&[
    TERMS,
    SOME,
    Key,
    REPLACE,
    List(&Tag),
    Body,
    Option(&AFTER),
    NONE,
    UNTAKEN,
    NONE,
    NONE,
    Option(&Token),
    // Remembered for an hour: existing inputs keep their meaning.
    NONE,
    // In no trace.
    NONE,
]);
/// The task of the runs of a schedule. It has no moment, no key, no parents and no token.
const RUN: Field = All(&[
    Option(&Count32),
    Option(&Time),
    Option(&Time),
    Delay,
    NONE,
    Option(&SubQueue),
    Option(&Count32),
    NONE,
    NONE,
    REJECT,
    List(&Tag),
    Body,
    NONE,
    NONE,
    UNTAKEN,
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
]);
/// A task of another store.
const RESTORED: Field = All(&[
    TERMS,
    Option(&Key),
    One(&ON_KEY),
    List(&Tag),
    Body,
    Option(&AFTER),
    Option(&Id),
    Count32,
    Option(&One(&STATE)),
    Option(&HISTORY),
    NONE,
    // No time for the token.
    NONE,
    // In no trace.
    NONE,
]);
pub const PUT_OR_RESTORED: Field = Either(&[PUT, PUT, RESTORED]);
const HISTORY: Field = All(&[
    Count32,
    Option(&FAILURE),
    Option(&All(&[Group, Text, Count32, Option(&Label), Span])),
    Option(&All(&[Id, Count, Moment])),
    Option(&Body),
    List(&All(&[Count, Moment, One(&KIND), One(&STATE), Option(&Label), Option(&Text), TubeName])),
    List(&All(&[StepName, One(&STEP_KIND), Body])),
    Option(&Moment),
    // No moment of the end.
    NONE,
]);
pub const PUT_INTO: Field = All(&[TubeNumber, TubeName, PUT]);

/// Each option is named with a value, or not named.
pub const TUBE_OPTIONS: Field = All(&[
    SOME,
    SOME,
    Flag,
    Option(&All(&[SOME, One(&DURABILITY)])),
    Option(&All(&[SOME, Count])),
    Option(&All(&[SOME, Span])),
    Option(&All(&[SOME, Span])),
    Option(&All(&[SOME, Count32])),
    Option(&All(&[SOME, Span])),
    Option(&All(&[SOME, Count32])),
    SOME,
    SOME,
    One(&COUNTING),
    SOME,
    SOME,
    BACKOFF,
    SOME,
    SOME,
    ShortSpan,
    Option(&All(&[SOME, KEEP])),
    Option(&All(&[SOME, KEEP])),
    Option(&All(&[SOME, Count])),
    Option(&All(&[SOME, Count32])),
    SOME,
    SOME,
    Flag,
    Option(&All(&[SOME, RATE])),
    // No cooldown of sub-queues: existing inputs keep their meaning.
    NONE,
    Option(&All(&[SOME, RATE])),
    SOME,
    SOME,
    Few,
    SOME,
    SOME,
    Few,
]);
const BACKOFF: Field = All(&[ShortSpan, Factor, Span, Share]);
const KEEP: Field = All(&[Option(&Count), Option(&Span)]);
const RATE: Field = All(&[Count32, Span]);

/// What is said of a schedule after its rule.
const SCHEDULE_TERMS: Field = All(&[
    Option(&Moment),
    Option(&Option(&Count)),
    Option(&Count),
    Option(&Option(&Time)),
    Option(&Flag),
]);
pub const NEW_SCHEDULE: Field =
    All(&[SOME, One(&RULE), SCHEDULE_TERMS, SOME, RUN, Option(&All(&[Option(&Id), Count, Count]))]);
pub const SCHEDULE: Field = All(&[Option(&One(&RULE)), SCHEDULE_TERMS, Option(&RUN), NONE]);
