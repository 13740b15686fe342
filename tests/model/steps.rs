//! What a run is made of: how it begins, and its steps.

use super::reference::{Driver, Micros, Options};

/// How a run begins.
#[derive(Clone, Debug)]
pub struct Setup {
    pub tubes: Vec<Definition>,
    pub grace: Micros,
    pub mood: Mood,
}

#[derive(Clone, Debug)]
pub struct Definition {
    pub driver: Driver,
    pub options: Options,
    pub relaxed: bool,
}

/// What there is more of, so that tubes run full, run empty, keep people waiting, set aside what is
/// in them, and hold more than is kept at hand.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    Filling,
    Draining,
    Waiting,
    Burying,
    Crowding,
}

/// One step, and whether those who wait look at once whether they were woken.
#[derive(Clone, Debug)]
pub struct Step {
    pub action: Action,
    pub look: bool,
}

#[derive(Clone, Debug)]
pub enum Action {
    Put {
        seat: usize,
        tube: usize,
        draft: Sketch,
        deferred: bool,
    },
    PutWait {
        seat: usize,
        tube: usize,
        draft: Sketch,
        timeout: Micros,
    },
    PutMany {
        seat: usize,
        tube: usize,
        drafts: Vec<Sketch>,
    },
    /// As many as that, like these in turn, and some in sub-queues of their own.
    PutCrowd {
        seat: usize,
        tube: usize,
        drafts: Vec<Sketch>,
        count: usize,
    },
    Take {
        seat: usize,
        tube: usize,
        keep: bool,
    },
    TakeMany {
        seat: usize,
        tube: usize,
        max: usize,
    },
    TakeAny {
        tubes: Vec<usize>,
        keep: bool,
    },
    Wait {
        seat: usize,
        tubes: Vec<usize>,
        timeout: Micros,
        keep: bool,
    },
    Cancel {
        wait: Choice,
    },
    ById {
        seat: usize,
        pick: Pick,
        verb: ById,
        deferred: bool,
    },
    AckMany {
        seat: usize,
        tube: usize,
        picks: Vec<Pick>,
    },
    ByClaim {
        claim: Choice,
        verb: ByClaim,
    },
    AckClaims {
        claims: Vec<Choice>,
    },
    Kick {
        tube: usize,
        count: u64,
    },
    ReleaseAll {
        tube: usize,
    },
    Truncate {
        tube: usize,
    },
    DropTube {
        tube: usize,
    },
    CreateTube {
        seat: usize,
        tube: usize,
        definition: Definition,
        same: bool,
        if_not_exists: bool,
    },
    UseDroppedTube {
        tube: Choice,
    },
    EndSession {
        seat: usize,
    },
    LeaveSession {
        seat: usize,
    },
    ResumeSession {
        seat: usize,
    },
    Advance {
        by: Move,
    },
    Reopen {
        away: Move,
    },
}

#[derive(Clone, Debug)]
pub enum ById {
    Ack,
    Release { delay: Micros },
    Touch { by: Micros },
    Renew { hold: Micros },
    Bury,
    Delete,
    Peek,
}

#[derive(Clone, Debug)]
pub enum ByClaim {
    Ack { deferred: bool },
    Release { delay: Micros },
    Touch { by: Micros },
    Renew { hold: Micros },
    Bury,
    Drop,
    Detach,
}

/// A task to be put. Options that the tube's driver lacks are left out unless it is wild.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    pub size: usize,
    pub pri: Option<u32>,
    pub ttl: Option<Micros>,
    pub ttr: Option<Micros>,
    pub delay: Micros,
    pub sub_queue: Option<String>,
    pub wild: bool,
}

/// A task of a tube.
#[derive(Clone, Debug)]
pub struct Pick {
    pub tube: usize,
    pub among: Among,
    pub index: Choice,
}

#[derive(Clone, Copy, Debug)]
pub enum Among {
    /// What the session holds there.
    Held,
    /// What is there.
    Living,
    /// All that ever was anywhere.
    Known,
}

/// A move of the clock.
#[derive(Clone, Debug)]
pub enum Move {
    By(Micros),
    /// To a moment at which something falls due, just before it, or just after.
    ToDue {
        nth: usize,
        offset: i64,
    },
}

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub const SEATS: usize = 3;

/// One of those that there are when the step is carried out: the same share of any number.
#[derive(Clone, Copy, Debug)]
pub struct Choice(pub usize);

impl Choice {
    /// There must be some.
    pub fn get<T>(self, among: &[T]) -> &T {
        let at = (self.0 as u128 * among.len() as u128) >> usize::BITS;
        &among[usize::try_from(at).unwrap()]
    }
}
