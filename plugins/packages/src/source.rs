//! Packages that come from a file instead of a repository.

use crate::declaration::{Ensure, Wanted};
use crate::error::PackageError;
use crate::manager::Manager;
use crate::model::PackageFile;
use crate::pattern::VersionPattern;
use holo_change::error::PathError;
use holo_change::tracked::Digest;
use std::fs::File;

/// Returns a package as it is wanted, with the version that its file has. What is wrong with that is noted.
pub(crate) fn with_file(wanted: &Wanted, manager: &Manager<'_>) -> Wanted {
    let mut wanted = wanted.clone();
    let Some(source) = wanted.source.clone() else { return wanted };
    if manager.system.mock.is_some() {
        // Whatever is in it is taken to be right.
        wanted.file = Some(PackageFile { path: source.into(), version: String::new() });
        return wanted;
    }
    match read(&source, &wanted, manager) {
        Ok(file) => {
            if wanted.ensure == Ensure::Present {
                wanted.ensure = Ensure::Version(VersionPattern::Exact(file.version.clone()));
            }
            wanted.file = Some(file);
        }
        Err(problem) => wanted.problem = Some(format!("source: {}", problem.summary)),
    }
    wanted
}

fn read(source: &str, wanted: &Wanted, manager: &Manager<'_>) -> Result<PackageFile, PackageError> {
    let path = manager.system.path(source.trim_start_matches('/'));
    let failed = |error| PackageError::new(PathError::new("open", &path, error).to_string());
    let mut file = File::open(&path).map_err(failed)?;
    if let Some(expected) = &wanted.checksum {
        let digest = Digest::of(&mut file).map_err(failed)?;
        if !expected.eq_ignore_ascii_case(&format!("sha256:{}", digest.as_str())) {
            let words = format!("{} has the checksum sha256:{}, not {expected}", path.display(), digest.as_str());
            return Err(PackageError::new(words));
        }
    }
    let Some(mut program) = manager.provider.describe(&path) else {
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
    Ok(PackageFile { path, version })
}
