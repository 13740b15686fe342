//! What reaches a terminal: no command prints a control character, or one that nobody sees, of a name, a
//! body, a message, a path or an argument.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;
use std::time::Duration;

use tubewell::{Failure, Keep, Put, Schedule, ServeOptions, Store, TubeOptions, UTUBETTL};

use crate::support::Sandbox;
use crate::terminal::{on_terminal, on_terminal_until};

/// The title of the terminal, its bell, a C1 code, DEL, right-to-left, and characters without a width.
const HOSTILE: &str = "\u{1b}]0;pwned\u{7}\u{9b}2J\u{7f}\r\u{202e}\u{2066}\u{200b}\u{feff}";
/// The name of a tube has no control characters.
const TUBE: &str = "\u{202e}pwned\u{200b}\u{feff}";
const OPTION: &str = "--\u{202e}pwned\u{1b}]0;";
const OTHER_TUBE: &str = "\u{2066}pwned\u{200d}";

/// Whether a terminal got a part of a hostile text as it is. Colours and the bars of progress have `ESC [`.
fn is_raw(shown: &str) -> bool {
    shown.contains("\u{1b}]")
        || HOSTILE.chars().skip(1).any(|c| is_hidden(c) && shown.contains(c))
        || OTHER_TUBE.chars().any(|c| is_hidden(c) && shown.contains(c))
}

/// The terminal itself adds carriage returns.
fn is_hidden(c: char) -> bool {
    c != '\r' && !c.is_ascii_graphic()
}

/// A store with hostile names and bodies everywhere.
fn hostile() -> Sandbox {
    let sandbox = Sandbox::empty();
    let store = Store::open(path(&sandbox)).unwrap();
    let options = TubeOptions::new()
        .keep_done(Keep::new().count(1000))
        .history(10)
        .metrics(30)
        .shared_limits(true);
    let tube = store.create_tube(TUBE, options.clone().driver(UTUBETTL)).unwrap();
    store.create_tube(OTHER_TUBE, options.driver(UTUBETTL)).unwrap().put(HOSTILE).unwrap();
    let task = |nth: u64| {
        let put = Put::new(HOSTILE).sub_queue(format!("{HOSTILE}{nth}"));
        if nth == 0 { put.key(HOSTILE).tag(HOSTILE) } else { put.tag(HOSTILE) }
    };
    tube.put_many((0..30).map(task).collect::<Vec<_>>()).unwrap();
    for _ in 0..3 {
        let claim = tube.try_take().unwrap().unwrap();
        claim.bury(Failure::new(HOSTILE, HOSTILE)).unwrap();
        tube.try_take().unwrap().unwrap().end(tubewell::Outcome::result(HOSTILE)).unwrap();
    }
    tube.schedule(Schedule::every("hourly", Duration::from_secs(3600)), Put::new(HOSTILE)).unwrap();
    store.admin().set_limit(HOSTILE, 5).unwrap();
    tube.admin().pause_sub_queue(HOSTILE, Duration::MAX).unwrap();
    tube.admin().log(10, HOSTILE).unwrap();
    drop(tube);
    store.close().unwrap();
    sandbox
}

fn path(sandbox: &Sandbox) -> std::path::PathBuf {
    sandbox.path(&format!("{HOSTILE}.tubewell"))
}

/// A command of these words. `T`, `O` and `H` are hostile: the two tubes, and any text.
fn command(sandbox: &Sandbox, words: &str) -> Command {
    let words: Vec<&str> = words
        .split_whitespace()
        .map(|word| match word {
            "T" => TUBE,
            "O" => OTHER_TUBE,
            "H" => HOSTILE,
            "--H" => OPTION,
            word => word,
        })
        .collect();
    let mut command = sandbox.command(&words);
    command.env("TUBEWELL_STORE", path(sandbox));
    command
}

/// What a terminal gets from a command, without its colours.
fn shown(sandbox: &Sandbox, words: &str) -> String {
    // A line of JSON for the commands that read one.
    let input = sandbox.path("input");
    let line = serde_json::json!({ "data": "x", HOSTILE: 1 }).to_string();
    std::fs::write(&input, line).unwrap();
    on_terminal(command(sandbox, words), Some(File::open(input).unwrap()))
}

/// Each command, with the words that let it print what it can print. `TOKEN` is that of a claim.
const COMMANDS: &[&str] = &[
    "create T",
    "create T --driver utubettl --priority 3",
    "create H",
    "alter T --max-taken 100",
    "alter T --rate H",
    "pause T --sub-queue H",
    "unpause T --sub-queue H",
    "pause T",
    "unpause T",
    "limits",
    "set-limit H 4",
    "set-limit H none",
    "set-limit H H",
    "days T",
    "days O --plot wait",
    "tubes",
    "put O H --key other",
    "put O x --key H",
    "put H x",
    "put O x --priority H",
    "put O x --not-before H",
    "put O x --on-key H",
    "requeue T other H",
    "requeue T H --tag H",
    "requeue T unused H",
    "schedule T H H --every 1d",
    "schedule T daily H --every 1d",
    "schedule T H x --cron H",
    "schedule T x x --cron H",
    "schedule T x x --cron 0.0.*.*.* --zone H",
    "reschedule T daily --every 2d",
    "reschedule T H --every 2d",
    "schedules",
    "unschedule daily",
    "unschedule H",
    "import T --format json",
    "import --all",
    "import H",
    "pop T",
    "pop H",
    "claim T",
    "claim T H",
    "ack TOKEN --result H",
    "ack H",
    "release TOKEN",
    "fail TOKEN --group H --message H",
    "snooze TOKEN H",
    "snooze TOKEN 0",
    "advance TOKEN O H",
    "renew TOKEN",
    "bury TOKEN --group H",
    "bury H",
    "bury T 20",
    "revoke T 20",
    "revoke T --all",
    "peek T",
    "peek T --body",
    "peek T 999",
    "tagged H",
    "tagged H --bodies",
    "tagged unused",
    "tags",
    "add-tags T 21 H other",
    "remove-tags T 21 other",
    "find H",
    "find H --body",
    "find --id 21",
    "find unused",
    "list T",
    "list T --bodies --all",
    "list T --state recurring,done,buried",
    "list T --state H",
    "list T --group H --bodies",
    "kick T 20",
    "kick T 21",
    "kick T --group H --count 1",
    "kick T H",
    "update T 22 --body H",
    "update T 22 --priority H",
    "add-parents T 23 22",
    "parents T 23",
    "children T 22",
    "remove-parents T 23 --all",
    "cancel T 24 999",
    "move T O 25",
    "move T H 25",
    "delete T 26 999",
    "delete T --group unused",
    "outcome T 1",
    "outcome T 2 --result",
    "outcome T 1",
    "outcome T 22",
    "groups T",
    "history T 10",
    "log T 10 H",
    "resolve T 27 --result H",
    "forget T 4",
    "release-all T",
    "stats",
    "stats T",
    "stats H",
    "events T --timeout 0",
    "events H",
    "forget H 1",
    "remove-parents H 1 --all",
    "requeue H x y",
    "resolve H 1",
    "days H",
    "release-all H",
    "add-parents H 1 2",
    "verify",
    "compact",
    "serve H",
    "stats --secret-file H --connect tcp://127.0.0.1:1",
    "backup H",
    "backup H/H",
    "export -",
    "export H",
    "completions bash",
    "completions H",
    "man H",
    "man --out H",
    "man peek",
    "take T",
    "truncate O",
    "work O --once -- false",
    "work O -- H",
    "work H -- true",
    "serve --socket H/H",
    "H",
    "--H",
    "stats --connect H",
    "stats --connect unix:H",
    "stats --trust-user H --connect unix:H",
    "stats --patience H",
    "top --interval H",
    "drop T",
    "drop H",
];

/// What prints no text of the user.
const WITHOUT_TEXT: &[&str] = &["verify", "take"];

fn check(json: &str) {
    let sandbox = hostile();
    // An owner makes the commands quick. Those that need the file name it in their errors.
    let owner = Store::open(path(&sandbox)).unwrap();
    let _served = owner
        .admin()
        .serve(ServeOptions::unix(tubewell::expert::socket_beside(path(&sandbox))))
        .unwrap();
    let mut without = BTreeSet::new();
    let mut with = BTreeSet::new();
    for words in COMMANDS {
        let name = words.split(' ').next().unwrap();
        let mut words = (*words).to_owned();
        if words.contains("TOKEN") {
            let claimed = command(&sandbox, "claim T --json").output().unwrap();
            let claimed: serde_json::Value = serde_json::from_slice(&claimed.stdout).unwrap();
            words = words.replace("TOKEN", claimed["token"].as_str().unwrap());
        }
        let words = if json.is_empty() {
            words
        } else {
            words.replacen(name, &format!("{name} {json}"), 1)
        };
        let shown = shown(&sandbox, &words);
        assert!(!is_raw(&shown), "{words}: {shown:?}");
        if shown.contains("pwned") {
            with.insert(name)
        } else {
            without.insert(name)
        };
    }
    let silent: Vec<_> = without.difference(&with).collect();
    assert!(silent.iter().all(|name| WITHOUT_TEXT.contains(name)), "no hostile text: {silent:?}");
}

#[test]
fn no_command_prints_a_hostile_text_as_it_is() {
    check("");
}

#[test]
fn no_command_prints_a_hostile_text_in_json_as_it_is() {
    check("--json");
}

/// `serve` and `top` stay until a signal, and until a key.
#[test]
fn commands_that_stay_print_no_hostile_text_as_it_is() {
    let sandbox = hostile();
    let shown = on_terminal_until(command(&sandbox, "serve"), " at unix:", "");
    assert!(!is_raw(&shown) && shown.contains("pwned"), "{shown:?}");
    let shown = on_terminal_until(command(&sandbox, "top"), "q quit", "q");
    assert!(!is_raw(&shown) && shown.contains("pwned"), "{shown:?}");
}

#[test]
fn every_command_is_tried_with_hostile_texts() {
    let sandbox = Sandbox::empty();
    let help = sandbox.ok("--help");
    let (commands, _) = help.split_once("Options:\n").unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut number = 0;
    for name in names.filter(|name| !name.is_empty() && *name != "help" && *name != "top") {
        let tried = COMMANDS.iter().any(|words| words.split(' ').next() == Some(name));
        assert!(tried, "{name} is not tried");
        number += 1;
    }
    assert!(number > 40, "{help}");
}

/// A line end in an argument would begin a line that looks like one of the command.
#[test]
fn argument_with_a_line_end_is_printed_on_one_line() {
    let sandbox = Sandbox::with(&[]);
    for words in [["stats", "mail", "a\nb"], ["put", "--priority=a\nb", "mail"], ["a\nb", "", ""]] {
        let ended = crate::support::run(sandbox.command(&words), b"").expect(2);
        assert!(ended.err.contains(r"a\nb") && !ended.err.contains("a\nb"), "{}", ended.err);
    }
}

/// Where standard output is no terminal, the bodies that are documented as unchanged are.
#[test]
fn bodies_are_raw_where_they_are_documented_as_raw_only() {
    let sandbox = hostile();
    let printed = |words: &str| command(&sandbox, words).output().unwrap().stdout;
    for words in ["peek T --body", "find H --body", "outcome T 2 --result", "pop T"] {
        assert_eq!(printed(words), HOSTILE.as_bytes(), "{words}");
    }
    assert!(printed("claim T").ends_with(HOSTILE.as_bytes()));
    for words in ["peek T", "find H", "list T --bodies", "tagged H --bodies", "outcome T 2"] {
        let printed = String::from_utf8(printed(words)).unwrap();
        assert!(!is_raw(&printed) && printed.contains("pwned"), "{words}: {printed:?}");
    }
}
