//! Schedules: tasks that put others, their runs, instead of becoming ready.
//!
//! A schedule is on a shelf of its own, at the same position from its first to its last run. An
//! interval is due by a row of `dues`, on the timeline; a cron expression by a row of the moments of the
//! wall clock. Invariant: a run is put in the commit that moves its schedule to the next moment, so
//! that no crash loses or doubles a run.

mod moments;
mod pages;
mod realign;
mod runs;
mod verbs;

pub(crate) use pages::{FindSchedule, ListSchedules, describe_schedule};
pub(crate) use verbs::{ChangeSchedule, RemoveSchedule, SetSchedule};

#[cfg(all(test, feature = "cron"))]
mod tests {
    use std::time::Duration;

    use crate::{FIFO, ManualClock, Schedule, Store, TubeOptions};

    const DAY: Duration = Duration::from_secs(86_400);

    /// As if the store were opened by a program that was built without the feature `cron`.
    #[test]
    fn cron_schedule_stands_still_without_a_calendar() {
        let clock = ManualClock::new();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let open = || Store::options().clock(&clock).open(&path).unwrap();
        let store = open();
        let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
        tube.schedule(Schedule::cron("report", "0 9 * * *", "UTC"), "x").unwrap();
        tube.schedule(Schedule::every("tidy", DAY * 2), "x").unwrap();
        store.inner().run(|core| core.config.calendar = None);
        clock.advance(DAY * 3);
        let listed = tube.schedules().list(None, 9).unwrap().items;
        let [report, tidy] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((report.runs, tidy.runs), (0, 2));
        assert!(report.stopped.as_ref().unwrap().contains("feature `cron`"), "{report:?}");
        assert_eq!(tidy.stopped, None);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let report = report.clone();
        drop(tube);
        store.close().unwrap();
        // A program that has it makes up for one run.
        let store = open();
        let tube = store.find_tube("jobs").unwrap();
        clock.advance(Duration::ZERO);
        let listed = tube.schedules().list(None, 9).unwrap().items;
        assert_eq!(
            (listed[0].id, listed[0].runs, listed[0].stopped.as_ref()),
            (report.id, 1, None)
        );
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
