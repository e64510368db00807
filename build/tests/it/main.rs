//! Integration tests of `holo-build` with the real package managers: one module per topic.
#![expect(clippy::unwrap_used, reason = "a test reports an error by panicking")]

mod check;
mod command_line;
mod mistakes;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("check", check::trials()),
        ("command_line", command_line::trials()),
        ("mistakes", mistakes::trials()),
    ])
}
