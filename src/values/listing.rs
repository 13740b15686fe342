//! Pages of listings, and the counts of tags.

use crate::Cursor;

/// One page of a listing: of tasks without or with their bodies, or of schedules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[doc(alias = "pagination")]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// How many items were left out, since their records are damaged.
    /// [`verify`](crate::expert::StoreAdmin::verify) reports them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub damaged: u64,
}

/// A page without items, behind which there are none.
impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page { items: Vec::new(), next: None, damaged: 0 }
    }
}

/// A tag, and how many tasks have it; from [`Store::tags`](crate::Store::tags).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// How many tasks have it, in all tubes. Tasks of a truncated or dropped tube count until their
    /// rows are removed.
    pub tasks: u64,
}
