//! The integration tests of the plugin `ansible`: one module a topic, named in front of its tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([])
}
