//! What a run found: figures as they come, and at the end one table of what was wanted and got.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A measured number, with the least and the greatest of its runs if there were several.
struct Figure {
    subject: &'static str,
    name: String,
    value: f64,
    spread: Option<(f64, f64)>,
    unit: &'static str,
}

/// A row of the last table.
struct Mark {
    what: String,
    wanted: String,
    got: String,
    met: bool,
}

/// See the module.
#[derive(Default)]
pub struct Report {
    subject: &'static str,
    figures: Vec<Figure>,
    marks: Vec<Mark>,
}

impl Report {
    /// What follows belongs to this subject.
    pub fn begin(&mut self, subject: &'static str) {
        self.subject = subject;
        println!("\n## {subject}\n");
    }

    pub fn note(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.add(name.into(), value, None, unit);
    }

    /// The median of several runs, with their extremes; returns the median.
    pub fn spread(&mut self, name: impl Into<String>, runs: &[f64], unit: &'static str) -> f64 {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        self.add(name.into(), sorted[sorted.len() / 2], Some((least, most)), unit);
        sorted[sorted.len() / 2]
    }

    fn add(&mut self, name: String, value: f64, spread: Option<(f64, f64)>, unit: &'static str) {
        let range = spread.map_or_else(String::new, |(least, most)| {
            format!(" ({} to {})", short(least), short(most))
        });
        println!("- {name}: {} {unit}{range}", short(value));
        self.figures.push(Figure { subject: self.subject, name, value, spread, unit });
    }

    /// Something was wanted of what was measured.
    pub fn mark(&mut self, what: &str, wanted: &str, got: String, met: bool) {
        let (what, wanted) = (what.to_owned(), wanted.to_owned());
        self.marks.push(Mark { what, wanted, got, met });
    }

    /// The last table, as Markdown.
    pub fn table(&self) -> String {
        let mut table = String::from("| what | wanted | got | met |\n|---|---|---|---|\n");
        for Mark { what, wanted, got, met } in &self.marks {
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
        let marks: Vec<Value> = self
            .marks
            .iter()
            .map(|mark| {
                json!({
                    "what": mark.what, "wanted": mark.wanted, "got": mark.got, "met": mark.met,
                })
            })
            .collect();
        json!({ "about": about, "figures": figures, "marks": marks })
    }
}

/// Three digits that matter.
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
