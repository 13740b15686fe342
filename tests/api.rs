//! What applications rely on in every public type: traits, and texts that can be stored.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::str::FromStr;
use std::time::Duration;

use tubewell::{
    Bincode, CallCounts, Claim, Clock, ClockReport, Counters, Cursor, Deferred, Draft, Durability,
    Error, Event, EventKind, FIFO, FIFOTTL, Load, ManualClock, Page, Put, Receipt, Salvaged,
    SalvagedTube, Session, SessionId, State, Statistics, Store, StoreOptions, Subscription,
    TakeFuture, Task, TaskCounts, TaskInfo, Ticket, Traits, Tube, TubeInfo, TubeOptions,
    TypedClaim, TypedTube, UTUBE, WhenFull,
};

fn is_shareable<T: Send + Sync + Unpin + Debug + 'static>() {}
fn is_sendable<T: Send + Debug + 'static>() {}
fn is_handle<T: Clone + Send + Sync + Debug + 'static>() {}
fn is_value<T: Clone + Eq + Hash + Send + Sync + Debug + 'static>() {}
fn is_copy<T: Copy>() {}
fn is_default<T: Default>() {}
fn is_text<T: Display + FromStr<Err = Error>>() {}

#[test]
fn public_types_have_the_common_traits() {
    is_shareable::<Store>();
    is_shareable::<Claim>();
    is_shareable::<TypedClaim<String>>();
    is_shareable::<Subscription>();
    is_shareable::<Draft<'static>>();
    is_shareable::<Load>();
    is_shareable::<Bincode>();
    is_sendable::<Ticket<Receipt>>();
    is_sendable::<TakeFuture>();

    is_handle::<Store>();
    is_handle::<Tube>();
    is_handle::<TypedTube<String>>();
    is_handle::<Session>();
    is_handle::<Deferred>();
    is_handle::<Clock>();
    is_handle::<ManualClock>();
    is_handle::<StoreOptions>();
    is_handle::<TubeOptions>();
    is_handle::<Salvaged>();
    is_handle::<SalvagedTube>();
    is_handle::<Error>();
    is_handle::<Counters>();
    is_handle::<ClockReport>();

    is_value::<CallCounts>();
    is_value::<Cursor>();
    is_value::<Durability>();
    is_value::<Event>();
    is_value::<EventKind>();
    is_value::<Page>();
    is_value::<Put>();
    is_value::<Receipt>();
    is_value::<SessionId>();
    is_value::<State>();
    is_value::<Statistics>();
    is_value::<Task>();
    is_value::<TaskCounts>();
    is_value::<TaskInfo>();
    is_value::<Traits>();
    is_value::<TubeInfo>();
    is_value::<WhenFull>();

    is_copy::<Durability>();
    is_copy::<EventKind>();
    is_copy::<Receipt>();
    is_copy::<SessionId>();
    is_copy::<State>();
    is_copy::<Statistics>();
    is_copy::<WhenFull>();

    is_default::<Clock>();
    is_default::<Counters>();
    is_default::<Durability>();
    is_default::<ManualClock>();
    is_default::<Page>();
    is_default::<Put>();
    is_default::<Statistics>();
    is_default::<StoreOptions>();
    is_default::<TubeOptions>();
    is_default::<WhenFull>();

    is_text::<Cursor>();
    is_text::<Durability>();
    is_text::<EventKind>();
    is_text::<SessionId>();
    is_text::<State>();
}

/// An application can put errors into its own error types and send them to other threads.
#[test]
fn error_is_a_standard_error_that_can_be_sent_and_shared() {
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<Error>();
    let boxed: Box<dyn std::error::Error + Send + Sync> = Error::Closed.into();
    assert_eq!(boxed.downcast_ref::<Error>(), Some(&Error::Closed));
    let io = std::io::Error::other(Error::Closed);
    assert_eq!(io.to_string(), Error::Closed.to_string());
}

/// The ids of the tasks of all pages, each page found by the text of the cursor before it.
fn ids_by_text(tube: &Tube, state: State, limit: usize) -> Vec<u64> {
    let (mut ids, mut text) = (Vec::new(), None::<String>);
    loop {
        let after = text.map(|text| text.parse().unwrap());
        let page = tube.list(state, after, limit).unwrap();
        ids.extend(page.tasks.iter().map(|task| task.id));
        match page.next {
            Some(next) => text = Some(next.to_string()),
            None => return ids,
        }
    }
}

#[test]
fn list_continues_from_the_text_of_a_cursor() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("timed", FIFOTTL, TubeOptions::new()).unwrap();
    let late = Duration::from_secs(60);
    tube.put_many((0..5).map(|n| Put::new("ready").pri(9 - n))).unwrap();
    tube.put_many((5..10).map(|_| Put::new("delayed").delay(late))).unwrap();
    for id in 0..2 {
        tube.bury(id).unwrap();
    }
    let claims = tube.take_many(2, Duration::ZERO).unwrap();
    for limit in [1, 2, 3, 100] {
        assert_eq!(ids_by_text(&tube, State::Ready, limit), [2]);
        assert_eq!(ids_by_text(&tube, State::Taken, limit), [4, 3]);
        assert_eq!(ids_by_text(&tube, State::Buried, limit), [1, 0]);
        assert_eq!(ids_by_text(&tube, State::Delayed, limit), [5, 6, 7, 8, 9]);
    }
    drop(claims);

    let pages = store.create_tube("pages", UTUBE, TubeOptions::new()).unwrap();
    let names = ["", "a/b?c=d&e", "ü", "~", "."];
    pages.put_many(names.map(|name| Put::new("x").sub_queue(name))).unwrap();
    let mut ids = ids_by_text(&pages, State::Ready, 1);
    ids.sort_unstable();
    assert_eq!(ids, [10, 11, 12, 13, 14]);
}

/// The scan of another state would otherwise begin among rows of this one.
#[test]
fn list_refuses_the_cursor_of_another_state() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("jobs", FIFO, TubeOptions::new()).unwrap();
    tube.put_many(["a", "b", "c", "d"]).unwrap();
    tube.bury(2).unwrap();
    tube.bury(3).unwrap();
    let next = |state| tube.list(state, None, 1).unwrap().next;
    let (ready, buried) = (next(State::Ready), next(State::Buried));
    assert!(ready.is_some() && buried.is_some());
    for (state, cursor) in [
        (State::Buried, &ready),
        (State::Delayed, &ready),
        (State::Ready, &buried),
        (State::Taken, &buried),
    ] {
        let refused = tube.list(state, cursor.clone(), 10);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{state}: {refused:?}");
    }
    assert_eq!(tube.list(State::Done, ready.clone(), 10), Ok(Page::default()));
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// Any text that is a cursor lists tasks of the asked state, or is refused.
#[test]
fn made_up_cursors_are_harmless() {
    let store = Store::in_memory().unwrap();
    for driver in [FIFO, UTUBE] {
        let tube = store.create_tube(driver, driver, TubeOptions::new()).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        let id = tube.put("c").unwrap().id;
        tube.bury(id).unwrap();
        let max = u64::MAX;
        for shelf in ["r", "d", "b"] {
            for rank in ["0.0".to_owned(), "0.1".to_owned(), format!("{max}.{max}")] {
                for sub in [String::new(), ".zzz".to_owned(), format!(".{}", "~FF".repeat(255))] {
                    let Ok(cursor) = format!("1{shelf}{rank}{sub}").parse::<Cursor>() else {
                        continue;
                    };
                    for state in [State::Ready, State::Taken, State::Delayed, State::Buried] {
                        if let Ok(page) = tube.list(state, Some(cursor.clone()), 10) {
                            assert!(page.tasks.iter().all(|task| task.state == state));
                        }
                    }
                }
            }
        }
    }
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn tube_not_found_suggests_the_tube_that_was_meant() {
    let store = Store::in_memory().unwrap();
    store.create_tube("mail", FIFO, TubeOptions::new()).unwrap();
    store.create_tube("orders", FIFO, TubeOptions::new()).unwrap();
    let error = |name: &str, similar: Option<&str>| {
        Some(Error::TubeNotFound { name: name.into(), similar: similar.map(str::to_owned) })
    };
    assert_eq!(store.tube("mial").err(), error("mial", Some("mail")));
    assert_eq!(store.session().tube("order").err(), error("order", Some("orders")));
    assert_eq!(store.drop_tube("Mail").err(), error("Mail", Some("mail")));
    assert_eq!(store.drop_tube("clicks").err(), error("clicks", None));
    assert_eq!(store.tubes().len(), 2);
    let text = store.drop_tube("clicks").unwrap_err().to_string();
    assert_eq!(text, r#"tube "clicks" not found; check the name"#);
}
