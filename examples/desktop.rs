//! A desktop program whose queue survives being killed at any moment: thumbnails of a folder of
//! pictures.
//!
//! ```sh
//! cargo run --example desktop -- --crash   # dies in the middle of the work
//! cargo run --example desktop              # goes on where it was
//! ```
//!
//! What the user must not lose, the thumbnails still to be made, is in a tube that flushes. What may
//! be lost, a list of recently shown pictures, is in a relaxed one: a put there waits for nothing,
//! and a crash loses what was not flushed yet. The file never holds half of a change.

use std::fs;
use std::path::{Path, PathBuf};

use tubewell::{Claim, Durability, FIFO, Store, TubeOptions};

const PICTURES: u64 = 40;
/// With `--crash`, after so many acks.
const CRASH_AFTER: u64 = 15;
/// A picture is as many bytes of grey, and a thumbnail every eighth of them.
const SIZE: usize = 4096;

fn picture(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(SIZE).collect()
}

fn thumbnail(picture: &[u8]) -> Vec<u8> {
    picture.iter().copied().step_by(8).collect()
}

/// Writes elsewhere and renames, so that a thumbnail is there as a whole or not at all. Doing it twice
/// does no harm; it may happen, if the program dies between the work and the ack.
fn make_thumbnail(folder: &Path, task: &Claim) -> std::io::Result<String> {
    let name = String::from_utf8_lossy(task.data()).into_owned();
    let part = folder.join("part");
    fs::write(&part, thumbnail(&picture(&name)))?;
    fs::rename(part, folder.join("thumbnails").join(&name))?;
    Ok(name)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
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

    // One instance at a time: a second one would get `InUse` here.
    let store = Store::open(folder.join("queue.tubewell"))?;
    let options = TubeOptions::new().if_not_exists(true);
    let to_do = store.create_tube("thumbnails", FIFO, options.clone())?;
    let recent = store.create_tube("recent", FIFO, options.durability(Durability::relaxed()))?;

    let before = to_do.statistics()?.tasks.total;
    let made = fs::read_dir(&thumbnails)?.count();
    println!("{made} thumbnails are there, {before} are to be made");
    if before == 0 && made == 0 {
        // One commit: the pictures of the import are in the queue all together, or none is.
        to_do.put_many((0..PICTURES).map(|number| format!("picture {number:02}")))?;
        println!("imported {PICTURES} pictures");
    }

    let mut done = 0;
    while let Some(task) = to_do.try_take()? {
        let name = make_thumbnail(&folder, &task)?;
        recent.put(name)?; // returns at once, is flushed within 50 ms or along with the next ack
        if crash && done == CRASH_AFTER {
            // The worst moment: the work is done and the queue does not know it.
            println!("crash after {done} acks");
            std::process::abort();
        }
        task.ack()?; // on the disk: this one is not done again
        done += 1;
    }
    // Before it says that all is well, the program sees to what was relaxed, too.
    store.flush()?;

    let shown = recent.statistics()?.tasks.total;
    println!("made {done}, {shown} notes of recent pictures have survived");
    for number in 0..PICTURES {
        let name = format!("picture {number:02}");
        if fs::read(thumbnails.join(&name))? != thumbnail(&picture(&name)) {
            return Err(format!("the thumbnail of {name} is wrong").into());
        }
    }
    println!("all {PICTURES} thumbnails are there; remove {} to begin anew", folder.display());
    store.close()?;
    Ok(())
}
