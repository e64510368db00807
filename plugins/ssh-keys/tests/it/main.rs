//! The integration tests of the plugin `ssh-keys`: one module a topic, named in front of its tests.

mod accounts;
mod attacks;
mod openssh;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("accounts", accounts::trials()),
        ("attacks", attacks::trials()),
        ("openssh", openssh::trials()),
    ])
}
