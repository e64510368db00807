//! Test support for holo and its plugins.
//!
//! Use it for tests with a whole root directory: [`tree`] converts text to files and back, [`ScratchRoot`] is a
//! temporary root, [`Scenario`] is a folder with an initial root and the expected output, and [`Overlay`] is a
//! temporary copy of this machine, which can be booted. `holo test` is a thin layer over [`scenario`]; all other items
//! are for tests in Rust. Tests with requirements beyond the workspace declare them through [`trial`].

pub mod binaries;
pub mod disturb;
mod files;
pub mod fuzz;
pub mod others;
pub mod overlay;
pub mod processes;
pub mod random;
pub mod require;
mod run;
pub mod scenario;
pub mod scratch;
pub mod tree;

pub use files::{IoError, copy_program, write_script};
pub use overlay::Overlay;
pub use random::Random;
pub use require::{Need, run_modules, trial, trial_of};
pub use run::{End, Ends, Run};
pub use scenario::{Scenario, set_umask};
pub use scratch::ScratchRoot;

use serde::Serialize;
use std::path::{Path, PathBuf};

/// If this is `1`, [`schema_is_kept`] writes the schema instead of comparing it.
const BLESS: &str = "HOLO_BLESS";

/// Checks that the file of this name in `schema/` equals this schema.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn schema_is_kept(name: &str, schema: &impl Serialize) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(name);
    let text = serde_json::to_string_pretty(schema);
    assert!(text.is_ok(), "{name}: {text:?}");
    let text = text.unwrap_or_default() + "\n";
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        let written = std::fs::write(&path, &text);
        assert!(written.is_ok(), "write {}: {written:?}", path.display());
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "schema/{name} is not that of the types: {BLESS}=1 rewrites it");
}

/// Checks that a page is correct HTML.
///
/// # Panics
/// If it is not, or if [`require::HTML_VALIDATE`] is missing.
#[track_caller]
pub fn page_is_valid(page: &str) {
    let root = ScratchRoot::new().file("page.html", page);
    // An own configuration with the recommended rules, to ignore those of parent directories.
    let rules = r#"{"root":true,"extends":["html-validate:recommended","html-validate:document"]}"#;
    let root = root.file(".htmlvalidate.json", rules);
    let run = root.run(require::html_validate(), &["--max-warnings=0", "page.html"]);
    assert!(run.success(), "{run}");
}
