//! The integration tests of the `archives` plugin. Each topic is a module, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod authenticity;
mod crash;
mod differences;
mod downloads;
mod extraction;
mod hostile;
mod manual;
mod previews;
mod selection;
mod shared;
mod support;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("authenticity", authenticity::trials()),
        ("crash", crash::trials()),
        ("differences", differences::trials()),
        ("downloads", downloads::trials()),
        ("extraction", extraction::trials()),
        ("hostile", hostile::trials()),
        ("manual", manual::trials()),
        ("previews", previews::trials()),
        ("selection", selection::trials()),
        ("shared", shared::trials()),
        ("values", values::trials()),
    ])
}
