//! pacman: a directory for each package, with a list of its files, and the digests of those that it backs up.

use super::{Digest, Found, PackagedFile, Wanted};
use crate::root::Root;
use bstr::ByteSlice;
use std::path::Path;

const LOCAL: &str = "var/lib/pacman/local";

pub(super) fn find(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    for directory in root.names(LOCAL).unwrap_or_default() {
        let Ok(Some(text)) = root.read(Path::new(LOCAL).join(&directory).join("files")) else { continue };
        for name in wanted.names().filter(|name| text.contains_str(name)) {
            // Directories have a trailing slash.
            let is_it = |line: &[u8]| line == name || line.strip_suffix(b"/") == Some(name);
            let mut files = text.lines().skip_while(|line| *line != b"%FILES%").take_while(|line| !line.is_empty());
            if files.any(is_it) {
                let package = name_of(&directory.to_string_lossy()).to_owned();
                let digest = backup(&text, name);
                found.entry(name.to_vec()).or_insert(PackagedFile { package, digest });
            }
        }
    }
    found
}

/// Returns the name of a package without its version and release.
fn name_of(directory: &str) -> &str {
    directory.rsplitn(3, '-').nth(2).unwrap_or(directory)
}

fn backup(text: &[u8], name: &[u8]) -> Option<Digest> {
    let mut backups = text.lines().skip_while(|line| *line != b"%BACKUP%").take_while(|line| !line.is_empty());
    let digest = backups.find_map(|line| line.strip_prefix(name)?.strip_prefix(b"\t"))?;
    Some(Digest::Hexadecimal(digest.to_str().ok()?.to_owned()))
}
