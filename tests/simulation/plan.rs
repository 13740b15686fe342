//! The plan of a run: a list of steps drawn from a seed. Each step has an action and a seed of its
//! own for the details, so that the other steps stay the same when a step is removed.

use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    // Producers.
    Put,
    PutMany,
    // Consumers.
    Take,
    TakeMany,
    Ack,
    AckMany,
    AckTwice,
    AckUnclaimed,
    Release,
    ReleaseDelayed,
    Touch,
    Renew,
    Bury,
    Claim,
    Checkpoint,
    DetachClaim,
    DropClaim,
    DropSession,
    EndSession,
    Wait,
    CancelWait,
    // Several calls while a commit is in flight.
    DeferredCalls,
    // Administrators.
    Revoke,
    BuryById,
    Kick,
    Delete,
    Peek,
    ReleaseAll,
    Create,
    DropTube,
    Truncate,
    Flush,
    Verify,
    // Clock, disk and process.
    Advance,
    AdvanceLong,
    ArmFault,
    FillDisk,
    RepairDisk,
    Crash,
    Reopen,
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub action: Action,
    pub seed: u64,
}

/// The base weight of each action; they add up to about 200.
const WEIGHTS: [(Action, u64); 40] = [
    (Action::Put, 34),
    (Action::PutMany, 5),
    (Action::Take, 30),
    (Action::TakeMany, 4),
    (Action::Ack, 14),
    (Action::AckMany, 3),
    (Action::AckTwice, 2),
    (Action::AckUnclaimed, 2),
    (Action::Release, 4),
    (Action::ReleaseDelayed, 4),
    (Action::Touch, 3),
    (Action::Renew, 2),
    (Action::Bury, 4),
    (Action::Claim, 8),
    (Action::Checkpoint, 6),
    (Action::DetachClaim, 4),
    (Action::DropClaim, 4),
    (Action::DropSession, 3),
    (Action::EndSession, 2),
    (Action::Wait, 10),
    (Action::CancelWait, 2),
    (Action::DeferredCalls, 10),
    (Action::Revoke, 3),
    (Action::BuryById, 3),
    (Action::Kick, 4),
    (Action::Delete, 3),
    (Action::Peek, 4),
    (Action::ReleaseAll, 1),
    (Action::Create, 4),
    (Action::DropTube, 2),
    (Action::Truncate, 1),
    (Action::Flush, 2),
    (Action::Verify, 1),
    (Action::Advance, 20),
    (Action::AdvanceLong, 3),
    (Action::ArmFault, 4),
    (Action::FillDisk, 1),
    (Action::RepairDisk, 4),
    (Action::Crash, 2),
    (Action::Reopen, 1),
];

/// Draws a plan. Each plan has weights of its own, so that tubes are full in some runs, and empty
/// with waiting takers in others.
pub fn draw(seed: u64, steps: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let weights = WEIGHTS.map(|(action, weight)| (action, weight * rng.pick(&[1, 2, 2, 2, 5])));
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut plan = Vec::new();
    while plan.len() < steps {
        let mut at = rng.below(total);
        let action = weights.iter().find(|(_, weight)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        // A plan starts with tubes.
        let action = if plan.len() < 6 { Action::Create } else { action.unwrap().0 };
        plan.push(Step { action, seed: rng.next() });
    }
    plan
}
