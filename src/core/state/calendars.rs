//! The cron expressions that were read, and the newest moments that each names.
//!
//! An expression is read once, and what was missed while the store was closed is looked for once, and not
//! for each run that is made up for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_drivers::NEVER;

use super::schedule::Calendar;
use crate::base::moment::Moments;
use crate::{Error, Result};

/// How many expressions are remembered.
const MOST: usize = 256;

/// The text of an expression, and the name of its time zone.
type Name = (Arc<str>, Arc<str>);

/// The expressions that were read, each with its time zone.
#[derive(Default)]
pub(in crate::core) struct Calendars {
    read: RefCell<BTreeMap<Name, Expression>>,
}

/// An expression in a time zone.
pub(in crate::core) struct Expression {
    moments: Box<dyn Moments>,
    /// Its newest moments when it was last asked for them, the newest first.
    newest: Vec<u64>,
    /// The moment that follows them.
    following: u64,
}

impl Calendars {
    /// Asks an expression in a time zone.
    pub(in crate::core) fn ask<T>(
        &self,
        calendar: Option<Calendar>,
        (expression, zone): (&Arc<str>, &Arc<str>),
        ask: impl FnOnce(&mut Expression) -> T,
    ) -> Result<T> {
        let calendar = calendar.ok_or_else(no_calendar)?;
        let mut read = self.read.borrow_mut();
        let key = (expression.clone(), zone.clone());
        // The rules of a time zone may have changed since.
        if let Some(known) = read.get_mut(&key).filter(|known| known.moments.is_current()) {
            return Ok(ask(known));
        }
        let mut new = Expression::new((calendar.read)(expression, zone)?);
        let answer = ask(&mut new);
        if read.len() >= MOST {
            read.clear();
        }
        read.insert(key, new);
        Ok(answer)
    }
}

impl Expression {
    fn new(moments: Box<dyn Moments>) -> Expression {
        Expression { moments, newest: Vec::new(), following: 0 }
    }

    /// The moment that follows one; `NEVER` after the last one.
    pub(in crate::core) fn after(&self, moment: u64) -> u64 {
        if self.is_newest_at(moment) {
            return self.following;
        }
        self.moments.next(moment).unwrap_or(NEVER)
    }

    /// Whether it names moments every so often, and not fixed times of the day.
    pub(in crate::core) fn is_interval(&self) -> bool {
        self.moments.is_interval()
    }

    /// The oldest of the `count` newest moments that are not after `now`, and `first` if that is later or
    /// there are not so many.
    pub(in crate::core) fn newest(&mut self, count: u64, now: u64, first: u64) -> u64 {
        if !self.is_newest_at(now) {
            let Some(last) = self.moments.last(now) else { return first };
            self.newest = vec![last];
            self.following = self.moments.next(now).unwrap_or(NEVER);
        }
        let mut found = first;
        for index in 0..usize::try_from(count).unwrap_or(usize::MAX) {
            let moment = match (self.newest.get(index), self.newest.last()) {
                (Some(moment), _) => Some(*moment),
                (None, Some(oldest)) => self.moments.last(oldest.saturating_sub(1)),
                (None, None) => None,
            };
            let Some(moment) = moment.filter(|moment| *moment > first) else { return first };
            if index == self.newest.len() {
                self.newest.push(moment);
            }
            found = moment;
        }
        found
    }

    /// Whether no moment is between the newest one that is known and this time.
    fn is_newest_at(&self, time: u64) -> bool {
        self.newest.first().is_some_and(|newest| (*newest..self.following).contains(&time))
    }
}

fn no_calendar() -> Error {
    Error::invalid("this program reads no cron expressions; build tubewell with its feature `cron`")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How often it was asked for a moment, and which are those of the tens.
    struct Tens(Arc<AtomicUsize>);

    impl Moments for Tens {
        fn next(&self, after: u64) -> Option<u64> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(after / 10 * 10 + 10)
        }

        fn last(&self, until: u64) -> Option<u64> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(until / 10 * 10).filter(|last| *last > 0)
        }

        fn is_interval(&self) -> bool {
            true
        }

        fn is_current(&self) -> bool {
            true
        }
    }

    #[test]
    fn missed_moments_are_looked_for_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut tens = Expression::new(Box::new(Tens(asked.clone())));
        let mut first = 20;
        let mut runs = Vec::new();
        loop {
            let run = tens.newest(100, 5_005, first);
            runs.push(run);
            first = tens.after(run);
            if first > 5_005 {
                break;
            }
        }
        let expected: Vec<u64> = (4_010..=5_000).step_by(10).collect();
        assert_eq!(runs, expected);
        // One look for each of the moments, one for that which follows, and one for each next run.
        assert_eq!(asked.load(Ordering::Relaxed), 100 + 1 + 99);
    }

    #[test]
    fn newest_moments_follow_the_clock() {
        let mut tens = Expression::new(Box::new(Tens(Arc::default())));
        for now in [95, 99, 100, 134, 134, 87, 300] {
            let newest = now / 10 * 10;
            assert_eq!(tens.newest(1, now, 5), newest);
            assert_eq!(tens.newest(3, now, 5), newest - 20);
            assert_eq!(tens.newest(3, now, newest - 10), newest - 10);
            assert_eq!(tens.newest(1, now, newest), newest);
            assert_eq!(tens.after(now), newest + 10);
            assert_eq!(tens.after(newest - 1), newest);
        }
        assert_eq!(tens.newest(100, 9, 3), 3);
    }
}
