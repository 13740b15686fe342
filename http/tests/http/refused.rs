//! Who may call.

use tubewell::{Error, Store};
use tubewell_http::{HttpOptions, serve};

use super::client::{Answer, Served};

const TOKEN: &str = "0123456789abcdef";

#[test]
fn address_that_others_reach_needs_a_token() {
    let store = Store::in_memory().unwrap();
    for options in [
        HttpOptions::new("0.0.0.0:0"),
        HttpOptions::new("[::]:0"),
        HttpOptions::new("127.0.0.1:0").token("short"),
        HttpOptions::new("127.0.0.1:0").token("0123456789abcde ä"),
        HttpOptions::new("localhost"),
        HttpOptions::new("127.0.0.1:0").host("queue example"),
        HttpOptions::new("127.0.0.1:0").host("https://queue.example"),
        HttpOptions::new("127.0.0.1:0").host(""),
        HttpOptions::new("nowhere.invalid:1"),
    ] {
        let refused = serve(&store, options).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
    }
    serve(&store, HttpOptions::new("0.0.0.0:0").token(TOKEN)).unwrap().stop();
    let server = serve(&store, HttpOptions::new("127.0.0.1:0")).unwrap();
    let again = serve(&store, HttpOptions::new(server.address().to_string())).err();
    assert!(matches!(again, Some(Error::AddressInUse { .. })), "{again:?}");
}

#[test]
fn calls_without_the_token_are_refused() {
    let served = Served::with(|options| options.token(TOKEN));
    let call = |headers: &[&str]| served.call("GET", "/v1/tubes", headers, b"");
    for wrong in ["", "Bearer ", "Bearer 0123456789abcdeF", "Basic 0123456789abcdef", TOKEN] {
        assert_eq!(call(&[&format!("Authorization: {wrong}")]).refused(401), "wrong_token");
    }
    assert_eq!(call(&[]).refused(401), "wrong_token");
    let right = format!("Authorization: Bearer {TOKEN}");
    call(&[&right]).expect(200);
    call(&[&format!("Authorization: bearer {TOKEN}")]).expect(200);
    assert_eq!(call(&[&right, &right]).refused(401), "wrong_token");
    let asks = |line: &String| line.eq_ignore_ascii_case("www-authenticate: bearer");
    assert!(call(&[]).headers.iter().any(asks));
    // Whoever has the token may name the server as it is known to him.
    call(&[&right, "Host: queue.example"]).expect(200);
}

/// A page of another origin asks before it sends what a form could not, and gets no leave.
#[test]
fn other_origins_get_no_leave_to_call() {
    let served = Served::new();
    let allows = |answer: &Answer| {
        answer.headers.iter().any(|line| line.to_lowercase().starts_with("access-control-"))
    };
    let origin = "Origin: https://evil.example";
    let asks = [
        origin,
        "Access-Control-Request-Method: DELETE",
        "Access-Control-Request-Headers: authorization,tubewell-page",
    ];
    for path in ["/v1/tubes/jobs", "/v1/tasks/1", "/"] {
        let answer = served.call("OPTIONS", path, &asks, b"");
        assert!(answer.status >= 400 && !allows(&answer), "{path}: {}", answer.status);
    }
    for path in ["/v1/tubes", "/openapi.json", "/metrics", "/"] {
        assert!(!allows(&served.call("GET", path, &[origin], b"")), "{path}");
    }
}

/// A page whose name was made to lead to this machine names that name as the host.
#[test]
fn calls_that_name_another_host_are_refused() {
    let served = Served::with(|options| options.host("queue.example"));
    let port = served.address().port();
    let call = |host: &str| served.call("GET", "/v1/tubes", &[&format!("Host: {host}")], b"");
    for own in ["127.0.0.1", "localhost", "LOCALHOST"] {
        call(&format!("{own}:{port}")).expect(200);
    }
    call("queue.example").expect(200);
    call("Queue.Example:8080").expect(200);
    for other in ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "localhost:1"] {
        assert_eq!(call(other).refused(421), "wrong_host", "{other}");
    }
    let twice = served.call("GET", "/v1/tubes", &["Host: localhost", "Host: evil"], b"");
    assert_eq!(twice.refused(421), "wrong_host");
}

#[test]
fn pages_of_other_sites_are_refused() {
    let served = Served::new();
    let own = format!("Origin: http://{}", served.address());
    let put = |headers: &[&str]| served.call("POST", "/v1/tubes/jobs/tasks", headers, b"x");
    for other in ["Origin: http://evil.example", "Origin: null", "Origin: http://localhost:1"] {
        assert_eq!(put(&[other, "Tubewell-Page: 1"]).refused(403), "wrong_origin", "{other}");
        assert_eq!(served.call("GET", "/v1/tubes", &[other], b"").refused(403), "wrong_origin");
    }
    let cross = put(&["Sec-Fetch-Site: cross-site", "Tubewell-Page: 1"]);
    assert_eq!(cross.refused(403), "wrong_origin");
    assert_eq!(put(&[&own]).refused(403), "no_page_header");
    assert_eq!(put(&["Sec-Fetch-Site: same-origin"]).refused(403), "no_page_header");
    put(&[&own, "Sec-Fetch-Site: same-origin", "Tubewell-Page: 1"]).expect(201);
    assert_eq!(served.store.statistics().unwrap()["jobs"].tasks.total, 1);
}

#[test]
fn server_that_only_reads_changes_nothing() {
    let served = Served::with(|options| options.read_only(true));
    served.store.tube("jobs").unwrap().put("x").unwrap();
    for (method, path) in [
        ("POST", "/v1/tubes/jobs/tasks"),
        ("POST", "/v1/tubes/jobs/take?hold=1s"),
        ("POST", "/v1/tasks/0/bury"),
        ("DELETE", "/v1/tasks/0"),
        ("PUT", "/v1/tubes/new"),
        ("DELETE", "/v1/tubes/jobs"),
        ("PATCH", "/v1/tubes/jobs"),
    ] {
        assert_eq!(served.call(method, path, &[], b"").refused(403), "read_only", "{path}");
    }
    served.get("/v1/tasks/0").expect(200);
}

/// A page that is reached by another name than the address would show the store, and change nothing.
#[test]
fn page_of_a_server_with_a_token_may_have_any_name() {
    let served = Served::with(|options| options.token(TOKEN));
    let token = format!("Authorization: Bearer {TOKEN}");
    let put = |host: &str, origin: &str, site: &str| {
        let headers = [
            &token,
            &format!("Host: {host}"),
            &format!("Origin: {origin}"),
            &format!("Sec-Fetch-Site: {site}"),
            "Tubewell-Page: 1",
        ];
        served.call("POST", "/v1/tubes/jobs/tasks", &headers, b"x")
    };
    put("queue.example", "https://queue.example", "same-origin").expect(201);
    let foreign = put("queue.example", "https://evil.example", "same-origin");
    assert_eq!(foreign.refused(403), "wrong_origin");
    let foreign = put("queue.example", "https://queue.example", "cross-site");
    assert_eq!(foreign.refused(403), "wrong_origin");
}

/// Bodies of tasks would be on the disk of the browser.
#[test]
fn answers_are_not_to_be_kept() {
    let served = Served::new();
    let is_kept = |path: &str| {
        let answer = served.get(path);
        !answer.headers.iter().any(|line| line.eq_ignore_ascii_case("cache-control: no-store"))
    };
    assert_eq!(["/v1/tasks", "/v1/tubes/none", "/"].map(is_kept), [false, false, true]);
}
