//! A progress bar: a worker reports how far it is, and the program draws that.
//!
//! `cargo run --example progress_bar`. Reports are in memory only: the worker may report at every
//! step, and subscribers receive at most ten events a second for each task.

#![allow(clippy::disallowed_methods, reason = "the work of an example is a sleep")]

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tubewell::{EventKind, Events, Filter, Job, Progress, Result, Store, Worker};

const FRAMES: u64 = 300;
const WIDTH: u32 = 30;

fn encode(film: &Job) -> Result<()> {
    for pass in ["picture", "sound"] {
        film.progress_text(pass)?;
        for frame in 1..=FRAMES {
            film.check()?; // an error if the film was deleted
            std::thread::sleep(Duration::from_millis(1)); // the work
            film.progress(frame, FRAMES)?;
        }
    }
    Ok(())
}

/// Draws a bar for each task, one below the other. Returns how many tasks are done.
fn draw(events: Events) -> std::io::Result<u32> {
    let mut screen = std::io::stdout().lock();
    let end_of_line = if screen.is_terminal() { '\r' } else { '\n' };
    let mut done = 0;
    for event in events {
        let id = event.id;
        match (event.kind, event.progress) {
            (EventKind::Progress, Some(progress)) => {
                let text = progress.text.as_deref().unwrap_or_default();
                write!(screen, "film {id} {} {text:8}{end_of_line}", bar(&progress))?;
            }
            (EventKind::Ack, _) => {
                done += 1;
                writeln!(screen, "film {id} [{}] done    ", "#".repeat(WIDTH as usize))?;
            }
            _ => {}
        }
        screen.flush()?;
    }
    Ok(done)
}

fn bar(progress: &Progress) -> String {
    let is_full = |column: &u32| {
        progress.fraction().is_some_and(|done| done * f64::from(WIDTH) >= f64::from(*column))
    };
    let full = (1..=WIDTH).filter(is_full).count();
    format!("[{:width$}]", "#".repeat(full), width = WIDTH as usize)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory()?;
    let films = store.tube("films")?;
    let drawn = Filter::new().tube("films").kinds([EventKind::Progress, EventKind::Ack]);
    let events = store.events(drawn, 1000)?;
    let artist = std::thread::spawn(move || draw(events));

    films.put_many(["one.mkv", "two.mkv", "three.mkv"])?;
    Worker::new(&store).on(&films, encode).run_until_idle()?;

    store.close()?; // ends the subscription
    let done = artist.join().map_err(|_| "the drawing thread panicked")??;
    println!("{done} films are done");
    Ok(())
}
