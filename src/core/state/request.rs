//! A put, checked and converted before the core is locked.

use std::sync::Arc;

use tubewell_drivers::{
    Body, Found, Header, IDEMPOTENCY_KEY_TIME, KEY_MAX, PARENTS_MAX, PUT_MANY_BYTES,
    PUT_MANY_TASKS, SUB_QUEUE_MAX, Shelf, TAG_MAX, TAGS_MAX,
};

use super::put_limits::{
    check_idempotency_key, check_max_runtime, check_unique_for, traceparent_of,
};
use crate::base::micros::micros_ceil;
use crate::base::moment::micros_of;
use crate::options::check_max_attempts;
use crate::values::ending::LastFailure;
use crate::values::history::HistoryEntry;
use crate::values::owner::LABEL_MAX;
use crate::values::put::{After, Encoded};
use crate::values::restore::Restore;
use crate::values::spawned_by::SpawnedBy;
use crate::values::step::Step;
use crate::{Error, Failure, OnKey, Put, Result, TaskState};

/// The highest id that can be restored. Puts that follow need the ids above it.
const RESTORED_ID_MAX: u64 = 1 << 60;

/// Refuses a body or a result that is too large.
pub(crate) fn check_size(what: &str, bytes: &[u8], max_body: usize) -> Result<()> {
    if bytes.len() <= max_body {
        return Ok(());
    }
    Err(Error::invalid(format!("the {what} has {} bytes, the limit is {max_body}", bytes.len())))
}

/// Refuses too many parents of one task.
pub(in crate::core) fn check_parents(count: usize) -> Result<()> {
    if count <= PARENTS_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("a task has at most {PARENTS_MAX} parents; these are {count}")))
}

fn parents_in(after: Option<&After>) -> usize {
    let by_id = |after: &After| after.parents.iter().map(|(_, ids)| ids.len()).sum::<usize>();
    after.map_or(0, |after| by_id(after) + after.keys.len())
}

/// Refuses a text that cannot be the key of a task.
pub(crate) fn check_key(key: &str) -> Result<()> {
    if (1..=KEY_MAX).contains(&key.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!("a key must have 1 to {KEY_MAX} bytes; this one has {}", key.len())))
}

/// The tags of one task, each once, in the order of their first mention.
/// The iterator may be infinite: reading stops with the first one that is too many.
pub(crate) fn distinct_tags(tags: impl IntoIterator<Item = impl AsRef<str>>) -> Arc<[Arc<str>]> {
    let mut distinct: Vec<Arc<str>> = Vec::new();
    for tag in tags {
        let tag = tag.as_ref();
        if !distinct.iter().any(|known| **known == *tag) {
            distinct.push(tag.into());
        }
        if distinct.len() > TAGS_MAX {
            break;
        }
    }
    if distinct.is_empty() { Arc::default() } else { distinct.into() }
}

/// Refuses too many tags, a text that cannot be a tag, and a tag that is there twice.
pub(in crate::core) fn check_distinct_tags(tags: &[Arc<str>]) -> Result<()> {
    for (at, tag) in tags.iter().enumerate() {
        check_tag(tag)?;
        if at == TAGS_MAX {
            return Err(too_many_tags());
        }
        if tags[..at].contains(tag) {
            return Err(Error::invalid(format!("the tag {tag:?} is named twice")));
        }
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<()> {
    if (1..=TAG_MAX).contains(&tag.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!("a tag must have 1 to {TAG_MAX} bytes; this one has {}", tag.len())))
}

/// The error of a task that would have too many tags.
pub(in crate::core) fn too_many_tags() -> Error {
    Error::invalid(format!("a task has at most {TAGS_MAX} tags; remove some, or name fewer"))
}

/// Refuses an id that is too high for a task of another store.
pub(super) fn check_restored_id(id: u64) -> Result<()> {
    if id <= RESTORED_ID_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the id {id} is above the limit of restored ids, {RESTORED_ID_MAX}"
    )))
}

fn restored_with_token() -> Error {
    Error::invalid(
        "a task cannot be restored with an idempotency key; a restored id or a key can be restored once",
    )
}

/// A put, after the checks and conversions that need no lock.
#[derive(Clone, Debug)]
pub(crate) struct PutRequest {
    pub(in crate::core) priority: Option<u32>,
    pub(in crate::core) ttl: Option<u64>,
    pub(in crate::core) ttr: Option<u64>,
    pub(in crate::core) delay: u64,
    /// Microseconds of the wall clock.
    pub(in crate::core) not_before: Option<u64>,
    pub(in crate::core) sub: Option<String>,
    pub(in crate::core) max_attempts: Option<u32>,
    pub(in crate::core) max_runtime: Option<u64>,
    pub(in crate::core) key: Option<Arc<str>>,
    pub(in crate::core) on_key: OnKey,
    pub(in crate::core) idempotency_key: Option<Box<str>>,
    /// How long the idempotency key is remembered.
    pub(in crate::core) unique_for: Option<u64>,
    /// Where the task belongs in a trace: the text of a [`Traceparent`](tubewell_drivers::Traceparent).
    pub(in crate::core) traceparent: Option<Box<str>>,
    pub(in crate::core) tags: Arc<[Arc<str>]>,
    pub(in crate::core) body: Body,
    pub(in crate::core) after: Option<Box<After>>,
    /// The id in the other store, for a task that is restored with it.
    pub(in crate::core) id: Option<u64>,
    /// The number of takes in the other store; 0 for a new task.
    pub(in crate::core) takes: u32,
    /// The state of a task that is restored as buried or done.
    pub(in crate::core) restored_as: Option<TaskState>,
    /// What else the other store knew of a restored task.
    pub(in crate::core) history: Option<Box<History>>,
}

/// The attempts of a restored task, its result, the entries of its history, its steps, and its age.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// How many takes do not count. At most all of them.
    pub(in crate::core) forgiven: u32,
    /// The group in which the task is buried, as a failure without a message.
    pub(in crate::core) buried_with: Option<Failure>,
    pub(in crate::core) failure: Option<LastFailure>,
    /// The schedule of which it is a run.
    pub(in crate::core) spawned_by: Option<SpawnedBy>,
    /// For a task that is done.
    pub(in crate::core) result: Option<Vec<u8>>,
    pub(in crate::core) entries: Vec<HistoryEntry>,
    pub(in crate::core) steps: Vec<Step>,
    /// When it was put, in microseconds of the wall clock.
    pub(in crate::core) put_at: Option<u64>,
    /// Microseconds of the wall clock, as `put_at`.
    pub(in crate::core) ended_at: Option<u64>,
}

impl PutRequest {
    /// As `of`, with the checks that need no tube.
    pub(crate) fn new(put: Encoded, max_body: usize) -> Result<PutRequest> {
        let request = PutRequest::of(put);
        request.check(max_body)?;
        Ok(request)
    }

    /// A put as a request, without its checks.
    #[inline]
    pub(crate) fn of(put: Encoded) -> PutRequest {
        let Put { body, options: put } = put;
        PutRequest {
            priority: put.priority,
            ttl: put.ttl.map(micros_ceil),
            ttr: put.ttr.map(micros_ceil),
            delay: micros_ceil(put.delay),
            not_before: put.not_before.map(micros_of),
            sub: put.sub_queue,
            max_attempts: put.max_attempts,
            max_runtime: put.max_runtime.map(micros_ceil),
            key: put.key.map(Arc::from),
            on_key: put.on_key,
            idempotency_key: put.idempotency_key,
            unique_for: put.unique_for.map(micros_ceil),
            traceparent: put.traceparent,
            after: put.after,
            tags: distinct_tags(put.tags),
            ..PutRequest::of_body(Body::new(body))
        }
    }

    fn check_but_tags(&self, max_body: usize) -> Result<()> {
        check_size("body", &self.body, max_body)?;
        if self.sub.as_ref().is_some_and(|name| name.len() > SUB_QUEUE_MAX) {
            return Err(Error::invalid(format!(
                "the name of a sub-queue must have at most {SUB_QUEUE_MAX} bytes"
            )));
        }
        check_max_attempts(self.max_attempts)?;
        check_max_runtime(self.max_runtime)?;
        self.traceparent.as_deref().map_or(Ok(()), |text| traceparent_of(text).map(drop))?;
        check_parents(parents_in(self.after.as_deref()))?;
        let keys = self.after.iter().flat_map(|after| &after.keys);
        keys.into_iter().try_for_each(|key| check_key(key))?;
        self.key.as_deref().map_or(Ok(()), check_key)?;
        self.idempotency_key.as_deref().map_or(Ok(()), check_idempotency_key)?;
        let has_key = self.idempotency_key.is_some();
        self.unique_for.map_or(Ok(()), |time| check_unique_for(time, has_key))
    }

    /// As `of`, for the task that has this key, which it replaces.
    pub(crate) fn requeue(key: &str, mut put: Encoded) -> Result<PutRequest> {
        let options = &mut put.options;
        if let Some(other) = options.key.as_deref().filter(|other| *other != key) {
            return Err(Error::invalid(format!(
                "the task is requeued by the key {key:?}, but it is put with the key {other:?}; \
                 leave out the second one"
            )));
        }
        (options.key, options.on_key) = (Some(key.to_owned()), OnKey::Replace);
        Ok(PutRequest::of(put))
    }

    /// A put of this body, with the options of its tube.
    pub(in crate::core) fn of_body(body: Body) -> PutRequest {
        PutRequest {
            priority: None,
            ttl: None,
            ttr: None,
            delay: 0,
            not_before: None,
            sub: None,
            max_attempts: None,
            max_runtime: None,
            key: None,
            on_key: OnKey::default(),
            idempotency_key: None,
            unique_for: None,
            traceparent: None,
            tags: Arc::default(),
            body,
            after: None,
            id: None,
            takes: 0,
            restored_as: None,
            history: None,
        }
    }

    /// A put with this body, and with the sub-queue and the limits of a task that there is.
    pub(in crate::core) fn like(header: &Header, body: Body) -> PutRequest {
        PutRequest {
            sub: (!header.sub.is_empty()).then(|| header.sub.to_string()),
            max_attempts: header.max_attempts(None),
            max_runtime: header.own_max_runtime(),
            ..PutRequest::of_body(body)
        }
    }

    /// Whether a connection may make the put again by itself. One that is remembered for less than an hour may be
    /// forgotten until then.
    pub(crate) fn may_repeat(&self) -> bool {
        self.idempotency_key.is_some() && self.remembered_for() >= IDEMPOTENCY_KEY_TIME
    }

    /// How long its idempotency key is remembered, if it has one.
    pub(in crate::core) fn remembered_for(&self) -> u64 {
        self.unique_for.unwrap_or(IDEMPOTENCY_KEY_TIME)
    }

    /// Whether the task has a key, so that a put may be refused because of another task.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn traceparent_mut(&mut self) -> &mut Option<Box<str>> {
        &mut self.traceparent
    }

    /// The bytes that the task brings: those of its body, of the message of its failure, and of its
    /// result.
    pub(in crate::core) fn bytes(&self) -> usize {
        self.body.len() + self.history.as_ref().map_or(0, |history| history.bytes())
    }

    /// The steps of a restored task.
    pub(in crate::core) fn steps(&self) -> &[Step] {
        self.history.as_ref().map_or(&[], |history| &history.steps)
    }

    /// The history of a restored task.
    pub(in crate::core) fn entries(&self) -> &[HistoryEntry] {
        self.history.as_ref().map_or(&[], |history| &history.entries)
    }

    /// What the put does about the task that has its key. The key of a schedule is never given up.
    pub(in crate::core) fn on_key_of(&self, found: &Found) -> OnKey {
        if found.shelf == Shelf::Recurring { OnKey::Reject } else { self.on_key }
    }

    pub(in crate::core) fn is_buried(&self) -> bool {
        self.restored_as == Some(TaskState::Buried)
    }

    /// Whether the task is one that is done and kept. It takes no place of its tube's capacity.
    pub(in crate::core) fn is_done(&self) -> bool {
        self.restored_as == Some(TaskState::Done)
    }

    /// As `of`, for a task of another store.
    fn restored(mut task: Restore) -> Result<PutRequest> {
        let restored_as = state(&task)?;
        let history = History::of(&mut task);
        let Restore { put, id, takes, .. } = task;
        let history = Some(history).filter(|history| !history.is_empty()).map(Box::new);
        let request = PutRequest { id, takes, restored_as, history, ..PutRequest::of(put) };
        if request.idempotency_key.is_some() {
            return Err(restored_with_token());
        }
        Ok(request)
    }

    /// Whether it brings nothing along from another store.
    pub(in crate::core) fn is_plain(&self) -> bool {
        let PutRequest { id, takes, restored_as, history, .. } = self;
        id.is_none() && *takes == 0 && restored_as.is_none() && history.is_none()
    }

    fn check_restored(&self) -> Result<()> {
        self.id.map_or(Ok(()), check_restored_id)?;
        if self.idempotency_key.is_some() && !self.is_plain() {
            return Err(restored_with_token());
        }
        if self.key.is_some() && self.on_key == OnKey::Replace && !self.is_plain() {
            return Err(Error::invalid(
                "a task that is replaced begins anew, without the id, the takes and the state of \
                 another store; leave them out, or keep the task that has the key",
            ));
        }
        match self.restored_as {
            Some(state) if !matches!(state, TaskState::Buried | TaskState::Done) => {
                Err(Error::invalid(format!("a task cannot be restored as {state}")))
            }
            Some(state) if self.delay > 0 => {
                Err(Error::invalid(format!("a task cannot be {state} and delayed")))
            }
            _ => Ok(()),
        }
    }

    /// The checks that need no tube, of a put of this process or of another one.
    pub(in crate::core) fn check(&self, max_body: usize) -> Result<()> {
        self.check_but_tags(max_body)?;
        check_distinct_tags(&self.tags)?;
        if self.is_plain() {
            return Ok(());
        }
        Err(Error::invalid("only restore_many puts tasks of another store"))
    }

    /// As `check`, for a put that replaces the task which has its key.
    pub(in crate::core) fn check_requeue(&self, max_body: usize) -> Result<()> {
        self.check(max_body)?;
        if self.key.is_some() && self.on_key == OnKey::Replace {
            return Ok(());
        }
        Err(Error::invalid("a task is requeued by the key of the task that it replaces"))
    }

    /// As `check`, for the tasks of one `put_many` or `restore_many`.
    pub(in crate::core) fn check_all(requests: &[PutRequest], max_body: usize) -> Result<()> {
        let is_restore = !requests.iter().all(PutRequest::is_plain);
        let mut batch = Batch::of(if is_restore { "restore_many" } else { "put_many" });
        for request in requests {
            if let Some(history) = &request.history {
                history.check(request.takes, request.restored_as, max_body)?;
            }
            request.check_but_tags(max_body)?;
            check_distinct_tags(&request.tags)?;
            request.check_restored()?;
            batch.add(request)?;
        }
        Ok(())
    }

    /// As `of`, for the tasks of one `put_many`. The iterator may be infinite: reading stops at
    /// the limits.
    pub(crate) fn many(
        tasks: impl IntoIterator<Item = Result<Encoded>>,
    ) -> Result<Vec<PutRequest>> {
        let requests = tasks.into_iter().map(|task| task.map(PutRequest::of));
        PutRequest::collect("put_many", requests)
    }

    /// As `many`, for the tasks of one `restore_many`.
    pub(crate) fn restored_many(
        tasks: impl IntoIterator<Item = Restore>,
    ) -> Result<Vec<PutRequest>> {
        PutRequest::collect("restore_many", tasks.into_iter().map(PutRequest::restored))
    }

    fn collect(
        verb: &'static str,
        tasks: impl Iterator<Item = Result<PutRequest>>,
    ) -> Result<Vec<PutRequest>> {
        let (mut requests, mut batch) = (Vec::new(), Batch::of(verb));
        for request in tasks {
            let request = request?;
            batch.add(&request)?;
            requests.push(request);
        }
        Ok(requests)
    }

    /// Refuses more tasks, bytes or parents than one call accepts.
    pub(in crate::core) fn check_many<'a>(
        verb: &'static str,
        mut tasks: impl Iterator<Item = &'a PutRequest>,
    ) -> Result<()> {
        let mut batch = Batch::of(verb);
        tasks.try_for_each(|task| batch.add(task))
    }

    pub(in crate::core) fn too_many(verb: &str) -> Error {
        Error::invalid(format!(
            "{verb} accepts at most {PUT_MANY_TASKS} tasks and {PUT_MANY_BYTES} bytes"
        ))
    }
}

/// The tasks of one call, as they are counted.
struct Batch {
    verb: &'static str,
    tasks: usize,
    bytes: usize,
    parents: usize,
}

impl Batch {
    fn of(verb: &'static str) -> Batch {
        Batch { verb, tasks: 0, bytes: 0, parents: 0 }
    }

    /// Refuses more than one call accepts.
    fn add(&mut self, request: &PutRequest) -> Result<()> {
        self.tasks += 1;
        self.bytes += request.bytes();
        self.parents += parents_in(request.after.as_deref());
        if self.parents > PUT_MANY_TASKS {
            return Err(Error::invalid(format!(
                "{} accepts at most {PUT_MANY_TASKS} parents of its tasks",
                self.verb
            )));
        }
        if self.tasks > PUT_MANY_TASKS || self.bytes > PUT_MANY_BYTES {
            return Err(PutRequest::too_many(self.verb));
        }
        Ok(())
    }
}

impl History {
    /// The history of a task that is restored. Takes its result, its entries and its steps.
    fn of(task: &mut Restore) -> History {
        History {
            forgiven: task.forgiven,
            buried_with: task.group.as_ref().map(|group| Failure::new(group.as_str(), "")),
            failure: task.failure.as_deref().map(cut),
            spawned_by: task.spawned_by,
            result: task.outcome.take().and_then(|outcome| outcome.result),
            entries: std::mem::take(&mut task.history),
            steps: std::mem::take(&mut task.steps),
            put_at: task.put_at.map(micros_of),
            ended_at: task.ended_at.map(micros_of),
        }
    }

    fn is_empty(&self) -> bool {
        let has_ended = self.buried_with.is_some()
            || self.failure.is_some()
            || self.result.is_some()
            || self.ended_at.is_some();
        let is_new = self.entries.is_empty() && self.steps.is_empty() && self.spawned_by.is_none();
        self.forgiven == 0 && !has_ended && is_new && self.put_at.is_none()
    }

    /// Refuses what no task of a store has.
    fn check(&self, takes: u32, state: Option<TaskState>, max_body: usize) -> Result<()> {
        let forgiven = self.forgiven;
        if forgiven > takes {
            return Err(Error::invalid(format!(
                "a task that was taken {takes} times cannot have {forgiven} forgiven takes"
            )));
        }
        if self.buried_with.is_some() && state != Some(TaskState::Buried) {
            return Err(Error::invalid("only a buried task can be in a failure group"));
        }
        self.failure.as_ref().map_or(Ok(()), check_failure)?;
        self.buried_with.as_ref().map_or(Ok(()), Failure::check)?;
        HistoryEntry::check_all(&self.entries)?;
        Step::check_all(&self.steps)?;
        if state == Some(TaskState::Done) && !self.steps.is_empty() {
            return Err(Error::invalid("a done task has no steps; leave them out"));
        }
        if state != Some(TaskState::Done) && self.result.is_some() {
            return Err(Error::invalid("only a done task has a result"));
        }
        self.result.as_ref().map_or(Ok(()), |result| check_size("result", result, max_body))?;
        self.steps.iter().try_for_each(|step| check_size("value of a step", &step.value, max_body))
    }

    fn bytes(&self) -> usize {
        let message = self.failure.as_ref().map_or(0, |failure| failure.message.len());
        let entries: usize = self.entries.iter().map(HistoryEntry::bytes).sum();
        let steps: usize = self.steps.iter().map(|step| step.name.len() + step.value.len()).sum();
        message + self.result.as_ref().map_or(0, Vec::len) + entries + steps
    }
}

/// The state of a restored task that is buried or done.
fn state(task: &Restore) -> Result<Option<TaskState>> {
    match (task.buried, task.outcome.is_some()) {
        (true, true) => Err(Error::invalid("a task cannot be buried and done")),
        (true, false) => Ok(Some(TaskState::Buried)),
        (false, true) => Ok(Some(TaskState::Done)),
        (false, false) => Ok(None),
    }
}

/// A failure with a message of the length that a worker can report.
fn cut(failure: &LastFailure) -> LastFailure {
    let message = Failure::new("", failure.message.as_str()).message().to_owned();
    LastFailure { message, ..failure.clone() }
}

/// Refuses a failure that no worker can report.
fn check_failure(failure: &LastFailure) -> Result<()> {
    Failure::check_parts(&failure.group, &failure.message)?;
    if failure.owner.as_ref().is_some_and(|label| label.len() > LABEL_MAX) {
        return Err(Error::invalid(format!(
            "the owner of a failure must have at most {LABEL_MAX} bytes"
        )));
    }
    Ok(())
}
