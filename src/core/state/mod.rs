//! The state of an open store in memory. The other folders of `core` change it.

mod alignment;
mod bucket;
mod buffers;
mod calendars;
mod claims;
mod config;
#[allow(clippy::module_inception, reason = "the state as a whole")]
mod core;
mod days;
mod decided;
mod durability;
mod effects;
mod ended_sessions;
mod finish;
mod format;
mod gates;
pub(super) mod holders;
mod idle;
#[cfg(feature = "redb")]
mod in_doubt;
pub(super) mod limits;
mod moments;
mod origin;
mod outage;
mod parents;
mod policies;
mod put_ids;
mod request;
mod schedule;
mod time;
mod tube;
mod update;
mod wait_keys;
mod wait_slot;
mod waits;
pub(super) mod window;

pub(in crate::core) use alignment::Alignment;
pub(crate) use buffers::{FILE, MEMORY};
pub(in crate::core) use calendars::{Calendars, Expression};
pub(crate) use claims::About;
pub(in crate::core) use claims::KnownSteps;
pub(super) use claims::Parked;
pub(super) use claims::SessionState;
pub(crate) use claims::{ClaimKey, ClaimState, Expiry, Grant, Holder};
pub(crate) use config::Config;
pub(crate) use core::Core;
pub(super) use core::Ids;
pub(super) use days::{Counted, DayState, day_of};
pub(crate) use decided::{Decided, Wait};
pub(super) use durability::encode_durability;
pub(crate) use effects::{AfterUnlock, Effects};
pub(super) use ended_sessions::EndedSessions;
pub(crate) use finish::{FinishRequest, PutInto};
pub(in crate::core) use format::FORMAT_WITH_WRITTEN_TUBES;
pub(in crate::core) use format::{
    FIRST_FORMAT, FORMAT, FORMAT_WITH_CLAIMS, FORMAT_WITH_GATES, FORMAT_WITH_LABELS,
    FORMAT_WITH_OUTCOMES,
};
pub(crate) use gates::Gates;
pub(super) use gates::{Alarm, Alarms, TakeRate};
pub(super) use idle::IdleState;
#[cfg(feature = "redb")]
pub(super) use in_doubt::{AckedTask, InDoubt};
pub(crate) use moments::{Clocks, WallClock};
pub(super) use moments::{OLDEST_STORE, SAME_CLOCK};
pub(super) use outage::{FIRST_RETRY_DELAY, MAX_RETRY_DELAY, Outage, Retry};
pub(super) use parents::Chore;
pub(crate) use parents::{ChildFate, ParentEnd};
pub(crate) use policies::Policies;
pub(super) use put_ids::PutIds;
pub(super) use request::History;
pub(super) use request::check_distinct_tags;
pub(super) use request::check_parents;
pub(super) use request::too_many_tags;
pub(crate) use request::{PutRequest, check_key, check_size, check_tags};
pub(crate) use schedule::{Calendar, ScheduleRequest};
pub(super) use schedule::{Interval, missed_of, recurrence};
pub(super) use time::{LAST, Lead, Now, Timer};
pub(super) use tube::EmptyUpTo;
pub(crate) use tube::{Definition, TubeState};
pub(crate) use update::{TagEdit, UpdateRequest};
pub(super) use wait_keys::SessionWait;
pub(crate) use wait_keys::WatchKey;
pub(crate) use wait_slot::WaitSlot;
pub(crate) use waits::{CapacitySlot, PutSlot, TakeSlot, WatchSlot};
pub(super) use waits::{WaitingCall, WaitingPut, WaitingTake, Watch, Watches};
