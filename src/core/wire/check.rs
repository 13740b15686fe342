//! The checks that a handle makes before its call.

use crate::Result;
use crate::core::call::Call;

/// Refuses what no handle of a store with this limit would ask, with the error of the handle.
#[expect(clippy::unnecessary_wraps, reason = "the checks follow")]
pub(crate) fn check_call(call: &Call<'_>, max_body: usize) -> Result<()> {
    let _ = (call, max_body);
    Ok(())
}
