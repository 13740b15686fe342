//! Calls of another process with any values that pass the checks.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::checks::take_many;
use super::{Random, Sample};
use crate::core::list::PutTask;
use crate::core::list::{SeeVerb, each_verb};
use crate::core::state::{Buffer, ClaimKey, PutRequest, check_distinct_tags};
use crate::core::verb::{Begin, InStore, InTube, Limits, Named, OfClaim, OfClaims, TubeRef};
use crate::{Error, FIFOTTL, ManualClock, Put, SessionId, Store, TubeOptions, UTUBE};

/// The maximum number of bytes of a body.
const MAX_BODY: usize = 10_000;

/// Makes a verb of another process, if it passes the checks. Returns how many were made.
fn make_verb<V: Begin>(store: &Store, on: Named<'_, V>, verb: &V) -> usize {
    if V::WAITS || verb.check(Limits { max_body: MAX_BODY }).is_err() {
        return 0;
    }
    assert_no_damage(store.handle.make(Buffer::File, on, verb).err(), &V::NAME);
    1
}

/// Makes verbs with any values in them.
struct AnyVerbs<'a> {
    store: &'a Store,
    seeds: Range<u64>,
    tube: &'a dyn Fn() -> TubeRef<'static>,
    session: SessionId,
    made: usize,
}

impl AnyVerbs<'_> {
    fn samples<V: Begin + Sample>(&self) -> impl Iterator<Item = V> + use<V> {
        let random = |seed: u64| Random::new(seed << 16 | u64::from(V::NUMBER) << 8 | 1);
        self.seeds.clone().map(move |seed| V::sample(&mut random(seed)))
    }

    /// The numbers of claims begin at random in each run.
    fn key(&self, id: u64) -> ClaimKey {
        let number = (self.tube)().number;
        self.store.inner().run(|core| core.key_of_claim(number, self.session, id))
    }
}

impl SeeVerb for AnyVerbs<'_> {
    fn in_store<V: Begin<On = InStore> + Sample>(&mut self) {
        self.made +=
            self.samples::<V>().map(|verb| make_verb(self.store, (), &verb)).sum::<usize>();
    }

    fn in_tube<V: Begin<On = InTube> + Sample>(&mut self) {
        let make = |verb: V| make_verb(self.store, (self.tube)(), &verb);
        self.made += self.samples::<V>().map(make).sum::<usize>();
    }

    fn of_claim<V: Begin<On = OfClaim> + Sample>(&mut self) {
        for id in 0..100 {
            let on = self.key(id);
            let verb = self.samples::<V>().next();
            self.made += verb.map_or(0, |verb| make_verb(self.store, on, &verb));
        }
    }

    fn of_claims<V: Begin<On = OfClaims> + Sample>(&mut self) {
        let keys = [0, 1].map(|id| self.key(id));
        let verb = self.samples::<V>().next();
        self.made += verb.map_or(0, |verb| make_verb(self.store, &keys[..], &verb));
    }
}

fn assert_no_damage(error: Option<Error>, call: &dyn std::fmt::Debug) {
    let is_damage = matches!(error, Some(Error::Stopped { .. } | Error::Corrupt { .. }));
    assert!(!is_damage, "{error:?}: {call:?}");
}

/// A put of any values: as it is, it would often be one that only a restore makes.
fn more_likely(request: &PutRequest) -> PutRequest {
    let PutRequest { mut tags, after, .. } = request.clone();
    if check_distinct_tags(&tags).is_err() {
        tags = Arc::default();
    }
    let plain =
        PutRequest { id: None, takes: 0, restored_as: None, history: None, ..request.clone() };
    let after = after.filter(|after| !after.keys.iter().any(String::is_empty));
    PutRequest { tags, after, ..plain }
}

#[test]
fn checked_calls_with_any_values_leave_the_store_intact() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).max_body(MAX_BODY);
    let store = store.open_in_memory().unwrap();
    let options = TubeOptions::new().keep_done(crate::Keep::new()).history(5).metrics(30);
    let timed = store.create_tube("timed", options.clone().driver(FIFOTTL)).unwrap();
    let hosts = store.create_tube("hosts", options.driver(UTUBE)).unwrap();
    let tubes = [&timed, &hosts].map(|tube| tube.head().number);
    let any_tube = move |seed: usize| TubeRef { number: tubes[seed % 2], name: "tube" };
    for session in 0..4 {
        let id = SessionId::from_bytes([session; 16]);
        store.handle.begin_session(id, None).unwrap();
    }
    let at = std::cell::Cell::new(0);
    let next_tube = || any_tube(at.replace(at.get() + 1));
    let mut made = 0;
    for round in 0..20 {
        timed.put_many(vec!["work"; 20]).unwrap();
        let _ = hosts.put_many(vec![Put::new("work").sub_queue("a"); 5]);
        let session = SessionId::from_bytes([round % 4; 16]);
        // Its session may have been ended.
        let _ = take_many(&store, [&timed, &hosts][usize::from(round) % 2], session, 3);
        let first = u64::from(round) * 4;
        let some = first..first + 4;
        for seed in 0..40 {
            let request = Sample::sample(&mut Random::new(first << 16 | seed << 8 | 1));
            made += make_verb(&store, next_tube(), &PutTask { request: more_likely(&request) });
        }
        let mut any = AnyVerbs { store: &store, seeds: some, tube: &next_tube, session, made: 0 };
        each_verb(&mut any);
        made += any.made;
        clock.advance(Duration::from_secs(3600));
        assert_eq!(store.admin().verify().unwrap(), Vec::<String>::new(), "round {round}");
    }
    assert!(made > 5000, "{made}");
    let puts = [&timed, &hosts].map(|tube| tube.statistics().unwrap().calls.put);
    assert!(puts.iter().sum::<u64>() > 520, "{puts:?}");
}
