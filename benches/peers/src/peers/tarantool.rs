//! Tarantool's queue module: each row starts a tarantool process, which runs the phases in fibers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::version_of;
use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::remote::Remote;

const PROGRAM: &str = "tarantool";
/// The environment variable with the module's directory, which has `queue/init.lua`.
const MODULE_VARIABLE: &str = "TARANTOOL_QUEUE";
const SCRIPT: &str = include_str!("tarantool.lua");

/// Tarantool's `wal_mode`.
#[derive(Clone, Copy)]
enum Log {
    Write,
    Fsync,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Log::Fsync, Log::Write].into_iter().map(|log| Box::new(Tarantool(log)) as Box<dyn Peer>)
}

struct Tarantool(Log);

impl Peer for Tarantool {
    fn about(&self) -> About {
        let (name, class, loses) = match self.0 {
            Log::Write => {
                let lost = "data that the kernel has not written back, up to 30 s";
                ("tarantool/write", Class::ProcessSafe, Losses::new("nothing", lost, "the same"))
            }
            Log::Fsync => {
                let lost = "nothing once the log has rotated; after a restart, 2.6 opens its last \
                            log without O_SYNC and syncs nothing until the log rotates";
                ("tarantool/fsync", Class::Durable, Losses::new("nothing", lost, "the same"))
            }
        };
        About {
            name: name.into(),
            version: versions(),
            class,
            loses,
            callers: "fibers inside tarantool, no network".into(),
            waits: "take() blocks its fiber".into(),
            note: "fifo tube; put, take and ack each write a log record; all tasks are kept in \
                   memory; measured after box.snapshot(), which rotates the log"
                .into(),
        }
    }

    fn missing(&self) -> Option<String> {
        version_of(PROGRAM).and_then(|_| module()).err()
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64 | 256) | Shape::WakeUp)
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        std::fs::write(dir.join("tarantool.lua"), SCRIPT)?;
        let wal_mode = match self.0 {
            Log::Write => "write",
            Log::Fsync => "fsync",
        };
        let mut command = Command::new(PROGRAM);
        command.current_dir(dir).args(["tarantool.lua", ".", wal_mode]).arg(module()?);
        Ok(Box::new(Remote::start(&mut command, &dir.join("stderr.log"), setting.body)?))
    }
}

/// The directory of the module.
fn module() -> std::result::Result<PathBuf, String> {
    let missing =
        || format!("not installed: {MODULE_VARIABLE} does not name the queue module's directory");
    let dir = std::env::var_os(MODULE_VARIABLE).ok_or_else(missing)?;
    let dir = std::fs::canonicalize(dir).map_err(|_| missing())?;
    if dir.join("queue/init.lua").is_file() { Ok(dir) } else { Err(missing()) }
}

fn versions() -> String {
    let queue = module()
        .ok()
        .and_then(|dir| std::fs::read_to_string(dir.join("queue/version.lua")).ok())
        .and_then(|text| Some(format!("queue {}", text.split('\'').nth(1)?)));
    let versions: Vec<String> = version_of(PROGRAM).ok().into_iter().chain(queue).collect();
    versions.join(", ")
}
