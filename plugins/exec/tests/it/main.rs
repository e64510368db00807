//! Integration tests of the plugin `exec`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod exec;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("exec", exec::trials())])
}
