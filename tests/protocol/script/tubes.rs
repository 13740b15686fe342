//! Tubes: created, found, altered, dropped.

use tubewell::{
    Backoff, Counting, Durability, FIFO, FIFOTTL, Keep, LIMFIFOTTL, Rate, TubeOptions, UTUBETTL,
};

use super::{HOUR, MINUTE, SECOND, Script};

impl Script<'_> {
    pub fn tubes(&self) {
        self.about("tubes");
        let Script { store, .. } = self;
        self.note("plain", store.create_tube("plain", TubeOptions::new().driver(FIFO)).map(drop));
        let many = TubeOptions::new()
            .ttl(24 * HOUR)
            .ttr(MINUTE)
            .priority(7)
            .max_runtime(HOUR)
            .max_attempts(3)
            .backoff(Backoff::exponential(10 * SECOND).factor(3.0).cap(HOUR).jitter(0.0))
            .reclaim_delay(5 * SECOND)
            .keep_done(Keep::new().count(10).age(HOUR))
            .keep_buried(Keep::new().count(20))
            .max_taken(100)
            .sub_queue_limit(2)
            .shared_limits(true)
            .sub_queue_rate(Rate::per(1000, SECOND))
            .rate(Rate::per(1000, SECOND))
            .history(20)
            .metrics(7)
            .durability(Durability::Flush);
        self.note("jobs", store.create_tube("jobs", many.driver(UTUBETTL)).map(drop));
        let small = TubeOptions::new().capacity(1);
        self.note("small", store.create_tube("small", small.driver(LIMFIFOTTL)).map(drop));
        let brief = TubeOptions::new().temporary(true).count_takes(Counting::Lazily);
        self.note("brief", store.create_tube("brief", brief.driver(FIFOTTL)).map(drop));
        let written = TubeOptions::new().durability(Durability::write());
        self.note("written", store.create_tube("written", written.driver(FIFO)).map(drop));
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        self.note("relaxed", store.open_tube("relaxed", relaxed.driver(FIFO)).map(drop));
        let counted = TubeOptions::new().max_attempts(2).count_takes(Counting::Flushed);
        self.note("counted", store.create_tube("counted", counted.driver(FIFO)).map(drop));
        let asked = TubeOptions::new().keep_done(Keep::new().count(1));
        self.note("asked", store.create_tube("asked", asked.driver(FIFOTTL)).map(drop));
        self.note("tube", store.find_tube("plain").map(drop));
        self.note("alter", self.tube("counted").admin().alter(TubeOptions::new().max_taken(3)));
        self.note("info", self.tube("counted").info());
        self.note("tubes", store.tubes().unwrap().len());
        self.note("drop", store.drop_tube("relaxed"));
        self.note("catch_up", store.admin().catch_up());
    }

    pub fn refused_tubes(&self) {
        self.about("calls on tubes that are refused");
        let Script { store, .. } = self;
        let create = |name, driver, options: TubeOptions| {
            store.create_tube(name, options.driver(driver)).map(drop)
        };
        self.note("exists", create("plain", FIFO, TubeOptions::new()));
        let differs = TubeOptions::new().driver(FIFOTTL);
        self.note("differs", store.open_tube("plain", differs).map(drop));
        self.note("similar", store.find_tube("plian").map(drop));
        self.note("driver", create("other", "lifo", TubeOptions::new()));
        self.note("invalid", create("", FIFO, TubeOptions::new()));
        let dropped = store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
        self.note("drop", store.drop_tube("dropped"));
        self.note("catch_up", store.admin().catch_up());
        self.note("dropped", dropped.put("late"));
    }
}
