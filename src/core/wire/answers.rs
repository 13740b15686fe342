//! The encoding of answers.

use super::macros::wire_struct;
use crate::core::days::FailedStep;
use crate::core::verbs::{FindStep, MoveStep, SelectStep};

wire_struct! { MoveStep { moved, next } }
wire_struct! { SelectStep { changed, bound, next } }
wire_struct! { FindStep { task, next } }
wire_struct! { FailedStep { days, next } }
