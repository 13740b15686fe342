//! The signals that ask a long command to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::{Exit, Failure, Outcome};

/// The last signal that asked to stop.
#[derive(Clone, Default)]
pub struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// Its number, from the moment on in which it came: before it is told, and before anything is
    /// seen to end that the same signal has ended.
    pub fn to_stop(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

/// Tells each signal that asks to stop, on a thread of its own, until nobody listens any more.
///
/// A signal that was ignored when the process started stays so: that is how `nohup` and shells
/// keep commands in the background from being ended along with the terminal.
#[cfg(unix)]
pub fn forward(tell: impl Fn(u8) -> bool + Send + 'static) -> Outcome<Asked> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::register_usize;
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted: Vec<i32> =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored(*signal)).collect();
    let failed = |error| Failure::new(Exit::Failed, format!("cannot watch for signals: {error}"));
    let asked = Asked::default();
    for signal in &wanted {
        let number = usize::try_from(*signal).unwrap_or_default();
        register_usize(*signal, asked.0.clone(), number).map_err(failed)?;
    }
    let mut signals = Signals::new(&wanted).map_err(failed)?;
    let watch = move || {
        for signal in signals.forever() {
            if !tell(u8::try_from(signal).unwrap_or_default()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(asked)
}

/// Elsewhere a signal ends the process, and what it had taken is ready at the next open.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub fn forward(_tell: impl Fn(u8) -> bool + Send + 'static) -> Outcome<Asked> {
    Ok(Asked::default())
}

/// Which signals are ignored, where the system tells. Elsewhere only a hang-up, whose default is
/// left alone there.
#[cfg(unix)]
fn ignored() -> impl Fn(i32) -> bool {
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
