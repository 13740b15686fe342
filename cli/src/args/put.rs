//! The options of `put` and `import`.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use serde::{Deserialize, Serialize};

use super::{number, priority, whole};
use crate::{duration, moment, tube_names};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnKey {
    /// Refuse the task
    Reject,
    /// Keep the task that has the key, and put nothing
    Keep,
    /// Put the task that has the key anew, with its id
    Replace,
}

impl From<OnKey> for tubewell::OnKey {
    fn from(on_key: OnKey) -> tubewell::OnKey {
        match on_key {
            OnKey::Reject => tubewell::OnKey::Reject,
            OnKey::Keep => tubewell::OnKey::Keep,
            OnKey::Replace => tubewell::OnKey::Replace,
        }
    }
}

#[derive(Debug, Default, Args)]
pub struct PutOptions {
    /// The priority; 0 is the most urgent. Default: the tube's
    #[arg(long, value_name = "NUMBER", value_parser = priority, allow_negative_numbers = true)]
    pub priority: Option<u32>,
    /// The ttl: how long the task lives, in whatever state. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttl: Option<Duration>,
    /// The ttr: how long a worker may hold the task before it is ready again. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub ttr: Option<Duration>,
    /// How long until the task is ready. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// The moment before which the task is not ready, such as 2026-12-24T09:00:00Z. Default: none
    #[arg(long, value_parser = moment::parse, value_name = "MOMENT", allow_hyphen_values = true)]
    pub not_before: Option<SystemTime>,
    /// The sub-queue, of which one task is taken at a time unless its tube has another limit. Default:
    /// the one without a name
    #[arg(long, value_name = "NAME")]
    pub sub_queue: Option<String>,
    /// How often the task is attempted; then it is buried. Default: the tube's
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub max_attempts: Option<u32>,
    /// How long a worker may hold the task at most, however often it renews. Default: the tube's
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub max_runtime: Option<Duration>,
    /// A tag: a label by which the task is found. May be given several times. Default: none
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Where the task belongs in a trace, in the form of W3C trace context. Default: none
    #[arg(long, value_name = "TRACEPARENT")]
    pub traceparent: Option<String>,
}

impl PutOptions {
    /// The task with the options that are given here.
    pub fn apply<B>(&self, task: tubewell::Put<B>) -> tubewell::Put<B> {
        self.plain().apply(task)
    }

    /// As the options of a task of JSON.
    pub fn plain(&self) -> tubewell_json::put::PutOptions {
        tubewell_json::put::PutOptions {
            priority: self.priority,
            ttl: self.ttl,
            ttr: self.ttr,
            delay: self.delay,
            not_before: self.not_before,
            sub_queue: self.sub_queue.clone(),
            max_attempts: self.max_attempts,
            max_runtime: self.max_runtime,
            tags: self.tags.clone(),
            traceparent: self.traceparent.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Put {
    /// The tube
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: String,
    /// The body. Default, and for -: standard input
    pub body: Option<OsString>,
    #[command(flatten)]
    pub options: PutOptions,
    /// The key: a name that no other task of the store has. Default: none
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How to handle a key that is in use. Default: reject
    #[arg(long, value_enum, value_name = "ANSWER", requires = "key")]
    pub on_key: Option<OnKey>,
    /// The idempotency key: within an hour, another put with it puts nothing. Default: none
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// How long the idempotency key is remembered instead of an hour: at most 366 days
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", requires = "idempotency_key")]
    #[arg(allow_hyphen_values = true)]
    pub unique_for: Option<Duration>,
    /// Tasks that must be done before this one can be taken, by their ids. Default: none
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = number)]
    #[arg(allow_negative_numbers = true)]
    pub after: Vec<u64>,
    /// The tube of these tasks. Default: the tube of this one
    #[arg(long, value_name = "TUBE", requires = "after")]
    #[arg(add = ArgValueCompleter::new(tube_names::complete))]
    pub after_tube: Option<String>,
    /// Tasks that must be done before this one can be taken, by their keys. Default: none
    #[arg(long, value_name = "KEY")]
    pub after_key: Vec<String>,
    /// How to handle a parent that is buried or removed. Default: wait
    #[arg(long, value_enum, value_name = "RULE")]
    pub on_parent: Option<OnParent>,
    /// How long to wait for space in a full tube. Default: 0
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnParent {
    /// Wait for a buried parent; bury the task if a parent is removed
    Wait,
    /// Do not wait for that parent
    Release,
    /// Bury the task
    Bury,
}

impl OnParent {
    /// The rule of the library.
    pub fn of(rule: tubewell::OnParent) -> Option<OnParent> {
        Self::value_variants().iter().copied().find(|it| tubewell::OnParent::from(*it) == rule)
    }
}

impl From<OnParent> for tubewell::OnParent {
    fn from(rule: OnParent) -> tubewell::OnParent {
        match rule {
            OnParent::Wait => tubewell::OnParent::Wait,
            OnParent::Release => tubewell::OnParent::Release,
            OnParent::Bury => tubewell::OnParent::Bury,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line is a body
    Lines,
    #[value(help = "A line is a JSON object: data or data_base64, and options")]
    Json,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The tube
    #[arg(required_unless_present = "all", add = ArgValueCompleter::new(tube_names::complete))]
    pub tube: Option<String>,
    /// Import what `export` wrote: create its tubes, and the store if it does not exist
    #[arg(long, conflicts_with_all = [
        "tube", "format", "priority", "ttl", "ttr", "delay", "not_before", "sub_queue",
        "max_attempts", "max_runtime", "tags", "traceparent",
    ])]
    pub all: bool,
    /// What a line is
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    pub format: Format,
    #[command(flatten)]
    pub options: PutOptions,
    /// How to handle a task whose key is in use. Default: reject
    #[arg(long, value_enum, value_name = "ANSWER")]
    pub on_key: Option<OnKey>,
}
