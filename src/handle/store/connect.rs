//! Connecting to a store that another process serves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tubewell_wire::{Address, ClientOptions, WireError};

use super::Store;
use crate::connection::{Connection, FRAME_MAX, check_secret};
use crate::handle::store_handle::StoreHandle;
use crate::values::owner::check_label;
use crate::{Error, Result};

/// Connects to a store that another process [serves](crate::expert::StoreAdmin::serve), at an address such as
/// `unix:app.sock`. As [`ConnectOptions::connect`], with the default options.
///
/// # Errors
/// Those of [`ConnectOptions::connect`].
pub fn connect(url: &str) -> Result<Store> {
    ConnectOptions::new().connect(url)
}

/// How to connect to a store that another process [serves](crate::expert::StoreAdmin::serve).
#[derive(Clone, Default)]
#[must_use = "nothing is connected until connect is called"]
pub struct ConnectOptions {
    secret: Option<Vec<u8>>,
    label: Option<Arc<str>>,
    timeout: Option<Duration>,
    trusted_user: Option<u32>,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("ConnectOptions").field("label", &self.label).finish_non_exhaustive()
    }
}

impl ConnectOptions {
    /// No secret, no label, and 5 seconds.
    pub fn new() -> ConnectOptions {
        ConnectOptions::default()
    }

    /// The secret that the owner [has given](crate::ServeOptions::secret), for TCP addresses. Default: none.
    /// An owner that has no secret is refused if there is one here.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> ConnectOptions {
        self.secret = Some(secret.into());
        self
    }

    /// What people know the own session of the connection by, as with
    /// [`session`](Store::session). Default: none.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> ConnectOptions {
        self.label = Some(label.into());
        self
    }

    /// How long the first connection may take, and how long calls wait for a new connection after one
    /// has broken. Default: 5 seconds. If no process listens at the address, the first connection
    /// fails at once.
    pub fn timeout(mut self, timeout: Duration) -> ConnectOptions {
        self.timeout = Some(timeout);
        self
    }

    /// A user, by its id, whose process may be the owner at a unix socket, besides this process's own user and
    /// root. Default: none. For a command of root, for instance, the user of the store's file.
    pub fn trusted_user(mut self, id: u32) -> ConnectOptions {
        self.trusted_user = Some(id);
        self
    }

    /// Connects to the owner of a store. The addresses are `unix:PATH` and `tcp://HOST:PORT`.
    ///
    /// The returned store has the calls of the owner's store, except those that return
    /// [`OwnerOnly`](Error::OwnerOnly). Changes are as durable as in the owner's process. One thread reads
    /// the answers of all callers. Calls that return a [`Ticket`](crate::Ticket) are on their way before the
    /// owner has decided them, and have no back pressure; a refusal comes with the ticket.
    /// [`close`](Store::close) and the drop of the last handle end the connection, and with it its sessions;
    /// the owner's store stays open.
    ///
    /// A connection that breaks makes itself again, with the same sessions. The owner releases their tasks
    /// when it notices the break, or after its [grace](crate::StoreOptions::session_grace). Calls in flight
    /// that change something return [`OutcomeUnknown`](Error::OutcomeUnknown): look before you repeat them,
    /// or put with a [key](crate::Put::key) or an [idempotency key](crate::Put::idempotency_key). Puts with
    /// an idempotency key, other calls and waits continue with the next connection; a change that the owner
    /// refuses there returns `OutcomeUnknown`, since the first attempt may have taken effect. Calls made
    /// meanwhile wait for it, and return [`NotConnected`](Error::NotConnected) after the
    /// [timeout](ConnectOptions::timeout). If the owner refuses the next connection for good, all calls
    /// return [`Refused`](Error::Refused). A wait that is made again starts its timeout anew. A call in
    /// flight has no time limit of its own, however busy the owner is.
    ///
    /// Blocks until the owner has answered.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for another address, and for a secret of less than 16 bytes.
    /// [`NotConnected`](Error::NotConnected): no process serves there, or it refuses for now.
    /// [`Refused`](Error::Refused): the secret is wrong or missing, the owner's process is one of another
    /// user, its socket may not be opened, or the two sides speak no common version.
    ///
    /// # Example
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// let store = tubewell::connect("unix:app.tubewell.sock")?;
    /// let mail = store.tube("mail")?;
    /// while let Some(claim) = mail.take_timeout(Duration::from_secs(1))? {
    ///     claim.ack()?;
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn connect(self, url: &str) -> Result<Store> {
        let address: Address =
            url.parse().map_err(|error: WireError| Error::invalid(error.to_string()))?;
        if let Some(label) = &self.label {
            check_label(label)?;
        }
        self.secret.as_deref().map_or(Ok(()), check_secret)?;
        let mut options = ClientOptions {
            secret: self.secret,
            trusted_user: self.trusted_user,
            ..ClientOptions::default()
        };
        options.limits.frame = FRAME_MAX;
        if let Some(timeout) = self.timeout {
            options.connect_timeout = timeout;
        }
        let connection = Connection::open(&address, options, self.label)?;
        Ok(Store::of(StoreHandle::Remote(connection)))
    }
}
