//! Puts: what a task must be, whether there is room, and its first state.

use std::sync::Arc;

use tubewell_drivers::{Draft, Driver, Header, Load, NEVER, SUB_QUEUE_MAX, Shelf};

use crate::commit::{Change, Visibility};
use crate::core::state::{Core, Decided, FILE, PutRequest, TubeState};
use crate::{Error, EventKind, Receipt, Result, State};

/// How many ids the file sets aside at a time.
const ID_BLOCK: u64 = 1 << 20;

/// What a task takes up in the file beside its body, generously.
const FOOTING: u64 = 512;

impl TubeState {
    /// Refuses options that the driver does not support.
    fn check_put(&self, request: &PutRequest) -> Result<()> {
        let traits = self.definition.traits();
        let timed = [
            ("a priority", request.pri.is_some()),
            ("a ttl", request.ttl.is_some()),
            ("a ttr", request.ttr.is_some()),
            ("a delay", request.delay > 0),
        ];
        for (what, given) in timed {
            if given && !traits.timed {
                return Err(self.unsupported(what));
            }
        }
        if request.sub.is_some() && !traits.sub_queued {
            return Err(self.unsupported("sub-queues"));
        }
        Ok(())
    }

    /// The header, but for the times.
    fn header_of(&self, request: &PutRequest, driver: &dyn Driver) -> Result<Header> {
        self.check_put(request)?;
        let pri = request.pri.unwrap_or(self.definition.pri);
        let draft = Draft::new(pri, request.sub.as_deref(), &request.body);
        let sub = if self.definition.sub_queued { driver.sub_queue(&draft) } else { "".into() };
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
            expires_at: NEVER,
            ttr: NEVER,
            ready_at: 0,
            takes: 0,
            size: request.body.len() as u64,
            body_checksum: request.body.checksum(),
            sub: if sub.is_empty() { Arc::default() } else { Arc::from(&*sub) },
        })
    }

    /// How full the tube is, with so many tasks more.
    pub(in crate::core) fn load(&self, more: u64) -> Load {
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
            && !tube.waiting_puts.is_empty()
        {
            tube.check_put(request)?;
            return Err(tube.full());
        }
        self.put_now(number, request)
    }

    pub(in crate::core) fn put_now(
        &mut self,
        number: u32,
        request: &PutRequest,
    ) -> Result<Decided<Receipt>> {
        let header = self.draft(number, request, 0)?;
        self.check_disk_space(number, request.body.len(), 1)?;
        let visibility = self.visibility_of_put(number, 1);
        let (id, state) = self.store(number, request, header, visibility)?;
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
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
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.waiting_puts.is_empty()) {
            return Err(tube.full());
        }
        let drafts = (0..).zip(requests).map(|(more, request)| self.draft(number, request, more));
        let headers = drafts.collect::<Result<Vec<Header>>>()?;
        self.check_disk_space(number, bytes, requests.len())?;
        self.look_up_heads(number, headers.iter().map(|header| &header.sub))?;
        let visibility = self.visibility_of_put(number, requests.len() as u64);
        let stored = self.publish_together(|core| {
            let tasks = requests.iter().zip(headers);
            tasks
                .map(|(request, header)| core.store(number, request, header, visibility))
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(self.decided(number, visibility, |commit| {
            stored.into_iter().map(|(id, state)| Receipt { id, state, commit }).collect()
        }))
    }

    /// As `visibility`. As long as the file has not set an id aside nobody is to see it, takers no more
    /// than whoever puts: another life might give it again.
    fn visibility_of_put(&self, number: u32, tasks: u64) -> Visibility {
        let at_risk = self.ids.next.saturating_add(tasks) > self.ids.reserved;
        match self.visibility(number) {
            Visibility::Within(_) if at_risk => Visibility::Flushed,
            visibility => visibility,
        }
    }

    /// Everything that can speak against a put is asked here; nothing is edited yet.
    fn draft(&self, number: u32, request: &PutRequest, more: u64) -> Result<Header> {
        let tube = self.tubes.get(&number).ok_or(Error::Closed)?;
        let driver = tube.driver(|| self.known_drivers())?;
        let mut header = tube.header_of(request, driver)?;
        if !driver.admit(&tube.load(more)) {
            return Err(tube.full());
        }
        let now = self.now.timeline;
        header.created = now;
        if tube.definition.timed {
            let ttl = request.ttl.unwrap_or(tube.definition.ttl);
            header.expires_at = now.saturating_add(ttl).saturating_add(request.delay);
            header.ttr = request.ttr.unwrap_or(tube.definition.ttr);
            if request.delay > 0 {
                header.ready_at = now.saturating_add(request.delay);
            }
        }
        Ok(header)
    }

    /// Refuses tasks that the disk has no room for. The engine's pages are up to twice as large as
    /// what is in them.
    fn check_disk_space(&mut self, number: u32, bytes: usize, tasks: usize) -> Result<()> {
        let buffer = &self.buffers[FILE];
        let in_file = self.buffer_of(number) == FILE;
        let Some(engine) = buffer.engine().filter(|_| in_file) else { return Ok(()) };
        let footing = (bytes as u64).saturating_add(FOOTING.saturating_mul(tasks as u64));
        let uncommitted_bytes = buffer.uncommitted_bytes() + engine.uncheckpointed().1;
        let on_their_way = (uncommitted_bytes as u64).saturating_mul(2);
        let inside = self.free_inside >= footing && engine.has_ballast();
        if !engine.admits(footing.saturating_mul(2), on_their_way) && !inside {
            return Err(Error::DiskFull { path: engine.counters().name().to_owned() });
        }
        self.free_inside = self.free_inside.saturating_sub(footing);
        Ok(())
    }

    /// A task is gone from the file: what it took up can be used again.
    pub(in crate::core) fn note_freed(&mut self, number: u32, header: &Header) {
        if self.buffer_of(number) == FILE {
            let footing = header.size.saturating_add(FOOTING);
            self.free_inside = self.free_inside.saturating_add(footing);
        }
    }

    fn store(
        &mut self,
        number: u32,
        request: &PutRequest,
        header: Header,
        visibility: Visibility,
    ) -> Result<(u64, State)> {
        let id = self.next_id();
        let shelf = if header.ready_at > 0 { Shelf::Delayed } else { Shelf::Ready };
        let row = self.edit(number, |ledger| ledger.insert(id, shelf, &header, &request.body))?;
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.places += 1;
        }
        let state = State::on_shelf(shelf);
        let change = self.change(number, id, EventKind::Put, None, state, Some(header));
        self.make_visible(Change { row: Some(row), ..change }, visibility);
        Ok((id, state))
    }

    fn next_id(&mut self) -> u64 {
        let id = self.ids.next;
        self.ids.next += 1;
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
