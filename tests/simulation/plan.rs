//! What happens in a run: a list of steps, drawn from a seed. A step says what is tried; on what,
//! its own dice say when it is carried out, so that a list keeps its meaning when steps are cut out.

use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    // Producers.
    Put,
    PutMany,
    // Consumers, good and bad.
    Take,
    TakeMany,
    Ack,
    AckMany,
    AckTwice,
    AckStrange,
    Release,
    ReleaseLater,
    Touch,
    Renew,
    Bury,
    Forget,
    DropClaim,
    LeaveSession,
    EndSession,
    Wait,
    StopWaiting,
    // Several calls while a commit is under way.
    Burst,
    // Admins.
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
    // The world.
    Pass,
    PassLong,
    Fault,
    Fill,
    Mend,
    Crash,
    Reopen,
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub verb: Verb,
    pub dice: u64,
}

/// How often each is tried, of some two hundred.
const WEIGHTS: [(Verb, u64); 37] = [
    (Verb::Put, 34),
    (Verb::PutMany, 5),
    (Verb::Take, 30),
    (Verb::TakeMany, 4),
    (Verb::Ack, 14),
    (Verb::AckMany, 3),
    (Verb::AckTwice, 2),
    (Verb::AckStrange, 2),
    (Verb::Release, 4),
    (Verb::ReleaseLater, 4),
    (Verb::Touch, 3),
    (Verb::Renew, 2),
    (Verb::Bury, 4),
    (Verb::Forget, 4),
    (Verb::DropClaim, 4),
    (Verb::LeaveSession, 3),
    (Verb::EndSession, 2),
    (Verb::Wait, 10),
    (Verb::StopWaiting, 2),
    (Verb::Burst, 10),
    (Verb::BuryById, 3),
    (Verb::Kick, 4),
    (Verb::Delete, 3),
    (Verb::Peek, 4),
    (Verb::ReleaseAll, 1),
    (Verb::Create, 4),
    (Verb::DropTube, 2),
    (Verb::Truncate, 1),
    (Verb::Flush, 2),
    (Verb::Verify, 1),
    (Verb::Pass, 20),
    (Verb::PassLong, 3),
    (Verb::Fault, 4),
    (Verb::Fill, 1),
    (Verb::Mend, 4),
    (Verb::Crash, 2),
    (Verb::Reopen, 1),
];

/// Each run does more of some things and less of others: tubes run full, run empty, keep people
/// waiting.
pub fn draw(seed: u64, steps: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mood = WEIGHTS.map(|(verb, weight)| (verb, weight * rng.pick(&[1, 2, 2, 2, 5])));
    let all: u64 = mood.iter().map(|(_, weight)| weight).sum();
    let mut plan = Vec::new();
    while plan.len() < steps {
        let mut at = rng.below(all);
        let verb = mood.iter().find(|(_, weight)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        // Tubes first.
        let verb = if plan.len() < 6 { Verb::Create } else { verb.unwrap().0 };
        plan.push(Step { verb, dice: rng.next() });
    }
    plan
}
