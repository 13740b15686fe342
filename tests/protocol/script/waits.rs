//! Calls that wait: for ends, for space, for tasks; and parents.

use std::time::Duration;

use tubewell::{Filter, Outcome, Put};

use super::{MINUTE, SECOND, Script, begin, put};
use crate::recording::Act;

impl Script<'_> {
    pub fn waits(&self) {
        self.about("waits for space");
        let (small, jobs) = (self.tube("small"), self.jobs());
        let waiting = begin(small.to_async().put_timeout("two", Duration::MAX));
        self.act(Act::WaitingPuts("small".into(), 1));
        let claim = small.try_take().unwrap().unwrap();
        self.note("ack", claim.ack());
        self.note("put_wait", waiting.end());
        let waiting = begin(small.to_async().put_timeout("three", SECOND));
        self.act(Act::WaitingPuts("small".into(), 1));
        self.advance(SECOND);
        self.note("full", waiting.end());

        self.about("waits for ends");
        let id = put(&jobs, Put::new("waited for").priority(0));
        let end = begin(jobs.to_async().wait_done(id, Duration::MAX));
        self.note("ack_with", jobs.try_take().unwrap().unwrap().end(Outcome::result("done")));
        self.note("wait_done", end.end());
        self.note("outcome", jobs.ending(id));
        // In a tube of its own: the take is answered with this task, whichever comes first.
        let asked = self.tube("asked");
        let request = begin(asked.to_async().put_and_wait("request", Duration::MAX));
        let claim = asked.take().unwrap();
        self.note("take", &claim);
        self.note("ack_with", claim.end(Outcome::result("response")));
        self.note("put_and_wait", request.end().map(|(_, end)| end));
        self.note("wait_drained", small.wait_drained(Duration::ZERO));
        self.note("wait_ready", small.wait_ready(MINUTE));

        self.about("a subscription");
        let filter = Filter::new().tube("plain").tube("small");
        let events = self.store.events(filter, 100).unwrap();
        self.note("ack", small.try_take().unwrap().unwrap().ack());
        self.note("wait_drained", small.wait_drained(Duration::MAX));
        for _ in 0..2 {
            self.note("event", events.recv());
        }
        put(&small, Put::new("seen").key("seen"));
        self.note("event", events.recv());
        self.note("no more", events.try_recv());
        drop(events);
        self.note(
            "delete",
            small.admin().delete(Filter::new().ids([self.store.admin().next_id().unwrap() - 1])),
        );
        let events = self.store.events(Filter::new().tube("small").details(), 100).unwrap();
        put(&small, Put::new("seen with its body").tag("seen"));
        self.note("event", events.recv());
        drop(events);
        small.admin().delete(Filter::new().tag("seen")).unwrap();
    }

    pub fn parents(&self) {
        self.about("parents");
        let jobs = self.jobs();
        let parent = put(&jobs, Put::new("a parent").priority(0));
        let child = put(&jobs, Put::new("a child").priority(0).after(&jobs, [parent]));
        let other = put(&jobs, Put::new("another parent").priority(9));
        self.note("add_parents", jobs.admin().add_parents(child, &jobs, &[other]));
        self.note("parents", jobs.query().parents(child));
        self.note("parent_counts", jobs.query().parent_counts(child));
        self.note("children", jobs.query().children(parent));
        self.note("cycle", jobs.admin().add_parents(parent, &jobs, &[child]));
        self.note("has dependents", jobs.delete(parent));
        self.note("not ready", jobs.claim(child));
        self.note("remove_parents", jobs.admin().remove_parents(child, Some(&[other])));
        self.note("ack", jobs.try_take().unwrap().unwrap().ack());
        self.note("child", jobs.query().task(child));
        self.note("cancel", jobs.cancel(other));
        self.note("ack child", jobs.try_take().unwrap().unwrap().ack());
    }
}
