//! Diagnoses that all plugins have in common.

use crate::{Diagnosis, Host, Level};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The suffixes of temporary files, which exist until a change is recorded.
const UNFINISHED: [&str; 3] = [".holonew", ".new", ".staged"];
/// The maximum depth of temporary files in the state directory.
const DEPTH: usize = 3;

/// Returns the problems of the state and definitions that any plugin may have.
pub(crate) fn common(host: &Host) -> Vec<Diagnosis> {
    interrupted(host).into_iter().chain(exposed(host)).collect()
}

/// Returns a diagnosis for missing programs that `what` needs; `None` in test mode, which runs no programs.
#[must_use]
pub fn missing_programs(host: &Host, programs: &[&str], what: &str) -> Option<Diagnosis> {
    let missing = |program: &&&str| crate::process::find(program).is_none();
    let missing: Vec<&str> = programs.iter().filter(missing).copied().collect();
    (!host.test_mode() && !missing.is_empty()).then(|| {
        let title = format!("not found in $PATH: {}", missing.join(", "));
        Diagnosis::new(Level::Error, title, format!("install the package that provides it, because {what} requires it"))
    })
}

/// Finds files left behind by an apply that was interrupted during a change.
fn interrupted(host: &Host) -> Option<Diagnosis> {
    let unfinished = first_unfinished(host.state_dir(), DEPTH)?;
    let title = format!("{} was left behind by an unfinished change", unfinished.display());
    Some(Diagnosis::new(Level::Warning, title, "the next apply recovers it"))
}

fn first_unfinished(folder: &Path, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        // These directories contain copies of system files, which may have any name.
        let is_copies = matches!(path.file_name().and_then(OsStr::to_str), Some("base" | "provisioned" | "bases"));
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if UNFINISHED.iter().any(|end| name.ends_with(end.as_bytes())) {
            return Some(path);
        }
        let is_folder = !is_copies && depth > 0 && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder { first_unfinished(&path, depth - 1) } else { None }
    })
}

/// Finds world-readable files with sensitive values.
fn exposed(host: &Host) -> impl Iterator<Item = Diagnosis> {
    crate::definitions::exposed_files(host.resources()).into_iter().map(|path| {
        let path = path.display();
        let title = format!("{path} contains sensitive definitions, and is world-readable");
        Diagnosis::new(Level::Warning, title, format!("chmod o-r {path}"))
    })
}
