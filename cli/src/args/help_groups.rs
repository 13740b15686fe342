//! The help of the program: its commands in groups.

use std::fmt::Write as _;

use clap::Command;

use crate::columns::wrap;

/// The groups, each with its commands. The usual ones come first.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Put tasks",
        &["put", "import", "requeue", "schedule", "reschedule", "unschedule", "schedules"],
    ),
    (
        "Work on tasks",
        &["work", "pop", "claim", "ack", "fail", "release", "snooze", "advance", "renew", "log"],
    ),
    ("Watch", &["top", "stats", "events", "days"]),
    (
        "Look at tasks",
        &[
            "list", "peek", "find", "tagged", "tags", "groups", "history", "outcome", "parents",
            "children",
        ],
    ),
    (
        "Change tasks",
        &[
            "kick",
            "bury",
            "update",
            "move",
            "cancel",
            "delete",
            "resolve",
            "forget",
            "revoke",
            "release-all",
            "add-tags",
            "remove-tags",
            "add-parents",
            "remove-parents",
        ],
    ),
    (
        "Tubes",
        &[
            "create",
            "alter",
            "tubes",
            "drop",
            "truncate",
            "pause",
            "unpause",
            "set-limit",
            "limits",
        ],
    ),
    ("The store", &["serve", "verify", "compact", "backup", "export"]),
    ("This command", &["help", "man", "completions"]),
];

/// How wide the help is: a terminal has so many columns, or more.
const WIDTH: usize = 80;
const NAMES: usize = 14;
const BOLD: &str = "\x1b[1m\x1b[4m";
const PLAIN: &str = "\x1b[0m";

/// The command, whose help has its commands in groups.
pub fn grouped(command: Command) -> Command {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        _ = writeln!(text, "\n{BOLD}{title}:{PLAIN}");
        for name in *names {
            let about = about(&command, name);
            let mut lines = wrap(&about, WIDTH - NAMES - 4).into_iter();
            _ = writeln!(text, "  {name:NAMES$}  {}", lines.next().unwrap_or_default());
            lines.for_each(|line| _ = writeln!(text, "  {:NAMES$}  {line}", ""));
        }
    }
    _ = write!(text, "\n{BOLD}Options:{PLAIN}\n{{options}}{{after-help}}");
    command.help_template(text)
}

fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map_or_else(|| "Print this message, or the help of a command".into(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut all: Vec<&str> = shown.map(Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
        assert!(all.iter().all(|name| name.len() <= NAMES));
    }
}
