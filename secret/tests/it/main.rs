//! Integration tests of `holo-secret` with the real `age` and `ssh-keygen`: one module per topic.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod data;
mod edit;
mod machine;
mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([("data", data::trials()), ("edit", edit::trials()), ("program", program::trials())])
}
