//! Finds the binaries of this workspace, for tests that run them.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Context, IoError};

/// The variable that names the directory of the binaries, if they are not beside the tests.
pub const BIN_DIR: &str = "HOLO_TEST_BIN_DIR";

/// A binary that could not be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not built, or elsewhere.
    #[error("{}: no such binary; run `cargo build` first, or set {BIN_DIR}", .0.display())]
    NotBuilt(PathBuf),
    /// The path of the running program is unknown.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Returns the path of a binary such as `holo` or `holo-files`.
///
/// It is looked for in the directory that [`BIN_DIR`] names, otherwise in the profile's directory in
/// which the running test is (`target/debug`, say).
///
/// # Errors
///
/// If it is not there.
pub fn binary(name: &str) -> Result<PathBuf, Error> {
    let dir = directory()?;
    in_dir(&dir, name)
}

/// Returns the directory in which [`binary`] looks.
///
/// # Errors
///
/// If the path of the running program is unknown.
pub fn directory() -> Result<PathBuf, IoError> {
    match env::var_os(BIN_DIR) {
        Some(dir) => std::path::absolute(&dir).context("find", Path::new(&dir)),
        None => {
            let this = env::current_exe().context("find", Path::new("/proc/self/exe"))?;
            Ok(profile_dir(&this).to_owned())
        }
    }
}

/// Returns the path of a binary, for tests.
///
/// # Panics
///
/// If it is not there, with a message that says what to do.
#[must_use]
#[track_caller]
#[expect(clippy::panic, reason = "a test without its binary cannot go on")]
pub fn built(name: &str) -> PathBuf {
    match binary(name) {
        Ok(path) => path,
        Err(error) => panic!("{error}"),
    }
}

/// Returns where cargo puts the binaries: beside the program, or above the `deps` it is in.
fn profile_dir(program: &Path) -> &Path {
    let dir = program.parent().unwrap_or(program);
    match dir.parent() {
        Some(above) if dir.ends_with("deps") || dir.ends_with("examples") => above,
        _ => dir,
    }
}

fn in_dir(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = dir.join(name);
    if path.is_file() { Ok(path) } else { Err(Error::NotBuilt(path)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_beside_the_profile_of_the_test() {
        for program in ["/t/debug/deps/x-0123", "/t/debug/examples/x", "/t/debug/x"] {
            assert_eq!(profile_dir(Path::new(program)), Path::new("/t/debug"));
        }
    }

    #[test]
    fn a_binary_is_found_in_its_directory() {
        let this = env::current_exe().unwrap();
        let (dir, name) = (this.parent().unwrap(), this.file_name().unwrap());
        assert_eq!(in_dir(dir, name.to_str().unwrap()).unwrap(), this);
    }

    #[test]
    fn a_missing_one_says_what_to_do() {
        let error = binary("holo-nonexistent").unwrap_err().to_string();
        assert!(error.contains("/holo-nonexistent: no such binary; run `cargo build` first"));
    }
}
