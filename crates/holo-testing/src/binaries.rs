//! Finds the binaries of this workspace, for tests that run them.

use crate::files::{Context, IoError};
use crate::processes;
use rustix::process::getppid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs};

/// The variable with the directory of the binaries, if they are not next to the tests.
pub const BIN_DIR: &str = "HOLO_TEST_BIN_DIR";

/// The time in which a cargo run has not built anything yet. It covers the precision of the kernel's process clock,
/// which counts hundredths of a second.
const BEFORE_THE_BUILD: Duration = Duration::from_millis(50);

/// A binary that tests cannot use.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The binary was not built, or is elsewhere.
    #[error("{}: no such binary; run `{}` first, or set {BIN_DIR}", .0.display(), command(.0))]
    NotBuilt(PathBuf),
    /// The binary is older than the current sources.
    #[error("{}: older than {}; run `{}` first, or set {BIN_DIR}", .0.display(), .1.display(), command(.0))]
    Stale(PathBuf, PathBuf),
    /// The path of the running program is unknown.
    #[error(transparent)]
    Io(#[from] Arc<IoError>),
}

/// Returns the path of a binary such as `holo` or `holo-files`.
///
/// It is looked up in the directory named by [`BIN_DIR`], otherwise in the profile directory of the running test (such
/// as `target/debug`). There it must match the sources as they were when the cargo run began: cargo only builds the
/// binaries of the tested package.
///
/// # Errors
///
/// If it does not exist, or is older than one of its sources.
pub fn binary(name: &str) -> Result<PathBuf, Error> {
    static FOUND: Mutex<BTreeMap<String, Result<PathBuf, Error>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.entry(name.to_owned()).or_insert_with(|| find(name)).clone()
}

fn find(name: &str) -> Result<PathBuf, Error> {
    let path = in_dir(&directory().map_err(Arc::new)?, name)?;
    if env::var_os(BIN_DIR).is_some() {
        return Ok(path);
    }
    match newer_source(&path, begin_of_run() + BEFORE_THE_BUILD) {
        Some(source) => Err(Error::Stale(path, source)),
        None => Ok(path),
    }
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

/// Returns the path of a binary for tests.
///
/// # Panics
///
/// If it does not exist or is stale, with a message that names the remedy.
#[must_use]
#[track_caller]
#[expect(clippy::panic, reason = "a test without its binary cannot go on")]
pub fn built(name: &str) -> PathBuf {
    match binary(name) {
        Ok(path) => path,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the directory in which cargo places binaries: that of the program, or the parent of `deps`.
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

/// Returns the command that builds a binary at this path.
fn command(path: &Path) -> String {
    match path.parent().and_then(Path::file_name).and_then(OsStr::to_str) {
        None | Some("debug") => "cargo build --workspace".to_owned(),
        Some("release") => "cargo build --workspace --release".to_owned(),
        Some(profile) => format!("cargo build --workspace --profile {profile}"),
    }
}

/// Returns a source of the binary that is newer than the binary, but older than the run: files saved during a run are
/// for the next one. Sources are taken from the list that cargo writes next to the binary. A moved or removed source
/// need not be considered, as other sources must have changed with it.
fn newer_source(binary: &Path, begin_of_run: SystemTime) -> Option<PathBuf> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let built = modified(binary)?;
    let list = fs::read_to_string(binary.with_extension("d")).ok()?;
    sources(&list).into_iter().find(|source| modified(source).is_some_and(|time| built < time && time < begin_of_run))
}

/// Parses the paths in a make rule: after the colon, separated by unescaped blanks.
fn sources(list: &str) -> Vec<PathBuf> {
    let line = list.lines().next().unwrap_or_default();
    let Some((_, paths)) = line.split_once(": ") else { return Vec::new() };
    paths.replace("\\ ", "\0").split(' ').map(|path| PathBuf::from(path.replace('\0', " "))).collect()
}

/// Returns the start time of the cargo run to which this process belongs, or of this process if it was started in
/// another way.
fn begin_of_run() -> SystemTime {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
    let is_cargo = fs::read_to_string(format!("/proc/{parent}/comm")).is_ok_and(|name| name.starts_with("cargo"));
    let age = processes::age(if is_cargo { parent } else { std::process::id() }).unwrap_or_default();
    SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH)
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
        assert!(error.contains("/holo-nonexistent: no such binary; run `cargo build --workspace` first"));
    }

    #[test]
    fn a_binary_is_as_new_as_its_sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let write = |name: &str, text: &str, seconds| {
            fs::write(path(name), text).unwrap();
            fs::File::options().write(true).open(path(name)).unwrap().set_modified(time(seconds)).unwrap();
        };
        let shown = |name: &str| path(name).display().to_string().replace(' ', "\\ ");
        let list = ["lib.rs", "moved.rs", "with blank.rs"].map(shown).join(" ");
        write("holo-x.d", &format!("{}: {list}\n", shown("holo-x")), 0);
        write("lib.rs", "", 100);
        write("with blank.rs", "", 100);
        write("holo-x", "", 200);
        let newer = || newer_source(&path("holo-x"), time(1000));
        assert_eq!(newer(), None);
        write("with blank.rs", "", 300);
        assert_eq!(newer(), Some(path("with blank.rs")));
        // It was saved while the tests ran.
        write("with blank.rs", "", 2000);
        assert_eq!(newer(), None);
        fs::remove_file(path("holo-x.d")).unwrap();
        write("lib.rs", "", 300);
        assert_eq!(newer(), None);
    }

    #[test]
    fn a_stale_one_is_named_with_its_source_and_what_to_do() {
        let error = |profile: &str| Error::Stale(format!("/t/{profile}/holo").into(), "src/x.rs".into()).to_string();
        let text = "/t/debug/holo: older than src/x.rs; run `cargo build --workspace` first, or set HOLO_TEST_BIN_DIR";
        assert_eq!(error("debug"), text);
        assert!(error("release").contains("`cargo build --workspace --release`"));
        assert!(error("quick").contains("`cargo build --workspace --profile quick`"));
    }

    #[test]
    fn a_run_began_before_now() {
        let ago = begin_of_run().elapsed().unwrap();
        assert!(ago < Duration::from_secs(24 * 60 * 60), "{ago:?}");
    }
}
