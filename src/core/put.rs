//! Puts: what a task must be, whether there is room, and its first state.

use std::collections::HashSet;
use std::sync::Arc;

use tubewell_drivers::{
    Body, Draft, Driver, Header, Load, NEVER, PUT_MANY_BYTES, PUT_MANY_TASKS, SUB_QUEUE_MAX, Shelf,
};

use super::publish::state_on;
use super::{Change, Core, Decided, FILE, Ids, Settle, TubeState};
use crate::clock::micros_ceil;
use crate::{Error, EventKind, Put, Receipt, Restore, Result, State};

/// How many ids the file sets aside at a time.
const ID_BLOCK: u64 = 1 << 20;

/// The highest id that is restored: so many are left for the puts that follow.
const RESTORED_ID_MAX: u64 = 1 << 60;

/// What a task takes up in the file beside its body, generously.
const FOOTING: u64 = 512;

/// A put, with everything done that needs no lock.
#[derive(Clone, Debug)]
pub(crate) struct PutRequest {
    pri: Option<u32>,
    ttl: Option<u64>,
    ttr: Option<u64>,
    delay: u64,
    sub: Option<String>,
    body: Body,
    /// As the task had them in another store, if it is restored.
    id: Option<u64>,
    takes: u32,
    buried: bool,
}

impl PutRequest {
    /// Checks what can be checked without the tube.
    pub(crate) fn new(put: Put, max_body: usize) -> Result<PutRequest> {
        if put.body.len() > max_body {
            return Err(Error::invalid(format!(
                "the body has {} bytes, the limit is {max_body}",
                put.body.len()
            )));
        }
        if put.sub_queue.as_ref().is_some_and(|name| name.len() > SUB_QUEUE_MAX) {
            return Err(Error::invalid(format!(
                "the name of a sub-queue has at most {SUB_QUEUE_MAX} bytes"
            )));
        }
        Ok(PutRequest {
            pri: put.pri,
            ttl: put.ttl.map(micros_ceil),
            ttr: put.ttr.map(micros_ceil),
            delay: micros_ceil(put.delay),
            sub: put.sub_queue,
            body: Body::new(put.body),
            id: None,
            takes: 0,
            buried: false,
        })
    }

    /// As `new`, for a task of another store.
    fn restored(task: Restore, max_body: usize) -> Result<PutRequest> {
        let Restore { put, id, takes, buried } = task;
        let request = PutRequest::new(put, max_body)?;
        if let Some(id) = id.filter(|id| *id > RESTORED_ID_MAX) {
            return Err(Error::invalid(format!(
                "the id {id} is over the limit of restored ids, {RESTORED_ID_MAX}"
            )));
        }
        if buried && request.delay > 0 {
            return Err(Error::invalid("a task cannot be buried and delayed"));
        }
        Ok(PutRequest { id, takes, buried, ..request })
    }

    /// As `new`, for tasks that are put together. Their number may have no end.
    pub(crate) fn many<T: Into<Put>>(
        tasks: impl IntoIterator<Item = T>,
        max_body: usize,
    ) -> Result<Vec<PutRequest>> {
        let requests = tasks.into_iter().map(|task| PutRequest::new(task.into(), max_body));
        PutRequest::collect("put_many", requests)
    }

    /// As `many`, for tasks of another store.
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
        let (mut requests, mut bytes) = (Vec::new(), 0);
        for request in tasks {
            let request = request?;
            bytes += request.body.len();
            if requests.len() == PUT_MANY_TASKS || bytes > PUT_MANY_BYTES {
                return Err(Error::invalid(format!(
                    "{verb} takes at most {PUT_MANY_TASKS} tasks and {PUT_MANY_BYTES} bytes; there are more"
                )));
            }
            requests.push(request);
        }
        Ok(requests)
    }

    fn check(&self, tube: &TubeState) -> Result<()> {
        let traits = tube.definition.traits();
        let timed = [
            ("a priority", self.pri.is_some()),
            ("a ttl", self.ttl.is_some()),
            ("a ttr", self.ttr.is_some()),
            ("a delay", self.delay > 0),
        ];
        for (what, given) in timed {
            if given && !traits.timed {
                return Err(tube.unsupported(what));
            }
        }
        if self.sub.is_some() && !traits.sub_queued {
            return Err(tube.unsupported("sub-queues"));
        }
        Ok(())
    }

    /// The header, but for the times.
    fn header(&self, tube: &TubeState, driver: &dyn Driver) -> Result<Header> {
        self.check(tube)?;
        let pri = self.pri.unwrap_or(tube.definition.pri);
        let draft = Draft::new(pri, self.sub.as_deref(), &self.body);
        let sub = if tube.definition.sub_queued { driver.sub_queue(&draft) } else { "".into() };
        if sub.len() > SUB_QUEUE_MAX {
            return Err(Error::invalid(format!(
                "the driver's name of a sub-queue has {} bytes, the limit is {SUB_QUEUE_MAX}",
                sub.len()
            )));
        }
        Ok(Header {
            pri,
            order: driver.order(&draft),
            created: 0,
            dead: NEVER,
            ttr: NEVER,
            wake: 0,
            takes: self.takes,
            size: self.body.len() as u64,
            apart: self.body.apart(),
            sub: if sub.is_empty() { Arc::default() } else { Arc::from(&*sub) },
        })
    }
}

impl TubeState {
    /// How full the tube is, with so many tasks more.
    pub(super) fn load(&self, more: u64) -> Load {
        Load::new(self.places + more, self.definition.capacity)
    }

    fn full(&self) -> Error {
        Error::Full { tube: self.definition.name.to_string(), capacity: self.definition.capacity }
    }
}

impl Core {
    /// Puts a task, or says that there is no room. Nobody overtakes those who wait for room.
    pub(crate) fn put(&mut self, number: u32, request: &PutRequest) -> Result<Decided<Receipt>> {
        if let Some(tube) = self.tubes.get(&number)
            && !tube.putters.is_empty()
        {
            request.check(tube)?;
            return Err(tube.full());
        }
        self.put_now(number, request)
    }

    pub(super) fn put_now(
        &mut self,
        number: u32,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        let header = self.draft(number, request, 0)?;
        self.check_room(number, request.body.len(), 1)?;
        let settle = self.settles_put(number, self.ids.next.saturating_add(1));
        let (id, state) = self.store(number, request, header, settle)?;
        Ok(self.decided(number, settle, |commit| Receipt { id, state, commit }))
    }

    /// Puts all of these tasks, or none.
    pub(crate) fn put_many(
        &mut self,
        number: u32,
        requests: &[PutRequest],
    ) -> Result<Decided<Vec<Receipt>>> {
        let bytes = requests.iter().map(|request| request.body.len()).sum();
        if requests.is_empty() {
            return Ok(Decided { answer: Vec::new(), wait: None });
        }
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.putters.is_empty()) {
            return Err(tube.full());
        }
        let drafts = (0..).zip(requests).map(|(more, request)| self.draft(number, request, more));
        let headers = drafts.collect::<Result<Vec<Header>>>()?;
        let next = self.check_ids(requests)?;
        self.check_room(number, bytes, requests.len())?;
        self.look_up_heads(number, headers.iter().map(|header| &header.sub))?;
        let settle = self.settles_put(number, next);
        let stored = self.together(|core| {
            let tasks = requests.iter().zip(headers);
            tasks
                .map(|(request, header)| core.store(number, request, header, settle))
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(self.decided(number, settle, |commit| {
            stored.into_iter().map(|(id, state)| Receipt { id, state, commit }).collect()
        }))
    }

    /// Checks the ids of tasks that are restored; returns the next id after these tasks.
    fn check_ids(&self, requests: &[PutRequest]) -> Result<u64> {
        let Ids { mut next, mut floor, .. } = self.ids;
        let mut named = HashSet::new();
        for request in requests {
            match request.id {
                None => {
                    next = next.saturating_add(1);
                    floor = next;
                }
                Some(id) if id < floor || self.restored.contains(&id) || !named.insert(id) => {
                    return Err(Error::IdUsed { id });
                }
                Some(id) => next = next.max(id.saturating_add(1)),
            }
        }
        Ok(next)
    }

    /// As `settles`; `next` is the next id after the put. As long as the file has not set an id aside nobody is to see it, takers no more
    /// than whoever puts: another life might give it again.
    fn settles_put(&self, number: u32, next: u64) -> Settle {
        let at_risk = next > self.ids.reserved;
        match self.settles(number) {
            Settle::Within(_) if at_risk => Settle::Flushed,
            settle => settle,
        }
    }

    /// Everything that can speak against a put is asked here; nothing is edited yet.
    fn draft(&self, number: u32, request: &PutRequest, more: u64) -> Result<Header> {
        let tube = self.tubes.get(&number).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.known_drivers())?;
        let mut header = request.header(tube, driver)?;
        if !driver.admit(&tube.load(more)) {
            return Err(tube.full());
        }
        let now = self.now.line;
        header.created = now;
        if tube.definition.timed {
            let ttl = request.ttl.unwrap_or(tube.definition.ttl);
            header.dead = now.saturating_add(ttl).saturating_add(request.delay);
            header.ttr = request.ttr.unwrap_or(tube.definition.ttr);
            if request.delay > 0 {
                header.wake = now.saturating_add(request.delay);
            }
        }
        Ok(header)
    }

    /// Refuses tasks that the disk has no room for. The engine's pages are up to twice as large as
    /// what is in them.
    fn check_room(&mut self, number: u32, bytes: usize, tasks: usize) -> Result<()> {
        let lane = &self.lanes[FILE];
        let in_file = self.lane_of(number) == FILE;
        let Some(engine) = lane.engine().filter(|_| in_file) else { return Ok(()) };
        let footing = (bytes as u64).saturating_add(FOOTING.saturating_mul(tasks as u64));
        let unwritten = lane.unwritten() + engine.unsettled().1;
        let on_their_way = (unwritten as u64).saturating_mul(2);
        let inside = self.room_inside >= footing && engine.has_ballast();
        if !engine.admits(footing.saturating_mul(2), on_their_way) && !inside {
            return Err(Error::DiskFull { path: engine.counters().name().to_owned() });
        }
        self.room_inside = self.room_inside.saturating_sub(footing);
        Ok(())
    }

    /// A task is gone from the file: what it took up can be used again.
    pub(super) fn note_room(&mut self, number: u32, header: &Header) {
        if self.lane_of(number) == FILE {
            let footing = header.size.saturating_add(FOOTING);
            self.room_inside = self.room_inside.saturating_add(footing);
        }
    }

    fn store(
        &mut self,
        number: u32,
        request: &PutRequest,
        header: Header,
        settle: Settle,
    ) -> Result<(u64, State)> {
        let id = self.id_of(request);
        let shelf = match header.wake {
            _ if request.buried => Shelf::Buried,
            0 => Shelf::Ready,
            _ => Shelf::Delayed,
        };
        let row = self.edit(number, |books| books.insert(id, shelf, &header, &request.body))?;
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.places += 1;
        }
        let state = state_on(shelf);
        let change = self.change(number, id, EventKind::Put, None, state, Some(header));
        self.settle(Change { row: Some(row), ..change }, settle);
        Ok((id, state))
    }

    /// The id that the task is given, or the one it had, which was checked.
    fn id_of(&mut self, request: &PutRequest) -> u64 {
        if let Some(id) = request.id {
            self.restored.insert(id);
            self.ids.next = self.ids.next.max(id + 1);
            return id;
        }
        let id = self.ids.next;
        self.ids.next += 1;
        self.ids.floor = self.ids.next;
        if !self.restored.is_empty() {
            // All of them are below the floor now.
            self.restored = HashSet::new();
        }
        id
    }

    /// What the next commit is to reserve: half a block ahead of the ids in use at least.
    pub(crate) fn reserve_ids(&mut self) -> u64 {
        if self.ids.reserved.saturating_sub(self.ids.next) < ID_BLOCK / 2 {
            self.ids.reserving = self.ids.next + ID_BLOCK;
        }
        self.ids.reserving
    }
}
