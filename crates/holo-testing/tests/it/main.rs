//! Integration tests: one module per topic.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod boot;
mod overlay;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("boot", boot::trials()), ("overlay", overlay::trials())])
}
