//! dpkg: a file list for each package, digests of most files, and those of configuration files in the status file.

use super::{Digest, Found, PackagedFile, Wanted};
use crate::root::Root;
use bstr::ByteSlice;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;

const INFO: &str = "var/lib/dpkg/info";
const STATUS: &str = "var/lib/dpkg/status";

/// The maximum number of names searched for one by one in each list; more are looked up line by line.
const FEW: usize = 8;

pub(super) fn find(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    // Each name as in a list, with the surrounding newlines.
    let needles: Vec<(Vec<u8>, &[u8])> = wanted.names().map(|name| ([b"\n/", name, b"\n"].concat(), name)).collect();
    let status = OnceCell::new();
    for list in root.names(INFO).unwrap_or_default() {
        let Some(instance) = list.to_str().and_then(|name| name.strip_suffix(".list")) else { continue };
        let Ok(Some(text)) = root.read(Path::new(INFO).join(&list)) else { continue };
        let names: Vec<&[u8]> = if needles.len() <= FEW {
            needles.iter().filter(|(needle, _)| text.contains_str(needle)).map(|(_, name)| *name).collect()
        } else {
            text.lines().filter_map(|line| line.strip_prefix(b"/")).filter(|name| wanted.has(name)).collect()
        };
        if names.is_empty() {
            continue;
        }
        let package = instance.split_once(':').map_or(instance, |(package, _)| package);
        let sums = root.read(Path::new(INFO).join(format!("{instance}.md5sums"))).ok().flatten().unwrap_or_default();
        let sums = Sums::new(&sums, names.len());
        for name in names {
            let conffile = || status.get_or_init(|| Conffiles::read(root)).digest(package, name);
            let digest = sums.digest(name).or_else(conffile).map(Digest::Hexadecimal);
            // A directory may belong to many packages; the first one is used.
            found.entry(name.to_vec()).or_insert(PackagedFile { package: package.to_owned(), digest });
        }
    }
    found
}

/// The digests of a package's files, except for configuration files.
enum Sums<'a> {
    Text(&'a [u8]),
    Table(HashMap<&'a [u8], &'a [u8]>),
}

impl<'a> Sums<'a> {
    /// Prepares for this number of queries.
    fn new(text: &'a [u8], queries: usize) -> Sums<'a> {
        if queries <= FEW {
            return Sums::Text(text);
        }
        Sums::Table(text.lines().filter_map(|line| line.split_once_str("  ")).map(|(sum, name)| (name, sum)).collect())
    }

    fn digest(&self, name: &[u8]) -> Option<String> {
        let sum = match self {
            Sums::Table(table) => table.get(name).copied()?,
            Sums::Text(text) => {
                let mut lines = text.lines();
                lines.find_map(|line| line.strip_suffix(name)?.strip_suffix(b"  "))?
            }
        };
        Some(sum.to_str().ok()?.to_owned())
    }
}

/// The digests of packaged configuration files, by package name and path without the leading slash.
struct Conffiles(HashMap<(String, Vec<u8>), String>);

impl Conffiles {
    fn read(root: &Root) -> Conffiles {
        let status = root.read(STATUS).ok().flatten().unwrap_or_default();
        let mut digests = HashMap::new();
        for stanza in status.split_str("\n\n") {
            let Some(package) = stanza.lines().find_map(|line| line.strip_prefix(b"Package: ")) else { continue };
            let lines = stanza.lines().skip_while(|line| *line != b"Conffiles:").skip(1);
            for line in lines.take_while(|line| line.starts_with(b" ")) {
                let mut words = line.trim().splitn_str(3, " ");
                if let (Some(path), Some(digest)) = (words.next(), words.next())
                    && let Some(path) = path.strip_prefix(b"/")
                {
                    let key = (package.to_str_lossy().into_owned(), path.to_vec());
                    digests.insert(key, digest.to_str_lossy().into_owned());
                }
            }
        }
        Conffiles(digests)
    }

    fn digest(&self, package: &str, name: &[u8]) -> Option<String> {
        self.0.get(&(package.to_owned(), name.to_vec())).cloned()
    }
}
