//! Commands that go through the process that serves the store.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;
use tubewell::{Error, FIFOTTL, Put, ServeOptions, Store, TubeOptions, UTUBE};

use crate::blocking_disk::Disk;
use crate::support::{Running, Sandbox, columns_of};

/// `serve` of the store of a sandbox, with these options. Returns when it serves.
pub fn serve(sandbox: &Sandbox, options: &str) -> (Running, String) {
    let mut command = sandbox.command(&["serve"]);
    command.args(options.split_whitespace()).stdin(Stdio::null());
    let running = Running::start(command);
    let line = running.prints("serving ");
    let (_, url) = line.rsplit_once(" at ").unwrap();
    let url = url.to_owned();
    (running, url)
}

/// Starts a command that stays.
pub fn start(sandbox: &Sandbox, words: &str) -> Running {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = sandbox.command(&words);
    command.stdin(Stdio::null());
    Running::start(command)
}

/// No user of the machine has this id.
const OTHER_USER: u32 = 12345;

fn socket(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("jobs.tubewell.sock")
}

#[test]
fn every_command_works_while_another_process_serves_the_store() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    let (mut owner, url) = serve(&sandbox, "");
    assert_eq!(url, format!("unix:{}", socket(&sandbox).display()));
    sandbox.ok("create news --history 10");
    assert!(sandbox.ok("create news --if-not-exists --history 10").contains("has these options"));
    sandbox.ok("put news x --key k");
    assert_eq!(columns_of(&sandbox.ok("stats"))[1][..2], ["mail", "3"]);
    assert_eq!(sandbox.ok("pop mail"), "a");
    assert_eq!(sandbox.ids("list mail"), [1, 2]);
    sandbox.ok("bury mail 1");
    sandbox.ok("kick mail 1");
    assert_eq!(sandbox.json("find k")[0]["tube"], "news");
    assert_eq!(sandbox.json("history news 3")[0]["what"], "put");
    sandbox.feed("import mail", b"d\ne").expect(0);
    let token = sandbox.claim("mail --for 1h");
    sandbox.ok(&format!("ack {token}"));
    sandbox.ok("schedule mail hourly x --every 1h");
    assert_eq!(sandbox.json("schedules").len(), 1);
    sandbox.ok("work mail --once -- true");
    assert_eq!(sandbox.counts(), (0, 0, 0));
    sandbox.ok("pause mail");
    assert!(sandbox.ok("tubes").contains("paused"));
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
    assert!(!socket(&sandbox).exists());
    assert!(sandbox.ok("tubes").contains("paused"));
}

#[test]
fn application_that_serves_its_store_lets_commands_in() {
    let sandbox = Sandbox::empty();
    let store = Store::open(sandbox.store()).unwrap();
    let options = TubeOptions::new().temporary(true);
    let mail = store.create_tube("mail", options.driver(FIFOTTL)).unwrap();
    // The tasks of a temporary tube end with the application, and not with the command.
    let why = sandbox.fails("put mail a", 5);
    assert!(why.contains("StoreAdmin::serve") && why.contains("tubewell serve"), "{why}");
    let _served = store.admin().serve(ServeOptions::unix(socket(&sandbox))).unwrap();
    sandbox.ok("put mail a");
    let claim = mail.try_take().unwrap().unwrap();
    assert_eq!(claim.body(), b"a");
    claim.progress(3, 10).unwrap();
    let listed = sandbox.json("list mail");
    assert_eq!(listed[0]["state"], "taken");
    assert_eq!(listed[0]["progress"], json!({ "done": 3, "total": 10, "text": null }));
    assert!(sandbox.ok("peek mail 0").contains("progress  3 of 10\n"));
    assert!(sandbox.fails("stats --no-socket", 5).contains("in use"));
    store.close().unwrap();
}

/// The other task of its sub-queue is ready, too, and older than the one that a take would get.
#[test]
fn peek_shows_what_a_take_would_get_while_others_work() {
    let sandbox = Sandbox::empty();
    let store = Store::open(sandbox.store()).unwrap();
    let mail = store.create_tube("mail", TubeOptions::new().driver(UTUBE)).unwrap();
    for (body, name) in [("taken", "a"), ("behind it", "a"), ("free", "b")] {
        mail.put(Put::new(body).sub_queue(name)).unwrap();
    }
    let _served = store.admin().serve(ServeOptions::unix(socket(&sandbox))).unwrap();
    let claim = mail.try_take().unwrap().unwrap();
    assert_eq!(claim.body(), b"taken");
    assert_eq!(sandbox.ok("peek mail --body"), "free");
    mail.admin().pause().unwrap();
    let why = sandbox.fails("peek mail", 3);
    assert!(why.contains("no task of mail can be taken now"), "{why}");
    store.close().unwrap();
}

#[test]
fn workers_of_several_processes_share_the_tasks() {
    let sandbox = Sandbox::with(&[]);
    let (_owner, _) = serve(&sandbox, "");
    let mut workers = Vec::new();
    for name in ["first", "second"] {
        let worker = sandbox.work("mail", &format!("echo {name} $(cat); read x < gate"));
        worker.notes("waiting for tasks");
        workers.push(worker);
    }
    let mut gate = sandbox.gate();
    // Each has one task, since it works on one at a time.
    sandbox.feed("import mail", b"a\nb").expect(0);
    workers[0].prints("first ");
    workers[1].prints("second ");
    assert_eq!(sandbox.ids("list mail --owner work"), [0, 1]);
    gate.open(2);
    let mut events = start(&sandbox, "events mail --kind ack --timeout 1ms");
    events.ends();
    for worker in &mut workers {
        worker.signal(Signal::TERM);
        assert_eq!(worker.ends(), 0);
    }
    assert_eq!(sandbox.json("stats mail")[0]["total"], 0);
}

#[test]
fn tasks_of_a_killed_worker_are_ready_again() {
    let sandbox = Sandbox::with(&[]);
    let (_owner, _) = serve(&sandbox, "");
    let _gate = sandbox.gate();
    let mut events = start(&sandbox, "events mail --follow");
    events.notes("following");
    sandbox.ok("put mail a");
    let worker = sandbox.work("mail", "echo working; read x < gate");
    worker.prints("working");
    worker.signal_group(Signal::KILL);
    events.prints(" release ");
    assert_eq!(sandbox.counts(), (1, 0, 0));
    events.signal(Signal::INT);
    assert_eq!(events.ends(), 0);
}

#[test]
fn commands_that_need_the_file_say_so() {
    let sandbox = Sandbox::with(&["a"]);
    let (owner, url) = serve(&sandbox, "");
    for words in ["compact", "export all.jsonl --no-socket", "serve --socket other.sock"] {
        let why = sandbox.fails(words, 5);
        assert!(why.contains("needs the file itself"), "{words}: {why}");
        assert!(!why.contains("StoreAdmin::serve"), "{words}: {why}");
    }
    for words in ["compact", "export all.jsonl"] {
        let why = sandbox.fails(&format!("{words} --connect {url}"), 2);
        assert!(why.contains("needs the file itself"), "{words}: {why}");
    }
    assert!(!sandbox.path("all.jsonl").exists());
    // The owner does these.
    assert_eq!(sandbox.ok("verify"), "sound: 1 task\n");
    assert!(sandbox.ok("backup copy.tubewell").starts_with("copied 1 task to copy.tubewell ("));
    drop(owner);
    sandbox.ok("compact");
    assert_eq!(sandbox.ok("--store copy.tubewell pop mail"), "a");
}

/// It is the content of one moment, however long the export takes.
#[test]
fn export_of_a_served_store_reads_a_copy_that_its_owner_makes() {
    let sandbox = Sandbox::with(&["a", "b"]);
    sandbox.ok("create kept");
    let (owner, _) = serve(&sandbox, "");
    let token = sandbox.claim("mail --for 1h");
    sandbox.ok("put kept x --key k --tag t");
    sandbox.ok("bury kept 2");
    assert_eq!(sandbox.ok("export all.jsonl"), "exported 3 tasks of 2 tubes\n");
    // It is open in no process, and the owner goes on.
    sandbox.ok(&format!("ack {token}"));
    let exported = std::fs::read_to_string(sandbox.path("all.jsonl")).unwrap();
    assert_eq!(exported.lines().count(), 5);
    assert_eq!(sandbox.ok("export -").lines().count(), 4);
    sandbox.feed("--store new.tubewell import --all", exported.as_bytes()).expect(0);
    assert_eq!(sandbox.ids("--store new.tubewell list mail --all"), [0, 1]);
    assert_eq!(sandbox.json("--store new.tubewell find k")[0]["state"], "buried");
    let files = std::fs::read_dir(sandbox.path("")).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_str().unwrap().contains(".export-")), "{names:?}");
    drop(owner);
    sandbox.ok("verify");
}

/// Only four may be under way at the owner.
#[test]
fn commands_ask_no_owner_to_catch_up() {
    let sandbox = Sandbox::empty();
    let disk = std::sync::Arc::new(Disk::default());
    let store = disk.open(Store::options());
    let mail = store.create_tube("mail", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let served = store.admin().serve(ServeOptions::unix(socket(&sandbox))).unwrap();
    let deferred = mail.to_async();
    let put = disk.block_flush_of(|| deferred.put("blocked"));
    let caught_up: Vec<_> = (0..5)
        .map(|_| {
            let remote = tubewell::connect(served.url()).unwrap();
            std::thread::spawn(move || remote.admin().catch_up())
        })
        .collect();
    // Four of them wait for the flush.
    while !caught_up.iter().any(std::thread::JoinHandle::is_finished) {
        std::thread::yield_now();
    }
    let mut events = start(&sandbox, &format!("events --follow --connect {}", served.url()));
    events.notes("following");
    disk.unblock_flushes();
    events.signal(Signal::INT);
    assert_eq!(events.ends(), 0);
    put.wait().unwrap();
    let refused = caught_up.into_iter().filter_map(|caught_up| caught_up.join().unwrap().err());
    let what = "4 catch-ups for other processes".into();
    assert_eq!(refused.collect::<Vec<_>>(), [Error::OwnerBusy { what }]);
    store.close().unwrap();
}

#[test]
fn owner_is_named_by_its_address() {
    let sandbox = Sandbox::with(&["a"]);
    std::fs::write(sandbox.path("secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(sandbox.path("wrong"), "0123456789abcdef0123456789abcdeX\n").unwrap();
    let (owner, _) = serve(&sandbox, "--socket a.sock --tcp 127.0.0.1:0 --secret-file secret");
    let line = owner.prints("serving ");
    let (_, tcp) = line.rsplit_once(" at ").unwrap();
    assert!(tcp.starts_with("tcp://127.0.0.1:"), "{tcp}");
    assert_eq!(sandbox.ok("--connect unix:a.sock peek mail --body"), "a");
    let shown = sandbox.ok(&format!("--connect {tcp} --secret-file secret stats"));
    assert!(shown.contains("mail") && shown.contains(tcp), "{shown}");
    let why = sandbox.fails(&format!("--connect {tcp} --secret-file wrong stats"), 4);
    assert!(why.contains("secret") && !why.contains("try again"), "{why}");
    let why = sandbox.fails(&format!("--connect {tcp} stats"), 4);
    assert!(why.contains("--secret-file") && !why.contains("try again"), "{why}");
    // It does not listen beside the file.
    assert!(sandbox.fails("stats", 5).contains("in use"));
}

/// The owner accepts nothing: it is stopped, and its queue of connections is full.
#[test]
fn stopped_owner_whose_queue_of_connections_is_full_ends_a_command_in_time() {
    let sandbox = Sandbox::with(&["a"]);
    let _listener = std::os::unix::net::UnixListener::bind(socket(&sandbox)).unwrap();
    let longest = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let longest = longest.trim().parse::<u32>().unwrap();
    // Each look stays in the queue.
    assert!((0..longest + 2).all(|_| tubewell::expert::is_socket_served(socket(&sandbox))));
    let why = sandbox.fails("stats", 5);
    assert!(why.contains("stopped") && why.contains("--no-socket"), "{why}");
    assert_eq!(columns_of(&sandbox.ok("--no-socket stats"))[1][..2], ["mail", "1"]);
}

#[test]
fn sockets_with_paths_of_more_than_a_hundred_bytes_are_served_and_found() {
    let sandbox = Sandbox::with(&["a"]);
    let name = "s".repeat(200);
    let (owner, url) = serve(&sandbox, &format!("--socket {name}"));
    assert_eq!(sandbox.ok(&format!("--connect {url} peek mail --body")), "a");
    drop(owner);
    let long = "f".repeat(180);
    sandbox.ok(&format!("--store {long} create mail"));
    let (_owner, _) = serve(&sandbox, &format!("--store {long}"));
    assert!(sandbox.ok(&format!("--store {long} stats")).contains("mail"));
}

#[test]
fn address_at_which_no_process_serves_is_reported() {
    let sandbox = Sandbox::with(&["a"]);
    let why = sandbox.fails("--connect unix:none.sock stats", 4);
    assert!(why.contains("none.sock") && why.contains("tubewell serve"), "{why}");
    assert!(sandbox.fails("--connect ftp:x stats", 2).contains("ftp:x"));
    let why = sandbox.fails("serve --tcp 127.0.0.1:0", 2);
    assert!(why.contains("--secret-file"), "{why}");
    std::fs::write(sandbox.path("secret"), "\n").unwrap();
    let why = sandbox.fails("serve --tcp 127.0.0.1:0 --secret-file secret", 2);
    assert!(why.contains("is empty"), "{why}");
    std::fs::write(sandbox.path("secret"), "0123456789abcdef").unwrap();
    let why = sandbox.fails("serve --tcp 0.0.0.0:0 --secret-file secret", 2);
    assert!(why.contains("--any-interface"), "{why}");
    assert!(sandbox.fails("serve nothing.tubewell", 4).contains("not found"));
}

#[test]
fn serve_over_http_answers_and_ends_with_the_signal() {
    let sandbox = Sandbox::with(&["a"]);
    let mut command = sandbox.command(&["serve", "--http", "127.0.0.1:0"]);
    command.stdin(Stdio::null());
    let mut running = Running::start(command);
    let line = running.prints("http://");
    let (_, address) = line.rsplit_once("http://").unwrap();
    let mut client = TcpStream::connect(address.trim()).unwrap();
    write!(client, "GET /v1/tasks/0 HTTP/1.0\r\nHost: {}\r\n\r\n", address.trim()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (_, content) = answer.split_once("\r\n\r\n").unwrap();
    let task: serde_json::Value = serde_json::from_str(content).unwrap();
    assert_eq!((&task["id"], &task["data"]), (&json!(0), &json!("a")), "{answer}");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    assert_eq!(sandbox.ids("list mail"), [0]);
}

#[test]
fn serve_over_http_has_the_token_the_names_and_the_limit_to_reads_that_it_is_given() {
    let sandbox = Sandbox::with(&["a"]);
    std::fs::write(sandbox.path("token"), "0123456789abcdef\n").unwrap();
    let started = |arguments: &[&str]| {
        let serve = ["serve", "--http", "127.0.0.1:0"];
        let mut command = sandbox.command(&[&serve, arguments].concat());
        command.stdin(Stdio::null());
        let running = Running::start(command);
        let line = running.prints("http://");
        let (_, address) = line.rsplit_once("http://").unwrap();
        (running, address.trim().to_owned())
    };
    let status = |address: &str, call: &str| {
        let mut client = TcpStream::connect(address).unwrap();
        write!(client, "{}\r\n\r\n", call.replace("HOST", address)).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let (guarded, address) = started(&["--http-token-file", "token"]);
    let get = "GET /v1/tubes HTTP/1.0\r\nHost: HOST";
    assert_eq!(status(&address, get), 401);
    assert_eq!(status(&address, &format!("{get}\r\nAuthorization: Bearer 0123456789abcdef")), 200);
    drop(guarded);
    let (_named, address) = started(&["--http-host", "queue.example", "--http-read-only"]);
    assert_eq!(status(&address, "GET /v1/tubes HTTP/1.0\r\nHost: queue.example"), 200);
    assert_eq!(status(&address, "GET /v1/tubes HTTP/1.0\r\nHost: other.example"), 421);
    assert_eq!(status(&address, "DELETE /v1/tasks/0 HTTP/1.0\r\nHost: HOST"), 403);
}

#[test]
fn serve_over_http_refuses_an_open_address_without_a_token() {
    let sandbox = Sandbox::with(&["a"]);
    let why = sandbox.fails("serve --http 0.0.0.0:0", 2);
    assert!(why.contains("other machines") && why.contains("--http-token-file"), "{why}");
    std::fs::write(sandbox.path("token"), "short").unwrap();
    let why = sandbox.fails("serve --http 127.0.0.1:0 --http-token-file token", 2);
    assert!(why.contains("at least 16"), "{why}");
    assert!(sandbox.fails("serve --http nowhere", 2).contains("127.0.0.1:11380"));
    sandbox.fails("serve --http-read-only", 2);
}

#[test]
fn serve_says_what_is_at_an_address_in_use() {
    let sandbox = Sandbox::with(&["a"]);
    std::fs::write(sandbox.path("file"), "precious").unwrap();
    let why = sandbox.fails("serve --socket file", 6);
    assert!(why.contains("file is a file, and not a socket"), "{why}");
    let _listener = std::os::unix::net::UnixListener::bind(sandbox.path("used.sock")).unwrap();
    let why = sandbox.fails("serve --socket used.sock", 5);
    assert!(why.contains("another process listens at used.sock"), "{why}");
}

#[test]
fn stale_socket_of_a_killed_owner_is_no_owner() {
    let sandbox = Sandbox::with(&["a"]);
    let (mut owner, _) = serve(&sandbox, "");
    owner.signal(Signal::KILL);
    assert_eq!(owner.ends(), -9);
    assert!(socket(&sandbox).exists());
    assert_eq!(sandbox.counts(), (1, 0, 0));
    let (_owner, _) = serve(&sandbox, "");
    assert_eq!(sandbox.ok("pop mail"), "a");
}

#[test]
fn events_of_other_processes_are_followed_and_their_owner_is_waited_for() {
    let sandbox = Sandbox::with(&[]);
    let (mut owner, _) = serve(&sandbox, "");
    let mut events = start(&sandbox, "events --follow --json");
    events.notes("following");
    sandbox.ok("put mail a");
    assert!(events.prints("\"put\"").contains("\"mail\""));
    sandbox.ok("pop mail");
    events.prints("\"ack\"");
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
    events.notes("waiting for the owner");
    let (_owner, _) = serve(&sandbox, "");
    events.notes("connected again");
    sandbox.ok("put mail b");
    events.prints("\"put\"");
    events.signal(Signal::TERM);
    assert_eq!(events.ends(), 0);
}

/// The next owner at the address asks for a secret, which the command does not have.
#[test]
fn followed_owner_that_refuses_the_connection_is_not_waited_for() {
    let sandbox = Sandbox::with(&[]);
    let store = Store::open(sandbox.store()).unwrap();
    let served = store.admin().serve(ServeOptions::unix(socket(&sandbox))).unwrap();
    let mut events = start(&sandbox, "events --follow");
    events.notes("following");
    let mut worker = sandbox.work("mail", "true");
    worker.notes("waiting for tasks");
    served.stop();
    let with_secret = ServeOptions::unix(socket(&sandbox)).secret("a secret of the test");
    let _served = store.admin().serve(with_secret).unwrap();
    for command in [&mut events, &mut worker] {
        command.notes("needs a secret");
        assert_eq!(command.ends(), 4);
    }
    store.close().unwrap();
}

#[test]
fn tubes_are_completed_while_the_store_is_served() {
    let sandbox = Sandbox::with(&[]);
    let (_owner, _) = serve(&sandbox, "");
    sandbox.ok("create urgent");
    let mut command = sandbox.command(&["--", "tubewell", "peek", ""]);
    command.env("TUBEWELL_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
    let offered = crate::support::run(command, b"").expect(0);
    assert!(offered.text().contains("mail") && offered.text().contains("urgent"), "{offered:?}");
}

/// The commands agree on what is there: the store of the owner, whose file is gone.
#[test]
fn commands_say_that_the_file_of_the_owner_was_removed() {
    let sandbox = Sandbox::with(&["a"]);
    let (mut owner, _) = serve(&sandbox, "");
    std::fs::remove_file(sandbox.store()).unwrap();
    for command in ["put mail b", "create news", "stats"] {
        let words: Vec<&str> = command.split_whitespace().collect();
        let failed = sandbox.command(&words).output().unwrap();
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(
            !failed.status.success() && text.contains("removed or renamed"),
            "{command}: {text}"
        );
    }
    let store = sandbox.store();
    let why = sandbox.fails(&format!("backup {}", store.display()), 2);
    assert!(why.contains("path of the store itself") && why.contains("another path"), "{why}");
    // The way out that their text names.
    sandbox.ok("backup saved");
    owner.signal(Signal::TERM);
    assert_ne!(owner.ends(), 0);
    assert!(!sandbox.store().exists());
    assert!(sandbox.ids("--store saved list mail").contains(&0));
}

#[test]
fn file_of_a_secret_has_at_most_64_kib() {
    let sandbox = Sandbox::with(&["a"]);
    std::fs::write(sandbox.path("largest"), vec![b'x'; 64 << 10]).unwrap();
    std::fs::write(sandbox.path("larger"), vec![b'x'; (64 << 10) + 1]).unwrap();
    let no_files: &[&str] = if cfg!(target_os = "linux") { &["/dev/zero"] } else { &[] };
    for file in no_files.iter().chain(&["larger"]) {
        for command in ["stats --connect tcp://127.0.0.1:1", "serve --tcp 127.0.0.1:0"] {
            let why = sandbox.fails(&format!("{command} --secret-file {file}"), 2);
            assert!(why.contains("more than 64 KiB") && why.contains(file), "{why}");
        }
    }
    let (_owner, _) = serve(&sandbox, "--socket a.sock --tcp 127.0.0.1:0 --secret-file largest");
}

/// A socket that may not be opened is no owner that is away: nothing comes of trying again.
#[test]
fn socket_that_may_not_be_opened_is_refused() {
    let sandbox = Sandbox::with(&["a"]);
    let (_owner, url) = serve(&sandbox, "");
    let mut stats = sandbox.command(&["stats", "--connect", &url]);
    if rustix::process::geteuid().is_root() {
        // Root may open every socket, so that it is another user who tries. The mode of the socket is 0600.
        std::fs::set_permissions(sandbox.dir.path(), Permissions::from_mode(0o755)).unwrap();
        stats.uid(OTHER_USER);
    } else {
        std::fs::set_permissions(socket(&sandbox), Permissions::from_mode(0o000)).unwrap();
    }
    let Ok(done) = stats.output() else { return };
    let why = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(4), "{why}");
    assert!(why.contains("is refused") && why.contains("Permission denied"), "{why}");
    assert!(why.contains("--trust-user") && !why.contains("try again"), "{why}");
}

/// Only root can start the owner as another user.
#[test]
fn owner_of_another_user_is_refused_unless_trust_user_names_it() {
    let sandbox = Sandbox::with(&["a"]);
    let why = sandbox.fails("stats --trust-user 12345", 2);
    assert!(why.contains("--trust-user needs --connect"), "{why}");
    for path in [sandbox.dir.path().to_owned(), sandbox.store()] {
        if std::os::unix::fs::chown(path, Some(OTHER_USER), None).is_err() {
            return;
        }
    }
    let as_other = |word: &str| {
        let mut command = sandbox.command(&[word]);
        command.uid(OTHER_USER).stdin(Stdio::null());
        command
    };
    // The program may be in a folder of root.
    if !as_other("--version").output().is_ok_and(|done| done.status.success()) {
        return;
    }
    let mut owner = Running::start(as_other("serve"));
    let line = owner.prints("serving ");
    let (_, url) = line.rsplit_once(" at ").unwrap();
    for other in ["", " --trust-user 54321"] {
        let why = sandbox.fails(&format!("stats --connect {url}{other}"), 4);
        assert!(why.contains("belongs to user 12345") && why.contains("--trust-user"), "{why}");
    }
    sandbox.ok(&format!("put mail b --connect {url} --trust-user 12345"));
    // The user of the file is trusted without it.
    assert_eq!(sandbox.ids("list mail"), [0, 1]);
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
}

#[test]
fn links_of_a_served_file_find_its_socket() {
    let sandbox = Sandbox::with(&["a"]);
    let (mut owner, _) = serve(&sandbox, "");
    let (symbolic, hard) = (sandbox.path("symbolic"), sandbox.path("hard"));
    std::os::unix::fs::symlink(sandbox.store(), &symbolic).unwrap();
    std::fs::hard_link(sandbox.store(), &hard).unwrap();
    for link in [symbolic, hard] {
        let mut command = sandbox.command(&["put", "mail", "b"]);
        let output = command.env("TUBEWELL_STORE", &link).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", link.display());
    }
    assert_eq!(sandbox.ids("list mail"), [0, 1, 2]);
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
}

/// Regression: a link beside the file of another user led a command of root to any other socket.
#[test]
fn socket_that_is_a_symbolic_link_is_not_used() {
    let (sandbox, other) = (Sandbox::with(&["a"]), Sandbox::with(&["b"]));
    let (mut owner, _) = serve(&other, "");
    std::os::unix::fs::symlink(socket(&other), socket(&sandbox)).unwrap();
    let refused = sandbox.command(&["pop", "mail"]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("symbolic link"), "{text}");
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
}
