//! The options of `events`.

use std::time::Duration;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use tubewell::{EventKind, Filter};

use crate::{duration, tube_names};

/// The names of the kinds, for completions.
const KINDS: [&str; 29] = [
    "put",
    "replace",
    "take",
    "ack",
    "release",
    "revoke",
    "touch",
    "checkpoint",
    "progress",
    "fail",
    "snooze",
    "lost",
    "bury",
    "kick",
    "delete",
    "ttl",
    "ttr",
    "delay",
    "block",
    "unblock",
    "resolve",
    "forget",
    "schedule",
    "spawn",
    "advance",
    "move",
    "update",
    "log",
    "step",
];

fn kinds() -> Vec<CompletionCandidate> {
    KINDS.map(CompletionCandidate::new).into()
}

#[derive(Debug, Args)]
pub struct Events {
    /// The tubes. Default: all tubes
    #[arg(value_name = "TUBE", add = ArgValueCompleter::new(tube_names::complete))]
    pub tubes: Vec<String>,
    /// Only events of these kinds, such as put, take, ack, fail or bury, separated by commas
    #[arg(long, value_name = "KIND", value_delimiter = ',', add = ArgValueCandidates::new(kinds))]
    kind: Vec<EventKind>,
    /// Only events of the task with this key. May be given several times
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Only events of tasks with this tag. May be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only events of tasks that a worker with this name has. May be given several times
    #[arg(long = "owner", value_name = "NAME")]
    owners: Vec<String>,
    /// Show the priority, the tags, the last failure and the body of the task
    #[arg(long)]
    details: bool,
    /// Go on after the first event, until a signal
    #[arg(long)]
    pub follow: bool,
    /// How long to wait for the next event. Default: no limit
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
}

impl Events {
    /// The events that are asked for.
    pub fn filter(&self) -> Filter {
        let texts = |texts: &[String]| -> Vec<_> {
            texts.iter().map(String::as_str).map(std::sync::Arc::from).collect()
        };
        let filter = texts(&self.tubes).into_iter().fold(Filter::new(), Filter::tube);
        let filter = texts(&self.keys).into_iter().fold(filter, Filter::key);
        let filter = texts(&self.tags).into_iter().fold(filter, Filter::tag);
        let filter = texts(&self.owners).into_iter().fold(filter, Filter::owner);
        let filter = if self.details { filter.details() } else { filter };
        if self.kind.is_empty() { filter } else { filter.kinds(self.kind.iter().copied()) }
    }
}

#[cfg(test)]
mod tests {
    use super::KINDS;
    use tubewell::EventKind;

    #[test]
    fn offered_kinds_are_those_of_the_store() {
        for name in KINDS {
            assert_eq!(name.parse::<EventKind>().map(EventKind::as_str), Ok(name));
        }
        let unknown = "x".parse::<EventKind>().unwrap_err().to_string();
        let known = unknown.matches(", ").count() + 1;
        assert_eq!(known, KINDS.len(), "{unknown}");
    }
}
