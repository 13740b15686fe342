//! Lists of tasks, and look-ups by keys and tags.

use tubewell::{Filter, Put, TaskState};

use super::{Script, put};

impl Script<'_> {
    pub fn lists(&self) {
        self.about("lists");
        let jobs = self.jobs();
        let first = jobs.query().list(TaskState::Delayed, None, 2).unwrap();
        self.note("list", &first);
        self.note("next page", jobs.query().list(TaskState::Delayed, first.next, 100));
        let wanted = Filter::new().state(TaskState::Ready).newest_first();
        self.note("list of a filter", jobs.query().list(&wanted, None, 3));
        let soonest = Filter::new().state(TaskState::Delayed).soonest_first();
        let first = jobs.query().list(&soonest, None, 1).unwrap();
        self.note("soonest first", &first);
        self.note("next soonest", jobs.query().list(&soonest, first.next, 1));
        let wanted = Filter::new().tag("green").sub_queue("ann");
        self.note("tasks", jobs.query().tasks(&wanted, None, 10));
        self.note("by owner", jobs.query().list(Filter::new().owner("recorder"), None, 10));
        self.note("next", jobs.query().next(2));
    }

    pub fn labels(&self) {
        self.about("keys and tags");
        let (store, jobs) = (self.store, self.jobs());
        put(&jobs, Put::new("labelled").tag("red").tag("green").key("labelled"));
        self.note("by_key", store.by_key("labelled"));
        self.note("no key", store.by_key("nobody"));
        let page = store.list(Filter::new().tag("green"), None, 1).unwrap();
        self.note("tagged", &page);
        self.note("next page", store.list(Filter::new().tag("green"), page.next, 10));
        let page = store.list(Filter::new(), None, 1).unwrap();
        self.note("of all tubes", &page);
        self.note("next page of all tubes", store.list(Filter::new(), page.next, 1));
        let tags = store.tags(None, 2).unwrap();
        self.note("tags", &tags);
        self.note("next tags", store.tags(tags.last(), 10));
        self.note("find", store.find(4000));
    }
}
