//! Tasks by their tags.

use std::collections::BTreeSet;

use tubewell::{Filter, Receipt, Result, Tube};

use super::System;
use super::reference::TaskNo;
use super::steps::TAGS;

impl System {
    /// Compares which tasks have which tags, page by page, in all tubes and in each.
    #[track_caller]
    pub(super) fn check_tags(&self) {
        for tag in TAGS {
            let want: BTreeSet<TaskNo> = self.model.tagged(tag).map(|(no, _)| no).collect();
            let (mut ids, mut after) = (Vec::new(), None);
            loop {
                let page =
                    self.store.list(Filter::new().tag(tag), after, 2 + want.len() / 3).unwrap();
                ids.extend(page.items.iter().map(|task| task.id));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(ids.is_sorted(), "{ids:?}");
            let got: BTreeSet<TaskNo> = ids.iter().map(|id| self.number(*id)).collect();
            assert_eq!((got.len(), &got), (ids.len(), &want), "the tasks with the tag {tag}");
            // The rows of truncated tubes count until they are removed.
            let counts = self.store.tags(None, 9).unwrap();
            let count = counts.iter().find(|count| count.tag == tag).map_or(0, |count| count.tasks);
            assert!(want.len() < 2 || count >= want.len() as u64, "{count} with the tag {tag}");
            for (no, of) in self.model.tubes() {
                let Ok(tube) = self.store.find_tube(&of.name) else { continue };
                let in_tube = want.iter().filter(|task| self.model.peek(*no, **task).is_ok());
                let wanted = Filter::new().tag(tag).newest_first();
                let page = tube.query().list(&wanted, None, 10_000).unwrap();
                let got: BTreeSet<TaskNo> =
                    page.items.iter().map(|info| self.number(info.id)).collect();
                assert_eq!(got, in_tube.copied().collect(), "{tag} in {}", of.name);
            }
        }
    }
}

/// Adds tags to a task, or removes some.
pub(super) fn edit_tags(
    tube: &Tube,
    id: u64,
    (tags, adds): (&[String], bool),
    deferred: bool,
) -> Result<Receipt> {
    let later = tube.to_async();
    match (adds, deferred) {
        (true, false) => tube.admin().add_tags(id, tags),
        (true, true) => later.admin().add_tags(id, tags).wait(),
        (false, false) => tube.admin().remove_tags(id, tags),
        (false, true) => later.admin().remove_tags(id, tags).wait(),
    }
}
