//! Shows differences of files and symlinks in the format of `git diff`.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use bstr::{BStr, BString};
use holo_protocol::words::reason;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

mod hunks;
mod lines;
mod matching;
mod search;
mod sliding;

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing is there.
    Missing,
    /// A regular file.
    File {
        /// All its bytes.
        content: Vec<u8>,
        /// True if its owner may execute it.
        executable: bool,
    },
    /// A symlink, which is not followed.
    Symlink {
        /// The path that it holds.
        target: Vec<u8>,
    },
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The path as the user sees it.
    pub name: BString,
    /// The content.
    pub content: Content,
}

/// An error while a side of a difference is loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is something other than a regular file or a symlink.
    #[error("file {} has wrong file type", .path.display())]
    WrongFileType {
        /// The path of the file.
        path: PathBuf,
    },
    /// An operation of the system failed.
    #[error("{operation} {}: {}", .path.display(), reason(.error))]
    Io {
        /// The name of the operation.
        operation: &'static str,
        /// The path on which it was tried.
        path: PathBuf,
        /// The cause. The message of the whole error includes this.
        error: io::Error,
    },
}

/// Loads what stands at a path, without following a final symlink, and without ever blocking on a FIFO or device.
///
/// `/dev/null`, and a path that does not exist, is [`Content::Missing`]. Below a `root` other than `/`, symlinks on the way lead nowhere
/// outside of it.
///
/// # Errors
///
/// [`LoadError::WrongFileType`] unless a regular file or symlink is there, and [`LoadError::Io`] if
/// it cannot be examined or read.
pub fn load(path: &Path, root: &Path) -> Result<Content, LoadError> {
    if path == Path::new("/dev/null") {
        return Ok(Content::Missing);
    }
    match try_load(path, root) {
        Ok(content) => Ok(content),
        Err(Failure::Errno(_, Errno::NOENT | Errno::NOTDIR)) => Ok(Content::Missing),
        Err(failure) => Err(failure.at(path)),
    }
}

fn try_load(path: &Path, root: &Path) -> Result<Content, Failure> {
    let below = path.strip_prefix(root).ok().filter(|_| root != Path::new("/"));
    let folder = below.map(|below| open_folder(root, below)).transpose()?;
    match (&folder, path.file_name()) {
        (Some(folder), Some(name)) => load_at(folder.as_fd(), Path::new(name)),
        _ => load_at(CWD, path),
    }
}

/// The number of lookups of a path that others keep renaming.
const MAX_ATTEMPTS: u32 = 1000;

/// Opens the folder of a path below a root, as if the root were `/`.
fn open_folder(root: &Path, below: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(root, flags, Mode::empty()).and_then(|root| {
        let folder = below.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::openat2(&root, folder, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                // Something anywhere was renamed while a `..` was looked at: the kernel wants to be asked again.
                Err(Errno::AGAIN) => {}
                // A kernel or a sandbox without this call.
                Err(Errno::NOSYS | Errno::PERM) => return rustix::fs::openat(&root, folder, flags, Mode::empty()),
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    });
    opened.map_err(|errno| Failure::Errno("open", errno))
}

fn load_at(folder: BorrowedFd<'_>, path: &Path) -> Result<Content, Failure> {
    let stat = rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW);
    match FileType::from_raw_mode(stat.map_err(|errno| Failure::Errno("lstat", errno))?.st_mode) {
        FileType::RegularFile => load_file(folder, path),
        FileType::Symlink => load_symlink(folder, path),
        _ => Err(Failure::WrongFileType),
    }
}

/// A [`LoadError`] before its path is added.
enum Failure {
    WrongFileType,
    Errno(&'static str, Errno),
    Read(io::Error),
}

impl Failure {
    fn at(self, path: &Path) -> LoadError {
        let path = path.to_owned();
        let (operation, error) = match self {
            Self::WrongFileType => return LoadError::WrongFileType { path },
            Self::Errno(operation, errno) => (operation, errno.into()),
            Self::Read(error) => ("read", error),
        };
        LoadError::Io { operation, path, error }
    }
}

fn load_file(folder: BorrowedFd<'_>, path: &Path) -> Result<Content, Failure> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, path, flags | OFlags::NOCTTY, Mode::empty())
        .map_err(|errno| Failure::Errno("open", errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| Failure::Errno("fstat", errno))?;
    // Something else may have taken the place of the file since it was examined.
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Failure::WrongFileType);
    }
    let mut content = Vec::new();
    let mut file = std::fs::File::from(file);
    file.read_to_end(&mut content).map_err(Failure::Read)?;
    let executable = Mode::from_raw_mode(stat.st_mode).contains(Mode::XUSR);
    Ok(Content::File { content, executable })
}

fn load_symlink(folder: BorrowedFd<'_>, path: &Path) -> Result<Content, Failure> {
    let target = rustix::fs::readlinkat(folder, path, Vec::new()).map_err(|errno| Failure::Errno("readlink", errno))?;
    let target = target.into_bytes();
    Ok(Content::Symlink { target })
}

/// Returns the difference of two sides: the text that `git diff --no-index` gives, but with a first line
/// `diff --holo OLD NEW`, with no `index` line, and with names that bear no prefix but in the line about binary files.
///
/// It is empty if the sides are equal. If one is a file and the other a symlink, the deletion of the old side comes
/// first, and then the creation of the new one.
#[must_use]
pub fn render(old: &Side, new: &Side) -> Vec<u8> {
    let names = Names {
        old: quoted(old.name.as_ref()),
        new: quoted(new.name.as_ref()),
        prefixed: (prefixed("a/", old.name.as_ref()), prefixed("b/", new.name.as_ref())),
    };
    let old = Blob::of(&old.content);
    let new = Blob::of(&new.content);
    let mut out = Vec::new();
    match (old, new) {
        (Some(old), Some(new)) if old.is_symlink() != new.is_symlink() => {
            render_blobs(&names, Some(old), None, &mut out);
            render_blobs(&names, None, Some(new), &mut out);
        }
        _ => render_blobs(&names, old, new, &mut out),
    }
    out
}

/// Returns the hunks that make one text from another, below two lines that name both, as in `--- OLD` and `+++ NEW`.
///
/// There is nothing if the texts are equal.
#[must_use]
pub fn render_texts(old_name: &BStr, old: &[u8], new_name: &BStr, new: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if old != new {
        write_texts((&quoted(old_name), old), (&quoted(new_name), new), &mut out);
    }
    out
}

/// The names of both sides, ready to be printed.
struct Names {
    old: Vec<u8>,
    new: Vec<u8>,
    /// As git shows them where version 3 does not put its own in their place.
    prefixed: (Vec<u8>, Vec<u8>),
}

const SYMLINK_MODE: u32 = 0o120_000;

/// The representation in git of a side that exists.
#[derive(Clone, Copy)]
struct Blob<'a> {
    mode: u32,
    content: &'a [u8],
}

impl<'a> Blob<'a> {
    fn of(content: &'a Content) -> Option<Self> {
        match content {
            Content::Missing => None,
            Content::File { content, executable } => {
                Some(Self { mode: if *executable { 0o100_755 } else { 0o100_644 }, content })
            }
            Content::Symlink { target } => Some(Self { mode: SYMLINK_MODE, content: target }),
        }
    }

    fn is_symlink(self) -> bool {
        self.mode == SYMLINK_MODE
    }
}

/// Writes the difference of two blobs, of which either may be missing.
fn render_blobs(names: &Names, old: Option<Blob<'_>>, new: Option<Blob<'_>>, out: &mut Vec<u8>) {
    let modes = mode_lines(old, new);
    let old_content = old.map_or(&[][..], |blob| blob.content);
    let new_content = new.map_or(&[][..], |blob| blob.content);
    let equal = old_content == new_content;
    if modes.is_empty() && equal {
        return;
    }
    write_all(out, &[b"diff --holo ", &names.old, b" ", &names.new, b"\n"]);
    out.extend_from_slice(modes.as_bytes());
    if equal {
        return;
    }
    let is_binary = is_binary(old_content) || is_binary(new_content);
    let (old_name, new_name) =
        if is_binary { (&names.prefixed.0, &names.prefixed.1) } else { (&names.old, &names.new) };
    let old_label = old.map_or(&b"/dev/null"[..], |_| old_name);
    let new_label = new.map_or(&b"/dev/null"[..], |_| new_name);
    if is_binary {
        let line = [b"Binary files ", old_label, b" and ", new_label, b" differ\n"];
        write_all(out, &line);
    } else {
        write_texts((old_label, old_content), (new_label, new_content), out);
    }
}

/// The lines of the header that tell what has become of the mode.
fn mode_lines(old: Option<Blob<'_>>, new: Option<Blob<'_>>) -> String {
    match (old.map(|old| old.mode), new.map(|new| new.mode)) {
        (None, Some(new)) => format!("new file mode {new:o}\n"),
        (Some(old), None) => format!("deleted file mode {old:o}\n"),
        (Some(old), Some(new)) if old != new => format!("old mode {old:o}\nnew mode {new:o}\n"),
        _ => String::new(),
    }
}

/// Writes the difference of two labelled texts that are not equal.
fn write_texts(old: (&[u8], &[u8]), new: (&[u8], &[u8]), out: &mut Vec<u8>) {
    for (marker, (label, _)) in [(&b"--- "[..], old), (b"+++ ", new)] {
        // Unlike git's, version 3's names are not followed by a TAB if they have blanks.
        write_all(out, &[marker, label, b"\n"]);
    }
    out.append(&mut hunks::hunks(old.1, new.1));
}

fn write_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Files with a NUL so early are not text.
const NUL_WINDOW: usize = 8000;

/// Larger files are not looked at as text.
const BIGGEST_TEXT: usize = 512 << 20;

fn is_binary(content: &[u8]) -> bool {
    let start = &content[..content.len().min(NUL_WINDOW)];
    start.contains(&0) || content.len() > BIGGEST_TEXT
}

/// NAME, in double quotes with C escapes if it holds anything that would be misread.
fn quoted(name: &BStr) -> Vec<u8> {
    if !name.iter().any(|byte| needs_escape(*byte)) {
        return name.to_vec();
    }
    let mut quoted = vec![b'"'];
    for byte in name.iter() {
        match byte {
            0x07 => quoted.extend_from_slice(b"\\a"),
            0x08 => quoted.extend_from_slice(b"\\b"),
            b'\t' => quoted.extend_from_slice(b"\\t"),
            b'\n' => quoted.extend_from_slice(b"\\n"),
            0x0b => quoted.extend_from_slice(b"\\v"),
            0x0c => quoted.extend_from_slice(b"\\f"),
            b'\r' => quoted.extend_from_slice(b"\\r"),
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            _ if needs_escape(*byte) => quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Returns the name as git shows it, below a prefix. The prefix stands for the root.
fn prefixed(prefix: &str, name: &BStr) -> Vec<u8> {
    let below = name.strip_prefix(b"/").unwrap_or(name);
    quoted(BStr::new(&[prefix.as_bytes(), below].concat()))
}

fn needs_escape(byte: u8) -> bool {
    byte.is_ascii_control() || matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use bstr::ByteSlice;

    fn text(content: impl AsRef<[u8]>) -> Content {
        Content::File { content: content.as_ref().to_vec(), executable: false }
    }

    fn executable(content: &str) -> Content {
        Content::File { content: content.into(), executable: true }
    }

    fn link(target: &str) -> Content {
        Content::Symlink { target: target.into() }
    }

    #[track_caller]
    fn check(old: Content, new: Content, expected: &str) {
        check_named("a", old, "/b", new, expected);
    }

    #[track_caller]
    fn check_named(old_name: &str, old: Content, new_name: &str, new: Content, expected: &str) {
        let old = Side { name: old_name.into(), content: old };
        let new = Side { name: new_name.into(), content: new };
        assert_eq!(render(&old, &new).as_bstr(), expected);
    }

    #[test]
    fn equal_sides_differ_in_nothing() {
        check(Content::Missing, Content::Missing, "");
        check(text("x\n"), text("x\n"), "");
        check(text("\0"), text("\0"), "");
        check(link("x"), link("x"), "");
    }

    #[test]
    fn texts_are_compared_by_lines() {
        let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n";
        check(text("x\ny\n"), text("x\nz\n"), expected);
        let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -0,0 +1 @@\n+x\n";
        check(text(""), text("x\n"), expected);
    }

    #[test]
    fn a_missing_newline_is_noted() {
        let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n";
        check(text("x"), text("x\n"), expected);
        let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n+x\n\\ No newline at end of file\n";
        check(text("x\n"), text("x"), expected);
        let end = "\\ No newline at end of file\n";
        let expected = format!("diff --holo a /b\n--- a\n+++ /b\n@@ -1,2 +1 @@\n-y\n x\n{end}");
        check(text("y\nx"), text("x"), &expected);
    }

    #[test]
    fn new_and_deleted_files_stand_against_dev_null() {
        let expected = "diff --holo a /b\nnew file mode 100644\n--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+x\n";
        check(Content::Missing, text("x\n"), expected);
        let expected = "diff --holo a /b\ndeleted file mode 100755\n--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        check(executable("x\n"), Content::Missing, expected);
        check(Content::Missing, text(""), "diff --holo a /b\nnew file mode 100644\n");
        check(executable(""), Content::Missing, "diff --holo a /b\ndeleted file mode 100755\n");
    }

    #[test]
    fn a_change_of_mode_is_shown_with_and_without_content() {
        let modes = "diff --holo a /b\nold mode 100644\nnew mode 100755\n";
        check(text("x\n"), executable("x\n"), modes);
        let expected = format!("{modes}--- a\n+++ /b\n@@ -1 +1 @@\n-x\n+y\n");
        check(text("x\n"), executable("y\n"), &expected);
    }

    #[test]
    fn binary_files_only_differ() {
        check(text("\0"), text("x"), "diff --holo a /b\nBinary files a/a and b/b differ\n");
        let expected = "diff --holo a /b\nnew file mode 100644\nBinary files /dev/null and b/b differ\n";
        check(Content::Missing, text("\0"), expected);
        let expected = "diff --holo a /b\ndeleted file mode 100644\nBinary files a/a and /dev/null differ\n";
        check(text("\0"), Content::Missing, expected);
        let expected = "diff --holo /x/a \"b\\\"\"\nBinary files a/x/a and \"b/b\\\"\" differ\n";
        check_named("/x/a", text("\0"), "b\"", text("x"), expected);
    }

    #[test]
    fn a_late_nul_does_not_make_a_file_binary() {
        let mut content = vec![b'\n'; 8000];
        content[7999] = 0;
        assert!(is_binary(&content));
        content[7999] = b'\n';
        content.push(0);
        assert!(!is_binary(&content));
    }

    #[test]
    fn symlinks_are_compared_by_their_targets() {
        let end = "\\ No newline at end of file\n";
        let expected = format!("diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n{end}+y\n{end}");
        check(link("x"), link("y"), &expected);
        let expected =
            format!("diff --holo a /b\nnew file mode 120000\n--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+y\n{end}");
        check(Content::Missing, link("y"), &expected);
    }

    #[test]
    fn a_change_of_type_is_a_deletion_and_a_creation() {
        let expected = "\
diff --holo a /b
deleted file mode 100644
--- a
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --holo a /b
new file mode 120000
--- /dev/null
+++ /b
@@ -0,0 +1 @@
+x
\\ No newline at end of file
";
        check(text("x\n"), link("x"), expected);
        let expected = "\
diff --holo a /b
deleted file mode 120000
--- a
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
diff --holo a /b
new file mode 100755
";
        check(link("x"), executable(""), expected);
    }

    #[test]
    fn names_that_would_be_misread_are_quoted() {
        let expected =
            "diff --holo a b \"c\\\"\\t\\001\\\\\"\n--- a b\n+++ \"c\\\"\\t\\001\\\\\"\n@@ -1 +1 @@\n-x\n+y\n";
        check_named("a b", text("x\n"), "c\"\t\u{1}\\", text("y\n"), expected);
        let expected = "diff --holo é \"\\177 é\"\n--- é\n+++ \"\\177 é\"\n@@ -1 +1 @@\n-x\n+y\n";
        check_named("é", text("x\n"), "\u{7f} é", text("y\n"), expected);
    }

    #[test]
    fn texts_alone_have_a_short_header() {
        let difference = render_texts("a".into(), b"x\n", "b c".into(), b"y\n");
        assert_eq!(difference.as_bstr(), "--- a\n+++ b c\n@@ -1 +1 @@\n-x\n+y\n");
        assert_eq!(render_texts("a".into(), b"x\n", "b".into(), b"x\n"), b"");
    }

    #[test]
    fn files_and_symlinks_are_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), text("x\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o701)).unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), executable("x\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o611)).unwrap();
        assert_eq!(load(&path, Path::new("/")).unwrap(), text("x\n"));
        symlink("file", dir.path().join("link")).unwrap();
        assert_eq!(load(&dir.path().join("link"), Path::new("/")).unwrap(), link("file"));
    }

    #[test]
    fn what_does_not_exist_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let missing = [Path::new("/dev/null"), &dir.path().join("nothing"), &dir.path().join("file/below")];
        for path in missing {
            assert_eq!(load(path, Path::new("/")).unwrap(), Content::Missing);
        }
    }

    #[test]
    fn other_types_are_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR).unwrap();
        for path in [Path::new("/dev/zero"), dir.path(), &fifo] {
            let message = load(path, Path::new("/")).unwrap_err().to_string();
            assert_eq!(message, format!("file {} has wrong file type", path.display()));
        }
    }

    #[test]
    fn other_errors_tell_operation_path_and_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loop");
        symlink("loop", &path).unwrap();
        let path = path.join("x");
        let message = load(&path, Path::new("/")).unwrap_err().to_string();
        assert!(message.starts_with(&format!("lstat {}: too many ", path.display())), "{message}");
        assert!(!message.contains("os error"), "{message}");
    }
}
