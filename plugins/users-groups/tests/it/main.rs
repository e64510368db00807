//! Integration tests of the `users-groups` plugin: one module for each topic, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod real_system;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("real_system", real_system::trials()), ("values", values::trials())])
}
