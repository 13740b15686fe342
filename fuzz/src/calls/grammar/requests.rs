//! The requests, the calls and the verbs.

use super::Field::{
    All, Arrival, Body, Count, Count32, Day, Driver, Epoch, Fixed, Flag, Group, Holder, Id,
    Instead, Key, Kinds, Label, Limit, List, Moment, One, Option, Path, Session, StepName,
    SubQueue, Tag, Text, Time, Tube, TubeName, TubeNumber,
};
use super::values::{
    CLAIM, CLAIM_TOKEN, CURSOR, FAILURE, NEW_SCHEDULE, PUT, PUT_INTO, PUT_OR_RESTORED, REQUEUED,
    SCHEDULE, SELECT, STATE, TUBE_OPTIONS, WHERE,
};
use super::{Choice, Field, Variant};

const CALL_OF_REQUEST: &[Field] = &[One(&CALL)];

pub static REQUEST: Choice = Choice {
    name: "Request",
    often: &[0, 1, 2, 2, 2, 3, 4, 5],
    later: &[(15, "Heartbeat", &[]), (17, "Delivered", &[Count])],
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
            16,
            "Subscribe",
            &[
                Field::Byte(7),
                List(&TubeName),
                List(&Key),
                List(&Label),
                List(&Tag),
                Option(&Kinds),
                Count,
            ],
        ),
    ],
};

static CALL: Choice = Choice {
    name: "Call",
    often: &[1, 1, 1, 1, 1, 2, 2, 2, 3, 5],
    later: &[],
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
    // No byte chooses the first verb of the list below.
    later: &[(0, "Check", &[]), (51, "StepsAfter", &[Id, StepName])],
    variants: &[
        (0, "Check", &[]),
        (1, "Put", &[PUT]),
        (2, "PutOrWait", &[Session, PUT, Option(&Time)]),
        // Nor has any the number 3.
        (4, "PutMany", &[List(&PUT_OR_RESTORED)]),
        (4, "PutMany", &[List(&PUT_OR_RESTORED)]),
        (5, "Requeue", &[REQUEUED]),
        (6, "PutAndWait", &[Session, PUT, Option(&Time)]),
        (7, "Wait", &[One(&WAIT_VERB)]),
        (8, "CancelWatch", &[One(&WATCH_KEY)]),
        // No verb has the number 9. Its place is taken, so that existing inputs keep their meaning.
        (10, "Claim", &[Session, Id]),
        (10, "Claim", &[Session, Id]),
        (11, "Revoke", &[Id]),
        (12, "OwnerOf", &[Id]),
        (13, "Held", &[Holder, Id, One(&HOLDER_VERB)]),
        (14, "AckMany", &[Holder, List(&Id)]),
        (15, "Bury", &[Id]),
        (16, "KickTask", &[Id]),
        (17, "Kick", &[Count]),
        (18, "MoveTo", &[Id, Tube]),
        (19, "MoveSome", &[Tube, Option(&CURSOR), Count]),
        (20, "Edges", &[Instead(EDGE_VERBS, &[0, 0, 1, 2, 3])]),
        (21, "Delete", &[Id]),
        (22, "SetPriority", &[Id, Count32]),
        (
            23,
            "UpdateTask",
            &[
                Id,
                Option(&Count32),
                Option(&Time),
                Option(&Option(&Moment)),
                Option(&Body),
                Option(&List(&Tag)),
            ],
        ),
        (24, "EditTags", &[Id, Instead(TAG_EDITS, &[0, 1])]),
        (25, "CancelTask", &[Id]),
        (26, "DeleteIf", &[Id, List(&One(&STATE))]),
        (27, "DeleteMany", &[List(&Id)]),
        (28, "DeleteWhere", &[SELECT, Option(&CURSOR), Count]),
        (29, "KickWhere", &[SELECT, Option(&CURSOR), Count]),
        (30, "History", &[Instead(HISTORY_VERBS, &[0, 1])]),
        (31, "Steps", &[Id]),
        (32, "Peek", &[Id]),
        (33, "List", &[One(&LIST_VERB)]),
        (34, "ReleaseAll", &[Count, Flag]),
        (35, "Resolve", &[Id, Option(&Body)]),
        (36, "Schedules", &[Instead(SCHEDULE_VERBS, &[0, 0, 1, 2, 3])]),
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
    later: &[(15, "Limit", &[Time])],
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
    later: &[],
    variants: &[(0, "Count", &[Count, Count]), (1, "Text", &[Text])],
};

static STEP_VERB: Choice = Choice {
    name: "StepVerb",
    often: &[0, 1, 2, 3, 4, 5],
    later: &[(6, "ListAfter", &[StepName])],
    variants: &[
        (0, "Read", &[StepName]),
        (1, "Write", &[StepName, Body]),
        (2, "Spawn", &[StepName, PUT_INTO]),
        (3, "Sleep", &[StepName, Time]),
        (4, "Join", &[StepName, Tube, List(&Id)]),
        (5, "List", &[]),
    ],
};

const EDGE_VERBS: &[Variant] = &[
    (62, "AddParents", &[Id, Tube, List(&Id)]),
    (63, "RemoveParents", &[Id, Option(&List(&Id))]),
    (20, "Edges", &[Fixed(2, "EdgeVerb::Parents"), Id]),
    (20, "Edges", &[Fixed(3, "EdgeVerb::Children"), Id]),
];

const HISTORY_VERBS: &[Variant] =
    &[(30, "History", &[Fixed(0, "HistoryVerb::Read"), Id]), (67, "Log", &[Id, Text])];

static LIST_VERB: Choice = Choice {
    name: "ListVerb",
    often: &[0, 1, 2, 3, 4],
    later: &[],
    variants: &[
        (0, "State", &[One(&STATE), Option(&CURSOR), Count]),
        (1, "Group", &[Group, Option(&CURSOR), Count]),
        (2, "Where", &[WHERE, Option(&CURSOR), Count]),
        (3, "Bodies", &[WHERE, Option(&CURSOR), Count]),
        (4, "Ready", &[Count]),
    ],
};

const SCHEDULE_VERBS: &[Variant] = &[
    (64, "SetSchedule", &[Key, NEW_SCHEDULE]),
    (65, "ChangeSchedule", &[Key, SCHEDULE]),
    (66, "RemoveSchedule", &[Key]),
    (36, "Schedules", &[Fixed(3, "ScheduleVerb::List"), Option(&CURSOR), Count]),
];

static WAIT_VERB: Choice = Choice {
    name: "WaitVerb",
    often: &[0, 1],
    later: &[],
    variants: &[
        (0, "Done", &[Session, Id, Option(&Time)]),
        (1, "Drained", &[Session, Option(&Time)]),
        (2, "Ready", &[Session, Option(&Time)]),
    ],
};

static WATCH_KEY: Choice = Choice {
    name: "WatchKey",
    often: &[0],
    later: &[],
    variants: &[
        (0, "Task", &[Id, Arrival]),
        (1, "Tube", &[TubeNumber, Arrival]),
        (2, "Ready", &[TubeNumber, Arrival]),
    ],
};

/// The id is in front of them.
const TAG_EDITS: &[Variant] = &[(60, "AddTags", &[List(&Tag)]), (61, "RemoveTags", &[List(&Tag)])];
