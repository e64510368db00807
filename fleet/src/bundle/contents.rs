//! The files of a directory that becomes a bundle.

use super::error::BundleError;
use super::manifest::{HoloVersion, MAX_FILES, Manifest, Member, Version, path_problem};
use super::secrets::Search;
use crate::names::Label;
use holo_change::hex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The name of the description.
const DESCRIPTION: &str = "holo-bundle.toml";
const SETUID_OR_SETGID: u32 = 0o6000;

/// The description of a bundle, `holo-bundle.toml`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
struct Description {
    /// The name of the bundle. The command line can also name it.
    name: Option<Label>,
    /// Its version. The command line can also name it.
    version: Option<Version>,
    /// The oldest version of holo that can apply the bundle, such as `4.1`.
    min_holo: Option<HoloVersion>,
}

/// What the command line says about a bundle.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: Option<Label>,
    pub(crate) version: Option<Version>,
    pub(crate) max_size: u64,
    pub(crate) allow_secrets: bool,
}

/// The files of a directory, and their manifest.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(super) directory: PathBuf,
    pub(crate) manifest: Manifest,
}

impl Contents {
    /// Reads a directory.
    ///
    /// # Errors
    /// If a file cannot be part of a bundle. All such files are named.
    pub(crate) fn read(directory: &Path, options: &Options) -> Result<Contents, BundleError> {
        let path = directory.join(DESCRIPTION);
        let described = holo_definitions::read_document::<Description>(&path)?.unwrap_or_default();
        let missing = |key| BundleError::Missing { path: path.clone(), key };
        let name = options.name.clone().or(described.name).ok_or_else(|| missing("name"))?;
        let version = options.version.clone().or(described.version).ok_or_else(|| missing("version"))?;
        let mut reading = Reading { directory, options, files: BTreeMap::new(), size: 0, problems: Vec::new() };
        reading.walk()?;
        let mut problems = reading.problems;
        let manifest = Manifest { name, version, min_holo: described.min_holo, files: reading.files };
        let shown = |problem: &String| format!("{}/{problem}", directory.display());
        problems.extend(manifest.problems().iter().map(shown));
        if !problems.is_empty() {
            return Err(BundleError::Refused(problems));
        }
        if manifest.files.is_empty() {
            return Err(BundleError::Empty(directory.to_owned()));
        }
        Ok(Contents { directory: directory.to_owned(), manifest })
    }
}

struct Reading<'a> {
    directory: &'a Path,
    options: &'a Options,
    files: BTreeMap<String, Member>,
    size: u64,
    problems: Vec<String>,
}

impl Reading<'_> {
    fn walk(&mut self) -> Result<(), BundleError> {
        for entry in WalkDir::new(self.directory).follow_root_links(true).sort_by_file_name() {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(self.directory).to_owned();
                BundleError::Read { path, source: error.into() }
            })?;
            let path = entry.path();
            let below = path.strip_prefix(self.directory).unwrap_or(Path::new(""));
            if below == Path::new(DESCRIPTION) || below == Path::new("") {
                continue;
            }
            let Some(below) = below.to_str() else {
                self.problem(path, "its name is not UTF-8; rename it");
                continue;
            };
            self.add(path, below, entry.file_type())?;
            if self.files.len() > MAX_FILES {
                break;
            }
        }
        Ok(())
    }

    fn problem(&mut self, path: &Path, text: &str) {
        self.problems.push(format!("{}: {text}", path.display()));
    }

    fn add(&mut self, path: &Path, below: &str, kind: FileType) -> Result<(), BundleError> {
        let metadata = fs::symlink_metadata(path).map_err(BundleError::reading(path))?;
        if !kind.is_symlink() && metadata.mode() & SETUID_OR_SETGID != 0 && path_problem(below).is_none() {
            self.problem(path, "it has a setuid or setgid bit, which a bundle does not keep; run: chmod ug-s");
        }
        if kind.is_dir() {
            // Empty directories are not part of a bundle, so only those above the permitted ones need no file.
            return Ok(());
        }
        let member = if kind.is_file() {
            self.file(path, below)?
        } else if kind.is_symlink() {
            let target = fs::read_link(path).map_err(BundleError::reading(path))?;
            target.to_str().map(|target| Member::Symlink { target: target.to_owned() })
        } else {
            None
        };
        match member {
            Some(member) => drop(self.files.insert(below.to_owned(), member)),
            None => self.problem(path, "a bundle only has regular files and symlinks; remove it"),
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, below: &str) -> Result<Option<Member>, BundleError> {
        let failed = BundleError::reading(path);
        let mut file = File::open(path).map_err(&failed)?;
        let executable = file.metadata().map_err(&failed)?.mode() & 0o111 != 0;
        if path_problem(below).is_some() {
            // It is refused anyway, whatever is in it.
            return Ok(Some(Member::File { sha256: String::new(), size: 0, executable }));
        }
        let (mut digest, mut search, mut size) = (Sha256::new(), Search::default(), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = file.read(&mut buffer).map_err(&failed)?;
            let piece = buffer.get(..length).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            size += length as u64;
            self.size += length as u64;
            if self.size > self.options.max_size {
                let path = self.directory.to_owned();
                return Err(BundleError::TooLarge { path, limit: self.options.max_size });
            }
            digest.update(piece);
            search.pass(piece);
        }
        if let Some(line) = search.line.filter(|_| !self.options.allow_secrets) {
            let text = "a private key in plain text; encrypt it with holo-secret, or use --allow-secrets";
            self.problems.push(format!("{}:{line}: {text}", path.display()));
        }
        Ok(Some(Member::File { sha256: hex(&digest.finalize()), size, executable }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_that_of_the_types() {
        holo_testing::schema_is_kept("holo-bundle.schema.json", &schemars::schema_for!(Description));
    }
}
