//! Takes, and what their claims say and do.

use std::time::Duration;

use tubewell::{Claim, Failure, Outcome, Put};

use super::{HOUR, MINUTE, SECOND, Script, begin, put};
use crate::recording::Act;

impl Script<'_> {
    pub fn takes(&self) {
        self.about("takes");
        let (plain, jobs, brief) = (self.plain(), self.jobs(), self.tube("brief"));
        let one = plain.try_take();
        self.note("take", &one);
        let others = plain.take_many(10, Duration::MAX);
        self.note("take_many", others.as_ref().map_err(Clone::clone).map(Vec::len));
        self.note("ack", one.unwrap().unwrap().ack());
        self.note("ack_many", Claim::end_many(others.unwrap(), |_| Outcome::done()));
        self.note("nothing", plain.try_take());
        put(&brief, "of two tubes");
        let any = self.store.take_any(&[&plain, &brief], Duration::MAX);
        self.note("take_any", &any);
        self.note("bury", any.unwrap().unwrap().bury(None));
        let chosen = jobs.claim(100);
        self.note("claim", &chosen);
        drop(chosen);
        self.note("dropped", jobs.query().task(100));

        self.about("a take that waits");
        let take = begin(plain.to_async().take_timeout(Duration::MAX));
        self.act(Act::Waiting("plain".into(), 1));
        self.note("put", plain.put("late"));
        let late = take.end().map(|late| late.map(Claim::into_blocking));
        self.note("take", &late);
        self.note("release", late.unwrap().unwrap().release());
        self.note("truncate", plain.admin().truncate());
        self.note("catch_up", self.store.admin().catch_up());
        let take = begin(plain.to_async().take_timeout(5 * SECOND));
        self.act(Act::Waiting("plain".into(), 1));
        self.advance(5 * SECOND);
        self.note("timeout", take.end().map(|late| late.map(Claim::into_blocking)));

        self.about("a take that is cancelled");
        let take = begin(plain.to_async().take_timeout(Duration::MAX));
        self.act(Act::Waiting("plain".into(), 1));
        drop(take);
        self.act(Act::Waiting("plain".into(), 0));
    }

    pub fn claims(&self) {
        self.about("a claim");
        let jobs = self.jobs();
        put(&jobs, Put::new("work").priority(1).key("work"));
        let mut claim = jobs.try_take().unwrap().unwrap();
        self.note("take", &claim);
        self.note("owner", claim.owner().unwrap());
        self.note("expires_in", claim.expires_in().unwrap());
        self.note("is_current", claim.is_current().unwrap());
        self.note("touch", claim.touch(MINUTE));
        self.note("renew", claim.renew(10 * MINUTE));
        self.note("progress", claim.progress(3, 10));
        self.advance(SECOND);
        self.note("progress_text", claim.progress_text("half of it"));
        self.note("checkpoint", claim.checkpoint("work, done in part"));
        self.note("log", claim.log("said by the worker"));
        self.note("peek", jobs.query().task(claim.id()));
        self.note("owner", jobs.query().owner(claim.id()));
        self.note("ack_with", claim.end(Outcome::result("the result")));
    }

    pub fn ends_of_claims(&self) {
        self.about("ends of claims");
        let jobs = self.jobs();
        let failure = || Failure::new("timeout", "no answer\nafter a second line");
        let take = |name: &str| {
            put(&jobs, Put::new(name).priority(1));
            jobs.try_take().unwrap().unwrap()
        };
        self.note("release", take("release").release_in(HOUR));
        self.note("fail", take("fail").fail(failure()));
        self.note("fail_in", take("fail_in").end(Outcome::fail_in(2 * HOUR, failure())));
        self.note("snooze", take("snooze").end(Outcome::snooze(3 * HOUR)));
        self.note("snooze now", take("snooze now").end(Outcome::snooze(Duration::ZERO)));
        self.note("bury_with", take("bury_with").bury(failure()));
        self.note("advance", take("advance").end(Outcome::advance(&self.plain(), "advanced")));
        let finish = Outcome::result("ended").and_put(&self.plain(), "follows");
        self.note("finish", take("finish").end(finish));
        let claim = take("ended");
        self.note("delete", jobs.delete(claim.id()));
        self.note("not taken", claim.ack());
        let claim = take("overdue");
        self.advance(61 * SECOND);
        self.note("overdue", claim.owner().unwrap());
        self.note("late ack", claim.ack());
        let deferred = take("deferred").into_async().ack();
        self.note("deferred", deferred.wait());
    }
}
