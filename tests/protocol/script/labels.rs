//! Lists of tasks, and look-ups by keys and tags.

use tubewell::{Put, State, Where};

use super::{Script, put};

impl Script<'_> {
    pub fn lists(&self) {
        self.about("lists");
        let jobs = self.jobs();
        let first = jobs.list(State::Delayed, None, 2).unwrap();
        self.note("list", &first);
        self.note("next page", jobs.list(State::Delayed, first.next, 100));
        let wanted = Where::new().state(State::Ready).newest_first();
        self.note("list_where", jobs.list_where(&wanted, None, 3));
        let soonest = Where::new().state(State::Delayed).soonest_first();
        let first = jobs.list_where(&soonest, None, 1).unwrap();
        self.note("soonest first", &first);
        self.note("next soonest", jobs.list_where(&soonest, first.next, 1));
        let wanted = Where::new().tag("green").sub_queue("ann");
        self.note("list_bodies", jobs.list_bodies(&wanted, None, 10));
        self.note("by owner", jobs.list_where(&Where::new().owner("recorder"), None, 10));
        self.note("peek_ready", jobs.peek_ready(2));
    }

    pub fn labels(&self) {
        self.about("keys and tags");
        let (store, jobs) = (self.store, self.jobs());
        put(&jobs, Put::new("labelled").tag("red").tag("green").key("labelled"));
        self.note("by_key", store.by_key("labelled"));
        self.note("no key", store.by_key("nobody"));
        let page = store.tagged("green", None, 1).unwrap();
        self.note("tagged", &page);
        self.note("next page", store.tagged("green", page.next, 10));
        let tags = store.tags(None, 2).unwrap();
        self.note("tags", &tags);
        self.note("next tags", store.tags(tags.last(), 10));
        self.note("find", store.find(4000));
    }
}
