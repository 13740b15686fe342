//! Comparisons of the store with the model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

use tubewell::expert::Day;
use tubewell::{Claim, Event, EventKind, Result, TaskInfo, Tube};

#[path = "../../common/patience.rs"]
#[allow(clippy::duplicate_mod, reason = "other files of a test target include it, too")]
mod patience;
use patience::HANGS_AFTER;

use super::convert::{
    backoff_of, counting_of, counts, finite, keep_of, micros, model_moment, name_of, non_zero,
    rate_of, refusal_of, state_of, verb_of,
};
use super::reference::{Answer, Micros, Stage, State, TaskNo, TubeNo, Verb, WaitNo};
use super::schedules::ScheduleView;
use super::steps::{ClockMove, TUBE_NAMES};
use super::{System, WaitingTake, reference};

/// All properties of a task except its body.
#[derive(Debug, PartialEq)]
pub(super) struct TaskView {
    state: State,
    priority: u32,
    sub_queue: Option<String>,
    key: Option<String>,
    tags: Vec<String>,
    traceparent: Option<String>,
    size: u64,
    takes: u32,
    attempts: u32,
    attempts_left: Option<u32>,
    failure: Option<FailureView>,
    ttl_left: Option<Micros>,
    ttr: Option<Micros>,
    due_in: Option<Micros>,
    put_at: Micros,
    not_before: Option<Micros>,
    group: Option<String>,
    open_parents: usize,
    /// The schedule, the number of the run, and its moment.
    spawned_by: Option<(TaskNo, u64, Micros)>,
}

/// All tasks of a tube.
#[derive(Debug, PartialEq)]
pub(super) struct TubeView {
    tasks: BTreeMap<TaskNo, TaskView>,
    /// Those that are listed in the order of their ends: the done ones, and the buried ones of a
    /// tube that limits these.
    in_order_of_ends: Vec<TaskNo>,
    schedules: BTreeMap<TaskNo, ScheduleView>,
}

/// A recorded failure. `message` is `None` if no worker has reported it.
#[derive(Debug, PartialEq)]
struct FailureView {
    kind: &'static str,
    group: String,
    message: Option<String>,
    attempt: u32,
    owner: Option<String>,
    ago: Option<Micros>,
}

/// What the messages of all reported failures begin with.
pub(super) const REPORTED: &str = "reported";

impl System {
    /// Asserts that no wake-up is lost or spurious, and that each answer is that of the model.
    #[track_caller]
    pub(super) fn check_waits(&self) {
        assert_eq!(self.actual_take_answers(), self.expected_take_answers());
    }

    /// The answer of each waiting take. `Ok(None)` stands for a take that was woken but not polled.
    fn actual_take_answers(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let translate = |answer: &Result<Option<Claim>>| match answer {
            Ok(claim) => Ok(claim.as_ref().map(|claim| self.number(claim.id()))),
            Err(error) => Err(refusal_of(error)),
        };
        let answer = |waiting: &WaitingTake| match &waiting.answer {
            Some(answer) => Some(translate(answer)),
            None => waiting.woken().then_some(Ok(None)),
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(waiting))).collect()
    }

    /// The answers of the model, with `Ok(None)` for each take that has an answer, was woken, and
    /// was not polled.
    fn expected_take_answers(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let answer = |no: WaitNo, waiting: &WaitingTake| {
            let answer = self.model.answer(no)?;
            let looked = waiting.answer.is_some() || !waiting.woken();
            Some(if looked { answer.map(|taken| taken.map(|taken| taken.task)) } else { Ok(None) })
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(*no, waiting))).collect()
    }

    #[track_caller]
    pub(super) fn check_statistics(&self) {
        let all = self.store.statistics().unwrap();
        assert_eq!(all.len(), self.model.tubes().len());
        for (no, tube) in self.model.tubes() {
            let got = counts(&all[&tube.name]);
            assert_eq!(got, self.expected_counts(*no), "statistics of {}", tube.name);
        }
    }

    fn expected_counts(&self, tube: TubeNo) -> BTreeMap<&'static str, u64> {
        let (tasks, calls) =
            (|state| self.model.count(tube, state), |verb| self.model.calls(tube, verb));
        non_zero(&[
            ("tasks.ready", tasks(State::Ready)),
            ("tasks.taken", tasks(State::Taken)),
            ("tasks.delayed", tasks(State::Delayed)),
            ("tasks.blocked", tasks(State::Blocked)),
            ("tasks.buried", tasks(State::Buried)),
            ("tasks.total", self.model.live_tasks(tube).count() as u64),
            ("tasks.done", self.model.done(tube)),
            ("tasks.kept", tasks(State::Done)),
            ("tasks.recurring", tasks(State::Recurring)),
            ("tasks.overdue", self.model.overdue(tube)),
            ("calls.put", calls(Verb::Put)),
            ("calls.take", calls(Verb::Take)),
            ("calls.ack", calls(Verb::Ack)),
            ("calls.resolve", calls(Verb::Resolve)),
            ("calls.forget", calls(Verb::Forget)),
            ("calls.release", calls(Verb::Release)),
            ("calls.fail", calls(Verb::Fail)),
            ("calls.snooze", calls(Verb::Snooze)),
            ("calls.lost", calls(Verb::Lost)),
            ("calls.bury", calls(Verb::Bury)),
            ("calls.kick", calls(Verb::Kick)),
            ("calls.delete", calls(Verb::Delete)),
            ("calls.touch", calls(Verb::Touch)),
            ("calls.checkpoint", calls(Verb::Checkpoint)),
            ("calls.step", calls(Verb::Step)),
            ("calls.update", calls(Verb::Update)),
            ("calls.log", calls(Verb::Log)),
            ("calls.block", calls(Verb::Block)),
            ("calls.unblock", calls(Verb::Unblock)),
            ("calls.ttl", calls(Verb::Ttl)),
            ("calls.ttr", calls(Verb::Ttr)),
            ("calls.delay", calls(Verb::Delay)),
            ("calls.advance", calls(Verb::Advance)),
            ("calls.moved", calls(Verb::Move)),
            ("calls.arrive", calls(Verb::Arrive)),
            ("calls.schedule", calls(Verb::Schedule)),
            ("calls.spawn", calls(Verb::Spawn)),
        ])
    }

    /// Compares everything, the listings in one of four checks.
    #[track_caller]
    pub(super) fn check(&mut self) {
        if let ControlFlow::Break(differences) = self.differences() {
            panic!("{differences:#?}");
        }
        self.check_statistics();
        self.check_events();
        self.check_owners();
        self.check_outcomes();
        self.check_keys();
        if self.compares_listings() {
            self.check_listings();
        }
        self.check_parents();
        self.check_histories();
        self.check_steps();
        self.check_reads();
        assert_eq!(self.store.admin().verify().unwrap(), Vec::<String>::new());
        let tubes = self.store.tubes().unwrap();
        let got: Vec<_> = tubes
            .iter()
            .map(|it| {
                let waiting = (it.waiting, it.waiting_puts);
                let options = (it.temporary, micros(it.max_runtime), it.metrics > 0);
                let attempts = (it.max_attempts, it.count_takes, it.backoff);
                let attempts = (attempts, micros(it.reclaim_delay), it.keep_done, it.keep_buried);
                let gates = (it.max_taken, it.rate, it.paused, micros(it.resumes_in), it.history);
                let limits = (it.sub_queue_limit, it.sub_queue_rate, it.shared_limits);
                let gates = (gates, limits, micros(it.sub_queue_cooldown));
                (it.name.as_str(), it.driver.as_str(), options, attempts, gates, waiting)
            })
            .collect();
        let tubes = self.model.tubes().iter();
        let mut want: Vec<_> = tubes
            .map(|(no, it)| {
                let waiting = (self.model.waiting(*no), self.model.waiting_puts(*no));
                let max_runtime = it.options.max_runtime.and_then(finite);
                let options = (it.options.temporary, max_runtime, it.options.metrics);
                let counting = counting_of(it.options.counting);
                let backoff = backoff_of(it.options.backoff);
                let delay = Some(it.options.reclaim_delay).filter(|delay| *delay > 0);
                let attempts = (it.options.max_attempts, counting, backoff);
                let kept = [it.options.keep_done, it.options.keep_buried()];
                let [done, buried] = kept.map(|keep| keep.map(keep_of));
                let attempts = (attempts, delay, done, buried);
                let paused = self.model.paused_until(*no);
                let left = paused.and_then(finite).map(|until| until - self.model.now());
                let rate = it.options.rate.map(rate_of);
                let history = u32::try_from(it.options.history).unwrap();
                let gates = (it.options.max_taken, rate, paused.is_some(), left, history);
                let limit = it.options.sub_queue_limit.filter(|limit| *limit != 1);
                let limit = limit.map(|limit| u32::try_from(limit).unwrap());
                let rate = it.options.sub_queue_rate.map(rate_of);
                let limits = (limit, rate, it.options.shared_limits);
                let gates = (gates, limits, it.options.sub_queue_cooldown);
                (it.name.as_str(), name_of(it.driver), options, attempts, gates, waiting)
            })
            .collect();
        want.sort_unstable_by_key(|(name, ..)| *name);
        assert_eq!(got, want);
        self.check_limits();
        self.check_numbers();
    }

    /// Compares how many takes and acks the tubes with metrics have counted since the last comparison.
    /// The number of puts has those of replaced tasks, which the model counts in other ways.
    #[track_caller]
    fn check_numbers(&mut self) {
        let today = self.store.today().unwrap();
        for (no, tube) in self.model.tubes() {
            if !tube.options.metrics {
                continue;
            }
            let handle = self.store.find_tube(&tube.name).unwrap();
            let days = handle.query().days(today.plus_days(-999)..=today).unwrap();
            let sum = |of: fn(&Day) -> u64| days.iter().map(of).map(i128::from).sum::<i128>();
            let calls = |verb| i128::from(self.model.calls(*no, verb));
            let takes = sum(|day| day.takes) - calls(Verb::Take);
            let acks = sum(|day| day.acks) - calls(Verb::Ack) - calls(Verb::Advance);
            let failed = sum(|day| day.failed);
            let groups = handle.query().groups().unwrap();
            assert!(failed <= groups.iter().map(|it| i128::from(it.count)).sum());
            let before = self.uncounted.insert(*no, (today, [takes, acks]));
            // An old day may be removed when a new one begins.
            if let Some((_, before)) = before.filter(|(day, _)| *day == today) {
                assert_eq!([takes, acks], before, "the numbers of {}", tube.name);
            }
        }
    }

    /// Compares the limits that tubes share, and the paused sub-queues.
    #[track_caller]
    fn check_limits(&self) {
        let limits = self.store.admin().limits().unwrap().into_iter();
        let got = limits.map(|limit| (limit.name, u64::from(limit.most), limit.taken));
        assert_eq!(got.collect::<Vec<_>>(), self.model.limits());
        for (no, tube) in self.model.tubes() {
            let paused =
                self.store.find_tube(&tube.name).unwrap().query().paused_sub_queues().unwrap();
            let got = paused.into_iter().map(|paused| (paused.name, micros(paused.resumes_in)));
            let want = self.model.paused_sub_queues(*no).into_iter();
            let want =
                want.map(|(name, until)| (name, finite(until).map(|at| at - self.model.now())));
            assert_eq!(got.collect::<Vec<_>>(), want.collect::<Vec<_>>());
        }
    }

    /// Compares answers, statistics and tasks. Stops at the first difference.
    pub(super) fn differences(&self) -> ControlFlow<String> {
        let differ = |what: String, got: &dyn Debug, want: &dyn Debug| {
            ControlFlow::Break(format!("{what}\n got {got:#?}\nwant {want:#?}"))
        };
        let (got, want) = (self.actual_take_answers(), self.expected_take_answers());
        if got != want {
            return differ("waiting takes".to_owned(), &got, &want);
        }
        let (got, want) = (self.actual_endings(), self.expected_endings());
        if got != want {
            return differ("waits for ends".to_owned(), &got, &want);
        }
        let (got, want) = (self.actual_put_answers(), self.expected_put_answers());
        if got != want {
            return differ("waiting puts".to_owned(), &got, &want);
        }
        for (no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            let (got, want) = (counts(&handle.statistics().unwrap()), self.expected_counts(*no));
            if got != want {
                return differ(format!("statistics of {}", tube.name), &got, &want);
            }
            let by_end = tube.options.keep_buried().is_some();
            let (got, want) = (self.actual_tasks(&handle, by_end), self.expected_tasks(*no));
            if got != want {
                return differ(format!("tasks of {}", tube.name), &got, &want);
            }
        }
        ControlFlow::Continue(())
    }

    /// All tasks of a tube, listed page by page. Asserts that ready and buried tasks of each
    /// sub-queue are listed in the order in which they are taken or kicked. `by_end`: buried ones
    /// are listed in the order of their ends.
    fn actual_tasks(&self, tube: &Tube, by_end: bool) -> TubeView {
        let (mut all, mut in_order_of_ends) = (BTreeMap::new(), Vec::new());
        let counts = tube.statistics().unwrap().tasks;
        let count = usize::try_from(counts.total + counts.kept + counts.recurring).unwrap();
        for state in [
            tubewell::TaskState::Done,
            tubewell::TaskState::Ready,
            tubewell::TaskState::Taken,
            tubewell::TaskState::Delayed,
            tubewell::TaskState::Blocked,
            tubewell::TaskState::Buried,
            tubewell::TaskState::Recurring,
        ] {
            let limit = 3 + count / 8;
            let (mut after, mut order) = (None, BTreeMap::<_, Vec<_>>::new());
            let by_end = match state {
                tubewell::TaskState::Buried => by_end,
                _ => state == tubewell::TaskState::Done,
            };
            loop {
                let page = tube.query().list(state, after, limit).unwrap();
                assert!(page.items.len() <= limit);
                for info in &page.items {
                    assert_eq!(info.state, state);
                    let key = (info.priority, info.id);
                    order.entry(info.sub_queue.clone()).or_default().push(key);
                    let no = self.number(info.id);
                    in_order_of_ends.extend(by_end.then_some(no));
                    let again = all.insert(no, self.actual_view(info));
                    assert!(again.is_none(), "task {} is listed twice", info.id);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if matches!(state, tubewell::TaskState::Ready | tubewell::TaskState::Buried) && !by_end
            {
                let sorted = order.values().all(|keys| keys.is_sorted());
                assert!(sorted, "{state:?} out of order: {order:?}");
            }
        }
        let schedules = self.actual_schedules(tube, 1 + count / 4);
        TubeView { tasks: all, in_order_of_ends, schedules }
    }

    fn expected_tasks(&self, tube: TubeNo) -> TubeView {
        let tasks = self.model.tasks(tube).map(|(no, task)| (no, self.expected_view(task)));
        let mut in_order_of_ends = self.model.in_order(tube, Stage::Kept);
        if self.model.tubes()[&tube].options.keep_buried().is_some() {
            in_order_of_ends.extend(self.model.in_order(tube, Stage::Buried));
        }
        let schedules = self.expected_schedules(tube);
        TubeView { tasks: tasks.collect(), in_order_of_ends, schedules }
    }

    pub(super) fn actual_view(&self, info: &TaskInfo) -> TaskView {
        TaskView {
            state: state_of(info.state),
            priority: info.priority,
            sub_queue: info.sub_queue.clone(),
            key: info.key.clone(),
            tags: info.tags.clone(),
            traceparent: info.traceparent.clone(),
            size: info.size,
            takes: info.takes,
            attempts: info.attempts,
            attempts_left: info.attempts_left,
            failure: info.failure.clone().map(|failure| FailureView {
                kind: failure.kind.as_str(),
                group: failure.group,
                message: Some(failure.message).filter(|message| message.starts_with(REPORTED)),
                attempt: failure.attempt,
                owner: failure.owner,
                ago: micros(Some(failure.ago)),
            }),
            ttl_left: micros(info.ttl_left),
            ttr: micros(info.ttr),
            due_in: micros(info.due_in),
            put_at: model_moment(info.put_at),
            not_before: info.not_before.map(model_moment),
            group: info.group.clone(),
            open_parents: usize::try_from(info.open_parents).unwrap(),
            spawned_by: info
                .spawned_by
                .map(|it| (self.number(it.schedule), it.run, model_moment(it.moment))),
        }
    }

    pub(super) fn expected_view(&self, task: &reference::Task) -> TaskView {
        let left = |until: Micros| Some(finite(until)?.saturating_sub(self.model.now()));
        TaskView {
            state: task.state(),
            priority: task.priority,
            sub_queue: task.sub_queue.clone(),
            key: task.key.clone(),
            tags: task.tags.clone(),
            traceparent: task.traceparent.clone(),
            size: task.data.len() as u64,
            takes: task.takes,
            attempts: task.attempts(),
            attempts_left: self.model.attempts_left(task),
            failure: task.failure.clone().map(|failure| FailureView {
                kind: failure.kind,
                group: failure.group,
                message: failure.message,
                attempt: failure.attempt,
                owner: failure.owner,
                ago: Some(self.model.now() - failure.at),
            }),
            ttl_left: left(task.stored_until()),
            ttr: finite(task.ttr),
            // The delay, the moment, the next run or the ttr, even if the ttl elapses before.
            due_in: match task.state() {
                State::Delayed => left(self.model.ready_at(task)),
                _ => left(task.due()),
            },
            put_at: self.model.shown(task.put_at),
            not_before: task.not_before,
            group: task.group.clone(),
            open_parents: task.parents.len(),
            spawned_by: task.spawned_by.map(|it| (it.schedule, it.run, it.moment)),
        }
    }

    /// Compares which claims are parked, and when they end.
    #[track_caller]
    fn check_owners(&self) {
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let got = handle.query().owner(self.ids[&no]).unwrap();
                let got = got.map(|owner| {
                    let label = owner.label.as_deref().map(str::to_owned);
                    (owner.is_parked, micros(owner.expires_in), label)
                });
                let left = finite(task.due()).map(|due| due.saturating_sub(self.model.now()));
                let want = task.claim().map(|(_, session)| {
                    let label = self.model.label(session).map(str::to_owned);
                    (task.stage() == Stage::Parked, left, label)
                });
                assert_eq!(got, want, "the owner of task {no}");
            }
        }
    }

    #[track_caller]
    pub(super) fn check_bodies(&self, tube: TubeNo) {
        let handle = self.store.find_tube(&self.model.tubes()[&tube].name).unwrap();
        for (no, task) in self.model.tasks(tube) {
            assert_eq!(handle.query().task(self.ids[&no]).unwrap().body, task.data);
        }
    }

    /// Compares the events of each task, in order.
    #[track_caller]
    fn check_events(&mut self) {
        let mut got = BTreeMap::<TaskNo, Vec<_>>::new();
        let mut want = BTreeMap::<TaskNo, Vec<_>>::new();
        for event in self.model.events() {
            let name = TUBE_NAMES[self.names[&event.tube]];
            want.entry(event.task).or_default().push((name.into(), event.verb, event.state));
            let Some(delivered) = self.next_event() else { break };
            let task = self.number(delivered.id);
            let (verb, state) = (verb_of(delivered.kind), state_of(delivered.state));
            got.entry(task).or_default().push((delivered.tube, verb, state));
        }
        got.values_mut().chain(want.values_mut()).for_each(|events| ignore_end_at_ttl(events));
        assert_eq!(got, want);
        let mut others = std::iter::from_fn(|| self.events.try_recv());
        assert_eq!(others.find(|event| event.kind != EventKind::Progress), None);
        assert_eq!(self.events.dropped(), 0);
    }

    /// The next event of a task. Those of progress are left out: the time between two of them is
    /// limited, and `tests/jobs/progress.rs` has that.
    fn next_event(&self) -> Option<Event> {
        loop {
            let event = self.events.recv_timeout(HANGS_AFTER)?;
            if event.kind != EventKind::Progress {
                return Some(event);
            }
        }
    }

    /// Whether a check compares listings, which take long. The number and the time of a step are random.
    fn compares_listings(&self) -> bool {
        let mixed = (self.steps ^ self.model.now()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> 62 == 0
    }

    /// Compares listings by tags and on other conditions.
    #[track_caller]
    fn check_listings(&self) {
        self.check_tags();
        self.check_conditions();
    }

    /// Compares everything.
    pub fn check_all(&mut self) {
        self.poll_waits();
        self.check();
        self.check_listings();
    }

    /// Compares everything, and again after a reopen.
    pub fn finish(&mut self) {
        self.check_all();
        self.reopen(&ClockMove::By(0), false);
        self.check();
        self.check_listings();
    }
}

/// The time of a claim and the ttl of its task may elapse at the same moment. It is left open which
/// is first, and so whether the task is ready or buried before it is removed.
fn ignore_end_at_ttl(events: &mut [(Arc<str>, Verb, State)]) {
    for at in 2..events.len() {
        if let [(_, Verb::Ttr, state), (_, Verb::Delete, _), (_, Verb::Ttl, _)] =
            &mut events[at - 2..=at]
        {
            *state = State::Ready;
        }
    }
}
