//! Tests against other programs.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod against_patch;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("against_patch", against_patch::trials())])
}
