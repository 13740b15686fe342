//! The requests, the calls and the verbs.

use super::Field::{
    All, Among, Body, ByTime, Count, Count32, Day, Driver, Flag, Id, Ids, Instead, Key, Label,
    Limit, List, Moment, One, Option, Path, Request, Session, StepName, SubQueue, Tag, Text, Time,
    Tube, TubeName, TubeNumber, Unsent,
};
use super::values::{
    CLAIM, CLAIM_TOKEN, CURSOR, FAILURE, FILTER_OF_CHANGE, FILTER_OF_CHOSEN, FILTER_OF_CLAIMS,
    FILTER_OF_CLAIMS_ON, FILTER_OF_EVENTS, FILTER_OF_IDS, FILTER_OF_KICK, FILTER_OF_STORE,
    FILTER_OF_TUBE, NEW_SCHEDULE, PUT, PUT_INTO, PUT_OR_RESTORED, REQUEUED, SCHEDULE, TUBE_OPTIONS,
};
use super::{Choice, Field, VERBS, Variant};

const CALL_OF_REQUEST: &[Field] = &[One(&CALL)];

pub static REQUEST: Choice = Choice {
    name: "Request",
    often: &[0, 1, 2, 2, 2, 3, 4, 5],
    later: &[(15, "Heartbeat", &[]), (17, "Delivered", &[Count]), (24, "ScrapeStore", &[])],
    variants: &[
        // Three modes were one to the owner. The places of two are taken, so that existing inputs keep their
        // meaning.
        (1, "Call", CALL_OF_REQUEST),
        (1, "Call", CALL_OF_REQUEST),
        (1, "Call", CALL_OF_REQUEST),
        (3, "End", CALL_OF_REQUEST),
        (4, "UnlessFull", CALL_OF_REQUEST),
        (5, "Take", &[List(&All(&[TubeNumber, TubeName])), Session, Option(&Time), Option(&Count)]),
        (6, "WaitReady", &[Tube, Session, Option(&Time)]),
        (7, "ClaimEnd", &[CLAIM]),
        (8, "Flush", &[]),
        (9, "CatchUp", &[]),
        (10, "Verify", &[]),
        (11, "Backup", &[Path]),
        (12, "Counters", &[]),
        (13, "Clock", &[]),
        (16, "Subscribe", &[Field::Byte(7), FILTER_OF_EVENTS, Count]),
    ],
};

static CALL: Choice = Choice {
    name: VERBS,
    often: &[1, 1, 1, 1, 1, 2, 2, 2, 3, 5],
    later: &[
        (25, "DeleteTasks", &[TASKS_OF_TUBES, FILTER_OF_CHOSEN, Option(&Count)]),
        (26, "ScrapeTubes", &[Option(&TubeName)]),
    ],
    variants: &[
        (0, "Space", &[]),
        (1, "Tube", &[Tube, One(&VERB)]),
        (2, "Claim", &[CLAIM, One(&HOLDER_VERB)]),
        (3, "ResumeClaim", &[Request(23, "ResumeClaim"), Session, CLAIM_TOKEN]),
        (4, "OwnerOfClaim", &[CLAIM]),
        (5, "EndClaims", &[List(&CLAIM), List(&CLAIM_END)]),
        (6, "DropClaim", &[Field::Granted, Flag]),
        (7, "CreateTube", &[TubeName, Field::Byte(1), Driver, TUBE_OPTIONS, Flag, Unsent]),
        (8, "FindTube", &[TubeName]),
        (9, "DropTube", &[TubeName]),
        (10, "Tubes", &[]),
        (11, "SetLimit", &[Limit, Option(&Count32)]),
        (12, "AllLimits", &[]),
        (13, "ByKey", &[Key]),
        (14, "Find", &[Id, Option(&TubeName)]),
        (15, "ListInStore", &[FILTER_OF_STORE, Option(&CURSOR), Count]),
        (16, "TagCounts", &[Option(&Tag)]),
        (17, "AllCounts", &[]),
        (18, "NextId", &[]),
        (19, "BeginSession", &[Request(19, "BeginSession"), Session, Option(&Label)]),
        (20, "ResumeSession", &[Request(20, "ResumeSession"), Session]),
        (21, "DescribeSession", &[Session, Option(&All(&[Text, Text]))]),
        (22, "Owners", &[]),
        (23, "EndSession", &[Request(21, "EndSession"), Session]),
        (24, "DropSession", &[Request(22, "DropSession"), Session]),
    ],
};

static VERB: Choice = Choice {
    name: VERBS,
    often: &[2, 3, 1, 1, 1, 4, 10, 13, 14, 16, 17, 18, 20, 20, 23, 24, 30, 33, 36, 37, 15, 6, 7],
    later: &[
        (1, "PutTask", &[PUT]),
        (31, "Steps", &[Id, Field::Byte(1), StepName, Field::Byte(0)]),
        (92, "CountParents", &[Id, Option(&Id)]),
        (
            28,
            "EditTasks",
            &[FILTER_OF_CHANGE, DELETE_ACROSS, List(&TubeName), Option(&CURSOR), BELOW, Count],
        ),
        (31, "Steps", &[Id, Option(&StepName), Option(&Count)]),
        (32, "Peek", &[Id, Flag]),
    ],
    variants: &[
        // No verb has the number 0 any more.
        (1, "PutTask", &[PUT]),
        (1, "PutTask", &[PUT]),
        (2, "PutOrWait", &[Session, PUT, Option(&Time)]),
        // Nor has any the number 3.
        (4, "PutMany", &[List(&PUT_OR_RESTORED)]),
        (4, "PutMany", &[List(&PUT_OR_RESTORED)]),
        (5, "Requeue", &[REQUEUED]),
        (6, "PutAndWait", &[Session, PUT, Option(&Time)]),
        (7, "WaitDone", &[Instead(&WAIT)]),
        // Nor a call for the cancel of a wait: its place is taken by another wait.
        (8, "WaitDrained", &[Session, Option(&Time)]),
        // No verb has the number 9. Its place is taken, so that existing inputs keep their meaning.
        (10, "Claim", &[Request(18, "Claim"), Session, Id]),
        (10, "Claim", &[Request(18, "Claim"), Session, Id]),
        (34, "Revoke", &[FILTER_OF_CLAIMS_ON, Flag, Option(&CURSOR), Count]),
        (12, "OwnerOf", &[Id]),
        // Nor has any the number 13: its place is taken by this.
        (14, "ClaimOf", &[Session, Id]),
        (14, "ClaimOf", &[Session, Id]),
        (15, "Bury", &[Id, Option(&FAILURE)]),
        (16, "Kick", &[Id]),
        (28, "EditTasks", &[FILTER_OF_KICK, KICK, Option(&CURSOR), BELOW, Count]),
        (28, "EditTasks", &[FILTER_OF_IDS, MOVE, Tube, Option(&CURSOR), BELOW, Count]),
        (28, "EditTasks", &[FILTER_OF_CHANGE, MOVE, Tube, Option(&CURSOR), BELOW, Count]),
        (20, "Edges", &[Among(EDGE_VERBS, &[0, 0, 1, 2, 3])]),
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
        (24, "EditTags", &[Id, Among(TAG_EDITS, &[0, 1])]),
        (25, "CancelTask", &[Id]),
        (28, "EditTasks", &[FILTER_OF_IDS, DELETE, Option(&CURSOR), BELOW, Count]),
        (28, "EditTasks", &[FILTER_OF_IDS, DELETE, Option(&CURSOR), BELOW, Count]),
        (28, "EditTasks", &[FILTER_OF_CHANGE, DELETE, Option(&CURSOR), BELOW, Count]),
        (28, "EditTasks", &[FILTER_OF_KICK, KICK, Option(&CURSOR), BELOW, Count]),
        (30, "History", &[Among(HISTORY_VERBS, &[0, 1])]),
        (31, "Steps", &[Id, Field::Byte(0), Field::Byte(0)]),
        (32, "Peek", &[Id, Field::Byte(1)]),
        (90, "List", &[Instead(&LIST)]),
        (34, "Revoke", &[FILTER_OF_CLAIMS, Flag, Option(&CURSOR), Count]),
        (35, "Resolve", &[Id, Option(&Body)]),
        (36, "Schedules", &[Among(SCHEDULE_VERBS, &[0, 0, 1, 2, 3, 4])]),
        (37, "Forget", &[Id]),
        (38, "EndingOf", &[Id]),
        (39, "Groups", &[]),
        (40, "Truncate", &[]),
        (41, "Pause", &[Time]),
        (42, "PauseUntil", &[Moment]),
        (43, "PauseSubQueue", &[SubQueue, Time]),
        (44, "PausedSubQueues", &[]),
        (45, "Days", &[Day, Day]),
        (46, "FailedOn", &[Day, Day, Body]),
        (47, "Alter", &[Field::Byte(0), TUBE_OPTIONS, Unsent, Unsent]),
        (48, "InfoOf", &[]),
        (49, "CountsOf", &[]),
        (50, "IsTimed", &[]),
    ],
};

static HOLDER_VERB: Choice = Choice {
    name: VERBS,
    often: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12],
    later: &[(15, "Limit", &[Time])],
    variants: &[
        (0, "Ack", &[Option(&Body)]),
        (1, "Release", &[ByTime((1, "Release"), (11, "EndTask"), 2)]),
        (2, "Touch", &[Time]),
        (3, "Renew", &[Time]),
        (4, "ReportProgress", &[Instead(&REPORT)]),
        (5, "Park", &[Time]),
        (6, "Checkpoint", &[Body]),
        (11, "EndTask", &[Field::Byte(5), Option(&FAILURE), NO_PUTS]),
        (11, "EndTask", &[Field::Byte(4), Option(&Time), FAILURE, NO_PUTS]),
        (9, "Snooze", &[ByTime((9, "Snooze"), (11, "EndTask"), 3)]),
        (10, "LogHeld", &[Text]),
        (11, "EndTask", &[END_REQUEST]),
        (33, "ReadStep", &[Instead(&STEP)]),
        // No verb has the number 13. Its place is taken, so that existing inputs keep their meaning.
        (14, "DescribeHeld", &[]),
        (14, "DescribeHeld", &[]),
    ],
};

/// What a call does to selected tasks.
const DELETE: Field = Field::Byte(0);
const KICK: Field = Field::Byte(1);
const MOVE: Field = Field::Byte(2);
const DELETE_ACROSS: Field = Field::Byte(3);
/// The call is the first of its steps.
const BELOW: Field = Field::Byte(0);

/// Tasks by their tubes: of no tube, or of one.
const TASKS_OF_TUBES: Field =
    Field::Either(&[Field::Byte(0), All(&[Field::Byte(1), TubeName, Ids])]);

/// The puts that follow an end: none.
const NO_PUTS: Field = Field::Byte(0);

const CLAIM_END: Field = Field::All(&[END_REQUEST, Flag]);

const END_REQUEST: Field = Field::All(&[One(&TASK_END), List(&PUT_INTO)]);

static TASK_END: Choice = Choice {
    name: "TaskEnd",
    often: &[0, 1, 2, 3, 4, 5],
    later: &[(6, "AdvanceUnchanged", &[Tube])],
    variants: &[
        (0, "Ack", &[Option(&Body)]),
        (1, "Advance", &[PUT_INTO]),
        (2, "Release", &[Time]),
        (3, "Snooze", &[Time]),
        (4, "Fail", &[Option(&Time), FAILURE]),
        (5, "Bury", &[Option(&FAILURE)]),
    ],
};

static REPORT: Choice = Choice {
    name: VERBS,
    often: &[0, 1],
    later: &[],
    variants: &[(4, "ReportProgress", &[Count, Count]), (32, "ReportText", &[Text])],
};

static STEP: Choice = Choice {
    name: VERBS,
    often: &[0, 1, 2, 3, 4, 5],
    later: &[(38, "StepsHeld", &[Field::Byte(1), StepName])],
    variants: &[
        (33, "ReadStep", &[StepName]),
        (34, "WriteStep", &[StepName, Body]),
        (35, "Spawn", &[StepName, PUT_INTO]),
        (36, "Sleep", &[StepName, Time]),
        (37, "Join", &[StepName, Tube, List(&Id)]),
        (38, "StepsHeld", &[Field::Byte(0)]),
    ],
};

const EDGE_VERBS: &[Variant] = &[
    (62, "AddParents", &[Id, Tube, List(&Id)]),
    (63, "RemoveParents", &[Id, Option(&List(&Id))]),
    (95, "Parents", &[Id]),
    (96, "Children", &[Id]),
];

const HISTORY_VERBS: &[Variant] = &[(98, "HistoryOf", &[Id]), (67, "Log", &[Id, Text])];

static LIST: Choice = Choice {
    name: VERBS,
    often: &[0, 1, 2],
    later: &[],
    variants: &[
        (90, "List", &[FILTER_OF_TUBE, Option(&CURSOR), Count]),
        (91, "ListBodies", &[FILTER_OF_TUBE, Option(&CURSOR), Count]),
        (94, "PeekReady", &[Count]),
    ],
};

const SCHEDULE_VERBS: &[Variant] = &[
    (64, "SetSchedule", &[Key, NEW_SCHEDULE]),
    (65, "ChangeSchedule", &[Key, SCHEDULE]),
    (66, "RemoveSchedule", &[Key]),
    (97, "ListSchedules", &[Option(&CURSOR), Count]),
    (68, "FindSchedule", &[Key]),
];

static WAIT: Choice = Choice {
    name: VERBS,
    often: &[0, 1],
    later: &[],
    variants: &[
        (7, "WaitDone", &[Session, Id, Option(&Time)]),
        (8, "WaitDrained", &[Session, Option(&Time)]),
    ],
};

/// The id is in front of them.
const TAG_EDITS: &[Variant] = &[(60, "AddTags", &[List(&Tag)]), (61, "RemoveTags", &[List(&Tag)])];
