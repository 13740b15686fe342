//! The bar of long work: on a terminal, beside the results; nothing at all elsewhere.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::colours_on;

/// How often a bar that nothing moves is drawn anew.
const BEAT: Duration = Duration::from_millis(200);

/// How far some long work has come.
pub struct Progress(ProgressBar);

impl Progress {
    /// So many bytes of input, of which a rate and the remaining time follow.
    pub fn bytes(what: &str, total: u64) -> Progress {
        Progress::bar(
            what,
            total,
            "{prefix} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left {msg}",
        )
    }

    /// So many things to do.
    pub fn things(what: &str, total: u64) -> Progress {
        Progress::bar(
            what,
            total,
            "{prefix} {bar:30} {human_pos}/{human_len} {rate} {eta} left {msg}",
        )
    }

    /// Things of which nobody knows how many will come.
    pub fn stream(what: &str) -> Progress {
        Progress::drawn(
            ProgressBar::no_length(),
            what,
            "{prefix} {spinner} {bytes} {binary_bytes_per_sec} {elapsed} {msg}",
        )
    }

    /// Nothing to see; only the time is kept.
    pub fn none() -> Progress {
        Progress(ProgressBar::hidden())
    }

    pub fn set(&self, done: u64) {
        if self.0.length().is_some_and(|total| total < done) {
            self.0.set_length(done);
        }
        self.0.set_position(done);
    }

    pub fn say(&self, text: String) {
        self.0.set_message(text);
    }

    /// A line above the bar.
    pub fn note(&self, text: &str) {
        self.0.suspend(|| crate::output::note(text));
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub fn end(&self) {
        self.0.finish_and_clear();
    }

    fn bar(what: &str, total: u64, template: &str) -> Progress {
        Progress::drawn(ProgressBar::new(total), what, template)
    }

    fn drawn(bar: ProgressBar, what: &str, template: &str) -> Progress {
        let terminal = stderr().is_terminal();
        if !terminal {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return Progress(bar);
        }
        let template = if colours_on(terminal) {
            template.replace("{bar:30}", "{bar:30.green}").replace("{spinner}", "{spinner:.green}")
        } else {
            template.to_owned()
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let style = style.with_key("rate", |bar: &ProgressState, to: &mut dyn Write| {
                // A bar that says nothing is no reason to fail.
                let _ = write!(to, "{:.0}/s", bar.per_sec());
            });
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(BEAT);
        Progress(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // A bar that is left on the screen would look like work that goes on.
        self.end();
    }
}
