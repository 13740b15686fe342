//! The command line: commands, options and their help.

mod claims;
mod create;
mod days;
mod edits;
mod events;
mod help_groups;
mod history;
mod kept;
mod keys;
mod labels;
mod limits;
mod movement;
mod outcomes;
mod parents;
mod put;
mod schedules;
mod serve;
mod top;
mod work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{OsStringValueParser, TypedValueParser, ValueHint};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};

use crate::help_text as help;
use crate::{duration, moment, tube_names};
pub use claims::{Ack, Bury, ClaimTask, Fail, Release, Renew, Revoke, Snooze};
pub use create::{Alter, Create};
pub use days::{Days, Plot};
pub use edits::{Delete, Update};
pub use events::Events;
pub use history::Log;
pub use keys::{Find, Requeue};
pub use labels::{EditTags, Tagged, Tags};
pub use limits::{Most, SetLimit};
pub use movement::{Advance, Move};
pub use outcomes::{Outcome, Resolve, ResultSource};
pub use parents::{AddParents, RemoveParents};
pub use put::{Format, Import, OnKey, OnParent, Put, PutOptions};
pub use schedules::{RescheduleArgs, Schedule, Schedules, Unschedule};
pub use serve::Serve;
#[cfg(feature = "http")]
pub use serve::ServeHttp;
pub use top::Top;
pub use work::{OnFailure, Order, Work};

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Persistent task queues in one file, from the shell.
#[derive(Debug, Parser)]
#[command(name = "tubewell", version, after_help = help::TOP, propagate_version = true)]
pub struct Cli {
    /// The file of the store. One process at a time can open it; if that serves it, at the socket
    /// beside the file, the command goes through that process
    #[arg(short, long, global = true, env = "TUBEWELL_STORE", value_name = "FILE")]
    // An empty variable names no store. Some commands need none, so the parser accepts it.
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    #[arg(value_hint = ValueHint::FilePath, help_heading = GLOBAL)]
    pub store: Option<PathBuf>,
    /// The address of the owner of a store, in place of its file: unix:PATH or tcp://HOST:PORT
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    pub connect: Option<String>,
    /// Open the file, and do not look for an owner at the socket beside it
    #[arg(long, global = true, conflicts_with = "connect", help_heading = GLOBAL)]
    pub no_socket: bool,
    /// The file with the secret of a TCP address, which both sides know
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub secret_file: Option<PathBuf>,
    /// The id of a user whose process may be the owner at the unix socket of --connect, besides your own and root
    #[arg(long, global = true, value_name = "ID", help_heading = GLOBAL)]
    pub trust_user: Option<u32>,
    /// Print one JSON object per line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// How long to wait for the store's lock if another process holds it; at least a second
    #[arg(long, global = true, value_parser = duration::parse, value_name = "DURATION")]
    #[arg(default_value = "0", hide_default_value = true, allow_hyphen_values = true)]
    #[arg(help_heading = GLOBAL)]
    pub patience: Duration,
    /// Trust the wall clock, even if it is more than a year ahead of the store's last commit
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub trust_wall_clock: bool,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses a command line, the name of the program first.
    pub fn parse_line(line: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut command = help_groups::grouped(Cli::command());
        let matches = command.try_get_matches_from_mut(line)?;
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a tube, and the store if it does not exist
    #[command(after_help = help::CREATE)]
    Create(Create),
    /// Change options of a tube; options that are left out stay
    #[command(after_help = help::ALTER, mut_args = kept::without_default)]
    Alter(Alter),
    /// Set or remove a limit that tubes with --shared-limits have in common
    #[command(after_help = help::SET_LIMIT)]
    SetLimit(SetLimit),
    /// List the limits that tubes share, and the paused sub-queues
    #[command(after_help = help::LIMITS)]
    Limits,
    /// Stop the takes of a tube or a sub-queue: no task of it is handed out until `unpause`
    #[command(after_help = help::PAUSE)]
    Pause(Pause),
    /// Continue the takes of a paused tube or sub-queue
    #[command(after_help = help::UNPAUSE)]
    Unpause(PauseTarget),
    /// Delete a tube and all its tasks
    #[command(after_help = help::DROP)]
    Drop(OneTube),
    /// List the tubes and their options
    #[command(after_help = help::TUBES)]
    Tubes,
    /// Put one task
    #[command(after_help = help::PUT)]
    Put(Put),
    /// Put the task that has a key anew
    #[command(after_help = help::REQUEUE, mut_args = kept::without_default_but_times)]
    Requeue(Requeue),
    /// Put a task repeatedly: at an interval, or by a cron expression
    #[command(after_help = help::SCHEDULE)]
    Schedule(Schedule),
    /// Change a schedule; options that are not given keep their values
    #[command(after_help = help::RESCHEDULE, mut_args = kept::without_default)]
    Reschedule(RescheduleArgs),
    /// Remove a schedule; the tasks that it has put stay
    #[command(after_help = help::UNSCHEDULE)]
    Unschedule(Unschedule),
    /// List the schedules
    #[command(after_help = help::SCHEDULES)]
    Schedules(Schedules),
    /// Put many tasks: one per line of standard input, or all that `export` wrote
    #[command(after_help = help::IMPORT, override_usage = help::IMPORT_USAGE)]
    Import(Import),
    /// Print the next task and remove it
    #[command(after_help = help::POP)]
    Pop(Pop),
    /// Refused: `pop` removes the next task, `claim` takes it, `peek` shows it
    #[command(hide = true, disable_help_flag = true)]
    Take(Take),
    /// Take a task for a time that outlives the command: print a token, then the body
    #[command(after_help = help::CLAIM)]
    Claim(ClaimTask),
    /// Finish a claimed task, with a result if there is one
    #[command(after_help = help::ACK)]
    Ack(Ack),
    /// Give a claimed task back
    #[command(after_help = help::RELEASE)]
    Release(Release),
    /// Report that the attempt of a claimed task has failed: it is tried again later, or buried
    #[command(after_help = help::FAIL)]
    Fail(Fail),
    /// Give a claimed task back for a while, without counting the attempt
    #[command(after_help = help::SNOOZE)]
    Snooze(Snooze),
    /// Pass a claimed task on to another tube
    #[command(after_help = help::ADVANCE)]
    Advance(Advance),
    /// Keep a claim for longer, or for less long
    #[command(after_help = help::RENEW)]
    Renew(Renew),
    /// End claims, whoever has the token
    #[command(after_help = help::REVOKE, override_usage = help::REVOKE_USAGE)]
    Revoke(Revoke),
    /// Run a command for each task
    #[command(after_help = help::WORK, override_usage = help::WORK_USAGE)]
    Work(Work),
    /// Show one task and change nothing
    #[command(after_help = help::PEEK)]
    Peek(Peek),
    /// Show the task with a key or an id, in any tube, and change nothing
    #[command(after_help = help::FIND)]
    Find(Find),
    /// List the tasks of a tube and change nothing
    #[command(after_help = help::LIST)]
    List(List),
    /// List the tasks with a tag, in all tubes, and change nothing
    #[command(after_help = help::TAGGED)]
    Tagged(Tagged),
    /// List the tags that several tasks have, those used most first
    #[command(after_help = help::TAGS)]
    Tags(Tags),
    /// Add tags to a task
    #[command(after_help = help::ADD_TAGS)]
    AddTags(EditTags),
    /// Remove tags of a task
    #[command(after_help = help::REMOVE_TAGS)]
    RemoveTags(EditTags),
    /// Bury tasks: set them aside until they are kicked
    #[command(after_help = help::BURY, override_usage = help::BURY_USAGE)]
    Bury(Bury),
    /// Make buried tasks ready again, or delayed ones ready now
    #[command(after_help = help::KICK, override_usage = help::KICK_USAGE)]
    Kick(Kick),
    /// Change the priority, the delay, the moment, the body or the tags of tasks
    #[command(after_help = help::UPDATE)]
    Update(Update),
    /// Let a task wait until other tasks are done
    #[command(after_help = help::ADD_PARENTS)]
    AddParents(AddParents),
    /// Let a task no longer wait for other tasks
    #[command(after_help = help::REMOVE_PARENTS, override_usage = help::REMOVE_PARENTS_USAGE)]
    RemoveParents(RemoveParents),
    /// List the tasks that a task waits for
    #[command(after_help = help::PARENTS)]
    Parents(OneTask),
    /// List the tasks that wait for a task
    #[command(after_help = help::CHILDREN)]
    Children(OneTask),
    /// Delete tasks that have not begun: that no worker has, and that are not done
    #[command(after_help = help::CANCEL)]
    Cancel(Tasks),
    /// Move tasks to another tube
    #[command(after_help = help::MOVE, override_usage = help::MOVE_USAGE)]
    Move(Move),
    /// Delete tasks
    #[command(after_help = help::DELETE, override_usage = help::DELETE_USAGE)]
    Delete(Delete),
    /// Show how a task has ended, and its result
    #[command(after_help = help::OUTCOME)]
    Outcome(Outcome),
    /// Count the buried tasks of each failure group
    #[command(after_help = help::GROUPS)]
    Groups(Counted),
    /// Show what has happened to a task
    #[command(after_help = help::HISTORY)]
    History(OneTask),
    /// Add an entry to the history of a task
    #[command(after_help = help::LOG)]
    Log(Log),
    /// Finish a task that no worker has, as `ack` would
    #[command(after_help = help::RESOLVE)]
    Resolve(Resolve),
    /// Remove tasks that are done and kept
    #[command(after_help = help::FORGET)]
    Forget(Tasks),
    /// Make all taken tasks ready again
    #[command(after_help = help::RELEASE_ALL)]
    ReleaseAll(OneTube),
    /// Delete all tasks of a tube and keep the tube
    #[command(after_help = help::TRUNCATE)]
    Truncate(OneTube),
    /// Count the tasks of each tube by state
    #[command(after_help = help::STATS)]
    Stats(Counted),
    /// Print what happens to tasks, as it happens
    #[command(after_help = help::EVENTS)]
    Events(Events),
    /// Show the tubes and what goes on in them, live, and act on tasks by keys
    #[command(after_help = help::TOP_COMMAND)]
    Top(Top),
    /// Show how many tasks a tube had on each day, and how long they took
    #[command(after_help = help::DAYS)]
    Days(Days),
    /// Open the store and serve it to other processes, until a signal
    #[command(after_help = help::SERVE)]
    Serve(Serve),
    /// Check every record of the store
    #[command(after_help = help::VERIFY)]
    Verify,
    /// Return the free space in the file to the file system
    #[command(after_help = help::COMPACT)]
    Compact,
    /// Copy the store to a new file
    #[command(after_help = help::BACKUP)]
    Backup(Backup),
    /// Write all tubes and tasks that can be read as lines of JSON; also of a damaged store
    #[command(after_help = help::EXPORT)]
    Export(Export),
    /// Print the completion script of a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page
    #[command(after_help = help::MAN)]
    Man(Man),
}

#[derive(Debug, Args)]
pub struct OneTube {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
}

/// A tube, or all of them.
#[derive(Debug, Args)]
pub struct TubeOrAll {
    /// The tube
    #[arg(required_unless_present = "all_tubes", add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: Option<String>,
    /// In all tubes of the store
    #[arg(long, conflicts_with = "tube")]
    pub all_tubes: bool,
}

impl TubeOrAll {
    /// As the command line has it.
    pub fn word(&self) -> &str {
        self.tube.as_deref().unwrap_or("--all-tubes")
    }
}

#[derive(Debug, Args)]
pub struct OneTask {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The task
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: u64,
}

#[derive(Debug, Args)]
pub struct Pause {
    /// How long. Default: never ends
    #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
    #[arg(allow_hyphen_values = true)]
    pub time: Option<Duration>,
    /// Until this moment, such as 2026-12-24T09:00:00Z
    #[arg(long, value_parser = moment::parse, value_name = "MOMENT", conflicts_with = "time")]
    pub until: Option<SystemTime>,
    #[command(flatten)]
    pub target: PauseTarget,
}

/// The tube or the sub-queue to pause, or to continue.
#[derive(Debug, Args)]
pub struct PauseTarget {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// Only this sub-queue of the tube
    #[arg(long, value_name = "NAME")]
    pub sub_queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct Backup {
    /// The file to create; it must not exist
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Export {
    /// The file to create, which must not exist; - is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Pop {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// How long to wait for a task that is ready. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
}

/// What followed `take`, which is no command.
#[derive(Debug, Args)]
pub struct Take {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Peek {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The task. Default: the next one that `pop` would print
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: Option<u64>,
    /// Print the body only
    #[arg(long, conflicts_with = "json")]
    pub body: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Can be taken
    Ready,
    /// Held by a worker
    Taken,
    /// Not ready before its delay has elapsed
    Delayed,
    /// Waits for its parents, other tasks
    Blocked,
    /// Set aside until it is kicked
    Buried,
    /// Finished, and kept by a tube with keep-done
    Done,
    /// A schedule
    Recurring,
}

impl From<State> for tubewell::TaskState {
    fn from(state: State) -> tubewell::TaskState {
        match state {
            State::Ready => tubewell::TaskState::Ready,
            State::Taken => tubewell::TaskState::Taken,
            State::Delayed => tubewell::TaskState::Delayed,
            State::Blocked => tubewell::TaskState::Blocked,
            State::Buried => tubewell::TaskState::Buried,
            State::Done => tubewell::TaskState::Done,
            State::Recurring => tubewell::TaskState::Recurring,
        }
    }
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub place: TubeOrAll,
    /// Only tasks in these states, separated by commas. Default: all but done
    /// and recurring
    #[arg(long, value_enum, value_delimiter = ',')]
    pub state: Vec<State>,
    /// Only the buried tasks of this failure group, those that were buried last first
    #[arg(long, value_name = "NAME", conflicts_with = "state")]
    pub group: Option<String>,
    /// Only tasks with this tag
    #[arg(long, value_name = "TAG", conflicts_with = "group")]
    pub tag: Option<String>,
    /// Only tasks that a worker with this name has claimed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["state", "group"])]
    pub owner: Option<String>,
    /// Only tasks of this sub-queue
    #[arg(long, value_name = "NAME", conflicts_with = "group")]
    pub sub_queue: Option<String>,
    /// List the last task of each state first
    #[arg(long, conflicts_with = "group")]
    pub newest_first: bool,
    /// Only delayed tasks, in the order in which they become ready
    #[arg(long, conflicts_with_all = ["all_tubes", "state", "group", "owner", "newest_first"])]
    pub soonest_first: bool,
    #[command(flatten)]
    pub shown: Shown,
}

/// Which tasks of a listing are printed, and how much of each.
#[derive(Debug, Args)]
pub struct Shown {
    /// Print the whole body of each task
    #[arg(long)]
    pub bodies: bool,
    /// The largest number of tasks to print
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = number)]
    limit: u64,
    /// How many tasks to leave out first
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = number)]
    pub skip: u64,
    /// Print all tasks
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Shown {
    /// The largest number of tasks to print.
    pub fn limit(&self) -> u64 {
        if self.all { u64::MAX } else { self.limit }
    }
}

#[derive(Debug, Args)]
pub struct Tasks {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The tasks
    #[arg(required = true, value_name = "ID", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub ids: Vec<u64>,
}

#[derive(Debug, Args)]
pub struct Kick {
    #[command(flatten)]
    pub place: TubeOrAll,
    /// The buried tasks to kick; a delayed one is made ready
    #[arg(value_name = "ID", value_parser = number, allow_negative_numbers = true)]
    pub ids: Vec<u64>,
    /// Kick up to this many buried tasks, by priority and then by age
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    #[arg(conflicts_with = "ids")]
    pub count: Option<u64>,
    /// Kick all buried tasks
    #[arg(long, conflicts_with_all = ["ids", "count"])]
    pub all: bool,
    /// Kick the buried tasks of this failure group, in the order of their burials
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ids", "all"])]
    pub group: Option<String>,
    /// Kick the buried tasks with this tag
    #[arg(long, value_name = "TAG", conflicts_with_all = ["ids", "all"])]
    pub tag: Option<String>,
}

/// The tube of a count.
#[derive(Debug, Args)]
pub struct Counted {
    /// The tube. Default: all tubes
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: Option<String>,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The command of the page. Default: tubewell itself
    #[arg(add = ArgValueCandidates::new(command_names))]
    pub command: Option<String>,
    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

fn command_names() -> Vec<CompletionCandidate> {
    let shown = |command: &&clap::Command| !command.is_hide_set();
    let name = |command: &clap::Command| CompletionCandidate::new(command.get_name());
    Cli::command().get_subcommands().filter(shown).map(name).collect()
}

/// A count of tasks, or the id of one.
fn number(text: &str) -> Result<u64, String> {
    whole(0, u64::MAX)(text)
}

/// A priority.
fn priority(text: &str) -> Result<u32, String> {
    let wrong = || format!("write a whole number from 0, the most urgent, to {}", u32::MAX);
    text.parse().map_err(|_| wrong())
}

/// Parses whole numbers in a range. The refusal says which they are.
fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (least, most) {
            (0, u64::MAX) => "write a whole number, such as 17".into(),
            (_, u64::MAX | 0xffff_ffff) => {
                format!("write a whole number from {least} on, such as {}", least.max(17))
            }
            _ => format!("write a whole number from {least} to {most}"),
        })
    }
}

impl Command {
    /// Whether it acts before what has fallen due meanwhile is done: it stops or changes what would be
    /// done. The rest is left to the next command.
    pub fn acts_first(&self) -> bool {
        match self {
            Command::Unschedule(_)
            | Command::Reschedule(_)
            | Command::Schedule(_)
            | Command::Pause(_)
            | Command::Alter(_)
            | Command::SetLimit(_)
            | Command::Drop(_)
            | Command::Truncate(_)
            | Command::Cancel(_) => true,
            Command::Delete(args) => args.has_ids() && args.only_if.is_empty(),
            _ => false,
        }
    }
}
