//! The tubes at a scrape, in steps, so that a store with many of them is not locked for long.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, verb};
use crate::core::wire::wire_struct;
use crate::values::scrape::TubeScrape;
use crate::{Result, Statistics};

/// How many tubes a step has at most.
const TUBES_OF_STEP: usize = 256;

/// After how many rows a step ends, which it reads for the ages of ready tasks.
const ROWS_OF_STEP: usize = 256;

/// Some tubes, by name.
pub(crate) struct ScrapeStep {
    pub(crate) tubes: Vec<TubeScrape>,
    /// There are no tubes behind these.
    pub(crate) is_last: bool,
}

wire_struct! { ScrapeStep { tubes, is_last } }

verb! {
    /// The next tubes by name, behind the tube `after`.
    26 InStore Look: ScrapeTubes { after: Option<Arc<str>> } -> ScrapeStep {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for ScrapeTubes {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<ScrapeStep>> {
        let from = self.after.as_deref().map_or(Unbounded, Excluded);
        let next = core.tubes.names_in::<str>((from, Unbounded)).take(TUBES_OF_STEP + 1);
        let mut numbers: Vec<TubeNo> = next.map(|(_, number)| number).collect();
        let mut is_last = numbers.len() <= TUBES_OF_STEP;
        numbers.truncate(TUBES_OF_STEP);
        let (mut tubes, mut rows) = (Vec::with_capacity(numbers.len()), 0);
        for number in numbers {
            if rows >= ROWS_OF_STEP {
                is_last = false;
                break;
            }
            tubes.extend(core.scrape_tube(number, &mut rows));
        }
        Ok(Decided::now(ScrapeStep { tubes, is_last }))
    }
}

impl Core {
    fn scrape_tube(&mut self, number: TubeNo, rows: &mut usize) -> Option<TubeScrape> {
        let ready = self.tubes.get(number)?.visible.tasks.ready;
        let oldest_ready = if ready > 0 { self.oldest_ready(number, rows) } else { Some(0) };
        let tube = self.tubes.get(number)?;
        let statistics: Statistics = tube.visible;
        Some(TubeScrape {
            name: tube.definition.name.clone(),
            statistics,
            waiting_takes: tube.waiting_takes.len() as u64,
            waiting_puts: tube.waiting_puts.len() as u64,
            is_paused: tube.pause_ends_at(self.now).is_some(),
            capacity: tube.definition.policies.capacity,
            oldest_ready,
            durations: tube.days.as_ref().map(|days| days.since_open.read()),
        })
    }
}
