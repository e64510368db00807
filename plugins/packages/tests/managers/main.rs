//! Package managers at work, with packages that are built for them: in roots of their own, and on a whole system.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

mod apt;
mod pacman;
mod rpm;
mod support;
mod system;

use libtest_mimic::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    let trials = [apt::trials(), pacman::trials(), rpm::trials(), system::trials()];
    holo_testing::require::run(&Arguments::from_args(), trials.into_iter().flatten().collect())
}
