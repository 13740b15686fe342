//! Bar charts as SVG, readable on a light and on a dark page.

use std::fmt::Write;

use crate::markdown::count;
use crate::queue::{Class, Shape, Work};
use crate::report::{PeerReport, Report};
use crate::targets::is_baseline;

const WIDTH: f64 = 720.0;
/// Where the bars begin, and their maximum length; the figure follows the bar.
const LEFT: f64 = 190.0;
const LENGTH: f64 = 400.0;
const LINE: f64 = 24.0;
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}\
.small{font-size:11px;fill:#57606a}.bar{fill:#8c959f}.ours{fill:#0969da}.baseline{fill:#d0d7de}.range{stroke:#24292f;stroke-width:1.5}\
.axis{stroke:#d0d7de}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}\
.bar{fill:#6e7681}.ours{fill:#4493f8}.baseline{fill:#3d444d}.range{stroke:#e6edf3}.axis{stroke:#3d444d}}";

/// The texts, order and scale of one chart.
struct Chart<'a> {
    title: &'a str,
    note: &'a str,
    /// Larger values are better and come first.
    most_first: bool,
    /// All classes share one scale.
    one_scale: bool,
}

/// One bar with its label, and the range over the rounds.
struct Bar {
    name: String,
    length: f64,
    range: (f64, f64),
    label: String,
}

/// The charts, with their file names.
pub fn charts(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("cycle-1.svg", cycles(report, 1)),
        ("cycle-64.svg", cycles(report, 64)),
        ("wake-up.svg", wakes(report)),
    ]
}

fn cycles(report: &Report, callers: usize) -> String {
    let callers_text = if callers == 1 { "1 caller".into() } else { format!("{callers} callers") };
    let chart = Chart {
        title: &format!(
            "put, take, ack: tasks per second, {callers_text}, {} B",
            report.settings.body_bytes
        ),
        note: "each class has its own scale; the line is the range over the rounds; pale: a baseline, not a queue",
        most_first: true,
        one_scale: false,
    };
    chart.draw(report, |peer| {
        let mut rows = peer.rows.iter().filter(|row| row.shape == Shape::Callers(callers));
        let rates = &rows.find_map(|row| row.measure(Work::Cycle))?.tasks_per_second;
        Some(Bar {
            name: peer.about.name.clone(),
            length: rates.median,
            range: (rates.min, rates.max),
            label: count(rates.median),
        })
    })
}

fn wakes(report: &Report) -> String {
    let chart = Chart {
        title: "wake-up: time from the return of the put until the consumer has the task",
        note: "p50 / p99; the bar is the p50, the line ends at the p99; logarithmic from 1 µs; pale: a baseline, not a queue",
        most_first: false,
        one_scale: true,
    };
    chart.draw(report, |peer| {
        let row = peer.rows.iter().find(|row| row.shape == Shape::WakeUp && row.is_valid())?;
        let wake = row.wake.as_ref()?;
        let (p50, p99) = (wake.p50_us.median, wake.p99_us.median);
        Some(Bar {
            name: peer.about.name.clone(),
            length: decades(p50),
            range: (decades(p50), decades(p99)),
            label: format!("{} / {}", time(p50), time(p99)),
        })
    })
}

/// Powers of ten above 1 µs; 0 for shorter and negative times.
fn decades(micros: f64) -> f64 {
    micros.max(1.0).log10()
}

fn time(micros: f64) -> String {
    match micros {
        ..0.0 => "before".into(),
        ..1e3 => format!("{micros:.0} µs"),
        ..1e5 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.0} ms", micros / 1e3),
    }
}

impl Chart<'_> {
    fn draw(&self, report: &Report, bar: impl Fn(&PeerReport) -> Option<Bar>) -> String {
        let sections = self.sections(report, bar);
        let longest = sections.iter().map(|(_, bars)| most(bars)).fold(0.0, f64::max);
        let mut body = String::new();
        let _ =
            writeln!(body, "<text class=\"title\" x=\"10\" y=\"24\">{}</text>", escape(self.title));
        let _ =
            writeln!(body, "<text class=\"small\" x=\"10\" y=\"42\">{}</text>", escape(self.note));
        let mut y = 52.0;
        for (class, bars) in &sections {
            y += LINE;
            let title = escape(class.title());
            let _ = writeln!(body, "<text class=\"small\" x=\"10\" y=\"{y:.0}\">{title}</text>");
            let scale = LENGTH / if self.one_scale { longest } else { most(bars) }.max(1e-9);
            let top = y + 6.0;
            for bar in bars {
                y += LINE;
                body += &draw_bar(bar, y, scale);
            }
            let bottom = y + 8.0;
            let _ = writeln!(
                body,
                "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{top:.0}\" x2=\"{LEFT}\" y2=\"{bottom:.0}\"/>"
            );
            y += 10.0;
        }
        let (height, label) = (y + 10.0, escape(self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"{label}\">\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }

    /// The classes that have bars, with their bars.
    fn sections(
        &self,
        report: &Report,
        bar: impl Fn(&PeerReport) -> Option<Bar>,
    ) -> Vec<(Class, Vec<Bar>)> {
        let mut sections: Vec<(Class, Vec<Bar>)> = Vec::new();
        for class in Class::ALL {
            let peers = report.peers.iter().filter(|peer| peer.about.class == class);
            let mut bars: Vec<Bar> = peers.filter_map(&bar).collect();
            bars.sort_by(|a, b| a.length.total_cmp(&b.length));
            if self.most_first {
                bars.reverse();
            }
            if !bars.is_empty() {
                sections.push((class, bars));
            }
        }
        sections
    }
}

/// The end of the longest bar or range.
fn most(bars: &[Bar]) -> f64 {
    bars.iter().map(|bar| bar.range.1.max(bar.length)).fold(0.0, f64::max)
}

/// One line of a chart; `y` is the baseline of its text.
fn draw_bar(bar: &Bar, y: f64, scale: f64) -> String {
    let class = match bar.name.as_str() {
        name if name.starts_with("tubewell") => "ours",
        name if is_baseline(name) => "baseline",
        _ => "bar",
    };
    let (length, from, to) =
        (bar.length * scale, LEFT + bar.range.0 * scale, LEFT + bar.range.1 * scale);
    let (top, middle, name_end, label) =
        (y - 13.0, y - 4.5, LEFT - 8.0, to.max(LEFT + length) + 6.0);
    format!(
        "<text x=\"{name_end}\" y=\"{y:.0}\" text-anchor=\"end\">{}</text>\n\
         <rect class=\"{class}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"17\" rx=\"2\"/>\n\
         <line class=\"range\" x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\"/>\n\
         <text x=\"{label:.1}\" y=\"{y:.0}\">{}</text>\n",
        escape(&bar.name),
        length.max(1.0),
        escape(&bar.label),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{LEFT, LENGTH, WIDTH, charts, escape, time};
    use crate::report::tests::sample;

    #[test]
    fn chart_has_one_bar_per_measured_peer_within_its_width() {
        for (name, text) in charts(&sample()) {
            assert_eq!(text.matches("<rect").count(), 3, "{name}: {text}");
            let open = text.matches("<text").count();
            assert_eq!(open, text.matches("</text>").count());
            let widths = text.split("width=\"").filter_map(|rest| rest.split('"').next());
            let widest = widths.filter_map(|width| width.parse::<f64>().ok()).fold(0.0, f64::max);
            assert!(widest <= WIDTH, "{name} is {widest} wide");
        }
        const { assert!(LEFT + LENGTH + 100.0 <= WIDTH) };
    }

    #[test]
    fn text_is_escaped_and_times_have_units() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        assert_eq!(
            [-4.0, 15.2, 1200.0, 244_000.0].map(time),
            ["before", "15 µs", "1.2 ms", "244 ms"]
        );
    }
}
