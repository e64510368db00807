//! Integration tests of the plugin `ral`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod choice;
mod crash;
mod idioms;
mod json;
mod machine;
mod rows;
mod show;
mod simple;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("choice", choice::trials()),
        ("crash", crash::trials()),
        ("idioms", idioms::trials()),
        ("json", json::trials()),
        ("rows", rows::trials()),
        ("show", show::trials()),
        ("simple", simple::trials()),
    ])
}
