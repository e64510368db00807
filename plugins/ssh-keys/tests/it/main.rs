//! Integration tests of the `ssh-keys` plugin: one module for each topic, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod accounts;
mod attacks;
mod many;
mod openssh;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("accounts", accounts::trials()),
        ("attacks", attacks::trials()),
        ("many", many::trials()),
        ("openssh", openssh::trials()),
    ])
}
