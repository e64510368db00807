//! Whether the definition of an entity has changed since it was repaired.

use crate::discovery::inventory::Inventory;
use crate::entities::{Entity, Source};
use crate::host::root::Root;
use bstr::ByteSlice;
use holo_facts::{REGISTRY_SNAPSHOT, is_template};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// A hash of everything that defines an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::commands) struct Fingerprint(u64);

/// The lines in which definitions begin, by file. A definition ends where the next one begins.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Beginnings(HashMap<PathBuf, BTreeSet<usize>>);

/// The current definitions. Each file is read once.
pub(in crate::commands) struct Definitions<'a> {
    beginnings: &'a Beginnings,
    root: &'a Root,
    files: HashMap<PathBuf, Parts>,
    /// The hash of the inputs that any definition may depend on, if it was needed.
    common: Option<u64>,
}

/// The hashes of a file with definitions.
#[derive(Debug, Default)]
struct Parts {
    whole: u64,
    /// The definitions, by the lines in which they begin.
    parts: HashMap<usize, u64>,
}

#[cfg(test)]
impl Fingerprint {
    pub(in crate::commands) const fn for_test(number: u64) -> Fingerprint {
        Fingerprint(number)
    }
}

impl Beginnings {
    pub(in crate::commands) fn new(inventory: &Inventory) -> Beginnings {
        let mut beginnings: HashMap<PathBuf, BTreeSet<usize>> = HashMap::new();
        for Source { path, line } in inventory.entities.iter().flat_map(Entity::report_sources) {
            if let Some(line) = line {
                beginnings.entry(path).or_default().insert(line);
            }
        }
        Beginnings(beginnings)
    }
}

impl<'a> Definitions<'a> {
    pub(in crate::commands) fn new(beginnings: &'a Beginnings, root: &'a Root) -> Definitions<'a> {
        Definitions { beginnings, root, files: HashMap::new(), common: None }
    }

    /// Returns the fingerprint of an entity with these sources. Without sources, only the common inputs are known.
    pub(in crate::commands) fn fingerprint(&mut self, sources: &[Source]) -> Fingerprint {
        let mut hasher = DefaultHasher::new();
        self.common.get_or_insert_with(|| common_inputs(self.root)).hash(&mut hasher);
        for Source { path, line } in sources {
            let file = self.file(path);
            // Lines of a template differ from those of its output.
            let part = line.filter(|_| !is_template(path)).and_then(|line| file.parts.get(&line));
            (path, part.unwrap_or(&file.whole)).hash(&mut hasher);
        }
        Fingerprint(hasher.finish())
    }

    fn file(&mut self, path: &Path) -> &Parts {
        self.files.entry(path.to_owned()).or_insert_with(|| {
            let text = fs::read(self.root.as_read(path)).unwrap_or_default();
            Parts::new(&text, self.beginnings.0.get(path).unwrap_or(&BTreeSet::new()))
        })
    }
}

impl Parts {
    fn new(text: &[u8], beginnings: &BTreeSet<usize>) -> Parts {
        let mut whole = DefaultHasher::new();
        text.hash(&mut whole);
        let mut parts = HashMap::new();
        // Text before the first definition may concern all of them.
        let mut head = DefaultHasher::new();
        let mut current: Option<(usize, DefaultHasher)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            if beginnings.contains(&number) {
                parts.extend(current.take().map(|(begin, part)| (begin, part.finish())));
                current = Some((number, head.clone()));
            }
            line.hash(current.as_mut().map_or(&mut head, |(_, part)| part));
        }
        parts.extend(current.map(|(begin, part)| (begin, part.finish())));
        Parts { whole: whole.finish(), parts }
    }
}

/// What any definition may depend on in `/etc/holo`: data and facts. The configuration of the agent is not among it.
pub(in crate::commands) const OWN_DIRECTORIES: [&str; 2] = ["etc/holo/data", "etc/holo/facts.d"];
/// The same, as files: the settings of the engine, the key by which data are decrypted, and the services that are registered
/// with the fleet.
pub(in crate::commands) const OWN_FILES: [&str; 3] = ["etc/holo/engine.toml", "etc/holo/age.key", REGISTRY_SNAPSHOT];

/// Returns a hash of the inputs that any definition may depend on: configuration, data, facts and plugins.
fn common_inputs(root: &Root) -> u64 {
    let mut hasher = DefaultHasher::new();
    let pin = root.today().pin();
    let others = ["etc/holorc", "etc/holorc.d", "usr/lib/holo"].into_iter().chain(OWN_DIRECTORIES).chain(OWN_FILES);
    for path in others.map(|below| root.join(below)).chain([pin]) {
        for entry in WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            // The timestamps of a directory change with its entries, so only files count.
            let stamp = metadata.is_file().then_some((metadata.ino(), metadata.size(), changed));
            (entry.path(), stamp).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_ends_where_the_next_one_begins() {
        let of = |text: &str, lines: &[usize]| {
            let parts = Parts::new(text.as_bytes(), &lines.iter().copied().collect());
            let parts: Vec<u64> = lines.iter().map(|line| parts.parts[line]).collect();
            (parts[0], parts[1])
        };
        let (a, b) = of("[[x]]\nn = 1\n[[x]]\nn = 2\n", &[1, 3]);
        assert_eq!(of("[[x]]\nn = 1\n[[x]]\nn = 3\n", &[1, 3]).0, a);
        assert_ne!(of("[[x]]\nn = 1\n[[x]]\nn = 3\n", &[1, 3]).1, b);
        // An additional line in the first definition moves the second one without changing it.
        let (longer, moved) = of("[[x]]\nn = 1\nm = 1\n[[x]]\nn = 2\n", &[1, 4]);
        assert!(longer != a && moved == b);
        // Text before the first definition affects both.
        let (first, second) = of("y = 1\n[[x]]\nn = 1\n[[x]]\nn = 2\n", &[2, 4]);
        assert!(first != a && second != b);
    }
}
