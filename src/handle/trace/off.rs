//! No spans: the feature `tracing` is off.

#![expect(clippy::unused_self, reason = "as the functions that make spans")]

use std::marker::PhantomData;

use crate::Result;
use crate::core::Grant;
use crate::core::verb::Verb;
use crate::values::put::Encoded;

/// What a call is made on.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a>(PhantomData<&'a ()>);

impl<'a> Of<'a> {
    pub(crate) const STORE: Of<'static> = Of(PhantomData);

    #[inline]
    pub(crate) fn tube(_: &'a str) -> Of<'a> {
        Of(PhantomData)
    }

    #[inline]
    pub(crate) fn claim(_: &'a Grant) -> Of<'a> {
        Of(PhantomData)
    }
}

/// The span of a call.
#[derive(Clone)]
pub(crate) struct CallSpan;

impl CallSpan {
    #[inline]
    pub(crate) fn none() -> CallSpan {
        CallSpan
    }

    #[inline]
    pub(crate) fn begin<V: Verb>(_: Of<'_>, _: usize, _: &mut V) -> CallSpan {
        CallSpan
    }

    #[inline]
    pub(crate) fn of_claims<V: Verb>(_: &Grant, _: &V, _: usize) -> CallSpan {
        CallSpan
    }

    #[inline]
    pub(crate) fn answered<V: Verb>(&self, _: &Result<V::Answer>) {}

    #[inline]
    pub(crate) fn note<V: Verb>(&self, _: &V::Answer) {}

    #[inline]
    pub(crate) fn ended<R>(&mut self, _: &Result<R>) {}

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        true
    }
}

#[inline]
pub(crate) fn taken(_: &Grant) {}

#[inline]
pub(crate) fn taken_many<'a>(_: impl ExactSizeIterator<Item = &'a Grant> + Clone) {}

#[inline]
pub(crate) fn join(put: Result<Encoded>) -> Result<Encoded> {
    put
}
