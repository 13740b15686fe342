//! Bytes of hostile peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tubewell_wire::{Answering, Rejection, Service};

use super::StoreService;
use crate::base::random::random_u64;
use crate::base::tube_no::TubeNo;
use crate::connection::{Hello, HelloSession, Mode, Request, verb_to_bytes};
use crate::core::TaskEdit;
use crate::core::list::{
    Ack, CountsOf, CreateTube, Delete, DescribeHeld, DropTube, EditTasks, EndTask, HistoryOf,
    InfoOf, Kick, LogHeld, NextId, Peek, PutAndWait, PutMany, PutTask, Renew, Resolve, SetPriority,
    Steps, Truncate, Tubes, WaitDrained,
};
use crate::core::verb::TubeName;
use crate::core::{ClaimKey, PutRequest, StoreId, TaskEnd, TubeRef, from_bytes};
use crate::events::EventBytes;
use crate::serve::peer::{Peer, Waiting};
use crate::serve::shares::Share;
use crate::{
    Error, Event, Events, FIFO, FIFOTTL, Filter, Put, Result, SessionId, Store, TubeOptions,
};

struct Served {
    store: Store,
    service: StoreService,
    peer: Arc<Peer>,
    session: SessionId,
}

fn served() -> Served {
    serve(Store::in_memory().unwrap())
}

fn serve(store: Store) -> Served {
    store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let service = StoreService::new(store.local().visitor(), StoreId([7; 16]), 3, None);
    let session = SessionId::random();
    let hello = [vec![1, 1, 1], session.to_bytes().to_vec(), vec![0, 0]].concat();
    let (peer, _) = service.connect(&hello).unwrap();
    Served { store, service, peer: Arc::new(peer), session }
}

impl Served {
    /// The number of the tube.
    fn number(&self) -> TubeNo {
        self.peer.store.open_store().inner.run(|core| core.find_tube("jobs")).unwrap().number
    }

    /// Makes a request, and polls its future once.
    fn ask(&self, body: &[u8]) {
        let mut context = Context::from_waker(Waker::noop());
        match self.service.call(&self.peer, body) {
            Answering::Now(_) => {}
            Answering::Later(mut answer) | Answering::LaterWithoutBody(mut answer) => {
                drop(answer.as_mut().poll(&mut context));
            }
            Answering::Many(mut items) => drop(items.as_mut().poll_next(&mut context)),
        }
    }

    /// Begins a subscription of all events with this capacity. Returns the next event, as bytes, if
    /// there is one.
    fn events(&self, capacity: usize) -> impl FnMut() -> Option<Vec<u8>> {
        let request = Request::Subscribe { number: 0, filter: Filter::new(), capacity }.to_bytes();
        let Answering::Many(mut events) = self.service.call(&self.peer, &request) else {
            panic!("one answer")
        };
        let mut next =
            move || match events.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(event) => event,
                Poll::Pending => None,
            };
        let begun = next().map(|begun| from_bytes::<Result<()>>(&begun[1..]));
        assert!(matches!(begun, Some(Ok(Ok(())))), "{begun:?}");
        next
    }
}

/// Requests as a handle makes them.
fn requests(session: SessionId, number: TubeNo) -> Vec<Vec<u8>> {
    let put = PutRequest::new(Put::new(b"body".to_vec()).key("key").tag("tag"), 1 << 20).unwrap();
    let modes = [Mode::Call, Mode::End, Mode::UnlessFull];
    let target = TubeRef { number, name: "jobs" };
    let verbs = modes.into_iter().flat_map(|mode| {
        let request = put.clone();
        [
            verb_to_bytes(mode, (), &Tubes {}),
            verb_to_bytes(mode, target, &PutAndWait { session, request, timeout: Some(5) }),
            verb_to_bytes(mode, target, &WaitDrained { session, timeout: Some(9) }),
        ]
    });
    let tube = TubeName { number, name: "jobs".into() };
    let others = [
        Request::BeginSession(session, None),
        Request::Claim { tube, session, id: 0 },
        Request::Flush,
        Request::Counters,
        Request::Clock,
        Request::ScrapeStore,
    ];
    let claimed = ClaimKey { tube: number, id: 0, session, epoch: 7 };
    let edits = modes.into_iter().flat_map(|mode| {
        [
            verb_to_bytes(mode, claimed, &LogHeld { text: "text".into() }),
            verb_to_bytes(
                mode,
                target,
                &EditTasks {
                    filter: Filter::new().ids([1, 2, 3]),
                    edit: TaskEdit::Delete,
                    after: None,
                    below: None,
                    limit: 3,
                },
            ),
            verb_to_bytes(mode, target, &Kick { id: 1 }),
            verb_to_bytes(mode, target, &Truncate {}),
        ]
    });
    others.iter().map(Request::to_bytes).chain(verbs).chain(edits).collect()
}

#[test]
fn mutated_requests_harm_nobody() {
    let served = served();
    let requests = requests(served.session, served.number());
    for round in 0..200_usize {
        for request in &requests {
            let mut bytes = request.clone();
            for _ in 0..round % 4 {
                let at = usize::try_from(random_u64() % bytes.len() as u64).unwrap();
                bytes[at] = u8::try_from(random_u64() % 256).unwrap();
            }
            bytes.truncate(bytes.len().saturating_sub(round % 3));
            served.ask(&bytes);
        }
    }
    assert_eq!(served.store.admin().verify().unwrap(), [""; 0]);
    // The store still works for its own callers.
    let jobs = served.store.create_tube("own", TubeOptions::new().driver(FIFOTTL)).unwrap();
    jobs.put("one").unwrap();
    jobs.try_take().unwrap().unwrap().ack().unwrap();
}

#[test]
fn peer_cannot_take_the_session_of_the_owner() {
    let served = served();
    let own = served.store.local().open_store().own;
    let begin = Request::ResumeSession(own).to_bytes();
    served.ask(&begin);
    let end = Request::EndSession(own).to_bytes();
    served.ask(&end);
    assert!(served.store.find_tube("jobs").unwrap().put("one").is_ok());
    let claim = served.store.find_tube("jobs").unwrap().try_take().unwrap();
    assert!(claim.is_some(), "the session of the owner has ended");
}

#[test]
fn hello_with_a_label_that_is_too_long_is_refused() {
    let served = served();
    for (length, fits) in [(255, true), (256, false)] {
        let session =
            HelloSession { id: SessionId::random(), label: Some("l".repeat(length).into()) };
        let hello = Hello { sessions: vec![session], client: None }.to_bytes();
        match served.service.connect(&hello) {
            Ok((peer, _)) => {
                assert!(fits);
                assert!(!served.service.disconnect(&Arc::new(peer)));
            }
            Err(Rejection { why, .. }) => {
                assert!(!fits && why.contains("at most 255 bytes"), "{why}");
            }
        }
    }
}

#[test]
fn take_of_more_than_4096_tubes_is_refused() {
    let served = served();
    let number = served.number();
    for (count, fits) in [(4096, true), (4097, false)] {
        let tubes = vec![TubeName { number, name: "jobs".into() }; count];
        let timeout = Some(60_000_000);
        let take = Request::Take { tubes, session: served.session, timeout, most: None }.to_bytes();
        match served.service.call(&served.peer, &take) {
            Answering::Later(_) => assert!(fits, "a take of {count} tubes waits"),
            Answering::LaterWithoutBody(_) => panic!("it keeps the names of its tubes"),
            Answering::Now(reply) => {
                let answer: Result<()> = from_bytes(&reply.body[1..]).unwrap();
                let Err(Error::Invalid { what }) = answer else { panic!("{answer:?}") };
                assert!(!fits && what.contains("a list has 4097 items"), "{what}");
            }
            Answering::Many(_) => panic!("items"),
        }
    }
}

/// The write buffer counts as full, whatever is in it.
fn fill_buffer(served: &Served, is_full: bool) {
    let rows = if is_full { 0 } else { 1000 };
    served.store.inner().run(|core| core.config.max_pending_rows = rows);
}

/// A peer that says of a change that it waits for nothing would fill the memory of the owner.
#[test]
fn change_waits_for_space_whatever_the_peer_says_of_it() {
    let served = served();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put_many(["one", "two"]).unwrap();
    let claim = jobs.try_take().unwrap().unwrap();
    let number = served.number();
    let claimed = claim.held.key();
    let put = PutRequest::new(Put::new(b"body".to_vec()), 1 << 20).unwrap();
    fill_buffer(&served, true);
    let target = TubeRef { number, name: "jobs" };
    for mode in [Mode::Call, Mode::End, Mode::UnlessFull] {
        let priority = SetPriority { id: 1, priority: 7 };
        for read in [
            verb_to_bytes(mode, (), &Tubes {}),
            verb_to_bytes(mode, (), &NextId {}),
            verb_to_bytes(mode, target, &CountsOf {}),
            verb_to_bytes(mode, target, &InfoOf {}),
        ] {
            let answering = served.service.call(&served.peer, &read);
            assert!(matches!(answering, Answering::Now(_)), "{mode:?} {read:?}");
        }
        for request in [
            verb_to_bytes(mode, (), &DropTube { name: "jobs".into() }),
            verb_to_bytes(mode, target, &PutTask { request: put.clone() }),
            verb_to_bytes(mode, target, &priority),
            verb_to_bytes(mode, target, &Resolve { id: 1, result: Some(vec![7; 1000]) }),
            verb_to_bytes(mode, target, &Kick { id: 1 }),
            verb_to_bytes(mode, target, &Truncate {}),
            verb_to_bytes(mode, claimed, &Ack { result: None }),
            verb_to_bytes(mode, claimed, &LogHeld { text: "text".into() }),
            verb_to_bytes(mode, claimed, &EndTask::alone(TaskEnd::Release { delay: 1 })),
        ] {
            let waits = match served.service.call(&served.peer, &request) {
                Answering::Later(mut answer) => {
                    answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                }
                _ => false,
            };
            assert_eq!(waits, mode != Mode::UnlessFull, "{mode:?} {request:?}");
        }
        for request in [
            verb_to_bytes(mode, claimed, &Renew { hold: 1_000_000 }),
            verb_to_bytes(mode, claimed, &DescribeHeld {}),
        ] {
            let answering = served.service.call(&served.peer, &request);
            assert!(matches!(answering, Answering::Now(_)), "{mode:?} {request:?}");
        }
    }
    assert_eq!(jobs.statistics().unwrap().tasks.total, 2);
    fill_buffer(&served, false);
}

/// A crash may bring back the task that is not there: no peer learns that before it is flushed.
#[test]
fn refusal_of_a_read_waits_for_the_change_that_may_have_caused_it() {
    type Read<'a> = &'a dyn Fn(TubeRef<'_>, u64) -> Vec<u8>;
    let reads: [Read<'_>; 4] = [
        &|target, id| verb_to_bytes(Mode::Call, target, &Peek { id, with_body: true }),
        &|target, id| verb_to_bytes(Mode::Call, target, &Steps { id, after: None, most: None }),
        &|target, id| {
            let after = Some("step".into());
            verb_to_bytes(Mode::Call, target, &Steps { id, after, most: Some(0) })
        },
        &|target, id| verb_to_bytes(Mode::Call, target, &HistoryOf { id }),
    ];
    for read in reads {
        let served = served();
        let id = served.store.find_tube("jobs").unwrap().put("one").unwrap().id;
        let target = TubeRef { number: served.number(), name: "jobs" };
        // Nothing has flushed it when this returns.
        served.store.inner().run(|core| drop(core.begin_verb(target, &Delete { id }).unwrap()));
        let answering = served.service.call(&served.peer, &read(target, id));
        assert!(matches!(answering, Answering::LaterWithoutBody(_)), "{answering:?}");
    }
}

#[test]
fn change_waits_for_its_flush_whatever_the_peer_says_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(Store::open(folder.path().join("store")).unwrap());
    let number = served.number();
    let put = PutRequest::new(Put::new(b"body".to_vec()), 1 << 20).unwrap();
    for mode in [Mode::Call, Mode::End] {
        let target = TubeRef { number, name: "jobs" };
        let request = verb_to_bytes(mode, target, &PutTask { request: put.clone() });
        let answering = served.service.call(&served.peer, &request);
        assert!(matches!(answering, Answering::LaterWithoutBody(_)), "{mode:?} {answering:?}");
    }
}

/// Whether what takes long is done on a thread, and not refused.
fn is_begun(answering: &Answering) -> bool {
    matches!(answering, Answering::Later(_))
}

#[test]
fn catch_ups_and_copies_do_not_keep_each_other_from_threads() {
    for (kind, most, other) in
        [(Share::Copies, 2, Share::CatchUps), (Share::CatchUps, 4, Share::Copies)]
    {
        let served = served();
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let waits = |kind| {
            let ended = ended.clone();
            let wait = move |_: &Waiting<'_>| {
                // Until the sender is dropped.
                let _ = ended.lock().unwrap().recv();
                Ok(())
            };
            served.peer.on_thread(kind, wait)
        };
        for _ in 0..most {
            assert!(is_begun(&waits(kind)), "{kind:?}");
        }
        assert!(!is_begun(&waits(kind)), "{kind:?}");
        assert!(is_begun(&waits(other)), "{other:?} beside {kind:?}");
        drop(ends);
    }
}

/// Longer than anything here takes.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// Regression: a check of the whole file went on after the connection of its caller had ended.
#[test]
fn work_on_a_thread_is_told_that_nobody_waits_for_it() {
    let served = served();
    let (sender, receiver) = std::sync::mpsc::channel();
    let work = move |waiting: &Waiting<'_>| {
        assert!(waiting.or_break().is_continue());
        sender.send(()).unwrap();
        while waiting.or_break().is_continue() {
            std::thread::yield_now();
        }
        sender.send(()).unwrap();
        Ok(())
    };
    let answering = served.peer.on_thread(Share::Copies, work);
    receiver.recv_timeout(HANGS_AFTER).unwrap();
    drop(answering);
    receiver.recv_timeout(HANGS_AFTER).unwrap();
}

#[test]
fn client_is_refused_for_good_because_of_its_hello_only() {
    let served = served();
    let hello = |label: &str| {
        let id = SessionId::random();
        let session = HelloSession { id, label: Some(label.into()) };
        Hello { sessions: vec![session], client: None }.to_bytes()
    };
    let is_temporary = |hello: &[u8]| match served.service.connect(hello) {
        Err(rejection) => Some(rejection.temporary),
        Ok(_) => None,
    };
    let (valid, invalid) = (hello("label"), hello(&"l".repeat(1000)));
    assert_eq!(is_temporary(&valid), None);
    assert_eq!(is_temporary(&invalid), Some(false));
    assert_eq!(is_temporary(b"garbage"), Some(false));
    served.store.close().unwrap();
    assert_eq!(is_temporary(&valid), Some(true));
}

/// The signal of a claim is one of the owner's process.
#[test]
fn peer_cannot_ask_for_the_signal_of_a_claim() {
    let served = served();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put("one").unwrap();
    let claim = jobs.try_take().unwrap().unwrap();
    let describe = verb_to_bytes(Mode::Call, claim.held.key(), &DescribeHeld {});
    // No verb of a claim has the number 13.
    let request = [&describe[..describe.len() - 1], &[13]].concat();
    let Answering::Now(reply) = served.service.call(&served.peer, &request) else {
        panic!("it waits");
    };
    let answer: Result<()> = from_bytes(&reply.body[1..]).unwrap();
    assert!(matches!(answer, Err(Error::Invalid { .. })), "{answer:?}");
}

#[test]
fn peer_forgets_a_subscription_that_was_dropped() {
    let served = served();
    let events = served.events(10);
    assert_eq!(served.peer.subscriptions.delivered(0).unwrap().seq, 0);
    drop(events);
    assert!(matches!(served.peer.subscriptions.delivered(0), Err(Error::NotConnected { .. })));
}

#[test]
fn subscription_of_a_peer_holds_at_most_65536_events() {
    const MOST: usize = 65_536;
    let served = served();
    let brief = TubeOptions::new().temporary(true);
    let brief = served.store.create_tube("brief", brief.driver(FIFO)).unwrap();
    let mut events = served.events(usize::MAX);
    let mut next_missed = || events().map(|event| from_bytes::<Event>(&event).unwrap().missed);
    // Nothing is read meanwhile.
    brief.put_many((0..MOST + 10).map(|_| "")).unwrap();
    for _ in 0..MOST {
        assert_eq!(next_missed(), Some(0));
    }
    assert_eq!(next_missed(), None);
    brief.put("after those that were missed").unwrap();
    assert_eq!(next_missed(), Some(10));
}

/// A client holds at most 1024 events of a subscription that is not read, and so at most 6 MiB.
#[test]
fn event_with_the_longest_texts_has_less_than_6_kib() {
    let served = served();
    let (name, key, label) = ("n".repeat(255), "k".repeat(crate::MAX_KEY), "l".repeat(255));
    let tube = served.store.create_tube(&name, TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mut events = served.events(100);
    let tube = served.store.session(label).unwrap().tube(&tube).unwrap();
    tube.put(Put::new("").key(key)).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    claim.progress_text(&"p".repeat(1024)).unwrap();
    claim.bury(crate::Failure::new("g".repeat(255), "")).unwrap();
    let sizes: Vec<usize> = std::iter::from_fn(|| events().map(|event| event.len())).collect();
    assert_eq!(sizes.len(), 4);
    let largest = sizes.into_iter().max().unwrap();
    assert!((1024 + 2 * 255 + crate::MAX_KEY..6144).contains(&largest), "{largest}");
}

impl Served {
    /// The error of a request that is refused at once.
    fn refusal(&self, request: &Request) -> Option<Error> {
        self.refusal_of(&request.to_bytes())
    }

    fn refusal_of(&self, request: &[u8]) -> Option<Error> {
        let Answering::Now(reply) = self.service.call(&self.peer, request) else { return None };
        from_bytes::<Result<()>>(&reply.body[1..]).ok()?.err()
    }

    fn take_from(&self, tubes: usize) -> Request {
        let tubes = vec![TubeName { number: self.number(), name: "jobs".into() }; tubes];
        Request::Take { tubes, session: self.session, timeout: Some(60_000_000), most: None }
    }
}

fn is_busy(refusal: Option<Error>) -> bool {
    assert!(matches!(refusal, None | Some(Error::OwnerBusy { .. })), "{refusal:?}");
    refusal.is_some()
}

#[test]
fn subscriptions_of_all_connections_are_limited_by_the_combinations_of_their_filters() {
    let served = served();
    let names = || (0..8).map(|n| n.to_string());
    let mut filter =
        names().fold(Filter::new(), |filter, name| filter.tube(name.clone()).key(name));
    filter = names().fold(filter, |filter, name| filter.owner(name.clone()).tag(name));
    let request = Request::Subscribe { number: 1, filter, capacity: 10 };
    let begin = || served.service.call(&served.peer, &request.to_bytes());
    let mut begun: Vec<Answering> = (0..16).map(|_| begin()).collect();
    assert!(begun.iter().all(|answering| matches!(answering, Answering::Many(_))));
    assert!(is_busy(served.refusal(&request)));
    let all = Request::Subscribe { number: 2, filter: Filter::new(), capacity: 10 };
    assert!(is_busy(served.refusal(&all)), "it has one combination");
    begun.pop();
    assert!(!is_busy(served.refusal(&request)));
}

#[test]
fn waiting_calls_of_all_connections_are_limited_by_the_tubes_that_they_wait_in() {
    let served = served();
    let take = served.take_from(4096);
    let begin = || served.service.call(&served.peer, &take.to_bytes());
    let mut begun: Vec<Answering> = (0..64).map(|_| begin()).collect();
    assert!(begun.iter().all(|answering| matches!(answering, Answering::Later(_))));
    let one = served.take_from(1);
    assert!(is_busy(served.refusal(&one)));
    begun.pop();
    assert!(!is_busy(served.refusal(&one)));
}

#[test]
fn session_with_a_label_that_no_handle_gives_it_is_refused() {
    let served = served();
    let label: Arc<str> = "x".repeat(256).into();
    let by_handle = served.store.session(label.clone()).unwrap_err();
    let begin = Request::BeginSession(SessionId::from_bytes([7; 16]), Some(label));
    assert_eq!(served.refusal(&begin), Some(by_handle));
}

#[test]
fn peers_create_no_more_tubes_than_the_store_may_have_for_them() {
    let served = served();
    let create = |name: &str| {
        let options = TubeOptions::new();
        let create = CreateTube { name: name.into(), options, opens: true };
        served.refusal_of(&verb_to_bytes(Mode::Call, (), &create))
    };
    for name in ["second", "third", "second"] {
        assert!(!is_busy(create(name)), "{name}");
    }
    assert!(is_busy(create("fourth")));
    assert!(!is_busy(create("third")), "it exists");
    served.store.open_tube("fourth", TubeOptions::new().driver(FIFO)).unwrap();
    served.store.drop_tube("second").unwrap();
    served.store.drop_tube("third").unwrap();
    assert!(!is_busy(create("fifth")));
}

/// The transport sends the short answer if there is no room for the long one.
#[test]
fn long_answer_that_is_not_sent_is_refused_and_changes_nothing() {
    let served = served();
    let jobs = served.store.find_tube("jobs").unwrap();
    jobs.put(vec![7; 100_000]).unwrap();
    let answer_to = |request: &[u8]| match served.service.call(&served.peer, request) {
        Answering::Now(reply) => reply,
        Answering::Later(mut answer) | Answering::LaterWithoutBody(mut answer) => {
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(reply) => reply,
                Poll::Pending => panic!("it waits"),
            }
        }
        Answering::Many(_) => panic!("items"),
    };
    let answer = |request: &Request| answer_to(&request.to_bytes());
    let is_refusal = |busy: Option<Vec<u8>>| {
        let answer: Result<()> = from_bytes(&busy.unwrap()[1..]).unwrap();
        is_busy(answer.err())
    };
    let target = TubeRef { number: served.number(), name: "jobs" };
    let peek = verb_to_bytes(Mode::Call, target, &Peek { id: 0, with_body: true });
    assert!(is_refusal(answer_to(&peek).busy));
    let taken = answer(&served.take_from(1));
    assert_eq!(jobs.statistics().unwrap().tasks.taken, 1);
    assert!(is_refusal(taken.busy));
    taken.on_lost.unwrap()();
    assert_eq!(jobs.statistics().unwrap().tasks.ready, 1);
    // A change is not refused once it is made. That of a temporary tube waits for nothing.
    let brief = TubeOptions::new().temporary(true);
    let brief = served.store.create_tube("brief", brief.driver(FIFO)).unwrap();
    let target = TubeRef { number: brief.number(), name: "brief" };
    let request = || PutRequest::of(Put::new(b"".to_vec()));
    let requests = (0..20_000).map(|_| request()).collect();
    let put = answer_to(&verb_to_bytes(Mode::Call, target, &PutMany { requests }));
    assert!(put.body.len() > 65_536 && put.busy.is_none());
}

/// Its subscription misses the others, and the next event that it gets says how many.
#[test]
fn events_that_wait_in_all_subscriptions_of_peers_are_limited_in_bytes() {
    const EVENTS: u64 = 1000;
    let store = Store::in_memory().unwrap();
    let brief = TubeOptions::new().temporary(true);
    let brief = store.create_tube("brief", brief.driver(FIFO)).unwrap();
    // Less than the events of both subscriptions, and more than those of one.
    let bytes = Arc::new(EventBytes::up_to(200 << 10));
    let subscribe = || -> Events {
        Events::new(store.local().events_of(Filter::new(), 65_536, Some(bytes.clone())).unwrap())
    };
    let (first, second) = (subscribe(), subscribe());
    let own = store.events(Filter::new(), 65_536).unwrap();
    brief.put_many((0..EVENTS).map(|_| "")).unwrap();
    let read = |events: &Events| std::iter::from_fn(|| events.try_recv()).count() as u64;
    let waiting = [&first, &second].map(read);
    let missed = [&first, &second].map(Events::dropped);
    assert_eq!([waiting[0] + missed[0], waiting[1] + missed[1]], [EVENTS; 2]);
    assert!(missed[0] > 0 && waiting.into_iter().all(|waiting| waiting > 128), "{waiting:?}");
    assert_eq!((read(&own), own.dropped()), (EVENTS, 0), "that of the owner has no such limit");
    brief.put("after those that were missed").unwrap();
    assert_eq!(first.recv().unwrap().missed, missed[0]);
    // All bytes were given back.
    drop(second);
    brief.put_many((0..EVENTS).map(|_| "")).unwrap();
    assert_eq!(read(&first), EVENTS);
}

#[cfg(unix)]
#[test]
fn store_forgets_the_servers_that_were_stopped() {
    let (store, folder) = (Store::in_memory().unwrap(), tempfile::tempdir().unwrap());
    let serve =
        || store.admin().serve(crate::ServeOptions::unix(folder.path().join("socket"))).unwrap();
    let servers = || store.here("this test").unwrap().open_store().servers.len();
    for _ in 0..3 {
        let served = serve();
        assert_eq!(servers(), 1);
        served.stop();
        served.stop();
        assert_eq!(servers(), 0);
    }
}
