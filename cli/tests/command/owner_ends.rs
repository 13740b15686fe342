//! Commands whose owner ends: those that wait go on with the next owner, if there is one in time.

use std::sync::Arc;

use rustix::process::Signal;
use tubewell::{FIFOTTL, ServeOptions, Store, TubeOptions};

use crate::blocking_disk::Disk;
use crate::served::{serve, start};
use crate::support::{Running, Sandbox};

/// `work` on `mail` and a `pop` of `news`, which wait at an owner.
struct Waiting {
    sandbox: Sandbox,
    owner: Running,
    work: Running,
    pop: Running,
}

impl Waiting {
    fn new() -> Waiting {
        let sandbox = Sandbox::with(&[]);
        sandbox.ok("create news");
        let (owner, url) = serve(&sandbox, "");
        let work = sandbox.work("mail", "cat; echo");
        let pop = start(&sandbox, "pop news --timeout 1h");
        let store = tubewell::connect(&url).unwrap();
        for name in ["mail", "news"] {
            let tube = store.find_tube(name).unwrap();
            while tube.info().unwrap().waiting == 0 {
                std::thread::yield_now();
            }
        }
        store.close().unwrap();
        Waiting { sandbox, owner, work, pop }
    }

    fn end_owner(&mut self, signal: Signal) {
        self.owner.signal(signal);
        self.owner.ends();
    }

    fn assert_both_fail(&mut self, why: &str) {
        for running in [&mut self.work, &mut self.pop] {
            running.notes(why);
            assert_eq!(running.ends(), 1);
        }
    }
}

/// The next owner must accept connections within 5 seconds. On a busy machine it may be late, but not
/// every time.
#[test]
fn idle_work_and_pop_go_on_with_the_next_owner_of_a_killed_one() {
    let go_on = || {
        let mut waiting = Waiting::new();
        waiting.end_owner(Signal::KILL);
        let (_owner, _) = serve(&waiting.sandbox, "");
        let Waiting { sandbox, work, pop, .. } = &mut waiting;
        sandbox.ok("put mail for-work");
        sandbox.ok("put news for-pop");
        if !work.prints_before_its_end("for-work") || !pop.prints_before_its_end("for-pop") {
            return false;
        }
        assert_eq!(pop.ends(), 0);
        work.signal(Signal::TERM);
        assert_eq!(work.ends(), 0);
        assert_eq!(sandbox.json("stats mail")[0]["total"], 0);
        true
    };
    assert!((0..5).any(|_| go_on()));
}

#[test]
fn idle_work_and_pop_fail_if_no_owner_follows_a_killed_one() {
    let mut waiting = Waiting::new();
    waiting.end_owner(Signal::KILL);
    waiting.assert_both_fail("the owner of the store cannot be reached");
    // The file is free.
    assert_eq!(waiting.sandbox.counts(), (0, 0, 0));
}

#[test]
fn idle_work_and_pop_fail_when_their_owner_closes_the_store() {
    let mut waiting = Waiting::new();
    waiting.end_owner(Signal::TERM);
    waiting.assert_both_fail("the owner of the store has closed it");
}

#[test]
fn task_of_a_command_that_outlives_the_owner_is_lost_and_worked_on_again() {
    let sandbox = Sandbox::with(&[]);
    let mut gate = sandbox.gate();
    let (mut owner, _) = serve(&sandbox, "");
    let mut work = sandbox.work("mail", "echo started; read x < gate; echo ended");
    sandbox.ok("put mail a");
    work.prints("started");
    owner.signal(Signal::KILL);
    owner.ends();
    let (_owner, _) = serve(&sandbox, "");
    gate.open(1);
    work.prints("ended");
    work.notes("mail 0: ");
    work.prints("started");
    gate.open(1);
    work.prints("ended");
    work.signal(Signal::TERM);
    assert_eq!(work.ends(), 0);
    work.notes("1 task done, 1 lost");
    assert_eq!(sandbox.json("stats mail")[0]["total"], 0);
}

#[test]
fn change_in_flight_fails_when_its_connection_breaks() {
    let (sandbox, disk) = (Sandbox::empty(), Arc::new(Disk::default()));
    let store = disk.open(Store::options());
    store.create_tube("mail", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let served = store.admin().serve(ServeOptions::unix(sandbox.path("a.sock"))).unwrap();
    let put = format!("put mail a --connect {}", served.url());
    let mut put = disk.block_flush_of(|| start(&sandbox, &put));
    served.stop();
    put.notes("the outcome is unknown");
    assert_eq!(put.ends(), 1);
    disk.unblock_flushes();
    store.close().unwrap();
}
