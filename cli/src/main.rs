//! The command `tubewell`. All of it is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tubewell_cli::run()
}
