//! effectum: the phases run in a small program of its own, as its `SQLite` cannot be linked beside
//! that of other peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::queue::{About, Class, Loses, Peer, Queue, Result, Setting};
use crate::remote::Remote;

/// Names the program, if it is elsewhere.
const ELSEWHERE: &str = "PEERS_EFFECTUM";

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    std::iter::once(Box::new(Effectum) as Box<dyn Peer>)
}

struct Effectum;

impl Peer for Effectum {
    fn about(&self) -> About {
        let lost = "the last commits may roll back: the unlinking of the rollback journal is not \
                    synced";
        About {
            name: "effectum".into(),
            version: "0.7.0".into(),
            class: Class::ProcessSafe,
            loses: Loses::all("nothing", lost, "the same"),
            callers: "tasks of a tokio runtime add jobs; one worker, as wide as they are many, \
                      runs them"
                .into(),
            waits: "a notice in the process".into(),
            note: "It means to use WAL, but its pragma is misspelt (journal, not journal_mode): \
                   it runs on a rollback journal with synchronous=NORMAL. One thread writes, up \
                   to 50 operations a commit. Rows of done jobs stay in the file."
                .into(),
        }
    }

    fn missing(&self) -> Option<String> {
        let build = "not built: cargo build --release --manifest-path \
                     benches/peers/effectum/Cargo.toml";
        (!program().is_file()).then(|| build.to_owned())
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let mut command = Command::new(program());
        command.arg(dir.join("effectum.sqlite"));
        Ok(Box::new(Remote::start(&mut command, &dir.join("complaints.log"), setting.body)?))
    }
}

fn program() -> PathBuf {
    let built = "effectum/target/release/tubewell-peers-effectum";
    std::env::var_os(ELSEWHERE)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(built), PathBuf::from)
}
