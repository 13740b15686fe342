//! Standard input, split into lines on a thread of its own: reading goes on while a batch is stored.

use std::io::{BufRead, BufReader, ErrorKind, stdin};
use std::sync::mpsc::SyncSender;

use tubewell::MAX_BODY;

use crate::failure::{CommandResult, Exit, Failure};

const BUFFER: usize = 256 << 10;
/// The longest line: the largest body with every byte escaped, as in `\u0000`, and its options.
const MAX_LINE: usize = 6 * MAX_BODY + (64 << 10);

/// What the import waits for.
pub enum Input {
    Lines(Chunk),
    /// The end, and a last line without a line end: a signal to the writer may have cut it off. It comes
    /// with the end, so that it is not stored before it is known that nothing follows.
    End(Option<Chunk>),
    /// The line of this number is longer than any task.
    TooLong(u64),
    Broken(Failure),
    Signal(u8),
}

/// Consecutive lines, without their line ends.
#[derive(Default)]
pub struct Chunk {
    /// The number of the first line.
    pub first: u64,
    pub lines: Vec<Vec<u8>>,
    pub bytes: u64,
}

/// The length of standard input, if it is a file.
#[cfg(unix)]
pub fn input_length() -> Option<u64> {
    use std::os::fd::AsFd;
    let file = std::fs::File::from(stdin().as_fd().try_clone_to_owned().ok()?);
    file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len())
}

#[cfg(not(unix))]
pub fn input_length() -> Option<u64> {
    None
}

pub fn read_in_background(to: SyncSender<Input>) -> CommandResult {
    // The send fails once the import has ended.
    let read = move || {
        let input = BufReader::with_capacity(BUFFER, stdin().lock());
        drop(split_lines(input, |event| to.send(event)));
    };
    let thread = std::thread::Builder::new().name("lines".into()).spawn(read);
    let failed = |error| Failure::new(Exit::Failed, format!("cannot start a thread: {error}"));
    thread.map(drop).map_err(failed)
}

/// Sends the lines of the input, then how it ended, until `send` fails.
pub fn split_lines<E>(
    mut input: impl BufRead,
    mut send: impl FnMut(Input) -> Result<(), E>,
) -> Result<(), E> {
    let mut line = Vec::new();
    let mut first = 1;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return send(Input::Broken(Failure::input(&error))),
        };
        let read = bytes.len();
        if read == 0 {
            let last = (!line.is_empty()).then(|| Chunk { first, lines: vec![line], bytes: 0 });
            return send(Input::End(last));
        }
        let mut chunk = Chunk { first, lines: Vec::new(), bytes: read as u64 };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                chunk.lines.push(without_line_end(std::mem::take(&mut line)));
            }
        }
        input.consume(read);
        first += chunk.lines.len() as u64;
        // Each chunk is sent before the next read, which may block for a long time.
        send(Input::Lines(chunk))?;
        if line.len() > MAX_LINE {
            return send(Input::TooLong(first));
        }
    }
}

fn without_line_end(mut line: Vec<u8>) -> Vec<u8> {
    line.pop();
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn last_line(input: &[u8]) -> Option<(u64, Vec<Vec<u8>>)> {
        let mut end = None;
        let sent: Result<(), Infallible> = split_lines(input, |event| {
            if let Input::End(last) = event {
                end = Some(last);
            }
            Ok(())
        });
        sent.unwrap_or_else(|never| match never {});
        end.expect("no end").map(|last| (last.first, last.lines))
    }

    #[test]
    fn line_that_may_be_cut_off_comes_with_the_end() {
        assert_eq!(last_line(b"one\ntwo\nhalf a li"), Some((3, vec![b"half a li".to_vec()])));
        assert_eq!(last_line(b"one\r"), Some((1, vec![b"one\r".to_vec()])));
        assert_eq!(last_line(b"one\ntwo\n"), None);
        assert_eq!(last_line(b""), None);
    }
}
