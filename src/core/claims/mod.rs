//! Claims, and the sessions that own them.

mod attempts;
mod choose;
mod claim;
mod failure;
mod fate;
mod owners;
mod parked;
mod progress;
mod row;
mod session;

pub(crate) use choose::{Chosen, OwnerOf, OwnerOfClaim};
pub(in crate::core) use choose::{IS_DONE, IS_SCHEDULE};
pub(crate) use claim::{ClaimOf, DescribeHeld, DropClaim};
pub(crate) use failure::decode_failure;
pub(in crate::core) use failure::encode_failure;
pub(in crate::core) use fate::Fate;
pub(in crate::core) use fate::{End, Rules};
pub(crate) use owners::{DescribeSession, Owners};
pub(crate) use parked::Park;
pub(crate) use progress::{ReportProgress, ReportText};
