//! Progress bars, drawn on standard error if it is a terminal.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::colours_on;

/// How often a bar is redrawn without progress.
const REDRAW: Duration = Duration::from_millis(200);

/// A progress bar, and the time since it began.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for a known number of bytes, with a rate and the time left.
    pub fn bytes(verb: &str, total: u64) -> Progress {
        Progress::bar(
            verb,
            total,
            "{prefix} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left {msg}",
        )
    }

    /// A bar for a known number of items.
    pub fn items(verb: &str, total: u64) -> Progress {
        Progress::bar(
            verb,
            total,
            "{prefix} {bar:30} {human_pos}/{human_len} {rate} {eta} left {msg}",
        )
    }

    /// A spinner for items whose number is unknown.
    pub fn count(verb: &str) -> Progress {
        Progress::drawn(
            ProgressBar::no_length(),
            verb,
            "{prefix} {spinner} {human_pos} {rate} {elapsed}",
        )
    }

    /// A spinner for bytes whose number is unknown.
    pub fn unknown_length(verb: &str) -> Progress {
        Progress::drawn(
            ProgressBar::no_length(),
            verb,
            "{prefix} {spinner} {bytes} {binary_bytes_per_sec} {elapsed} {msg}",
        )
    }

    /// No bar; it measures the time only.
    pub fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    pub fn set(&self, done: u64) {
        if self.0.length().is_some_and(|total| total < done) {
            self.0.set_length(done);
        }
        self.0.set_position(done);
    }

    pub fn set_message(&self, text: String) {
        self.0.set_message(text);
    }

    /// Prints a remark above the bar.
    pub fn note(&self, text: &str) {
        self.0.suspend(|| crate::output::note(text));
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub fn end(&self) {
        self.0.finish_and_clear();
    }

    fn bar(verb: &str, total: u64, template: &str) -> Progress {
        Progress::drawn(ProgressBar::new(total), verb, template)
    }

    fn drawn(bar: ProgressBar, verb: &str, template: &str) -> Progress {
        if !stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return Progress(bar);
        }
        let template = if colours_on(&stderr()) {
            template.replace("{bar:30}", "{bar:30.green}").replace("{spinner}", "{spinner:.green}")
        } else {
            template.to_owned()
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let style = style.with_key("rate", |bar: &ProgressState, to: &mut dyn Write| {
                let _ = write!(to, "{:.0}/s", bar.per_sec());
            });
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(verb.to_owned());
        bar.enable_steady_tick(REDRAW);
        Progress(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // A bar that stays on the screen would look like work in progress.
        self.end();
    }
}
