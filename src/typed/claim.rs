//! Claims on tasks whose bodies are values.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{Codec, codec_error};
use crate::claim::GiveBack;
use crate::core::list::BuryHeld;
use crate::{
    Claim, ClaimToken, Error, Owner, Receipt, Refused, Result, Task, TaskInfo, Ticket, WhenFull,
};

/// A task with its decoded body; from [`TypedTube::peek`](crate::TypedTube::peek) and
/// [`TypedClaim::detach`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypedTask<T> {
    /// The task without its body.
    pub info: TaskInfo,
    /// The value that the body encodes.
    pub value: T,
}

impl<T: DeserializeOwned> TypedTask<T> {
    pub(super) fn decode<C: Codec>(task: Task) -> Result<TypedTask<T>> {
        let value = C::decode(&task.data).map_err(|error| {
            codec_error(format_args!("task {}: {}", task.info.id, codec_message(error)))
        })?;
        Ok(TypedTask { info: task.info, value })
    }
}

/// A taken task and the value that its body encodes; from
/// [`TypedTube::take`](crate::TypedTube::take).
///
/// Its methods are those of [`Claim`], with the same guarantees and errors. Dropping it releases
/// the task.
#[must_use = "a claim that is dropped releases its task"]
pub struct TypedClaim<T> {
    value: T,
    claim: Claim,
    /// The encoding of the codec that decoded the value.
    encode: Encode<T>,
}

type Encode<T> = fn(&T) -> Result<Vec<u8>>;

impl<T> TypedClaim<T> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Splits this into the value and the claim, to move the one and keep the other. Dropping the
    /// claim releases the task.
    pub fn into_parts(self) -> (T, Claim) {
        (self.value, self.claim)
    }

    /// The id of the task. As [`Claim::id`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.claim.id()
    }

    /// The encoded body. As [`Claim::data`].
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.claim.data()
    }

    /// The name of its tube. As [`Claim::tube`].
    #[must_use]
    pub fn tube(&self) -> &str {
        self.claim.tube()
    }

    /// How often the task was taken (attempts), this time included. As [`Claim::takes`].
    #[must_use]
    pub fn takes(&self) -> u32 {
        self.claim.takes()
    }

    /// Its priority. As [`Claim::pri`].
    #[must_use]
    pub fn pri(&self) -> u32 {
        self.claim.pri()
    }

    /// Its sub-queue, if it has one. As [`Claim::sub_queue`].
    #[must_use]
    pub fn sub_queue(&self) -> Option<&str> {
        self.claim.sub_queue()
    }

    /// Its key, if it has one. As [`Claim::key`].
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.claim.key()
    }

    /// Its tags when it was taken. As [`Claim::tags`].
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.claim.tags()
    }

    /// The number of this claim. As [`Claim::epoch`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.claim.epoch()
    }

    /// Whether the claim has not ended. As [`Claim::is_current`].
    ///
    /// # Errors
    /// Those of [`Claim::owner`].
    pub fn is_current(&self) -> Result<bool> {
        self.claim.is_current()
    }

    /// How long until the claim expires. As [`Claim::expires_in`].
    ///
    /// # Errors
    /// Those of [`Claim::owner`].
    pub fn expires_in(&self) -> Result<Option<Duration>> {
        self.claim.expires_in()
    }

    /// Its session, and for how long it has held the task. As [`Claim::owner`].
    ///
    /// # Errors
    /// Those of [`Claim::owner`].
    pub fn owner(&self) -> Result<Option<Owner>> {
        self.claim.owner()
    }

    /// Finishes the task: it is removed. As [`Claim::ack`].
    ///
    /// # Errors
    /// Those of [`Claim::ack`].
    pub fn ack(self) -> Result<Receipt> {
        self.claim.ack()
    }

    /// Finishes many tasks with one commit. As [`Claim::ack_many`].
    ///
    /// # Errors
    /// Those of [`Claim::ack_many`].
    pub fn ack_many(claims: Vec<TypedClaim<T>>) -> Result<Vec<Result<Receipt>>> {
        Claim::ack_many(claims.into_iter().map(|typed| typed.claim).collect())
    }

    /// Gives the task back: ready in its old place, or ready after `delay`. As [`Claim::release`].
    ///
    /// # Errors
    /// Those of [`Claim::release`].
    pub fn release(self, delay: Duration) -> Result<Receipt> {
        self.claim.release(delay)
    }

    /// Buries the task (dead letter). As [`Claim::bury`].
    ///
    /// # Errors
    /// Those of [`Claim::bury`].
    pub fn bury(self) -> Result<Receipt> {
        self.claim.bury()
    }

    /// Parks the claim: it outlives the process. As [`Claim::park`].
    ///
    /// # Errors
    /// Those of [`Claim::park`].
    pub fn park(self, hold: Duration) -> Result<ClaimToken> {
        self.claim.park(hold)
    }

    /// Extends the claim, the ttr and the ttl of the task by `by` each. As [`Claim::touch`].
    ///
    /// # Errors
    /// Those of [`Claim::touch`].
    pub fn touch(&self, by: Duration) -> Result<Option<Receipt>> {
        self.claim.touch(by)
    }

    /// Replaces the value of the task, so that the next take goes on from there. As
    /// [`Claim::checkpoint`].
    ///
    /// # Errors
    /// Those of [`Claim::checkpoint`]; [`Codec`](Error::Codec) if the value cannot be encoded. The
    /// task has its old value.
    pub fn checkpoint(&mut self, value: T) -> Result<Receipt> {
        let receipt = self.claim.checkpoint((self.encode)(&value)?)?;
        self.value = value;
        Ok(receipt)
    }

    /// Sets the claim to expire `hold` from now (heartbeat). As [`Claim::renew`].
    ///
    /// # Errors
    /// Those of [`Claim::renew`].
    pub fn renew(&self, hold: Duration) -> Result<()> {
        self.claim.renew(hold)
    }

    /// Reports how far the work is. As [`Claim::progress`].
    ///
    /// # Errors
    /// Those of [`Claim::progress`].
    pub fn progress(&self, done: u64, total: u64) -> Result<()> {
        self.claim.progress(done, total)
    }

    /// Reports what the work is at. As [`Claim::progress_text`].
    ///
    /// # Errors
    /// Those of [`Claim::progress_text`].
    pub fn progress_text(&self, text: &str) -> Result<()> {
        self.claim.progress_text(text)
    }

    /// Leaves the claim to the session: the task stays taken, and is finished by its id. As
    /// [`Claim::detach`].
    #[must_use]
    pub fn detach(self) -> TypedTask<T> {
        TypedTask { info: self.claim.detach().info, value: self.value }
    }

    /// As [`ack`](TypedClaim::ack), but returns before the flush. As [`Claim::ack_deferred`].
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    ///
    /// # Example
    /// ```
    /// use tubewell::WhenFull;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    ///
    /// let numbers = tube.typed::<u64>();
    /// numbers.put(&42)?;
    /// let number = numbers.try_take()?.unwrap();
    /// let acked = match number.ack_deferred(WhenFull::Refuse) {
    ///     Ok(ticket) => ticket.wait()?,
    ///     Err(refused) => {
    ///         println!("{} is still to be acked: {refused}", refused.claim().value());
    ///         refused.into_claim().ack()?
    ///     }
    /// };
    /// # assert_eq!(acked.state, tubewell::State::Done);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack_deferred(
        self,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.ack_deferred(when_full))
    }

    /// Makes a deferred call. If it is refused, the claim comes back with its value.
    pub(super) fn deferred<R>(
        self,
        call: impl FnOnce(Claim) -> Result<Ticket<R>, Refused>,
    ) -> Result<Ticket<R>, Refused<TypedClaim<T>>> {
        let TypedClaim { value, claim, encode } = self;
        call(claim).map_err(|refused| with_value(refused, value, encode))
    }

    /// As [`release`](TypedClaim::release), but returns before the flush. As
    /// [`Claim::release_deferred`].
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn release_deferred(
        self,
        delay: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.release_deferred(delay, when_full))
    }

    /// As [`bury`](TypedClaim::bury), but returns before the flush. As [`Claim::bury_deferred`].
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn bury_deferred(
        self,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.bury_deferred(when_full))
    }

    /// As [`touch`](TypedClaim::touch), but returns before the flush. As [`Claim::touch_deferred`].
    ///
    /// # Errors
    /// Those of [`Claim::touch_deferred`].
    pub fn touch_deferred(
        &self,
        by: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Option<Receipt>>> {
        self.claim.touch_deferred(by, when_full)
    }

    /// As [`park`](TypedClaim::park), but returns before the flush. As [`Claim::park_deferred`].
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn park_deferred(
        self,
        hold: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<ClaimToken>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.park_deferred(hold, when_full))
    }

    /// As [`checkpoint`](TypedClaim::checkpoint), but returns before the flush. As
    /// [`Claim::checkpoint_deferred`].
    ///
    /// # Errors
    /// Those of [`checkpoint`](TypedClaim::checkpoint), and of [`Claim::checkpoint_deferred`].
    pub fn checkpoint_deferred(
        &mut self,
        value: T,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>> {
        let ticket = self.claim.checkpoint_deferred((self.encode)(&value)?, when_full)?;
        self.value = value;
        Ok(ticket)
    }

    /// As [`ack_many`](TypedClaim::ack_many), but returns before the flush. As
    /// [`Claim::ack_many_deferred`].
    ///
    /// # Errors
    /// [`Refused`] gives all claims back, with their values.
    #[expect(clippy::type_complexity, reason = "each part is a type of its own")]
    pub fn ack_many_deferred(
        claims: Vec<TypedClaim<T>>,
        when_full: WhenFull,
    ) -> Result<Ticket<Vec<Result<Receipt>>>, Refused<Vec<TypedClaim<T>>>> {
        let mut parts = Vec::with_capacity(claims.len());
        let mut untyped = Vec::with_capacity(claims.len());
        for TypedClaim { value, claim, encode } in claims {
            parts.push((value, encode));
            untyped.push(claim);
        }
        Claim::ack_many_deferred(untyped, when_full).map_err(|refused| {
            let (claims, error) = refused.into_parts();
            let both = parts.into_iter().zip(claims);
            let claims =
                both.map(|((value, encode), claim)| TypedClaim { value, claim, encode }).collect();
            Refused::new(claims, error)
        })
    }
}

impl<T> GiveBack for TypedClaim<T> {
    fn give_back(self) {
        self.claim.give_back();
    }
}

impl<T: Serialize + DeserializeOwned> TypedClaim<T> {
    /// Decodes the body of a taken task. A task that cannot be decoded is buried.
    pub(super) fn decode<C: Codec>(claim: Claim) -> Result<TypedClaim<T>> {
        match C::decode(claim.data()) {
            Ok(value) => Ok(TypedClaim { value, claim, encode: C::encode }),
            Err(error) => {
                let task = describe(&claim);
                Err(buried(&task, error, claim.bury().map(drop)))
            }
        }
    }

    /// As `decode`, without blocking the thread.
    pub(super) async fn decode_async<C: Codec>(claim: Claim) -> Result<TypedClaim<T>> {
        let error = match C::decode(claim.data()) {
            Ok(value) => return Ok(TypedClaim { value, claim, encode: C::encode }),
            Err(error) => error,
        };
        let task = describe(&claim);
        Err(buried(&task, error, bury(claim).await))
    }
}

impl<T: fmt::Debug> fmt::Debug for TypedClaim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedClaim")
            .field("id", &self.claim.id())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

fn with_value<T>(refused: Refused, value: T, encode: Encode<T>) -> Refused<TypedClaim<T>> {
    let (claim, error) = refused.into_parts();
    Refused::new(TypedClaim { value, claim, encode }, error)
}

/// As [`Claim::bury`], without blocking the thread.
async fn bury(mut claim: Claim) -> Result<()> {
    let buried = claim.make_async(&BuryHeld { failure: None }).await;
    claim.release_on_drop = buried.is_err();
    buried.map(drop)
}

fn describe(claim: &Claim) -> String {
    format!("task {} of tube {:?}", claim.id(), claim.tube())
}

/// The error of a take whose task cannot be decoded.
fn buried(task: &str, error: Error, outcome: Result<()>) -> Error {
    let what = codec_message(error);
    match outcome {
        Ok(()) => codec_error(format_args!("{task}: {what}; it is buried: kick or delete it")),
        Err(error) => codec_error(format_args!("{task}: {what}; it could not be buried: {error}")),
    }
}

fn codec_message(error: Error) -> String {
    match error {
        Error::Codec { what } => what,
        other => other.to_string(),
    }
}
