//! Samples of the types that have no list of fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{Body, DayCounts, Header, Table, Traceparent, encode};

use super::{Random, Sample};
use crate::base::moment::{Moment, system_time};
use crate::base::tube_no::TubeNo;
use crate::core::state::{Grant, Granted};
use crate::core::verb::TubeRef;
use crate::values::kinds::KindSet;
use crate::{Error, Failure, Result, SessionId, Task, TaskInfo};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

impl Sample for u64 {
    fn sample(random: &mut Random) -> u64 {
        let any = random.next();
        [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX, any][random.below(8)]
    }
}

impl Sample for TubeNo {
    fn sample(random: &mut Random) -> TubeNo {
        TubeNo(u32::sample(random))
    }
}

impl Sample for u32 {
    fn sample(random: &mut Random) -> u32 {
        [0, 1, 127, 128, 300, 70_000, u32::MAX][random.below(7)]
    }
}

impl Sample for usize {
    fn sample(random: &mut Random) -> usize {
        [0, 1, 1000, u32::MAX as usize][random.below(4)]
    }
}

impl Sample for bool {
    fn sample(random: &mut Random) -> bool {
        random.below(2) == 1
    }
}

impl Sample for () {
    fn sample(_: &mut Random) {}
}

impl Sample for String {
    fn sample(random: &mut Random) -> String {
        let long = "x".repeat(200);
        ["", "a", "jobs", "größe", "two words", &long][random.below(6)].into()
    }
}

impl<T: Sample> Sample for Arc<T> {
    fn sample(random: &mut Random) -> Arc<T> {
        Arc::new(T::sample(random))
    }
}

impl Sample for Box<str> {
    fn sample(random: &mut Random) -> Box<str> {
        String::sample(random).into()
    }
}

impl Sample for Arc<str> {
    fn sample(random: &mut Random) -> Arc<str> {
        String::sample(random).into()
    }
}

impl Sample for Vec<u8> {
    fn sample(random: &mut Random) -> Vec<u8> {
        let length = [0, 1, 5, 200][random.below(4)];
        (0..length).map(|_| random.byte()).collect()
    }
}

impl Sample for Task {
    fn sample(random: &mut Random) -> Task {
        Task::of(TaskInfo::sample(random), Vec::<u8>::sample(random))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut Random) -> Vec<T> {
        (0..random.below(4)).map(|_| T::sample(random)).collect()
    }
}

impl<T: Sample> Sample for Arc<[T]> {
    fn sample(random: &mut Random) -> Arc<[T]> {
        Vec::sample(random).into()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(random: &mut Random) -> Option<T> {
        bool::sample(random).then(|| T::sample(random))
    }
}

impl<T: Sample> Sample for Result<T> {
    fn sample(random: &mut Random) -> Result<T> {
        if bool::sample(random) { Ok(T::sample(random)) } else { Err(Error::sample(random)) }
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(random: &mut Random) -> Box<T> {
        Box::new(T::sample(random))
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(random: &mut Random) -> (A, B) {
        (A::sample(random), B::sample(random))
    }
}

impl<K: Sample + Ord, V: Sample> Sample for BTreeMap<K, V> {
    fn sample(random: &mut Random) -> BTreeMap<K, V> {
        Vec::sample(random).into_iter().collect()
    }
}

impl<T: Sample + Ord> Sample for BTreeSet<T> {
    fn sample(random: &mut Random) -> BTreeSet<T> {
        Vec::sample(random).into_iter().collect()
    }
}

impl Sample for Duration {
    fn sample(random: &mut Random) -> Duration {
        let any = Duration::new(random.next(), 999_999_999);
        [Duration::ZERO, Duration::from_micros(1500), Duration::MAX, any][random.below(4)]
    }
}

impl Sample for Moment {
    fn sample(random: &mut Random) -> Moment {
        system_time(random.next() >> 20)
    }
}

/// A call refers to values that live as long as the test.
impl Sample for &'static [u8] {
    fn sample(random: &mut Random) -> &'static [u8] {
        Vec::leak(Vec::sample(random))
    }
}

impl Sample for &'static str {
    fn sample(random: &mut Random) -> &'static str {
        String::leak(String::sample(random))
    }
}

impl Sample for TubeRef<'static> {
    fn sample(random: &mut Random) -> TubeRef<'static> {
        TubeRef { number: TubeNo::sample(random), name: <&str>::sample(random) }
    }
}

impl Sample for SessionId {
    fn sample(random: &mut Random) -> SessionId {
        SessionId::from_bytes([random.byte() % 4; 16])
    }
}

impl Sample for Body {
    fn sample(random: &mut Random) -> Body {
        let length = [0, 1, 100, 2000][random.below(4)];
        Body::new(vec![7; length])
    }
}

impl Sample for Failure {
    fn sample(random: &mut Random) -> Failure {
        Failure::new(String::sample(random), String::sample(random))
    }
}

impl Sample for KindSet {
    fn sample(random: &mut Random) -> KindSet {
        KindSet::from_bits(u64::sample(random))
    }
}

impl Sample for DayCounts {
    fn sample(random: &mut Random) -> DayCounts {
        let mut day = DayCounts { puts: u64::sample(random), ..DayCounts::default() };
        for _ in 0..random.below(4) {
            day.wait.add(u64::sample(random));
            day.run.add(u64::sample(random));
        }
        day
    }
}

impl Sample for Grant {
    fn sample(random: &mut Random) -> Grant {
        let (id, body) = (u64::sample(random), Body::sample(random));
        let mut header = Header {
            priority: u32::sample(random),
            order: u64::sample(random),
            created: u64::sample(random),
            expires_at: u64::sample(random),
            ttr: u64::sample(random),
            ready_at: u64::sample(random),
            takes: u32::sample(random),
            size: body.len() as u64,
            body_checksum: body.checksum(),
            sub: Sample::sample(random),
            more: None,
        };
        header.edit_more(|more| {
            more.max_attempts = Sample::sample(random);
            more.max_runtime = Sample::sample(random);
            more.traceparent = Traceparent::parse(TRACEPARENT).filter(|_| bool::sample(random));
            more.key = Sample::sample(random);
        });
        let row = match &body {
            Body::Inline(bytes) => encode(id, &header, bytes),
            Body::Separate(row, _) => row.clone(),
        };
        Grant::from(Granted {
            tube: TubeNo::sample(random),
            name: Sample::sample(random),
            id,
            epoch: u64::sample(random),
            session: Sample::sample(random),
            header,
            buffer: Sample::sample(random),
            table: Table::Tasks,
            key: Vec::new(),
            row: Some(row),
            attempts_left: Sample::sample(random),
            counted: None,
        })
    }
}
