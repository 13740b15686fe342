//! The poller and its waker, with the interface of mio.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::{Interest, Token};

use super::kernel::{Id, Kernel, Ready, State, seldom};

/// What a poller can be told of.
pub(crate) trait Source {
    fn id(&self) -> Id;
}

/// Waits until sockets are ready.
pub(crate) struct Poll {
    registry: Registry,
}

/// Says what a poller is told.
pub(crate) struct Registry {
    kernel: Arc<Kernel>,
    poller: Id,
}

/// Wakes a poller.
pub(crate) struct Waker {
    kernel: Arc<Kernel>,
    id: Id,
}

/// What a poller was told.
pub(crate) struct Events(Vec<Event>);

/// What one socket is ready for.
pub(crate) struct Event {
    token: Token,
    ready: Ready,
}

impl Poll {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn new() -> io::Result<Poll> {
        let kernel = Kernel::current();
        let poller = kernel.call(State::new_id);
        Ok(Poll { registry: Registry { kernel, poller } })
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn poll(&mut self, into: &mut Events, most: Option<Duration>) -> io::Result<()> {
        into.0.clear();
        if seldom() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Registry { kernel, poller } = &self.registry;
        let reported = kernel.wait(most, |state| {
            let reported = state.take_reports(*poller);
            (!reported.is_empty()).then_some(reported)
        });
        let events = reported.into_iter().flatten().map(|(token, ready)| Event { token, ready });
        into.0.extend(events);
        Ok(())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let Registry { kernel, poller } = &self.registry;
        kernel.call(|state| state.close(*poller));
    }
}

impl Registry {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn try_clone(&self) -> io::Result<Registry> {
        Ok(Registry { kernel: self.kernel.clone(), poller: self.poller })
    }

    pub(crate) fn register(
        &self,
        source: &mut impl Source,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        reregister(self, source, token, interest)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn deregister(&self, source: &mut impl Source) -> io::Result<()> {
        self.kernel.call(|state| state.forget(source.id()));
        Ok(())
    }
}

/// Changes what is reported of a socket. Reports at once what it is ready for.
#[expect(clippy::unnecessary_wraps, reason = "as the real one")]
pub(crate) fn reregister(
    registry: &Registry,
    source: &impl Source,
    token: Token,
    interest: Interest,
) -> io::Result<()> {
    registry.kernel.call(|state| state.watch(source.id(), registry.poller, token, interest));
    Ok(())
}

impl Waker {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Waker> {
        let kernel = registry.kernel.clone();
        let id = kernel.call(|state| {
            let id = state.new_id();
            state.watch(id, registry.poller, token, Interest::READABLE);
            id
        });
        Ok(Waker { kernel, id })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn wake(&self) -> io::Result<()> {
        self.kernel.call(|state| state.wake(self.id));
        Ok(())
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.kernel.call(|state| state.close(self.id));
    }
}

impl Events {
    pub(crate) fn with_capacity(capacity: usize) -> Events {
        Events(Vec::with_capacity(capacity))
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Event {
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.ready.readable
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.ready.writable
    }

    pub(crate) fn is_read_closed(&self) -> bool {
        self.ready.read_closed
    }

    pub(crate) fn is_error(&self) -> bool {
        self.ready.error
    }
}
