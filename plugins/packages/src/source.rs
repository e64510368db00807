//! Packages that come from a file, local or downloaded, instead of a repository.

use crate::intent::Intent;
use crate::manager::Manager;
use crate::model::{Installed, PackageError, PackageFile};
use crate::pattern::VersionPattern;
use crate::wanted::{Ensure, Wanted};
use holo_change::Tree;
use holo_change::error::PathError;
use holo_download::{
    Address, ChecksumCache, Digests, Download, MAX_SIZE, Request, TIME_LIMIT, Timeouts, download, sha256,
};
use holo_plugin::Output;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The directory of downloaded files, which is removed at the end of the run.
const FETCHED: &str = "fetched";

/// Resolves the package files of definitions.
pub(crate) struct Sources<'m> {
    manager: &'m Manager<'m>,
    /// The versions of downloaded packages, with the digests of their sources.
    fetched: Intent,
    /// The installed packages, once they have been queried.
    installed: Option<Installed>,
}

/// Returns the URL of a source that has to be downloaded.
pub(crate) fn address(source: &str) -> Option<Address> {
    if source.starts_with('/') { None } else { source.parse().ok() }
}

/// The package that a definition refers to.
enum SourcePackage {
    /// A package file.
    File(PackageFile),
    /// An installed version.
    Installed(String),
    /// The content of this URL, which was not downloaded.
    Unfetched(String),
}

impl<'m> Sources<'m> {
    /// Reads the record of downloads in earlier runs.
    pub(crate) fn open(manager: &'m Manager<'m>) -> Result<Sources<'m>, PackageError> {
        let fetched = Intent::fetched(manager.system.host()).map_err(|error| PackageError::new(error.to_string()))?;
        Ok(Sources { manager, fetched, installed: None })
    }

    /// Returns the package with the version of its file. A problem with the file is stored in the result.
    pub(crate) fn with_file(&mut self, wanted: &Wanted, output: &mut Output<'_>) -> Wanted {
        let mut wanted = wanted.clone();
        let Some(source) = wanted.source.clone() else { return wanted };
        let address = address(&source);
        if self.manager.system.mock.is_some() {
            // The mock manager accepts any file.
            let path = address.map_or(source, |address| address.to_string());
            wanted.file = Some(PackageFile { path: path.into(), version: String::new() });
            return wanted;
        }
        let found = match &address {
            Some(address) => self.at_address(address, &wanted, output),
            None => read(&self.manager.system.path(source.trim_start_matches('/')), &wanted, self.manager)
                .map(SourcePackage::File),
        };
        let version = match found {
            Ok(SourcePackage::File(file)) => {
                let version = file.version.clone();
                wanted.file = Some(file);
                version
            }
            Ok(SourcePackage::Installed(version)) => version,
            Ok(SourcePackage::Unfetched(address)) => {
                wanted.problem = Some(format!("source: {address} was not fetched"));
                wanted.fetches = Some(address);
                return wanted;
            }
            Err(problem) => {
                wanted.problem = Some(format!("source: {}", problem.summary));
                return wanted;
            }
        };
        if wanted.ensure == Ensure::Present {
            wanted.ensure = Ensure::Version(VersionPattern::Exact(version));
        }
        wanted
    }

    /// Resolves a URL: from the record of downloads if the package is installed, or else by downloading it.
    fn at_address(
        &mut self,
        address: &Address,
        wanted: &Wanted,
        output: &mut Output<'_>,
    ) -> Result<SourcePackage, PackageError> {
        let checksum = wanted.checksum.as_ref().map(ToString::to_string).unwrap_or_default();
        let identity = sha256(format!("{} {checksum}", address.identity()).as_bytes());
        let known = self.fetched.version(&wanted.id).and_then(|known| known.split_once(' '));
        let version = known.filter(|(of, _)| *of == identity).map(|(_, version)| version.to_owned());
        if let Some(version) = version
            && self.is_installed(wanted, &version)?
        {
            return Ok(SourcePackage::Installed(version));
        }
        if self.manager.system.only_looks {
            return Ok(SourcePackage::Unfetched(address.to_string()));
        }
        let path = self.fetch(address, wanted, output)?;
        let file = read(&path, wanted, self.manager)?;
        let value = format!("{identity} {}", file.version);
        let noted = self.fetched.note([(&*wanted.id, Some(&*value))].into_iter());
        noted.map_err(|error| PackageError::new(error.to_string()))?;
        Ok(SourcePackage::File(file))
    }

    fn is_installed(&mut self, wanted: &Wanted, version: &str) -> Result<bool, PackageError> {
        if self.installed.is_none() {
            self.installed = Some(self.manager.installed()?);
        }
        let instances = self.installed.iter().flat_map(|installed| installed.instances(&wanted.key));
        let mut present = instances.filter(|instance| instance.is_complete());
        Ok(present.any(|instance| self.manager.provider.matches(version, &instance.version)))
    }

    /// Downloads a file to the cache.
    fn fetch(&self, address: &Address, wanted: &Wanted, output: &mut Output<'_>) -> Result<PathBuf, PackageError> {
        let host = self.manager.system.host();
        let folder = self.manager.system.cache_dir().join(FETCHED);
        let failed = |error: PathError| PackageError::new(error.to_string());
        fs::create_dir_all(&folder).map_err(|error| failed(PathError::new("create", &folder, error)))?;
        let name = format!("{}{}", wanted.key.name, self.manager.provider.file_suffix());
        let target = Tree::open(&folder).map_err(failed)?.place(Path::new(&name));
        let request = Request {
            addresses: std::slice::from_ref(address),
            headers: Vec::new(),
            credentials: None,
            checksum: wanted.checksum.clone(),
            previous: None,
            authorities: None,
            checksums: &ChecksumCache::open(target.with_suffix(".known"), false),
            max_size: MAX_SIZE,
            deadline: Instant::now().checked_add(wanted.timeout.unwrap_or(TIME_LIMIT)),
            timeouts: Timeouts::default(),
        };
        match download(&request, &target, host, output).map_err(|error| PackageError::new(error.to_string()))? {
            Download::Complete(complete) => complete.path.rename_to(&target).map_err(failed)?,
            Download::Unmodified => return Err(PackageError::new(format!("cannot download {address}"))),
        }
        Ok(folder.join(name))
    }
}

fn read(path: &Path, wanted: &Wanted, manager: &Manager<'_>) -> Result<PackageFile, PackageError> {
    let failed = |error| PackageError::new(PathError::new("open", path, error).to_string());
    let mut file = File::open(path).map_err(failed)?;
    if let Some(expected) = &wanted.checksum {
        let digests = Digests::read(&mut file, Some(expected)).map_err(failed)?;
        if let Some(found) = digests.mismatch(expected) {
            let words = format!("{} has the checksum {found}, not {expected}", path.display());
            return Err(PackageError::new(words));
        }
    }
    let Some(mut program) = manager.provider.describe(path) else {
        return Err(PackageError::new(format!("{} installs no packages from files", manager.provider.name())));
    };
    let captured = manager.system.read(&mut program)?;
    let text = String::from_utf8_lossy(&captured.stdout);
    let mut words = text.split_whitespace();
    let (Some(name), Some(version)) = (words.next(), words.next()) else {
        return Err(PackageError::new(format!("{} is not a package", path.display())));
    };
    if name != wanted.key.name {
        return Err(PackageError::new(format!("{} has the package {name}, not {}", path.display(), wanted.key.name)));
    }
    let version = version.strip_prefix("0:").unwrap_or(version).to_owned();
    Ok(PackageFile { path: path.to_owned(), version })
}
