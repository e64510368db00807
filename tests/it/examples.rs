//! The examples of this repository: their files are put onto machines, and shown to readers as they are.

use holo_testing::Overlay;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder below `examples/`.
pub(crate) struct Example(pub(crate) &'static str);

impl Example {
    fn path(&self, path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(self.0).join(path)
    }

    /// Copies what is in a folder of it to a machine.
    pub(crate) fn install(&self, folder: &str, to: &str, machine: &Overlay) {
        let from = self.path(folder);
        let mut folders = vec![from.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    machine.write(Path::new(to).join(path.strip_prefix(&from).unwrap()), fs::read(&path).unwrap());
                }
            }
        }
    }

    /// Fails unless a document shows a file of it, indented.
    #[track_caller]
    pub(crate) fn is_shown(&self, file: &str, document: &str) {
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let shows = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(document));
        let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
        let shown: String = read(&self.path(file)).lines().map(indent).collect();
        assert!(shows.contains(&shown), "{document} shows something else than {file}");
    }
}
