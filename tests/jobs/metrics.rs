//! The numbers of a tube, by day.

use std::time::Duration;

use tubewell::driver::FIFOTTL;
use tubewell::expert::{Bin, Date, Day, Summary};
use tubewell::{Backoff, Error, Failure, Outcome, Put, Store, Tube, TubeOptions};

use super::support::*;
use crate::options::only;
use crate::stores::{self, ManualClock};

pub const DAY: Duration = secs(86_400);

pub fn with_metrics() -> TubeOptions {
    TubeOptions::new().metrics(30)
}

/// The numbers of a tube today.
pub fn today(store: &Store, tube: &Tube) -> Day {
    tube.query().day(store.today().unwrap()).unwrap()
}

/// How many tasks were put, taken and acked.
pub fn cycles(day: &Day) -> (u64, u64, u64) {
    (day.puts, day.takes, day.acks)
}

fn failed(day: &Day) -> (u64, u64) {
    (day.failed, day.failures)
}

fn fail(tube: &Tube) {
    let claim = tube.try_take().unwrap().unwrap();
    claim.fail(Failure::new("timeout", "no answer")).unwrap();
}

fn mean_and_std(summary: &Summary) -> (f64, f64) {
    (summary.mean.as_secs_f64(), summary.std.as_secs_f64())
}

fn assert_near((mean, std): (f64, f64), expected: (f64, f64)) {
    assert!((mean - expected.0).abs() < 1e-6 && (std - expected.1).abs() < 1e-6, "{mean} {std}");
}

/// How many durations of so many seconds the bins have.
fn in_bins(summary: &Summary, seconds: u64) -> u64 {
    let holds =
        |bin: &&Bin| bin.from <= secs(seconds) && bin.to.is_none_or(|to| secs(seconds) < to);
    summary.bins().iter().filter(holds).map(|bin| bin.count).sum()
}

/// Two tubes with metrics and one attempt for each task, on a clock that the test moves.
fn two_tubes() -> (ManualClock, Store, Tube, Tube) {
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let options = with_metrics().max_attempts(1);
    let [one, other] = ["one", "other"]
        .map(|name| store.create_tube(name, options.clone().driver(FIFOTTL)).unwrap());
    (clock, store, one, other)
}

/// Q240
/// Difference: the bins are logarithmic, and only those with a task are listed.
#[test]
fn numbers_of_a_new_tube_are_zero() {
    for_each_driver_with(ALL, with_metrics(), |case| {
        let day = today(&case.store, &case.tube);
        assert_eq!((cycles(&day), failed(&day), day.lost, day.retried), ((0, 0, 0), (0, 0), 0, 0));
        for summary in [&day.wait, &day.run] {
            assert_eq!(*summary, Summary::default());
            assert_eq!((summary.count, summary.mean, summary.percentile(0.5)), (0, ZERO, ZERO));
            assert!(summary.bins().is_empty());
        }
        assert_eq!(day.date, case.store.today().unwrap());
        assert!(
            case.tube.query().days(Date::of(std::time::UNIX_EPOCH)..=day.date).unwrap().is_empty()
        );
    });
}

/// Q241 Q242
/// Difference: the bins are logarithmic: long durations share one.
#[test]
fn waits_and_runs_have_mean_deviation_and_bins() {
    for_each_driver_with(ALL, with_metrics(), |case| {
        for n in 0..20 {
            case.put(&format!("task {n}"));
        }
        let mut claims = Vec::new();
        for _ in 0..20 {
            claims.push(case.tube.try_take().unwrap().unwrap());
            case.clock.advance(secs(1));
        }
        let wait = today(&case.store, &case.tube).wait;
        assert_eq!((wait.count, wait.max), (20, secs(19)));
        assert_near(mean_and_std(&wait), (9.5, 5.916_079_783));
        assert_eq!(wait.bins().iter().map(|bin| bin.count).sum::<u64>(), 20);
        for second in 0..5 {
            assert_eq!(in_bins(&wait, second), 1, "{second} s");
        }
    });
    for_each_driver_with(ALL, with_metrics(), |case| {
        for n in 0..20 {
            case.put(&format!("task {n}"));
        }
        for claim in case.tube.take_many(20, ZERO).unwrap() {
            claim.ack().unwrap();
            case.clock.advance(secs(1));
        }
        let run = today(&case.store, &case.tube).run;
        assert_eq!((run.count, run.max), (20, secs(19)));
        assert_near(mean_and_std(&run), (9.5, 5.916_079_783));
    });
}

/// Q243
#[test]
fn wait_ends_with_the_take_and_run_begins_there() {
    for_each_driver_with(ALL, with_metrics(), |case| {
        case.put("x");
        case.clock.advance(secs(3));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.clock.advance(secs(7));
        claim.ack().unwrap();
        let day = today(&case.store, &case.tube);
        assert_eq!((day.wait.mean, day.run.mean), (secs(3), secs(7)));
        assert_eq!((day.wait.std, day.run.std), (ZERO, ZERO));
        assert_eq!(cycles(&day), (1, 1, 1));
    });
}

/// Q244 Q121
#[test]
fn failed_counts_the_tasks_that_are_still_buried() {
    for_each_driver_with(ALL, with_metrics().max_attempts(1), |case| {
        let [first, second] = ["a", "b"].map(|name| case.put(name));
        fail(&case.tube);
        fail(&case.tube);
        let numbers = || failed(&today(&case.store, &case.tube));
        assert_eq!(numbers(), (2, 2));
        case.tube.kick(first).unwrap();
        assert_eq!(numbers(), (1, 2));
        assert_eq!(case.info(first).failure.unwrap().group, "timeout");
        case.tube.delete(second).unwrap();
        assert_eq!(numbers(), (0, 2));
        // A bury without a failure is none.
        case.tube.admin().bury(first, None).unwrap();
        assert_eq!(numbers(), (0, 2));
    });
}

/// Q100
#[test]
fn cancelled_task_is_failed_no_more_on_the_day_of_its_failure() {
    let (clock, store, tube, _) = two_tubes();
    let id = tube.put("x").unwrap().id;
    let first = store.today().unwrap();
    fail(&tube);
    clock.advance(DAY);
    assert_eq!(failed(&tube.query().day(first).unwrap()), (1, 1));
    tube.cancel(id).unwrap();
    let numbers =
        [first, store.today().unwrap()].map(|date| failed(&tube.query().day(date).unwrap()));
    assert_eq!(numbers, [(0, 1), (0, 0)]);
    assert!(tube.query().groups().unwrap().is_empty());
    assert_sound(&store);
}

/// Q245
#[test]
fn take_after_a_lost_claim_is_a_retry() {
    for_each_driver_with(TIMED, with_metrics().ttr(secs(10)), |case| {
        case.put("x");
        let numbers = || {
            let day = today(&case.store, &case.tube);
            (day.takes, day.lost, day.retried)
        };
        case.take().unwrap();
        assert_eq!(numbers(), (1, 0, 0));
        case.clock.advance(secs(10));
        assert_eq!(numbers(), (1, 1, 0));
        case.take().unwrap();
        assert_eq!(numbers(), (2, 1, 1));
        // An attempt that is forgiven makes no retry.
        case.put("y");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(case.tube.admin().revoke(claim.id()), Ok(1));
        case.take().unwrap();
        assert_eq!(numbers(), (4, 1, 1));
    });
}

/// Q246
#[test]
fn failure_of_an_earlier_day_that_is_kicked_lowers_that_day() {
    let (clock, store, tube, _) = two_tubes();
    let id = tube.put("x").unwrap().id;
    let first = store.today().unwrap();
    fail(&tube);
    clock.advance(DAY * 3 / 2);
    let numbers = |date| failed(&tube.query().day(date).unwrap());
    assert_eq!((numbers(first), numbers(store.today().unwrap())), ((1, 1), (0, 0)));
    let days = tube.query().days(first..=store.today().unwrap()).unwrap();
    assert_eq!(days.iter().map(|day| (day.date, day.failed)).collect::<Vec<_>>(), [(first, 1)]);
    tube.kick(id).unwrap();
    assert_eq!((numbers(first), numbers(store.today().unwrap())), ((0, 1), (0, 0)));
    assert_sound(&store);
}

/// Q247
#[test]
fn last_attempt_that_ends_in_any_way_is_one_failure() {
    for_each_driver_with(TIMED, with_metrics().max_attempts(1).ttr(secs(5)), |case| {
        let numbers = || failed(&today(&case.store, &case.tube));
        case.put("x");
        case.tube.try_take().unwrap().unwrap().release().unwrap();
        assert_eq!(numbers(), (1, 1));
        case.put("y");
        case.take().unwrap();
        case.clock.advance(secs(5));
        assert_eq!(numbers(), (2, 2));
        assert_eq!(today(&case.store, &case.tube).lost, 1);
        case.put("z");
        let session = case.store.session("").unwrap();
        let theirs = session.tube(&case.tube).unwrap();
        keep(theirs.try_take().unwrap().unwrap());
        session.end().unwrap();
        assert_eq!((numbers(), today(&case.store, &case.tube).lost), ((3, 3), 2));
    });
}

/// Q248
#[test]
fn failed_task_that_goes_on_in_another_tube_is_failed_in_none() {
    let (_, store, one, other) = two_tubes();
    let numbers = |tube: &Tube| failed(&today(&store, tube));
    let [moved, put] = ["a", "b"].map(|key| one.put(Put::new(key).key(key)).unwrap().id);
    fail(&one);
    fail(&one);
    assert_eq!((numbers(&one), numbers(&other)), ((2, 2), (0, 0)));
    other.requeue("b", "again").unwrap();
    assert_eq!((numbers(&one), numbers(&other)), ((1, 2), (0, 0)));
    // A move leaves the task buried: it is a failed task of the other tube.
    assert_eq!(one.admin().move_to(&other, moved), Ok(1));
    assert_eq!((numbers(&one), numbers(&other)), ((0, 2), (1, 0)));
    other.kick(moved).unwrap();
    assert_eq!((numbers(&one), numbers(&other)), ((0, 2), (0, 0)));
    assert_eq!(other.query().task(put).unwrap().info.id, put);
    assert_sound(&store);
}

#[test]
fn day_on_which_only_failed_tasks_are_counted_is_listed() {
    let (clock, store, one, other) = two_tubes();
    let id = one.put("x").unwrap().id;
    let first = store.today().unwrap();
    fail(&one);
    clock.advance(DAY);
    assert_eq!(one.admin().move_to(&other, id), Ok(1));
    let days = |tube: &Tube| -> Vec<(Date, u64)> {
        let days = tube.query().days(first..=store.today().unwrap()).unwrap();
        days.iter().map(|day| (day.date, day.failed)).collect()
    };
    assert_eq!(days(&other), [(first, 1), (store.today().unwrap(), 0)]);
    assert_eq!(days(&one), [(first, 0)]);
    other.delete(id).unwrap();
    assert_eq!(days(&other), [(store.today().unwrap(), 0)]);
    assert_sound(&store);
}

/// Q249
#[test]
fn wait_of_any_length_is_in_a_bin() {
    for days in [8, 30, 300] {
        let (clock, store, tube, _) = two_tubes();
        tube.put("x").unwrap();
        clock.advance(DAY * days);
        take(&tube).unwrap();
        let wait = today(&store, &tube).wait;
        let bins: Vec<u64> = wait.bins().iter().map(|bin| bin.count).collect();
        assert_eq!((wait.count, wait.mean, bins), (1, DAY * days, vec![1]));
        // The last bin has no end.
        assert_eq!(wait.bins()[0].to.is_none(), days > 12);
        assert!(wait.percentile(0.5) <= DAY * days);
        assert_sound(&store);
    }
}

/// Q251
#[test]
fn task_that_fails_has_no_run() {
    let (clock, store, tube, _) = two_tubes();
    tube.put("x").unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    clock.advance(secs(3));
    claim.fail(Failure::new("timeout", "no answer")).unwrap();
    let day = today(&store, &tube);
    assert_eq!((day.run.count, day.wait.count, day.failures), (0, 1, 1));
}

#[test]
fn wait_begins_when_the_task_becomes_ready() {
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let backoff = Backoff::constant(secs(60));
    let options = with_metrics().backoff(backoff);
    let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
    // How long the next task has waited.
    let mut total = ZERO;
    let mut wait = || {
        let claim = tube.try_take().unwrap().unwrap();
        let sum = {
            let wait = today(&store, &tube).wait;
            wait.mean * u32::try_from(wait.count).unwrap()
        };
        let waited = sum.saturating_sub(total);
        total = sum;
        (claim, Duration::from_millis(u64::try_from(waited.as_micros().div_ceil(1000)).unwrap()))
    };
    // A delay that has elapsed while no taker came.
    tube.put(Put::new("delayed").delay(secs(10))).unwrap();
    clock.advance(secs(15));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(5));
    claim.release().unwrap();
    clock.advance(secs(2));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(2));
    claim.release_in(secs(20)).unwrap();
    clock.advance(secs(23));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(3));
    claim.fail(Failure::new("timeout", "no answer")).unwrap();
    clock.advance(secs(64));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(4));
    let id = claim.id();
    tube.admin().bury(id, None).unwrap();
    clock.advance(secs(100));
    tube.kick(id).unwrap();
    clock.advance(secs(6));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(6));
    assert_eq!(tube.admin().revoke(claim.id()), Ok(1));
    clock.advance(secs(7));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(7));
    // A child is ready when its parent is done.
    tube.put(Put::new("child").after(&tube, [id])).unwrap();
    clock.advance(secs(50));
    claim.ack().unwrap();
    clock.advance(secs(8));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(8));
    claim.ack().unwrap();
    // An update ends the delay.
    let id = tube.put(Put::new("early").delay(secs(1000))).unwrap().id;
    clock.advance(secs(100));
    tube.update(id, tubewell::Update::new().delay(ZERO)).unwrap();
    clock.advance(secs(9));
    let (claim, waited) = wait();
    assert_eq!(waited, secs(9));
    claim.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn task_that_goes_on_in_another_tube_waits_anew() {
    let (clock, store, one, other) = two_tubes();
    one.put("advanced").unwrap();
    clock.advance(secs(10));
    let claim = one.try_take().unwrap().unwrap();
    clock.advance(secs(5));
    claim.end(Outcome::advance(&other, "next")).unwrap();
    clock.advance(secs(3));
    take(&other).unwrap();
    let (of_one, of_other) = (today(&store, &one), today(&store, &other));
    assert_eq!(
        (cycles(&of_one), of_one.wait.mean, of_one.run.mean),
        ((1, 1, 1), secs(10), secs(5))
    );
    assert_eq!((cycles(&of_other), of_other.wait.mean), ((1, 1, 0), secs(3)));
    let id = one.put("moved").unwrap().id;
    clock.advance(secs(10));
    assert_eq!(one.admin().move_to(&other, id), Ok(1));
    clock.advance(secs(3));
    take(&other).unwrap();
    let (of_one, of_other) = (today(&store, &one), today(&store, &other));
    assert_eq!((cycles(&of_one), cycles(&of_other)), ((2, 1, 1), (2, 2, 0)));
    assert_eq!((of_other.wait.mean, of_other.wait.std), (secs(3), ZERO));
    assert_sound(&store);
}

#[test]
fn tube_without_metrics_says_how_to_get_them() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    for error in [
        tube.query().day(store.today().unwrap()).err(),
        tube.query().days(store.today().unwrap()..=store.today().unwrap()).err(),
    ] {
        let Some(Error::Invalid { what }) = error else { panic!("{error:?}") };
        assert!(what.contains("create it or alter it with metrics(days)"), "{what}");
    }
    let many = store.create_tube("many", TubeOptions::new().metrics(1001).driver(FIFOTTL));
    assert!(matches!(many, Err(Error::Invalid { .. })));
    assert_eq!(tube.info().unwrap().metrics, 0);
}

#[test]
fn metrics_begin_and_end_with_an_alter() {
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put("before").unwrap();
    tube.admin().alter(only(with_metrics())).unwrap();
    assert_eq!(tube.info().unwrap().metrics, 30);
    take(&tube).unwrap();
    assert_eq!(cycles(&today(&store, &tube)), (0, 1, 0));
    let first = store.today().unwrap();
    clock.advance(DAY * 5);
    tube.put("x").unwrap();
    // Fewer days: the first one is hidden, and so it stays.
    tube.admin().alter(only(TubeOptions::new().metrics(5))).unwrap();
    let dates = || {
        let days = tube.query().days(first..=store.today().unwrap()).unwrap();
        days.into_iter().map(|day| day.date).collect::<Vec<_>>()
    };
    assert_eq!(dates(), [store.today().unwrap()]);
    store.flush().unwrap();
    assert_eq!(cycles(&tube.query().day(first).unwrap()), (0, 0, 0));
    tube.admin().alter(only(TubeOptions::new())).unwrap();
    assert!(tube.query().days(first..=store.today().unwrap()).is_err());
    tube.admin().alter(only(with_metrics())).unwrap();
    assert!(dates().is_empty());
    assert_sound(&store);
}

#[test]
fn range_may_be_empty_or_far_away() {
    let (clock, store, tube, _) = two_tubes();
    tube.put("x").unwrap();
    clock.advance(DAY);
    tube.put("y").unwrap();
    let today = store.today().unwrap();
    let dates = |from: Date, to: Date| {
        tube.query().days(from..=to).unwrap().iter().map(|day| day.date).collect::<Vec<_>>()
    };
    let yesterday = today.plus_days(-1);
    assert_eq!(
        dates(Date::of(std::time::UNIX_EPOCH), Date::new(9999, 12, 31).unwrap()),
        [yesterday, today]
    );
    assert_eq!(dates(yesterday, yesterday), [yesterday]);
    assert_eq!(dates(today, yesterday), []);
    assert_eq!(dates(today.plus_days(1), today.plus_days(9)), []);
    assert_eq!(cycles(&tube.query().day(today.plus_days(9)).unwrap()), (0, 0, 0));
}

/// `calls.lost` counts the claim when it becomes overdue, and the day counts its end.
#[test]
fn overdue_claim_is_lost_on_the_day_of_its_end() {
    let options = with_metrics().ttr(secs(10)).reclaim_delay(secs(20));
    for_each_driver_with(TIMED, options, |case| {
        let lost = || {
            let calls = case.tube.statistics().unwrap().calls;
            (calls.lost, today(&case.store, &case.tube).lost)
        };
        case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(9_000);
        assert_eq!(lost(), (0, 0));
        case.advance(1_000);
        assert_eq!(lost(), (1, 0));
        claim.ack().unwrap();
        case.put("y");
        case.take().unwrap();
        case.advance(10_000);
        assert_eq!(lost(), (2, 0));
        case.advance(20_000);
        assert_eq!((lost(), case.tasks()["ready"]), ((2, 1), 1));
    });
}
