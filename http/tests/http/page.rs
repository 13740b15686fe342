//! The files of the dashboard.

use super::client::{Answer, Served};

fn header(answer: &Answer, name: &str) -> String {
    let prefix = format!("{name}: ");
    let found = answer.headers.iter().find_map(|line| {
        let is_it = line.to_lowercase().starts_with(&prefix);
        is_it.then(|| line[prefix.len()..].to_owned())
    });
    found.unwrap_or_default()
}

#[test]
fn files_of_the_page_are_served_with_their_policy() {
    let served = Served::new();
    let kinds = [
        ("/", "text/html"),
        ("/page/app.js", "text/javascript"),
        ("/page/pages/tube.js", "text/javascript"),
        ("/page/style.css", "text/css"),
    ];
    for (path, kind) in kinds {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(header(&answer, "content-type").starts_with(kind), "{path}");
        let policy = header(&answer, "content-security-policy");
        assert!(policy.contains("script-src 'self'; style-src 'self'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert_eq!(header(&answer, "cache-control"), "no-cache");
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    }
    let refused = served.get("/v1/tubes");
    assert_eq!(header(&refused, "content-security-policy"), "default-src 'none'");
    for path in ["/page/", "/page/index.html", "/page/../Cargo.toml", "/page/%2e%2e/Cargo.toml"] {
        assert_eq!(served.get(path).refused(404), "unknown_call", "{path}");
    }
}

#[test]
fn file_that_the_browser_has_is_not_sent_again() {
    let served = Served::new();
    let first = served.get("/page/style.css");
    let tag = header(&first, "etag");
    let with = |known: &str| {
        served.call("GET", "/page/style.css", &[&format!("If-None-Match: {known}")], b"")
    };
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
        let answer = with(&known);
        assert_eq!((answer.status, answer.content.len()), (304, 0), "{known}");
        assert_eq!(header(&answer, "etag"), tag);
    }
    assert_eq!(with("\"other\"").content, first.content);
}

#[test]
fn browser_asks_for_the_files_of_a_version_once() {
    let served = Served::new();
    let page = String::from_utf8(served.get("/").content).unwrap();
    let named: Vec<&str> = page.split('"').filter(|text| text.starts_with("page/")).collect();
    assert!(named.len() > 15, "{page}");
    for name in named {
        let file = served.get(&format!("/{name}"));
        assert_eq!(file.status, 200, "{name}");
        assert_eq!(header(&file, "cache-control"), "public, max-age=31536000, immutable", "{name}");
        let (folder, path) = name["page/".len()..].split_once('/').unwrap();
        assert_eq!(served.get(&format!("/page/{path}")).content, file.content);
        // A page of another version has other files.
        let other = format!("/page/{}0/{path}", &folder[..folder.len() - 1]);
        if !folder.ends_with('0') {
            assert_eq!(served.get(&other).refused(404), "unknown_call");
        }
    }
}

#[test]
fn page_is_there_without_the_token_and_its_data_is_not() {
    let served = Served::with(|options| options.token("0123456789abcdef"));
    assert_eq!(served.get("/").status, 200);
    assert_eq!(served.get("/page/app.js").status, 200);
    for path in ["/v1/tubes", "/v1/events", "/metrics", "/pages", "//", "/page"] {
        assert_eq!(served.get(path).refused(401), "wrong_token", "{path}");
    }
    assert_eq!(served.post("/", "").refused(401), "wrong_token");
}

#[test]
fn page_is_refused_to_other_hosts_and_opened_by_links() {
    let served = Served::new();
    let other = served.call("GET", "/", &["Host: evil.example"], b"");
    assert_eq!(other.refused(421), "wrong_host");
    let cross = "Sec-Fetch-Site: cross-site";
    let link = served.call("GET", "/", &[cross, "Sec-Fetch-Mode: navigate"], b"");
    assert_eq!(link.status, 200);
    for (path, mode) in [("/page/app.js", "no-cors"), ("/", "cors"), ("/v1/tubes", "navigate")] {
        let mode = format!("Sec-Fetch-Mode: {mode}");
        let refused = served.call("GET", path, &[cross, &mode], b"");
        assert_eq!(refused.refused(403), "wrong_origin", "{path}");
    }
}
