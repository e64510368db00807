//! Integration tests of the plugin `ansible`: one module per topic.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod ansible;
mod faults;
mod files;
mod systems;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("faults", faults::trials()),
        ("files", files::trials()),
        ("systems", systems::trials()),
    ])
}
