//! Integration tests of the plugin `services`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod booted;
mod offline;
mod openrc;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("booted", booted::trials()),
        ("offline", offline::trials()),
        ("openrc", openrc::trials()),
    ])
}
