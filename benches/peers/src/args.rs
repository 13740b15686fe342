//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

use crate::queue::Result;

pub const HELP: &str = "\
Measures tubewell and other queues: the same work, on the same disk, in one run.

Usage: cargo run --release --manifest-path benches/peers/Cargo.toml -- [OPTIONS]

  --json FILE       write all figures to FILE
  --markdown FILE   also write the tables to FILE; they are always printed
  --svg DIR         write charts to DIR: cycle-1.svg, cycle-64.svg, wake-up.svg
  --rounds N        rounds of all rows (default 5); the tables show medians of the rounds
  --phase TIME      duration of each phase (default 500ms), a number with ms, s or m
  --body BYTES      length of a body (default 128), 40 to 1048576
  --only NAMES      only peers whose name contains one of NAMES, such as redb,sqlite/full
  --work NAMES      only work whose name contains one of NAMES, such as wake-up,'64 callers cycle'
  --dir DIR         directory for the queues (default .), on the disk to be measured
  --quick           one round with phases of 50 ms, to check that all rows run, not to measure
  --list            print the rows that would be measured, and exit
  --help            print this help

The names of the work of a row are \"64 callers put\", \"64 callers take+ack\", \"64 callers cycle\",
\"64 callers job\", \"256 tickets cycle\", \"batches of 1000 put\" or \"wake-up\". A peer that is not
installed is skipped, and the report says why. Progress goes to standard error. If bodies of a row were wrong,
lost or duplicated, the report names them and the exit code is 1.
";

pub struct Args {
    pub json: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    pub rounds: usize,
    pub phase: Duration,
    pub body: usize,
    pub only: Vec<String>,
    pub work: Vec<String>,
    pub dir: PathBuf,
    pub list: bool,
}

/// Parses the command line; `None` if it asks for the help.
///
/// # Errors
/// An option or a value is not valid.
pub fn parse(mut words: lexopt::Parser) -> Result<Option<Args>> {
    let mut args = Args {
        json: None,
        markdown: None,
        svg: None,
        rounds: 5,
        phase: Duration::from_millis(500),
        body: 128,
        only: Vec::new(),
        work: Vec::new(),
        dir: ".".into(),
        list: false,
    };
    while let Some(word) = words.next()? {
        match word {
            Long("json") => args.json = Some(words.value()?.into()),
            Long("markdown") => args.markdown = Some(words.value()?.into()),
            Long("svg") => args.svg = Some(words.value()?.into()),
            Long("rounds") => args.rounds = words.value()?.parse()?,
            Long("phase") => args.phase = time(&words.value()?.string()?)?,
            Long("body") => args.body = words.value()?.parse()?,
            Long("only") => args.only.extend(names(&words.value()?.string()?)),
            Long("work") => args.work.extend(names(&words.value()?.string()?)),
            Long("dir") => args.dir = words.value()?.into(),
            Long("quick") => (args.rounds, args.phase) = (1, Duration::from_millis(50)),
            Long("list") => args.list = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    if args.rounds == 0 || args.phase.is_zero() {
        return Err("--rounds and --phase must be greater than 0".into());
    }
    if !(40..=1 << 20).contains(&args.body) {
        return Err("--body must be from 40 to 1048576 bytes".into());
    }
    Ok(Some(args))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Parses a duration such as 500ms, 2s or 1m.
fn time(text: &str) -> Result<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let seconds = match &text[unit..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("invalid time \"{text}\": give a number with ms, s or m").into()),
    };
    let number: f64 =
        text[..unit].parse().map_err(|_| format!("invalid time \"{text}\": no number"))?;
    Ok(Duration::try_from_secs_f64(number * seconds)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse, time};

    #[test]
    fn time_requires_a_number_and_a_unit() {
        let of = |text| time(text).map_err(|error| error.to_string());
        assert_eq!(of("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(of("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(of("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "ms", "1h", "-1s"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parse_refuses_unknown_options_and_values_out_of_range() {
        let of =
            |words: &[&str]| parse(lexopt::Parser::from_args(words)).map(|args| args.is_some());
        assert!(matches!(of(&["--help"]), Ok(false)));
        assert!(matches!(of(&["--quick", "--only", "redb, yaque"]), Ok(true)));
        for wrong in [["--rounds", "0"], ["--body", "39"], ["--phase", "0s"], ["--what", "x"]] {
            assert!(of(&wrong).is_err(), "{wrong:?}");
        }
    }
}
