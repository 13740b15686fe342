//! Tasks that wait for those of a transaction whose commit fails, or that are named as their parents
//! while it is written: no edge is left behind, and no task is free before its parents are over.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, Failure, Filter, Keep, OnParent, Outcome, Put, Result, Store,
    TaskState, Transaction, Tube, TubeOptions,
};

use crate::outages::{Blocked, resume};

const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

/// A store with a tube of parents, one to which they may move, and one of children. No call waits for
/// a flush.
struct Tubes {
    work: Tube,
    other: Tube,
    children: Tube,
}

impl Tubes {
    fn create(store: &Store, options: TubeOptions) -> Tubes {
        let tube = |name, driver, options: TubeOptions| {
            let options = options.durability(Durability::relaxed());
            store.create_tube(name, options.driver(driver)).unwrap()
        };
        Tubes {
            work: tube("work", FIFOTTL, options),
            other: tube("other", FIFO, TubeOptions::new()),
            children: tube("children", FIFO, TubeOptions::new()),
        }
    }

    /// Puts a child of this task for each of the rules.
    fn put_children(&self, parent: u64) -> [u64; 3] {
        RULES.map(|rule| {
            let put = Put::new("child").after(&self.work, [parent]).on_parent(rule);
            self.children.put(put).unwrap().id
        })
    }

    fn states(&self, children: [u64; 3]) -> [TaskState; 3] {
        children.map(|id| self.children.query().task(id).unwrap().info.state)
    }

    /// Takes and acks a parent that the transaction has not ended.
    fn ack_again(&self, parent: u64, children: [u64; 3]) {
        let claim = take(&self.work);
        assert_eq!(claim.id(), parent);
        claim.ack().unwrap();
        assert_eq!(self.states(children), [TaskState::Ready; 3]);
    }
}

/// Runs calls while the commit of a transaction is written, which fails or succeeds.
fn beside_commit<T>(
    blocked: &Blocked,
    fails: bool,
    calls: impl FnOnce(&Transaction<'_>) -> Result<()> + Send,
    beside: impl FnOnce() -> T,
) -> T {
    let Blocked { disk, clock, store, armed, has_begun, go_on, .. } = blocked;
    let answer = std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            store.transact(|tx| -> Result<()> {
                armed.store(true, Ordering::SeqCst);
                calls(tx)
            })
        });
        has_begun.recv().unwrap();
        // The commit goes on after a panic, too.
        let answer = catch_unwind(AssertUnwindSafe(beside));
        blocked.fails.store(fails, Ordering::SeqCst);
        go_on.send(()).unwrap();
        assert_eq!(ended.join().unwrap().is_err(), fails);
        answer.unwrap_or_else(|panic| resume_unwind(panic))
    });
    disk.repair();
    resume(store, clock);
    clock.advance(Duration::ZERO);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    answer
}

/// Ends all tasks: none is blocked for ever, and no edge is left behind.
fn assert_all_can_end(blocked: Blocked, tubes: Tubes) {
    let Blocked { disk, clock, store, .. } = blocked;
    let Tubes { work, other, children } = tubes;
    for _ in 0..10 {
        for tube in [&work, &other, &children] {
            tube.admin().kick(Filter::new().limit(99)).unwrap();
            for claim in tube.take_many(99, Duration::ZERO).unwrap() {
                claim.ack().unwrap();
            }
        }
        clock.advance(Duration::from_secs(3600));
    }
    for tube in [&work, &other, &children] {
        assert_eq!(tube.statistics().unwrap().tasks.total, 0, "{}", tube.name());
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    drop((work, other, children));
    store.close().unwrap();
    let store = Store::options().open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

fn take(tube: &Tube) -> Claim {
    tube.try_take().unwrap().unwrap()
}

/// Tubes with a parent that is taken. Their changes are flushed.
fn with_taken_parent(options: TubeOptions) -> (Blocked, Tubes, Claim) {
    let blocked = Blocked::begin();
    let tubes = Tubes::create(&blocked.store, options);
    tubes.work.put("parent").unwrap();
    let claim = take(&tubes.work);
    blocked.store.flush().unwrap();
    (blocked, tubes, claim)
}

#[test]
fn children_of_a_task_that_was_never_put_follow_their_rules() {
    for moves in [false, true] {
        let blocked = Blocked::begin();
        let tubes = Tubes::create(&blocked.store, TubeOptions::new());
        let mut put = 0;
        let parent = blocked.store.admin().next_id().unwrap();
        let calls = |tx: &Transaction<'_>| {
            put = tx.put(&tubes.work, "parent")?;
            Ok(())
        };
        let children = beside_commit(&blocked, true, calls, || {
            let children = tubes.put_children(parent);
            assert_eq!(tubes.states(children), [TaskState::Blocked; 3]);
            if moves {
                let moved = tubes.work.to_async().admin().move_to(&tubes.other, parent);
                drop(moved);
            }
            children
        });
        assert_eq!(put, parent);
        assert_eq!(
            tubes.states(children),
            [TaskState::Buried, TaskState::Ready, TaskState::Buried]
        );
        assert_all_can_end(blocked, tubes);
    }
}

#[test]
fn children_of_an_acked_task_wait_until_the_commit_is_written() {
    let kept = TubeOptions::new().keep_done(Keep::new().count(1));
    for options in [TubeOptions::new(), kept] {
        for fails in [false, true] {
            let (blocked, tubes, claim) = with_taken_parent(options.clone());
            let parent = claim.id();
            let calls = |tx: &Transaction<'_>| tx.end(&claim, Outcome::done());
            let (children, added) = beside_commit(&blocked, fails, calls, || {
                let children = tubes.put_children(parent);
                let added = tubes.children.put("added").unwrap().id;
                tubes.children.admin().add_parents(added, &tubes.work, &[parent]).unwrap();
                assert_eq!(tubes.states(children), [TaskState::Blocked; 3]);
                (children, added)
            });
            let state = if fails { TaskState::Blocked } else { TaskState::Ready };
            assert_eq!(tubes.states(children), [state; 3]);
            assert_eq!(tubes.children.query().task(added).unwrap().info.state, state);
            if fails {
                assert_eq!(tubes.work.query().children(parent).unwrap().len(), 4);
                tubes.ack_again(parent, children);
            }
            drop(claim);
            assert_all_can_end(blocked, tubes);
        }
    }
}

#[test]
fn children_of_an_acked_task_follow_their_rules_if_its_tube_was_truncated() {
    for fails in [false, true] {
        let (blocked, tubes, claim) = with_taken_parent(TubeOptions::new());
        let parent = claim.id();
        let calls = |tx: &Transaction<'_>| tx.end(&claim, Outcome::done());
        let children = beside_commit(&blocked, fails, calls, || {
            let children = tubes.put_children(parent);
            drop(tubes.work.to_async().admin().truncate());
            children
        });
        let gone = [TaskState::Buried, TaskState::Ready, TaskState::Buried];
        let states = if fails { gone } else { [TaskState::Ready; 3] };
        assert_eq!(tubes.states(children), states);
        drop(claim);
        assert_all_can_end(blocked, tubes);
    }
}

/// What happens to it above the transaction has not happened, nor has what follows for its children.
#[test]
fn children_of_a_released_task_wait_for_it() {
    type Beside = fn(&Tubes, u64);
    let besides: [Beside; 4] = [
        |_, _| {},
        |tubes, id| drop(tubes.work.to_async().admin().move_to(&tubes.other, id)),
        |tubes, id| drop(tubes.work.to_async().admin().bury(id, None)),
        |tubes, id| {
            let above = tubes.other.put("above").unwrap().id;
            let waits = tubes.work.to_async();
            drop(waits.admin().add_parents(id, &tubes.other, &[above]));
        },
    ];
    for beside in besides {
        let (blocked, tubes, claim) = with_taken_parent(TubeOptions::new());
        let parent = claim.id();
        let calls = |tx: &Transaction<'_>| tx.end(&claim, Outcome::release());
        let children = beside_commit(&blocked, true, calls, || {
            let children = tubes.put_children(parent);
            beside(&tubes, parent);
            children
        });
        assert_eq!(tubes.states(children), [TaskState::Blocked; 3]);
        assert_eq!(tubes.work.query().children(parent).unwrap(), children);
        tubes.ack_again(parent, children);
        drop(claim);
        assert_all_can_end(blocked, tubes);
    }
}

#[test]
fn task_that_was_resolved_above_a_failed_release_stays_done() {
    let kept = TubeOptions::new().keep_done(Keep::new().count(1));
    for options in [TubeOptions::new(), kept] {
        let (blocked, tubes, claim) = with_taken_parent(options);
        let parent = claim.id();
        let calls = |tx: &Transaction<'_>| tx.end(&claim, Outcome::release());
        let children = beside_commit(&blocked, true, calls, || {
            let children = tubes.put_children(parent);
            drop(tubes.work.to_async().admin().resolve(parent, ()));
            children
        });
        assert_eq!(tubes.states(children), [TaskState::Ready; 3]);
        assert_eq!(tubes.work.statistics().unwrap().tasks.total, 0);
        drop(claim);
        assert_all_can_end(blocked, tubes);
    }
}

/// What would become of its children could not be taken back.
#[test]
fn bury_of_a_transaction_forgets_no_task_with_edges() {
    for fails in [false, true] {
        for parent_is_acked in [false, true] {
            let blocked = Blocked::begin();
            let options = TubeOptions::new().keep_buried(Keep::new().count(1));
            let tubes = Tubes::create(&blocked.store, options);
            let above = tubes.other.put("above").unwrap().id;
            let forgotten = tubes.work.put(Put::new("old").after(&tubes.other, [above])).unwrap();
            let children = tubes.put_children(forgotten.id);
            tubes.work.admin().bury(forgotten.id, None).unwrap();
            blocked.clock.advance(Duration::from_secs(1));
            assert_eq!(
                tubes.states(children),
                [TaskState::Blocked, TaskState::Ready, TaskState::Buried]
            );
            tubes.work.put("new").unwrap();
            let claim = take(&tubes.work);
            let ends = parent_is_acked.then(|| take(&tubes.other));
            blocked.store.flush().unwrap();
            let calls =
                |tx: &Transaction<'_>| tx.end(&claim, Outcome::bury(Failure::new("g", "m")));
            beside_commit(&blocked, fails, calls, || {
                if let Some(claim) = ends {
                    claim.ack().unwrap();
                }
            });
            assert_eq!(
                tubes.states(children),
                [TaskState::Blocked, TaskState::Ready, TaskState::Buried]
            );
            let above = if parent_is_acked { vec![] } else { vec![above] };
            assert_eq!(tubes.work.query().parents(forgotten.id), Ok(above));
            assert_eq!(tubes.work.query().children(forgotten.id).unwrap().len(), 2);
            drop(claim);
            assert_all_can_end(blocked, tubes);
        }
    }
}
