//! Calls of any caller: edits, dead letters, gates, schedules, moves, deferred calls, inspection.

use std::time::Duration;

use tubewell::{Failure, Filter, Outcome, Put, Schedule, TaskState, TubeOptions, UTUBE, Update};

use super::puts::moment;
use super::{HOUR, MINUTE, SECOND, Script, put};

impl Script<'_> {
    pub fn edits(&self) {
        self.about("edits");
        let jobs = self.jobs();
        let id = put(&jobs, Put::new("edited").priority(50).delay(HOUR));
        let update = Update::new().body("new body").priority(51).delay(2 * HOUR).tags(["updated"]);
        self.note("update", jobs.update(id, update));
        let update = Update::new().not_before(moment() + HOUR);
        self.note("not_before", jobs.update(id, update));
        self.note("set_priority", jobs.admin().set_priority(id, 52));
        self.note("add_tags", jobs.admin().add_tags(id, ["added", "too"]));
        self.note("remove_tags", jobs.admin().remove_tags(id, ["too"]));
        self.note("log", jobs.admin().log(id, "said by a caller"));
        self.note("history", jobs.query().history(id));
        self.note("peek", jobs.query().task(id));
        self.note("peek without body", jobs.query().task_info(id));
        self.note("cancel", jobs.cancel(id));
        self.note("not found", jobs.query().task(id));
    }

    pub fn dead_letters(&self) {
        self.about("dead letters");
        let jobs = self.jobs();
        let buried = |name: &str| {
            let id = put(&jobs, Put::new(name).priority(0).tag("dead"));
            let claim = jobs.try_take().unwrap().unwrap();
            claim.bury(Failure::new("broken", format!("{name} is broken"))).unwrap();
            id
        };
        let ids: Vec<u64> = ["a", "b", "c", "d", "e"].map(buried).into();
        self.note("groups", jobs.query().groups());
        self.note("groups of the store", self.store.admin().groups().map(|all| all.len()));
        self.note(
            "list_group",
            jobs.query().list(Filter::new().group("broken").newest_first(), None, 2),
        );
        self.note("outcome", jobs.ending(ids[0]));
        self.note("kick_task", jobs.kick(ids[0]));
        self.note("not buried", jobs.kick(ids[0]));
        self.note("kick", jobs.admin().kick(Filter::new().limit(1)));
        self.note("kick of a filter", jobs.admin().kick(Filter::new().group("broken").limit(1)));
        self.note("kick in a store", self.store.admin().kick(Filter::new().tube("jobs").limit(0)));
        self.note("resolve", jobs.admin().resolve(ids[3], Outcome::result(b"by hand")));
        self.note("forget", jobs.admin().forget(ids[3]));
        self.note("not done", jobs.admin().forget(ids[4]));
        self.note("bury", jobs.admin().bury(ids[0], None));
        self.note(
            "delete",
            jobs.admin().delete(Filter::new().state(TaskState::Buried).tag("dead")),
        );
    }

    pub fn many(&self) {
        self.about("deletes");
        let jobs = self.jobs();
        let ids: Vec<u64> = (0..4).map(|n| put(&jobs, format!("deleted {n}"))).collect();
        self.note("delete", jobs.delete(ids[0]));
        let in_state = |id: u64, state| jobs.admin().delete(Filter::from(id).state(state));
        self.note("delete in a state", in_state(ids[1], TaskState::Ready));
        self.note("delete in another state", in_state(ids[2], TaskState::Buried));
        self.note("delete by ids", jobs.admin().delete(Filter::new().ids(&ids[2..])));
        let first = put(&jobs, Put::new("first").tag("chain"));
        let second = put(&self.plain(), Put::new("second").after(&jobs, [first]).tag("chain"));
        let admin = self.store.admin();
        self.note("delete of a task of a chain", admin.delete(Filter::new().ids([first])));
        self.note("delete of a chain", admin.delete(Filter::new().ids([first, second])));
        let first = put(&jobs, Put::new("first").tag("chain"));
        put(&self.plain(), Put::new("second").after(&jobs, [first]).tag("chain"));
        self.note("delete with dependents", admin.delete_with_dependents([first], 1));
        self.note("delete in all tubes", admin.delete(Filter::new().tag("chain")));
    }

    pub fn gates(&self) {
        self.about("gates");
        let (store, jobs) = (self.store, self.jobs());
        self.note("pause", jobs.admin().pause());
        self.note("pause_for", jobs.admin().pause_for(MINUTE));
        self.note("pause_until", jobs.admin().pause_until(moment()));
        self.note("paused", jobs.try_take());
        self.note("unpause", jobs.admin().unpause());
        self.note("pause_sub_queue", jobs.admin().pause_sub_queue("ann", MINUTE));
        self.note("paused_sub_queues", jobs.query().paused_sub_queues());
        self.note("unpause_sub_queue", jobs.admin().unpause_sub_queue("ann"));
        self.note("set_limit", store.admin().set_limit("host", 4));
        self.note("limits", store.admin().limits().unwrap());
        self.note("remove_limit", store.admin().remove_limit("host"));
        self.note("unsupported", self.plain().admin().pause_sub_queue("ann", MINUTE));
    }

    pub fn schedules(&self) {
        self.about("schedules");
        let jobs = self.jobs();
        let hourly = Schedule::every("hourly", HOUR).times(5).within(MINUTE);
        let task = Put::new("run")
            .sub_queue("runs")
            .tag("run")
            .ttr(MINUTE)
            .max_attempts(2)
            .max_runtime(HOUR);
        self.note("schedule", jobs.schedule(hourly.starting(moment() + HOUR), task));
        let change = Schedule::every("hourly", 2 * HOUR);
        self.note("change of a schedule", jobs.schedules().change(change));
        let task = Put::new("another run").priority(2).tag("run").max_attempts(2);
        self.note("change of a task", jobs.schedules().change_task("hourly", task));
        self.note("schedule by key", jobs.schedules().get("hourly"));
        self.note("schedules", jobs.schedules().list(None, 10));
        self.note("by_key", self.store.by_key("hourly"));
        let minutely = Schedule::every("minutely", MINUTE);
        self.note("schedule", jobs.schedule(minutely, Put::new("soon").priority(0)));
        self.advance(MINUTE);
        let run = jobs.try_take().unwrap().unwrap();
        self.note("run", &run);
        self.note("spawned by", jobs.query().task(run.id()).map(|task| task.info.spawned_by));
        self.note("ack", run.ack());
        self.note("removed schedule", jobs.schedules().remove("minutely"));
        self.note("removed again", jobs.schedules().remove("minutely"));
    }

    pub fn movement(&self) {
        self.about("moves");
        let (plain, counted) = (self.plain(), self.tube("counted"));
        let id = put(&plain, "moved");
        self.note("move_to", plain.admin().move_to(&counted, id));
        self.note("find", self.store.find(id));
        self.note("move_all", counted.admin().move_to(&plain, Filter::new()));
    }

    pub fn deferred(&self) {
        self.about("deferred calls");
        let written = self.tube("written");
        let deferred = written.to_async();
        self.note("put", deferred.put("deferred").wait());
        let refusing = written.to_async().refuse_when_full();
        self.note("put", refusing.put("refused if full").wait());
        self.note("not found", deferred.delete(4000).wait());
        let claim = written.try_take().unwrap().unwrap();
        let parked = claim.into_async().park(MINUTE).wait();
        self.note("park", parked.map(|token| token.id()));
        self.note("capacity", crate::executor::block_on(self.store.to_async().admin().capacity()));
    }

    pub fn inspection(&self) {
        self.about("what the store says of itself");
        let (store, jobs) = (self.store, self.jobs());
        self.note("statistics of a tube", jobs.statistics());
        self.note("statistics", store.statistics().unwrap().len());
        self.note("days", jobs.query().days(store.today().unwrap()..=store.today().unwrap()));
        self.note("info", jobs.info());
        self.note("tubes", store.tubes().unwrap().len());
        self.note("owners", store.owners().unwrap());
        self.note("next_id", store.admin().next_id().unwrap());
        self.note("clock", store.admin().clock_report().unwrap());
        self.note("counters", store.admin().counters().unwrap().commits > 0);
        self.note("durability", store.admin().durability());
        self.note("prometheus", store.prometheus().unwrap().contains("tubewell_info{version="));
        self.note("flush", store.flush().map(drop));
        self.note("catch_up", store.admin().catch_up());
        self.note("verify", store.admin().verify());
        self.note("backup", store.admin().backup("/"));
        let held = put(&jobs, Put::new("held at the end").priority(0));
        self.note("take", jobs.try_take());
        self.note("busy", store.drop_tube("jobs"));
        self.note("left", jobs.query().task(held).map(|task| task.info.state));
        self.advance(SECOND);
        self.note(
            "temporary",
            self.tube("brief").admin().alter(TubeOptions::new().temporary(false)),
        );
        self.note("taken", self.plain().take_many(2, Duration::ZERO).map(|claims| claims.len()));
        let polite = TubeOptions::new().sub_queue_cooldown(2 * SECOND).driver(UTUBE);
        self.note("polite", store.create_tube("polite", polite).and_then(|tube| tube.info()));
    }
}
