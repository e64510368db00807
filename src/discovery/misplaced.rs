//! Finds files below the resource directories that no plugin reads, and the place where they probably belong.

use super::inventory::Inventory;
use crate::host::config::is_leftover;
use crate::host::root::Root;
use bstr::ByteSlice;
use glob::{MatchOptions, Pattern};
use holo_definitions::did_you_mean;
use holo_definitions::values::quoted;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// A file or directory that no plugin reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The problem, which begins with the path.
    pub title: String,
    /// What the user can do about it.
    pub remedy: String,
}

/// The suffix of definitions.
const DEFINITIONS: &str = ".toml";
/// The prefix of a pattern that only matches executable files.
const EXECUTABLE: &str = "x:";
/// The pattern of all files in subdirectories.
const SUBDIRECTORIES: &str = "*/**";

/// Returns the entries of the parents of resource directories that belong to no configured plugin.
pub fn without_plugin(root: &Root, ids: &[&str]) -> Vec<Misplaced> {
    let mut found = Vec::new();
    for parent in [root.resources(), root.own_resources()] {
        for path in entries(&parent) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_plugins = ids.contains(&&*name) || path == root.generators() || name.starts_with('.');
            let is_plugins = is_plugins || path == root.resources().join("data");
            if is_plugins || is_exempt(&path) {
                continue;
            }
            if !path.is_dir() {
                let title = format!("{} is not used: it is in no directory of a plugin", path.display());
                let remedy = format!("move it to the directory of its plugin in {}", parent.display());
                found.push(Misplaced { title, remedy });
            } else if has_files(&path) {
                let title = format!("{} is not used: plugin {name} is not configured", path.display());
                found.push(Misplaced { title, remedy: nearest(&name, ids, &parent) });
            }
        }
    }
    found
}

fn nearest(name: &str, ids: &[&str], parent: &Path) -> String {
    if let Some(id) = ids.iter().find(|id| id.split('-').any(|part| part == name)) {
        return format!("move its files to {}", parent.join(id).display());
    }
    let remedy = did_you_mean(name, ids.iter().copied());
    remedy.unwrap_or_else(|| format!("configure it in holorc.d: plugin {name}"))
}

/// Returns the resource files that the plugins of an inventory do not read.
pub fn unread(root: &Root, inventory: &Inventory) -> Vec<Misplaced> {
    let mut found = Vec::new();
    for plugin in inventory.plugins.iter().filter(|plugin| !plugin.reads().is_empty()) {
        let reads = Reads::new(plugin.reads());
        for directory in [root.resources(), root.own_resources()].map(|parent| parent.join(&plugin.id)) {
            found.extend(reads.unread(&plugin.id, &directory));
        }
    }
    found
}

/// The files that a plugin reads.
struct Reads<'a> {
    patterns: &'a [String],
    compiled: Vec<Pattern>,
    executable: Vec<Pattern>,
}

impl Reads<'_> {
    fn new(patterns: &[String]) -> Reads<'_> {
        let (executable, plain): (Vec<&str>, Vec<&str>) =
            patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with(EXECUTABLE));
        let compiled = |texts: Vec<&str>| {
            let texts = texts.into_iter().map(|text| text.strip_prefix(EXECUTABLE).unwrap_or(text));
            texts.filter_map(|text| Pattern::new(text).ok()).collect()
        };
        Reads { patterns, compiled: compiled(plain), executable: compiled(executable) }
    }

    fn unread(&self, id: &str, directory: &Path) -> Vec<Misplaced> {
        // Trees of templates or overlays may be large.
        let depth = if self.patterns.iter().any(|pattern| pattern == SUBDIRECTORIES) { 1 } else { usize::MAX };
        let walk = WalkDir::new(directory).min_depth(1).max_depth(depth).sort_by_file_name().into_iter();
        let mut definitions = None;
        let mut found = Vec::new();
        for entry in walk.filter_map(Result::ok).filter(|entry| !entry.file_type().is_dir()) {
            let Ok(below) = entry.path().strip_prefix(directory) else { continue };
            let is_hidden = below.iter().any(|part| part.as_bytes().starts_with(b"."));
            if is_hidden || is_exempt(entry.path()) || matches(&self.compiled, below) {
                continue;
            }
            let path = entry.path().display();
            if matches(&self.executable, below) {
                if is_script_without_right(entry.path()) {
                    let title = format!("{path} is a script that cannot be executed, so that it is not run");
                    found.push(Misplaced { title, remedy: format!("chmod +x {path}") });
                }
                continue;
            }
            let texts = definitions.get_or_insert_with(|| texts(directory));
            if !is_mentioned(entry.file_name(), texts) {
                let title = format!("{path} is not used: plugin {id} does not read it, and no definition mentions it");
                found.push(Misplaced { title, remedy: self.remedy(id, directory, below) });
            }
        }
        found
    }

    /// Returns the probable place of a file that is not read.
    fn remedy(&self, id: &str, directory: &Path, below: &Path) -> String {
        let is_read = |below: &Path| matches(&self.compiled, below) || matches(&self.executable, below);
        let name = below.file_name().unwrap_or_default();
        if name != below.as_os_str() && is_read(Path::new(name)) {
            return format!("move it to {}", directory.join(name).display());
        }
        let renamed = below.with_extension(DEFINITIONS.trim_start_matches('.'));
        let is_similar = below
            .extension()
            .is_some_and(|end| ["yml", "yaml", "json", "tml", "TOML", "conf"].iter().any(|it| end == *it));
        if is_similar && matches(&self.compiled, &renamed) {
            return format!("if it contains definitions in TOML, rename it to {}", directory.join(renamed).display());
        }
        let patterns: Vec<&str> = self.patterns.iter().map(|it| it.strip_prefix(EXECUTABLE).unwrap_or(it)).collect();
        format!("plugin {id} reads {} in {}", patterns.join(", "), directory.display())
    }
}

fn matches(patterns: &[Pattern], below: &Path) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    patterns.iter().any(|pattern| pattern.matches_path_with(below, options))
}

/// Returns true for documentation, leftovers, which `holo doctor` reports by itself, and files that mask others.
fn is_exempt(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_null = fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null"));
    let is_empty = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
    is_null || is_empty || is_leftover(name) || name.as_bytes().starts_with(b"README")
}

/// Returns true for a file with a `#!` line that is not executable.
fn is_script_without_right(path: &Path) -> bool {
    // Only regular files are opened, because opening a FIFO would block.
    let is_plain =
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 == 0);
    let mut begin = [0; 2];
    is_plain && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!"
}

/// Returns the contents of the definitions in a directory.
fn texts(directory: &Path) -> Vec<Vec<u8>> {
    let is_definition = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        path.is_file() && (name.ends_with_str(DEFINITIONS) || name.ends_with_str(".toml.jinja"))
    };
    entries(directory).into_iter().filter(is_definition).filter_map(|path| fs::read(path).ok()).collect()
}

fn is_mentioned(name: &OsStr, texts: &[Vec<u8>]) -> bool {
    let escaped = quoted(&name.to_string_lossy());
    let escaped = escaped.trim_matches('"').as_bytes();
    texts.iter().any(|text| text.contains_str(name.as_bytes()) || text.contains_str(escaped))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns true if there are files below a directory.
fn has_files(path: &Path) -> bool {
    WalkDir::new(path).into_iter().filter_map(Result::ok).any(|entry| !entry.file_type().is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_files_are_named_with_their_probable_place() {
        let directory = tempfile::tempdir().unwrap();
        let write = |below: &str, text: &str| {
            let path = directory.path().join(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for below in ["a.toml", "sub/b.toml", "c.yml", "README.md", ".git/config", "d.toml~", "key.gpg", "other"] {
            write(below, "x");
        }
        write("e.toml", "key = \"key.gpg\"\n# a \"tool\\\".content\"\n");
        write("tool\".content", "x");
        write("empty.yml", "");
        let root = directory.path().display();
        let reads = ["*.toml".to_owned(), "*.toml.jinja".to_owned()];
        let found = Reads::new(&reads).unread("packages", directory.path());
        let not_used = |below: &str, remedy: String| Misplaced {
            title: format!(
                "{root}/{below} is not used: plugin packages does not read it, and no definition mentions it"
            ),
            remedy,
        };
        assert_eq!(
            found,
            [
                not_used("c.yml", format!("if it contains definitions in TOML, rename it to {root}/c.toml")),
                not_used("other", format!("plugin packages reads *.toml, *.toml.jinja in {root}")),
                not_used("sub/b.toml", format!("move it to {root}/b.toml")),
            ]
        );
    }

    #[test]
    fn scripts_without_the_right_to_run_are_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("data"), "x").unwrap();
        fs::write(directory.path().join("script"), "#!/bin/sh\n").unwrap();
        let found = Reads::new(&["x:*".to_owned()]).unread("run-scripts", directory.path());
        let remedy = format!("chmod +x {}", directory.path().join("script").display());
        assert_eq!(found.iter().map(|it| &it.remedy).collect::<Vec<_>>(), [&remedy]);
    }

    #[test]
    fn nearest_plugin_is_suggested() {
        let ids = ["files", "users-groups", "packages"];
        let nearest = |name| nearest(name, &ids, Path::new("/etc/holo/resources"));
        assert_eq!(nearest("users"), "move its files to /etc/holo/resources/users-groups");
        assert_eq!(nearest("demo"), "configure it in holorc.d: plugin demo");
    }
}
