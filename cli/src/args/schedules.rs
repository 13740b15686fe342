//! The options of schedules.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use tubewell::{Missed, Put, Schedule as Terms, ScheduleInfo};
use tubewell_json::put::PutOptions;

use super::{priority, whole};
use crate::{duration, moment, tube_names};

fn missed() -> Vec<CompletionCandidate> {
    ["1", "all", "skip"].map(CompletionCandidate::new).into()
}

fn expressions() -> Vec<CompletionCandidate> {
    ["'0 9 * * 1-5'", "'*/15 * * * *'"].map(CompletionCandidate::new).into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Overlap {
    /// Put the run all the same
    Allow,
    /// Leave the run out
    Skip,
}

impl From<Overlap> for tubewell::Overlap {
    fn from(overlap: Overlap) -> tubewell::Overlap {
        match overlap {
            Overlap::Allow => tubewell::Overlap::Allow,
            Overlap::Skip => tubewell::Overlap::Skip,
        }
    }
}

/// When the runs are.
#[derive(Debug, Args)]
pub struct Rule {
    /// The time from one run to the next one
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// The moments of the runs: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "every")]
    #[arg(add = ArgValueCandidates::new(expressions))]
    pub cron: Option<String>,
    /// The time zone of --cron, such as Europe/Berlin; UTC if it is left out
    #[arg(long, value_name = "ZONE", requires = "cron", conflicts_with = "every")]
    pub zone: Option<String>,
    /// The moment of the next run, such as 2026-12-24T09:00:00Z. Default: now, or the next moment of
    /// --cron
    #[arg(long, value_parser = moment::parse, value_name = "MOMENT", allow_hyphen_values = true)]
    pub starting: Option<SystemTime>,
}

impl Rule {
    /// The schedule with this key, and what these options name of it.
    pub fn of(&self, key: &str) -> Terms {
        let named = match (self.every, &self.cron) {
            (Some(interval), _) => Terms::every(key, interval),
            (None, Some(cron)) => Terms::cron(key, cron, self.zone.as_deref().unwrap_or("UTC")),
            (None, None) => Terms::of(key),
        };
        self.starting.into_iter().fold(named, Terms::starting)
    }
}

/// The rules for runs that are late.
#[derive(Debug, Args)]
pub struct Lateness {
    /// Which missed runs are put later: this many of the newest ones, all, or skip. Default: 1
    #[arg(long, value_name = "RUNS", add = ArgValueCandidates::new(missed))]
    pub missed: Option<Missed>,
    /// How to handle a run that is due before the last one is over. Default: allow
    #[arg(long, value_enum, value_name = "RULE")]
    pub overlap: Option<Overlap>,
}

impl Lateness {
    /// The schedule with these options.
    fn apply(&self, schedule: Terms) -> Terms {
        let named = self.missed.into_iter().fold(schedule, Terms::missed);
        self.overlap.map(Into::into).into_iter().fold(named, Terms::overlap)
    }
}

#[derive(Debug, Args)]
pub struct Schedule {
    /// The tube of the runs
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The key of the schedule
    pub key: String,
    /// The body of the runs. Default, and for -: standard input
    pub body: Option<OsString>,
    #[command(flatten)]
    pub rule: Rule,
    /// The number of runs after which the schedule ends. Default: never
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX))]
    pub times: Option<u64>,
    #[command(flatten)]
    pub lateness: Lateness,
    /// How late a run may be; a later one is left out. Default: no limit
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub within: Option<Duration>,
    /// The priority of the runs; 0 is the most urgent. Default: the tube's
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_negative_numbers = true)]
    pub priority: Option<u32>,
    /// The ttl of the runs. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttl: Option<Duration>,
    /// The ttr of the runs. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttr: Option<Duration>,
    /// How long until a run is ready. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// The sub-queue of the runs. Default: the one without a name
    #[arg(long, value_name = "NAME")]
    pub sub_queue: Option<String>,
    /// How often each run is attempted; then it is buried. Default: the tube's
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub max_attempts: Option<u32>,
    /// How long a worker may hold a run at most, however often it renews. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub max_runtime: Option<Duration>,
    /// A tag of the runs. May be given several times. Default: none
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
}

impl Schedule {
    /// The schedule without its task.
    pub fn terms(&self) -> Terms {
        let mut named = self.lateness.apply(self.rule.of(&self.key));
        named = self.times.into_iter().fold(named, Terms::times);
        self.within.into_iter().fold(named, Terms::within)
    }
}

#[derive(Debug, Args)]
pub struct RescheduleArgs {
    /// The tube in which the schedule is afterwards
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The key of the schedule
    pub key: String,
    #[command(flatten)]
    pub rule: Rule,
    /// The number of runs after which the schedule ends, or none for never
    #[arg(long, value_name = "N", value_parser = times, allow_negative_numbers = true)]
    pub times: Option<Times>,
    #[command(flatten)]
    pub lateness: Lateness,
    /// How late a run may be, or none
    #[arg(long, value_parser = within, value_name = "DURATION", allow_hyphen_values = true)]
    pub within: Option<Within>,
    /// The body of further runs
    #[arg(long, value_name = "BODY")]
    pub body: Option<OsString>,
    /// The priority of further runs; 0 is the most urgent
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_negative_numbers = true)]
    pub priority: Option<u32>,
    /// How often each further run is attempted; then it is buried
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub max_attempts: Option<u32>,
    /// A tag of further runs, in place of the tags before. May be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Further runs have no tags
    #[arg(long, conflicts_with = "tags")]
    pub no_tags: bool,
}

impl RescheduleArgs {
    /// The schedule, and what the options name of when its runs are, and of late ones.
    pub fn terms(&self) -> Terms {
        let mut named = self.lateness.apply(self.rule.of(&self.key));
        named = self.times.iter().fold(named, |named, times| named.times(times.0));
        self.within.iter().fold(named, |named, within| named.within(within.0))
    }

    pub fn changes_task(&self) -> bool {
        self.changes_tags()
            || self.body.is_some()
            || self.priority.is_some()
            || self.max_attempts.is_some()
    }

    fn changes_tags(&self) -> bool {
        !self.tags.is_empty() || self.no_tags
    }

    /// The task of further runs: as it was, with the changes.
    pub fn task(&self, was: &ScheduleInfo, body: Vec<u8>) -> Put {
        let mut options = PutOptions::of_runs(was);
        options.priority = self.priority.or(options.priority);
        options.max_attempts = self.max_attempts.or(options.max_attempts);
        if self.changes_tags() {
            options.tags.clone_from(&self.tags);
        }
        options.apply(Put::new(body.into()))
    }
}

#[derive(Debug, Args)]
pub struct Unschedule {
    /// The key of the schedule, which may be in any tube
    pub key: String,
}

#[derive(Debug, Args)]
pub struct Schedules {
    /// The tube. Default: all tubes
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: Option<String>,
}

/// A number of runs, or no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(pub Option<u64>);

/// A time, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within(pub Option<Duration>);

fn times(text: &str) -> Result<Times, String> {
    if text == "none" {
        return Ok(Times(None));
    }
    let wrong = "write a whole number above 0, such as 10, or none";
    let times = text.parse().ok().filter(|times| *times > 0);
    times.map(|times| Times(Some(times))).ok_or_else(|| wrong.to_owned())
}

fn within(text: &str) -> Result<Within, String> {
    if text == "none" { Ok(Within(None)) } else { Ok(Within(Some(duration::parse(text)?))) }
}
