//! The integration tests of the `run-scripts` plugin. Each topic is a module, whose name prefixes its tests.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod scripts;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("scripts", scripts::trials())])
}
