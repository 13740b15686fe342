//! The options of tubes. `list.rs` has the list, from which everything else follows: `declare.rs` makes
//! the types from it, `policies.rs` compares them and applies them to a driver, `row.rs` and `stored.rs`
//! have their bytes in the catalog. The wire, the export and the words of the command follow the list, too.
//!
//! This folder says what an option is, and not what it does: the core acts on the options, which it reads
//! from [`Policies`]. It knows no store and no tube that is open. A new option is an entry of the list, an
//! effect in the core, a flag in `cli/src/args/create.rs`, and a change of the protocol.

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
