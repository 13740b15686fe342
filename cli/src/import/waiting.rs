//! The tasks of an export that have parents, or steps that have put tasks. They are stored after all other tasks, parents first;
//! until then their lines are in a temporary file beside the store.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::ids::NewIds;

/// Tasks with parents, in the order of their lines.
pub struct Waiting {
    pub(super) path: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: u64,
    pub(super) tasks: Vec<Line>,
    /// The new ids of the tasks, by their old ones.
    new_ids: HashMap<u64, u64>,
}

/// The line of a task with parents.
pub(super) struct Line {
    pub(super) number: u64,
    /// Where it is in the file.
    at: u64,
    length: usize,
    pub(super) old_id: u64,
    pub(super) new_id: u64,
    parents: Box<[u64]>,
}

impl Waiting {
    /// `store`: the path of the store.
    pub fn new(store: &Path) -> Waiting {
        let mut path = store.as_os_str().to_owned();
        path.push(format!(".{}.partial", std::process::id()));
        Waiting {
            path: path.into(),
            file: None,
            bytes: 0,
            tasks: Vec::new(),
            new_ids: HashMap::new(),
        }
    }

    /// Notes a task that has been read, and gets this id.
    pub fn add(
        &mut self,
        (number, text): (u64, &[u8]),
        (old_id, new_id): (u64, u64),
        parents: &[u64],
    ) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(unnamed_file(&self.path)?),
        };
        self.file.insert(file).write_all(text)?;
        let (at, length) = (self.bytes, text.len());
        self.bytes += length as u64;
        self.new_ids.insert(old_id, new_id);
        self.tasks.push(Line { number, at, length, old_id, new_id, parents: parents.into() });
        Ok(())
    }

    /// The id that one of these tasks gets.
    pub fn new_id(&self, old_id: u64) -> Option<u64> {
        self.new_ids.get(&old_id).copied()
    }

    /// Reads a line again.
    pub fn text(&mut self, index: usize) -> io::Result<Vec<u8>> {
        let (Some(file), Some(line)) = (&mut self.file, self.tasks.get(index)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // Writes what is left to write, too.
        file.seek(SeekFrom::Start(line.at))?;
        let mut text = vec![0; line.length];
        file.get_mut().read_exact(&mut text)?;
        Ok(text)
    }

    /// The tasks of the lines before this one: each after its parents, and otherwise in the order of
    /// their lines. Notes the ids that several of them have.
    pub fn order(&self, end: u64, ids: &mut NewIds) -> Vec<usize> {
        let number = self.tasks.partition_point(|task| task.number < end);
        let mut by_id = HashMap::with_capacity(number);
        for (index, task) in self.tasks.iter().take(number).enumerate() {
            if by_id.insert(task.old_id, index).is_some() {
                ids.add_ambiguous(task.old_id);
            }
        }
        let (mut order, mut is_seen) = (Vec::with_capacity(number), vec![false; number]);
        // The tasks on the way up from one to its parents, and which parent is next.
        let mut way: Vec<(usize, usize)> = Vec::new();
        for index in 0..number {
            if std::mem::replace(&mut is_seen[index], true) {
                continue;
            }
            way.push((index, 0));
            while let Some((task, next)) = way.last_mut() {
                let Some(parent) = self.tasks[*task].parents.get(*next) else {
                    order.push(*task);
                    way.pop();
                    continue;
                };
                *next += 1;
                if let Some(parent) = by_id.get(parent)
                    && !std::mem::replace(&mut is_seen[*parent], true)
                {
                    way.push((*parent, 0));
                }
            }
        }
        order
    }
}

/// A file whose name is removed: it ends with the process.
fn unnamed_file(path: &Path) -> io::Result<File> {
    // Left by a process with this number that was killed between the two calls below.
    let _ = std::fs::remove_file(path);
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let _ = std::fs::remove_file(path);
    Ok(file)
}
