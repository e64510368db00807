//! The available providers, and the choice between them.

use crate::definition::DeclaredProvider;
use crate::known::KnownProviders;
use crate::provider::Provider;
use holo_bridge::Invocation;
use holo_plugin::Host;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directories in which packages install providers.
const DIRECTORIES: [&str; 2] = ["/usr/share/libral/data/providers", "/usr/local/share/libral/data/providers"];
/// The environment variable with further directories, which contain providers in a subdirectory.
const DATA_DIR: &str = "RALSH_DATA_DIR";

/// The providers of a system in order of precedence.
#[derive(Debug)]
pub(crate) struct Catalog {
    entries: Vec<Entry>,
}

/// A file that is a provider.
#[derive(Debug)]
struct Entry {
    file: PathBuf,
    /// The provider, or the error in its metadata.
    provider: Result<Arc<Provider>, String>,
}

/// The reason why no provider can be chosen for a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ChoiceError {
    pub(crate) message: String,
    /// The reasons why existing providers are not suitable.
    pub(crate) reasons: Vec<String>,
}

impl Catalog {
    /// Finds all providers, and queries those without cached metadata. In test mode, these are only the ones that
    /// respect the root; if the system is not running, there are none.
    pub(crate) fn read(host: &Host, declared: &[DeclaredProvider]) -> Catalog {
        let mut known = KnownProviders::read(host);
        let mut entries = Vec::new();
        let mut names = BTreeSet::new();
        for invocation in invocations(host, declared)
            .into_iter()
            .filter(|invocation| !host.is_offline() && !invocation.is_mocked(host))
        {
            let file = invocation.file().to_owned();
            let metadata = known.metadata(&invocation, host);
            // If two have the same name, the first is used.
            if metadata.as_ref().is_ok_and(|metadata| !names.insert(metadata.qualified_name())) {
                continue;
            }
            entries.push(Entry { file, provider: metadata.map(|known| Arc::new(Provider::new(known, invocation))) });
        }
        known.write(host);
        Catalog { entries }
    }

    /// Returns the usable providers.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.entries.iter().filter_map(|entry| entry.provider.as_ref().ok())
    }

    /// Returns true if a provider of this type may exist, suitable or not: the type of one with invalid metadata is
    /// unknown.
    pub(crate) fn may_know(&self, kind: &str) -> bool {
        self.entries.iter().any(|entry| entry.provider.as_ref().map_or(true, |known| known.metadata.kind == kind))
    }

    /// Chooses the provider of a resource: the named one, or the only suitable one of the type.
    pub(crate) fn choose(&self, kind: &str, named: Option<&str>) -> Result<Arc<Provider>, ChoiceError> {
        let of_kind = |provider: &&Arc<Provider>| {
            provider.metadata.kind == kind && named.is_none_or(|name| provider.metadata.name == name)
        };
        let candidates: Vec<&Arc<Provider>> = self.providers().filter(of_kind).collect();
        let suitable: Vec<&Arc<Provider>> =
            candidates.iter().copied().filter(|provider| provider.metadata.obstacle().is_none()).collect();
        match suitable[..] {
            [provider] => Ok(Arc::clone(provider)),
            [] => {
                let message = format!("no provider of type {kind} is suitable here");
                Err(ChoiceError { message, reasons: self.reasons(kind, named) })
            }
            _ => {
                let names: Vec<&str> = suitable.iter().map(|provider| provider.metadata.name.as_str()).collect();
                let message = format!("{kind}: {}? Say provider = \"…\"", names.join(" or "));
                Err(ChoiceError { message, reasons: Vec::new() })
            }
        }
    }

    /// Returns the reasons why existing providers are not suitable.
    fn reasons(&self, kind: &str, named: Option<&str>) -> Vec<String> {
        let reason = |entry: &Entry| {
            let problem = match &entry.provider {
                Ok(provider) if provider.metadata.kind != kind => return None,
                Ok(provider) if named.is_some_and(|name| name != provider.metadata.name) => {
                    format!("is the provider {}", provider.metadata.name)
                }
                Ok(provider) => provider.metadata.obstacle()?,
                // Its type is unknown.
                Err(problem) => problem.clone(),
            };
            Some(format!("{}: {problem}", entry.file.display()))
        };
        self.entries.iter().filter_map(reason).collect()
    }
}

/// Returns the files of providers in order of precedence.
fn invocations(host: &Host, declared: &[DeclaredProvider]) -> Vec<Invocation> {
    let mut invocations: Vec<Invocation> = declared
        .iter()
        .map(|provider| Invocation::new(host, &provider.path, provider.interpreter.clone(), provider.respects_root))
        .collect();
    let data = std::env::var_os(DATA_DIR).unwrap_or_default();
    let data = std::env::split_paths(&data).filter(|directory| directory.is_absolute());
    let directories = [PathBuf::from("providers")]
        .into_iter()
        .chain(data.map(|directory| directory.join("providers")))
        .chain(DIRECTORIES.map(PathBuf::from));
    for directory in directories {
        for file in provider_files(host, &directory) {
            let Some(path) = file.to_str() else { continue };
            let invocation = Invocation::new(host, path, None, false);
            let is_known = invocations.iter().any(|known| known.file() == invocation.file());
            if !is_known && is_executable(invocation.file()) {
                invocations.push(invocation);
            }
        }
    }
    invocations
}

/// Returns the providers in a directory, ordered by name, with paths as in definitions.
fn provider_files(host: &Host, directory: &Path) -> Vec<PathBuf> {
    // A missing or unreadable directory has no providers.
    let mut files: Vec<PathBuf> = if directory.is_absolute() {
        let entries = fs::read_dir(host.below_root(directory)).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| directory.join(entry.file_name())).collect()
    } else {
        host.resources().list(directory).into_iter().flatten().map(|file| file.below).collect()
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "prov"));
    files.sort();
    files
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}
