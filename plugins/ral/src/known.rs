//! The metadata of providers, which is read once.

use crate::metadata::Metadata;
use crate::provider::describe;
use holo_bridge::Invocation;
use holo_change::{OnDisk, Tree};
use holo_plugin::Host;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file in the cache directory, which is that of this run.
const CACHE: &str = "providers.json";
/// The file in the state directory: the commands that providers need are known to the next scan, which starts none.
const LASTING: &str = ".providers.json";

/// Metadata that was read before, by file. What does not fit what is there now does not count.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct KnownProviders {
    providers: BTreeMap<PathBuf, Cached>,
    #[serde(skip)]
    has_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cached {
    provider: Stamp,
    /// The file of its metadata, if there is one.
    file: Option<Stamp>,
    metadata: Metadata,
}

/// What changes when a file is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn read(file: &Path) -> Option<Stamp> {
        let metadata = fs::metadata(file).ok()?;
        Some(Stamp { size: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

impl KnownProviders {
    /// Reads what this run knows, or else what the last one knew that changed something.
    pub(crate) fn read(host: &Host) -> KnownProviders {
        let read = |file: PathBuf| serde_json::from_slice(&fs::read(file).ok()?).ok();
        read(host.cache_dir().join(CACHE)).or_else(|| read(host.state_dir().join(LASTING))).unwrap_or_default()
    }

    /// Keeps it for the next process of this run, and for the next run. It saves time only, so nothing is said if that fails.
    pub(crate) fn write(&self, host: &Host) {
        if !self.has_changed {
            return;
        }
        let Ok(text) = serde_json::to_vec(self) else { return };
        let write = |folder: &Path, name: &str| {
            Tree::open(folder)?.place(Path::new(name)).replace(&text, 0o600, OnDisk::Nothing)
        };
        let _ = write(host.cache_dir(), CACHE);
        if !host.only_reads() {
            let _ = write(host.state_dir(), LASTING);
        }
    }

    /// Returns the commands that the provider of a resource needs, as far as that is known without starting anything.
    pub(crate) fn commands(&self, kind: &str, named: Option<&str>) -> impl Iterator<Item = &str> {
        let fits = |metadata: &&Metadata| metadata.kind == kind && named.is_none_or(|name| name == metadata.name);
        let known: Vec<&Metadata> = self.providers.values().map(|cached| &cached.metadata).filter(fits).collect();
        let chosen = match known[..] {
            [only] => Some(only),
            // The only suitable one is the one that counts.
            _ => {
                let mut suitable = known.into_iter().filter(|metadata| metadata.obstacle().is_none());
                suitable.next().filter(|_| suitable.next().is_none())
            }
        };
        chosen.into_iter().flat_map(Metadata::commands)
    }

    /// Returns the metadata of a provider, which is asked only if it has changed since.
    pub(crate) fn metadata(&mut self, invocation: &Invocation, host: &Host) -> Result<Metadata, String> {
        let file = invocation.file();
        let yaml = file.with_extension("yaml");
        let stamps = (Stamp::read(file), Stamp::read(&yaml));
        if let Some(known) = self.providers.get(file)
            && (Some(&known.provider), known.file.as_ref()) == (stamps.0.as_ref(), stamps.1.as_ref())
        {
            return Ok(known.metadata.clone());
        }
        let metadata = metadata(invocation, &yaml, stamps.1.is_some(), host);
        // What went wrong may go well the next time.
        if let (Some(provider), yaml, Ok(metadata)) = (stamps.0, stamps.1, &metadata) {
            let metadata = metadata.clone();
            self.providers.insert(file.to_owned(), Cached { provider, file: yaml, metadata });
            self.has_changed = true;
        }
        metadata
    }
}

fn metadata(invocation: &Invocation, yaml: &Path, has_yaml: bool, host: &Host) -> Result<Metadata, String> {
    let file = invocation.file();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    if has_yaml {
        let text = fs::read(yaml).map_err(|error| holo_change::PathError::new("read", yaml, error).to_string())?;
        let shown = yaml.file_name().unwrap_or_default().to_string_lossy();
        return Metadata::parse(&stem, &shown, &text);
    }
    let text = describe(invocation, host).map_err(|error| error.to_string())?;
    Metadata::parse(&stem, "describe", &text)
}
