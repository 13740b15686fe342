//! Bodies and results from arguments, standard input and files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, stdin};
use std::path::Path;

use tubewell::MAX_BODY;

use crate::args::ResultSource;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::size;

/// The result that the options name, if they name one.
pub fn of_result(source: &ResultSource) -> CommandResult<Option<Vec<u8>>> {
    of_option("result", source.result.as_deref(), source.result_file.as_deref())
}

/// The bytes that one of two options names, if it is given: a text, or a file.
pub fn of_option(
    what: &str,
    text: Option<&OsStr>,
    file: Option<&Path>,
) -> CommandResult<Option<Vec<u8>>> {
    match (text, file) {
        (None, None) => Ok(None),
        (Some(text), _) => of_argument(what, text).map(Some),
        (None, Some(file)) if file.as_os_str() == "-" => of_stdin(what).map(Some),
        (None, Some(file)) => of_file(what, file).map(Some),
    }
}

/// The bytes of an argument. On Unix they need not be UTF-8.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on other systems")]
pub fn of_argument(_what: &str, argument: &OsStr) -> CommandResult<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    Ok(argument.as_bytes().to_vec())
}

#[cfg(not(unix))]
pub fn of_argument(what: &str, argument: &OsStr) -> CommandResult<Vec<u8>> {
    let text = argument.to_str();
    let text = text.ok_or_else(|| Failure::usage(format!("the {what} is not valid Unicode")))?;
    Ok(text.as_bytes().to_vec())
}

pub fn of_stdin(what: &str) -> CommandResult<Vec<u8>> {
    limited(what, stdin()).map_err(|error| Failure::input(&error))?
}

fn of_file(what: &str, path: &Path) -> CommandResult<Vec<u8>> {
    let read = File::open(path).and_then(|file| limited(what, file));
    let cannot_read = |error: io::Error| {
        let why = format!("cannot read the {what} from {}: {error}", path.display());
        Failure::new(Exit::Failed, why)
    };
    read.map_err(cannot_read)?
}

/// Reads to the end, or to the limit of a body.
fn limited(what: &str, from: impl Read) -> io::Result<CommandResult<Vec<u8>>> {
    let mut bytes = Vec::new();
    let limit = MAX_BODY as u64;
    from.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_BODY {
        return Ok(Ok(bytes));
    }
    let why = format!("the {what} is larger than {}", size(limit));
    Ok(Err(Failure::usage(why).hint("write it to a file, and use the name of the file instead")))
}
