//! The verbs, by the caller that may use them: put and peek by any, take by a session, then the
//! holder's, then those on any stored task.

mod admin;
mod holder;
mod peek;
mod put;
mod take;

pub(crate) use admin::KICK_STEP;
pub(crate) use peek::describe;
pub(crate) use take::{Next, TAKE_EXPIRES};
