//! The list of all verbs.

#[cfg(test)]
use super::verb::{Begin, InStore, InTube, OfClaim, OfClaims};
use super::verb::{Listed, OnVerb, Verb};
use super::verb::{Numbered, get_target};
pub(crate) use crate::core::catalog::{
    Alter, CreateTube, DropTube, FindTube, InfoOf, IsTimed, Truncate, Tubes,
};
pub(crate) use crate::core::claims::{
    ClaimOf, DescribeHeld, DescribeSession, DropClaim, OwnerOf, OwnerOfClaim, Owners, Park,
    ReportProgress, ReportText,
};
pub(crate) use crate::core::days::{Days, FailedOn};
pub(crate) use crate::core::gates::{Pause, PauseUntil};
pub(crate) use crate::core::limits::{AllLimits, PauseSubQueue, PausedSubQueues, SetLimit};
pub(crate) use crate::core::parents::{
    AddParents, Children, CountParents, Join, Parents, RemoveParents,
};
pub(crate) use crate::core::schedules::{
    ChangeSchedule, FindSchedule, ListSchedules, RemoveSchedule, SetSchedule,
};
use crate::core::state::ClaimKey;
pub(crate) use crate::core::verbs::{
    Ack, AddTags, AllCounts, Bury, ByKey, CancelTask, Checkpoint, CountsOf, Delete, DeleteTasks,
    EditTasks, EndClaims, EndTask, EndingOf, Find, Forget, Groups, HistoryOf, Kick, Limit, List,
    ListBodies, ListInStore, Log, LogHeld, NextId, Peek, PeekReady, PutMany, PutTask, ReadStep,
    Release, RemoveTags, Renew, Requeue, Resolve, Revoke, ScrapeTubes, SetPriority, Sleep, Snooze,
    Spawn, Steps, StepsHeld, TagCounts, Touch, UpdateTask, WriteStep,
};
pub(crate) use crate::core::waits::{PutAndWait, PutOrWait, Space, WaitDone, WaitDrained};
use crate::core::wire::{Input, Malformed, Wire};

/// The list of all verbs. A new one gets a number that no verb of its target has. In the store, 1 and 2 are no
/// verbs: they begin the targets (`verb/target.rs`).
macro_rules! verbs {
    (
        in store: $($in_store:ident),*;
        in tube: $($in_tube:ident), *;
        of claim: $($of_claim:ident),*;
        of claims: $($of_claims:ident),*;
    ) => {
        /// Finds the verb of a call. Two verbs with one number do not compile.
        #[deny(unreachable_patterns)]
        pub(crate) fn with_verb<R: OnVerb>(
            input: &mut Input<'_>,
            run: R,
        ) -> Result<R::Done, Malformed> {
            match get_target(input)? {
                $(Numbered::InStore(<$in_store as Verb>::NUMBER) => run.run::<$in_store>((), input),)*
                $(Numbered::InTube(on, <$in_tube as Verb>::NUMBER) => run.run::<$in_tube>(on, input),)*
                $(Numbered::OfClaim(on, <$of_claim as Verb>::NUMBER) => {
                    run.run::<$of_claim>(on, input)
                })*
                $(Numbered::InStore(<$of_claims as Verb>::NUMBER) => {
                    let claims: Vec<ClaimKey> = Wire::get(input)?;
                    run.run::<$of_claims>(&claims, input)
                })*
                _ => Err(Malformed::Invalid("an unknown number of a call")),
            }
        }

        $(named!($in_store);)*
        $(named!($in_tube);)*
        $(named!($of_claim);)*
        $(named!($of_claims);)*

        #[cfg(test)]
        pub(in crate::core) fn each_verb(see: &mut impl SeeVerb) {
            $(see.in_store::<$in_store>();)*
            $(see.in_tube::<$in_tube>();)*
            $(see.of_claim::<$of_claim>();)*
            $(see.of_claims::<$of_claims>();)*
        }
    };
}

macro_rules! named {
    ($verb:ident) => {
        impl Listed for $verb {
            #[cfg(any(test, feature = "_peer"))]
            const NAME: &'static str = stringify!($verb);
        }
    };
}

/// What a test does with each verb.
#[cfg(test)]
pub(in crate::core) trait SeeVerb {
    fn in_store<V: Begin<On = InStore> + crate::core::wire::tests::Sample>(&mut self);

    fn in_tube<V: Begin<On = InTube> + crate::core::wire::tests::Sample>(&mut self);

    fn of_claim<V: Begin<On = OfClaim> + crate::core::wire::tests::Sample>(&mut self);

    fn of_claims<V: Begin<On = OfClaims> + crate::core::wire::tests::Sample>(&mut self);
}

verbs! {
    in store: AllCounts, AllLimits, ByKey, CreateTube, DeleteTasks, DescribeSession, DropClaim, DropTube, Find,
        FindTube, ListInStore, NextId, OwnerOfClaim, Owners, ScrapeTubes, SetLimit, Space, TagCounts, Tubes;
    in tube: AddParents, AddTags, Alter, Bury, CancelTask, ChangeSchedule, Children,
        ClaimOf, CountParents, CountsOf, Days, Delete, EditTasks, EndingOf, FailedOn, FindSchedule, Forget, Groups,
        HistoryOf, InfoOf, IsTimed, Kick, List, ListBodies, ListSchedules, Log, OwnerOf,
        Parents, Pause, PauseSubQueue, PauseUntil, PausedSubQueues, Peek, PeekReady,
        PutAndWait, PutMany, PutOrWait, PutTask, RemoveParents, RemoveSchedule, RemoveTags,
        Requeue, Resolve, Revoke, SetPriority, SetSchedule, Steps, Truncate, UpdateTask,
        WaitDone, WaitDrained;
    of claim: Ack, Checkpoint, DescribeHeld, EndTask, Join, Limit, LogHeld, Park,
        ReadStep, Release, Renew, ReportProgress, ReportText, Sleep, Snooze, Spawn,
        StepsHeld, Touch, WriteStep;
    of claims: EndClaims;
}
