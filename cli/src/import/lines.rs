//! Standard input cut into lines, on a thread of its own: reading goes on while a batch is stored.

use std::io::{BufRead, BufReader, ErrorKind, stdin};
use std::sync::mpsc::SyncSender;

use tubewell::MAX_BODY;

use crate::failure::{Exit, Failure, Outcome};

const BUFFER: usize = 256 << 10;
/// A line may hold the largest body with every byte of it spelt out, as `\u0000` is, and its options.
const LONGEST: usize = 6 * MAX_BODY + (64 << 10);

/// What the import is told.
pub enum Input {
    Lines(Chunk),
    End,
    /// The line of this number has no end in sight.
    TooLong(u64),
    Broken(Failure),
    Signal(u8),
}

/// Lines as they were read, without their ends.
#[derive(Default)]
pub struct Chunk {
    /// The number of the first one.
    pub first: u64,
    pub lines: Vec<Vec<u8>>,
    pub bytes: u64,
}

/// The length of the input, if it is a file.
#[cfg(unix)]
pub fn length() -> Option<u64> {
    use std::os::fd::AsFd;
    let file = std::fs::File::from(stdin().as_fd().try_clone_to_owned().ok()?);
    file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len())
}

#[cfg(not(unix))]
pub fn length() -> Option<u64> {
    None
}

pub fn read_in_background(to: SyncSender<Input>) -> Outcome {
    // Nobody listens any more: the import has ended.
    let read = move || {
        let input = BufReader::with_capacity(BUFFER, stdin().lock());
        drop(cut(input, |told| to.send(told)));
    };
    let thread = std::thread::Builder::new().name("lines".into()).spawn(read);
    thread.map(drop).map_err(|error| Failure::new(Exit::Failed, format!("no thread: {error}")))
}

/// Tells all that comes, until nobody listens.
pub fn cut<E>(
    mut input: impl BufRead,
    mut tell: impl FnMut(Input) -> Result<(), E>,
) -> Result<(), E> {
    let mut line = Vec::new();
    let mut first = 1;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return tell(Input::Broken(Failure::input(&error))),
        };
        let read = bytes.len();
        let mut chunk = Chunk { first, lines: Vec::new(), bytes: read as u64 };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                chunk.lines.push(without_end(std::mem::take(&mut line)));
            }
        }
        input.consume(read);
        if read == 0 && !line.is_empty() {
            chunk.lines.push(std::mem::take(&mut line));
        }
        first += chunk.lines.len() as u64;
        // Each chunk goes out before the next read, which may wait for a long time.
        tell(Input::Lines(chunk))?;
        if read == 0 {
            return tell(Input::End);
        }
        if line.len() > LONGEST {
            return tell(Input::TooLong(first));
        }
    }
}

fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    line.pop();
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    line
}
