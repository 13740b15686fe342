//! Pages that stay open: while their owner is replaced, and for a day.

use std::net::SocketAddr;
use std::time::Duration;

use tubewell::{Failure, Keep, Put, Schedule, Store, Tube, TubeOptions, Update};
use tubewell_http::{HttpOptions, serve};

use crate::browser::Browser;
use crate::{HOUR, bury, filled, served};

/// The store of the next owner, in which work has gone on.
fn next() -> Store {
    let next = filled();
    bury(&next, 8);
    next.create_tube("next", TubeOptions::new()).unwrap();
    let jobs: Tube = next.find_tube("jobs").unwrap();
    jobs.admin().bury(4, Failure::new("by hand", "why")).unwrap();
    jobs.put_many((0..40).map(|number| format!("more {number}"))).unwrap();
    let _left_to_the_session = jobs.take().unwrap().detach();
    jobs.schedule(Schedule::every("of-the-next-owner", HOUR), "tick").unwrap();
    next
}

/// What happens under the next owner.
fn change(next: &Store) {
    let jobs: Tube = next.find_tube("jobs").unwrap();
    next.create_tube("later", TubeOptions::new()).unwrap();
    jobs.schedule(Schedule::every("put-later", HOUR), "tick").unwrap();
    jobs.put_many(["a", "b"]).unwrap();
    jobs.admin().kick(4).unwrap();
    let _left_to_the_session = jobs.take().unwrap().detach();
}

/// An owner that ends, and another one at the same address.
#[test]
fn each_page_goes_on_with_the_next_owner() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 7);
    let (server, url) = served(&store);
    let address: SocketAddr = server.address();
    let mut server = Some(server);
    let next = next();
    browser.run_with("restart", &url, |asked| match asked {
        "stop" => drop(server.take()),
        "start" => server = Some(serve(&next, HttpOptions::new(address.to_string())).unwrap()),
        "change" => change(&next),
        _ => unreachable!("{asked}"),
    });
}

#[test]
fn list_has_the_bodies_of_the_next_owner() {
    let Some(browser) = Browser::new() else { return };
    let [store, next] = ["body of the first owner", "body of the next owner"].map(|body| {
        let store = Store::in_memory().unwrap();
        store.create_tube("jobs", TubeOptions::new()).unwrap().put(body).unwrap();
        store
    });
    let (server, url) = served(&store);
    let address: SocketAddr = server.address();
    let mut server = Some(server);
    browser.run_with("bodies_of_the_next_owner", &url, |asked| match asked {
        "stop" => drop(server.take()),
        "start" => server = Some(serve(&next, HttpOptions::new(address.to_string())).unwrap()),
        _ => unreachable!("{asked}"),
    });
}

#[test]
fn bodies_days_notes_steps_and_checkpoints_of_others_are_shown_soon() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs =
        store.create_tube("jobs", TubeOptions::new().ttr(HOUR).history(20).metrics(7)).unwrap();
    let held = jobs.put(Put::new("held body").key("held")).unwrap().id;
    let mut claim = jobs.take().unwrap();
    let first = jobs.put("first body").unwrap().id;
    let (_server, url) = served(&store);
    browser.run_with("changes_of_others", &url, |asked| match asked {
        "update and ack" => {
            jobs.update(first, Update::new().body("second body")).unwrap();
            jobs.put(Put::new("short").priority(1)).unwrap();
            jobs.take().unwrap().ack().unwrap();
        }
        "log" => drop(jobs.admin().log(held, "seen by another").unwrap()),
        "step" => {
            claim.step("probe", || Ok::<_, tubewell::Error>("h264".to_owned())).map(drop).unwrap();
        }
        "checkpoint" => drop(claim.checkpoint("half of it is done").unwrap()),
        _ => unreachable!("{asked}"),
    });
}

/// Its claim becomes overdue, and expires then.
#[test]
fn attempt_that_hangs_in_a_tube_with_a_reclaim_delay_has_failed_once() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let short = Duration::from_millis(300);
    let options = TubeOptions::new().ttr(short).reclaim_delay(short).max_attempts(1);
    let jobs = store.create_tube("jobs", options).unwrap();
    let (_server, url) = served(&store);
    browser.run_with("failed_attempts", &url, |_| {
        jobs.put_many(["acked", "hangs"]).unwrap();
        jobs.take().unwrap().ack().unwrap();
        let _left_to_the_session = jobs.take().unwrap().detach();
    });
}

/// A day has 2,880 half minutes, and 100,000 changes: with `TUBEWELL_TESTS=full`. Else it ends after six hours.
#[test]
fn page_that_is_open_for_a_day_holds_no_more_memory() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 7);
    let jobs = store.find_tube("jobs").unwrap();
    jobs.admin().alter(TubeOptions::new().keep_done(Keep::new().count(50))).unwrap();
    let (_server, url) = served(&store);
    browser.run_with("day", &url, |_| {
        for number in 0..12 {
            jobs.put(Put::new(format!("{{\"number\": {number}}}")).tag("numbered")).unwrap();
            let _kept = jobs.take().unwrap().ack().unwrap();
        }
    });
}
