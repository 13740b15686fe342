//! The options of `create` and `alter`.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use tubewell::expert::OptionValue;
use tubewell::{
    Backoff, Counting, Durability, Error, FIFO, FIFOTTL, Keep, LIMFIFOTTL, Rate, TubeOptions,
    UTUBE, UTUBETTL,
};

use super::{number, priority, whole};
use crate::{duration, tube_names};

/// The drivers of the library, which are all that the command can use.
const DRIVERS: [(&str, &str); 5] = [
    (FIFO, "First in, first out"),
    (FIFOTTL, "FIFO with priorities, delays, times to live and times to run"),
    (UTUBE, "FIFO with sub-queues: one task of each is taken at a time"),
    (UTUBETTL, "fifottl with sub-queues"),
    (LIMFIFOTTL, "fifottl with a capacity"),
];

fn driver() -> PossibleValuesParser {
    DRIVERS.map(|(name, help)| PossibleValue::new(name).help(help)).into()
}

/// The durabilities whose text needs no quotes in a shell.
fn durabilities() -> Vec<CompletionCandidate> {
    ["flush", "write", "relaxed"].map(CompletionCandidate::new).into()
}

/// When takes are counted, each with what survives.
const COUNTINGS: [(&str, &str); 3] = [
    ("lazily", "With the end of the claim: a killed process forgets its last takes"),
    ("written", "Before the task is handed out: a killed process forgets none"),
    ("flushed", "As written, and flushed: a power cut forgets none"),
];

fn counting() -> impl TypedValueParser<Value = Counting> {
    let names = COUNTINGS.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Counting>())
}

pub(super) fn backoffs() -> Vec<CompletionCandidate> {
    ["10s", "1s,factor=2,cap=1h", "1s,factor=2,cap=1h,jitter=0.5"]
        .map(CompletionCandidate::new)
        .into()
}

fn retentions() -> Vec<CompletionCandidate> {
    ["all", "count=1000", "age=1d", "count=1000,age=1d"].map(CompletionCandidate::new).into()
}

fn rates() -> Vec<CompletionCandidate> {
    ["1/1s", "10/1s", "5000/1h"].map(CompletionCandidate::new).into()
}

#[derive(Debug, Args)]
pub struct Create {
    /// The tube
    pub tube: String,
    /// The driver of the tube: the order of its tasks and their options. Default:
    /// fifottl, or that of the tube that exists
    #[arg(long, value_name = "NAME", value_parser = driver())]
    pub driver: Option<String>,
    #[command(flatten)]
    pub options: Options,
    /// Keep the tasks in memory only: for a tube that an application fills
    #[arg(long, conflicts_with = "durability")]
    pub temporary: bool,
    /// If the tube exists already, give it the options that are named here
    #[arg(long)]
    pub if_not_exists: bool,
}

#[derive(Debug, Args)]
pub struct Alter {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    #[command(flatten)]
    pub options: Options,
    /// Set this option back to its default: --default max-taken
    #[arg(long = "default", value_name = "OPTION")]
    pub defaults: Vec<String>,
}

/// Declares the flags of options. Each has the name of its option, and gives it its value.
macro_rules! flags {
    (
        $(#[$of_type:meta])*
        pub struct $type:ident { $($(#[$flag:meta])* pub $name:ident: Option<$value:ty>,)* }
    ) => {
        $(#[$of_type])*
        pub struct $type {
            $($(#[$flag])* pub $name: Option<$value>,)*
        }

        impl $type {
            /// The given options, changed by these.
            pub fn over(&self, mut options: TubeOptions) -> TubeOptions {
                $(if let Some(value) = self.$name {
                    options = options.$name(value);
                })*
                options
            }
        }
    };
}

flags! {
    /// The options of a tube that can be changed later.
    #[derive(Debug, Args)]
    pub struct Options {
        /// The ttl (time to live) of tasks that are put without one. Default: never
        #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
        pub ttl: Option<Duration>,
        /// The ttr (time to run, visibility timeout) of tasks that are put without one. Default: the ttl
        #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
        pub ttr: Option<Duration>,
        /// The priority of tasks that are put without one; 0 is the most urgent. Default: 100
        #[arg(long, value_name = "NUMBER", value_parser = priority, allow_negative_numbers = true)]
        pub priority: Option<u32>,
        /// The largest number of tasks in the tube (limfifottl). Default: unlimited
        #[arg(long, value_name = "TASKS", value_parser = number, allow_negative_numbers = true)]
        pub capacity: Option<u64>,
        /// The longest time that a worker may hold a task, however often it renews. Default: no limit
        #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
        pub max_runtime: Option<Duration>,
        /// How often a task is attempted; then it is buried. Default: no limit
        #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
        pub max_attempts: Option<u32>,
        /// When the take of a task with --max-attempts is counted. Default: written
        #[arg(long, value_name = "WHEN", value_parser = counting())]
        pub count_takes: Option<Counting>,
        /// How long a task is delayed after a failed or lost attempt: 10s, or 1s,factor=2,cap=1h, see
        /// below. Default: none
        #[arg(long, value_name = "BACKOFF", add = ArgValueCandidates::new(backoffs))]
        pub backoff: Option<Backoff>,
        /// How long a claim whose ttr has elapsed may still be acked. Default: 0
        #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
        pub reclaim_delay: Option<Duration>,
        /// Which done tasks are kept, with their results: all, count=1000, age=1d, or both. Default:
        /// none
        #[arg(long, value_name = "KEEP", add = ArgValueCandidates::new(retentions))]
        pub keep_done: Option<Keep>,
        /// Which buried tasks are kept. Default: all
        #[arg(long, value_name = "KEEP", add = ArgValueCandidates::new(retentions))]
        pub keep_buried: Option<Keep>,
        /// How many of its tasks may be taken at a time. Default: no limit
        #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX))]
        pub max_taken: Option<u64>,
        /// How many of its tasks may be taken in a period: 10/1s, see below. Default: no limit
        #[arg(long, value_name = "RATE", add = ArgValueCandidates::new(rates))]
        pub rate: Option<Rate>,
        /// The largest number of entries in the history of a task, with the first one; 0 to 1000.
        /// Default: 0
        #[arg(long, value_name = "N", value_parser = whole::<u32>(0, 1000))]
        pub history: Option<u32>,
        /// How many tasks of each sub-queue may be taken at a time (utube, utubettl). Default: 1
        #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
        pub sub_queue_limit: Option<u32>,
        /// How many tasks of each sub-queue may be taken in a period: 1/1s, see below.
        /// Default: no limit
        #[arg(long, value_name = "RATE", add = ArgValueCandidates::new(rates))]
        pub sub_queue_rate: Option<Rate>,
        /// How long no task of a sub-queue may be taken after each end of a task of it (utube, utubettl).
        /// Default: 0
        #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
        pub sub_queue_cooldown: Option<Duration>,
        /// Whether its sub-queues share the limits of `set-limit` with those of other such tubes, by
        /// name. Default: false
        #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
        #[arg(default_missing_value = "true")]
        pub shared_limits: Option<bool>,
        /// For how many days its numbers are kept; `tubewell days` shows them. Default: 0, none
        #[arg(long, value_name = "DAYS", value_parser = whole::<u32>(0, 1000))]
        pub metrics: Option<u32>,
        /// What a call that changes a task waits for: flush, write(50ms) or relaxed(50ms), see below;
        /// parentheses need quotes in a shell. Default: as the store, which is flush unless an
        /// application sets another
        #[arg(long, value_name = "DURABILITY", add = ArgValueCandidates::new(durabilities))]
        pub durability: Option<Durability>,
    }
}

impl Alter {
    /// The options that are named.
    pub fn options(&self) -> tubewell::Result<TubeOptions> {
        let named = self.options.over(TubeOptions::new());
        let given: Vec<&str> = named.given().map(|(name, _)| name).collect();
        self.defaults.iter().map(|name| name.replace('-', "_")).try_fold(named, |options, name| {
            if given.contains(&&*name) {
                let what = format!("{name} has a value and --default: leave one of them out");
                return Err(Error::Invalid { what });
            }
            options.set(&name, OptionValue::Without("the default"))
        })
    }
}

impl Create {
    /// The options of the tube.
    pub fn options(&self) -> TubeOptions {
        let mut options = TubeOptions::new();
        if self.temporary {
            options = options.temporary(true);
        }
        if let Some(driver) = &self.driver {
            options = options.driver(driver);
        }
        self.options.over(options)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tubewell::Store;

    use crate::args::Cli;

    #[test]
    fn every_option_of_a_tube_has_a_flag() {
        let store = Store::in_memory().unwrap();
        let tube =
            store.create_tube("jobs", super::TubeOptions::new().driver(super::FIFO)).unwrap();
        let command = Cli::command();
        let flags = |of: &str| -> Vec<String> {
            let arguments = command.find_subcommand(of).unwrap().get_arguments();
            arguments
                .filter_map(|flag| flag.get_long().map(|name| name.replace('-', "_")))
                .collect()
        };
        let (create, alter) = (flags("create"), flags("alter"));
        for (name, _) in tube.info().unwrap().option_values() {
            assert!(create.contains(&name.to_owned()), "create has no flag for {name}");
            assert!(name == "temporary" || alter.contains(&name.to_owned()), "alter: {name}");
        }
    }
}
