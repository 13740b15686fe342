//! Addresses, secrets and the hello.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tubewell_wire::{
    Address, Client, ClientOptions, Limits, Reply, Server, ServerOptions, WireError,
};

use crate::raw::{HANDSHAKE, REFUSED, Raw, WELCOME, begin_handshake, frame, hello, welcome};
use crate::support::{
    Desk, Ears, NOT_NOW, ONCE, Place, SECRET, Serving, Words, ask, deadline, now, options,
    options_at, text,
};

fn connect(address: &Address, options: ClientOptions) -> Result<Client, WireError> {
    Client::connect(address, options, Arc::new(Ears::default()))
}

fn start(address: &Address, options: ServerOptions) -> Result<Server, WireError> {
    Server::start(address, options, Words(Arc::new(Desk::default())))
}

fn with_secret(secret: Option<&[u8]>) -> ClientOptions {
    ClientOptions { secret: secret.map(<[u8]>::to_vec), ..options() }
}

#[test]
fn nothing_at_the_address_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = Address::Tcp(listener.local_addr().unwrap());
    drop(listener);
    for address in [Place::new().address, free] {
        let error = connect(&address, options_at(&address)).unwrap_err();
        assert!(matches!(error, WireError::Io { .. }), "{error}");
    }
}

#[test]
fn tcp_needs_a_secret_on_both_sides() {
    let address = Place::tcp().address;
    for secret in [None, Some(Vec::new())] {
        let options = ServerOptions { secret, ..ServerOptions::default() };
        let error = start(&address, options).unwrap_err();
        assert!(matches!(error, WireError::SecretNeeded { .. }), "{error}");
    }
    let serving = Serving::start(&Place::tcp());
    for secret in [None, Some(&[][..])] {
        let error = connect(&serving.address, with_secret(secret)).unwrap_err();
        assert!(matches!(error, WireError::SecretNeeded { .. }), "{error}");
    }
}

#[test]
fn a_client_with_another_secret_is_refused() {
    let serving = Serving::start(&Place::tcp());
    let error = connect(&serving.address, with_secret(Some(b"another"))).unwrap_err();
    assert!(matches!(error, WireError::WrongSecret { .. }), "{error}");
    // One that sends something else: the refusal says what.
    for (first, reason, why) in [
        (begin_handshake(b"another").1, 2, "the client does not know the secret"),
        (frame(HANDSHAKE, 0, &[7; 48]), 2, "the client does not know the secret"),
        (hello(1, 1, b"me"), 2, "the server needs a secret, and the client has none"),
        (frame(HANDSHAKE, 0, &[7; 49]), 5, "longer than the limit"),
        (frame(WELCOME, 0, b""), 5, "the first frame is not a handshake"),
        ([begin_handshake(SECRET).1, hello(1, 1, b"me")].concat(), 5, "bytes behind the handshake"),
    ] {
        let mut raw = Raw::connect(&serving.address);
        raw.send(&first);
        let (kind, _, body) = raw.last().unwrap();
        assert_eq!((kind, body[0]), (REFUSED, reason));
        assert!(text(&body).contains(why), "{}", text(&body));
    }
    assert_eq!(serving.desk.log.lines(), [""; 0]);
}

#[test]
fn a_server_that_does_not_know_the_secret_is_refused() {
    let (another, short) = (frame(HANDSHAKE, 0, &[7; 48]), frame(HANDSHAKE, 0, b"short"));
    for answer in [another, short, welcome(1, 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let impostor = std::thread::spawn(move || {
            let mut raw = Raw::tcp(listener.accept().unwrap().0);
            raw.receive().unwrap();
            raw.send(&answer);
            assert_eq!(raw.receive(), None);
        });
        let error = connect(&address, options_at(&address)).unwrap_err();
        assert!(
            matches!(error, WireError::WrongSecret { .. } | WireError::Protocol { .. }),
            "{error}"
        );
        impostor.join().unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_unix_socket_may_ask_for_a_secret() {
    let place = Place::new();
    let options = ServerOptions { secret: Some(SECRET.to_vec()), ..ServerOptions::default() };
    let _server = start(&place.address, options).unwrap();
    let error = connect(&place.address, with_secret(None)).unwrap_err();
    assert!(matches!(error, WireError::SecretNeeded { .. }), "{error}");
    let error = connect(&place.address, with_secret(Some(b"another"))).unwrap_err();
    assert!(matches!(error, WireError::WrongSecret { .. }), "{error}");
    let client = connect(&place.address, with_secret(Some(SECRET))).unwrap();
    assert_eq!(ask(&client, "call"), "call");
    // If the client has one, the server must have it too.
    let place = Place::new();
    let _serving = Serving::start(&place);
    let error = connect(&place.address, with_secret(Some(SECRET))).unwrap_err();
    assert!(matches!(error, WireError::WrongSecret { .. }), "{error}");
}

#[test]
fn addresses_that_other_machines_reach_must_be_allowed() {
    let address: Address = "tcp://0.0.0.0:0".parse().unwrap();
    let options = ServerOptions { secret: Some(SECRET.to_vec()), ..ServerOptions::default() };
    let error = start(&address, options.clone()).unwrap_err();
    assert!(matches!(error, WireError::NotLoopback { .. }), "{error}");
    start(&address, ServerOptions { any_interface: true, ..options }).unwrap();
}

#[test]
fn a_port_in_use_is_refused() {
    let serving = Serving::start(&Place::tcp());
    let options = ServerOptions { secret: Some(SECRET.to_vec()), ..ServerOptions::default() };
    let error = start(&serving.address, options).unwrap_err();
    assert!(matches!(error, WireError::AddressInUse { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn a_socket_at_which_a_server_listens_is_not_replaced() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let error = start(&place.address, ServerOptions::default()).unwrap_err();
    assert!(matches!(error, WireError::AddressInUse { .. }), "{error}");
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
}

#[cfg(unix)]
#[test]
fn a_stale_socket_is_replaced_and_another_file_is_not() {
    let place = Place::new();
    drop(std::os::unix::net::UnixListener::bind(place.path()).unwrap());
    assert!(place.path().exists());
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
    drop(serving);
    std::fs::write(place.path(), "precious").unwrap();
    let error = start(&place.address, ServerOptions::default()).unwrap_err();
    assert!(matches!(error, WireError::NotASocket { .. }), "{error}");
    assert_eq!(std::fs::read(place.path()).unwrap(), b"precious");
}

#[cfg(unix)]
#[test]
fn a_socket_is_its_owners_alone_and_is_removed_at_the_end() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let serving = Serving::start(&place);
    let mode = std::fs::metadata(place.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 1);
    serving.server.stop();
    assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_stopping_server_leaves_the_socket_of_another_one() {
    let place = Place::new();
    let first = Serving::start(&place);
    std::fs::remove_file(place.path()).unwrap();
    let second = Serving::start(&place);
    first.server.stop();
    let (client, _) = second.client();
    assert_eq!(ask(&client, "call"), "call");
}

#[cfg(unix)]
#[test]
fn server_of_another_user_is_not_used() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    let place = Place::new();
    std::fs::set_permissions(place.folder(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "connect::listens_until_its_input_ends", "--ignored", "--nocapture"]);
    command.env("SOCKET", place.path()).uid(12345);
    // Only root can start it. For other users a test of the rule itself stands in.
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("listening")));
    // What the path says does not matter: its file may be given away, or be a link.
    std::os::unix::fs::chown(place.path(), Some(0), None).unwrap();
    // It does not answer, so a connection that is not refused runs out of time.
    let hurried = |trusted_user| {
        let connect_timeout = Duration::from_millis(50);
        connect(
            &place.address,
            ClientOptions { trusted_user, connect_timeout, ..options_at(&place.address) },
        )
    };
    let error = hurried(None).unwrap_err();
    assert!(matches!(error, WireError::WrongOwner { owner: 12345, .. }), "{error}");
    let error = hurried(Some(12345)).unwrap_err();
    assert!(matches!(error, WireError::Io { .. }), "{error}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// A server of the own user is used although the file of its socket is of another one.
#[cfg(target_os = "linux")]
#[test]
fn owner_of_the_socket_file_does_not_matter() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let _ = std::os::unix::fs::chown(place.path(), Some(12345), None);
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "call"), "call");
}

#[cfg(unix)]
#[test]
#[ignore = "it is the server of another user in the test above"]
fn listens_until_its_input_ends() {
    use std::io::Read;
    let Some(path) = std::env::var_os("SOCKET") else { return };
    let _listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    println!("listening");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_refusal_of_the_service_reaches_the_client() {
    let serving = Serving::start(&Place::tcp());
    for (text, is_temporary) in [("not today", false), (NOT_NOW, true)] {
        *serving.desk.refusal.lock().unwrap() = Some(text.to_owned());
        match connect(&serving.address, options_at(&serving.address)).unwrap_err() {
            WireError::Refused { why, temporary, .. } => {
                assert_eq!((why.as_str(), temporary), (text, is_temporary));
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_refusal_of_the_handler_ends_the_client() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let ears = Ears::default();
    *ears.refuse.lock().unwrap() = Some("not this one".to_owned());
    match Client::connect(&serving.address, options_at(&serving.address), Arc::new(ears))
        .unwrap_err()
    {
        WireError::Refused { why, .. } => assert_eq!(why, "not this one"),
        error => panic!("{error}"),
    }
    serving.desk.log.wait_for("disconnect", 1);
}

#[test]
fn hellos_and_welcomes_may_have_64_kib() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let ears = Arc::new(Ears::default());
    *ears.hello.lock().unwrap() = vec![b'h'; 64 * 1024];
    *serving.desk.welcome.lock().unwrap() = vec![b'w'; 64 * 1024];
    Client::connect(&place.address, options_at(&place.address), ears.clone()).unwrap();
    assert_eq!(ears.log.lines()[0].len(), "welcome ".len() + 64 * 1024);
    serving.desk.welcome.lock().unwrap().push(b'w');
    let error =
        Client::connect(&place.address, options_at(&place.address), ears.clone()).unwrap_err();
    assert!(error.to_string().contains("the welcome is longer than 64 KiB"), "{error}");
    ears.hello.lock().unwrap().push(b'h');
    let error = Client::connect(&place.address, options_at(&place.address), ears).unwrap_err();
    assert!(error.to_string().contains("the hello is longer than 64 KiB"), "{error}");
    // Both that were accepted are told apart from the one that was not.
    serving.desk.log.wait_for("disconnect", 2);
}

#[test]
fn versions_without_a_common_one_are_refused_by_name() {
    let place = Place::new();
    let serving = Serving::start(&place);
    for (lowest, highest, common) in [(2, 9, false), (0, 0, false), (9, 2, false), (0, 9, true)] {
        let mut raw = Raw::connect(&serving.address);
        raw.send(&hello(lowest, highest, b""));
        let (kind, _, body) = raw.receive().unwrap();
        if common {
            assert_eq!((kind, body[0]), (WELCOME, 1));
        } else {
            assert_eq!((kind, &body[..3]), (REFUSED, &[1, 1, 1][..]));
            let versions = format!("versions {lowest} to {highest}");
            assert!(text(&body).contains(&versions), "{}", text(&body));
            assert_eq!(raw.receive(), None);
        }
    }
}

#[test]
fn a_client_names_the_versions_of_a_newer_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let newer = std::thread::spawn(move || {
        let mut raw = Raw::tcp(listener.accept().unwrap().0);
        raw.receive().unwrap();
        let mut refusal = frame(REFUSED, 0, &[1, 7, 9]);
        refusal[4] = 7;
        raw.send(&refusal);
    });
    let error = connect(&address, options_at(&address)).unwrap_err();
    assert!(
        matches!(
            error,
            WireError::Version { their_lowest: 7, their_highest: 9, our_lowest: 1, .. }
        ),
        "{error}"
    );
    newer.join().unwrap();
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let options =
        ClientOptions { connect_timeout: Duration::from_millis(20), ..options_at(&address) };
    match connect(&address, options).unwrap_err() {
        WireError::Io { source, .. } => assert_eq!(source.kind(), std::io::ErrorKind::TimedOut),
        error => panic!("{error}"),
    }
}

#[test]
fn a_hello_that_takes_too_long_closes_the_connection() {
    let handshake = begin_handshake(SECRET).1;
    for begin in [Vec::new(), vec![0], handshake[..61].to_vec(), handshake] {
        let limits = Limits { hello: Duration::from_millis(20), ..Limits::default() };
        let serving = Serving::with(&Place::tcp(), limits);
        let mut raw = Raw::connect(&serving.address);
        raw.send(&begin);
        assert!(raw.last().is_none_or(|frame| frame.0 == HANDSHAKE));
        // One that has said hello may be silent. On a busy machine it may need several attempts.
        let end = deadline();
        let client = loop {
            match connect(&serving.address, options_at(&serving.address)) {
                Ok(client) => break client,
                Err(error) => assert!(now() < end, "{error}"),
            }
        };
        let pending = client.call(b"later:name".to_vec(), ONCE);
        serving.desk.log.wait_for("pending name", 1);
        let mut raw = Raw::connect(&serving.address);
        assert!(raw.last().is_none());
        serving.desk.finish("name", Reply::new(b"here".to_vec()));
        assert_eq!(pending.wait().unwrap(), b"here");
    }
}
