//! The options of tubes. `list.rs` has the list, from which everything else follows: `declare.rs` makes
//! the types from it, `policies.rs` compares them and applies them to a driver, `row.rs` has their bytes in
//! the catalog. The core acts on the options; it reads them from [`Policies`].

mod checks;
mod declare;
pub(crate) mod list;
mod policies;
mod row;
mod stored;
mod times;
mod tube;
mod value;

pub(crate) use checks::check_max_attempts;
pub(crate) use declare::Policies;
pub use declare::{TubeInfo, TubeOptions};
pub(crate) use times::micros;
pub use value::OptionValue;
