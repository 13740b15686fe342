//! A desktop program whose queue survives a kill at any moment: thumbnails of a folder of pictures.
//!
//! ```sh
//! cargo run --example desktop -- --crash   # aborts in the middle of the work
//! cargo run --example desktop              # continues where it stopped
//! ```
//!
//! The thumbnails to be made must not be lost: their tube flushes. The list of recently shown
//! pictures may be lost: its tube is relaxed, so a put does not wait, and a crash loses the changes
//! that were not flushed. The file never contains half of a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tubewell::{Durability, Job, Store, TubeOptions, Worker};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PICTURES: u64 = 40;
/// With `--crash`, the program aborts after this many acks.
const CRASH_AFTER: u64 = 15;
/// The bytes of a picture. A thumbnail is every eighth of them.
const SIZE: usize = 4096;

fn picture(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(SIZE).collect()
}

fn thumbnail(picture: &[u8]) -> Vec<u8> {
    picture.iter().copied().step_by(8).collect()
}

/// Writes a temporary file and renames it, so that a thumbnail exists as a whole or not at all. The
/// work is idempotent: it runs twice if the program dies between the work and the ack.
fn make_thumbnail(folder: &Path, name: &str) -> std::io::Result<()> {
    let part = folder.join("part");
    fs::write(&part, thumbnail(&picture(name)))?;
    fs::rename(part, folder.join("thumbnails").join(name))
}

fn main() -> Result<()> {
    let mut crash = false;
    let mut folder = std::env::temp_dir().join("tubewell-desktop");
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--crash") => crash = true,
            _ => folder = PathBuf::from(argument),
        }
    }
    let thumbnails = folder.join("thumbnails");
    fs::create_dir_all(&thumbnails)?;

    // One instance at a time: a second one gets `InUse` here.
    let store = Store::open(folder.join("queue.tubewell"))?;
    let to_do = store.tube("thumbnails")?.typed::<String>();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let recent = store.open_tube("recent", relaxed)?.typed::<String>();

    let before = to_do.statistics()?.tasks.total;
    let made = fs::read_dir(&thumbnails)?.count();
    println!("{made} thumbnails are there, {before} are to be made");
    if before == 0 && made == 0 {
        // One commit: all pictures of the import are in the queue, or none.
        to_do.put_many((0..PICTURES).map(|number| format!("picture {number:02}")))?;
        println!("imported {PICTURES} pictures");
    }

    let (made_in, shown, begun) = (folder.clone(), recent.clone(), AtomicU64::new(0));
    let make = move |picture: &Job<String>| -> Result<()> {
        make_thumbnail(&made_in, picture.value())?;
        shown.put(picture.value())?; // returns immediately; flushed within 50 ms or with the next ack
        if crash && begun.fetch_add(1, Ordering::Relaxed) == CRASH_AFTER {
            // The worst moment: after the work and before its ack.
            println!("crash after {CRASH_AFTER} acks");
            std::process::abort();
        }
        Ok(()) // the ack is on the disk before the next job begins: this thumbnail is not made again
    };
    // A program with a window calls `start`, and `stop` when the window closes.
    let done = Worker::new(&store).on(&to_do, make).run_until_idle()?.done;
    // Flush the relaxed changes before the program reports success.
    store.flush()?;

    let shown = recent.statistics()?.tasks.total;
    println!("made {done}, the list of recent pictures has {shown} entries");
    for number in 0..PICTURES {
        let name = format!("picture {number:02}");
        if fs::read(thumbnails.join(&name))? != thumbnail(&picture(&name)) {
            return Err(format!("the thumbnail of {name} is wrong").into());
        }
    }
    println!("all {PICTURES} thumbnails are there; remove {} to start over", folder.display());
    store.close()?;
    Ok(())
}
