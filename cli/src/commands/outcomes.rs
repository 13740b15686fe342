//! How tasks have ended: `outcome`, `groups` and `resolve`.

use serde::Serialize;
use serde_json::json;
use tubewell::expert::{FailureGroup, LastFailure};
use tubewell::{Ending, Error, Store, TaskState};

use crate::args::{Outcome, Resolve};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Cell, Output, size};
use crate::record::OutcomeRecord;
use crate::task_text;
use crate::{bytes, store};

pub fn outcome(store: &Store, args: &Outcome, output: &mut Output) -> CommandResult {
    let (name, id) = (&args.task.tube, args.task.id);
    let tube = store::tube(store, name)?;
    let ending = tube.ending(id).map_err(|error| Failure::of_task(error, name, id))?;
    let none = |why: &str| Failure::new(Exit::NoTask, format!("task {id} of {name} {why}"));
    if output.json
        && !args.result
        && let Some(record) = ending.as_ref().and_then(|it| OutcomeRecord::new(id, name, it))
    {
        return output.object(&record);
    }
    let (ended, result, failure) = match ending {
        Some(Ending::Done { result }) => (TaskState::Done, result, None),
        Some(Ending::Buried { failure }) => (TaskState::Buried, None, failure),
        Some(_) => {
            let hint = "`tubewell create --keep-done` makes a tube that keeps outcomes";
            return Err(none("has ended, and nothing is kept of it").hint(hint));
        }
        None => {
            let now = tube.query().task(id).map_or("unknown", |task| task.info.state.as_str());
            return Err(none(&format!("has not ended: it is {now}")));
        }
    };
    if args.result {
        return match result {
            Some(result) => output.body(&result),
            None if ended == TaskState::Done => Err(none("is done without a result")),
            None => Err(none("has no result: it is buried")),
        };
    }
    print(id, ended, result.as_deref(), failure.as_ref(), output)
}

/// A failure group, and the tube that it is in.
#[derive(Serialize)]
struct GroupRecord<'a> {
    tube: &'a str,
    #[serde(flatten)]
    group: &'a FailureGroup,
}

/// Counts the buried tasks of each failure group, of a tube or of all tubes.
pub fn groups(store: &Store, name: Option<&str>, output: &mut Output) -> CommandResult {
    let all = match name {
        Some(name) => [(name.to_owned(), store::tube(store, name)?.query().groups()?)].into(),
        None => store.admin().groups()?,
    };
    let mut rows = Vec::new();
    for (tube, groups) in &all {
        for group in groups {
            if output.json {
                output.object(&GroupRecord { tube, group })?;
            }
            let of_tube = name.is_none().then(|| Cell::text(tube));
            let row = [Cell::text(&group.name), Cell::number(group.count)];
            rows.push(of_tube.into_iter().chain(row).collect::<Vec<_>>());
        }
    }
    match rows.as_slice() {
        _ if output.json => Ok(()),
        [] => output.line("no failure groups"),
        rows if name.is_some() => output.table(&["GROUP", "TASKS"], rows),
        rows => output.table(&["TUBE", "GROUP", "TASKS"], rows),
    }
}

pub fn resolve(store: &Store, args: &Resolve, output: &mut Output) -> CommandResult {
    let (name, id) = (&args.task.tube, args.task.id);
    let tube = store::tube(store, name)?;
    let result = bytes::of_result(&args.result)?;
    let done = result.map_or_else(tubewell::Outcome::done, tubewell::Outcome::result);
    let receipt = tube.admin().resolve(id, done).map_err(|error| match error {
        Error::NotReady { state: TaskState::Taken, .. } => Failure::from(error)
            .hint(format!("`tubewell revoke {name} {id}` ends the claim of its worker")),
        error => Failure::of_task(error, name, id),
    })?;
    let printed = if output.json {
        output.object(&json!({ "id": id, "tube": name, "state": receipt.state.as_str() }))
    } else {
        output.line(format!("resolved task {id}"))
    };
    printed.map_err(Failure::after_the_change)
}

/// The state, then the failure of a buried task, or the result of a done one.
fn print(
    id: u64,
    ended: TaskState,
    result: Option<&[u8]>,
    failure: Option<&LastFailure>,
    output: &mut Output,
) -> CommandResult {
    let mut lines = vec![("task", id.to_string()), ("state", ended.as_str().to_owned())];
    lines.extend(failure.into_iter().flat_map(task_text::failure_lines));
    if ended == TaskState::Done {
        lines.push(("result", result.map_or("none".into(), |bytes| size(bytes.len() as u64))));
    }
    task_text::print_fields(&lines, output)?;
    let Some(result) = result else { return Ok(()) };
    output.line("")?;
    output.lines(result)
}
