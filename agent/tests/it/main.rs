//! Integration tests of the agent with a real `holo`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod at_work;
mod faults;
mod harness;
mod health;
mod systemd;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("at_work", at_work::trials()),
        ("faults", faults::trials()),
        ("health", health::trials()),
        ("systemd", systemd::trials()),
    ])
}
