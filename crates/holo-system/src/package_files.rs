//! Files owned by packages, from the package manager's database, and whether they have been modified.
//!
//! Text databases are read directly, as that is faster than the package manager's programs; RPM's database is read with
//! its program.

mod apk;
mod dpkg;
mod pacman;
mod rpm;

use crate::package_manager::{APK, APT, DNF, PACMAN, PackageManager, ZYPPER};
use crate::root::Root;
use data_encoding::{BASE64, HEXLOWER};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that a package owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackagedFile {
    /// The name of the package.
    pub package: String,
    /// The digest of the packaged content, if the package manager has it.
    pub digest: Option<Digest>,
}

/// The digest of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// Hexadecimal digits, whose number identifies the algorithm: MD5, SHA-1, SHA-256 or SHA-512.
    Hexadecimal(String),
    /// SHA-1 in Base64.
    Sha1(String),
}

impl Digest {
    /// Returns true if this is the digest of the content; `None` if the algorithm is unknown.
    #[must_use]
    pub fn is_of(&self, content: &[u8]) -> Option<bool> {
        match self {
            Digest::Sha1(text) => Some(BASE64.encode(&Sha1::digest(content)) == *text),
            Digest::Hexadecimal(text) => {
                let digest = match text.len() {
                    32 => HEXLOWER.encode(&Md5::digest(content)),
                    40 => HEXLOWER.encode(&Sha1::digest(content)),
                    64 => HEXLOWER.encode(&Sha256::digest(content)),
                    128 => HEXLOWER.encode(&Sha512::digest(content)),
                    _ => return None,
                };
                Some(digest == *text)
            }
        }
    }
}

/// Returns those of these files that packages own.
pub(crate) fn find(manager: &PackageManager, root: &Root, paths: &[PathBuf]) -> BTreeMap<PathBuf, PackagedFile> {
    let wanted = Wanted::new(paths);
    let found = match manager.name {
        name if name == APT.name => dpkg::find(root, &wanted),
        name if name == PACMAN.name => pacman::find(root, &wanted),
        name if name == APK.name => apk::find(root, &wanted),
        name if name == DNF.name || name == ZYPPER.name => rpm::find(root, &wanted),
        _ => BTreeMap::new(),
    };
    found.into_iter().filter_map(|(name, file)| Some((wanted.0.get(&name)?.clone(), file))).collect()
}

/// The requested paths by the names that they may have in a database, without leading slashes.
struct Wanted(BTreeMap<Vec<u8>, PathBuf>);

impl Wanted {
    fn new(paths: &[PathBuf]) -> Wanted {
        let mut wanted = BTreeMap::new();
        for path in paths {
            let below = path.strip_prefix("/").unwrap_or(path);
            wanted.insert(below.as_os_str().as_bytes().to_vec(), path.clone());
            // If /bin is a symlink to /usr/bin, packages may still list files in /bin.
            let parts = ["bin", "sbin", "lib", "lib32", "lib64"];
            let merged = below.strip_prefix("usr").ok().filter(|rest| parts.iter().any(|part| rest.starts_with(part)));
            let apart = parts.iter().any(|part| below.starts_with(part)).then(|| Path::new("usr").join(below));
            for other in merged.map(Path::to_owned).into_iter().chain(apart) {
                wanted.entry(other.as_os_str().as_bytes().to_vec()).or_insert_with(|| path.clone());
            }
        }
        Wanted(wanted)
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(Vec::as_slice)
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.contains_key(name)
    }
}

/// The files found, by their names in the database.
type Found = BTreeMap<Vec<u8>, PackagedFile>;

#[cfg(test)]
mod tests;
