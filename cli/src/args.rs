//! The command line: what can be asked for, and how it is explained.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tubewell::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};

use crate::duration;
use crate::examples as ex;

/// Over the options that every command has.
const EVERY: &str = "Options of every command";

/// Persistent task queues in one file, from the shell.
#[derive(Debug, Parser)]
#[command(name = "tubewell", version, after_help = ex::TOP, propagate_version = true)]
pub struct Cli {
    /// The store: a file, owned by one process at a time
    #[arg(short, long, global = true, env = "TUBEWELL_STORE", value_name = "FILE")]
    // An empty variable names none, which is no matter to commands that need none.
    #[arg(help_heading = EVERY, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub store: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long, global = true, help_heading = EVERY)]
    pub json: bool,
    /// Wait so long for a store that another process has
    #[arg(long, global = true, value_parser = duration::parse, value_name = "DURATION")]
    #[arg(default_value = "0", hide_default_value = true, allow_hyphen_values = true)]
    #[arg(help_heading = EVERY)]
    pub patience: Duration,
    /// Believe the wall clock, however far beyond the store's last commit it is
    #[arg(long, global = true, help_heading = EVERY)]
    pub trust_wall_clock: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a tube, and the store if it is not there yet
    #[command(after_help = ex::CREATE)]
    Create(Create),
    /// Remove a tube with all its tasks
    #[command(after_help = ex::DROP)]
    Drop(OneTube),
    /// Show the tubes and their options
    #[command(after_help = ex::TUBES)]
    Tubes,
    /// Put one task
    #[command(after_help = ex::PUT)]
    Put(Put),
    /// Put many tasks: one for each line of standard input, or all that `export` wrote
    #[command(after_help = ex::IMPORT)]
    Import(Import),
    /// Print the next task and finish it
    #[command(after_help = ex::TAKE)]
    Take(Take),
    /// Run a command for each task
    #[command(after_help = ex::WORK)]
    Work(Work),
    /// Show a task, and change nothing
    #[command(after_help = ex::PEEK)]
    Peek(Peek),
    /// Show the tasks of a tube, a page at a time
    #[command(after_help = ex::LIST)]
    List(List),
    /// Set tasks aside until they are kicked
    #[command(after_help = ex::BURY)]
    Bury(Tasks),
    /// Make buried tasks ready again, the most urgent and oldest first
    #[command(after_help = ex::KICK)]
    Kick(Kick),
    /// Delete tasks
    #[command(after_help = ex::DELETE)]
    Delete(Tasks),
    /// Make every taken task ready
    #[command(after_help = ex::RELEASE_ALL)]
    ReleaseAll(OneTube),
    /// Remove all tasks of a tube, and keep the tube
    #[command(after_help = ex::TRUNCATE)]
    Truncate(OneTube),
    /// Count the tasks of each tube by state
    #[command(after_help = ex::STATS)]
    Stats(Stats),
    /// Check every record of the store
    #[command(after_help = ex::VERIFY)]
    Verify,
    /// Give the free space in the file back to the system
    #[command(after_help = ex::COMPACT)]
    Compact,
    /// Copy the store into a new file
    #[command(after_help = ex::BACKUP)]
    Backup(Target),
    /// Write all that can be read, of a damaged store too, as lines of JSON
    #[command(after_help = ex::EXPORT)]
    Export(Export),
    /// Print the completions for a shell
    #[command(after_help = ex::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page
    #[command(after_help = ex::MAN)]
    Man(Man),
}

#[derive(Debug, Args)]
pub struct OneTube {
    /// The tube
    pub tube: String,
}

/// The drivers that a tube of the command can have: those that the library brings along.
const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, UTUBE, UTUBETTL, LIMFIFOTTL];

#[derive(Debug, Args)]
pub struct Create {
    /// The tube
    pub tube: String,
    /// What runs it: see below
    #[arg(long, default_value = FIFOTTL, value_name = "NAME", value_parser = DRIVERS)]
    #[arg(hide_possible_values = true)]
    pub driver: String,
    /// How long its tasks live, unless they say otherwise
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttl: Option<Duration>,
    /// How long a take may hold its tasks, unless they say otherwise
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttr: Option<Duration>,
    /// The priority of its tasks, unless they say otherwise; 0 is most urgent
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub pri: Option<u32>,
    /// How many tasks it takes (limfifottl)
    #[arg(long, value_name = "TASKS")]
    pub capacity: Option<u64>,
    /// Keep its tasks in memory only: for a tube that an application fills
    #[arg(long)]
    pub temporary: bool,
    /// A tube of this name, driver and options that is there will do
    #[arg(long)]
    pub if_not_exists: bool,
}

#[derive(Debug, Args)]
pub struct PutOptions {
    /// Its priority; 0 is most urgent
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub pri: Option<u32>,
    /// How long it lives
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttl: Option<Duration>,
    /// How long a take may hold it
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttr: Option<Duration>,
    /// How long until it is ready
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// Its sub-queue, of which one task is taken at a time
    #[arg(long, value_name = "NAME")]
    pub sub_queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct Put {
    /// The tube
    pub tube: String,
    /// The body; - or nothing for standard input
    pub body: Option<OsString>,
    #[command(flatten)]
    pub options: PutOptions,
    /// In a full tube, wait so long for room
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line is a body
    Lines,
    #[value(help = "A line is a JSON object: data or data_base64, and the options it likes")]
    Json,
}

#[derive(Debug, Args)]
pub struct Target {
    /// The file to be made; it must not be there yet
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Export {
    /// The file to be made, or - for standard output
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The tube
    #[arg(required_unless_present = "all")]
    pub tube: Option<String>,
    /// What `export` wrote: make its tubes, and the store if it is not there, and put the tasks
    #[arg(long, conflicts_with_all = [
        "tube", "format", "pri", "ttl", "ttr", "delay", "sub_queue",
    ])]
    pub all: bool,
    /// What a line is
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    pub format: Format,
    #[command(flatten)]
    pub options: PutOptions,
}

#[derive(Debug, Args)]
pub struct Take {
    /// The tube
    pub tube: String,
    /// Wait so long for a task that becomes ready
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// Ready again, or delayed with --delay
    Release,
    /// Set aside until it is kicked
    Bury,
}

#[derive(Debug, Args)]
pub struct Work {
    /// The tubes, the most important first
    #[arg(required = true, value_name = "TUBE")]
    pub tubes: Vec<String>,
    /// How many commands run at a time
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// What becomes of a task whose command fails
    #[arg(long, value_enum, default_value_t = OnFailure::Release)]
    pub on_failure: OnFailure,
    /// How long a released task waits before it is ready again
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// Bury a task that has failed when it was taken so many times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_takes: Option<u32>,
    /// End when no task is ready; each is tried once, or with --max-takes so often
    #[arg(long)]
    pub once: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Peek {
    /// The tube
    pub tube: String,
    /// The task; the next one to be taken if there is no number
    #[arg(value_parser = number, allow_negative_numbers = true)]
    pub id: Option<u64>,
    /// Print its body alone, as it is
    #[arg(long, conflicts_with = "json")]
    pub body: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    Ready,
    Taken,
    Delayed,
    Buried,
}

#[derive(Debug, Args)]
pub struct List {
    /// The tube
    pub tube: String,
    /// Only tasks in these states; several with commas between them
    #[arg(long, value_enum, value_delimiter = ',')]
    pub state: Vec<State>,
    /// How many
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = number)]
    pub limit: u64,
    /// Leave out so many at the beginning
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = number)]
    pub skip: u64,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Tasks {
    /// The tube
    pub tube: String,
    /// The tasks
    #[arg(required = true, value_name = "ID", value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub ids: Vec<u64>,
}

#[derive(Debug, Args)]
pub struct Kick {
    /// The tube
    pub tube: String,
    /// How many
    #[arg(default_value_t = 1, value_parser = number, allow_negative_numbers = true)]
    pub count: u64,
    /// All of them
    #[arg(long, conflicts_with = "count")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Stats {
    /// The tube; all if none is named
    pub tube: Option<String>,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The command that the page is about; the page of tubewell itself if none is named
    pub command: Option<String>,
    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

/// A number of tasks, or the one of a task.
fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a whole number, such as 17".into())
}
