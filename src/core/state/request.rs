//! A put, checked and converted before the core is locked.

use std::sync::Arc;

use tubewell_drivers::{
    Body, Found, KEY_MAX, PARENTS_MAX, PUT_MANY_BYTES, PUT_MANY_TASKS, SUB_QUEUE_MAX, Shelf,
    TAG_MAX, TAGS_MAX, TOKEN_MAX,
};

use super::policies::check_max_attempts;
use crate::micros::micros_ceil;
use crate::moment::micros_of;
use crate::owner::LABEL_MAX;
use crate::task::After;
use crate::{
    Error, Failure, HistoryEntry, LastFailure, OnKey, Put, Restore, Result, SpawnedBy, State, Step,
};

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

/// Refuses a text that cannot be the token of a put.
fn check_token(token: &str) -> Result<()> {
    if (1..=TOKEN_MAX).contains(&token.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a token must have 1 to {TOKEN_MAX} bytes; this one has {}",
        token.len()
    )))
}

/// The tags of one task, as a call names them: each once, in the order of their first mention.
/// Refuses too many, and a text that cannot be a tag.
pub(crate) fn check_tags(
    tags: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Arc<[Arc<str>]>> {
    let mut checked: Vec<Arc<str>> = Vec::new();
    for tag in tags {
        let tag = tag.as_ref();
        if !(1..=TAG_MAX).contains(&tag.len()) {
            return Err(Error::invalid(format!(
                "a tag must have 1 to {TAG_MAX} bytes; this one has {}",
                tag.len()
            )));
        }
        if checked.iter().any(|known| **known == *tag) {
            continue;
        }
        if checked.len() == TAGS_MAX {
            return Err(too_many_tags());
        }
        checked.push(tag.into());
    }
    Ok(if checked.is_empty() { Arc::default() } else { checked.into() })
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

/// A put, after the checks and conversions that need no lock.
#[derive(Clone, Debug)]
pub(crate) struct PutRequest {
    pub(in crate::core) pri: Option<u32>,
    pub(in crate::core) ttl: Option<u64>,
    pub(in crate::core) ttr: Option<u64>,
    pub(in crate::core) delay: u64,
    /// Microseconds of the wall clock.
    pub(in crate::core) not_before: Option<u64>,
    pub(in crate::core) sub: Option<String>,
    pub(in crate::core) max_attempts: Option<u32>,
    pub(in crate::core) key: Option<Arc<str>>,
    pub(in crate::core) on_key: OnKey,
    pub(in crate::core) token: Option<Box<str>>,
    pub(in crate::core) tags: Arc<[Arc<str>]>,
    pub(in crate::core) body: Body,
    pub(in crate::core) after: Option<Box<After>>,
    /// The id in the other store, for a task that is restored with it.
    pub(in crate::core) id: Option<u64>,
    /// The number of takes in the other store; 0 for a new task.
    pub(in crate::core) takes: u32,
    /// The state of a task that is restored as buried or done.
    pub(in crate::core) restored_as: Option<State>,
    /// What else the other store knew of a restored task.
    pub(in crate::core) history: Option<Box<History>>,
}

/// The attempts of a restored task, its result, the entries of its history, and its steps.
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
}

impl PutRequest {
    /// Checks what can be checked without the tube.
    pub(crate) fn new(put: Put, max_body: usize) -> Result<PutRequest> {
        check_size("body", &put.body, max_body)?;
        if put.sub_queue.as_ref().is_some_and(|name| name.len() > SUB_QUEUE_MAX) {
            return Err(Error::invalid(format!(
                "the name of a sub-queue must have at most {SUB_QUEUE_MAX} bytes"
            )));
        }
        check_max_attempts(put.max_attempts)?;
        check_parents(parents_in(put.after.as_deref()))?;
        let keys = put.after.iter().flat_map(|after| &after.keys);
        keys.into_iter().try_for_each(|key| check_key(key))?;
        put.key.as_deref().map_or(Ok(()), check_key)?;
        put.token.as_deref().map_or(Ok(()), check_token)?;
        Ok(PutRequest {
            pri: put.pri,
            ttl: put.ttl.map(micros_ceil),
            ttr: put.ttr.map(micros_ceil),
            delay: micros_ceil(put.delay),
            not_before: put.not_before.map(micros_of),
            sub: put.sub_queue,
            max_attempts: put.max_attempts,
            key: put.key.map(Arc::from),
            on_key: put.on_key,
            token: put.token,
            tags: check_tags(put.tags)?,
            after: put.after,
            ..PutRequest::of_body(Body::new(put.body))
        })
    }

    /// As `new`, for the task that has this key, which it replaces.
    pub(crate) fn requeue(key: &str, mut put: Put, max_body: usize) -> Result<PutRequest> {
        if let Some(other) = put.key.as_deref().filter(|other| *other != key) {
            return Err(Error::invalid(format!(
                "the task is requeued by the key {key:?}, but it is put with the key {other:?}; \
                 leave out the second one"
            )));
        }
        (put.key, put.on_key) = (Some(key.to_owned()), OnKey::Replace);
        PutRequest::new(put, max_body)
    }

    /// A put of this body, with the options of its tube.
    pub(in crate::core) fn of_body(body: Body) -> PutRequest {
        PutRequest {
            pri: None,
            ttl: None,
            ttr: None,
            delay: 0,
            not_before: None,
            sub: None,
            max_attempts: None,
            key: None,
            on_key: OnKey::default(),
            token: None,
            tags: Arc::default(),
            body,
            after: None,
            id: None,
            takes: 0,
            restored_as: None,
            history: None,
        }
    }

    /// Whether the put can be made again without a second task.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the task has a key, so that a put may be refused because of another task.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
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
        self.restored_as == Some(State::Buried)
    }

    /// Whether the task is one that is done and kept. It takes no place of its tube's capacity.
    pub(in crate::core) fn is_done(&self) -> bool {
        self.restored_as == Some(State::Done)
    }

    /// As `new`, for a task of another store.
    fn restored(mut task: Restore, max_body: usize) -> Result<PutRequest> {
        let restored_as = state(&task)?;
        let history = History::of(&mut task)?;
        let result = history.as_ref().and_then(|history| history.result.as_ref());
        result.map_or(Ok(()), |result| check_size("result", result, max_body))?;
        for step in history.iter().flat_map(|history| &history.steps) {
            check_size("value of a step", &step.value, max_body)?;
        }
        let Restore { put, id, takes, .. } = task;
        let request = PutRequest::new(put, max_body)?;
        id.map_or(Ok(()), check_restored_id)?;
        if request.token.is_some() {
            return Err(Error::invalid(
                "a task cannot be restored with a token; a restored id or a key can be restored once",
            ));
        }
        let is_plain = id.is_none() && takes == 0 && restored_as.is_none() && history.is_none();
        if request.key.is_some() && request.on_key == OnKey::Replace && !is_plain {
            return Err(Error::invalid(
                "a task that is replaced begins anew, without the id, the takes and the state of \
                 another store; leave them out, or keep the task that has the key",
            ));
        }
        if let Some(state) = restored_as.filter(|_| request.delay > 0) {
            return Err(Error::invalid(format!("a task cannot be {state} and delayed")));
        }
        Ok(PutRequest { id, takes, restored_as, history, ..request })
    }

    /// As `new`, for the tasks of one `put_many`. The iterator may be infinite: reading stops at
    /// the limits.
    pub(crate) fn many<T: Into<Put>>(
        tasks: impl IntoIterator<Item = T>,
        max_body: usize,
    ) -> Result<Vec<PutRequest>> {
        let requests = tasks.into_iter().map(|task| PutRequest::new(task.into(), max_body));
        PutRequest::collect("put_many", requests)
    }

    /// As `many`, for the tasks of one `restore_many`.
    pub(crate) fn restored_many(
        tasks: impl IntoIterator<Item = Restore>,
        max_body: usize,
    ) -> Result<Vec<PutRequest>> {
        let requests = tasks.into_iter().map(|task| PutRequest::restored(task, max_body));
        PutRequest::collect("restore_many", requests)
    }

    fn collect(
        verb: &str,
        tasks: impl Iterator<Item = Result<PutRequest>>,
    ) -> Result<Vec<PutRequest>> {
        let (mut requests, mut bytes, mut parents) = (Vec::new(), 0, 0);
        for request in tasks {
            let request = request?;
            bytes += request.bytes();
            parents += parents_in(request.after.as_deref());
            if parents > PUT_MANY_TASKS {
                return Err(Error::invalid(format!(
                    "{verb} accepts at most {PUT_MANY_TASKS} parents of its tasks"
                )));
            }
            if requests.len() == PUT_MANY_TASKS || bytes > PUT_MANY_BYTES {
                return Err(PutRequest::too_many(verb));
            }
            requests.push(request);
        }
        Ok(requests)
    }

    /// Refuses more tasks or bytes than one call accepts.
    pub(in crate::core) fn check_many<'a>(
        verb: &str,
        mut tasks: impl Iterator<Item = &'a PutRequest> + Clone,
    ) -> Result<()> {
        let bytes: usize = tasks.clone().map(PutRequest::bytes).sum();
        if bytes > PUT_MANY_BYTES || tasks.nth(PUT_MANY_TASKS).is_some() {
            return Err(PutRequest::too_many(verb));
        }
        Ok(())
    }

    fn too_many(verb: &str) -> Error {
        Error::invalid(format!(
            "{verb} accepts at most {PUT_MANY_TASKS} tasks and {PUT_MANY_BYTES} bytes"
        ))
    }
}

impl History {
    /// Checks the history of a task that is restored, and takes its result; `None` if it has none.
    fn of(task: &mut Restore) -> Result<Option<Box<History>>> {
        let Restore { takes, forgiven, buried, .. } = *task;
        if forgiven > takes {
            return Err(Error::invalid(format!(
                "a task that was taken {takes} times cannot have {forgiven} forgiven takes"
            )));
        }
        if task.group.is_some() && !buried {
            return Err(Error::invalid("only a buried task can be in a failure group"));
        }
        let buried_with = task.group.as_ref().map(|group| Failure::new(group.as_str(), ""));
        let failure = task.failure.as_deref().map(checked).transpose()?;
        buried_with.as_ref().map_or(Ok(()), Failure::check)?;
        let is_done = task.outcome.is_some();
        let result = task.outcome.take().and_then(|outcome| outcome.result);
        let entries = std::mem::take(&mut task.history);
        HistoryEntry::check_all(&entries)?;
        let steps = std::mem::take(&mut task.steps);
        Step::check_all(&steps)?;
        if is_done && !steps.is_empty() {
            return Err(Error::invalid("a done task has no steps; leave them out"));
        }
        let spawned_by = task.spawned_by;
        let has_ended = buried_with.is_some() || failure.is_some() || result.is_some();
        let is_new = entries.is_empty() && steps.is_empty() && spawned_by.is_none();
        if forgiven == 0 && !has_ended && is_new {
            return Ok(None);
        }
        let history =
            History { forgiven, buried_with, failure, spawned_by, result, entries, steps };
        Ok(Some(Box::new(history)))
    }

    fn bytes(&self) -> usize {
        let message = self.failure.as_ref().map_or(0, |failure| failure.message.len());
        let entries: usize = self.entries.iter().map(HistoryEntry::bytes).sum();
        let steps: usize = self.steps.iter().map(|step| step.name.len() + step.value.len()).sum();
        message + self.result.as_ref().map_or(0, Vec::len) + entries + steps
    }
}

/// The state of a restored task that is buried or done.
fn state(task: &Restore) -> Result<Option<State>> {
    match (task.buried, task.outcome.is_some()) {
        (true, true) => Err(Error::invalid("a task cannot be buried and done")),
        (true, false) => Ok(Some(State::Buried)),
        (false, true) => Ok(Some(State::Done)),
        (false, false) => Ok(None),
    }
}

/// A failure within the limits of one that a worker reports.
fn checked(failure: &LastFailure) -> Result<LastFailure> {
    let reported = Failure::new(failure.group.as_str(), failure.message.as_str());
    reported.check()?;
    if failure.owner.as_ref().is_some_and(|label| label.len() > LABEL_MAX) {
        return Err(Error::invalid(format!(
            "the owner of a failure must have at most {LABEL_MAX} bytes"
        )));
    }
    Ok(LastFailure { message: reported.message().to_owned(), ..failure.clone() })
}
