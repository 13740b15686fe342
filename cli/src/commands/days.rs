//! `days`: the numbers of a tube, by day.

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::Store;
use tubewell::expert::{Day, Summary};

use crate::args::{Days, Plot};
use crate::failure::{CommandResult, Failure};
use crate::output::{Cell, Output, Style, count};
use crate::record::DayRecord;
use crate::{duration, store};

/// The longest bar of a plot, in characters.
const BAR: u64 = 40;
/// The longest bar in the table of the days.
const SHORT_BAR: u64 = 20;

pub fn run(store: &Store, args: &Days, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    if tube.info()?.metrics == 0 {
        return Err(Failure::usage(format!("tube {} has no metrics", args.tube))
            .hint(format!("`tubewell alter {} --metrics 30` begins to count", args.tube)));
    }
    let today = store.today()?;
    let back = i32::try_from(args.last - 1).unwrap_or(i32::MAX);
    let days = tube.query().days(today.plus_days(-back)..=today)?;
    if output.json {
        return days.iter().try_for_each(|day| output.object(&DayRecord::new(&args.tube, day)));
    }
    if days.is_empty() {
        return output
            .line(format!("nothing was counted in the last {}", count(args.last.into(), "day")));
    }
    match args.plot {
        None => table(&days, output),
        Some(plot) => histogram(&days, plot, output),
    }
}

/// One line for each day, with a bar for its acks.
fn table(days: &[Day], output: &mut Output) -> CommandResult {
    let most = days.iter().map(|day| day.acks).max().unwrap_or(0);
    let rows: Vec<Vec<Cell>> = days
        .iter()
        .map(|day| {
            let numbers =
                [day.puts, day.takes, day.acks, day.failures, day.failed, day.lost, day.retried];
            let mut cells = vec![Cell::text(day.date.to_string())];
            cells.extend(numbers.map(|number| {
                let style = if number == 0 { Style::Dim } else { Style::Plain };
                Cell::number(number).style(style)
            }));
            for summary in [&day.wait, &day.run] {
                cells.extend([0.5, 0.99].map(|p| Cell::number(percentile(summary, p))));
            }
            cells.push(Cell::text(bar(day.acks, most, SHORT_BAR)).style(Style::Green));
            cells
        })
        .collect();
    let head = [
        "DAY", "PUTS", "TAKES", "ACKS", "FAILURES", "FAILED", "LOST", "RETRIED", "WAIT 50%", "99%",
        "RUN 50%", "99%", "",
    ];
    output.table(&head, &rows)
}

/// How the times of all days are distributed: one line for each power of two.
fn histogram(days: &[Day], plot: Plot, output: &mut Output) -> CommandResult {
    let summaries = days.iter().map(|day| match plot {
        Plot::Wait => &day.wait,
        Plot::Run => &day.run,
    });
    let mut octaves: BTreeMap<u32, u64> = BTreeMap::new();
    for bin in summaries.flat_map(Summary::bins) {
        let micros = bin.from.as_micros();
        // 0 is below one microsecond.
        *octaves.entry(micros.checked_ilog2().map_or(0, |bits| bits + 1)).or_default() += bin.count;
    }
    let (Some((first, _)), Some((last, _))) = (octaves.first_key_value(), octaves.last_key_value())
    else {
        return output.line("no such times were counted");
    };
    let (most, total) =
        (octaves.values().copied().max().unwrap_or(0), octaves.values().sum::<u64>());
    let rows: Vec<Vec<Cell>> = (*first..=*last)
        .map(|octave| {
            let tasks = octaves.get(&octave).copied().unwrap_or(0);
            let from =
                if octave == 0 { Duration::ZERO } else { Duration::from_micros(1 << (octave - 1)) };
            vec![
                Cell::number(short(from)),
                Cell::number(tasks),
                Cell::number(format!("{}%", percent(tasks, total))),
                Cell::text(bar(tasks, most, BAR)).style(Style::Green),
            ]
        })
        .collect();
    output.table(&["FROM", "TASKS", "SHARE", ""], &rows)
}

fn percentile(summary: &Summary, p: f64) -> String {
    if summary.count == 0 { "-".into() } else { short(summary.percentile(p)) }
}

/// A duration in one word; below a millisecond in microseconds.
fn short(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{}us", time.as_micros())
    } else {
        duration::show(time)
    }
}

/// A bar of plain characters. A number above zero has one at least.
fn bar(number: u64, most: u64, longest: u64) -> String {
    if number == 0 || most == 0 {
        return String::new();
    }
    let scaled = u128::from(number) * u128::from(longest) / u128::from(most);
    "#".repeat(usize::try_from(scaled).unwrap_or(0).max(1))
}

/// Rounded to whole percents.
fn percent(part: u64, total: u64) -> u128 {
    let (part, total) = (u128::from(part), u128::from(total).max(1));
    (part * 200 + total) / (total * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_scaled_and_never_vanish() {
        for (number, most, length) in [
            (0, 0, 0),
            (0, 9, 0),
            (1, 1000, 1),
            (500, 1000, 20),
            (1000, 1000, 40),
            (u64::MAX, u64::MAX, 40),
        ] {
            assert_eq!(bar(number, most, BAR).len(), length, "{number} of {most}");
        }
        assert_eq!((percent(1, 3), percent(2, 3), percent(0, 0), percent(5, 5)), (33, 67, 0, 100));
    }

    #[test]
    fn short_times_are_in_microseconds() {
        let texts = [0, 999, 1000, 1_500_000].map(|micros| short(Duration::from_micros(micros)));
        assert_eq!(texts, ["0us", "999us", "1ms", "1.5s"]);
    }
}
