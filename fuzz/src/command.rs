//! The inputs of the command: arguments, durations, and the lines of an import.

use std::ffi::OsString;
use std::io::{BufRead, Read};
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Map, Value, json};
use tubewell::{Bytes, ManualClock, Put, Store, TaskInfo, Tube, TubeOptions, UTUBETTL};
use tubewell_cli::input;

use crate::oracle::Oracle;

pub fn check(bytes: &[u8], oracle: Oracle) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let u = &mut Unstructured::new(rest);
    match kind % 6 {
        0 => any_duration(rest),
        1 => drop(built_duration(u, oracle)),
        2 => any_arguments(rest),
        3 => drop(split_lines(u)),
        4 => drop(input::json_line(rest)),
        _ => drop(built_line(u)),
    }
}

fn any_duration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match input::duration(text) {
        Ok(duration) => shown(duration),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// The text of a duration parses to a duration that is smaller by less than one step of its
/// smallest unit.
fn shown(duration: Duration) {
    let shown = input::shown_duration(duration);
    let back = input::duration(&shown).unwrap();
    let lost = duration.checked_sub(back).unwrap_or_else(|| panic!("{duration:?} as {shown}"));
    let most = match duration.as_secs() {
        0 => Duration::from_millis(1),
        1..60 => Duration::from_millis(100),
        60..3600 => Duration::from_secs(1),
        3600..86_400 => Duration::from_secs(60),
        _ => Duration::from_secs(3600),
    };
    assert!(lost < most, "{duration:?} is shown as {shown}");
}

/// A duration with several parts is their sum.
fn built_duration(u: &mut Unstructured<'_>, oracle: Oracle) -> Result<()> {
    let (mut text, mut nanos) = (String::new(), 0_u128);
    for _ in 0..u.int_in_range(1..=4)? {
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let (unit, millis) = *u.choose(&units)?;
        let scale = 1_000_000 * millis;
        let whole = u128::from(u32::arbitrary(u)?);
        nanos += whole * scale;
        text += &whole.to_string();
        if u.ratio(1, 3)? {
            let thousandths = u128::from(u.int_in_range(0..=999_u16)?);
            nanos += thousandths * scale / 1000;
            text += ".";
            text += &(1000 + thousandths).to_string()[1..];
        }
        text += unit;
    }
    // The store counts microseconds in 64 bits; the largest number means "never".
    let Some(micros) = u64::try_from(nanos / 1000).ok().filter(|micros| *micros < u64::MAX) else {
        assert!(input::duration(&text).is_err(), "{text}");
        return Ok(());
    };
    let below = u64::try_from(nanos % 1000).unwrap();
    let mut want = Duration::from_micros(micros) + Duration::from_nanos(below);
    if oracle.is_faulty() && text.contains('h') {
        want += Duration::from_nanos(1);
    }
    assert_eq!(input::duration(&text), Ok(want), "{text}");
    shown(want);
    Ok(())
}

fn any_arguments(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == 0);
    #[cfg(unix)]
    let words = words.map(|word| std::os::unix::ffi::OsStringExt::from_vec(word.to_vec()));
    #[cfg(not(unix))]
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned().into());
    let words = std::iter::once(OsString::from("tubewell")).chain(words);
    if let Err(message) = input::arguments(words) {
        assert!(!message.trim().is_empty());
    }
}

/// A reader that returns a few bytes at a time.
struct ChunkedReader<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    /// Bytes left in the current chunk.
    chunk: usize,
}

impl Read for ChunkedReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for ChunkedReader<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.chunk == 0 {
            let size = self.sizes.next().map_or(1, |size| usize::from(*size % 16) + 1);
            self.chunk = size.min(self.rest.len());
        }
        Ok(&self.rest[..self.chunk])
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
        self.chunk -= bytes;
    }
}

/// The lines do not depend on the sizes of the chunks that are read.
fn split_lines(u: &mut Unstructured<'_>) -> Result<()> {
    let sizes: [u8; 3] = Arbitrary::arbitrary(u)?;
    let text = u.bytes(u.len())?;
    let got = input::lines(ChunkedReader { rest: text, sizes: sizes.iter().cycle(), chunk: 0 });
    let mut want: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    // The text after the last line feed is a line unless it is empty.
    let last = want.pop().filter(|last| !last.is_empty());
    let want = want.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).chain(last);
    let want: Vec<(u64, Vec<u8>)> = (1..).zip(want.map(<[u8]>::to_vec)).collect();
    assert_eq!(got, want);
    Ok(())
}

/// A JSON line puts a task with exactly the options of the line.
fn built_line(u: &mut Unstructured<'_>) -> Result<()> {
    let data: &str = Arbitrary::arbitrary(u)?;
    let mut line = Map::from_iter([("data".to_owned(), json!(data))]);
    let priority = Option::<u32>::arbitrary(u)?;
    if let Some(priority) = priority {
        line.insert("priority".into(), json!(priority));
    }
    let delay = if u.ratio(1, 3)? { u64::from(u.int_in_range(1..=1_000_000_u32)?) } else { 0 };
    let ttl = Option::<u32>::arbitrary(u)?;
    if delay > 0 {
        line.insert("delay".into(), json!(format!("{delay}ms")));
    }
    if let Some(seconds) = ttl {
        line.insert("ttl".into(), json!(seconds));
    }
    let name: &str = Arbitrary::arbitrary(u)?;
    let sub_queue = (!name.is_empty()).then_some(name);
    if let Some(name) = sub_queue {
        line.insert("sub_queue".into(), json!(name));
    }
    let line = Value::Object(line).to_string();
    let put = input::json_line(line.as_bytes()).unwrap().unwrap();
    let Ok((info, body)) = put_and_peek(put) else { return Ok(()) };
    assert_eq!(body, data.as_bytes(), "{line}");
    assert_eq!(info.priority, priority.unwrap_or(tubewell::DEFAULT_PRIORITY), "{line}");
    assert_eq!(info.sub_queue.as_deref(), sub_queue, "{line}");
    let millis = Duration::from_millis;
    assert_eq!(info.due_in, (delay > 0).then_some(millis(delay)), "{line}");
    let ttl = ttl.map(|seconds| Duration::from_secs(seconds.into()) + millis(delay));
    assert_eq!(info.ttl_left, ttl, "{line}");
    Ok(())
}

/// Puts the task into a store, and returns what `peek` shows. Fails if the store refuses the name
/// of its sub-queue.
fn put_and_peek(put: Put<Vec<u8>>) -> tubewell::Result<(TaskInfo, Bytes)> {
    thread_local! {
        static TUBE: (Store, Tube) = {
            let clock = ManualClock::new();
            let store = Store::options().clock(&clock).open_in_memory().unwrap();
            let tube = store.create_tube("one", TubeOptions::new().driver(UTUBETTL)).unwrap();
            (store, tube)
        };
    }
    TUBE.with(|(_, tube)| {
        let id = tube.put(put)?.id;
        let task = tube.query().task(id)?;
        let _ = tube.delete(id);
        Ok((task.info, task.body))
    })
}
