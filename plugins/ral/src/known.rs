//! A cache of providers' metadata.

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

/// The cache file of this run in the cache directory.
const CACHE: &str = "providers.json";
/// The cache file in the state directory, from which the next scan knows the commands that providers need without
/// running them.
const LASTING: &str = ".providers.json";

/// Cached metadata by file. Entries whose files have changed are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct KnownProviders {
    providers: BTreeMap<PathBuf, Cached>,
    #[serde(skip)]
    has_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cached {
    provider: Stamp,
    /// The separate metadata file, if any.
    file: Option<Stamp>,
    metadata: Metadata,
}

/// The metadata that changes when a file is modified.
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
    /// Reads the cache of this run, or that of the last run with changes.
    pub(crate) fn read(host: &Host) -> KnownProviders {
        let read = |file: PathBuf| serde_json::from_slice(&fs::read(file).ok()?).ok();
        read(host.cache_dir().join(CACHE)).or_else(|| read(host.state_dir().join(LASTING))).unwrap_or_default()
    }

    /// Saves the cache for the next process of this run, and for the next run. Errors are ignored, as it only saves
    /// time.
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

    /// Returns the commands that the provider of a resource needs, as far as they are known without running a program.
    pub(crate) fn commands(&self, kind: &str, named: Option<&str>) -> impl Iterator<Item = &str> {
        let fits = |metadata: &&Metadata| metadata.kind == kind && named.is_none_or(|name| name == metadata.name);
        let known: Vec<&Metadata> = self.providers.values().map(|cached| &cached.metadata).filter(fits).collect();
        let chosen = match known[..] {
            [only] => Some(only),
            // If there is only one suitable provider, it is used.
            _ => {
                let mut suitable = known.into_iter().filter(|metadata| metadata.obstacle().is_none());
                suitable.next().filter(|_| suitable.next().is_none())
            }
        };
        chosen.into_iter().flat_map(Metadata::commands)
    }

    /// Returns the metadata of a provider, which is only queried again if it has changed.
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
        // Errors are not cached, as they may be temporary.
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
