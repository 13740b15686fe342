//! `alter`, `pause` and `unpause`.

use std::time::Duration;

use serde_json::json;
use tubewell::{Store, Tube};

use super::limits;
use super::tubes::{describe, unsupported};
use crate::args::{Alter, Pause, Unpause};
use crate::failure::CommandResult;
use crate::output::Output;
use crate::record::TubeRecord;
use crate::{duration, store};

/// Changes the options that are given.
pub fn alter(store: &Store, args: &Alter, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    tube.alter(args.options.over(tube.info()?.options())).map_err(unsupported)?;
    let info = tube.info()?;
    if output.json {
        return output.object(&TubeRecord::new(&info, tube.statistics()?.tasks));
    }
    let options = describe(&info);
    output.line(if options.is_empty() {
        format!("{}: no options", args.tube)
    } else {
        format!("{}: {options}", args.tube)
    })
}

pub fn pause(store: &Store, args: &Pause, output: &mut Output) -> CommandResult {
    let time = args.time.unwrap_or(Duration::MAX);
    if let Some(name) = &args.sub_queue {
        return limits::pause(store, &args.tube, name, time, output);
    }
    let tube = store::tube(store, &args.tube)?;
    tube.pause_for(time)?;
    report(&tube, Some(time), output)
}

pub fn unpause(store: &Store, args: &Unpause, output: &mut Output) -> CommandResult {
    if let Some(name) = &args.sub_queue {
        return limits::pause(store, &args.tube, name, Duration::ZERO, output);
    }
    let tube = store::tube(store, &args.tube)?;
    tube.unpause()?;
    report(&tube, None, output)
}

/// `time` is how long the tube was paused for.
fn report(tube: &Tube, time: Option<Duration>, output: &mut Output) -> CommandResult {
    let info = tube.info()?;
    if output.json {
        let resumes_in = info.resumes_in.map(|left| left.as_secs_f64());
        return output.object(
            &json!({ "tube": info.name, "paused": info.paused, "resumes_in": resumes_in }),
        );
    }
    let name = tube.name();
    output.line(match time {
        Some(Duration::MAX) => format!("paused tube {name}"),
        Some(time) if !time.is_zero() => format!("paused tube {name} for {}", duration::show(time)),
        _ => format!("tube {name} is not paused"),
    })
}
