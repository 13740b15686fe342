//! The tubes of a worker, and their handlers with the types taken away.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::job::{Job, JobCore};
use super::outcome::sealed::IntoOutcome as _;
use super::outcome::{Handled, IntoOutcome};
use crate::{Bincode, Codec, Error, Result, Tube, TypedTube};

/// A tube that a worker can have a handler for: a [`Tube`], whose jobs are [`Job<()>`](Job), or a
/// [`TypedTube<T, C>`](TypedTube), whose jobs are [`Job<T, C>`](Job).
///
/// The trait is sealed.
pub trait Source: sealed::Sealed {
    /// The type of the bodies; `()` for bytes.
    type Value: Send + Sync + 'static;
    /// The codec of the bodies.
    type Codec: 'static;

    #[doc(hidden)]
    fn as_tube(&self) -> &Tube;

    #[doc(hidden)]
    fn decode(body: &[u8]) -> Result<Self::Value>;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Tube {}
impl<T, C> sealed::Sealed for TypedTube<T, C> {}

impl Source for Tube {
    type Value = ();
    type Codec = Bincode;

    fn as_tube(&self) -> &Tube {
        self
    }

    fn decode(_: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl<T, C> Source for TypedTube<T, C>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
    C: Codec + 'static,
{
    type Value = T;
    type Codec = C;

    fn as_tube(&self) -> &Tube {
        self.tube()
    }

    fn decode(body: &[u8]) -> Result<T> {
        C::decode(body)
    }
}

/// A tube and its handler.
pub(super) struct Registered {
    pub(super) tube: Tube,
    pub(super) handler: Handler,
    /// Its driver has delays. Known once the worker has begun.
    pub(super) is_timed: bool,
    /// A take has found that the tube was dropped.
    pub(super) is_dropped: AtomicBool,
}

pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A handler. Both decode the body of the task first.
pub(super) enum Handler {
    Blocking(Box<dyn Fn(Arc<JobCore>) -> Handled + Send + Sync>),
    Async(Box<dyn Fn(Arc<JobCore>) -> HandlerFuture + Send + Sync>),
}

impl Registered {
    pub(super) fn blocking<S: Source, R: IntoOutcome>(
        source: &S,
        handler: impl Fn(&Job<S::Value, S::Codec>) -> R + Send + Sync + 'static,
    ) -> Registered {
        let handle = move |core: Arc<JobCore>| match S::decode(core.data()) {
            Ok(value) => {
                let groups = core.groups().clone();
                handler(&Job::new(core, value)).into_handled(&groups)
            }
            Err(error) => Handled::Undecodable(error),
        };
        Registered::new(source, Handler::Blocking(Box::new(handle)))
    }

    pub(super) fn future<S: Source, F>(
        source: &S,
        handler: impl Fn(Job<S::Value, S::Codec>) -> F + Send + Sync + 'static,
    ) -> Registered
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handle = move |core: Arc<JobCore>| -> HandlerFuture {
            let handler = handler.clone();
            Box::pin(async move {
                let groups = core.groups().clone();
                let future = match S::decode(core.data()) {
                    Ok(value) => handler(Job::new(core, value)),
                    Err(error) => return Handled::Undecodable(error),
                };
                future.await.into_handled(&groups)
            })
        };
        Registered::new(source, Handler::Async(Box::new(handle)))
    }

    fn new<S: Source>(source: &S, handler: Handler) -> Registered {
        let is_dropped = AtomicBool::new(false);
        Registered { tube: source.as_tube().clone(), handler, is_timed: false, is_dropped }
    }

    /// Refuses a `max_runtime` for claims that do not expire.
    pub(super) fn set_timed(
        &mut self,
        is_timed: bool,
        max_runtime: Option<Duration>,
    ) -> Result<()> {
        self.is_timed = is_timed;
        if is_timed || max_runtime.is_none() {
            return Ok(());
        }
        Err(Error::Unsupported { what: "max_runtime".into(), driver: self.tube.driver().into() })
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }
}
