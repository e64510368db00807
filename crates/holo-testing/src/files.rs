//! Creates and removes files with exact modes, never through a symlink, with errors that name the operation and the path.

use bstr::ByteSlice;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Creates a file with exactly this mode, independent of the umask.
pub(crate) fn create_file(path: &Path, content: &[u8], mode: u32) -> Result<(), IoError> {
    let _guard = holo_process::while_nothing_starts();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).context("create", path)?;
    file.write_all(content).context("write", path)?;
    // After writing, which clears the set-user-ID bit.
    file.set_permissions(Permissions::from_mode(mode)).context("chmod", path)
}

/// Writes an executable file with mode 0755, replacing an existing file. It can be executed immediately, even if other
/// threads start programs.
///
/// # Panics
///
/// If it cannot be written.
#[track_caller]
pub fn write_script(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    let path = path.as_ref();
    sure(remove(path).and_then(|()| create_file(path, text.as_ref(), 0o755)));
}

/// Copies a program like [`write_script`].
///
/// # Panics
///
/// If it cannot be read or written.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let _guard = holo_process::while_nothing_starts();
    sure(fs::copy(from, to).context("copy", from));
}

/// Creates the directory `root/relative` and its missing parents with mode 0755.
///
/// Fails if any component is not a directory, including symlinks to directories: a test tree must not reach into the
/// host.
pub(crate) fn make_dirs(root: &Path, relative: &Path) -> Result<(), IoError> {
    let mut path = root.to_owned();
    for component in relative.components() {
        let Component::Normal(name) = component else {
            return Err(io::Error::other("not a plain relative path"))
                .context("create directory", &root.join(relative));
        };
        path.push(name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other("is a symlink, and nothing is made through symlinks"))
                    .context("create directory", &path);
            }
            Ok(_) => {
                return Err(io::Error::from(rustix::io::Errno::NOTDIR)).context("create directory", &path);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => make_dir(&path)?,
            Err(error) => return Err(error).context("stat", &path),
        }
    }
    Ok(())
}

/// Creates a directory with mode 0755, independent of the umask.
pub(crate) fn make_dir(path: &Path) -> Result<(), IoError> {
    fs::create_dir(path).context("create directory", path)?;
    set_mode(path, 0o755)
}

/// Sets the mode of a file or directory.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), IoError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).context("chmod", path)
}

/// Removes a file, or a directory with its content. A missing file is not an error.
pub(crate) fn remove(path: &Path) -> Result<(), IoError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).or_else(|error| {
            if error.kind() != ErrorKind::PermissionDenied {
                return Err(error);
            }
            unlock(path)?;
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.context("remove", path),
    }
}

/// Grants the owner access to every directory of a tree, so that it can be removed.
fn unlock(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}

/// An I/O error with its path, displayed like `open etc/motd: no such file or directory`.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {}", path.as_os_str().as_bytes().as_bstr(), in_words(reason))]
pub struct IoError {
    action: &'static str,
    path: PathBuf,
    // Not the `source`, as the message already contains its text.
    reason: io::Error,
}

impl IoError {
    pub(crate) fn new(action: &'static str, path: &Path, reason: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), reason: reason.into() }
    }

    /// Returns the kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.reason.kind()
    }

    /// Returns the path on which the operation failed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Adds the operation and the path to the error of an `io::Result`.
pub(crate) trait Context<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, IoError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, IoError> {
        self.map_err(|error| IoError::new(action, path, error))
    }
}

/// Returns the value, or fails the test with the error.
#[track_caller]
pub(crate) fn sure<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(&error.to_string()),
    }
}

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "a test whose root is not as it says cannot go on")]
pub(crate) fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// Formats an error as common tools do: in lower case, without its number.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return text;
    };
    let words = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
    let mut letters = words.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_exact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        create_file(&path, b"x", 0o4777).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4777);
    }

    #[test]
    fn directories_are_not_made_through_symlinks_files_or_parents() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = |path: &str| make_dirs(dir.path(), Path::new(path)).unwrap_err().to_string();
        assert!(error("link/x").ends_with("/link: is a symlink, and nothing is made through symlinks"));
        assert!(error("file/x").ends_with("/file: not a directory"));
        assert!(error("../x").ends_with("/../x: not a plain relative path"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn removes_trees_that_are_locked_against_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        make_dirs(&tree.join(".."), Path::new("tree/a/b")).unwrap_err();
        make_dirs(dir.path(), Path::new("tree/a/b")).unwrap();
        set_mode(&tree.join("a/b"), 0).unwrap();
        set_mode(&tree.join("a"), 0o500).unwrap();
        unlock(&tree).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists());
        remove(&tree).unwrap();
    }

    #[test]
    fn reads_as_action_path_and_reason() {
        let path = Path::new("/nonexistent/file");
        let error = fs::read(path).context("open", path).unwrap_err();
        assert_eq!(error.to_string(), "open /nonexistent/file: no such file or directory");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.path(), path);
    }

    #[test]
    fn an_error_of_our_own_keeps_its_words() {
        let error = Err::<(), _>(io::Error::other("Is odd")).context("make", Path::new("x"));
        assert_eq!(error.unwrap_err().to_string(), "make x: Is odd");
    }
}
