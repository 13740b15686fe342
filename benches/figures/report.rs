//! The results of a run: each figure when it is measured, and at the end a table of the targets.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::setting::median;

/// A measured number. If it is the median of several runs, `spread` has their minimum and maximum.
struct Figure {
    subject: &'static str,
    name: String,
    value: f64,
    spread: Option<(f64, f64)>,
    unit: &'static str,
}

/// A target, and what was measured.
struct Target {
    what: String,
    wanted: String,
    got: String,
    met: bool,
}

/// The figures and targets so far.
#[derive(Default)]
pub struct Report {
    subject: &'static str,
    figures: Vec<Figure>,
    targets: Vec<Target>,
}

impl Report {
    /// Begins a subject; the following figures belong to it.
    pub fn begin(&mut self, subject: &'static str) {
        self.subject = subject;
        println!("\n## {subject}\n");
    }

    pub fn note(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.add(name.into(), value, None, unit);
    }

    /// Adds the median of several runs, with their minimum and maximum; returns the median.
    pub fn spread(&mut self, name: impl Into<String>, runs: &[f64], unit: &'static str) -> f64 {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        self.add(name.into(), sorted[sorted.len() / 2], Some((min, max)), unit);
        sorted[sorted.len() / 2]
    }

    fn add(&mut self, name: String, value: f64, spread: Option<(f64, f64)>, unit: &'static str) {
        let range = spread
            .map_or_else(String::new, |(min, max)| format!(" ({} to {})", short(min), short(max)));
        println!("- {name}: {} {unit}{range}", short(value));
        self.figures.push(Figure { subject: self.subject, name, value, spread, unit });
    }

    /// Adds a target and what was measured.
    pub fn target(&mut self, what: &str, wanted: &str, got: String, met: bool) {
        let (what, wanted) = (what.to_owned(), wanted.to_owned());
        self.targets.push(Target { what, wanted, got, met });
    }

    /// Adds a target for the rates of one way of work relative to those of another one, as the median
    /// of the ratios of runs that took turns.
    pub fn ratio(&mut self, what: &str, wanted: f64, (of, to): (&[f64], &[f64])) {
        let ratio = median(&of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>());
        self.target(what, &wanted.to_string(), short(ratio), ratio >= wanted);
    }

    /// The table of the targets, as Markdown.
    pub fn table(&self) -> String {
        let mut table = String::from("| what | target | measured | met |\n|---|---|---|---|\n");
        for Target { what, wanted, got, met } in &self.targets {
            let met = if *met { "yes" } else { "**no**" };
            let _ = writeln!(table, "| {what} | {wanted} | {got} | {met} |");
        }
        table
    }

    pub fn json(&self, about: &[(&str, String)]) -> Value {
        let about: serde_json::Map<_, _> =
            about.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "subject": figure.subject, "name": figure.name, "value": figure.value,
                    "least": figure.spread.map(|spread| spread.0),
                    "most": figure.spread.map(|spread| spread.1), "unit": figure.unit,
                })
            })
            .collect();
        let targets: Vec<Value> = self
            .targets
            .iter()
            .map(|target| {
                json!({
                    "what": target.what, "wanted": target.wanted, "got": target.got,
                    "met": target.met,
                })
            })
            .collect();
        json!({ "about": about, "figures": figures, "marks": targets })
    }
}

/// Formats a number with about three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        large if large >= 1e6 => format!("{:.2}M", value / 1e6),
        large if large >= 1e4 => format!("{:.1}k", value / 1e3),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
