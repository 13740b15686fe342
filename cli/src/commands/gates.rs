//! `alter`, `pause` and `unpause`.

use std::time::Duration;

use serde_json::json;
use tubewell::Store;

use super::limits;
use super::tubes::{describe, unsupported};
use crate::args::{Alter, Pause, PauseTarget};
use crate::failure::CommandResult;
use crate::output::Output;
use crate::record::{TubeRecord, seconds};
use crate::{moment, store};

/// Changes the options that are given.
pub fn alter(store: &Store, args: &Alter, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    tube.admin().alter(args.options()?).map_err(unsupported)?;
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
    let time = args.until.map(moment::time_until).or(args.time).unwrap_or(Duration::MAX);
    let until = args.until.map(moment::show);
    set_pause(store, &args.target, (time, until), output)
}

pub fn unpause(store: &Store, target: &PauseTarget, output: &mut Output) -> CommandResult {
    set_pause(store, target, (Duration::ZERO, None), output)
}

/// Pauses a tube or a sub-queue, or ends its pause with a time of zero. `until`: the moment at which
/// the pause ends, if the user gave one.
fn set_pause(
    store: &Store,
    target: &PauseTarget,
    (time, until): (Duration, Option<String>),
    output: &mut Output,
) -> CommandResult {
    let name = &target.tube;
    if let Some(sub_queue) = &target.sub_queue {
        return limits::pause(store, (name, sub_queue), (time, until), output);
    }
    let tube = store::tube(store, name)?;
    let was_paused = tube.info()?.paused;
    tube.admin().pause_for(time)?;
    let info = tube.info()?;
    if output.json {
        let resumes_in = seconds(info.resumes_in);
        return output.object(
            &json!({ "tube": info.name, "paused": info.paused, "resumes_in": resumes_in }),
        );
    }
    output.line(match time {
        Duration::ZERO => limits::unpaused(&format!("tube {name}"), was_paused),
        time => format!("paused tube {name}{}", limits::how_long(time, until)),
    })
}
