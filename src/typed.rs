//! Tubes of values instead of bytes: a thin layer over the calls of a tube, and its codecs.

mod attempts;
mod claim;
mod codec;
mod deferred;
mod deferred_attempts;
mod edits;
mod gates;
mod history;
mod keyed;
mod labels;
mod limits;
mod metrics;
mod movement;
mod outcomes;
mod parents;
mod schedules;
mod steps;
mod tube;
mod watch;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Tube;

pub use claim::{TypedClaim, TypedTask};
#[cfg(feature = "json")]
pub use codec::Json;
pub use codec::{Bincode, Codec};
pub use deferred::TypedDeferred;
pub use tube::TypedTube;

impl Tube {
    /// This tube with values of the type `T` as bodies, encoded with bincode.
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> TypedTube<T> {
        TypedTube::new(self.clone())
    }

    /// This tube with values of the type `T` as bodies, and a codec: [`Bincode`](crate::Bincode),
    /// `Json` (feature `json`), or one that you write.
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

#[cfg(test)]
mod tests {
    use crate::{Error, Put};

    #[test]
    fn read_decodes_a_task_taken_by_another_call_or_buries_it() {
        let store = crate::Store::in_memory().unwrap();
        let tube = store.create_tube("numbers", crate::FIFO, crate::TubeOptions::new()).unwrap();
        let numbers = tube.typed::<u64>();
        tube.put_many([numbers.task(&7).unwrap(), Put::new("no number")]).unwrap();
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
