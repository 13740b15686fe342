//! The values that things may have after a kill.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// What the parent knows of some things, such as the gates of tubes: for each the last acknowledged
/// value, and the value of a call under way.
#[derive(Debug)]
pub struct Values<K, V> {
    values: BTreeMap<K, Vec<V>>,
    acknowledged: u64,
}

impl<K, V> Default for Values<K, V> {
    fn default() -> Values<K, V> {
        Values { values: BTreeMap::new(), acknowledged: 0 }
    }
}

impl<K: Clone + Debug + Ord, V: Clone + Debug + Default + PartialEq> Values<K, V> {
    /// The number of acknowledged calls.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The values that the thing may have, in their order; the default if nothing was reported.
    pub fn of(&mut self, thing: K) -> &mut Vec<V> {
        self.values.entry(thing).or_insert_with(|| vec![V::default()])
    }

    /// A call that sets this value is about to be made.
    pub fn begin(&mut self, thing: K, value: V) {
        self.of(thing).push(value);
    }

    /// The call was acknowledged.
    pub fn acknowledge(&mut self, thing: K, value: V) {
        self.values.insert(thing, vec![value]);
        self.acknowledged += 1;
    }

    /// The store has this value after a kill.
    pub fn found(&mut self, thing: K, value: V) {
        let allowed = self.of(thing.clone());
        assert!(allowed.contains(&value), "{thing:?}: {value:?} is none of {allowed:?}");
        *allowed = vec![value];
    }

    /// The value was set while no worker runs.
    pub fn set(&mut self, thing: K, value: V) {
        self.values.insert(thing, vec![value]);
    }
}
