//! A subscriber that keeps all spans, and the joins of spans to traces, as an application has them.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Span, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};
use tubewell::tracing::{Propagation, set_propagation};

/// A span as a collector of traces gets it.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub name: &'static str,
    pub target: String,
    pub level: String,
    pub fields: BTreeMap<String, String>,
    pub trace: u128,
    pub id: u64,
    pub parent: Option<u64>,
    pub links: Vec<String>,
    pub is_closed: bool,
}

impl Recorded {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace, self.id)
    }
}

#[derive(Default)]
struct Spans {
    all: Vec<Recorded>,
    /// Where the span with this id is, which another one gets after its end.
    places: HashMap<u64, usize>,
}

static SPANS: LazyLock<Mutex<Spans>> = LazyLock::new(Mutex::default);

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static LEAVES_OUT_CALLS: Cell<bool> = const { Cell::new(false) };
}

fn with<T>(call: impl FnOnce(&mut Spans) -> T) -> T {
    call(&mut SPANS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Records all spans of this process from now on.
pub fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Recorder)).unwrap();
        set_propagation(Joins).unwrap();
    });
}

/// Runs without spans of level DEBUG in this thread.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    IS_QUIET.set(true);
    let done = run();
    IS_QUIET.set(false);
    done
}

/// Runs with an exporter of traces that leaves out the spans of calls, which another layer of the subscriber has.
pub fn without_calls<T>(run: impl FnOnce() -> T) -> T {
    LEAVES_OUT_CALLS.set(true);
    let done = run();
    LEAVES_OUT_CALLS.set(false);
    done
}

/// The spans of a tube, in the order in which they began.
pub fn spans_of(tube: &str) -> Vec<Recorded> {
    let of_tube = |it: &&Recorded| it.field("messaging.destination.name") == Some(tube);
    with(|spans| spans.all.iter().filter(of_tube).cloned().collect())
}

/// The spans of this name.
pub fn named(name: &str) -> Vec<Recorded> {
    with(|spans| spans.all.iter().filter(|it| it.name == name).cloned().collect())
}

pub fn recorded(span: &Span) -> Recorded {
    let id = span.id().unwrap().into_u64();
    with(|spans| spans.all[spans.places[&id]].clone())
}

struct Recorder;

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        !IS_QUIET.get() || *metadata.level() < tracing::Level::DEBUG
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let current = context.current_span().id().map(Id::into_u64);
        let parent = attributes.parent().map(Id::into_u64);
        let parent = if attributes.is_contextual() { current } else { parent };
        with(|spans| {
            let number = spans.all.len() as u64 + 1;
            let parent = parent.map(|id| spans.all[spans.places[&id]].clone());
            let mut span = Recorded {
                name: metadata.name(),
                target: metadata.target().to_owned(),
                level: metadata.level().to_string(),
                trace: parent.as_ref().map_or(u128::from(number) << 64, |parent| parent.trace),
                id: number,
                parent: parent.map(|parent| parent.id),
                ..Recorded::default()
            };
            attributes.record(&mut Fields(&mut span.fields));
            spans.places.insert(id.into_u64(), spans.all.len());
            spans.all.push(span);
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        change(id, |span| values.record(&mut Fields(&mut span.fields)));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        change(&id, |span| span.is_closed = true);
    }
}

fn change(id: &Id, edit: impl FnOnce(&mut Recorded)) {
    with(|spans| {
        let place = spans.places[&id.into_u64()];
        edit(&mut spans.all[place]);
    });
}

struct Joins;

impl Propagation for Joins {
    fn inject(&self, span: &Span) -> Option<String> {
        let recorded = recorded(span);
        assert!(recorded.name != "panics", "the application has a defect");
        if recorded.name == "malformed" {
            return Some("not a traceparent".into());
        }
        let is_exported = recorded.target != "tubewell" || !LEAVES_OUT_CALLS.get();
        is_exported.then(|| recorded.traceparent())
    }

    fn set_parent(&self, span: &Span, traceparent: &str) {
        let [_, trace, parent, _] = traceparent.split('-').collect::<Vec<_>>()[..] else {
            panic!("{traceparent}");
        };
        change(&span.id().unwrap(), |span| {
            span.trace = u128::from_str_radix(trace, 16).unwrap();
            span.parent = Some(u64::from_str_radix(parent, 16).unwrap());
        });
    }

    fn add_link(&self, span: &Span, traceparent: &str) {
        change(&span.id().unwrap(), |span| span.links.push(traceparent.to_owned()));
    }
}
