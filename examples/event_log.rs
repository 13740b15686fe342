//! A log of all changes: a stream of the events of all tubes, and a callback on one tube.
//!
//! `cargo run --example event_log`. Events are delivered after the change is in the file and outside
//! of the commit: a slow subscriber delays no call, it misses events, and the stream counts them.
//! The changes are made by hand, one of each kind, and not by a `Worker`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tubewell::{EventKind, Events, Filter, Put, Store, TubeOptions};

/// Writes one line for each event until the store is closed; returns how many were missed.
fn write_log(mut events: Events, file: File) -> std::io::Result<u64> {
    let mut log = BufWriter::new(file);
    for event in events.by_ref() {
        let (tube, id, state) = (&event.tube, event.id, event.state.as_char());
        writeln!(log, "{} {tube} {id} {:?} {state}", event.seq, event.kind)?;
    }
    log.flush()?;
    Ok(events.dropped())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("events.log");
    let store = Store::open(folder.path().join("app.tubewell"))?;

    // The stream of all events, read by a thread of the program.
    let events = store.events(Filter::new(), 10_000)?;
    let file = File::create(&path)?;
    let logger = std::thread::spawn(move || write_log(events, file));

    // Totals of one tube, counted by a callback. It runs on a thread of the store.
    let totals = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = totals.clone();
    let options = TubeOptions::new().on_task_change(move |event| {
        let mut totals = counted.lock().unwrap_or_else(PoisonError::into_inner);
        *totals.entry(format!("{:?}", event.kind)).or_insert(0u32) += 1;
        if event.kind == EventKind::Bury {
            eprintln!("task {} is buried and needs an operator", event.id);
        }
    });
    let mail = store.open_tube("mail", options)?;
    let print = store.tube("print")?;

    // Some changes.
    mail.put("ann")?;
    print.put("page 1")?;
    let first = mail.try_take()?.ok_or("no mail")?;
    first.touch(Duration::from_secs(60))?;
    first.release()?;
    let again = mail.try_take()?.ok_or("no mail")?;
    again.bury(None)?;
    mail.admin().kick(Filter::new().limit(1))?;
    mail.try_take()?.ok_or("no mail")?.ack()?;
    print.try_take()?.ok_or("nothing to print")?.ack()?;
    mail.put(Put::new("too late").ttl(Duration::ZERO))?;
    if mail.try_take()?.is_some() {
        return Err("an expired task was delivered".into());
    }

    // Closing ends the stream after the last event is delivered.
    drop((mail, print));
    store.close()?;
    let missed = logger.join().map_err(|_| "the logger panicked")??;
    let log = std::fs::read_to_string(&path)?;
    print!("{log}");
    let totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    println!("mail: {totals:?}; {missed} events missed");

    let expected = "\
1 mail 0 Put r
2 print 1 Put r
3 mail 0 Take t
4 mail 0 Touch t
5 mail 0 Release r
6 mail 0 Take t
7 mail 0 Bury !
8 mail 0 Kick r
9 mail 0 Take t
10 mail 0 Ack -
11 print 1 Take t
12 print 1 Ack -
13 mail 2 Put r
14 mail 2 Delete -
15 mail 2 Ttl -
";
    if log != expected || missed != 0 || totals.get("Take") != Some(&3) {
        return Err("the log differs from the changes".into());
    }
    Ok(())
}
