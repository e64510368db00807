//! Integration tests of the `packages` plugin: one module for each topic, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod apt;
mod companions;
mod disturbances;
mod inside;
mod names;
mod pacman;
mod repositories;
mod rpm;
mod sources;
mod states;
mod support;
mod system;
mod together;
mod values;
mod versions;
mod wanted;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("apt", apt::trials()),
        ("companions", companions::trials()),
        ("pacman", pacman::trials()),
        ("repositories", repositories::trials()),
        ("rpm", rpm::trials()),
        ("sources", sources::trials()),
        ("states", states::trials()),
        ("system", system::trials()),
        ("disturbances", disturbances::trials()),
        ("inside", inside::trials()),
        ("names", names::trials()),
        ("values", values::trials()),
        ("together", together::trials()),
        ("versions", versions::trials()),
        ("wanted", wanted::trials()),
    ])
}
