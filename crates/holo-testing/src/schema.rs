//! JSON Schemas in the repository, which are generated from types.

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
