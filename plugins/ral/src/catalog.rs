//! The providers that there are, and which of them manages a resource.

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

/// The directories in which packages put providers.
const DIRECTORIES: [&str; 2] = ["/usr/share/libral/data/providers", "/usr/local/share/libral/data/providers"];
/// The variable with more directories, which have providers in a directory of that name.
const DATA_DIR: &str = "RALSH_DATA_DIR";

/// The providers of a system, those first that count first.
#[derive(Debug)]
pub(crate) struct Catalog {
    entries: Vec<Entry>,
}

/// A file that is a provider.
#[derive(Debug)]
struct Entry {
    file: PathBuf,
    /// The provider, or what is wrong with its metadata.
    provider: Result<Arc<Provider>, String>,
}

/// A resource for which no provider can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ChoiceError {
    pub(crate) message: String,
    /// What is to be said of the providers that do not count.
    pub(crate) reasons: Vec<String>,
}

impl Catalog {
    /// Finds all providers, and has those describe themselves that are not known. In test mode these are the ones that respect the root.
    pub(crate) fn read(host: &Host, declared: &[DeclaredProvider]) -> Catalog {
        let mut known = KnownProviders::read(host);
        let mut entries = Vec::new();
        let mut names = BTreeSet::new();
        for invocation in invocations(host, declared).into_iter().filter(|invocation| !invocation.is_mocked(host)) {
            let file = invocation.file().to_owned();
            let metadata = known.metadata(&invocation, host);
            // Of two with one name the first counts.
            if metadata.as_ref().is_ok_and(|metadata| !names.insert(metadata.qualified_name())) {
                continue;
            }
            entries.push(Entry { file, provider: metadata.map(|known| Arc::new(Provider::new(known, invocation))) });
        }
        known.write(host);
        Catalog { entries }
    }

    /// Returns the providers that can be used.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.entries.iter().filter_map(|entry| entry.provider.as_ref().ok())
    }

    /// Returns true if there is, or may be, a provider of this type, suitable or not: nobody knows the type of one whose metadata is wrong.
    pub(crate) fn may_know(&self, kind: &str) -> bool {
        self.entries.iter().any(|entry| entry.provider.as_ref().map_or(true, |known| known.metadata.kind == kind))
    }

    /// Chooses the provider of a resource: the one that is named, or the only suitable one of the type.
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

    /// Returns why the providers that exist do not count.
    fn reasons(&self, kind: &str, named: Option<&str>) -> Vec<String> {
        let reason = |entry: &Entry| {
            let problem = match &entry.provider {
                Ok(provider) if provider.metadata.kind != kind => return None,
                Ok(provider) if named.is_some_and(|name| name != provider.metadata.name) => {
                    format!("is the provider {}", provider.metadata.name)
                }
                Ok(provider) => provider.metadata.obstacle()?,
                // Nobody knows its type.
                Err(problem) => problem.clone(),
            };
            Some(format!("{}: {problem}", entry.file.display()))
        };
        self.entries.iter().filter_map(reason).collect()
    }
}

/// Returns the files that are providers, in the order in which they count.
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

/// Returns the providers in a directory by name, as a definition would name them.
fn provider_files(host: &Host, directory: &Path) -> Vec<PathBuf> {
    // A directory that is not there, or cannot be read, has no providers for us.
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
