//! The reference model and what compares it with the library, as `tests/model` has them.

#![allow(dead_code, reason = "each kind of test asks for its own part")]

#[path = "../../tests/model/convert.rs"]
mod convert;
#[path = "../../tests/model/reference/mod.rs"]
pub mod reference;
#[path = "../../tests/model/steps.rs"]
pub mod steps;
#[path = "../../tests/model/system/mod.rs"]
pub mod system;
