//! The tubes of an open store: by number, by name, and by the space that their rows have.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use tubewell_drivers::Driver;

use super::tube::TubeState;
use crate::base::id_map::IdMap;
use crate::base::tube_no::TubeNo;
use crate::{Error, Result};

/// All tubes, and the drivers that run them.
pub(crate) struct Tubes {
    by_number: IdMap<TubeNo, TubeState>,
    by_name: BTreeMap<Arc<str>, TubeNo>,
    by_space: IdMap<u32, TubeNo>,
    /// The space of the next tube.
    next_space: u32,
    /// The tubes to which a task has come from another one in this run of the store, or in which a
    /// schedule has left its runs.
    strays: BTreeSet<TubeNo>,
    drivers: BTreeMap<String, Arc<dyn Driver>>,
}

impl Tubes {
    /// No tubes, in a file whose next tube gets this space.
    pub(in crate::core) fn new(next_space: u32) -> Tubes {
        Tubes {
            by_number: IdMap::default(),
            by_name: BTreeMap::new(),
            by_space: IdMap::default(),
            next_space,
            strays: BTreeSet::new(),
            drivers: BTreeMap::new(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: TubeNo) -> Option<&TubeState> {
        self.by_number.get(&number)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: TubeNo) -> Option<&mut TubeState> {
        self.by_number.get_mut(&number)
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = (TubeNo, &TubeState)> {
        self.by_number.iter().map(|(number, tube)| (*number, tube))
    }

    pub(in crate::core) fn values(&self) -> impl Iterator<Item = &TubeState> {
        self.by_number.values()
    }

    pub(in crate::core) fn values_mut(&mut self) -> impl Iterator<Item = &mut TubeState> {
        self.by_number.values_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(in crate::core) fn add(&mut self, number: TubeNo, tube: TubeState) {
        self.by_space.insert(tube.definition.space, number);
        self.by_name.insert(tube.definition.name.clone(), number);
        self.by_number.insert(number, tube);
    }

    /// Removes a tube. The caller frees its space.
    pub(in crate::core) fn remove(&mut self, number: TubeNo) -> Option<TubeState> {
        let tube = self.by_number.remove(&number)?;
        self.by_name.remove(&tube.definition.name);
        self.strays.remove(&number);
        Some(tube)
    }

    /// The number of the tube with this name.
    pub(crate) fn named(&self, name: &str) -> Option<TubeNo> {
        self.by_name.get(name).copied()
    }

    /// Names and numbers, by name.
    pub(in crate::core) fn names(&self) -> impl Iterator<Item = (&Arc<str>, TubeNo)> {
        self.by_name.iter().map(|(name, number)| (name, *number))
    }

    /// Those of the names in this range.
    pub(in crate::core) fn names_in<K: ?Sized + Ord>(
        &self,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = (&Arc<str>, TubeNo)>
    where
        Arc<str>: Borrow<K>,
    {
        self.by_name.range(range).map(|(name, number)| (name, *number))
    }

    /// The tube that has a space; `None` of a space that is purged.
    #[inline]
    pub(in crate::core) fn of_space(&self, space: u32) -> Option<TubeNo> {
        self.by_space.get(&space).copied()
    }

    /// A tube has this space from now on. The caller frees the one that it had.
    pub(in crate::core) fn set_space(&mut self, space: u32, number: TubeNo) {
        self.by_space.insert(space, number);
    }

    /// No tube has this space any more.
    pub(in crate::core) fn free_space(&mut self, space: u32) {
        self.by_space.remove(&space);
    }

    /// A space number that no tube has had, since rows of used numbers may still be stored.
    pub(in crate::core) fn new_space(&mut self) -> Result<u32> {
        let space = self.next_space;
        let why = "all tube numbers are used; export the store and import it into a new one";
        let next = space.checked_add(1).ok_or_else(|| Error::Unavailable { why: why.into() })?;
        self.next_space = next;
        Ok(space)
    }

    /// The space that the next new tube gets.
    pub(in crate::core) fn next_space(&self) -> u32 {
        self.next_space
    }

    /// A task has come to a tube from another one, or a schedule leaves its runs there.
    pub(in crate::core) fn note_stray(&mut self, number: TubeNo) {
        self.strays.insert(number);
    }

    /// The tubes that may have tasks which were put elsewhere, in this run of the store.
    pub(in crate::core) fn with_strays(&self) -> impl Iterator<Item = TubeNo> {
        self.strays.iter().copied()
    }

    pub(in crate::core) fn driver(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.drivers.get(name)
    }

    pub(in crate::core) fn add_driver(&mut self, name: String, driver: Arc<dyn Driver>) {
        self.drivers.insert(name, driver);
    }

    /// The names of the registered drivers, for an error message.
    pub(crate) fn known_drivers(&self) -> String {
        let names: Vec<&str> = self.drivers.keys().map(String::as_str).collect();
        names.join(", ")
    }
}
