//! Changes of tasks that are neither claims nor ends, and deletes on a condition.

use tubewell::{Filter, Receipt, Result, Ticket, Tube};

use super::System;
use super::convert::{agree, duration, library_moment, library_state};
use super::labels::edit_tags;
use super::reference::{Answer, Micros, Model, State, TaskNo, TubeNo, Update};
use super::steps::{ById, Group, Pick};

impl System {
    pub(super) fn delete_many(&mut self, client: usize, tube: usize, picks: &[Pick]) {
        let Some((tube, tube_no, session)) = self.tube(client, tube) else { return };
        let picked = picks.iter().map(|pick| self.pick(pick, tube_no, session));
        let (numbers, ids): (Vec<TaskNo>, Vec<u64>) = picked.unzip();
        let want = self.model.delete_many(tube_no, &numbers);
        let chosen = Filter::new().ids(&ids);
        // The store finds the tasks of the tube, too.
        let got = if ids.len() % 2 == 1 {
            self.store.admin().delete(chosen.tube(tube.name()))
        } else {
            tube.admin().delete(chosen)
        };
        if let Some((got, want)) = agree(got, want) {
            assert_eq!(got, want);
        }
    }

    /// Of ready tasks in sub-queues, which are listed sub-queue by sub-queue, all are deleted.
    pub(super) fn release_all(&mut self, tube: usize, forgive: bool) {
        self.tube_wide(tube, |tube, model, no| {
            let all = Filter::new();
            let got = if forgive { tube.admin().revoke(all) } else { tube.admin().release(all) };
            (got, model.release_all(no, forgive))
        });
    }

    pub(super) fn delete_where(&mut self, tube: usize, state: State, limit: usize) {
        self.tube_wide(tube, |tube, model, no| {
            let is_ordered = state != State::Ready || !model.tubes()[&no].driver.sub_queued();
            let limit = if is_ordered { limit } else { usize::MAX };
            let select = Filter::new().state(library_state(state)).limit(limit as u64);
            (tube.admin().delete(select), model.delete_where(no, state, limit))
        });
    }

    pub(super) fn kick_group(&mut self, tube: usize, group: Group, limit: usize) {
        let select = Filter::new().group(group.name()).limit(limit as u64);
        self.tube_wide(tube, |tube, model, no| {
            (tube.admin().kick(select), model.kick_group(no, &group.name(), limit))
        });
    }
}

/// What an update of this step changes. A tube without times gets no priority, no delay and no
/// moment. `wall`: what the wall clock shows.
fn update_of(verb: &ById, step: u64, timed: bool, wall: Micros) -> Update {
    let ById::Update { size, priority, delay, not_before } = verb else { return Update::default() };
    let data = size.map(|size| {
        let mut data = format!("{step}.update").into_bytes();
        data.resize(size, b'=');
        data
    });
    let not_before = not_before.filter(|_| timed);
    let not_before = not_before.map(|new| new.map(|moment| moment.at(wall)));
    Update {
        data,
        priority: priority.filter(|_| timed),
        delay: delay.filter(|_| timed),
        not_before,
    }
}

/// The answers of the library and of the model.
pub(super) fn edit(
    (tube, id): (&Tube, u64),
    (model, tube_no, no): (&mut Model, TubeNo, TaskNo),
    verb: &ById,
    step: u64,
    deferred: bool,
) -> (Result<Receipt>, Answer<State>) {
    let later = tube.to_async();
    let wait = Ticket::wait;
    match verb {
        ById::SetPriority { priority } => {
            let want = model.set_priority(tube_no, no, *priority);
            let got = if deferred {
                wait(later.admin().set_priority(id, *priority))
            } else {
                tube.admin().set_priority(id, *priority)
            };
            (got, want)
        }
        ById::Log => {
            let text = format!("step {step}");
            let want = model.log(tube_no, no, &text);
            (
                if deferred {
                    wait(later.admin().log(id, &text))
                } else {
                    tube.admin().log(id, &text)
                },
                want,
            )
        }
        ById::EditTags { tags, adds } => {
            let want = model.edit_tags(tube_no, no, tags, *adds);
            (edit_tags(tube, id, (tags, *adds), deferred), want)
        }
        ById::Cancel => {
            let want = model.cancel_task(tube_no, no);
            (if deferred { wait(later.cancel(id)) } else { tube.cancel(id) }, want)
        }
        _ => {
            let timed = model.tubes().get(&tube_no).is_some_and(|tube| tube.driver.timed());
            let update = update_of(verb, step, timed, model.wall());
            let want = model.update(tube_no, no, &update);
            let Update { data, priority, delay, not_before } = update;
            let mut given = tubewell::Update::new();
            given = data.into_iter().fold(given, tubewell::Update::body);
            given = priority.into_iter().fold(given, tubewell::Update::priority);
            given = delay.map(duration).into_iter().fold(given, tubewell::Update::delay);
            let moment = not_before.map(|new| new.map(library_moment));
            given = moment.into_iter().fold(given, tubewell::Update::not_before);
            let got = if deferred { wait(later.update(id, given)) } else { tube.update(id, given) };
            (got, want)
        }
    }
}
