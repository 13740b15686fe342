//! Listings of the tasks that meet conditions, page by page.

use std::collections::{BTreeMap, BTreeSet};

use tubewell::{Filter, Tube};

use super::System;
use super::convert::{finite, library_state};
use super::reference::{Micros, SAME_CLOCK, State, Task, TaskNo, TubeNo};
use super::steps::TAGS;

/// A condition, as the store and as the model know it.
type Condition = (Filter, Box<dyn Fn(&Task) -> bool>);

const STATES: [State; 7] = [
    State::Ready,
    State::Taken,
    State::Delayed,
    State::Blocked,
    State::Buried,
    State::Done,
    State::Recurring,
];

impl System {
    /// Compares a few listings of each tube, other ones at other times.
    #[track_caller]
    pub(super) fn check_conditions(&self) {
        let turn = usize::try_from(self.model.now() / 1000 % 1000).unwrap();
        for (no, of) in self.model.tubes() {
            let Ok(tube) = self.store.find_tube(&of.name) else { continue };
            for (wanted, meets) in self.conditions(*no, turn + tube.name().len()) {
                let wanted_tasks = self.model.tasks(*no).filter(|(_, task)| meets(task));
                let want: Vec<TaskNo> = wanted_tasks.map(|(id, _)| id).collect();
                let mut got = self.listed(&tube, &wanted, 1 + want.len() / 2);
                got.sort_unstable();
                assert_eq!(got, want, "{wanted:?} in {}", of.name);
            }
            self.check_soonest_first(&tube, *no);
        }
    }

    /// A state, alone, with a tag and with the sub-queue of some task.
    fn conditions(&self, tube: TubeNo, turn: usize) -> Vec<Condition> {
        let state = STATES[turn % STATES.len()];
        let of_state = Filter::new().state(library_state(state));
        let tag = TAGS[turn % TAGS.len()];
        let tagged = move |task: &Task| task.tags.iter().any(|own| own == tag);
        let mut conditions: Vec<Condition> = vec![
            (of_state.clone(), Box::new(move |task| task.state() == state)),
            (of_state.clone().newest_first(), Box::new(move |task| task.state() == state)),
            (
                of_state.clone().tag(tag),
                Box::new(move |task| task.state() == state && tagged(task)),
            ),
        ];
        let tasks: Vec<&Task> = self.model.tasks(tube).map(|(_, task)| task).collect();
        if let Some(task) = tasks.get(turn % tasks.len().max(1)) {
            let name = task.sub_queue.clone().unwrap_or_default();
            let wanted = Filter::new().sub_queue(name.clone());
            let is_in = move |task: &Task| task.sub_queue.as_deref().unwrap_or_default() == name;
            conditions.push((wanted, Box::new(is_in)));
        }
        conditions
    }

    /// Delayed tasks in the order in which they become ready.
    #[track_caller]
    fn check_soonest_first(&self, tube: &Tube, no: TubeNo) {
        let due = |(id, task): (TaskNo, &Task)| {
            let due = (task.state() == State::Delayed).then(|| self.model.delay_due(task));
            Some((id, finite(due?)?))
        };
        let want: BTreeMap<TaskNo, Micros> = self.model.tasks(no).filter_map(due).collect();
        let got = self.listed(tube, &Filter::new().soonest_first(), 1 + want.len() / 2);
        // Clocks that differ by less than a second count as the same, so a delay and a moment within
        // that time of each other are listed in either order.
        let mut latest = 0;
        for due in got.iter().filter_map(|id| want.get(id)) {
            assert!(latest < due.saturating_add(SAME_CLOCK), "{got:?} in {}", tube.name());
            latest = latest.max(*due);
        }
        assert_eq!(got.len(), want.len(), "a task is listed twice: {got:?}");
        let ids: BTreeSet<TaskNo> = got.into_iter().collect();
        assert_eq!(ids, want.into_keys().collect());
    }

    /// All tasks that a listing has, in its order.
    #[track_caller]
    fn listed(&self, tube: &Tube, wanted: &Filter, limit: usize) -> Vec<TaskNo> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = tube.query().list(wanted, after, limit).unwrap();
            assert!(page.items.len() <= limit && page.damaged == 0);
            all.extend(page.items.iter().map(|info| self.number(info.id)));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }
}
