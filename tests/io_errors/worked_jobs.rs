//! A job of a worker that has every kind of step, on a disk whose n-th call fails. The job goes on
//! at the step that had not ended: in the same store once the disk works, and after a kill or a power
//! cut. An answered step is never run again, and each child is put once.

#[allow(dead_code, reason = "other test targets use the rest")]
#[path = "../common/worked_jobs.rs"]
mod common;

use std::sync::Arc;

use common::Workshop;
use tubewell::{Durability, ManualClock};

use crate::disk::Disk;
use crate::failing_call::fail_with_sampled_faults;
use crate::faults::Plan;
use crate::size::amount;
use crate::support::{NEVER, RETRY_TIME, open};

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    InPlace,
    Killed,
    PowerCut,
}

fn workshop(disk: &Arc<Disk>, clock: &ManualClock, durability: Durability) -> Workshop {
    Workshop::new(open(disk, clock), clock.clone(), durability, Arc::new(|| 0))
}

/// Works on the job while calls of the disk fail, and goes on when they do not. Returns whether a
/// call has failed.
fn fails(start: &Arc<Disk>, durability: Durability, end: End, plan: Plan) -> bool {
    let (disk, clock) = (start.after_power_cut(), ManualClock::new());
    let shop = workshop(&disk, &clock, durability);
    disk.fail(plan);
    let is_done = shop.work();
    let (has_failed, before) = (disk.has_failed(), shop.entries());
    assert!(is_done || has_failed, "{plan:?}");
    let what = format!("{plan:?}, {durability}, {end:?}");
    let keeps_answers = durability == Durability::Flush || end != End::PowerCut;
    match end {
        End::InPlace => {
            disk.repair();
            clock.advance(RETRY_TIME);
            shop.store.flush().unwrap();
            shop.assert_unknown_is_stored(&what);
            shop.go_on(&before, &before, true, &what);
        }
        End::Killed | End::PowerCut => {
            let copy = if end == End::Killed { disk.after_kill() } else { disk.after_power_cut() };
            let next = ManualClock::new();
            next.advance(clock.now());
            workshop(&copy, &next, durability).go_on(&before, &before, keeps_answers, &what);
        }
    }
    has_failed
}

#[test]
fn job_on_a_failing_disk_goes_on_at_the_step_that_had_not_ended() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = Disk::new(None);
        let shop = workshop(&disk, &ManualClock::new(), durability);
        shop.put_job();
        shop.store.close().unwrap();
        for end in [End::InPlace, End::Killed, End::PowerCut] {
            let fails = |plan| fails(&disk, durability, end, plan);
            fail_with_sampled_faults(&format!("{durability}, {end:?}"), 7, &mut runs, fails);
        }
    }
    println!("{runs} runs");
    assert!(runs > amount(40, 150, 150), "{runs} runs");
}
