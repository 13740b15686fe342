//! Shrinking the file in an idle period.
//!
//! The thread that shrinks is the leader of the file, so no commit runs meanwhile.

use super::group_commit::LeaderGuard;
use super::inner::StoreInner;
use super::leadership::pass_lead;
use crate::Result;
use crate::core::{Buffer, is_mostly_empty};
use crate::storage::{Checkpoint, Engine, FailureCause, Overlay};

/// A close returns free space if that takes no longer than this, in microseconds.
const MAX_AT_CLOSE: u64 = 50_000;
/// Shrinking a file takes about as long as this many commits of one row, each with two flushes.
const COMMITS_PER_SHRINK: u64 = 8;

/// Returns the free space of a file that is mostly empty and about to be closed, with all its edits in the database. `now`
/// is the time in microseconds.
pub(super) fn shrink_at_close(engine: &Engine, now: impl Fn() -> u64) -> Result<()> {
    if engine.journal().is_none()
        || !is_mostly_empty(engine, Overlay::default())?
        // Moving damaged pages would give them valid checksums.
        || engine.check_pages()?.is_some()
    {
        return Ok(());
    }
    // The last commit before it may have removed many rows: what a commit takes here is measured without them.
    let began = now();
    engine.checkpoint(&Checkpoint::up_to(engine.last_record()), true)?;
    let commit = now().saturating_sub(began);
    if commit.saturating_mul(COMMITS_PER_SHRINK) <= MAX_AT_CLOSE {
        engine.shrink()?;
    }
    Ok(())
}

impl StoreInner {
    /// Returns disk space to the file system if the file is mostly empty. The caller has set
    /// `has_leader` of the file's write buffer. A call that is decided meanwhile ends the idle
    /// period.
    pub(super) fn shrink_if_mostly_empty(&self) {
        let guard = LeaderGuard { inner: self, buffer: Buffer::File };
        let (engine, above) = {
            let core = self.lock();
            (
                core.buffers[Buffer::File].engine().cloned(),
                core.buffers[Buffer::File].edits.merged(),
            )
        };
        if let Some(engine) = engine
            && self.report_failure(is_mostly_empty(&engine, above)).unwrap_or(false)
            && self.checkpoint_all().is_ok()
            // Moving damaged pages would give them valid checksums.
            && self.report_failure(engine.check_pages()).is_ok_and(|damage| damage.is_none())
        {
            self.shrink(&engine);
        }
        let mut core = self.lock();
        pass_lead(&mut core, Buffer::File);
        self.unlock(core);
        std::mem::forget(guard);
    }

    /// Shrinks the file, if the store is still idle.
    fn shrink(&self, engine: &Engine) {
        let mut core = self.lock();
        let is_idle = core.is_idle();
        if is_idle {
            core.reset_free_in_file();
        }
        self.unlock(core);
        if !is_idle {
            return;
        }
        let shrunk = engine.shrink();
        let mut core = self.lock();
        match shrunk {
            Ok(true) => {}
            // A reader holds a snapshot: try again after the next idle period.
            Ok(false) => core.start_idle_timer(),
            Err(error) => core.fail(&error.why, FailureCause::from(&error)),
        }
        self.unlock(core);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tubewell_drivers::Table;

    use super::*;
    use crate::storage::Footprint;

    /// A close is not the time for some 15 flushes of a slow disk.
    #[test]
    fn close_keeps_the_size_if_flushes_are_slow() {
        let dir = tempfile::tempdir().unwrap();
        let size = Footprint { cache: 1 << 20, reserve: 0, mode: 0o600 };
        let engine = Engine::open_file(&dir.path().join("store"), size).unwrap();
        let keys = || (0..640_u32).map(|key| key.to_be_bytes().to_vec());
        let mut bodies = Overlay::default();
        keys().for_each(|key| bodies.insert(Table::Bodies, key, vec![7; 60_000].into()));
        engine.commit(bodies);
        let mut last = Overlay::default();
        last.insert(Table::Meta, b"header".to_vec(), vec![8; 5000].into());
        engine.commit(last);
        let mut removed = Overlay::default();
        keys().for_each(|key| removed.remove(Table::Bodies, key));
        engine.commit(removed);
        let full = engine.size();
        let time = Cell::new(0);
        let each_commit_takes = |micros| {
            let time = &time;
            move || time.replace(time.get() + micros)
        };
        shrink_at_close(&engine, each_commit_takes(10_000)).unwrap();
        assert_eq!(engine.size(), full);
        shrink_at_close(&engine, each_commit_takes(1000)).unwrap();
        assert!(engine.size() < full / 4, "{} of {full} bytes", engine.size());
    }
}
