//! The signals that ask a long command to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::{CommandResult, Exit, Failure};

/// The last signal that asked the process to stop.
#[derive(Clone, Default)]
pub struct StopSignal(Arc<AtomicUsize>);

impl StopSignal {
    /// Its number. It is set in the handler of the signal: before the signal is forwarded, and
    /// before a child that the same signal ended can be seen to end.
    pub fn number(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

/// Passes each signal that asks to stop to `receive`, on a thread of its own, until that returns
/// false.
///
/// A signal that was ignored when the process started stays ignored: `nohup` and shells rely on
/// that to keep background commands running after the terminal is closed.
#[cfg(unix)]
pub fn forward(receive: impl Fn(u8) -> bool + Send + 'static) -> CommandResult<StopSignal> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::register_usize;
    use signal_hook::iterator::Signals;

    let is_ignored = ignored_signals();
    let watched: Vec<i32> =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let failed = |error| Failure::new(Exit::Failed, format!("cannot watch for signals: {error}"));
    let last = StopSignal::default();
    for signal in &watched {
        let number = usize::try_from(*signal).unwrap_or_default();
        register_usize(*signal, last.0.clone(), number).map_err(failed)?;
    }
    let mut signals = Signals::new(&watched).map_err(failed)?;
    let watch = move || {
        for signal in signals.forever() {
            if !receive(u8::try_from(signal).unwrap_or_default()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(last)
}

/// On other systems a signal ends the process. Its claims end with it.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Unix")]
pub fn forward(_receive: impl Fn(u8) -> bool + Send + 'static) -> CommandResult<StopSignal> {
    Ok(StopSignal::default())
}

/// Which signals this process ignores, as Linux reports it. On other systems SIGHUP counts as
/// ignored, which leaves its default action in place.
#[cfg(unix)]
fn ignored_signals() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let mask = status.and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    move |signal| match mask {
        Some(mask) => mask & (1 << (signal - 1)) != 0,
        None => signal == signal_hook::consts::SIGHUP,
    }
}
