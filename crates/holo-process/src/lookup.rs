//! Searching a program in a list of directories.

use crate::error::StartError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The default search path for programs, in the format of `PATH`.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns true if a name is a path, which is not searched.
pub(crate) fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Finds a program by name. Relative directories are skipped, because the result must not depend on the working
/// directory.
pub(crate) fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
    let path = path.unwrap_or(OsStr::new(SYSTEM_PATH));
    let mut not_executable = None;
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute() && !name.is_empty()) {
        let candidate = directory.join(name);
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        if candidate.is_file() {
            not_executable = Some(candidate);
        }
    }
    let name = name.display().to_string();
    Err(match not_executable {
        Some(path) => StartError::NotExecutable { name, path },
        None => StartError::NotInPath { name },
    })
}

fn is_executable(candidate: &Path) -> bool {
    candidate.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn finds_the_first_that_can_be_run() {
        let scratch = tempfile::tempdir().unwrap();
        let place = |directory: &str, mode: u32| {
            let path = scratch.path().join(directory).join("tool");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (plain, first) = (place("plain", 0o644), place("first", 0o755));
        place("second", 0o755);
        fs::create_dir_all(scratch.path().join("folder/tool")).unwrap();
        let list = |names: &[&str]| std::env::join_paths(names.iter().map(|name| scratch.path().join(name))).unwrap();
        let found = |path: &OsStr| find(OsStr::new("tool"), Some(path));
        assert_eq!(found(&list(&["no-such", "folder", "plain", "first", "second"])).unwrap(), first);
        let refused = found(&list(&["folder", "plain"])).unwrap_err().to_string();
        assert_eq!(refused, format!("exec: \"tool\": {}: permission denied", plain.display()));
        let missing = found(&list(&["folder"])).unwrap_err().to_string();
        assert_eq!(missing, "exec: \"tool\": executable file not found in $PATH");
    }

    #[test]
    fn what_is_here_is_found_nowhere() {
        let here = std::env::current_dir().unwrap();
        assert!(here.join("Cargo.toml").exists());
        for path in ["", ".", ":", "../holo-process"] {
            let found = find(OsStr::new("Cargo.toml"), Some(OsStr::new(path)));
            assert!(matches!(found, Err(StartError::NotInPath { .. })), "{found:?}");
        }
        assert!(find(OsStr::new(""), None).is_err());
        assert!(find(OsStr::new("sh"), None).is_ok());
    }
}
