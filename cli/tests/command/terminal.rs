//! On a terminal: colours, bars, line ends. None of it in a pipe, no colours with `NO_COLOR`.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Bench, finish, within};

/// Runs a command on a terminal of its own; answers with what that shows.
fn on_terminal(mut command: Command, stdin: Option<File>) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.stdin(stdin.unwrap_or_else(slave)).stdout(slave()).stderr(slave());
    let child = command.spawn().unwrap();
    // The terminal ends when nobody has it open: this side must not.
    drop(command);
    let shown = std::thread::spawn(move || {
        let (mut master, mut shown) = (File::from(master), Vec::new());
        // Linux answers with an error when the last one has gone.
        let _ = master.read_to_end(&mut shown);
        shown
    });
    finish(child);
    let shown = within("the terminal", move || shown.join().unwrap());
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn colours_are_for_terminals() {
    let bench = Bench::with(&["a"]);
    for words in [["stats", "mail"], ["list", "mail"], ["peek", "mail"]] {
        let shown = on_terminal(bench.command(&words), None);
        assert!(shown.contains("\x1b["), "{shown}");
        let mut plain = bench.command(&words);
        plain.env("NO_COLOR", "1");
        let shown = on_terminal(plain, None);
        assert!(!shown.contains('\x1b') && shown.contains("mail") | shown.contains('a'), "{shown}");
        let mut dumb = bench.command(&words);
        dumb.env("TERM", "dumb");
        assert!(!on_terminal(dumb, None).contains('\x1b'));
        assert!(!bench.ok(&words.join(" ")).contains('\x1b'));
    }
    let shown = on_terminal(bench.command(&["stats", "nothing"]), None);
    assert!(shown.contains("\x1b[31mtubewell:"), "{shown}");
    assert!(!bench.fails("stats nothing", 4).contains('\x1b'));
}

#[test]
fn a_body_on_a_terminal_ends_its_line() {
    let bench = Bench::with(&["one"]);
    assert_eq!(on_terminal(bench.command(&["take", "mail"]), None), "one\r\n");
}

#[test]
fn a_put_on_a_terminal_wants_a_body() {
    let bench = Bench::with(&[]);
    let shown = on_terminal(bench.command(&["put", "mail"]), None);
    assert!(shown.contains("there is no body"), "{shown}");
}

#[test]
fn long_work_shows_a_bar_on_a_terminal_alone() {
    let bench = Bench::with(&[]);
    let lines = bench.dir.path().join("lines");
    std::fs::write(&lines, "a line\n".repeat(200_000)).unwrap();
    let shown = on_terminal(bench.command(&["import", "mail"]), Some(File::open(&lines).unwrap()));
    assert!(shown.contains("importing") && shown.contains(" left"), "{shown}");
    assert!(shown.contains("stored 200000 tasks"), "{shown}");

    let mut plain = bench.command(&["import", "mail"]);
    plain.env("NO_COLOR", "1");
    let shown = on_terminal(plain, Some(File::open(&lines).unwrap()));
    assert!(shown.contains("importing") && !shown.contains("\x1b[32m"), "{shown}");

    let shown = on_terminal(bench.command(&["verify"]), None);
    assert!(shown.contains("verifying") && shown.contains("sound"), "{shown}");
    let shown = on_terminal(bench.command(&["compact"]), None);
    assert!(shown.contains("compacting"), "{shown}");
    let shown = on_terminal(bench.command(&["backup", "copy.tubewell"]), None);
    assert!(shown.contains("copying"), "{shown}");
    let shown = on_terminal(bench.command(&["export", "all.jsonl"]), None);
    assert!(shown.contains("exporting"), "{shown}");

    bench.ok("truncate mail");
    for _ in 0..3 {
        bench.ok("put mail x");
    }
    let work = ["work", "mail", "--once", "--", "true"];
    let shown = on_terminal(bench.command(&work), None);
    assert!(shown.contains("working") && shown.contains("3 tasks done"), "{shown}");

    let mut piped = bench.command(&["import", "mail"]);
    piped.stdin(File::open(&lines).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(piped.spawn().unwrap()).expect(0);
    assert_eq!(done.err, "");
}
