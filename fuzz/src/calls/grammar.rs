//! The requests of a connection, as lists of fields in the order in which they are encoded.
//!
//! It is written down a second time here, apart from the encoding, so that a request of a peer of an
//! older release stays what it was.

/// A field, by what it is good for.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    Flag,
    /// The number and the name of a tube.
    Tube,
    TubeNumber,
    TubeName,
    Driver,
    /// The id of a task.
    Id,
    Session,
    Epoch,
    /// A pair of session and epoch: who holds a task.
    Holder,
    /// The number of a wait.
    Arrival,
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
    /// One of these, without a number.
    Either(&'static [Field]),
    /// This byte.
    Byte(u8),
}

/// Fields of which one is chosen.
#[derive(Debug)]
pub struct Choice {
    pub name: &'static str,
    /// The variants that are chosen in most cases, by their places in the list.
    pub often: &'static [usize],
    pub variants: &'static [Variant],
}

/// The number, the name and the fields of a variant.
pub type Variant = (u8, &'static str, &'static [Field]);

use Field::{
    All, Arrival, Body, Byte, Count, Count32, Cron, Day, Delay, Driver, Either, Epoch, Factor, Few,
    Flag, Group, Holder, Id, Interval, Key, Kinds, Label, Limit, List, Moment, One, Option, Order,
    Path, Session, Share, ShortSpan, Span, StepName, SubQueue, Tag, Text, Time, Token, Tube,
    TubeName, TubeNumber, Zone,
};

const CALL_OF_REQUEST: &[Field] = &[One(&CALL)];

pub static REQUEST: Choice = Choice {
    name: "Request",
    often: &[0, 1, 2, 2, 2, 3, 4, 5],
    variants: &[
        (0, "Ask", CALL_OF_REQUEST),
        (1, "Call", CALL_OF_REQUEST),
        (2, "OnceVisible", CALL_OF_REQUEST),
        (3, "Deferred", CALL_OF_REQUEST),
        (4, "DeferredOrRefused", CALL_OF_REQUEST),
        (5, "Take", &[List(&All(&[TubeNumber, TubeName])), Session, Option(&Time), Option(&Count)]),
        (6, "WaitReady", &[Tube, Session, Option(&Time)]),
        (7, "ClaimEnd", &[CLAIM]),
        (8, "Flush", &[]),
        (9, "CatchUp", &[]),
        (10, "Verify", &[]),
        (11, "Backup", &[Path]),
        (12, "Counters", &[]),
        (13, "Clock", &[]),
        (
            14,
            "Events",
            &[List(&TubeName), List(&Key), List(&Label), List(&Tag), Option(&Kinds), Count],
        ),
    ],
};

static CALL: Choice = Choice {
    name: "Call",
    often: &[1, 1, 1, 1, 1, 2, 2, 2, 3, 5],
    variants: &[
        (0, "Check", &[]),
        (1, "Tube", &[Tube, One(&VERB)]),
        (2, "Claim", &[CLAIM, One(&HOLDER_VERB)]),
        (3, "ResumeClaim", &[Session, CLAIM_TOKEN]),
        (4, "OwnerOfClaim", &[CLAIM]),
        (5, "AckClaims", &[List(&CLAIM)]),
        (6, "DropClaim", &[Id, Epoch, Flag]),
        (7, "CreateTube", &[TubeName, Driver, TUBE_OPTIONS]),
        (8, "FindTube", &[TubeName]),
        (9, "DropTube", &[TubeName]),
        (10, "Tubes", &[]),
        (11, "SetLimit", &[Limit, Option(&Count32)]),
        (12, "Limits", &[]),
        (13, "ByKey", &[Key]),
        (14, "Find", &[Id, Option(&TubeName)]),
        (15, "Tagged", &[Tag, Option(&CURSOR), Count]),
        (16, "TagCounts", &[Option(&Tag)]),
        (17, "AllStatistics", &[]),
        (18, "NextId", &[]),
        (19, "BeginSession", &[Session, Option(&Label)]),
        (20, "ResumeSession", &[Session]),
        (21, "DescribeSession", &[Session, Text, Text]),
        (22, "Owners", &[]),
        (23, "EndSession", &[Session]),
        (24, "DropSessionHandle", &[Session]),
    ],
};

static VERB: Choice = Choice {
    name: "Verb",
    often: &[2, 3, 1, 1, 1, 4, 10, 13, 14, 16, 17, 18, 20, 20, 23, 24, 30, 33, 36, 37, 15, 6, 7],
    variants: &[
        (0, "Check", &[]),
        (1, "Put", &[PUT]),
        (2, "PutOrWait", &[Session, PUT, Option(&Time)]),
        (3, "CancelPut", &[Arrival]),
        (4, "PutMany", &[List(&PUT_OR_RESTORED)]),
        (5, "Requeue", &[REQUEUED]),
        (6, "PutAndWait", &[Session, PUT, Option(&Time)]),
        (7, "Wait", &[One(&WAIT_VERB)]),
        (8, "CancelWatch", &[One(&WATCH_KEY)]),
        (9, "TakeMany", &[Session, Count]),
        (10, "Claim", &[Session, Id]),
        (11, "Revoke", &[Id]),
        (12, "OwnerOf", &[Id]),
        (13, "Held", &[Holder, Id, One(&HOLDER_VERB)]),
        (14, "AckMany", &[Holder, List(&Id)]),
        (15, "Bury", &[Id]),
        (16, "KickTask", &[Id]),
        (17, "Kick", &[Count]),
        (18, "Move", &[Id, Tube]),
        (19, "MoveSome", &[Tube, Option(&CURSOR), Count]),
        (20, "Edges", &[One(&EDGE_VERB)]),
        (21, "Delete", &[Id]),
        (22, "SetPriority", &[Id, Count32]),
        (
            23,
            "Update",
            &[
                Id,
                Option(&Count32),
                Option(&Time),
                Option(&Option(&Moment)),
                Option(&Body),
                Option(&List(&Tag)),
            ],
        ),
        (24, "EditTags", &[Id, One(&TAG_EDIT)]),
        (25, "Cancel", &[Id]),
        (26, "DeleteIf", &[Id, List(&One(&STATE))]),
        (27, "DeleteMany", &[List(&Id)]),
        (28, "DeleteWhere", &[SELECT, Option(&CURSOR), Count]),
        (29, "KickWhere", &[SELECT, Option(&CURSOR), Count]),
        (30, "History", &[One(&HISTORY_VERB)]),
        (31, "Steps", &[Id]),
        (32, "Peek", &[Id]),
        (33, "List", &[One(&LIST_VERB)]),
        (34, "ReleaseAll", &[Count, Flag]),
        (35, "Resolve", &[Id, Option(&Body)]),
        (36, "Schedules", &[One(&SCHEDULE_VERB)]),
        (37, "Forget", &[Id]),
        (38, "Outcome", &[Id]),
        (39, "Groups", &[]),
        (40, "Truncate", &[]),
        (41, "Pause", &[Time]),
        (42, "PauseUntil", &[Moment]),
        (43, "PauseSubQueue", &[SubQueue, Time]),
        (44, "PausedSubQueues", &[]),
        (45, "Days", &[Day, Day]),
        (46, "FailedOn", &[Day, Day, Body]),
        (47, "Alter", &[TUBE_OPTIONS]),
        (48, "Info", &[]),
        (49, "Statistics", &[]),
        (50, "IsTimed", &[]),
    ],
};

static HOLDER_VERB: Choice = Choice {
    name: "HolderVerb",
    often: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12],
    variants: &[
        (0, "Ack", &[Option(&Body)]),
        (1, "Release", &[Time]),
        (2, "Touch", &[Time]),
        (3, "Renew", &[Time]),
        (4, "Progress", &[One(&PROGRESS_REPORT)]),
        (5, "Park", &[Time]),
        (6, "Checkpoint", &[Body]),
        (7, "Bury", &[Option(&FAILURE)]),
        (8, "Fail", &[Option(&Time), FAILURE]),
        (9, "Snooze", &[Time]),
        (10, "Log", &[Text]),
        (11, "Finish", &[Option(&Body), List(&PUT_INTO), Option(&PUT_INTO)]),
        (12, "Step", &[One(&STEP_VERB)]),
        (13, "EndSignal", &[]),
        (14, "Describe", &[]),
    ],
};

static PROGRESS_REPORT: Choice = Choice {
    name: "ProgressReport",
    often: &[0, 1],
    variants: &[(0, "Count", &[Count, Count]), (1, "Text", &[Text])],
};

static STEP_VERB: Choice = Choice {
    name: "StepVerb",
    often: &[0, 1, 2, 3, 4, 5],
    variants: &[
        (0, "Read", &[StepName]),
        (1, "Write", &[StepName, Body]),
        (2, "Spawn", &[StepName, PUT_INTO]),
        (3, "Sleep", &[StepName, Time]),
        (4, "Join", &[StepName, Tube, List(&Id)]),
        (5, "List", &[]),
    ],
};

static EDGE_VERB: Choice = Choice {
    name: "EdgeVerb",
    often: &[0, 0, 1, 2, 3],
    variants: &[
        (0, "Add", &[Id, Tube, List(&Id)]),
        (1, "Remove", &[Id, Option(&List(&Id))]),
        (2, "Parents", &[Id]),
        (3, "Children", &[Id]),
    ],
};

static HISTORY_VERB: Choice = Choice {
    name: "HistoryVerb",
    often: &[0, 1],
    variants: &[(0, "Read", &[Id]), (1, "Log", &[Id, Text])],
};

static LIST_VERB: Choice = Choice {
    name: "ListVerb",
    often: &[0, 1, 2, 3, 4],
    variants: &[
        (0, "State", &[One(&STATE), Option(&CURSOR), Count]),
        (1, "Group", &[Group, Option(&CURSOR), Count]),
        (2, "Where", &[WHERE, Option(&CURSOR), Count]),
        (3, "Bodies", &[WHERE, Option(&CURSOR), Count]),
        (4, "Ready", &[Count]),
    ],
};

static SCHEDULE_VERB: Choice = Choice {
    name: "ScheduleVerb",
    often: &[0, 0, 1, 2, 3],
    variants: &[
        (0, "Set", &[Key, NEW_SCHEDULE]),
        (1, "Change", &[Key, SCHEDULE]),
        (2, "Remove", &[Key]),
        (3, "List", &[Option(&CURSOR), Count]),
    ],
};

static WAIT_VERB: Choice = Choice {
    name: "WaitVerb",
    often: &[0, 1],
    variants: &[
        (0, "Done", &[Session, Id, Option(&Time)]),
        (1, "Drained", &[Session, Option(&Time)]),
        (2, "Ready", &[Session, Option(&Time)]),
    ],
};

static WATCH_KEY: Choice = Choice {
    name: "WatchKey",
    often: &[0],
    variants: &[
        (0, "Task", &[Id, Arrival]),
        (1, "Tube", &[TubeNumber, Arrival]),
        (2, "Ready", &[TubeNumber, Arrival]),
    ],
};

static TAG_EDIT: Choice = Choice {
    name: "TagEdit",
    often: &[0, 1],
    variants: &[(0, "Add", &[List(&Tag)]), (1, "Remove", &[List(&Tag)])],
};

static STATE: Choice = Choice {
    name: "State",
    often: &[0, 1, 4],
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
    variants: &[(0, "Reject", &[]), (1, "Keep", &[]), (2, "Replace", &[])],
};

static ON_PARENT: Choice = Choice {
    name: "OnParent",
    often: &[0, 1, 2],
    variants: &[(0, "Wait", &[]), (1, "Release", &[]), (2, "Bury", &[])],
};

static SHELF: Choice = Choice {
    name: "Shelf",
    often: &[0, 2],
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
    variants: &[(0, "Group", &[Group]), (1, "Tag", &[Tag])],
};

static COUNTING: Choice = Choice {
    name: "Counting",
    often: &[0, 1, 2],
    variants: &[(0, "Lazily", &[]), (1, "Written", &[]), (2, "Flushed", &[])],
};

static DURABILITY: Choice = Choice {
    name: "Durability",
    often: &[0, 1, 2],
    variants: &[(0, "Flush", &[]), (1, "Write", &[Span]), (2, "Relaxed", &[Span])],
};

static RULE: Choice = Choice {
    name: "RecurRule",
    often: &[0, 0, 1],
    variants: &[(0, "Every", &[Interval]), (1, "Cron", &[Cron, Zone])],
};

static KIND: Choice = Choice {
    name: "EventKind",
    often: &[0, 1, 2, 3, 4],
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
    variants: &[(0, "Value", &[]), (1, "Spawned", &[]), (2, "Sleep", &[]), (3, "Join", &[])],
};

const CLAIM: Field = All(&[TubeNumber, Holder, Id]);
const CLAIM_TOKEN: Field = All(&[TubeName, Id, Epoch]);
const FAILURE: Field = All(&[Group, Text]);
const CURSOR: Field = All(&[POSITION, Option(&One(&CURSOR_OF))]);
const POSITION: Field = All(&[One(&SHELF), Order, Id, SubQueue]);
const SELECT: Field = All(&[Option(&One(&STATE)), Option(&Group), Option(&Tag), Option(&Count)]);
const WHERE: Field = All(&[
    Option(&One(&STATE)),
    Option(&Tag),
    Option(&Group),
    Option(&Label),
    Option(&SubQueue),
    Flag,
]);

/// What a put says before the body: priority, ttl, ttr, delay, moment, sub-queue, attempts.
const TERMS: Field = All(&[
    Option(&Count32),
    Option(&Time),
    Option(&Time),
    Delay,
    Option(&Moment),
    Option(&SubQueue),
    Option(&Count32),
]);
const AFTER: Field = All(&[List(&All(&[TubeName, List(&Id)])), List(&Key), One(&ON_PARENT)]);
const NONE: Field = Byte(0);
const SOME: Field = Byte(1);
/// No takes: as many as a new task has.
const UNTAKEN: Field = Byte(0);
const REJECT: Field = Byte(0);
const REPLACE: Field = Byte(2);

/// A put of a program: it has no id, no takes and no history, and its token is the last field.
const PUT: Field = All(&[
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
]);
const REQUEUED: Field = All(&[
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
    REJECT,
    List(&Tag),
    Body,
    NONE,
    NONE,
    UNTAKEN,
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
]);
const PUT_OR_RESTORED: Field = Either(&[PUT, PUT, RESTORED]);
const HISTORY: Field = All(&[
    Count32,
    Option(&FAILURE),
    Option(&All(&[Group, Text, Count32, Option(&Label), Span])),
    Option(&All(&[Id, Count, Moment])),
    Option(&Body),
    List(&All(&[Count, Moment, One(&KIND), One(&STATE), Option(&Label), Option(&Text), TubeName])),
    List(&All(&[StepName, One(&STEP_KIND), Body])),
]);
const PUT_INTO: Field = All(&[TubeNumber, TubeName, PUT]);

const TUBE_OPTIONS: Field = All(&[
    Option(&Span),
    Option(&Span),
    Option(&Count32),
    Flag,
    Option(&Count),
    Option(&Span),
    Option(&Count32),
    One(&COUNTING),
    BACKOFF,
    ShortSpan,
    Option(&KEEP),
    Option(&KEEP),
    Option(&Count),
    Option(&Count32),
    Flag,
    Option(&RATE),
    Option(&RATE),
    Few,
    Few,
    Option(&One(&DURABILITY)),
    Flag,
    Flag,
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
const NEW_SCHEDULE: Field = All(&[
    SOME,
    One(&RULE),
    SCHEDULE_TERMS,
    SOME,
    RUN,
    NONE,
    NONE,
    NONE,
    NONE,
    Option(&All(&[Option(&Id), Count, Count])),
]);
const SCHEDULE: Field = All(&[
    Option(&One(&RULE)),
    SCHEDULE_TERMS,
    Option(&RUN),
    Option(&Body),
    Option(&Count32),
    Option(&Count32),
    Option(&List(&Tag)),
    NONE,
]);
