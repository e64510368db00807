//! Lexical operations on paths, and hexadecimal names of files.

use bstr::BString;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Joins a path to a directory, with or without leading slash.
#[must_use]
pub fn join(folder: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    if folder == Path::new(".") { below.to_owned() } else { folder.join(below) }
}

/// Returns a path in the format of the plugin interface.
#[must_use]
pub fn path_bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// Returns a path without leading slashes.
pub(crate) fn without_root(path: &Path) -> &Path {
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(below) = bytes.strip_prefix(b"/") {
        bytes = below;
    }
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns a short replacement for a name that is too long (FNV-1a). Collisions in one directory would have to be
/// constructed for this purpose.
pub(crate) fn fingerprint(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the components of a path, including `..`.
pub(crate) fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// Returns the bytes as lower-case hexadecimal digits, two per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod hex_tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
        assert_eq!(hex(&[]), "");
    }
}
