//! Integration tests: one module per topic.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod sources;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("sources", sources::trials())])
}
