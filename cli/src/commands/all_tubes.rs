//! Tables of the tasks of all tubes, for `list --all-tubes` and `tagged`.

use std::time::SystemTime;

use tubewell::{Error, Filter, Store, TaskInfo};

use crate::args::Shown;
use crate::failure::CommandResult;
use crate::output::{Cell, Columns, Output, count, note};
use crate::record::{self, TaskRecord};
use crate::{store, task_text};

/// How many tasks are read at a time.
const PAGE: usize = 500;

/// Prints the tasks that meet these filters, one filter after the other and page by page: a long list is not kept in
/// memory. `what` names them if there are none.
pub fn print(
    store: &Store,
    filters: &[Filter],
    shown: &Shown,
    what: &str,
    output: &mut Output,
) -> CommandResult {
    let mut printer = Printer {
        store,
        now: store::now(store)?,
        has_bodies: shown.bodies,
        skip: shown.skip,
        left: shown.limit(),
        printed: 0,
        damaged: 0,
        rows: Vec::new(),
        columns: Columns::default(),
        output,
    };
    let has_more = print_all(&mut printer, filters)?;
    if has_more {
        let end = shown.skip.saturating_add(printer.printed);
        printer.output.flush()?;
        note(&format!("there are more; for the next ones give --skip {end}, for all --all"));
    } else if printer.printed == 0 && !printer.output.json {
        let more = if shown.skip > 0 { "more " } else { "" };
        printer.output.line(format!("no {more}{what}"))?;
    }
    if printer.damaged == 0 {
        return Ok(());
    }
    let what = count(printer.damaged, "record");
    Err(Error::Corrupt { what: format!("{what} cannot be read") }.into())
}

/// Returns whether there are more tasks than may be printed.
fn print_all(printer: &mut Printer<'_>, filters: &[Filter]) -> CommandResult<bool> {
    for filter in filters {
        let mut place = None;
        loop {
            let page = printer.store.list(filter, place, PAGE)?;
            printer.damaged += page.damaged;
            for info in &page.items {
                if printer.skip == 0 && printer.left == 0 {
                    printer.rows()?;
                    return Ok(true);
                }
                printer.task(info)?;
            }
            printer.rows()?;
            place = page.next;
            if place.is_none() {
                break;
            }
        }
    }
    Ok(false)
}

struct Printer<'a> {
    store: &'a Store,
    /// When the list began, by the clock of the store.
    now: SystemTime,
    has_bodies: bool,
    skip: u64,
    left: u64,
    printed: u64,
    /// Tasks whose records cannot be read.
    damaged: u64,
    rows: Vec<Vec<Cell>>,
    /// The columns that the table has so far.
    columns: Columns,
    output: &'a mut Output,
}

impl Printer<'_> {
    /// Prints the task, unless it is skipped or gone.
    fn task(&mut self, info: &TaskInfo) -> CommandResult {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        let tube = store::tube(self.store, &info.tube)?;
        let task = match tube.query().task(info.id) {
            Ok(task) => task,
            // Its ttl elapsed after the page was read.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => {
                // The tasks before a damaged one are printed.
                self.rows()?;
                return Err(error.into());
            }
        };
        self.left -= 1;
        self.printed += 1;
        if self.output.json {
            return self.output.object(&TaskRecord::new(&tube, &task, self.now)?);
        }
        if self.has_bodies {
            if self.printed > 1 {
                self.output.line("")?;
            }
            task_text::print_fields(&[("tube", info.tube.clone())], self.output)?;
            return task_text::print(&tube, &task, self.now, self.output);
        }
        let owner = record::owner(&tube, &task.info)?;
        let mut row = task_text::row(&task, owner.as_ref(), self.now);
        row.insert(1, Cell::text(&info.tube));
        self.rows.push(row);
        Ok(())
    }

    fn rows(&mut self) -> CommandResult {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut head = task_text::COLUMNS.to_vec();
        head.insert(1, "TUBE");
        let rows = std::mem::take(&mut self.rows);
        self.output.sparse_table_part(&head, rows, &mut self.columns)
    }
}
