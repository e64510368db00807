//! Diagnoses that are the same for all plugins.

use crate::{Diagnosis, Host, Level};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The names that files have until a change that they are for is recorded.
const UNFINISHED: [&str; 3] = [".holonew", ".new", ".staged"];
/// State is not deeper than this where such files are.
const DEPTH: usize = 3;

/// Returns what is wrong with the state and the definitions of any plugin.
pub(crate) fn common(host: &Host) -> Vec<Diagnosis> {
    interrupted(host).into_iter().chain(exposed(host)).collect()
}

/// Returns the diagnosis of programs that are not there, which `what` needs; none of them is needed where nothing is changed really.
#[must_use]
pub fn missing_programs(host: &Host, programs: &[&str], what: &str) -> Option<Diagnosis> {
    let missing = |program: &&&str| crate::process::find(program).is_none();
    let missing: Vec<&str> = programs.iter().filter(missing).copied().collect();
    (!host.test_mode() && !missing.is_empty()).then(|| {
        let title = format!("not found in $PATH: {}", missing.join(", "));
        Diagnosis::new(Level::Error, title, format!("install the package that has it, as {what} is done with that"))
    })
}

/// Finds what an apply has left that was ended in the middle of a change.
fn interrupted(host: &Host) -> Option<Diagnosis> {
    let unfinished = first_unfinished(host.state_dir(), DEPTH)?;
    let title = format!("{} is left of a change that was not finished", unfinished.display());
    Some(Diagnosis::new(Level::Warning, title, "the next apply puts it in order"))
}

fn first_unfinished(folder: &Path, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        // Copies of the system's own files are called as those are.
        let is_copies = matches!(path.file_name().and_then(OsStr::to_str), Some("base" | "provisioned" | "bases"));
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if UNFINISHED.iter().any(|end| name.ends_with(end.as_bytes())) {
            return Some(path);
        }
        let is_folder = !is_copies && depth > 0 && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder { first_unfinished(&path, depth - 1) } else { None }
    })
}

/// Finds secrets that everybody may read.
fn exposed(host: &Host) -> impl Iterator<Item = Diagnosis> {
    crate::definitions::exposed_files(host.resources()).into_iter().map(|path| {
        let path = path.display();
        let title = format!("{path} has something in it that is declared sensitive, and everybody can read it");
        Diagnosis::new(Level::Warning, title, format!("chmod o-r {path}"))
    })
}
