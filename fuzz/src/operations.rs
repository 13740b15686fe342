//! Compares all kinds of calls on a store in memory with the reference model of `tests/model`. The
//! bytes encode the steps in order.

mod edits;
mod gates;
mod keys;
mod limits;
mod moments;
mod parents;
mod restored;
mod schedules;
mod setup;

use std::collections::BTreeSet;
use std::sync::Mutex;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell::{Durability, Store, StoreOptions};

use crate::disk::Disk;
use crate::model::reference::{Cause, DEFAULT_PRIORITY, Micros, NEVER, Stage};
use crate::model::steps::{
    Action, Among, ByClaim, ById, CLIENTS, Choice, ClockMove, Group, Pick, Setup, Step, TOKENS,
    TaskTemplate,
};
use crate::model::system::{StorePlace, System};
use crate::oracle::Oracle;

const MS: Micros = 1000;
/// How long a put is remembered by its token.
const IDEMPOTENCY_KEY_TIME: Micros = 3_600_000_000;
/// With more steps, each input would be slow, without additional findings.
const STEPS_MAX: usize = 150;
/// Sizes of bodies. The record has those of up to 1024 bytes.
const SIZES: [usize; 6] = [0, 3, 19, 1024, 1025, 5000];

pub fn check(bytes: &[u8], oracle: Oracle) {
    let _ = run(bytes, oracle);
}

/// The transitions that the tasks of an input make, as words: `Taken Parked Parked`. With
/// `limited`, those of tasks with a limited number of attempts only.
#[must_use]
pub fn transitions(bytes: &[u8], limited: bool) -> BTreeSet<String> {
    let Some(system) = run(bytes, Oracle::Correct) else { return BTreeSet::new() };
    let all = if limited { system.limited_transitions() } else { system.transitions() };
    let words = |(_, from, cause, to): &(_, Option<Stage>, Cause, Stage)| {
        let from = from.map_or("New".to_owned(), |from| format!("{from:?}"));
        format!("{from} {cause:?} {to:?}")
    };
    all.iter().map(words).collect()
}

/// What has kept tasks of sub-queues from being taken, after any step of an input.
#[must_use]
pub fn shut_sub_queues(bytes: &[u8]) -> BTreeSet<&'static str> {
    let mut met = BTreeSet::new();
    run_steps(bytes, Oracle::Correct, |system| met.extend(system.shut_sub_queues()));
    met
}

/// What became of the restored tasks with keys of an input.
#[must_use]
pub fn restored_keys(bytes: &[u8]) -> BTreeSet<&'static str> {
    run(bytes, Oracle::Correct).map_or_else(BTreeSet::new, |it| it.restored_keys().clone())
}

/// What became of puts of an input whose tokens were known.
#[must_use]
pub fn met_tokens(bytes: &[u8]) -> BTreeSet<&'static str> {
    run(bytes, Oracle::Correct).map_or_else(BTreeSet::new, |it| it.met_tokens().clone())
}

/// Runs the steps of an input. `None` if it has no setup.
fn run(bytes: &[u8], oracle: Oracle) -> Option<System> {
    run_steps(bytes, oracle, |_| {})
}

/// Calls `observe` after each step.
fn run_steps(bytes: &[u8], oracle: Oracle, mut observe: impl FnMut(&System)) -> Option<System> {
    let mut source = Source(Unstructured::new(bytes), Choices::default());
    let setup = source.setup().ok()?;
    if std::env::var_os("TUBEWELL_FUZZ_SHOW").is_some() {
        eprintln!("{setup:?}");
    }
    let place = Box::new(MemoryPlace { disk: Mutex::default(), before: Mutex::default(), oracle });
    let mut system = System::with_durability(&setup, place, Durability::Flush, 24);
    for _ in 0..STEPS_MAX {
        if source.0.is_empty() {
            break;
        }
        let Ok(step) = source.step(&setup) else { break };
        if std::env::var_os("TUBEWELL_FUZZ_SHOW").is_some() {
            eprintln!("{step:?}");
        }
        system.step(step);
        observe(&system);
    }
    system.finish();
    Some(system)
}

/// Opens stores on a disk in memory. With a faulty oracle, each open restores the disk as it was at
/// the previous open.
struct MemoryPlace {
    disk: Mutex<Disk>,
    before: Mutex<Option<Disk>>,
    oracle: Oracle,
}

impl StorePlace for MemoryPlace {
    fn open(&self, options: StoreOptions) -> Store {
        let mut disk = self.disk.lock().unwrap();
        let old = self.before.lock().unwrap().replace(disk.copy());
        if let Some(old) = old.filter(|_| self.oracle.is_faulty()) {
            *disk = old;
        }
        options.cache_size(1 << 20).open_on(Box::new(disk.share())).unwrap()
    }

    fn kill(&self) {
        let mut disk = self.disk.lock().unwrap();
        *disk = disk.copy();
    }
}

/// The bytes, and which choices they have.
struct Source<'a>(Unstructured<'a>, Choices);

/// The choices that a tube of the setup adds. Other inputs do not have them, and keep their meaning.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
struct Choices {
    /// A tube keeps what has ended, so there are verbs of outcomes.
    outcomes: bool,
    /// Tasks of another store are put back.
    restores: bool,
    /// Tasks with a limited number of attempts are often parked and resumed.
    parks: bool,
    /// Tasks move to other tubes, and claims end with a finish.
    moves: bool,
    /// Tubes are paused and altered.
    gates: bool,
    /// Tasks are changed and deleted on conditions.
    edits: bool,
    /// Tasks have keys.
    keys: bool,
    /// Sub-queues are limited and paused.
    limits: bool,
    /// Tasks wait for others, and have keys.
    parents: bool,
    /// Tasks wait for moments of a wall clock that is set.
    moments: bool,
    /// Tasks of another store that are put back have keys, as others have.
    restored_keys: bool,
    /// Schedules put tasks.
    schedules: bool,
    /// Puts have tokens.
    tokens: bool,
}

impl Source<'_> {
    fn below(&mut self, end: usize) -> Result<usize> {
        self.0.int_in_range(0..=end - 1)
    }

    /// A number below `end`, or from `end` on for bytes from the first of `new_from` on: `end` plus
    /// the number of the last that the byte reaches. This is how a choice is added: inputs without
    /// such a byte keep their meaning.
    fn below_or_new<const N: usize>(&mut self, end: u8, new_from: [u8; N]) -> Result<usize> {
        let byte = u8::arbitrary(&mut self.0)?;
        let reached = new_from.iter().rposition(|from| byte >= *from);
        Ok(reached.map_or(usize::from(byte % end), |nth| usize::from(end) + nth))
    }

    /// True with a probability of 1 in `times`.
    fn once_in(&mut self, times: u8) -> Result<bool> {
        self.0.ratio(1, times)
    }

    fn maybe<T>(
        &mut self,
        times: u8,
        some: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.once_in(times)? { some(self).map(Some) } else { Ok(None) }
    }

    fn span(&mut self) -> Result<Micros> {
        let spans = [MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS, 0, 1, 20 * MS, NEVER];
        self.0.choose(&spans).copied()
    }

    fn short_span(&mut self) -> Result<Micros> {
        self.0.choose(&[0, MS, 2 * MS, 3 * MS]).copied()
    }

    fn choice(&mut self) -> Result<Choice> {
        let high = usize::from(u8::arbitrary(&mut self.0)?);
        Ok(Choice(high << (usize::BITS - 8)))
    }

    /// Around the default.
    fn priority(&mut self) -> Result<u32> {
        self.0.int_in_range(DEFAULT_PRIORITY - 2..=DEFAULT_PRIORITY + 1)
    }

    fn task_template(&mut self) -> Result<TaskTemplate> {
        if self.once_in(3)? {
            return Ok(TaskTemplate::default());
        }
        let mut template = TaskTemplate {
            size: *self.0.choose(&SIZES)?,
            priority: self.maybe(2, Self::priority)?,
            ttl: self.maybe(3, Self::span)?,
            ttr: self.maybe(3, Self::span)?,
            delay: *self.0.choose(&[0, 0, 0, MS, 2 * MS, 7 * MS])?,
            sub_queue: self.maybe(2, |it| Ok((*it.0.choose(&["x", "y", "z", ""])?).to_owned()))?,
            ..TaskTemplate::default()
        };
        match self.below_or_new(25, [244])? {
            0 => template.keep_unsupported = true,
            25 => template.max_attempts = Some(self.0.int_in_range(1..=3)?),
            _ => {}
        }
        if self.1.keys {
            self.add_key(&mut template)?;
        }
        if self.1.moments {
            self.add_moment(&mut template)?;
        }
        if self.1.tokens && self.once_in(2)? {
            template.token = Some((*self.0.choose(&TOKENS[..3])?).to_owned());
        }
        Ok(template)
    }

    fn task_templates(&mut self, least: usize) -> Result<Vec<TaskTemplate>> {
        (0..self.0.int_in_range(least..=4)?).map(|_| self.task_template()).collect()
    }

    fn pick(&mut self, tubes: usize) -> Result<Pick> {
        let among = [Among::Held, Among::Held, Among::Present, Among::EverPut, Among::Parked];
        let is_kept = self.1.outcomes && self.once_in(6)?;
        let among = if is_kept { Among::Kept } else { among[self.below_or_new(4, [240])?] };
        self.pick_of(tubes, among)
    }

    fn pick_of(&mut self, tubes: usize, among: Among) -> Result<Pick> {
        Ok(Pick { tube: self.below(tubes)?, among, index: self.choice()? })
    }

    fn several(&mut self, tubes: usize) -> Result<Vec<usize>> {
        (0..self.0.int_in_range(1..=3)?).map(|_| self.below(tubes)).collect()
    }

    fn clock_move(&mut self) -> Result<ClockMove> {
        // Schedules would put as many tasks as fit into the time.
        if self.1.tokens && !self.1.schedules && self.once_in(3)? {
            return self
                .0
                .choose(&[IDEMPOTENCY_KEY_TIME, IDEMPOTENCY_KEY_TIME - 1, 1])
                .copied()
                .map(ClockMove::By);
        }
        if self.once_in(3)? {
            return self
                .0
                .choose(&[0, 1, MS, 2 * MS, 3 * MS, 100 * MS])
                .copied()
                .map(ClockMove::By);
        }
        Ok(ClockMove::ToDue { nth: self.below(3)?, offset: self.0.int_in_range(-1..=1)? })
    }

    fn by_id(&mut self, tubes: usize) -> Result<ById> {
        if self.1.outcomes && self.once_in(3)? {
            return Ok(match self.below(4)? {
                0 => ById::AckWith { size: *self.0.choose(&SIZES)? },
                1 => ById::Resolve { size: self.maybe(2, |it| it.0.choose(&SIZES).copied())? },
                2 => ById::Forget,
                _ => ById::Kick,
            });
        }
        if self.1.moves && self.once_in(3)? {
            return Ok(ById::MoveTo { to: self.below(tubes)? });
        }
        Ok(match self.below_or_new(7, [224, 232, 240, 248])? {
            0 => ById::Ack,
            1 => ById::Release { delay: self.short_span()? },
            2 => ById::Touch { by: self.span()? },
            3 => ById::Renew { time_left: self.span()? },
            4 => ById::Bury,
            5 => ById::Delete,
            6 => ById::Peek,
            7 => ById::Revoke,
            8 => ById::Fail { delay: self.maybe(2, Self::short_span)?, group: self.group()? },
            9 => ById::Snooze { delay: self.short_span()? },
            _ => ById::BuryWith { group: self.group()? },
        })
    }

    fn by_claim(&mut self, tubes: usize) -> Result<ByClaim> {
        if self.1.outcomes && self.once_in(4)? {
            let (size, deferred) = (*self.0.choose(&SIZES)?, self.once_in(2)?);
            return Ok(ByClaim::AckWith { size, deferred });
        }
        if self.1.moves && self.once_in(3)? {
            return self.finish(tubes);
        }
        Ok(match self.below_or_new(7, [208, 232, 238, 246, 251])? {
            0 => ByClaim::Ack { deferred: self.once_in(2)? },
            1 => ByClaim::Release { delay: self.short_span()? },
            2 => ByClaim::Touch { by: self.span()? },
            3 => ByClaim::Renew { time_left: self.span()? },
            4 => ByClaim::Bury,
            5 => ByClaim::Drop,
            6 => ByClaim::Detach,
            7 => ByClaim::Checkpoint { size: *self.0.choose(&SIZES)?, deferred: self.once_in(2)? },
            8 => ByClaim::Park { hold: self.span()?, deferred: self.once_in(2)? },
            9 => ByClaim::Fail {
                delay: self.maybe(2, Self::short_span)?,
                group: self.group()?,
                deferred: self.once_in(2)?,
            },
            10 => ByClaim::Snooze { delay: self.short_span()?, deferred: self.once_in(2)? },
            _ => ByClaim::BuryWith { group: self.group()?, deferred: self.once_in(2)? },
        })
    }

    fn finish(&mut self, tubes: usize) -> Result<ByClaim> {
        let into = |it: &mut Self| Ok((it.below(tubes)?, it.task_template()?));
        Ok(ByClaim::Finish {
            result: self.maybe(3, |it| it.0.choose(&SIZES).copied())?,
            puts: (0..self.below(4)?).map(|_| into(self)).collect::<Result<_>>()?,
            advance: self.maybe(2, into)?,
            deferred: self.once_in(2)?,
        })
    }

    /// A failure group; most are accepted.
    fn group(&mut self) -> Result<Group> {
        Ok(match self.below_or_new(16, [])? {
            1 => Group::Longest,
            2 => Group::Empty,
            3 => Group::TooLong,
            _ => Group::Timeout,
        })
    }

    fn step(&mut self, setup: &Setup) -> Result<Step> {
        let poll = self.once_in(2)?;
        Ok(Step { action: self.action(setup)?, poll })
    }

    fn action(&mut self, setup: &Setup) -> Result<Action> {
        let tubes = setup.tubes.len();
        if self.1.restores && self.once_in(6)? {
            return self.restore(tubes);
        }
        if self.1.parks && self.once_in(3)? {
            return self.park(tubes);
        }
        if self.1.gates && self.once_in(5)? {
            return self.change_gates(setup);
        }
        if self.1.edits && self.once_in(3)? {
            return self.edit(tubes);
        }
        if self.1.parents && self.once_in(2)? {
            return self.wait_for_others(tubes);
        }
        if self.1.moves && self.once_in(8)? {
            return Ok(Action::MoveAll { tube: self.below(tubes)?, to: self.below(tubes)? });
        }
        if self.1.keys && self.once_in(4)? {
            return self.use_keys(tubes);
        }
        if self.1.schedules && self.once_in(2)? {
            return self.use_schedules(tubes);
        }
        if self.1.limits && self.once_in(4)? {
            return self.change_limits(setup);
        }
        if self.1.moments && self.once_in(3)? {
            return self.use_moments(tubes);
        }
        let kind = self.below_or_new(64, [240, 248, 251, 253, 254])?;
        Ok(match kind {
            0..12 => Action::Put {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                template: self.task_template()?,
                deferred: self.once_in(4)?,
            },
            12..15 => Action::PutMany {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                templates: self.task_templates(0)?,
            },
            15 => Action::PutBatch {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                templates: self.task_templates(1)?,
                count: self.0.int_in_range(10..=60)?,
            },
            16..23 => Action::Take {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                keep: self.once_in(2)?,
            },
            23 => Action::TakeMany {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                max: self.below(40)?,
            },
            24 => Action::TakeAny { tubes: self.several(tubes)?, keep: self.once_in(2)? },
            25..29 => Action::Wait {
                client: self.below(CLIENTS)?,
                tubes: self.several(tubes)?,
                timeout: self.span()?,
                keep: self.once_in(2)?,
            },
            29 => Action::Cancel { wait: self.choice()? },
            30..40 => Action::ById {
                client: self.below(CLIENTS)?,
                pick: self.pick(tubes)?,
                verb: self.by_id(tubes)?,
                deferred: self.once_in(4)?,
            },
            40..45 => Action::ByClaim { claim: self.choice()?, verb: self.by_claim(tubes)? },
            45..52 => Action::Advance { by: self.clock_move()? },
            52..54 => Action::Reopen { closed_for: self.clock_move()? },
            _ => return self.rare_action(kind, setup),
        })
    }

    /// One of the steps from a take to the end of a claim that was parked.
    fn park(&mut self, tubes: usize) -> Result<Action> {
        let last = Choice(usize::MAX);
        Ok(match self.below(4)? {
            0 => {
                Action::Take { client: self.below(CLIENTS)?, tube: self.below(tubes)?, keep: true }
            }
            1 => {
                let verb = ByClaim::Park { hold: self.span()?, deferred: self.once_in(2)? };
                Action::ByClaim { claim: last, verb }
            }
            2 => {
                let client = self.below(CLIENTS)?;
                Action::ResumeClaim { client, token: last, any: false, keep: self.once_in(2)? }
            }
            _ => Action::Advance { by: self.clock_move()? },
        })
    }

    fn rare_action(&mut self, kind: usize, setup: &Setup) -> Result<Action> {
        let tubes = setup.tubes.len();
        Ok(match kind {
            54 => Action::AckMany {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                picks: (0..self.below(4)?).map(|_| self.pick(tubes)).collect::<Result<_>>()?,
            },
            55 => Action::AckClaims {
                claims: (0..self.below(4)?).map(|_| self.choice()).collect::<Result<_>>()?,
            },
            56 => Action::Kick {
                tube: self.below(tubes)?,
                count: *self.0.choose(&[0, 1, 2, u64::MAX])?,
            },
            57 => Action::ReleaseAll { tube: self.below(tubes)?, forgive: false },
            58 => Action::Truncate { tube: self.below(tubes)? },
            59 => Action::DropTube { tube: self.below(tubes)? },
            60 => {
                let (client, tube) = (self.below(CLIENTS)?, self.below(tubes)?);
                let was = &setup.tubes[tube];
                Action::CreateTube {
                    client,
                    tube,
                    definition: self.definition(was.options.temporary, was.durability)?,
                    same: self.once_in(2)?,
                    opens: self.once_in(2)?,
                }
            }
            61 => Action::UseDroppedTube { tube: self.choice()? },
            62 => Action::EndSession { client: self.below(CLIENTS)? },
            64 => Action::Claim {
                client: self.below(CLIENTS)?,
                pick: self.pick(tubes)?,
                keep: self.once_in(2)?,
            },
            65 => Action::ResumeClaim {
                client: self.below(CLIENTS)?,
                token: self.choice()?,
                any: self.once_in(4)?,
                keep: self.once_in(2)?,
            },
            66 => Action::ReleaseAll { tube: self.below(tubes)?, forgive: true },
            67 => Action::WaitDone { pick: self.pick(tubes)?, waits: self.once_in(2)? },
            68 => Action::Kill { dead_for: self.clock_move()? },
            _ if self.once_in(2)? => Action::LeaveSession { client: self.below(CLIENTS)? },
            _ => Action::ResumeSession { client: self.below(CLIENTS)? },
        })
    }
}
