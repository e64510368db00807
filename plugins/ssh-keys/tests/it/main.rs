//! The integration tests of the plugin `ssh-keys`: one module a topic, named in front of its tests.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

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
