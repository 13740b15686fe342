//! Handles of the same tube for bodies of another type.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Tube;
use crate::handle::store_handle::SessionGuard;
use crate::runtime::when_full::WhenFull;
use crate::values::body::Coder;
use crate::values::put::Encoded;
use crate::{Async, Blocking, Bytes, Claim, Codec, Error, IntoPut, Mode, Result};

impl<M: Mode> Tube<Bytes, M> {
    /// A handle of the same tube whose bodies are values of `T`, in [JSON](crate::Json).
    ///
    /// A value is put by value or by reference, with options in a [`Put`](crate::Put). A take decodes
    /// the body: a task whose body is no `T` is buried, and the take returns
    /// [`Error::Codec`](crate::Error::Codec), see [`read`](Tube::read).
    ///
    /// # Example
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tubewell::{Put, Store};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?.typed::<Mail>();
    /// mails.put(Mail { to: "ann".into() })?;
    /// mails.put(Put::new(&Mail { to: "bob".into() }).max_attempts(3))?;
    /// let claim = mails.try_take()?.unwrap();
    /// assert_eq!(claim.value().to, "ann");
    /// assert_eq!(claim.body(), br#"{"to":"ann"}"#);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    ///
    /// A value that its codec encodes and cannot decode, such as `f64::NAN` in JSON, is put, and buried by
    /// its first take. A [look at the task](crate::Query::task) and a [list](crate::Query::tasks) change nothing: their
    /// [`Task::value`](crate::Task::value) returns the error.
    #[doc(alias = "serde")]
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> Tube<T, M> {
        self.with_coder(Coder::json())
    }

    /// As [`typed`](Tube::typed), in another codec: [`Bincode`](crate::Bincode), which is compact,
    /// [`Text`](crate::Text) for strings as they are, or one that you write.
    ///
    /// The store does not know the codec of a tube: all programs that use one must agree on it.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// use tubewell::Bincode;
    ///
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("points")?;
    /// let points = tube.typed_with::<(i32, i32)>(Bincode);
    /// points.put((7, -7))?;
    /// assert_eq!(points.try_take()?.unwrap().body().len(), 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn typed_with<T>(&self, codec: impl Codec<T>) -> Tube<T, M> {
        self.with_coder(Coder::new(codec))
    }

    /// A handle of the same tube whose bodies are values of `T` and of this kind: one tube has jobs of several
    /// kinds, which have a priority, limits and workers in common.
    ///
    /// A body is a JSON object with one member, which is named after its kind, such as `{"mail":{"to":"ann"}}`. It
    /// is what serde makes of an enum that has a variant of this name with one value.
    /// [`Worker::on`](crate::worker::Worker::on) with such a handle calls the handler for the tasks of its kind.
    ///
    /// Only a worker tells kinds apart. A take through the handle takes every task of the tube, and buries one of
    /// another kind, as [`read`](Tube::read) does: use the handle for puts, and [`Tube::claim`] for a chosen task.
    ///
    /// # Example
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tubewell::{Job, Store, Worker};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Film {
    ///     seconds: u32,
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let mails = jobs.typed_as::<Mail>("mail");
    /// let films = jobs.typed_as::<Film>("film");
    /// mails.put(Mail { to: "ann".into() })?;
    /// films.put(Film { seconds: 90 })?;
    ///
    /// let send = |job: &Job<Mail>| assert_eq!(job.value().to, "ann");
    /// let encode = |job: &Job<Film>| assert_eq!(job.value().seconds, 90);
    /// assert_eq!(Worker::new(&store).on(&mails, send).on(&films, encode).run_until_idle()?.done, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "kind")]
    #[must_use]
    pub fn typed_as<T: Serialize + DeserializeOwned>(&self, kind: &str) -> Tube<T, M> {
        self.with_coder(Coder::of_kind(kind.into()))
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// A handle of the same tube with bytes as bodies.
    #[must_use]
    pub fn to_bytes(&self) -> Tube<Bytes, M> {
        self.with_coder(Coder::BYTES)
    }

    /// Decodes the body of a claim on a task of this tube that another call has taken, such as
    /// [`Store::take_any`](crate::Store::take_any) or [`Session::resume_claim`](crate::Session::resume_claim).
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec): the body cannot be decoded. Every take of the task would fail
    /// on it, so the task is buried in the failure group `undecodable`, and the error says it:
    /// [`update`](Tube::update) it and [`kick`](Tube::kick) it, or [`delete`](Tube::delete) it. The
    /// call then blocks for a flush.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("numbers")?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.put(7)?;
    /// let claim = store.take_any(&[&tube], Duration::MAX)?.unwrap();
    /// assert_eq!(*numbers.read(claim)?.value(), 7);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn read(&self, claim: Claim<Bytes, M>) -> M::Answer<Claim<T, M>> {
        M::either(
            claim.into_blocking(),
            |claim| Ok(claim.decode(&self.coder)?.with_mode()),
            |claim| {
                let coder = self.coder.clone();
                async move { Ok(claim.decode_async(coder).await?.with_mode()) }
            },
        )
    }

    /// A handle of the same tube whose calls return a [`Ticket`](crate::Ticket) and block no thread.
    ///
    /// A ticket is a future for any runtime or none. A thread uses it too: it makes many calls, and then
    /// [waits](crate::Ticket::wait) for their tickets, whose changes share their flushes. While the write
    /// buffer is full, changes stand in line, in the order of their calls; the line is in memory, so a caller
    /// with very many changes awaits the oldest ticket now and then.
    ///
    /// # Example: pipelined puts of one thread
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?.to_async();
    /// let tickets: Vec<_> = (0..100).map(|n| jobs.put(format!("job {n}"))).collect();
    /// for ticket in tickets {
    ///     ticket.wait()?; // on the disk
    /// }
    /// assert_eq!(jobs.statistics().wait()?.tasks.ready, 100);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "deferred")]
    #[doc(alias = "pipelining")]
    #[doc(alias = "tokio")]
    #[must_use]
    pub fn to_async(&self) -> Tube<T, Async> {
        self.with_mode(self.coder.clone())
    }

    /// A handle of the same tube whose calls block.
    #[must_use]
    pub fn to_blocking(&self) -> Tube<T, Blocking> {
        self.with_mode(self.coder.clone())
    }

    /// A handle of the same tube whose changes are refused with
    /// [`Overloaded`](crate::Error::Overloaded) while the write buffer is full
    /// ([`max_pending`](crate::StoreOptions::max_pending)): they neither block nor stand in line.
    ///
    /// # Example: shed load
    /// ```
    /// use tubewell::{Error, Result, Tube};
    ///
    /// /// Whether the request was accepted. A busy server says no at once.
    /// async fn accept(jobs: &Tube, request: &str) -> Result<bool> {
    ///     match jobs.to_async().refuse_when_full().put(request).await {
    ///         Ok(_) => Ok(true),
    ///         Err(Error::Overloaded) => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    #[doc(alias = "back pressure")]
    #[must_use]
    pub fn refuse_when_full(mut self) -> Tube<T, M> {
        self.when_full = WhenFull::Refuse;
        self
    }

    pub(super) fn with_coder<U>(&self, coder: Coder<U>) -> Tube<U, M> {
        self.with_mode(coder)
    }

    /// A handle of the same tube for a session, of this store: as [`Session::tube`](crate::Session::tube).
    pub(crate) fn of_session<N: Mode>(&self, session: &Arc<SessionGuard>) -> Result<Tube<T, N>> {
        session.handle.check_process()?;
        if !self.handle.is_same_store(&session.handle) {
            return Err(Error::invalid(
                "the tube belongs to another store than the session, or to another connection; open it \
                 through the store of the session",
            ));
        }
        let mut tube = self.with_mode(self.coder.clone());
        tube.session = session.id;
        tube.guard = Some(session.clone());
        Ok(tube)
    }

    fn with_mode<U, N: Mode>(&self, coder: Coder<U>) -> Tube<U, N> {
        let Tube { handle, session, guard, head, when_full, before_put, .. } = self;
        Tube {
            handle: handle.clone(),
            session: *session,
            guard: guard.clone(),
            head: head.clone(),
            coder,
            when_full: *when_full,
            before_put: before_put.clone(),
            mode: PhantomData,
        }
    }

    pub(crate) fn coder(&self) -> &Coder<T> {
        &self.coder
    }

    /// A task with its body as bytes, as it is put: every put of a handle goes through this.
    pub(crate) fn encode(&self, task: impl IntoPut<T>) -> Result<Encoded> {
        let put = task.into_put(&self.coder)?;
        match &self.before_put {
            None => Ok(put),
            Some(function) => function(put),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::values::body::BoxError;
    use crate::{Bytes, Codec, Error, Put};

    #[test]
    fn read_decodes_a_task_taken_by_another_call_or_buries_it() {
        let store = crate::Store::in_memory().unwrap();
        let tube =
            store.create_tube("numbers", crate::TubeOptions::new().driver(crate::FIFO)).unwrap();
        let numbers = tube.typed::<u64>();
        tube.put_many([Bytes::from("7"), "no number".into()]).unwrap();
        let mut claims = tube.take_many(2, std::time::Duration::MAX).unwrap();
        let (undecodable, seven) = (claims.pop().unwrap(), claims.pop().unwrap());
        let seven = numbers.read(seven).unwrap();
        assert_eq!((seven.id(), *seven.value()), (0, 7));
        assert!(matches!(numbers.read(undecodable), Err(Error::Codec { .. })));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.taken, tasks.buried), (1, 1));
        // A worker reports it in the same group.
        assert_eq!(tube.query().groups().unwrap()[0].name, crate::handle::claim::UNDECODABLE);
        seven.ack().unwrap();
    }

    /// A codec of bytes gets text and bytes, too, and the claims of other handles are decoded from their
    /// bodies.
    #[test]
    fn codec_of_bytes_encodes_all_that_is_put() {
        struct Inverted;

        impl Codec<Bytes> for Inverted {
            fn name(&self) -> &'static str {
                "inverted"
            }

            fn encode(&self, value: &Bytes) -> std::result::Result<Vec<u8>, BoxError> {
                Ok(value.iter().map(|byte| !byte).collect())
            }

            fn decode(&self, body: &[u8]) -> std::result::Result<Bytes, BoxError> {
                Ok(body.iter().map(|byte| !byte).collect::<Vec<u8>>().into())
            }
        }

        let store = crate::Store::in_memory().unwrap();
        let tube =
            store.create_tube("secrets", crate::TubeOptions::new().driver(crate::FIFO)).unwrap();
        let secrets = tube.typed_with::<Bytes>(Inverted);
        secrets.put("a").unwrap();
        secrets.put(Put::new(b"a".to_vec())).unwrap();
        secrets.put(b"a").unwrap();
        secrets.put(Bytes::from("a")).unwrap();
        let text = "a".to_owned();
        secrets.put(&text).unwrap();
        for claim in secrets.take_many(9, std::time::Duration::MAX).unwrap() {
            assert_eq!((&**claim.value(), claim.body()), (&b"a"[..], &[!b'a'][..]));
            let (value, claim) = secrets.read(claim.into_parts().1).unwrap().into_parts();
            assert_eq!((&*value, claim.body()), (&b"a"[..], &[!b'a'][..]));
            claim.ack().unwrap();
        }
        assert_eq!(tube.statistics().unwrap().tasks.done, 5);
    }
}
