//! Round trips.
fn main() {}
