//! Integration tests of the `files` plugin: one module for each topic, whose name prefixes its tests.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed test panics")]

mod access;
mod adopt;
mod attributes;
mod base;
mod blame;
mod declared;
mod doctor;
mod edits;
mod file_systems;
mod known;
mod known_files;
mod meanwhile;
mod random;
mod record;
mod sidecar;
mod support;
mod version_3;

use std::process::ExitCode;

fn main() -> ExitCode {
    holo_testing::run_modules([
        ("access", access::trials()),
        ("adopt", adopt::trials()),
        ("attributes", attributes::trials()),
        ("base", base::trials()),
        ("blame", blame::trials()),
        ("declared", declared::trials()),
        ("doctor", doctor::trials()),
        ("edits", edits::trials()),
        ("file_systems", file_systems::trials()),
        ("known", known::trials()),
        ("known_files", known_files::trials()),
        ("meanwhile", meanwhile::trials()),
        ("random", random::trials()),
        ("record", record::trials()),
        ("sidecar", sidecar::trials()),
        ("version_3", version_3::trials()),
    ])
}
