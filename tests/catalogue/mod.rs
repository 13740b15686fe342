//! The conformance catalogue: one test for each behaviour of a tube.
//!
//! The first line above a test names the cases of the catalogue that it covers. A line that begins
//! with "Difference:" describes a behaviour of this queue that differs from the system that the
//! catalogue describes. The test asserts the behaviour of this queue.
//!
//! All tests use a clock that only the test moves. Each test verifies its store at the end.
//!
//! Cases that do not apply: wrong types, which do not compile (A10, A11, A15, A16, B06,
//! C16, D11, D17, H13, M07, M08), sub-queue names that are numbers (F03), storage modes and engines
//! (F25, F28, K12 in part, K13, M09), raw rows (J12), tube numbers (K09), rows of sessions (Q25),
//! the second name of a function (I16), replicas, roles and access rights (H14, H15, K15, L09 to
//! L18, N01 to N04, N06, Q18 to Q20, Q22), and one handle whose session changes (H09).

use crate::executor;

mod bury_kick_delete;
mod due_order;
mod durability;
mod events;
mod limits;
mod order;
mod ownership;
mod put;
mod restart;
mod sessions;
mod statistics;
mod subqueues;
pub mod support;
mod time;
mod touch;
mod tubes;
mod waiting;
