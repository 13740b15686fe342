//! Tubes: made, dropped, emptied, shown and counted.

use std::path::Path;

use serde_json::json;
use tubewell::{Error, Statistics, Store, TubeInfo, TubeOptions};

use crate::args::{Cli, Create};
use crate::failure::{Failure, Outcome};
use crate::output::{Cell, Output, Style, count, size};
use crate::record::{CountsRecord, TubeRecord};
use crate::{duration, store};

/// Makes a tube, and the store if there is none.
pub fn create(path: &Path, cli: &Cli, asked: &Create, output: &mut Output) -> Outcome {
    let is_new = !path.exists() || store::is_empty(path);
    if is_new {
        // A file that came into being for a tube that cannot be is of no use to anybody.
        make_tube(&Store::in_memory()?, asked)?;
    }
    let store = store::create(path, cli)?;
    let was_there = store.tube(&asked.tube).is_ok();
    // Told before the store is closed: the tube is made, whatever becomes of the closing.
    let made = make_tube(&store, asked).and_then(|()| {
        if output.json {
            return output.object(&json!({
                "tube": asked.tube, "driver": asked.driver, "tube_created": !was_there,
                "store_created": is_new,
            }));
        }
        if was_there {
            let (tube, driver) = (&asked.tube, &asked.driver);
            return output.line(format!("the tube {tube} ({driver}) is there already"));
        }
        if is_new {
            output.line(format!("created the store {}", path.display()))?;
        }
        output.line(format!("created the tube {} ({})", asked.tube, asked.driver))
    });
    made.and(store::close(&store))
}

pub fn drop(store: &Store, name: &str, output: &mut Output) -> Outcome {
    let total = store::tube(store, name)?.statistics()?.tasks.total;
    store.drop_tube(name)?;
    if output.json {
        return output.object(&json!({ "tube": name, "removed": total }));
    }
    output.line(format!("dropped the tube {name} with {}", count(total, "task")))
}

pub fn truncate(store: &Store, name: &str, output: &mut Output) -> Outcome {
    let tube = store::tube(store, name)?;
    let total = tube.statistics()?.tasks.total;
    tube.truncate()?;
    if output.json {
        return output.object(&json!({ "tube": name, "removed": total }));
    }
    output.line(format!("removed {} from {name}", count(total, "task")))
}

/// The tubes and what they were created with.
pub fn list(store: &Store, output: &mut Output) -> Outcome {
    let counted = counted(store);
    if output.json {
        return counted.iter().try_for_each(|(tube, counts)| {
            output.object(&TubeRecord::new(tube, counts.tasks.total))
        });
    }
    if counted.is_empty() {
        return output.line("no tubes; `tubewell create NAME` makes one");
    }
    let rows: Vec<Vec<Cell>> = counted
        .iter()
        .map(|(tube, counts)| {
            vec![
                Cell::text(&tube.name),
                Cell::text(&tube.driver),
                Cell::number(counts.tasks.total),
                Cell::text(options_of(tube)).style(Style::Dim),
            ]
        })
        .collect();
    output.table(&["TUBE", "DRIVER", "TASKS", "OPTIONS"], &rows)
}

/// How many tasks there are, by state.
pub fn stats(store: &Store, only: Option<&str>, path: &Path, output: &mut Output) -> Outcome {
    if let Some(name) = only {
        store::tube(store, name)?;
    }
    let mut counted = counted(store);
    counted.retain(|(tube, _)| only.is_none_or(|name| tube.name == name));
    if output.json {
        return counted
            .iter()
            .try_for_each(|(tube, counts)| output.object(&CountsRecord::new(tube, counts)));
    }
    if counted.is_empty() {
        return output.line("no tubes; `tubewell create NAME` makes one");
    }
    let quiet = |number: u64, style| {
        Cell::number(number).style(if number == 0 { Style::Dim } else { style })
    };
    let rows: Vec<Vec<Cell>> = counted
        .iter()
        .map(|(tube, counts)| {
            let tasks = counts.tasks;
            vec![
                Cell::text(&tube.name),
                quiet(tasks.ready, Style::Green),
                quiet(tasks.taken, Style::Plain),
                quiet(tasks.delayed, Style::Yellow),
                quiet(tasks.buried, Style::Red),
                quiet(tasks.total, Style::Bold),
            ]
        })
        .collect();
    output.table(&["TUBE", "READY", "TAKEN", "DELAYED", "BURIED", "TOTAL"], &rows)?;
    if only.is_none() {
        let file = std::fs::metadata(path).map_or(0, |file| file.len());
        let line = output.paint(Style::Dim, &format!("{}, {}", path.display(), size(file)));
        output.line(line)?;
    }
    Ok(())
}

fn make_tube(store: &Store, asked: &Create) -> Outcome {
    let mut options = TubeOptions::new().temporary(asked.temporary);
    options = options.if_not_exists(asked.if_not_exists);
    if let Some(ttl) = asked.ttl {
        options = options.ttl(ttl);
    }
    if let Some(ttr) = asked.ttr {
        options = options.ttr(ttr);
    }
    if let Some(pri) = asked.pri {
        options = options.pri(pri);
    }
    if let Some(capacity) = asked.capacity {
        options = options.capacity(capacity);
    }
    match store.create_tube(&asked.tube, &asked.driver, options) {
        Ok(_) => Ok(()),
        Err(Error::Unsupported { what, driver }) => {
            let able = if what.contains("capacity") {
                "limfifottl"
            } else {
                "fifottl, utubettl or limfifottl"
            };
            Err(Failure::usage(format!("the {driver} driver does not support {what}"))
                .hint(format!("leave it out, or create the tube with --driver {able}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn counted(store: &Store) -> Vec<(TubeInfo, Statistics)> {
    let mut counts = store.statistics();
    let with = |tube: TubeInfo| {
        let counts = counts.remove(&tube.name).unwrap_or_default();
        (tube, counts)
    };
    store.tubes().into_iter().map(with).collect()
}

fn options_of(tube: &TubeInfo) -> String {
    let mut parts = Vec::new();
    if !tube.usable {
        parts.push("its driver is known to its application alone".to_owned());
    }
    if tube.pri != 0 {
        parts.push(format!("pri {}", tube.pri));
    }
    for (name, time) in [("ttl", tube.ttl), ("ttr", tube.ttr)] {
        parts.extend(time.map(|time| format!("{name} {}", duration::show(time))));
    }
    if tube.capacity != 0 {
        parts.push(format!("capacity {}", tube.capacity));
    }
    if tube.temporary {
        parts.push("in memory only".into());
    }
    parts.join(", ")
}
