//! Integration tests of the plugin `ansible`: one module per topic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod ansible;
mod compare;
mod controller;
mod faults;
mod files;
mod import;
mod systems;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("compare", compare::trials()),
        ("controller", controller::trials()),
        ("faults", faults::trials()),
        ("files", files::trials()),
        ("import", import::trials()),
        ("systems", systems::trials()),
    ])
}
