//! Integration tests of `holo-build` with the real package managers: one module per topic.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports an error by panicking"
)]

mod check;
mod command_line;
mod details;
mod golden;
mod manual;
mod mistakes;
mod random_packages;
mod roots;
mod sign;
mod support;
mod triggers;
mod unusual;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("check", check::trials()),
        ("command_line", command_line::trials()),
        ("details", details::trials()),
        ("golden", golden::trials()),
        ("manual", manual::trials()),
        ("mistakes", mistakes::trials()),
        ("random_packages", random_packages::trials()),
        ("roots", roots::trials()),
        ("sign", sign::trials()),
        ("triggers", triggers::trials()),
        ("unusual", unusual::trials()),
    ])
}
