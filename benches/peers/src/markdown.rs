//! The report as tables in Markdown.

use std::fmt::Write;

use crate::queue::{Class, Shape, Work};
use crate::report::{PeerReport, Report, Row, Spread, Verdict};

/// Above this [`Report::variation`] the report warns that the machine was busy.
const VARIATION_MAX: f64 = 1.7;

pub fn markdown(report: &Report) -> String {
    let mut text = head(report);
    let variation = report.variation();
    if variation > VARIATION_MAX {
        let _ = write!(
            text,
            "\n**The machine was busy with other work**: in the median row, the fastest round was {variation:.1} \
             times as fast as the slowest. These figures are unreliable.\n"
        );
    }
    for class in Class::ALL {
        let peers = || report.peers.iter().filter(|peer| peer.about.class == class);
        if peers().any(|peer| !peer.rows.is_empty()) {
            let _ = write!(text, "\n## {}\n", class.title());
            text += &rates(peers());
            text += &jobs(peers());
            text += &wakes(peers());
        }
    }
    text += &abouts(report);
    text += &targets(report);
    text
}

fn head(report: &Report) -> String {
    let (machine, settings) = (&report.machine, &report.settings);
    format!(
        "{}, {}, {} ({} cores), {}, {}; fdatasync of 128 B: **{:.0} µs** appended, **{:.0} µs** overwritten\n\n\
         Bodies of {} B; {} rounds of all rows, phases of {} ms. Tasks per second: the median of the rounds, with \
         the minimum and the maximum. Compare figures only within a class.\n",
        machine.date,
        machine.system,
        machine.processor,
        machine.cores,
        machine.filesystem,
        machine.rustc,
        machine.fdatasync_appended_us,
        machine.fdatasync_overwritten_us,
        settings.body_bytes,
        settings.rounds,
        settings.phase_ms,
    )
}

/// One table for each arrangement of callers.
fn rates<'a>(peers: impl Iterator<Item = &'a PeerReport> + Clone) -> String {
    let rows = peers.clone().flat_map(|peer| &peer.rows).filter(|row| !row.is_of_jobs());
    let mut shapes: Vec<Shape> = rows.map(|row| row.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let mut text = String::new();
    for shape in shapes.into_iter().filter(|&shape| shape != Shape::WakeUp) {
        let _ = write!(
            text,
            "\n| {shape} | put | take+ack | cycle | flushes per cycle | KiB per put |\n|---|---|---|---|---|---|\n"
        );
        for peer in peers.clone() {
            for row in peer.rows.iter().filter(|row| row.shape == shape && !row.is_of_jobs()) {
                text += &line(&peer.about.name, row);
            }
        }
    }
    text
}

fn line(name: &str, row: &Row) -> String {
    if let Some(wrong) = wrong(row) {
        return format!("| {name} | **{wrong}** | | | | |\n");
    }
    let rate = |work| {
        row.measure(work).map_or_else(|| "—".into(), |measure| spread(&measure.tasks_per_second))
    };
    let flushes = row.measure(Work::Cycle).and_then(|cycle| cycle.flushes_per_task.as_ref());
    let bytes = row.measure(Work::Put).and_then(|put| put.bytes_per_task.as_ref());
    format!(
        "| {name} | {} | {} | {} | {} | {} |\n",
        rate(Work::Put),
        rate(Work::TakeAck),
        rate(Work::Cycle),
        flushes.map_or_else(|| "—".into(), |flushes| format!("{:.3}", flushes.median)),
        bytes.map_or_else(|| "—".into(), |bytes| format!("{:.1}", bytes.median / 1024.0)),
    )
}

/// One table of jobs for all arrangements of callers.
fn jobs<'a>(peers: impl Iterator<Item = &'a PeerReport> + Clone) -> String {
    let of_jobs = |peer: &'a PeerReport| peer.rows.iter().filter(|row| row.is_of_jobs());
    let mut shapes: Vec<Shape> = peers.clone().flat_map(of_jobs).map(|row| row.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    if shapes.is_empty() {
        return String::new();
    }
    let mut text = "\n| job: put, take, fail, take, ack with a result |".to_owned();
    for shape in &shapes {
        let _ = write!(text, " {shape} | flushes per job |");
    }
    let _ = writeln!(text, "\n|---{}|", "|---".repeat(2 * shapes.len()));
    for peer in peers.filter(|&peer| of_jobs(peer).next().is_some()) {
        let _ = write!(text, "| {} |", peer.about.name);
        for &shape in &shapes {
            let row = of_jobs(peer).find(|row| row.shape == shape);
            text += &row.map_or_else(|| " — | — |".into(), job_cells);
        }
        text.push('\n');
    }
    text
}

fn job_cells(row: &Row) -> String {
    if let Some(wrong) = wrong(row) {
        return format!(" **{wrong}** | |");
    }
    let Some(measure) = row.measure(Work::Job) else { return " — | — |".into() };
    let flushes = measure.flushes_per_task.as_ref();
    let flushes = flushes.map_or_else(|| "—".into(), |flushes| format!("{:.3}", flushes.median));
    format!(" {} | {flushes} |", spread(&measure.tasks_per_second))
}

/// Why the figures of a row are not valid.
fn wrong(row: &Row) -> Option<String> {
    let examples = || row.fault_examples.join("; ");
    match &row.failed {
        Some(why) if row.faults > 0 => Some(format!("failed: {why}; {}", examples())),
        Some(why) => Some(format!("failed: {why}")),
        None if row.faults > 0 => Some(format!("{} faults: {}", row.faults, examples())),
        None => None,
    }
}

fn wakes<'a>(peers: impl Iterator<Item = &'a PeerReport>) -> String {
    let mut text = String::new();
    for peer in peers {
        for row in peer.rows.iter().filter(|row| row.shape == Shape::WakeUp) {
            let cells = match (wrong(row), &row.wake) {
                (Some(wrong), _) => format!("**{wrong}** | "),
                (None, Some(wake)) => {
                    format!("{} | {}", micros(&wake.p50_us), micros(&wake.p99_us))
                }
                (None, None) => "— | —".into(),
            };
            let _ = writeln!(text, "| {} | {cells} | {} |", peer.about.name, peer.about.waits);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n| wake-up: time from the return of the put until the consumer has the task, µs | p50 | p99 | how the consumer waits |\n|---|---|---|---|\n{text}"
    )
}

fn abouts(report: &Report) -> String {
    let mut text = "\n## Properties of each queue, and what it can lose\n\n".to_owned();
    text += "| queue | version | process killed | operating system crashes | power cut | callers | remarks |\n";
    text += "|---|---|---|---|---|---|---|\n";
    for peer in &report.peers {
        let about = &peer.about;
        let remark = match &peer.skipped {
            Some(why) => format!("**skipped: {why}**"),
            None => about.note.clone(),
        };
        let loses = &about.loses;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {remark} |",
            about.name,
            about.version,
            loses.process_killed,
            loses.os_crash,
            loses.power_cut,
            about.callers,
        );
    }
    text
}

fn targets(report: &Report) -> String {
    let mut text =
        "\n## Targets\n\n| what | target | measured | result |\n|---|---|---|---|\n".to_owned();
    for target in &report.targets {
        let got = target.got.map_or_else(|| "—".into(), |got| format!("{got:.2}"));
        let verdict = match target.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::NotMeasured => "not measured",
        };
        let _ = writeln!(text, "| {} | {} | {got} | {verdict} |", target.what, target.wanted);
    }
    text
}

fn spread(rates: &Spread) -> String {
    format!("{} ({}–{})", count(rates.median), count(rates.min), count(rates.max))
}

/// Formats a figure as 950, 3.42k or 412k.
pub fn count(figure: f64) -> String {
    match figure {
        ..1e3 => format!("{figure:.0}"),
        ..1e4 => format!("{:.2}k", figure / 1e3),
        ..1e5 => format!("{:.1}k", figure / 1e3),
        _ => format!("{:.0}k", figure / 1e3),
    }
}

fn micros(figures: &Spread) -> String {
    format!("{:.0} ({:.0} to {:.0})", figures.median, figures.min, figures.max)
}

#[cfg(test)]
mod tests {
    use super::{count, markdown};
    use crate::report::tests::sample;

    #[test]
    fn counts_have_three_digits() {
        let counts = [950.4, 3421.0, 34_210.0, 412_345.0].map(count);
        assert_eq!(counts, ["950", "3.42k", "34.2k", "412k"]);
    }

    #[test]
    fn tables_show_faults_and_skipped_peers() {
        let mut report = sample();
        report.peers[1].rows[1].faults = 2;
        report.peers[1].rows[1].fault_examples = vec!["body 7 was delivered twice".into()];
        let text = markdown(&report);
        assert!(text.contains("**2 faults: body 7 was delivered twice**"), "{text}");
        assert!(text.contains("**skipped: not installed: absent**"), "{text}");
        assert!(
            text.contains("| tubewell/fifo | — | — | 2.00k (1.80k–2.20k) | 2.000 | — |"),
            "{text}"
        );
    }

    #[test]
    fn jobs_have_a_table_of_their_own() {
        let mut report = sample();
        report.peers[1].rows[0].failed = Some("no job".into());
        let text = markdown(&report);
        let header =
            "| job: put, take, fail, take, ack with a result | 1 caller | flushes per job |";
        assert!(text.contains(&format!("{header}\n|---|---|---|\n")), "{text}");
        assert!(text.contains("| tubewell/fifo | 1.00k (900–1.10k) | 2.000 |"), "{text}");
        assert!(text.contains("| redb/leader | **failed: no job** | |"), "{text}");
    }
}
