//! The failure group of an error: the name of its type and of its variant, or of one of its sources.
//!
//! All names are of the code of the program, so that the groups are as few as its errors. Text that an
//! error has from elsewhere, such as a message or a URL, is never a group.

use std::error::Error as StdError;
use std::fmt::{self, Debug, Write};

/// The group of an error of which nothing is known.
pub(super) const UNKNOWN: &str = "Error";

/// Names that say nothing of the cause: those of types in many crates, and of parts of `io::Error`.
const SAYS_NOTHING: [&str; 12] =
    ["", UNKNOWN, "Box", "Arc", "Rc", "Report", "Kind", "Os", "Custom", "Inner", "Repr", "Context"];

/// The crates whose errors stand for those of other crates.
const WRAPPERS: [&str; 7] = ["alloc", "core", "std", "anyhow", "eyre", "color_eyre", "dyn core"];

/// The most bytes of a name, and the most digits in it. Otherwise it may be a text with a number.
const NAME_MAX: usize = 64;
const DIGITS_MAX: usize = 3;

/// How much of an error is read.
const READ_MAX: usize = 1024;

/// How many sources of an error are looked at.
const SOURCES_MAX: usize = 32;

/// The failure group of an error whose type has this path.
pub(super) fn group_of<E: StdError + ?Sized>(path: &str, error: &E) -> String {
    let of_type = Some(type_of(path)).filter(|name| !SAYS_NOTHING.contains(name));
    let text = beginning_of(error);
    match (of_type, name_in(&text)) {
        (Some(name), Some(variant)) if name != variant => format!("{name}::{variant}"),
        (Some(name), _) | (None, Some(name)) => name.to_owned(),
        (None, None) => name_of_source(error.source()).unwrap_or_else(|| group_of_crate(path)),
    }
}

/// The name of a type without its path and its parameters.
fn type_of(path: &str) -> &str {
    let path = path.trim_start_matches('&');
    let path = path.split(['<', '+']).next().unwrap_or(path).trim_end();
    path.rsplit("::").next().unwrap_or(path)
}

/// The name of the first source that has one.
fn name_of_source(mut source: Option<&(dyn StdError + 'static)>) -> Option<String> {
    for _ in 0..SOURCES_MAX {
        let error = source?;
        if let Some(name) = name_in(&beginning_of(error)) {
            return Some(name.to_owned());
        }
        source = error.source();
    }
    None
}

/// The group of an error that has no name but that of its crate.
fn group_of_crate(path: &str) -> String {
    match path.split_once("::") {
        Some((name, _)) if !WRAPPERS.contains(&name) => format!("{name}::{UNKNOWN}"),
        _ => UNKNOWN.to_owned(),
    }
}

/// The variant or the type at the beginning of the `Debug` text of an error, as derived. An error of
/// the crates `anyhow` and `eyre` has that of its cause only in the alternate form.
fn name_in(text: &str) -> Option<&str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let path = &text[..text.find(|c| !is_of_path(c)).unwrap_or(text.len())];
    let rest = &text[path.len()..];
    let is_derived = ["(", " {", ",", "\n"].iter().any(|begin| rest.starts_with(begin));
    if !is_derived && !rest.is_empty() {
        return None;
    }
    let name = path.rsplit("::").next().unwrap_or(path);
    if SAYS_NOTHING.contains(&name) {
        // Such as `Os { code: 2, kind: NotFound, .. }` and `Kind(NotFound)`.
        let in_it = match rest.strip_prefix('(') {
            Some(rest) => rest.trim_start(),
            None => rest.split_once("\n    kind: ")?.1,
        };
        return name_in(in_it);
    }
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.len() <= NAME_MAX
        && digits <= DIGITS_MAX;
    is_name.then_some(name)
}

/// The beginning of the `Debug` text of an error.
fn beginning_of<E: Debug + ?Sized>(error: &E) -> String {
    let mut beginning = Beginning(String::new());
    // Fails once there is enough.
    let _ = write!(beginning, "{error:#?}");
    beginning.0
}

struct Beginning(String);

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(READ_MAX - self.0.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::any::type_name;
    use std::io;

    use super::*;
    use crate::Error;

    #[derive(Debug, thiserror::Error)]
    #[allow(dead_code, reason = "the names count")]
    enum PageError {
        #[error("no answer within {0} s")]
        Timeout(u32),
        #[error("not found")]
        NotFound,
        #[error("{url}: {why}")]
        Refused { url: String, why: String },
        #[error(transparent)]
        Read(#[from] io::Error),
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the page cannot be stored")]
    struct StorePage(#[source] io::Error);

    fn typed<E: StdError>(error: E) -> String {
        group_of(type_name::<E>(), &error)
    }

    fn boxed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> String {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        group_of(type_name::<Box<dyn StdError + Send + Sync>>(), &*error)
    }

    fn not_found() -> io::Error {
        io::Error::from(io::ErrorKind::NotFound)
    }

    #[test]
    fn groups_tell_the_variants_of_an_error_apart() {
        let refused = || PageError::Refused { url: "http://a".into(), why: "no".into() };
        for (error, of_type, of_box) in [
            (PageError::Timeout(7), "PageError::Timeout", "Timeout"),
            (PageError::NotFound, "PageError::NotFound", "NotFound"),
            (refused(), "PageError::Refused", "Refused"),
            (PageError::Read(not_found()), "PageError::Read", "Read"),
        ] {
            assert_eq!(typed(error), of_type);
            let error = match of_box {
                "Timeout" => PageError::Timeout(8),
                "NotFound" => PageError::NotFound,
                "Refused" => refused(),
                _ => PageError::Read(not_found()),
            };
            assert_eq!(boxed(error), of_box);
        }
        assert_eq!(typed(StorePage(not_found())), "StorePage");
        assert_eq!(boxed(StorePage(not_found())), "StorePage");
    }

    #[test]
    fn groups_tell_errors_of_stores_and_of_the_system_apart() {
        let full = || Error::DiskFull { path: "/data".into() };
        assert_eq!((typed(full()), boxed(full())), ("DiskFull".into(), "DiskFull".into()));
        assert_eq!(boxed(Error::Closed), "Closed");
        let of_system = io::Error::from_raw_os_error(2);
        assert_eq!((typed(of_system), boxed(not_found())), ("NotFound".into(), "NotFound".into()));
        let custom = || io::Error::new(io::ErrorKind::TimedOut, "example.org/17");
        assert_eq!((typed(custom()), boxed(custom())), ("TimedOut".into(), "TimedOut".into()));
    }

    #[test]
    fn texts_are_not_groups() {
        struct Text(&'static str);
        impl Debug for Text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
        impl fmt::Display for Text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
        impl StdError for Text {}
        for text in [
            "",
            "page 17 is gone",
            "Page is gone",
            "timeout",
            "Job1234",
            "\"Quoted\"",
            "Zürich",
            "Ä",
            "Error",
            "Error(\"x\")",
            "https://example.org",
        ] {
            assert_eq!(boxed(Text(text)), "Error", "{text:?}");
            assert_eq!(typed(Text(text)), "Text", "{text:?}");
        }
        let long: &'static str = Box::leak("A".repeat(65).into_boxed_str());
        assert_eq!((boxed(Text(long)), boxed("a text")), ("Error".into(), "Error".into()));
    }

    /// As `anyhow` wraps it: `Debug` is the text, and in the alternate form that of the cause.
    #[test]
    fn group_of_a_wrapped_error_is_that_of_its_cause() {
        struct Wrapped(PageError);
        impl Debug for Wrapped {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if f.alternate() { Debug::fmt(&self.0, f) } else { write!(f, "{}", self.0) }
            }
        }
        impl fmt::Display for Wrapped {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl StdError for Wrapped {}
        /// As its errors with a context are.
        #[derive(Debug, thiserror::Error)]
        #[error("{context}")]
        struct Error {
            context: String,
            source: PageError,
        }
        let group = |error: PageError| group_of("anyhow::Error", &Wrapped(error));
        assert_eq!(group(PageError::Timeout(1)), "Timeout");
        assert_eq!(group(PageError::NotFound), "NotFound");
        let with_context = Error { context: "page 7".into(), source: PageError::NotFound };
        assert_eq!(group_of("anyhow::Error", &with_context), "NotFound");
    }

    #[test]
    fn little_is_read_of_a_large_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("large")]
        struct Large(#[allow(dead_code, reason = "its text is long")] Vec<u8>);
        let large = Large(vec![7; 1 << 20]);
        assert_eq!(beginning_of(&large).len(), READ_MAX);
        assert_eq!(typed(large), "Large");
    }

    #[test]
    fn crate_is_the_group_of_an_error_without_another_name() {
        #[derive(Debug, thiserror::Error)]
        #[error("x")]
        struct Error;
        assert_eq!(group_of("serde_json::error::Error", &Error), "serde_json::Error");
        for path in ["anyhow::Error", "alloc::boxed::Box<dyn core::error::Error>", "Error"] {
            assert_eq!(group_of(path, &Error), "Error");
        }
    }
}
