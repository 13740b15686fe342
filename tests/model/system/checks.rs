//! What is compared.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use tubewell::{Claim, Result, TaskInfo, Tube};

use super::reference::{Answer, Micros, State, TaskNo, TubeNo, Verb, WaitNo};
use super::steps::{Move, NAMES};
use super::words::{counts, finite, micros, name_of, non_zero, refusal_of, state_of, verb_of};
use super::{System, Waiting, reference};

/// All that is said about a task without its body.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    state: State,
    pri: u32,
    sub_queue: Option<String>,
    size: u64,
    takes: Option<u32>,
    ttl_left: Option<Micros>,
    ttr: Option<Micros>,
    due_in: Option<Micros>,
}

impl System {
    /// No wake-up is lost, none is idle, and each answer is the model's.
    #[track_caller]
    pub(super) fn check_waits(&self) {
        assert_eq!(self.waits_seen(), self.waits_should_be());
    }

    /// What each of those who wait was answered, as far as he has looked.
    fn waits_seen(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let translate = |answer: &Result<Option<Claim>>| match answer {
            Ok(claim) => Ok(claim.as_ref().map(|claim| self.number(claim.id()))),
            Err(error) => Err(refusal_of(error)),
        };
        let answer = |waiting: &Waiting| match &waiting.answer {
            Some(answer) => Some(translate(answer)),
            None => waiting.rung().then_some(Ok(None)),
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(waiting))).collect()
    }

    /// The same of the model; who has not looked only knows that there is something.
    fn waits_should_be(&self) -> Vec<(WaitNo, Option<Answer<Option<TaskNo>>>)> {
        let answer = |no: WaitNo, waiting: &Waiting| {
            let answer = self.model.answer(no)?;
            let looked = waiting.answer.is_some() || !waiting.rung();
            Some(if looked { answer.map(|taken| taken.map(|taken| taken.task)) } else { Ok(None) })
        };
        self.waits.iter().map(|(no, waiting)| (*no, answer(*no, waiting))).collect()
    }

    #[track_caller]
    pub(super) fn check_statistics(&self) {
        let all = self.store.statistics();
        assert_eq!(all.len(), self.model.tubes().len());
        for (no, tube) in self.model.tubes() {
            let got = counts(&all[&tube.name]);
            assert_eq!(got, self.counts_should_be(*no), "statistics of {}", tube.name);
        }
    }

    fn counts_should_be(&self, tube: TubeNo) -> BTreeMap<&'static str, u64> {
        let (tasks, calls) =
            (|state| self.model.count(tube, state), |verb| self.model.calls(tube, verb));
        non_zero(&[
            ("tasks.ready", tasks(State::Ready)),
            ("tasks.taken", tasks(State::Taken)),
            ("tasks.delayed", tasks(State::Delayed)),
            ("tasks.buried", tasks(State::Buried)),
            ("tasks.total", self.model.tasks(tube).count() as u64),
            ("tasks.done", self.model.done(tube)),
            ("calls.put", calls(Verb::Put)),
            ("calls.take", calls(Verb::Take)),
            ("calls.ack", calls(Verb::Ack)),
            ("calls.release", calls(Verb::Release)),
            ("calls.bury", calls(Verb::Bury)),
            ("calls.kick", calls(Verb::Kick)),
            ("calls.delete", calls(Verb::Delete)),
            ("calls.touch", calls(Verb::Touch)),
            ("calls.ttl", calls(Verb::Ttl)),
            ("calls.ttr", calls(Verb::Ttr)),
            ("calls.delay", calls(Verb::Delay)),
        ])
    }

    /// Everything.
    #[track_caller]
    pub(super) fn check(&mut self) {
        if let ControlFlow::Break(differences) = self.differences() {
            panic!("{differences:#?}");
        }
        self.check_statistics();
        self.check_events();
        assert_eq!(self.store.verify().unwrap(), Vec::<String>::new());
        let tubes = self.store.tubes();
        let got: Vec<_> = tubes
            .iter()
            .map(|it| {
                let waiting = (it.waiting, it.waiting_puts);
                (it.name.as_str(), it.driver.as_str(), it.temporary, waiting)
            })
            .collect();
        let tubes = self.model.tubes().iter();
        let mut want: Vec<_> = tubes
            .map(|(no, it)| {
                let waiting = (self.model.waiting(*no), self.model.waiting_puts(*no));
                (it.name.as_str(), name_of(it.driver), it.options.temporary, waiting)
            })
            .collect();
        want.sort_unstable();
        assert_eq!(got, want);
    }

    /// Compares what can be seen, and stops at the first difference.
    pub(super) fn differences(&self) -> ControlFlow<String> {
        let differ = |what: String, got: &dyn Debug, want: &dyn Debug| {
            ControlFlow::Break(format!("{what}\n got {got:#?}\nwant {want:#?}"))
        };
        let (got, want) = (self.waits_seen(), self.waits_should_be());
        if got != want {
            return differ("those who wait".to_owned(), &got, &want);
        }
        let (got, want) = (self.puts_seen(), self.puts_should_be());
        if got != want {
            return differ("those who wait for room".to_owned(), &got, &want);
        }
        for (no, tube) in self.model.tubes() {
            let handle = self.store.tube(&tube.name).unwrap();
            let (got, want) = (counts(&handle.statistics().unwrap()), self.counts_should_be(*no));
            if got != want {
                return differ(format!("statistics of {}", tube.name), &got, &want);
            }
            let (got, want) = (self.listed(&handle), self.should_be_listed(*no));
            if got != want {
                return differ(format!("tasks of {}", tube.name), &got, &want);
            }
        }
        ControlFlow::Continue(())
    }

    /// All tasks of a tube, page by page; what may be taken or kicked in that order, at least
    /// within each sub-queue.
    fn listed(&self, tube: &Tube) -> BTreeMap<TaskNo, Seen> {
        let mut all = BTreeMap::new();
        let count = usize::try_from(tube.statistics().unwrap().tasks.total).unwrap();
        for state in [
            tubewell::State::Ready,
            tubewell::State::Taken,
            tubewell::State::Delayed,
            tubewell::State::Buried,
        ] {
            let limit = 3 + count / 8;
            let (mut after, mut order) = (None, BTreeMap::<_, Vec<_>>::new());
            loop {
                let page = tube.list(state, after, limit).unwrap();
                assert!(page.tasks.len() <= limit);
                for info in &page.tasks {
                    assert_eq!(info.state, state);
                    let place = (info.pri, info.id);
                    order.entry(info.sub_queue.clone()).or_default().push(place);
                    let again = all.insert(self.number(info.id), self.seen(info));
                    assert!(again.is_none(), "task {} is listed twice", info.id);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if matches!(state, tubewell::State::Ready | tubewell::State::Buried) {
                let sorted = order.values().all(|places| places.is_sorted());
                assert!(sorted, "{state:?} out of order: {order:?}");
            }
        }
        all
    }

    fn should_be_listed(&self, tube: TubeNo) -> BTreeMap<TaskNo, Seen> {
        self.model.tasks(tube).map(|(no, task)| (no, self.should_see(no, task))).collect()
    }

    pub(super) fn seen(&self, info: &TaskInfo) -> Seen {
        Seen {
            state: state_of(info.state),
            pri: info.pri,
            sub_queue: info.sub_queue.clone(),
            size: info.size,
            takes: (self.number(info.id) > self.reopened).then_some(info.takes),
            ttl_left: micros(info.ttl_left),
            ttr: micros(info.ttr),
            due_in: micros(info.due_in),
        }
    }

    pub(super) fn should_see(&self, no: TaskNo, task: &reference::Task) -> Seen {
        let left = |until: Micros| finite(until).map(|until| until - self.model.now());
        Seen {
            state: task.state(),
            pri: task.pri,
            sub_queue: task.sub_queue.clone(),
            size: task.data.len() as u64,
            // How often a task was taken in an earlier life need not be known.
            takes: (no > self.reopened).then_some(task.takes),
            ttl_left: left(task.dead),
            ttr: finite(task.ttr),
            // Of the delay or the hold, whether it lives so long or not.
            due_in: left(task.due()),
        }
    }

    #[track_caller]
    pub(super) fn check_bodies(&self, tube: TubeNo) {
        let handle = self.store.tube(&self.model.tubes()[&tube].name).unwrap();
        for (no, task) in self.model.tasks(tube) {
            assert_eq!(handle.peek(self.ids[&no]).unwrap().data, task.data);
        }
    }

    /// Each task's events, in their order.
    #[track_caller]
    fn check_events(&mut self) {
        let mut got = BTreeMap::<TaskNo, Vec<_>>::new();
        let mut want = BTreeMap::<TaskNo, Vec<_>>::new();
        for event in self.model.events() {
            want.entry(event.task).or_default().push((event.verb, event.state));
            let Some(told) = self.events.recv_timeout(Duration::from_secs(10)) else { break };
            let task = self.number(told.id);
            assert_eq!(&*told.tube, NAMES[self.homes[&task]]);
            got.entry(task).or_default().push((verb_of(told.kind), state_of(told.state)));
        }
        assert_eq!(got, want);
        assert_eq!((self.events.try_recv(), self.events.dropped()), (None, 0));
    }

    /// The last check, and one more in the next life.
    pub fn finish(&mut self) {
        self.look();
        self.check();
        self.reopen(&Move::By(0));
        self.check();
    }
}
