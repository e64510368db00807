//! Integration tests of the plugin `promises`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod acceptance;
mod agent;
mod dialogues;
mod faults;
mod machine;
mod processes;
mod results;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        // These take longest.
        ("faults", faults::trials()),
        ("acceptance", acceptance::trials()),
        ("agent", agent::trials()),
        ("dialogues", dialogues::trials()),
        ("processes", processes::trials()),
        ("results", results::trials()),
    ])
}
