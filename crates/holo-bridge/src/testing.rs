//! Helpers for tests of definitions, shared by bridges.
#![expect(clippy::unwrap_used, reason = "only tests call this")]

use holo_plugin::definitions::{self, Declaration, Definition};
use holo_plugin::{Host, Output, Sink, Stream};
use std::collections::BTreeMap;

/// The schema of an [`Interpreter`](crate::Interpreter).
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
pub enum InterpreterSchema {
    /// The path of the program.
    Path(String),
    /// The program and its first arguments.
    Words(Vec<String>),
}

/// The schema of [`Attributes`](crate::Attributes).
pub type AttributesSchema = BTreeMap<String, serde_json::Value>;

struct Said(String);

impl Sink for Said {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.0.push_str(&String::from_utf8_lossy(bytes));
    }
}

/// Reads a definition file, and returns the findings without the path of its directory.
///
/// # Panics
/// If the temporary directory cannot be created.
#[must_use]
pub fn definitions_said<T: Definition, D: Declaration>(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.toml"), text).unwrap();
    let host = Host::from_environment(|_| Some(folder.path().into())).unwrap();
    let mut said = Said(String::new());
    definitions::read_with::<T, D>(&host, &mut Output::new(&mut said));
    said.0.replace(&format!("{}/", folder.path().display()), "")
}
