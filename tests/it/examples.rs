//! The examples of this repository, which are installed on machines and shown in documents verbatim.

use holo_testing::Overlay;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory below `examples/`.
pub(crate) struct Example(pub(crate) &'static str);

impl Example {
    fn path(&self, path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(self.0).join(path)
    }

    /// Copies the contents of one of its subdirectories to a machine.
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

    /// Asserts that a document contains one of its files, indented.
    #[track_caller]
    pub(crate) fn is_shown(&self, file: &str, document: &str) {
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let shows = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(document));
        let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
        let shown: String = read(&self.path(file)).lines().map(indent).collect();
        assert!(shows.contains(&shown), "{document} shows something else than {file}");
    }

    /// Asserts that a document contains one of its files in a fenced block.
    #[track_caller]
    pub(crate) fn is_fenced(&self, file: &str, document: &str) {
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let shows = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(document));
        let shown = format!("\n{}```\n", read(&self.path(file)));
        assert!(shows.contains(&shown), "{document} shows something else than {file}");
    }
}
