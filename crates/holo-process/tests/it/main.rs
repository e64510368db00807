//! The integration tests of the crate: one module a topic, named in front of its tests.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod conversations;
mod programs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let _prepared = holo_process::prepare();
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(programs::CALLER) => return programs::caller(arguments.collect()),
        Some(conversations::HEIR) => {
            conversations::heir();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    holo_testing::run_modules([("conversations", conversations::trials()), ("programs", programs::trials())])
}
