//! The binary `tubewell`. Its code is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tubewell_cli::run()
}
