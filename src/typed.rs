//! Tubes of values instead of bytes: a thin layer over the verbs, and the codecs it can use.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Claim, Error, Put, Receipt, Result, Tube};

/// A way to write values as bytes and to read them back.
///
/// Bodies outlive the program that wrote them: a codec has to read what its earlier releases
/// wrote, and to refuse what it does not understand instead of making something of it.
pub trait Codec: Send + Sync + 'static {
    /// The value as bytes.
    ///
    /// # Errors
    /// [`Error::Codec`] if the value has no such form. Nothing was put.
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>>;

    /// The value that all of `bytes` stands for.
    ///
    /// # Errors
    /// [`Error::Codec`] if the bytes are no such value, or if some are left over.
    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T>;
}

/// The compact default: bincode 2 in its standard configuration.
///
/// Names of fields are not written, so a type whose fields change, or change their order, does
/// not read older bodies; put a version into the type, or use a self-describing codec.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bincode;

/// What one decoded body may claim, so that a damaged length cannot ask for all memory. It counts
/// integers at full width where the body has a byte or two: hence 16 times the largest body.
const DECODED_LIMIT: usize = 16 * crate::MAX_BODY;

impl Tube {
    /// This tube with bodies of a type, encoded with bincode.
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> TypedTube<T> {
        TypedTube::new(self.clone())
    }

    /// This tube with bodies of a type, and a codec of the caller's choice: [`Bincode`](crate::Bincode),
    /// `Json` (feature `json`), or one of your own.
    ///
    /// # Example: numbers as text
    /// ```
    /// use serde::{Serialize, de::DeserializeOwned};
    /// use tubewell::{Codec, Error, Result};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// struct Text;
    ///
    /// impl Codec for Text {
    ///     fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    ///         serde_json::to_vec(value).map_err(|why| Error::Codec { what: why.to_string() })
    ///     }
    ///     fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    ///         serde_json::from_slice(bytes).map_err(|why| Error::Codec { what: why.to_string() })
    ///     }
    /// }
    ///
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed_with::<u64, Text>();
    /// numbers.put(&42)?;
    /// assert_eq!(tube.peek(0)?.data, b"42");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn typed_with<T: Serialize + DeserializeOwned, C: Codec>(&self) -> TypedTube<T, C> {
        TypedTube::new(self.clone())
    }
}

impl Codec for Bincode {
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
        bincode::serde::encode_to_vec(value, bincode::config::standard()).map_err(misfit)
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        let config = bincode::config::standard().with_limit::<DECODED_LIMIT>();
        let (value, used) = bincode::serde::decode_from_slice(bytes, config).map_err(misread)?;
        match bytes.len() - used {
            0 => Ok(value),
            left => Err(misfit(format_args!("{left} of {} bytes are left over", bytes.len()))),
        }
    }
}

/// JSON, for bodies that other programs and people read, or whose type grows new fields.
///
/// # Example: a field that older bodies do not have
/// ```
/// use serde::{Deserialize, Serialize};
/// use tubewell::{FIFO, Json, Store, TubeOptions};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     picture: String,
///     #[serde(default)]
///     width: Option<u32>,
/// }
///
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("resizes", FIFO, TubeOptions::new())?;
/// tube.put(r#"{"picture":"cat.jpg"}"#)?; // by an older release, or by the command
/// let resizes = tube.typed_with::<Resize, Json>();
/// assert_eq!(resizes.take(None)?.unwrap().value().width, None);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Json;

#[cfg(feature = "json")]
impl Codec for Json {
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
        serde_json::to_vec(value).map_err(misfit)
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(misfit)
    }
}

/// A [`Tube`] whose bodies are values of one type; from [`Tube::typed`].
///
/// It puts and takes as the tube does, for the same session, and turns values into bodies on the
/// way in and back on the way out. Clones are cheap. All other verbs are those of
/// [`tube`](TypedTube::tube): [`task`](TypedTube::task) makes of a value what they put, and
/// [`read`](TypedTube::read) reads what they took.
///
/// # Example: a queue of structs
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tubewell::{Store, TubeOptions};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     picture: String,
///     width: u32,
/// }
///
/// # fn main() -> tubewell::Result<()> {
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("resizes", "fifo", TubeOptions::default())?;
/// let resizes = tube.typed::<Resize>();
///
/// resizes.put(&Resize { picture: "cat.jpg".into(), width: 200 })?;
///
/// if let Some(claim) = resizes.take(Duration::ZERO)? {
///     assert_eq!(claim.value().picture, "cat.jpg");
///     claim.ack()?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct TypedTube<T, C = Bincode> {
    tube: Tube,
    /// Values go in and come out, none is held.
    types: PhantomData<fn(T) -> (T, C)>,
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    pub(crate) fn new(tube: Tube) -> TypedTube<T, C> {
        TypedTube { tube, types: PhantomData }
    }

    /// Puts a value as a task with the tube's defaults: ready, or handed to the first waiter.
    ///
    /// What survives, and whether it waits, is as with [`Tube::put`]: in a durable tube the task
    /// outlasts a power cut once this returns, and the call waits for the flush.
    ///
    /// # Errors
    /// [`Error::Codec`] if the value cannot be encoded, and those of [`Tube::put`]. The task was
    /// not put, except that after [`Error::OutcomeUnknown`] it may have been.
    pub fn put(&self, value: &T) -> Result<Receipt> {
        self.put_with(value, |put| put)
    }

    /// Puts a value as a task with options: `options` gets the task to be, and returns it changed.
    ///
    /// It survives and waits as [`put`](TypedTube::put) does; a task with a delay is delayed
    /// first, and ready after it.
    ///
    /// # Errors
    /// Those of [`put`](TypedTube::put), and [`Error::Unsupported`] for an option that the tube's
    /// driver lacks; nothing was put then.
    ///
    /// # Example: an urgent task
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("numbers", "fifottl", TubeOptions::default())?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.put_with(&1, |put| put.pri(9))?;
    /// numbers.put_with(&2, |put| put.pri(0))?;
    ///
    /// let first = numbers.take(Duration::ZERO)?;
    /// assert_eq!(first.as_ref().map(|claim| *claim.value()), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_with(&self, value: &T, options: impl FnOnce(Put) -> Put) -> Result<Receipt> {
        self.tube.put(options(self.task(value)?))
    }

    /// A value as a task to be put, for the verbs that are the tube's own:
    /// [`put_many`](Tube::put_many), [`put_wait`](Tube::put_wait), and the
    /// [deferred](Tube::deferred) ones. Puts nothing.
    ///
    /// # Errors
    /// [`Error::Codec`] if the value cannot be encoded.
    ///
    /// # Example: many at once
    /// ```
    /// use tubewell::{FIFO, Put, Result, Store, TubeOptions};
    ///
    /// # fn main() -> Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// let tasks = (1..=3).map(|n| numbers.task(&n)).collect::<Result<Vec<Put>>>()?;
    /// tube.put_many(tasks)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&self, value: &T) -> Result<Put> {
        Ok(Put::new(C::encode(value)?))
    }

    /// Takes the next task: ready becomes taken, by this tube's session, until the claim is
    /// finished, dropped or over its ttr.
    ///
    /// A claim lives in memory: after a crash its task is ready again. The call waits up to
    /// `timeout` for a task, for ever if that is `None`, and not at all if it is zero.
    ///
    /// # Errors
    /// Those of [`Tube::take`]; no task was taken. And [`Error::Codec`] if a task was taken but its
    /// body is no `T`: released it would only come back, so it is **buried**, which waits for a
    /// flush. The text names the task; [`kick`](Tube::kick) or [`delete`](Tube::delete) it when the
    /// cause is known. Take again for the next one.
    ///
    /// # Example: a body of another type
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Error, State, Store, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("names", "fifo", TubeOptions::default())?;
    /// let strange = tube.put("no number")?.id;
    ///
    /// let taken = tube.typed::<u64>().take(Duration::ZERO);
    /// assert!(matches!(taken, Err(Error::Codec { .. })));
    /// assert_eq!(tube.peek(strange)?.info.state, State::Buried);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<TypedClaim<T>>> {
        let Some(claim) = self.tube.take(timeout)? else { return Ok(None) };
        self.read(claim).map(Some)
    }

    /// Reads the body of a task that was taken by a verb of the tube's own:
    /// [`take_async`](Tube::take_async), [`take_many`](Tube::take_many), or
    /// [`Store::take_any`](crate::Store::take_any). The task stays taken.
    ///
    /// # Errors
    /// [`Error::Codec`] if the body is no `T`: the task is **buried**, as by [`take`](TypedTube::take).
    ///
    /// # Example: awaited
    /// ```
    /// use tubewell::{Result, TypedTube};
    ///
    /// async fn add_up(numbers: TypedTube<u64>) -> Result<u64> {
    ///     let mut sum = 0;
    ///     while let Some(claim) = numbers.tube().take_async(None).await? {
    ///         let number = numbers.read(claim)?;
    ///         sum += number.value();
    ///         number.ack()?;
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub fn read(&self, claim: Claim) -> Result<TypedClaim<T>> {
        match C::decode(claim.data()) {
            Ok(value) => Ok(TypedClaim { value, claim }),
            Err(error) => Err(bury(claim, error)),
        }
    }

    /// The tube itself, for its other verbs.
    #[must_use]
    pub fn tube(&self) -> &Tube {
        &self.tube
    }
}

impl<T, C> Clone for TypedTube<T, C> {
    fn clone(&self) -> TypedTube<T, C> {
        TypedTube { tube: self.tube.clone(), types: PhantomData }
    }
}

impl<T, C> fmt::Debug for TypedTube<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTube").field("tube", &self.tube.name()).finish_non_exhaustive()
    }
}

/// A taken task and the value that its body stands for; from [`TypedTube::take`].
///
/// It is a [`Claim`]: dropping it releases the task, and the verbs are the claim's own, with the
/// same promises and the same errors.
pub struct TypedClaim<T> {
    value: T,
    claim: Claim,
}

impl<T> TypedClaim<T> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.claim.id()
    }

    /// The claim, for what it knows of the task.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The value and the claim apart, to move the one and keep the other. Dropping the claim
    /// releases the task.
    pub fn into_parts(self) -> (T, Claim) {
        (self.value, self.claim)
    }

    /// Finishes the task: it is gone. As [`Claim::ack`].
    ///
    /// # Errors
    /// Those of [`Claim::ack`].
    pub fn ack(self) -> Result<Receipt> {
        self.claim.ack()
    }

    /// Gives the task back to its old place, or after `delay`. As [`Claim::release`].
    ///
    /// # Errors
    /// Those of [`Claim::release`].
    pub fn release(self, delay: Duration) -> Result<Receipt> {
        self.claim.release(delay)
    }

    /// Sets the task aside until it is kicked or deleted. As [`Claim::bury`].
    ///
    /// # Errors
    /// Those of [`Claim::bury`].
    pub fn bury(self) -> Result<Receipt> {
        self.claim.bury()
    }

    /// Adds `by` to the task's hold, ttr and ttl. As [`Claim::touch`].
    ///
    /// # Errors
    /// Those of [`Claim::touch`].
    pub fn touch(&self, by: Duration) -> Result<Option<Receipt>> {
        self.claim.touch(by)
    }

    /// Sets the hold anew: it ends `hold` from now. As [`Claim::renew`].
    ///
    /// # Errors
    /// Those of [`Claim::renew`].
    pub fn renew(&self, hold: Duration) -> Result<()> {
        self.claim.renew(hold)
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

/// Gets a body that cannot be decoded out of the way of every later take.
fn bury(claim: Claim, error: Error) -> Error {
    let task = format!("task {} of tube {:?}", claim.id(), claim.tube());
    let what = match error {
        Error::Codec { what } => what,
        other => other.to_string(),
    };
    match claim.bury() {
        Ok(_) => misfit(format_args!("{task}: {what}; it is buried: kick or delete it")),
        Err(refused) => misfit(format_args!("{task}: {what}; it could not be buried: {refused}")),
    }
}

/// bincode shows what a type says as code, not as text.
fn misread(error: bincode::error::DecodeError) -> Error {
    match error {
        bincode::error::DecodeError::OtherString(what) => Error::Codec { what },
        other => misfit(other),
    }
}

fn misfit(what: impl fmt::Display) -> Error {
    Error::Codec { what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sample = (u64, String, Option<Vec<i32>>);

    fn sample() -> Sample {
        (u64::MAX, "grüße".into(), Some(vec![-1, 0, 1]))
    }

    fn comes_back<C: Codec>() {
        let bytes = C::encode(&sample()).unwrap();
        assert_eq!(C::decode::<Sample>(&bytes).unwrap(), sample());
    }

    fn refuses_what_is_cut_or_too_long<C: Codec>() {
        let mut bytes = C::encode(&sample()).unwrap();
        for len in 0..bytes.len() {
            assert!(matches!(C::decode::<Sample>(&bytes[..len]), Err(Error::Codec { .. })));
        }
        bytes.push(b'0');
        assert!(matches!(C::decode::<Sample>(&bytes), Err(Error::Codec { .. })));
    }

    #[test]
    fn what_bincode_writes_it_reads_and_nothing_else() {
        comes_back::<Bincode>();
        refuses_what_is_cut_or_too_long::<Bincode>();
    }

    #[cfg(feature = "json")]
    #[test]
    fn what_json_writes_it_reads_and_nothing_else() {
        comes_back::<Json>();
        refuses_what_is_cut_or_too_long::<Json>();
    }

    #[test]
    fn a_task_that_another_verb_took_is_read_or_buried() {
        let store = crate::Store::in_memory().unwrap();
        let tube = store.create_tube("numbers", crate::FIFO, crate::TubeOptions::new()).unwrap();
        let numbers = tube.typed::<u64>();
        tube.put_many([numbers.task(&7).unwrap(), Put::new("no number")]).unwrap();
        let mut claims = tube.take_many(2, None).unwrap();
        let (strange, seven) = (claims.pop().unwrap(), claims.pop().unwrap());
        let seven = numbers.read(seven).unwrap();
        assert_eq!((seven.id(), *seven.value()), (0, 7));
        assert!(matches!(numbers.read(strange), Err(Error::Codec { .. })));
        let misread = Bincode::decode::<std::num::NonZero<u8>>(&[0]).unwrap_err();
        assert!(!misread.to_string().contains('('), "code, not words: {misread}");
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.taken, tasks.buried), (1, 1));
        seven.ack().unwrap();
    }

    #[test]
    fn the_bytes_of_bincode_stay_what_they_are() {
        let bytes = Bincode::encode(&(1u8, 300u32, "ab", Some(-1i64))).unwrap();
        assert_eq!(bytes, [1, 251, 44, 1, 2, b'a', b'b', 1, 1]);
    }

    #[test]
    fn a_damaged_length_is_an_error_and_not_an_allocation() {
        let mut bytes = vec![253];
        bytes.extend(u64::MAX.to_le_bytes());
        assert!(Bincode::decode::<String>(&bytes).is_err());
        assert!(Bincode::decode::<Vec<u64>>(&bytes).is_err());
    }

    #[test]
    fn small_numbers_in_great_number_fit_the_limit() {
        let many = vec![1u64; 2 << 20];
        let bytes = Bincode::encode(&many).unwrap();
        assert_eq!(Bincode::decode::<Vec<u64>>(&bytes).unwrap(), many);
    }
}
