//! Tasks as callers see them: what is put, what comes back.

use std::time::Duration;

use tubewell_drivers::{Position, Shelf};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the states of the reference, all of them")]
pub enum State {
    /// May be taken.
    Ready,
    /// Held by a session.
    Taken,
    /// Becomes ready by itself at a set time.
    Delayed,
    /// Set aside until it is kicked, deleted, or its ttl is over.
    Buried,
    /// Gone; only ever seen in answers and events.
    Done,
}

impl State {
    /// The state of a stored task that is not taken.
    pub(crate) fn on_shelf(shelf: Shelf) -> State {
        match shelf {
            Shelf::Ready => State::Ready,
            Shelf::Delayed => State::Delayed,
            Shelf::Buried => State::Buried,
        }
    }

    /// The state's one-letter name, as Tarantool's queue writes it.
    #[must_use]
    pub fn as_char(self) -> char {
        match self {
            State::Ready => 'r',
            State::Taken => 't',
            State::Delayed => '~',
            State::Buried => '!',
            State::Done => '-',
        }
    }
}

/// A task to be put: its body and its options.
///
/// Options that the tube's driver does not know are refused by the put, not ignored.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::Put;
///
/// let urgent = Put::new("resize cat.jpg").pri(0).ttr(Duration::from_secs(30));
/// let polite = Put::new("GET /").sub_queue("example.org");
/// # let _ = (urgent, polite);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    pub(crate) body: Vec<u8>,
    pub(crate) pri: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) sub_queue: Option<String>,
}

impl Put {
    /// A task with this body and the tube's defaults.
    pub fn new(body: impl Into<Vec<u8>>) -> Put {
        Put { body: body.into(), ..Put::default() }
    }

    /// Its priority: 0 is most urgent. Timed drivers.
    #[must_use]
    pub fn pri(mut self, pri: u32) -> Put {
        self.pri = Some(pri);
        self
    }

    /// How long it lives, whatever its state; then it is removed. The delay is added.
    /// `Duration::MAX` for ever. Timed drivers.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Put {
        self.ttl = Some(ttl);
        self
    }

    /// How long a take may hold it before it is ready again. `Duration::MAX` without limit; with zero
    /// the hold is over as soon as it begins. Timed drivers.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Put {
        self.ttr = Some(ttr);
        self
    }

    /// How long it waits before it is ready. Timed drivers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Put {
        self.delay = delay;
        self
    }

    /// Its sub-queue: of each, at most one task is taken at a time. Sub-queued drivers.
    #[must_use]
    pub fn sub_queue(mut self, name: impl Into<String>) -> Put {
        self.sub_queue = Some(name.into());
        self
    }
}

/// A task to be put back as it was in another store; see [`Tube::restore_many`](crate::Tube::restore_many).
///
/// It is a [`Put`] with what a put cannot give: the id, how often the task was taken, and whether it
/// is buried. An option that is left out is as in a put.
///
/// # Example
/// ```
/// use tubewell::{Put, Restore};
///
/// let task = Restore::new(Put::new("to: ann").pri(3)).id(17).takes(2).buried(true);
/// # let _ = task;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub(crate) put: Put,
    pub(crate) id: Option<u64>,
    pub(crate) takes: u32,
    pub(crate) buried: bool,
}

impl Restore {
    /// A task with this body and these options, which gets a new id.
    pub fn new(put: impl Into<Put>) -> Restore {
        Restore { put: put.into(), id: None, takes: 0, buried: false }
    }

    /// Its id. Default the next one of the store.
    #[must_use]
    pub fn id(mut self, id: u64) -> Restore {
        self.id = Some(id);
        self
    }

    /// How often it was taken. Default 0.
    #[must_use]
    pub fn takes(mut self, takes: u32) -> Restore {
        self.takes = takes;
        self
    }

    /// Whether it is buried. Default false. A buried task has no delay.
    #[must_use]
    pub fn buried(mut self, buried: bool) -> Restore {
        self.buried = buried;
        self
    }
}

impl From<&str> for Put {
    fn from(body: &str) -> Put {
        Put::new(body)
    }
}

impl From<String> for Put {
    fn from(body: String) -> Put {
        Put::new(body)
    }
}

impl From<Vec<u8>> for Put {
    fn from(body: Vec<u8>) -> Put {
        Put::new(body)
    }
}

impl From<&[u8]> for Put {
    fn from(body: &[u8]) -> Put {
        Put::new(body)
    }
}

impl<const N: usize> From<&[u8; N]> for Put {
    fn from(body: &[u8; N]) -> Put {
        Put::new(body.as_slice())
    }
}

/// What a verb that changed a task answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The task.
    pub id: u64,
    /// Its state now.
    pub state: State,
    /// The number of the commit that holds the change; of the file's last one if memory alone
    /// changed, and of a count of its own for temporary tubes. A store that opens at a lower
    /// number later ([`Counters::opened_at`](crate::Counters::opened_at)) has lost commits.
    pub commit: u64,
}

/// A task without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id: unique in the store, growing, never used again.
    pub id: u64,
    /// Its state.
    pub state: State,
    /// Its priority.
    pub pri: u32,
    /// Its sub-queue, if it was given one.
    pub sub_queue: Option<String>,
    /// How often it was taken.
    pub takes: u32,
    /// The length of its body in bytes.
    pub size: u64,
    /// What is left of its life; `None` for ever.
    pub ttl_left: Option<Duration>,
    /// How long a take may hold it; `None` without limit.
    pub ttr: Option<Duration>,
    /// Until it becomes ready by itself: what is left of a delay, or of a hold.
    pub due_in: Option<Duration>,
}

/// A task with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// All but the body.
    pub info: TaskInfo,
    /// The body.
    pub data: Vec<u8>,
}

/// A place in the order of a tube's tasks, from which [`list`](crate::Tube::list) goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) Position);

/// One page of a tube's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The tasks, in order.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}
