//! The dashboard: a page, its scripts and its styles, which have no data of the store. They call the API.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::problem::{Answer, Problem};

/// What the page may load and call: this server only. No script and no style is in the text of the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// How long a browser keeps a file whose address has its version: a year, without asking again.
const LASTS: &str = "public, max-age=31536000, immutable";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/markdown; charset=utf-8";

struct File {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

macro_rules! file {
    ($name:literal, $kind:expr) => {
        File { name: $name, kind: $kind, content: include_bytes!(concat!("../page/", $name)) }
    };
}

const INDEX: File = file!("index.html", "text/html; charset=utf-8");

const FILES: &[File] = &[
    file!("style.css", STYLE),
    file!("app.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("bulk.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("dialogs.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("keys.js", SCRIPT),
    file!("live.js", SCRIPT),
    file!("tasks.js", SCRIPT),
    file!("ui.js", SCRIPT),
    file!("pages/failures.js", SCRIPT),
    file!("pages/schedules.js", SCRIPT),
    file!("pages/store.js", SCRIPT),
    file!("pages/task.js", SCRIPT),
    file!("pages/tube.js", SCRIPT),
    file!("pages/tubes.js", SCRIPT),
    file!("pages/workers.js", SCRIPT),
    file!("vendor/LICENSES.md", TEXT),
    file!("vendor/preact.js", SCRIPT),
    file!("vendor/uplot.css", STYLE),
    file!("vendor/uplot.js", SCRIPT),
];

/// Whether the path is one of the page, which is there without a token.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

/// The page itself. It names its files below the folder of this version, so that a browser need not ask for them again.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
        let text = String::from_utf8_lossy(INDEX.content);
        text.replace("\"page/", &format!("\"page/{}/", *VERSION)).into()
    });
    answer(&INDEX, TEXT.clone(), "no-cache", &headers)
}

/// One of the files that it loads.
pub(crate) async fn file(Path(path): Path<String>, headers: HeaderMap) -> Answer {
    let of_this_version = path.strip_prefix(&**VERSION).and_then(|path| path.strip_prefix('/'));
    let name = of_this_version.unwrap_or(&path);
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        let what = "the page has no such file in this version; load the page anew";
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown_call", what));
    };
    let lasts = if of_this_version.is_some() { LASTS } else { "no-cache" };
    Ok(answer(file, Bytes::from_static(file.content), lasts, &headers))
}

/// Differs whenever a file does.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    for file in FILES.iter().chain([&INDEX]) {
        file.content.hash(&mut hasher);
    }
    format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())
});

fn answer(file: &File, content: Bytes, lasts: &str, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", *VERSION);
    let about = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, lasts),
        (ETAG, &tag),
        (VARY, "accept-encoding"),
        (CONTENT_TYPE, file.kind),
    ];
    if is_known(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, content).into_response()
}

/// Whether the browser has the content already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that the page loads and that is not served would show nothing.
    #[test]
    fn files_of_the_page_are_those_of_its_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = Vec::new();
        for place in ["", "pages/", "vendor/"] {
            for entry in std::fs::read_dir(folder.join(place)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    found.push(format!("{place}{}", entry.file_name().to_str().unwrap()));
                }
            }
        }
        found.retain(|name| name != INDEX.name);
        found.sort();
        let mut served: Vec<_> = FILES.iter().map(|file| file.name).collect();
        served.sort_unstable();
        assert_eq!(served, found);
    }

    /// The policy of the page refuses these.
    #[test]
    fn page_has_no_script_and_no_style_in_its_text() {
        let page = std::str::from_utf8(INDEX.content).unwrap();
        for refused in ["<style", " style=", " onclick=", " onload=", "<script>"] {
            assert!(!page.contains(refused), "{refused}");
        }
    }
}
