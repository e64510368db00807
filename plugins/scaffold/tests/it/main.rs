//! The integration tests of the `scaffold` plugin. Each topic is a module, whose name prefixes its tests.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod blame;
mod crash;
mod go;
mod known;
mod scaffold;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("blame", blame::trials()),
        ("crash", crash::trials()),
        ("go", go::trials()),
        ("known", known::trials()),
        ("scaffold", scaffold::trials()),
    ])
}
