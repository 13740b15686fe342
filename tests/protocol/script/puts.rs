//! Puts, with each option, and refused.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::expert::Restore;
use tubewell::{OnKey, OnParent, Put};

use super::{HOUR, MINUTE, SECOND, Script, put};

/// An hour after the clock of the owner begins.
pub fn moment() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_225_600) + HOUR
}

impl Script<'_> {
    pub fn puts(&self) {
        self.about("puts");
        let (plain, jobs) = (self.plain(), self.jobs());
        self.note("put", plain.put("one"));
        self.note("put_many", plain.put_many(["two", "three"]));
        self.note("large", plain.put(vec![b'x'; 1025]));
        let parent = put(&jobs, Put::new("parent").key("parent"));
        let all = Put::new("all options")
            .priority(3)
            .ttl(2 * HOUR)
            .ttr(30 * SECOND)
            .delay(5 * SECOND)
            .sub_queue("ann")
            .max_attempts(2)
            .max_runtime(MINUTE)
            .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .key("all")
            .on_key(OnKey::Reject)
            .tag("red")
            .tag("blue")
            .idempotency_key("token of all")
            .unique_for(24 * HOUR)
            .after(&jobs, [parent])
            .after_key("parent")
            .on_parent(OnParent::Release);
        self.note("all options", jobs.put(all.clone()));
        self.note("the same token", jobs.put(all));
        let later = Put::new("later").not_before(moment()).sub_queue("bob");
        self.note("not before", jobs.put(later));
        let again = Put::new("again").key("all").on_key(OnKey::Keep);
        self.note("kept key", jobs.put(again));
        self.note("requeue", jobs.requeue("all", Put::new("requeued").tag("green")));
        let restored = Restore::new("restored").id(100).takes(2).forgiven(1);
        self.note("restore", jobs.admin().restore_many([restored]));
        let buried = Restore::new("buried before").buried(true).group("timeout");
        let buried = buried.put_at(moment() - HOUR);
        self.note("restore buried", jobs.admin().restore_many([buried]));
    }

    pub fn refused_puts(&self) {
        self.about("puts that are refused");
        let (plain, jobs, small) = (self.plain(), self.jobs(), self.tube("small"));
        self.note("unsupported", plain.put(Put::new("x").delay(SECOND)));
        self.note("key in use", jobs.put(Put::new("x").key("all")));
        self.note("id used", jobs.admin().restore_many([Restore::new("x").id(100)]));
        self.note("no parent", jobs.put(Put::new("x").after_key("nobody")));
        self.note("room", small.put("one"));
        self.note("full", small.put("two"));
        self.note("full after a wait", small.put_timeout("two", Duration::ZERO));
        self.note("key not found", jobs.requeue("nobody", "x"));
        self.note("ttr", jobs.put(Put::new("x").ttr(MINUTE).max_attempts(0)));
    }
}
