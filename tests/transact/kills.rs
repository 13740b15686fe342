//! Worker processes that are killed in the middle of their transactions: each task is served once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{FIFO, Outcome, Result, Store, TubeOptions};

/// How often each task was served, and the task that was put for it.
const DONE: TableDefinition<u64, (u64, u64)> = TableDefinition::new("done");
const STORE: &str = "TUBEWELL_TRANSACT_STORE";
const TASKS: u64 = 600;

/// The process that is killed: it serves tasks, and prints a line for each.
#[test]
fn worker_process() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let store = Store::open(path).unwrap();
    let (work, next) = (store.find_tube("work").unwrap(), store.find_tube("next").unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(claim) = work.try_take().unwrap() {
                    store
                        .transact(|tx| -> Result<()> {
                            let mut done = tx.open_table(DONE)?;
                            let before = done.get(claim.id())?.map_or(0, |row| row.value().0);
                            let put = tx.put(&next, vec![8; 500])?;
                            done.insert(claim.id(), (before + 1, put))?;
                            tx.end(&claim, Outcome::done())
                        })
                        .unwrap();
                    println!("done {}", claim.id());
                }
            });
        }
    });
    println!("no task left");
}

/// Kills the process when it is dropped.
struct Worker(Child);

impl Worker {
    fn start(path: &Path) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kills::worker_process", "--exact", "--nocapture"]).env(STORE, path);
        Worker(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Reads lines of the process until it has served this many tasks. Returns the tasks; `None` in
    /// place of the count if there is none left.
    fn serve(&mut self, count: usize) -> (Vec<u64>, bool) {
        let mut served = Vec::new();
        for line in BufReader::new(self.0.stdout.as_mut().unwrap()).lines() {
            let line = line.unwrap();
            if line.ends_with("no task left") {
                return (served, true);
            }
            if let Some((_, id)) = line.split_once("done ") {
                served.push(id.parse().unwrap());
            }
            if served.len() == count {
                break;
            }
        }
        (served, false)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_processes_serve_each_task_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    store.create_tube("next", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many((0..TASKS).map(|_| vec![7; 300])).unwrap();
    drop(work);
    store.close().unwrap();
    let (mut kills, mut is_over) = (0, false);
    while !is_over {
        let mut worker = Worker::start(&path);
        let (served, is_last) = worker.serve(5 + kills * 7 % 40);
        drop(worker);
        (kills, is_over) = (kills + 1, is_last);
        let store = Store::open(&path).unwrap();
        check(&store, &served);
        store.close().unwrap();
    }
    println!("{kills} processes");
    assert!(kills > 10);
}

/// What a process has reported is in the file, and everything in the file agrees.
fn check(store: &Store, served: &[u64]) {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let next = store.find_tube("next").unwrap();
    let done = store.view(|view| -> Result<u64> {
        let table = view.open_table(DONE)?.unwrap();
        for id in served {
            assert!(table.get(id)?.is_some(), "task {id}");
        }
        let mut count = 0;
        for row in table.iter()? {
            let (id, row) = row?;
            let (times, put) = row.value();
            assert_eq!(times, 1, "task {}", id.value());
            assert_eq!(next.query().task(put).map(|task| task.body.len()), Ok(500));
            count += 1;
        }
        Ok(count)
    });
    let done = done.unwrap();
    assert_eq!(next.statistics().unwrap().tasks.total, done);
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.total, TASKS - done);
}
