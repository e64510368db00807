//! apk: a single list of all packages, with a line for each directory, file and digest.

use super::{Digest, Found, PackagedFile, Wanted};
use crate::package_manager::APK;
use crate::root::Root;
use bstr::ByteSlice;

pub(super) fn find(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    let Some(text) = APK.databases.iter().find_map(|path| root.read(path).ok().flatten()) else { return found };
    let (mut package, mut directory) = (String::new(), &b""[..]);
    let mut file: Option<Vec<u8>> = None;
    for line in text.lines() {
        let Some((key, value)) = line.split_once_str(":") else { continue };
        let own = || PackagedFile { package: package.clone(), digest: None };
        match key {
            b"P" => package = value.to_str_lossy().into_owned(),
            b"F" => {
                (directory, file) = (value, None);
                if wanted.has(value) {
                    found.entry(value.to_vec()).or_insert_with(own);
                }
            }
            b"R" => {
                let path = if directory.is_empty() { value.to_vec() } else { [directory, b"/", value].concat() };
                file = wanted.has(&path).then_some(path);
                if let Some(path) = &file {
                    found.entry(path.clone()).or_insert_with(own);
                }
            }
            // `Q1` marks an SHA-1 digest.
            b"Z" => {
                let digest = value.strip_prefix(b"Q1").and_then(|digest| digest.to_str().ok());
                if let (Some(found), Some(digest)) = (file.as_ref().and_then(|path| found.get_mut(path)), digest) {
                    found.digest = Some(Digest::Sha1(digest.to_owned()));
                }
            }
            _ => {}
        }
    }
    found
}
