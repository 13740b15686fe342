//! The reference model of `tests/model`, and its comparison with the library.

#![allow(dead_code, reason = "only a part of it is used here")]

#[path = "../../tests/model/convert.rs"]
mod convert;
#[path = "../../tests/common/options.rs"]
mod options;
#[path = "../../tests/model/reference/mod.rs"]
pub mod reference;
#[path = "../../tests/model/steps.rs"]
pub mod steps;
#[path = "../../tests/common/stores.rs"]
mod stores;
#[path = "../../tests/model/system/mod.rs"]
pub mod system;
