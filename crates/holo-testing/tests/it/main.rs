//! The integration tests of the crate: one module a topic, named in front of its tests.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod boot;
mod overlay;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("boot", boot::trials()), ("overlay", overlay::trials())])
}
