//! Integration tests: one module per topic.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod boot;
mod overlay;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("boot", boot::trials()), ("overlay", overlay::trials())])
}
