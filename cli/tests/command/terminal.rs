//! Colours, progress bars and line ends on a terminal. A pipe gets none, `NO_COLOR` no colours.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Sandbox, finish, within_deadline};

/// Runs a command on a terminal of its own; returns what the terminal shows.
fn on_terminal(mut command: Command, stdin: Option<File>) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.stdin(stdin.unwrap_or_else(slave)).stdout(slave()).stderr(slave());
    let child = command.spawn().unwrap();
    // The terminal ends when no process has it open, so this one must close it.
    drop(command);
    let shown = std::thread::spawn(move || {
        let (mut master, mut shown) = (File::from(master), Vec::new());
        // Linux returns an error after the last process has closed it.
        let _ = master.read_to_end(&mut shown);
        shown
    });
    finish(child);
    let shown = within_deadline("the terminal", move || shown.join().unwrap());
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
    assert!(shown.contains("\x1b[31mtubewell:"), "{shown}");
    assert!(!sandbox.fails("stats nothing", 4).contains('\x1b'));
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
