//! The integration tests of the plugin `exec`: one module a topic, named in front of its tests.

mod exec;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("exec", exec::trials())])
}
