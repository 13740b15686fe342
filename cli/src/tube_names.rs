//! Names of tubes for the completion of a command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap_complete::CompletionCandidate;
use tubewell::StoreOptions;

use crate::owner;

/// The tubes whose names begin with what is typed.
///
/// None if the store is in use and not served, or cannot be read: an error would be printed into the
/// command line that the user is typing. The file is only read.
pub fn complete(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(typed), Some(store)) = (typed.to_str(), store()) else { return Vec::new() };
    served(&store)
        .or_else(|| {
            let tubes = StoreOptions::default().read_tubes(&store).ok()?;
            Some(tubes.into_iter().map(|tube| tube.name).collect())
        })
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.starts_with(typed) && is_one_word(name))
        .map(CompletionCandidate::new)
        .collect()
}

/// The tubes as the owner of the file knows them, if it serves the store.
fn served(store: &Path) -> Option<Vec<String>> {
    let store = owner::connect_beside(store)?.ok()?;
    Some(store.tubes().ok()?.into_iter().map(|tube| tube.name).collect())
}

/// Not every shell quotes the words that it is given.
fn is_one_word(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_alphanumeric() || "-_.,:/@%+=".contains(c))
}

/// The store that the typed words name, or else the environment.
fn store() -> Option<PathBuf> {
    // The script of the shell puts the typed words after the first `--`.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let named = named_store(words).or_else(|| std::env::var_os("TUBEWELL_STORE"))?;
    Some(named).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The value of `--store` or `-s`, as a shell hands over its words: not yet expanded, and in bash
/// with `=` as a word of its own.
fn named_store(words: impl Iterator<Item = OsString>) -> Option<OsString> {
    let mut words = words.take_while(|word| word != "--");
    let mut named = None;
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else { continue };
        let value = match text {
            "--store" | "-s" => words.next().and_then(|word| match word.to_str() {
                Some("=") => words.next(),
                _ => Some(word),
            }),
            _ => text
                .strip_prefix("--store=")
                .or_else(|| text.strip_prefix("-s").filter(|_| !text.starts_with("--")))
                .map(OsString::from),
        };
        named = value.or(named);
    }
    named.map(expanded)
}

/// A word without its quotes, and with the home directory for `~`.
fn expanded(word: OsString) -> OsString {
    let Some(text) = word.to_str() else { return word };
    let text = ['"', '\''].into_iter().fold(text, |text, quote| {
        text.strip_prefix(quote).map_or(text, |text| text.strip_suffix(quote).unwrap_or(text))
    });
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest).into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_one_word, named_store};

    #[test]
    fn store_is_found_among_typed_words() {
        for (typed, expected) in [
            ("tubewell --store a put", Some("a")),
            ("tubewell put --store = a ma", Some("a")),
            ("tubewell --store=a put", Some("a")),
            ("tubewell -s a put", Some("a")),
            ("tubewell -sa put", Some("a")),
            ("tubewell -s 'a' put", Some("a")),
            ("tubewell -s \"a\" put", Some("a")),
            ("tubewell put ma", None),
            ("tubewell work ma -- ls --store a", None),
            ("tubewell put --store", None),
            ("tubewell -s a put --store", Some("a")),
        ] {
            let words = typed.split(' ').map(Into::into);
            assert_eq!(named_store(words), expected.map(Into::into), "{typed}");
        }
    }

    #[test]
    fn names_that_need_quotes_are_not_offered() {
        for (name, offered) in [("mail", true), ("a:b/c", true), ("größe", true), ("a b", false)]
        {
            assert_eq!(is_one_word(name), offered, "{name}");
        }
        assert!(!is_one_word("-x") && !is_one_word("a'b") && !is_one_word("$x"));
    }
}
