//! Tests against other programs.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says by panicking what is wrong"
)]

mod against_patch;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("against_patch", against_patch::trials())])
}
