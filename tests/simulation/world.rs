//! What the simulations of single concepts share: a clock, a disk that fails, a store with numbered
//! tubes, the claims, and the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{Claim, Durability, Error, ManualClock, Result, Store, Tube, TubeOptions};

use crate::disk::{Crash, Disk, KINDS};
use crate::faults::{Fault, Plan};
use crate::model::Micros;
use crate::rng::Rng;
use crate::simulator::{error_label, micros};

/// What the wall clock shows at the beginning, since 1970.
const BEGIN: Duration = Duration::from_secs(1_767_225_600);

/// Longer than the store waits before it opens a failed storage again.
const RECOVERY: Duration = Duration::from_secs(30);

/// How often something was done.
pub type Coverage = BTreeMap<&'static str, u64>;

/// What may have changed the store beside the calls. A close that fails is a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upset {
    Outage,
    Close,
    Crash(Crash),
}

impl Upset {
    pub fn is_power_cut(self) -> bool {
        matches!(self, Upset::Crash(crash) if crash.is_power_cut())
    }

    /// Whether all calls of such a tube that were answered must be in effect.
    pub fn keeps_all(self, durability: Durability) -> bool {
        match self {
            Upset::Outage | Upset::Close => true,
            _ if self.is_power_cut() => durability == Durability::Flush,
            Upset::Crash(_) => !matches!(durability, Durability::Relaxed { .. }),
        }
    }
}

pub struct World {
    pub clock: ManualClock,
    pub now: Micros,
    pub disk: Arc<Disk>,
    pub store: Store,
    /// How long after its end the store is opened again the next time.
    pub closed_for: Micros,
    pub tubes: Vec<Tube>,
    pub claims: Vec<Claim>,
    /// Whether a call met a failing disk: the model may be wrong.
    pub is_unsure: bool,
    /// Whether everything was flushed before the crash.
    pub is_flushed: bool,
    pub trace: Vec<String>,
    pub coverage: Coverage,
}

impl World {
    /// A store with a tube for each of these options.
    pub fn new(driver: &str, options: impl IntoIterator<Item = TubeOptions>) -> World {
        let (clock, disk) = (ManualClock::new(), Disk::new());
        let store = open(&clock, &disk);
        let numbered = options.into_iter().enumerate();
        let create = |(nth, options): (usize, TubeOptions)| {
            store.create_tube(&nth.to_string(), options.driver(driver))
        };
        let tubes = numbered.map(|tube| create(tube).unwrap()).collect();
        store.flush().unwrap();
        World {
            clock,
            now: 0,
            disk,
            store,
            closed_for: 0,
            tubes,
            claims: Vec::new(),
            is_unsure: false,
            is_flushed: false,
            trace: Vec::new(),
            coverage: Coverage::new(),
        }
    }

    pub fn cover(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    pub fn advance(&mut self, by: Micros) {
        self.clock.advance(Duration::from_micros(by));
        self.now += by;
    }

    /// The answer of a call, and whether it took place; the disk may have failed.
    pub fn done<T>(&mut self, verb: &'static str, answer: Result<T>) -> (Option<T>, bool) {
        self.is_unsure |= self.disk.tripped();
        let label = answer.as_ref().map_or_else(error_label, |_| "done");
        self.trace.push(format!("{verb}: {label}"));
        match answer {
            Ok(answer) => {
                self.cover(verb);
                (Some(answer), true)
            }
            Err(Error::OutcomeUnknown { .. }) if self.disk.tripped() => (None, true),
            Err(_) if self.disk.tripped() => (None, false),
            Err(error) => panic!("{verb}: {error}"),
        }
    }

    /// Arms the disk with a random fault in one of its next calls.
    pub fn arm(&self, rng: &mut Rng) {
        let (kind, nth) = (rng.pick(&KINDS), 1 + rng.below(6));
        let (fault, lasting) = (rng.pick(&Fault::ALL), rng.one_in(2));
        self.disk.arm(Plan { kind, nth, fault, lasting });
    }

    /// Repairs the disk, and waits until the store works again.
    pub fn recover(&mut self) {
        self.disk.repair();
        self.advance(micros(RECOVERY));
        self.store.flush().unwrap();
        self.disk.clear_tripped();
        self.cover("outage");
    }

    /// Takes one of the claims out.
    pub fn random_claim(&mut self, rng: &mut Rng) -> Option<Claim> {
        let is_empty = self.claims.is_empty();
        (!is_empty).then(|| self.claims.swap_remove(rng.index(self.claims.len())))
    }

    /// After an upset: what is due falls due, the store is sound, and the claims that have ended are
    /// dropped.
    pub fn settle(&mut self) {
        self.clock.advance(Duration::ZERO);
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
        self.claims.retain(|claim| claim.is_current().unwrap());
    }

    /// Ends the process in one of several ways, and opens the store.
    pub fn crash(&mut self, rng: &mut Rng) -> Upset {
        let kept = rng.index(self.disk.unflushed() + 1);
        let partial = Crash::PartialPowerCut { kept, torn: false };
        let crash = rng.pick(&[Crash::Kill, Crash::Kill, Crash::PowerCut, partial]);
        self.cover(crash.name());
        self.crash_by(crash)
    }

    /// Closes the store, and opens it.
    pub fn reopen(&mut self) -> Upset {
        if self.store.close().is_err() {
            assert!(self.disk.tripped());
            return self.crash_by(Crash::Kill);
        }
        self.cover("close");
        self.open_after(self.disk.clone());
        Upset::Close
    }

    fn crash_by(&mut self, crash: Crash) -> Upset {
        self.open_after(self.disk.after_crash(crash));
        Upset::Crash(crash)
    }

    fn open_after(&mut self, disk: Arc<Disk>) {
        self.disk.repair();
        self.store = Store::in_memory().unwrap();
        let count = self.tubes.len();
        self.tubes.clear();
        self.claims.clear();
        self.disk = disk;
        let closed_for = std::mem::take(&mut self.closed_for);
        self.advance(closed_for);
        self.store = open(&self.clock, &self.disk);
        self.store.flush().unwrap();
        self.tubes =
            (0..count).map(|nth| self.store.find_tube(&nth.to_string()).unwrap()).collect();
    }
}

/// The number of the tube of a claim.
pub fn tube_of(claim: &Claim) -> usize {
    claim.tube().parse().unwrap()
}

/// The time of a moment, if the wall clock was not set.
pub fn since_begin(moment: SystemTime) -> Micros {
    micros(moment.duration_since(UNIX_EPOCH + BEGIN).unwrap())
}

fn open(clock: &ManualClock, disk: &Arc<Disk>) -> Store {
    let options = Store::options().clock(clock).cache_size(1 << 14).disk_reserve(1 << 16);
    options.open_on(disk.storage()).unwrap()
}
