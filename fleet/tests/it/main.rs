//! Tests with the real `ssh-keygen`, a real NATS server, and real agents: one module per topic.
#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a failed test panics")]

mod book;
mod booted;
mod build;
mod crash;
mod desk;
mod harness;
mod host;
mod hostile;
mod link;
mod manual;
mod page;
mod partitions;
mod registry;
mod rollouts;
mod signatures;
mod size;
mod trust;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("book", book::trials()),
        ("booted", booted::trials()),
        ("build", build::trials()),
        ("signatures", signatures::trials()),
        ("host", host::trials()),
        ("hostile", hostile::trials()),
        ("manual", manual::trials()),
        ("crash", crash::trials()),
        ("rollouts", rollouts::trials()),
        ("page", page::trials()),
        ("partitions", partitions::trials()),
        ("registry", registry::trials()),
        ("size", size::trials()),
        ("trust", trust::trials()),
    ])
}
