//! Handles of the same tube for bodies of another type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Tube;
use crate::body::Coder;
use crate::put::Encoded;
use crate::{Claim, Codec, IntoPut, Result};

impl Tube {
    /// A handle of the same tube whose bodies are values of `T`, in [JSON](crate::Json).
    ///
    /// A value is put by value or by reference, with options in a [`Put`](crate::Put). A take decodes
    /// the body: a task whose body is no `T` is buried, and the take returns
    /// [`Error::Codec`](crate::Error::Codec), see [`read`](Tube::read).
    ///
    /// # Example
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tubewell::{FIFOTTL, Put, Store, TubeOptions};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.create_tube("mails", FIFOTTL, TubeOptions::new())?.typed::<Mail>();
    /// mails.put(Mail { to: "ann".into() })?;
    /// mails.put(Put::new(&Mail { to: "bob".into() }).pri(3))?;
    /// let claim = mails.try_take()?.unwrap();
    /// assert_eq!(claim.value().to, "ann");
    /// assert_eq!(claim.body(), br#"{"to":"ann"}"#);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "serde")]
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> Tube<T> {
        self.with_coder(Coder::json())
    }

    /// As [`typed`](Tube::typed), in another codec: [`Bincode`](crate::Bincode), which is compact,
    /// [`Text`](crate::Text) for strings as they are, or one that you write.
    ///
    /// The store does not know the codec of a tube: all programs that use one must agree on it.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// use tubewell::Bincode;
    ///
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("points", FIFO, TubeOptions::new())?;
    /// let points = tube.typed_with::<(i32, i32)>(Bincode);
    /// points.put((7, -7))?;
    /// assert_eq!(points.try_take()?.unwrap().body().len(), 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn typed_with<T>(&self, codec: impl Codec<T>) -> Tube<T> {
        self.with_coder(Coder::new(codec))
    }
}

impl<T> Tube<T> {
    /// A handle of the same tube with bytes as bodies.
    #[must_use]
    pub fn to_bytes(&self) -> Tube {
        self.with_coder(Coder::BYTES)
    }

    /// Decodes the body of a claim on a task of this tube that another call has taken, such as
    /// [`Store::take_any`](crate::Store::take_any) or [`Session::resume_claim`](crate::Session::resume_claim).
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec): the body cannot be decoded. Every take of the task would fail
    /// on it, so the task is buried, and the error says it: [`kick`](Tube::kick_task) or
    /// [`delete`](Tube::delete) it. The call then blocks for a flush.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.put(7)?;
    /// let claim = store.take_any(&[&tube], None)?.unwrap();
    /// assert_eq!(*numbers.read(claim)?.value(), 7);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn read(&self, claim: Claim) -> Result<Claim<T>> {
        claim.decode(&self.coder)
    }

    pub(super) fn with_coder<U>(&self, coder: Coder<U>) -> Tube<U> {
        let Tube { handle, session, guard, head, .. } = self;
        Tube {
            handle: handle.clone(),
            session: *session,
            guard: guard.clone(),
            head: head.clone(),
            coder,
        }
    }

    pub(crate) fn coder(&self) -> &Coder<T> {
        &self.coder
    }

    /// A task with its body as bytes.
    pub(crate) fn encode(&self, task: impl IntoPut<T>) -> Result<Encoded> {
        task.into_put(&self.coder)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Error};

    #[test]
    fn read_decodes_a_task_taken_by_another_call_or_buries_it() {
        let store = crate::Store::in_memory().unwrap();
        let tube = store.create_tube("numbers", crate::FIFO, crate::TubeOptions::new()).unwrap();
        let numbers = tube.typed::<u64>();
        tube.put_many([Bytes::from("7"), "no number".into()]).unwrap();
        let mut claims = tube.take_many(2, None).unwrap();
        let (undecodable, seven) = (claims.pop().unwrap(), claims.pop().unwrap());
        let seven = numbers.read(seven).unwrap();
        assert_eq!((seven.id(), *seven.value()), (0, 7));
        assert!(matches!(numbers.read(undecodable), Err(Error::Codec { .. })));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.taken, tasks.buried), (1, 1));
        seven.ack().unwrap();
    }
}
