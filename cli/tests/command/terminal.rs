//! Colours, progress bars and line ends on a terminal. A pipe gets none unless `CLICOLOR_FORCE` is set.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::schedules::closed_for_weeks;
use crate::support::{Sandbox, finish, run, within_deadline};

/// Runs a command on a terminal of its own; returns what the terminal shows.
pub fn on_terminal(command: Command, stdin: Option<File>) -> String {
    let (child, master) = start_on_terminal(command, stdin);
    let shown = std::thread::spawn(move || read_until(&master, None));
    finish(child);
    within_deadline("the terminal", move || shown.join().unwrap())
}

/// As `on_terminal`. When the terminal shows a text, the command gets these keys, or SIGTERM without any.
pub fn on_terminal_until(command: Command, text: &'static str, keys: &str) -> String {
    let (child, master) = start_on_terminal(command, None);
    let mut keyboard = master.try_clone().unwrap();
    let reader = master.try_clone().unwrap();
    let mut shown = within_deadline(text, move || read_until(&reader, Some(text)));
    keyboard.write_all(keys.as_bytes()).unwrap();
    if keys.is_empty() {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    }
    let rest = std::thread::spawn(move || read_until(&master, None));
    finish(child);
    drop(keyboard);
    shown += &within_deadline("the terminal", move || rest.join().unwrap());
    shown
}

fn start_on_terminal(mut command: Command, stdin: Option<File>) -> (Child, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.stdin(stdin.unwrap_or_else(slave)).stdout(slave()).stderr(slave());
    // The terminal ends when no process has it open: this one closes it with the command.
    (command.spawn().unwrap(), File::from(master))
}

/// What the terminal shows up to its end, or up to a text.
fn read_until(mut master: &File, text: Option<&str>) -> String {
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    let has = |shown: &[u8]| text.is_some_and(|text| String::from_utf8_lossy(shown).contains(text));
    while !has(&shown) {
        // Linux returns an error after the last process has closed it.
        match master.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(length) => shown.extend_from_slice(&part[..length]),
        }
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn colours_are_printed_on_terminals_only() {
    let sandbox = Sandbox::with(&["a"]);
    for words in [["stats", "mail"], ["list", "mail"], ["peek", "mail"]] {
        let shown = on_terminal(sandbox.command(&words), None);
        assert!(shown.contains("\x1b["), "{shown}");
        let mut plain = sandbox.command(&words);
        plain.env("NO_COLOR", "1");
        let shown = on_terminal(plain, None);
        assert!(!shown.contains('\x1b') && shown.contains("mail") | shown.contains('a'), "{shown}");
        let mut dumb = sandbox.command(&words);
        dumb.env("TERM", "dumb");
        assert!(!on_terminal(dumb, None).contains('\x1b'));
        assert!(!sandbox.ok(&words.join(" ")).contains('\x1b'));
    }
    let shown = on_terminal(sandbox.command(&["stats", "nothing"]), None);
    assert!(shown.contains("\x1b[31mtubewell:\x1b[0m"), "{shown}");
    assert!(!sandbox.fails("stats nothing", 4).contains('\x1b'));
}

/// What a pipe gets from a command with this environment: its output and its errors.
fn piped(sandbox: &Sandbox, words: &[&str], environment: &[(&str, &str)]) -> (String, String) {
    let mut command = sandbox.command(words);
    command.envs(environment.iter().copied());
    let ended = run(command, b"");
    (String::from_utf8(ended.out).unwrap(), ended.err)
}

#[test]
fn clicolor_force_prints_colours_to_a_pipe_and_no_color_wins() {
    let body = "a\x1b[31mred";
    let sandbox = Sandbox::with(&[body]);
    let force = ("CLICOLOR_FORCE", "1");
    let (table, _) = piped(&sandbox, &["stats"], &[force]);
    assert!(table.contains("\x1b[1mTUBE") && table.contains("\x1b[0m"), "{table:?}");
    let (_, error) = piped(&sandbox, &["stats", "nothing"], &[force]);
    assert!(error.starts_with("\x1b[31mtubewell:\x1b[0m"), "{error:?}");
    for environment in [&[force, ("NO_COLOR", "1")][..], &[("CLICOLOR_FORCE", "")], &[]] {
        let (table, _) = piped(&sandbox, &["stats"], environment);
        assert!(table.contains("TUBE") && !table.contains('\x1b'), "{environment:?}: {table:?}");
    }
    // JSON and bodies have no colours, and keep what they have.
    let (json, _) = piped(&sandbox, &["stats", "--json"], &[force]);
    assert!(!json.contains('\x1b'), "{json:?}");
    for environment in [&[force][..], &[("NO_COLOR", "1")]] {
        assert_eq!(piped(&sandbox, &["peek", "mail", "--body"], environment).0, body);
    }
}

#[test]
fn clicolor_0_and_a_terminal_of_no_type_have_no_colours() {
    let sandbox = Sandbox::with(&["a"]);
    for (name, value) in [("CLICOLOR", Some("0")), ("TERM", None)] {
        let mut command = sandbox.command(&["stats"]);
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
        let shown = on_terminal(command, None);
        assert!(shown.contains("TUBE") && !shown.contains('\x1b'), "{name}: {shown:?}");
    }
}

#[test]
fn body_gets_a_line_end_on_a_terminal_only() {
    let sandbox = Sandbox::with(&["one", "two"]);
    sandbox.feed("put mail -", b"with its own\n").expect(0);
    let shown = |words: &[&str]| on_terminal(sandbox.command(words), None);
    assert_eq!(shown(&["peek", "mail", "--body"]), "one\r\n");
    assert_eq!(shown(&["peek", "mail", "2", "--body"]), "with its own\r\n");
    assert!(shown(&["peek", "mail"]).ends_with("\r\n\r\none\r\n"));
    assert!(shown(&["list", "mail", "--bodies"]).ends_with("\r\n\r\nwith its own\r\n"));
    assert_eq!(sandbox.ok("peek mail --body"), "one");
    assert_eq!(sandbox.ok("pop mail"), "one");
    assert_eq!(shown(&["pop", "mail"]), "two\r\n");
    assert_eq!(shown(&["pop", "mail"]), "with its own\r\n");
}

#[test]
fn put_on_a_terminal_requires_a_body() {
    let sandbox = Sandbox::with(&[]);
    let shown = on_terminal(sandbox.command(&["put", "mail"]), None);
    assert!(shown.contains("the body is missing"), "{shown}");
}

#[test]
fn progress_bars_are_drawn_on_terminals_only() {
    let sandbox = Sandbox::with(&[]);
    let lines = sandbox.dir.path().join("lines");
    std::fs::write(&lines, "a line\n".repeat(200_000)).unwrap();
    let shown =
        on_terminal(sandbox.command(&["import", "mail"]), Some(File::open(&lines).unwrap()));
    assert!(shown.contains("importing") && shown.contains(" left"), "{shown}");
    assert!(shown.contains("stored 200000 tasks"), "{shown}");

    let mut plain = sandbox.command(&["import", "mail"]);
    plain.env("NO_COLOR", "1");
    let shown = on_terminal(plain, Some(File::open(&lines).unwrap()));
    assert!(shown.contains("importing") && !shown.contains("\x1b[32m"), "{shown}");

    let shown = on_terminal(sandbox.command(&["verify"]), None);
    assert!(shown.contains("verifying") && shown.contains("sound"), "{shown}");
    let shown = on_terminal(sandbox.command(&["compact"]), None);
    assert!(shown.contains("compacting"), "{shown}");
    let shown = on_terminal(sandbox.command(&["backup", "copy.tubewell"]), None);
    assert!(shown.contains("copying"), "{shown}");
    let shown = on_terminal(sandbox.command(&["export", "all.jsonl"]), None);
    assert!(shown.contains("exporting"), "{shown}");

    sandbox.ok("truncate mail");
    for _ in 0..3 {
        sandbox.ok("put mail x");
    }
    let work = ["work", "mail", "--once", "--", "true"];
    let shown = on_terminal(sandbox.command(&work), None);
    assert!(shown.contains("working") && shown.contains("3 tasks done"), "{shown}");

    let mut piped = sandbox.command(&["import", "mail"]);
    piped.stdin(File::open(&lines).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(piped.spawn().unwrap()).expect(0);
    assert_eq!(done.err, "");
}

/// A schedule was due each millisecond for three weeks: the length of the work is unknown before its end.
#[test]
fn spinner_of_work_of_unknown_length_turns_and_counts() {
    let sandbox = closed_for_weeks(Duration::from_millis(1));
    // Its third picture: it is drawn again and again.
    let shown = on_terminal_until(sandbox.command(&["stats"]), "⠄", "");
    let counts = shown.split("applying what fell due").skip(1).map(|drawn| {
        let words = drawn.split_whitespace();
        let mut numbers = words.filter_map(|word| word.replace(',', "").parse::<u64>().ok());
        numbers.next().unwrap_or_else(|| panic!("no number in {drawn:?}"))
    });
    let counts: Vec<u64> = counts.collect();
    assert!(counts.len() > 2 && counts.is_sorted() && counts.last() > Some(&0), "{counts:?}");
    assert!(shown.contains("/s"), "{shown}");
}
