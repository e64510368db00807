//! The integration tests of the crate. Each topic is a module, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod conversations;
mod processes;
mod programs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    // Conversations do not require a prepared process.
    if first.as_deref() == Some(conversations::HEIR) {
        conversations::heir();
        return ExitCode::SUCCESS;
    }
    let _prepared = holo_process::prepare();
    if first.as_deref() == Some(programs::CALLER) {
        return programs::caller(arguments.collect());
    }
    holo_testing::run_modules([
        ("conversations", conversations::trials()),
        ("processes", processes::trials()),
        ("programs", programs::trials()),
    ])
}
