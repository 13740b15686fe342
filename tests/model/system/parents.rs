//! Tasks that wait for others.

use tubewell::{Put, Tube};

use super::System;
use super::convert::{agree_on_receipt, on_parent_of};
use super::reference::{After, Draft, State, TaskNo, TubeNo};
use super::steps::{Choice, Pick, TUBE_NAMES, TaskTemplate};

impl System {
    /// The task to put, with the parents of the template.
    pub(super) fn with_parents(
        &self,
        mut put: Put,
        mut draft: Draft,
        template: &TaskTemplate,
    ) -> (Put, Draft) {
        let mut after = After { on_parent: template.after.on_parent, ..After::default() };
        for pick in &template.after.parents {
            let of = pick.tube % self.tubes.len();
            let Some(of_no) = self.tubes[of] else { continue };
            let (no, id) = self.pick(pick, of_no, self.clients[0].no);
            if no == 0 && !template.keep_unsupported {
                continue;
            }
            put = put.after(&self.store.find_tube(TUBE_NAMES[of]).unwrap(), [id]);
            after.parents.push((TUBE_NAMES[of].to_owned(), vec![no]));
        }
        if let Some(key) = &template.after.key
            && (template.keep_unsupported || self.model.by_key(key).is_some())
        {
            put = put.after_key(key.as_str());
            after.keys.push(key.clone());
        }
        draft.after = after;
        (put.on_parent(on_parent_of(draft.after.on_parent)), draft)
    }

    pub(super) fn add_parents(
        &mut self,
        (tube, tube_no): (&Tube, TubeNo),
        (no, id): (TaskNo, u64),
        (of, parents): (usize, &[Pick]),
        deferred: bool,
    ) {
        let Some((of_tube, of_no, session)) = self.tube(0, of) else { return };
        let picked = parents.iter().map(|pick| match self.tubes[pick.tube % self.tubes.len()] {
            Some(other) => self.pick(pick, other, session),
            None => (0, u64::MAX),
        });
        let (numbers, ids): (Vec<TaskNo>, Vec<u64>) = picked.unzip();
        let got = if deferred {
            let later = tube.to_async();
            later.admin().add_parents(id, &of_tube, &ids).wait()
        } else {
            tube.admin().add_parents(id, &of_tube, &ids)
        };
        let want = self.model.add_parents(tube_no, no, of_no, &numbers);
        let is_unknown = ids.contains(&u64::MAX) && id != u64::MAX;
        if !is_unknown {
            return agree_on_receipt(got, want, id);
        }
        // The error names the parent.
        super::convert::agree(got, want);
    }

    pub(super) fn remove_parents(
        &mut self,
        (tube, tube_no): (&Tube, TubeNo),
        (no, id): (TaskNo, u64),
        parent: Option<Choice>,
        deferred: bool,
    ) {
        let parents = self.model.peek(tube_no, no).map(|task| task.parents.iter().copied());
        let parents: Vec<TaskNo> = parents.into_iter().flatten().collect();
        let chosen: Option<Vec<TaskNo>> = parent.map(|parent| {
            // A task that it does not wait for, if it waits for none.
            if parents.is_empty() { vec![no] } else { vec![*parent.get(&parents)] }
        });
        let ids: Option<Vec<u64>> = chosen.as_ref().map(|chosen| {
            chosen.iter().map(|no| self.ids.get(no).copied().unwrap_or(u64::MAX)).collect()
        });
        let got = if deferred {
            let later = tube.to_async();
            later.admin().remove_parents(id, ids.as_deref()).wait()
        } else {
            tube.admin().remove_parents(id, ids.as_deref())
        };
        let want = self.model.remove_parents(tube_no, no, chosen.as_deref());
        agree_on_receipt(got, want, id);
    }

    /// Compares which tasks wait for which others.
    #[track_caller]
    pub(super) fn check_parents(&self) {
        if !self.model.has_parents() {
            return;
        }
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let ids = |numbers: &mut dyn Iterator<Item = TaskNo>| {
                    numbers.map(|no| self.ids[&no]).collect::<Vec<u64>>()
                };
                let id = self.ids[&no];
                let parents = ids(&mut task.parents.iter().copied());
                let counts = handle.query().parent_counts(id).unwrap();
                assert_eq!(counts.open, parents.len() as u64, "the open parents of task {no}");
                let tubes = || self.model.tubes().keys();
                let all = || tubes().flat_map(|tube| self.model.tasks(*tube));
                let in_state = |state: State| {
                    let is_parent = |no: &TaskNo| task.parents.iter().any(|parent| parent == no);
                    let found = all().filter(|(no, it)| is_parent(no) && it.state() == state);
                    found.count() as u64
                };
                let expected = (in_state(State::Taken), in_state(State::Buried));
                assert_eq!((counts.taken, counts.buried), expected, "the parents of task {no}");
                assert_eq!(handle.query().parents(id), Ok(parents), "the parents of task {no}");
                let children = ids(&mut self.model.children(no).into_iter());
                assert_eq!(handle.query().children(id), Ok(children), "the children of task {no}");
            }
        }
    }
}
