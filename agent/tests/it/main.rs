//! Integration tests of the agent with a real `holo`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod at_work;
mod contract;
mod faults;
mod harness;
mod health;
mod requests;
mod soak;
mod systemd;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        // These take longest.
        ("soak", soak::trials()),
        ("at_work", at_work::trials()),
        ("contract", contract::trials()),
        ("faults", faults::trials()),
        ("health", health::trials()),
        ("requests", requests::trials()),
        ("systemd", systemd::trials()),
    ])
}
