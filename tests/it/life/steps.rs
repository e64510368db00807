//! The steps of a life, and the definitions that they amount to.
//!
//! Not among them: symlinks that people make, secrets, directories that are declared absent, and second names of files
//! below a directory with permissions for all that is in it.

use holo_testing::Random;
use std::collections::{BTreeMap, BTreeSet};

/// What is defined for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    /// An overlay with this content.
    Overlay(&'static str),
    /// An overlay that adds a line to what is there.
    Script,
    /// An overlay that is rendered over data.
    Template,
    /// An overlay that is a symlink.
    OverlayLink,
    /// A declared file with this content.
    File(&'static str),
    /// The same, but the existing file is written to.
    InPlace(&'static str),
    /// A declared file with a mode and an ACL.
    Access(&'static str),
    Symlink,
    Absent,
    Directory,
    /// Edits of these types, and whether they create the file.
    Edits(&'static str, bool),
}

/// What is defined for a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bundle {
    Nothing,
    /// A scaffold of these files in a version.
    Scaffold(&'static [&'static str], u8),
    /// The same, and all other files are removed.
    Purging(&'static [&'static str], u8),
    /// An archive of these files in a version.
    Archive(&'static [&'static str], u8),
    /// A declared directory with this mode, and with an ACL for everything below.
    Recursive(&'static str),
}

/// A step. What people and package managers write contains a number, by which it is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Define(&'static str, Wish),
    Fill(&'static str, Bundle),
    /// The data changes.
    Data(u8),
    /// A person replaces a file.
    Write(&'static str, usize),
    /// A person adds a line to a file.
    Append(&'static str, usize),
    Delete(&'static str),
    Chmod(&'static str, u32),
    /// A person sets an extended attribute.
    Note(&'static str),
    /// A person gives a file a second name, or replaces the file with that name.
    Link(&'static str, &'static str),
    /// A package manager leaves a file with this suffix.
    Package(&'static str, &'static str, usize),
    Apply,
    Force,
    /// Two applies at once.
    Together,
    /// The plugins are killed at the system call with this number.
    KillPlugins(&'static str, usize),
    /// The same in a forced apply.
    KillForced(&'static str, usize),
    /// The disk is full at the system call with this number.
    FillDisk(&'static str, usize),
    /// The dispatcher is killed.
    KillHolo(&'static str, usize),
    /// A rollback by this number of generations.
    RollBack(usize),
    /// The definitions of today are used again.
    Release,
    /// A person adds a line to a file, and adopts the file.
    Adopt(&'static str, usize),
    /// What was adopted is not defined any more.
    Abandon,
    /// A person asks who made a file.
    Ask(&'static str),
}

pub(super) const PATHS: [&str; 6] = ["etc/a", "etc/b.conf", "etc/app/x", "etc/app/y", "etc/app/sub/z", "etc/new/n"];
pub(super) const ARCHIVE: &str = "usr/share/life.tar";
const FILES: [&[&str]; 4] = [&["x"], &["x", "y"], &["y", "sub/z"], &["x", "sub/z", "more/w"]];
const CONTENTS: [&str; 2] = ["ours\n", "other\n[life]\nkey = 3\n"];
const EDITS: [&str; 5] = ["line", "block", "ini", "line ini", "line block ini"];
/// Those of Debian, on which all lives take place.
pub(super) const SUFFIXES: [&str; 2] = [".dpkg-dist", ".dpkg-old"];
/// The second names of files. One is in a directory that is purged, or has permissions for all that is in it.
pub(super) const NAMES: [&str; 2] = ["etc/name", "etc/app/name"];
/// The system calls that fail on a full disk.
const GROWING: [&str; 9] =
    ["write", "pwrite64", "copy_file_range", "fsetxattr", "linkat", "symlinkat", "mkdirat", "fsync", "fdatasync"];
const MODES: [u32; 3] = [0o600, 0o644, 0o755];

impl Step {
    /// Returns a random step of a life, given its number.
    pub(super) fn random(random: &mut Random, number: usize) -> Step {
        let path = *random.pick(&PATHS);
        match random.below(100) {
            0..=29 => Step::Define(path, Wish::random(random)),
            30..=37 => Step::Fill("etc/app", Bundle::random(random)),
            38 => Step::Data(u8::from(random.chance(50))),
            39 => Step::Ask(path),
            40..=44 => Step::Write(path, number),
            45..=49 => Step::Append(path, number),
            50..=53 => Step::Delete(path),
            54..=55 => Step::Chmod(path, *random.pick(&MODES)),
            56 if random.chance(50) => Step::Note(path),
            56 => Step::Link(path, random.pick::<&str>(&NAMES)),
            57..=58 => Step::Package(path, random.pick::<&str>(&SUFFIXES), number),
            59..=62 => Step::Adopt(path, number),
            63 => Step::Abandon,
            64..=79 => Step::Apply,
            80..=81 => Step::RollBack(1 + random.below(3)),
            82 => Step::Release,
            83..=87 => Step::Force,
            88..=90 => Step::Together,
            91..=92 => Step::FillDisk(random.pick::<&str>(&GROWING), 1 + random.below(12)),
            93..=95 => Step::KillPlugins(random.pick::<&str>(holo_testing::disturb::CALLS), 1 + random.below(12)),
            96..=97 => Step::KillForced(random.pick::<&str>(holo_testing::disturb::CALLS), 1 + random.below(12)),
            _ => {
                Step::KillHolo(random.pick::<&str>(&["write", "fdatasync", "unlink", "pwrite64"]), 1 + random.below(30))
            }
        }
    }
}

impl Wish {
    fn random(random: &mut Random) -> Wish {
        let content = *random.pick(&CONTENTS);
        match random.below(20) {
            0..=3 => Wish::Nothing,
            4..=5 => Wish::Overlay(content),
            6 if random.chance(50) => Wish::Script,
            6 => Wish::Template,
            7 => Wish::OverlayLink,
            8..=9 => Wish::File(content),
            10 => Wish::InPlace(content),
            11 => Wish::Access(content),
            12 => Wish::Symlink,
            13 => Wish::Absent,
            14 => Wish::Directory,
            _ => Wish::Edits(random.pick::<&str>(&EDITS), random.chance(40)),
        }
    }

    pub(super) fn is_edits(self) -> bool {
        matches!(self, Wish::Edits(..))
    }

    pub(super) fn is_overlay(self) -> bool {
        matches!(self, Wish::Overlay(_) | Wish::Script | Wish::Template | Wish::OverlayLink)
    }

    /// Returns the tables for a path.
    fn tables(self, path: &str) -> String {
        let file = |more: &str| format!("[[file]]\npath = \"/{path}\"\n{more}\n");
        match self {
            Wish::Nothing | Wish::Overlay(_) | Wish::Script | Wish::Template | Wish::OverlayLink => String::new(),
            Wish::File(content) => file(&format!("content = {content:?}")),
            Wish::InPlace(content) => file(&format!("content = {content:?}\nin_place = true")),
            Wish::Access(content) => file(&format!("content = {content:?}\nmode = \"0640\"\nacl = [\"user:7:r\"]")),
            Wish::Symlink => file("ensure = \"symlink\"\ntarget = \"/etc/b.conf\""),
            Wish::Absent => file("ensure = \"absent\""),
            Wish::Directory => file("ensure = \"directory\"\nmode = \"0750\""),
            Wish::Edits(kinds, create) => {
                let edit = |kind: &str| {
                    let own = match kind {
                        "line" => "line = \"a line\"",
                        "block" => "name = \"life\"\ncontent = \"in a block\\n\"",
                        _ => "section = \"life\"\nkey = \"key\"\nvalue = \"4\"",
                    };
                    format!("[[{kind}]]\npath = \"/{path}\"\ncreate = {create}\n{own}\n")
                };
                kinds.split(' ').map(edit).collect()
            }
        }
    }
}

impl Bundle {
    fn random(random: &mut Random) -> Bundle {
        let (files, version) = (*random.pick(&FILES), u8::from(random.chance(50)));
        match random.below(10) {
            0..=2 => Bundle::Nothing,
            3..=5 => Bundle::Scaffold(files, version),
            6 => Bundle::Purging(files, version),
            7 => Bundle::Recursive(random.pick::<&str>(&["0750", "0755"])),
            _ => Bundle::Archive(files, version),
        }
    }

    pub(super) fn is_recursive(self) -> bool {
        matches!(self, Bundle::Recursive(_))
    }

    fn files(self) -> &'static [&'static str] {
        match self {
            Bundle::Nothing | Bundle::Recursive(_) => &[],
            Bundle::Scaffold(files, _) | Bundle::Purging(files, _) | Bundle::Archive(files, _) => files,
        }
    }
}

/// A file of the definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    File(Vec<u8>),
    Script(&'static str),
    Symlink(&'static str),
}

/// All definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions {
    pub(super) wishes: BTreeMap<&'static str, Wish>,
    pub(super) bundles: BTreeMap<&'static str, Bundle>,
    pub(super) data: u8,
    /// The paths for which there are files that `holo adopt` has written.
    pub(super) adopted: BTreeSet<&'static str>,
}

impl Definitions {
    /// Returns the files with these definitions, by path.
    pub(super) fn sources(&self) -> BTreeMap<String, Source> {
        let mut sources = BTreeMap::new();
        let mut tables = String::new();
        for (path, wish) in &self.wishes {
            tables.push_str(&wish.tables(path));
            let overlay = format!("usr/share/holo/files/20-life/{path}");
            let _ = match wish {
                Wish::Overlay(content) => sources.insert(overlay, Source::File(content.as_bytes().to_vec())),
                Wish::Script => {
                    sources.insert(overlay + ".holoscript", Source::Script("#!/bin/sh\ncat; echo scripted\n"))
                }
                Wish::Template => {
                    sources.insert(overlay + ".holotemplate", Source::File(b"{{ data.word }}\n".to_vec()))
                }
                Wish::OverlayLink => sources.insert(overlay, Source::Symlink("/etc/os-release")),
                _ => None,
            };
        }
        for (path, bundle) in &self.bundles {
            if let Bundle::Recursive(mode) = bundle {
                tables.push_str(&format!(
                    "[[file]]\npath = \"/{path}\"\nensure = \"directory\"\nmode = \"{mode}\"\nrecurse = true\nfile_mode = \"0640\"\nacl = [\"user:7:rX\"]\n"
                ));
            }
        }
        let data = format!("word = \"data {}\"\n", self.data);
        sources.insert("usr/share/holo/data/common.toml".to_owned(), Source::File(data.into_bytes()));
        if !tables.is_empty() {
            sources.insert("usr/share/holo/files/life.toml".to_owned(), Source::File(tables.into_bytes()));
        }
        for (path, bundle) in &self.bundles {
            let (scaffold, archive) = ("usr/share/holo/scaffold/life", "usr/share/holo/archives/life.toml");
            match *bundle {
                Bundle::Nothing | Bundle::Recursive(_) => {}
                Bundle::Scaffold(files, version) | Bundle::Purging(files, version) => {
                    let purge = matches!(bundle, Bundle::Purging(..));
                    let table = format!("[[scaffold]]\ntarget = \"/{path}\"\nsource = \"life\"\npurge = {purge}\n");
                    sources.insert(format!("{scaffold}.toml"), Source::File(table.into_bytes()));
                    for file in files {
                        let content = format!("rendered {version}\n{{{{ data.word }}}}\n").into_bytes();
                        sources.insert(format!("{scaffold}/{file}"), Source::File(content));
                    }
                }
                Bundle::Archive(files, version) => {
                    let table = format!(
                        "[[archive]]\npath = \"/var/cache/life.tar\"\nurl = \"file:///usr/share/life.tar\"\n\
                         extract_to = \"/{path}\"\n"
                    );
                    sources.insert(archive.to_owned(), Source::File(table.into_bytes()));
                    sources.insert(ARCHIVE.to_owned(), Source::File(tar(files, version)));
                }
            }
        }
        sources
    }

    /// Returns the files of bundles, each with a text in it.
    pub(super) fn bundled(&self) -> impl Iterator<Item = (String, String)> {
        self.bundles.iter().flat_map(|(path, bundle)| {
            let text = match bundle {
                Bundle::Archive(_, version) => format!("extracted {version}\n"),
                Bundle::Scaffold(_, version) | Bundle::Purging(_, version) => format!("rendered {version}\n"),
                Bundle::Nothing | Bundle::Recursive(_) => String::new(),
            };
            bundle.files().iter().map(move |file| (format!("{path}/{file}"), text.clone()))
        })
    }

    /// Returns the paths that these definitions are about.
    pub(super) fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        for (path, wish) in self.wishes.iter().filter(|(_, wish)| **wish != Wish::Nothing) {
            coverage.add(path, wish.is_edits());
            if matches!(wish, Wish::InPlace(_)) {
                coverage.written_in_place.insert((*path).to_owned());
            }
            if wish.is_overlay() {
                coverage.overlaid.insert((*path).to_owned());
            }
        }
        for path in &self.adopted {
            coverage.add(path, false);
            coverage.overlaid.insert((*path).to_owned());
        }
        for (path, bundle) in &self.bundles {
            bundle.files().iter().for_each(|file| coverage.add(&format!("{path}/{file}"), false));
            if matches!(bundle, Bundle::Recursive(_)) {
                coverage.add(path, false);
                coverage.recursed.insert((*path).to_owned());
            }
            if matches!(bundle, Bundle::Purging(..)) {
                coverage.purged.insert((*path).to_owned());
            }
            if matches!(bundle, Bundle::Archive(..)) {
                coverage.add("var/cache/life.tar", false);
            }
        }
        coverage
    }
}

fn tar(files: &[&str], version: u8) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let content = format!("extracted {version}\n");
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o640);
        archive.append_data(&mut header, file, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn is_below(path: &str, trees: &BTreeSet<String>) -> bool {
    trees.iter().any(|tree| path.starts_with(&format!("{tree}/")))
}

/// The paths that entities are about.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// Whether only edits are about a path.
    paths: BTreeMap<String, bool>,
    pub(super) overlaid: BTreeSet<String>,
    /// The directories from which all other files are removed.
    purged: BTreeSet<String>,
    /// The directories below which attributes are set.
    pub(super) recursed: BTreeSet<String>,
    /// The files whose contents may be changed under all of their names.
    pub(super) written_in_place: BTreeSet<String>,
}

impl Coverage {
    fn add(&mut self, path: &str, is_edited: bool) {
        let only_edits = self.paths.entry(path.to_owned()).or_insert(is_edited);
        *only_edits &= is_edited;
    }

    /// Adds a path with content of its own.
    pub(super) fn hold(&mut self, path: &str) {
        self.add(path, false);
    }

    pub(super) fn extend(&mut self, more: &Coverage) {
        more.paths.iter().for_each(|(path, is_edited)| self.add(path, *is_edited));
        self.overlaid.extend(more.overlaid.iter().cloned());
        self.purged.extend(more.purged.iter().cloned());
        self.recursed.extend(more.recursed.iter().cloned());
        self.written_in_place.extend(more.written_in_place.iter().cloned());
    }

    pub(super) fn is_only_edited(&self, path: &str) -> bool {
        self.paths.get(path) == Some(&true) && !self.is_purged(path)
    }

    pub(super) fn is_purged(&self, path: &str) -> bool {
        is_below(path, &self.purged)
    }

    /// Returns true if an apply may change the path itself.
    pub(super) fn has(&self, path: &str) -> bool {
        let is_stock = |suffix: &str| path.strip_suffix(suffix).is_some_and(|path| self.overlaid.contains(path));
        let is_in_tree = self.is_purged(path) || is_below(path, &self.recursed);
        self.paths.contains_key(path) || is_in_tree || SUFFIXES.into_iter().any(is_stock)
    }

    /// Returns true if an apply may create or remove the path as a directory.
    pub(super) fn has_below(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.paths.keys().chain(&self.purged).any(|covered| covered.starts_with(&prefix) || covered == path)
    }
}
