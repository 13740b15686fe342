//! What applications rely on in every public type: traits, and texts that can be stored.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::driver::{Draft, Load, Traits};
use tubewell::expert::{
    Bin, CallCounts, Clock, ClockReport, Counters, Date, Day, OptionValue, Salvaged, SalvagedTube,
    Storage, Summary,
};
use tubewell::{
    AsyncClaim, AsyncTube, Bincode, Claim, Cursor, Durability, Error, Event, EventKind, Events,
    FIFO, FIFOTTL, Filter, ManualClock, Page, Put, Receipt, Session, SessionId, Statistics, Store,
    StoreOptions, Task, TaskCounts, TaskInfo, TaskState, Ticket, Tube, TubeInfo, TubeOptions,
    UTUBE,
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
    is_shareable::<Claim<String>>();
    is_shareable::<Events>();
    is_shareable::<Draft<'static>>();
    is_shareable::<Load>();
    is_shareable::<Bincode>();
    is_sendable::<Ticket<Receipt>>();
    is_sendable::<Ticket<Option<AsyncClaim>>>();

    is_handle::<Store>();
    is_handle::<Tube>();
    is_handle::<Tube<String>>();
    is_handle::<Session>();
    is_handle::<AsyncTube>();
    is_handle::<Clock>();
    is_handle::<ManualClock>();
    is_handle::<StoreOptions>();
    is_handle::<TubeOptions>();
    is_handle::<Salvaged>();
    is_handle::<SalvagedTube>();
    is_handle::<Error>();
    is_handle::<Counters>();
    is_handle::<ClockReport>();

    is_value::<Bin>();
    is_value::<CallCounts>();
    is_value::<Cursor>();
    is_value::<Date>();
    is_value::<Day>();
    is_value::<Durability>();
    is_value::<Event>();
    is_value::<EventKind>();
    is_value::<OptionValue>();
    is_value::<Page<TaskInfo>>();
    is_value::<Put>();
    is_value::<Receipt>();
    is_value::<SessionId>();
    is_value::<TaskState>();
    is_value::<Statistics>();
    is_value::<Summary>();
    is_value::<Task>();
    is_value::<TaskCounts>();
    is_value::<TaskInfo>();
    is_value::<Traits>();
    is_value::<TubeInfo>();

    is_copy::<Bin>();
    is_copy::<Date>();
    is_copy::<Durability>();
    is_copy::<EventKind>();
    is_copy::<Receipt>();
    is_copy::<SessionId>();
    is_copy::<TaskState>();
    is_copy::<Statistics>();

    is_default::<Clock>();
    is_default::<Counters>();
    is_default::<Durability>();
    is_default::<ManualClock>();
    is_default::<Page<TaskInfo>>();
    is_default::<Put>();
    is_default::<Statistics>();
    is_default::<StoreOptions>();
    is_default::<TubeOptions>();

    is_text::<Cursor>();
    is_text::<Durability>();
    is_text::<EventKind>();
    is_text::<SessionId>();
    is_text::<TaskState>();
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
fn ids_by_text(tube: &Tube, state: TaskState, limit: usize) -> Vec<u64> {
    let (mut ids, mut text) = (Vec::new(), None::<String>);
    loop {
        let after = text.map(|text| text.parse().unwrap());
        let page = tube.query().list(state, after, limit).unwrap();
        ids.extend(page.items.iter().map(|task| task.id));
        match page.next {
            Some(next) => text = Some(next.to_string()),
            None => return ids,
        }
    }
}

#[test]
fn list_continues_from_the_text_of_a_cursor() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let late = Duration::from_secs(60);
    tube.put_many((0..5).map(|n| Put::new("ready").priority(9 - n))).unwrap();
    tube.put_many((5..10).map(|_| Put::new("delayed").delay(late))).unwrap();
    for id in 0..2 {
        tube.admin().bury(id, None).unwrap();
    }
    let claims = tube.take_many(2, Duration::ZERO).unwrap();
    for limit in [1, 2, 3, 100] {
        assert_eq!(ids_by_text(&tube, TaskState::Ready, limit), [2]);
        assert_eq!(ids_by_text(&tube, TaskState::Taken, limit), [4, 3]);
        assert_eq!(ids_by_text(&tube, TaskState::Buried, limit), [1, 0]);
        assert_eq!(ids_by_text(&tube, TaskState::Delayed, limit), [5, 6, 7, 8, 9]);
    }
    drop(claims);

    let pages = store.create_tube("pages", TubeOptions::new().driver(UTUBE)).unwrap();
    let names = ["", "a/b?c=d&e", "ü", "~", "."];
    pages.put_many(names.map(|name| Put::new("x").sub_queue(name))).unwrap();
    let mut ids = ids_by_text(&pages, TaskState::Ready, 1);
    ids.sort_unstable();
    assert_eq!(ids, [10, 11, 12, 13, 14]);
}

/// The scan of another state would otherwise begin among rows of this one.
#[test]
fn list_refuses_the_cursor_of_another_state() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(["a", "b", "c", "d"]).unwrap();
    tube.admin().bury(2, None).unwrap();
    tube.admin().bury(3, None).unwrap();
    let next = |state| tube.query().list(state, None, 1).unwrap().next;
    let (ready, buried) = (next(TaskState::Ready), next(TaskState::Buried));
    assert!(ready.is_some() && buried.is_some());
    for (state, cursor) in [
        (TaskState::Buried, &ready),
        (TaskState::Delayed, &ready),
        (TaskState::Ready, &buried),
        (TaskState::Taken, &buried),
        (TaskState::Done, &ready),
    ] {
        let refused = tube.query().list(state, cursor.clone(), 10);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{state}: {refused:?}");
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Any text that is a cursor lists tasks of the asked state, or is refused.
#[test]
fn made_up_cursors_are_harmless() {
    let store = Store::in_memory().unwrap();
    for driver in [FIFO, UTUBE] {
        let tube = store.create_tube(driver, TubeOptions::new().driver(driver)).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        let id = tube.put("c").unwrap().id;
        tube.admin().bury(id, None).unwrap();
        let max = u64::MAX;
        for shelf in ["r", "d", "b", "g"] {
            for rank in ["0.0".to_owned(), "0.1".to_owned(), format!("{max}.{max}")] {
                for sub in [String::new(), ".zzz".to_owned(), format!(".{}", "~FF".repeat(255))] {
                    let Ok(cursor) = format!("1{shelf}{rank}{sub}").parse::<Cursor>() else {
                        continue;
                    };
                    for state in
                        [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried]
                    {
                        if let Ok(page) = tube.query().list(state, Some(cursor.clone()), 10) {
                            assert!(page.items.iter().all(|task| task.state == state));
                        }
                    }
                    for name in ["zzz", ""] {
                        if let Ok(page) = tube.query().list(
                            Filter::new().group(name).newest_first(),
                            Some(cursor.clone()),
                            10,
                        ) {
                            assert_eq!(page.items, []);
                        }
                    }
                }
            }
        }
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn tube_not_found_suggests_the_tube_that_was_meant() {
    let store = Store::in_memory().unwrap();
    store.create_tube("mail", TubeOptions::new().driver(FIFO)).unwrap();
    store.create_tube("orders", TubeOptions::new().driver(FIFO)).unwrap();
    let error = |name: &str, similar: Option<&str>| {
        Some(Error::TubeNotFound { name: name.into(), similar: similar.map(str::to_owned) })
    };
    assert_eq!(store.find_tube("mial").err(), error("mial", Some("mail")));
    assert_eq!(store.find_tube("order").err(), error("order", Some("orders")));
    assert_eq!(store.drop_tube("Mail").err(), error("Mail", Some("mail")));
    assert_eq!(store.drop_tube("clicks").err(), error("clicks", None));
    assert_eq!(store.tubes().unwrap().len(), 2);
    let text = store.drop_tube("clicks").unwrap_err().to_string();
    assert_eq!(text, r#"tube "clicks" not found; check the name"#);
}

/// Durabilities of each level, all different.
const DURABILITIES: [Durability; 7] = [
    Durability::Flush,
    Durability::Write { flush_within: Duration::ZERO },
    Durability::Write { flush_within: Duration::from_millis(50) },
    Durability::Write { flush_within: Duration::from_secs(3600) },
    Durability::Relaxed { max_delay: Duration::ZERO },
    Durability::Relaxed { max_delay: Duration::from_millis(50) },
    Durability::Relaxed { max_delay: Duration::from_secs(3600) },
];

/// A tube for each durability, and one without.
fn create_tubes(store: &Store, opens: bool) -> tubewell::Result<Vec<Tube>> {
    let create = |name: &str, options: TubeOptions| {
        let options = options.driver(FIFO);
        if opens { store.open_tube(name, options) } else { store.create_tube(name, options) }
    };
    let mut tubes = vec![create("the store's", TubeOptions::new())?];
    for durability in DURABILITIES {
        let options = TubeOptions::new().durability(durability);
        tubes.push(create(&durability.to_string(), options)?);
    }
    Ok(tubes)
}

/// Puts, takes and acks in a tube of each durability.
fn use_tubes(tubes: &[Tube]) {
    for tube in tubes {
        let before = tube.statistics().unwrap().tasks.ready;
        let kept = tube.put("kept").unwrap().id;
        let deferred = tube.to_async().put("deferred");
        assert_eq!(deferred.wait().unwrap().id, kept + 1);
        tube.put_many(["more", "more"]).unwrap();
        assert_eq!(tube.try_take().unwrap().unwrap().ack().unwrap().state, TaskState::Done);
        assert_eq!(tube.statistics().unwrap().tasks.ready, before + 3);
    }
}

/// An option that is not named stays.
fn assert_stays(store: &Store) {
    for existing in DURABILITIES {
        let same = store.open_tube(&existing.to_string(), TubeOptions::new().max_taken(9)).unwrap();
        assert_eq!(same.info().unwrap().durability, Some(existing));
    }
    let same = store.find_tube("the store's").unwrap();
    assert_eq!(same.info().unwrap().durability, None);
}

#[test]
fn durability_of_tube_is_stored_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for (round, durability) in DURABILITIES.into_iter().enumerate() {
        let store = Store::options().durability(durability).open(&path).unwrap();
        let tubes = create_tubes(&store, round > 0).unwrap();
        assert!(matches!(create_tubes(&store, false), Err(Error::TubeExists { .. })));
        use_tubes(&tubes);
        for tube in &tubes {
            let ready = tube.statistics().unwrap().tasks.ready;
            assert_eq!(ready, 3 * (round as u64 + 1), "{}, {durability}", tube.name());
        }
        assert_stays(&store);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
    let mut stored = BTreeMap::new();
    let found = |found| {
        if let Salvaged::Tube(tube) = found {
            stored.insert(tube.info.name, tube.info.durability);
        }
        Ok(())
    };
    Store::options().salvage(&path, found).unwrap();
    let each = DURABILITIES.map(|durability| (durability.to_string(), Some(durability)));
    let all: BTreeMap<_, _> = [("the store's".to_owned(), None)].into_iter().chain(each).collect();
    assert_eq!(stored, all);
}

#[test]
fn store_in_memory_has_tubes_of_every_durability() {
    for durability in DURABILITIES {
        let store = Store::options().durability(durability).open_in_memory().unwrap();
        use_tubes(&create_tubes(&store, false).unwrap());
        assert_stays(&store);
        store.flush().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}

/// Storage of an application: bytes in memory that outlive the store.
#[derive(Clone, Debug, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(offset).unwrap();
        start..start + len
    }
}

impl Storage for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let found = bytes.get(Bytes::range(offset, out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[Bytes::range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn custom_storage_keeps_tubes_of_every_durability() {
    let bytes = Bytes::default();
    for (round, durability) in DURABILITIES.into_iter().enumerate() {
        let options = Store::options().durability(durability);
        let store = options.open_on(Box::new(bytes.clone())).unwrap();
        let tubes = create_tubes(&store, round > 0).unwrap();
        use_tubes(&tubes);
        for tube in &tubes {
            assert_eq!(tube.statistics().unwrap().tasks.ready, 3 * (round as u64 + 1));
        }
        assert_stays(&store);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}
