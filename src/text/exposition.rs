//! The text exposition format of Prometheus, version 0.0.4: families of samples with labels.

use std::fmt::{Display, Write};

use crate::values::histogram::Histogram;

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// It only grows, until the store is opened again.
    Counter,
    Gauge,
    Histogram,
}

impl FamilyKind {
    fn as_str(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// The text of a scrape, a family after the other.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a family. One without samples leaves nothing in the text.
    pub(crate) fn family<'a>(
        &'a mut self,
        name: &'a str,
        kind: FamilyKind,
        help: &'a str,
    ) -> Family<'a> {
        Family { out: &mut self.0, name, kind, help, has_begun: false }
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// The samples of one name.
pub(crate) struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    kind: FamilyKind,
    help: &'a str,
    has_begun: bool,
}

/// A label: its name, and its value, which may be any text.
pub(crate) type Label<'a> = (&'a str, &'a str);

impl Family<'_> {
    pub(crate) fn sample(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.begin();
        self.line("", labels, None, value);
    }

    /// The buckets of a histogram, each with all durations up to its bound, their sum and their number.
    pub(crate) fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        self.begin();
        let mut count: u64 = 0;
        for (bound, more) in &histogram.buckets {
            count = count.saturating_add(*more);
            self.line("_bucket", labels, Some(&seconds(*bound).to_string()), count);
        }
        count = count.saturating_add(histogram.above);
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, seconds(histogram.sum));
        self.line("_count", labels, None, count);
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let Family { name, help, .. } = self;
            let kind = self.kind.as_str();
            // A String takes all that is written.
            let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    /// `le`: the bound of a bucket.
    fn line(&mut self, suffix: &str, labels: &[Label<'_>], le: Option<&str>, value: impl Display) {
        let out = &mut *self.out;
        out.push_str(self.name);
        out.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(le.map(|bound| ("le", bound))) {
            out.push(before);
            out.push_str(name);
            out.push_str("=\"");
            push_escaped(value, out);
            out.push('"');
            before = ',';
        }
        if before == ',' {
            out.push('}');
        }
        let _ = writeln!(out, " {value}");
    }
}

/// A duration in microseconds as seconds, the unit of Prometheus.
#[expect(clippy::cast_precision_loss, reason = "samples are floats")]
pub(crate) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The value of a label between its quotes.
fn push_escaped(value: &str, out: &mut String) {
    for char in value.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_the_head_of_their_family() {
        let mut text = Exposition::default();
        let mut family = text.family("jobs", FamilyKind::Gauge, "Jobs that wait.");
        family.sample(&[], 3);
        family.sample(&[("tube", "mail"), ("state", "ready")], seconds(1_500_000));
        let expected = "# HELP jobs Jobs that wait.\n# TYPE jobs gauge\njobs 3\n\
                        jobs{tube=\"mail\",state=\"ready\"} 1.5\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn family_without_samples_leaves_no_text() {
        let mut text = Exposition::default();
        text.family("jobs", FamilyKind::Counter, "Jobs.");
        assert_eq!(text.into_text(), "");
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = Exposition::default();
        let mut family = text.family("jobs", FamilyKind::Gauge, "Jobs.");
        family.sample(&[("tube", "a\\b\"c\nd\re\u{0}fü{},=")], 1);
        let line = text.into_text().split_once("gauge\n").unwrap().1.to_owned();
        assert_eq!(line, "jobs{tube=\"a\\\\b\\\"c\\nd\re\u{0}fü{},=\"} 1\n");
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let mut text = Exposition::default();
        let histogram =
            Histogram { buckets: vec![(50, 2), (1_000_000, 3)], above: 1, sum: 8_000_100 };
        let mut family = text.family("took_seconds", FamilyKind::Histogram, "How long.");
        family.histogram(&[("tube", "mail")], &histogram);
        family.histogram(&[], &Histogram::default());
        let expected = r#"# HELP took_seconds How long.
# TYPE took_seconds histogram
took_seconds_bucket{tube="mail",le="0.00005"} 2
took_seconds_bucket{tube="mail",le="1"} 5
took_seconds_bucket{tube="mail",le="+Inf"} 6
took_seconds_sum{tube="mail"} 8.0001
took_seconds_count{tube="mail"} 6
took_seconds_bucket{le="+Inf"} 0
took_seconds_sum 0
took_seconds_count 0
"#;
        assert_eq!(text.into_text(), expected);
    }
}
