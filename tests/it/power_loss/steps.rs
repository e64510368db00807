//! The steps of a plugin on disk, parsed from the output of `strace -y`.

use bstr::{BString, ByteSlice};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The system calls that are steps.
pub(super) const CALLS: &[&str] = &[
    "openat",
    "write",
    "pwrite64",
    "copy_file_range",
    "sendfile",
    "ftruncate",
    "fchmod",
    "fchmodat",
    "rename",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "fsync",
    "fdatasync",
    "syncfs",
];

#[derive(Debug)]
pub(super) enum Step {
    Create(PathBuf),
    /// An open call that creates the file if it is missing.
    Open(PathBuf),
    Write(PathBuf, Vec<u8>),
    /// A write at an offset, as SQLite does it.
    WriteAt(PathBuf, u64, Vec<u8>),
    Truncate(PathBuf, u64),
    /// The content of the first file is written to the second.
    Copy(PathBuf, PathBuf),
    ChangeMode(PathBuf, u32),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    /// A file or a directory.
    Sync(PathBuf),
    SyncAll,
}

impl Step {
    pub(super) fn is_sync(&self) -> bool {
        matches!(self, Step::Sync(_) | Step::SyncAll)
    }

    /// Returns true if a later step makes this one durable: the content of a file when it is synced, a name when its
    /// directory is.
    pub(super) fn is_synced_by(&self, later: &Step) -> bool {
        let synced = match later {
            Step::SyncAll => return true,
            Step::Sync(synced) => synced,
            _ => return false,
        };
        match self {
            Step::Write(path, _)
            | Step::WriteAt(path, ..)
            | Step::Truncate(path, _)
            | Step::Copy(_, path)
            | Step::ChangeMode(path, _) => path == synced,
            other => other.names().iter().any(|name| name.parent() == Some(synced)),
        }
    }

    /// Returns true if a later step cannot be durable without this one: a removed directory was empty.
    pub(super) fn is_implied_by(&self, later: &Step) -> bool {
        let Step::RemoveDirectory(directory) = later else { return false };
        self.names().iter().any(|name| name.parent() == Some(directory))
    }

    /// Returns the names that the step creates or removes.
    fn names(&self) -> Vec<&PathBuf> {
        match self {
            Step::Rename(from, to) | Step::Link(from, to) => vec![from, to],
            Step::Symlink(_, path)
            | Step::Create(path)
            | Step::Open(path)
            | Step::Remove(path)
            | Step::MakeDirectory(path)
            | Step::RemoveDirectory(path) => vec![path],
            Step::Write(..)
            | Step::WriteAt(..)
            | Step::Truncate(..)
            | Step::Copy(..)
            | Step::ChangeMode(..)
            | Step::Sync(_)
            | Step::SyncAll => Vec::new(),
        }
    }

    /// Performs the step, unless it depends on a lost one.
    pub(super) fn take(&self) {
        let _ = match self {
            Step::Create(path) => fs::write(path, "").and_then(|()| change_mode(path, 0o600)),
            Step::Open(path) if path.exists() => Ok(()),
            Step::Open(path) => fs::write(path, "").and_then(|()| change_mode(path, 0o600)),
            Step::Write(path, bytes) => write(path, bytes),
            Step::WriteAt(path, offset, bytes) => {
                fs::OpenOptions::new().write(true).open(path).and_then(|file| file.write_all_at(bytes, *offset))
            }
            Step::Truncate(path, size) => {
                fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(*size))
            }
            Step::Copy(from, to) => fs::read(from).and_then(|bytes| write(to, &bytes)),
            Step::ChangeMode(path, mode) => change_mode(path, *mode),
            Step::Rename(from, to) => fs::rename(from, to),
            Step::Link(from, to) => fs::hard_link(from, to),
            Step::Symlink(target, path) => std::os::unix::fs::symlink(target, path),
            Step::Remove(path) => fs::remove_file(path),
            Step::MakeDirectory(path) => fs::create_dir(path).and_then(|()| change_mode(path, 0o755)),
            Step::RemoveDirectory(path) => fs::remove_dir(path),
            Step::Sync(_) | Step::SyncAll => Ok(()),
        };
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.write_all(bytes)
}

fn change_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Returns the steps below these directories, in the order in which they ended.
pub(super) fn read(log: &str, below: &[PathBuf]) -> Vec<Step> {
    let mut unfinished = BTreeMap::new();
    let mut steps = Vec::new();
    for line in log.lines() {
        let (process, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, begun.to_owned());
            continue;
        }
        let whole = match call.strip_prefix("<... ").and_then(|resumed| resumed.split_once(" resumed>")) {
            Some((_, rest)) => unfinished.remove(process).unwrap() + rest,
            None => call.to_owned(),
        };
        steps.extend(step_of(&whole).filter(|(path, step)| {
            matches!(step, Step::SyncAll) || below.iter().any(|directory| path.starts_with(directory))
        }));
    }
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns the step of a call, if it has changed or synced a file, and the path of that file.
fn step_of(call: &str) -> Option<(PathBuf, Step)> {
    let (name, rest) = call.split_once('(')?;
    let words = words(rest);
    let (result, words) = words.split_last()?;
    if result.starts_with(b"-") {
        return None;
    }
    let text = |index: usize| words[index].to_str().unwrap();
    let path = |index: usize| inside(&words[index]);
    let at = |index: usize| inside(&words[index]).join(unquoted(&words[index + 1]).to_path().unwrap());
    let plain = |index: usize| unquoted(&words[index]).to_path().unwrap().to_owned();
    let step = match name {
        "openat" if text(2).contains("O_EXCL") || text(2).contains("O_TRUNC") => Step::Create(at(0)),
        "openat" if text(2).contains("O_CREAT") => Step::Open(at(0)),
        "openat" => return None,
        "write" => Step::Write(path(0), unquoted(&words[1]).to_vec()),
        "fchmod" => Step::ChangeMode(path(0), u32::from_str_radix(text(1), 8).unwrap()),
        "fchmodat" => Step::ChangeMode(at(0), u32::from_str_radix(text(2), 8).unwrap()),
        "renameat" | "renameat2" => Step::Rename(at(0), at(2)),
        "rename" => Step::Rename(plain(0), plain(1)),
        "linkat" => Step::Link(at(0), at(2)),
        "symlinkat" => Step::Symlink(plain(0), at(1)),
        "unlinkat" if text(2).contains("AT_REMOVEDIR") => Step::RemoveDirectory(at(0)),
        "unlinkat" => Step::Remove(at(0)),
        "unlink" => Step::Remove(plain(0)),
        "rmdir" => Step::RemoveDirectory(plain(0)),
        "mkdirat" => Step::MakeDirectory(at(0)),
        "mkdir" => Step::MakeDirectory(plain(0)),
        "fsync" | "fdatasync" => Step::Sync(path(0)),
        "syncfs" => Step::SyncAll,
        "copy_file_range" | "sendfile" if *result == "0" => return None,
        "copy_file_range" => Step::Copy(path(0), path(2)),
        "sendfile" => Step::Copy(path(1), path(0)),
        "pwrite64" => Step::WriteAt(path(0), text(3).parse().unwrap(), unquoted(&words[1]).to_vec()),
        "ftruncate" => Step::Truncate(path(0), text(1).parse().unwrap()),
        other => panic!("{other} is not simulated: {call}"),
    };
    let about = match &step {
        Step::Create(path)
        | Step::Open(path)
        | Step::Write(path, _)
        | Step::WriteAt(path, ..)
        | Step::Truncate(path, _)
        | Step::Copy(_, path)
        | Step::ChangeMode(path, _)
        | Step::Rename(_, path)
        | Step::Link(_, path)
        | Step::Symlink(_, path)
        | Step::Remove(path)
        | Step::MakeDirectory(path)
        | Step::RemoveDirectory(path)
        | Step::Sync(path) => path.clone(),
        Step::SyncAll => PathBuf::new(),
    };
    Some((about, step))
}

/// Splits the arguments of a call, and appends its result.
fn words(rest: &str) -> Vec<BString> {
    let mut words = vec![BString::default()];
    let (mut quoted, mut escaped, mut in_path) = (false, false, false);
    let mut bytes = rest.bytes();
    for byte in bytes.by_ref() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if !in_path => quoted = !quoted,
            b'<' if !quoted => in_path = true,
            b'>' if !quoted => in_path = false,
            b',' if !quoted && !in_path => {
                words.push(BString::default());
                continue;
            }
            b' ' if !quoted && !in_path => continue,
            b')' if !quoted && !in_path => break,
            _ => {}
        }
        words.last_mut().unwrap().push(byte);
    }
    let rest: Vec<u8> = bytes.collect();
    words.push(rest.trim_start().trim_start_with(|letter| letter == '=').trim().into());
    words
}

/// Returns the path of a descriptor.
fn inside(word: &BString) -> PathBuf {
    let path = word.split_once_str("<").unwrap().1.strip_suffix(b">").unwrap();
    path.to_path().unwrap().to_owned()
}

fn unquoted(word: &BString) -> BString {
    let inner = word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap();
    let (mut text, mut bytes) = (BString::default(), inner.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        let escape = if byte == b'\\' { bytes.next() } else { None };
        text.push(match escape {
            None => byte,
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(digit @ b'0'..=b'7') => {
                let mut number = digit - b'0';
                for _ in 0..2 {
                    if let Some(next) = bytes.next_if(|next| matches!(next, b'0'..=b'7')) {
                        number = number * 8 + (next - b'0');
                    }
                }
                number
            }
            Some(other) => other,
        });
    }
    text
}
