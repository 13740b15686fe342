//! effectum: a separate program runs its phases, because its `SQLite` cannot be linked together
//! with that of the other peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::remote::Remote;

/// The environment variable with the path of the program, if it is not the default path.
const PROGRAM_VARIABLE: &str = "PEERS_EFFECTUM";

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    std::iter::once(Box::new(Effectum) as Box<dyn Peer>)
}

struct Effectum;

impl Peer for Effectum {
    fn about(&self) -> About {
        let lost = "the last commits may roll back, because the deletion of the rollback journal \
                    is not synced";
        About {
            name: "effectum".into(),
            version: "0.7.0".into(),
            class: Class::ProcessSafe,
            loses: Losses::new("nothing", lost, "the same"),
            callers: "tasks of a tokio runtime add jobs; one worker runs as many jobs at once as \
                      there are callers"
                .into(),
            waits: "notification within the process".into(),
            note: "Its pragma for WAL is misspelt (journal, not journal_mode), so it runs with a \
                   rollback journal and synchronous=NORMAL. One thread writes up to 50 operations \
                   per commit. Rows of completed jobs stay in the file. Jobs: a report of a failure \
                   counts an attempt of all jobs in the file and appends to the run info of all of \
                   them (an UPDATE without WHERE), so it takes longer with each job, and with \
                   several callers a limit of 3 attempts would end jobs that have failed once: the \
                   limit is 3 with 1 caller, and none with more."
                .into(),
        }
    }

    fn missing(&self) -> Option<String> {
        let build = "not built: cargo build --release --manifest-path \
                     benches/peers/effectum/Cargo.toml";
        (!program().is_file()).then(|| build.to_owned())
    }

    fn does_jobs(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let mut command = Command::new(program());
        command.arg(dir.join("effectum.sqlite"));
        Ok(Box::new(Remote::start(&mut command, &dir.join("stderr.log"), setting.body)?))
    }
}

fn program() -> PathBuf {
    let built = "effectum/target/release/tubewell-peers-effectum";
    std::env::var_os(PROGRAM_VARIABLE)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(built), PathBuf::from)
}
