//! dpkg: a list of files a package, digests of most of them, and those of configuration files in the status.

use super::{Digest, Found, PackagedFile, Wanted};
use crate::root::Root;
use bstr::ByteSlice;
use std::path::Path;

const INFO: &str = "var/lib/dpkg/info";
const STATUS: &str = "var/lib/dpkg/status";

pub(super) fn find(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    // Each name as a list has it, with the newlines around it.
    let needles: Vec<(Vec<u8>, &[u8])> = wanted.names().map(|name| ([b"\n/", name, b"\n"].concat(), name)).collect();
    for list in root.names(INFO).unwrap_or_default() {
        let Some(instance) = list.to_str().and_then(|name| name.strip_suffix(".list")) else { continue };
        let Ok(Some(text)) = root.read(Path::new(INFO).join(&list)) else { continue };
        for (_, name) in needles.iter().filter(|(needle, _)| text.contains_str(needle)) {
            let package = instance.split_once(':').map_or(instance, |(package, _)| package);
            let digest = digest(root, instance, name).or_else(|| conffile(root, package, name));
            // A directory may be of many packages: the first one is named.
            found.entry(name.to_vec()).or_insert(PackagedFile { package: package.to_owned(), digest });
        }
    }
    found
}

/// Returns the digest of a file that is not a configuration file.
fn digest(root: &Root, instance: &str, name: &[u8]) -> Option<Digest> {
    let text = root.read(Path::new(INFO).join(format!("{instance}.md5sums"))).ok()??;
    let line = text.lines().find(|line| line.strip_suffix(name).is_some_and(|rest| rest.ends_with(b"  ")))?;
    Some(Digest::Hexadecimal(line.get(..32)?.to_str().ok()?.to_owned()))
}

/// Returns the digest that a configuration file had when the package brought it.
fn conffile(root: &Root, package: &str, name: &[u8]) -> Option<Digest> {
    let status = root.read(STATUS).ok()??;
    let begins = [b"Package: ", package.as_bytes(), b"\n"].concat();
    let mut stanzas = status.split_str("\n\n").filter(|stanza| stanza.starts_with(&begins));
    stanzas.find_map(|stanza| {
        let mut lines = stanza.lines().skip_while(|line| *line != b"Conffiles:").skip(1);
        let conffiles = lines.by_ref().take_while(|line| line.starts_with(b" "));
        conffiles.filter_map(|line| line.strip_prefix(b" /")?.strip_prefix(name)?.strip_prefix(b" ")).find_map(|rest| {
            let digest = rest.fields().next()?.to_str().ok()?;
            Some(Digest::Hexadecimal(digest.to_owned()))
        })
    })
}
