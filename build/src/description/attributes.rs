//! The values of the table `[package]`, and the directory `tree` of a description.

use super::{FILE_MODE, Reader, values};
use crate::debian;
use crate::format::{Architecture, EPOCH_MAX, Format, Stage, Version};
use crate::package::{Kind, Node, Origin, Owner};
use crate::relation::{Comparison, Groups, Relation, RelationError, RelationList};
use crate::tables::{PackageTable, Table};
use holo_process::words::reason;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

impl Reader<'_> {
    pub(super) fn name(&mut self, table: &Table<PackageTable>) -> Option<String> {
        let Some(name) = &table.value.name else {
            table.missing("name", &mut self.findings);
            return None;
        };
        let checked = self.source.format.check_name(name);
        checked.map_err(|error| self.findings.error(table.line_of("name"), format!("name: {error}"))).ok()?;
        Some(name.clone())
    }

    pub(super) fn version(&mut self, table: &Table<PackageTable>) -> Option<Version> {
        let PackageTable { version, alpha, beta, epoch, release, .. } = &table.value;
        let prerelease = match (alpha, beta) {
            (Some(_), Some(_)) => {
                self.findings.error(table.line_of("beta"), "beta: excludes alpha; remove one of them");
                None
            }
            (Some(alpha), None) => Some((Stage::Alpha, *alpha)),
            (None, beta) => beta.map(|beta| (Stage::Beta, beta)),
        };
        if *release == Some(0) {
            self.findings.error(table.line_of("release"), "release: is 0; releases are counted from 1");
        }
        if self.source.format == Format::Debian && epoch.is_some_and(|epoch| epoch > EPOCH_MAX) {
            let text = format!("epoch: is more than {EPOCH_MAX}, which is the greatest in packages for Debian");
            self.findings.error(table.line_of("epoch"), text);
        }
        let Some(number) = version.clone() else {
            table.missing("version", &mut self.findings);
            return None;
        };
        if let Err(error) = values::version(&number) {
            self.findings.error(table.line_of("version"), format!("version: {error}"));
        }
        Some(Version { number, prerelease, epoch: epoch.unwrap_or(0), release: release.unwrap_or(1) })
    }

    pub(super) fn author(&mut self, table: &Table<PackageTable>) {
        match &table.value.author {
            Some(author) => {
                if let Err(error) = values::author(author) {
                    self.findings.error(table.line_of("author"), format!("author: {error}"));
                }
            }
            None if self.source.format == Format::Debian => table.missing("author", &mut self.findings),
            None => {}
        }
    }

    /// Checks an optional text.
    pub(super) fn text(
        &mut self,
        table: &Table<PackageTable>,
        key: &'static str,
        text: Option<&String>,
        rule: fn(&str) -> Result<String, values::ValueError>,
    ) -> Option<String> {
        let checked = rule(text?);
        checked.map_err(|error| self.findings.error(table.line_of(key), format!("{key}: {error}"))).ok()
    }

    /// Checks the changes. For Debian, they are a file; for RPM, they have an author.
    pub(super) fn changes(
        &mut self,
        table: &Table<PackageTable>,
        name: Option<&str>,
        version: Option<&Version>,
    ) -> io::Result<Option<String>> {
        let changes = self.text(table, "changes", table.value.changes.as_ref(), values::text);
        let line = table.line_of("changes");
        let author = table.value.author.as_deref();
        if changes.is_some() && author.is_none() && self.source.format == Format::Rpm {
            table.missing("author", &mut self.findings);
        }
        if let (Format::Debian, Some(changes)) = (self.source.format, &changes)
            && let (Some(name), Some(version), Some(author)) = (name, version, author)
        {
            let text = debian::changelog(name, version, author, changes, self.source.time)?;
            if let Ok(content) = self.contents.add(&mut &text[..])? {
                let path = format!("usr/share/doc/{name}/changelog.Debian.gz");
                let kind = Kind::File { content, is_config: false };
                self.add(path, Node { kind, mode: FILE_MODE, ..Node::directory(Origin::Line(line)) });
            }
        }
        Ok(changes)
    }

    pub(super) fn architecture(&mut self, table: &Table<PackageTable>) -> Option<Architecture> {
        let Some(name) = &table.value.architecture else { return Some(Architecture::Any) };
        let architecture = Architecture::parse(name);
        if architecture.is_none() {
            let names = Architecture::NAMES.iter().flat_map(|(_, names)| names.iter().copied());
            let hint = match holo_definitions::did_you_mean(name, names.clone()) {
                Some(hint) => hint,
                None => format!("expected one of {}", names.collect::<Vec<_>>().join(", ")),
            };
            let text = format!("architecture: {name:?} is unknown, {hint}");
            self.findings.error(table.line_of("architecture"), text);
        }
        architecture
    }

    pub(super) fn relations(
        &mut self,
        table: &Table<PackageTable>,
        key: &'static str,
        texts: &[String],
        groups: &mut Option<Groups>,
    ) -> Vec<Relation> {
        let mut list = RelationList::new(self.source.format, self.source.root);
        for text in texts {
            if let Err(error) = list.add(text, groups) {
                self.findings.error(table.line_of(key), format!("{key}: {error}"));
            }
        }
        let relations = list.finish();
        if key == "provides" && self.source.format == Format::Debian {
            for Relation { name, constraint } in &relations {
                let Some((comparison, _)) = constraint else { continue };
                if *comparison != Comparison::Equal {
                    let error = RelationError::Provided(name.clone(), comparison.operator());
                    self.findings.error(table.line_of(key), format!("provides: {error}"));
                }
            }
        }
        relations
    }
}

impl Reader<'_> {
    /// Adds the files of the directory `tree`, which declared files replace.
    pub(super) fn tree(&mut self, package: &Table<PackageTable>) -> io::Result<()> {
        let Some(tree) = &package.value.tree else { return Ok(()) };
        let line = package.line_of("tree");
        let directory = self.source.directory.join(tree);
        for entry in WalkDir::new(&directory).min_depth(1).sort_by_file_name() {
            let added = entry.map_err(|error| {
                let path = error.path().unwrap_or(&directory).display().to_string();
                let reason = error.io_error().map_or_else(|| "a loop of symlinks".to_owned(), reason);
                format!("read {path}: {reason}")
            });
            let added = match added {
                Ok(entry) => self.tree_entry(&entry, &directory, line)?,
                Err(text) => Err(text.into()),
            };
            if let Err(error) = added {
                self.findings.error(line, format!("tree: {error}"));
            }
        }
        if !directory.is_dir() && directory.exists() {
            self.findings.error(line, format!("tree: {} is not a directory", directory.display()));
        }
        Ok(())
    }

    fn tree_entry(
        &mut self,
        entry: &walkdir::DirEntry,
        directory: &Path,
        line: usize,
    ) -> io::Result<Result<(), values::ValueError>> {
        let shown = entry.path().display().to_string();
        let path = match entry.path().strip_prefix(directory).ok().and_then(Path::to_str) {
            Some(path) => path.to_owned(),
            None => return Ok(Err(format!("the name of {shown} is not UTF-8").into())),
        };
        if let Err(error) = values::path(&format!("/{path}")) {
            return Ok(Err(error));
        }
        if self.nodes.declares(&path) {
            return Ok(Ok(()));
        }
        let read = |error: &io::Error| Ok(Err(format!("read {shown}: {}", reason(error)).into()));
        let kind = entry.file_type();
        let (kind, mode) = if kind.is_dir() {
            match fs::read_dir(entry.path()).map(|mut entries| entries.next().is_none()) {
                Ok(true) => (Kind::Directory, None),
                // A directory on the way.
                Ok(false) => return Ok(Ok(())),
                Err(error) => return read(&error),
            }
        } else if kind.is_symlink() {
            match fs::read_link(entry.path()).map(PathBuf::into_os_string) {
                Ok(target) => match target.to_str().map(values::symlink_target) {
                    Some(Ok(target)) => (Kind::Symlink { target }, Some(0o777)),
                    Some(Err(error)) => return Ok(Err(format!("the target of {shown}: {error}").into())),
                    None => return Ok(Err(format!("the target of {shown} is not UTF-8").into())),
                },
                Err(error) => return read(&error),
            }
        } else if kind.is_file() {
            let content = match File::open(entry.path()) {
                Ok(mut file) => self.contents.add(&mut file)?,
                Err(error) => Err(error),
            };
            match content {
                Ok(content) => (Kind::File { content, is_config: false }, None),
                Err(error) => return read(&error),
            }
        } else {
            return Ok(Err(format!("{shown} is neither a file, a directory nor a symlink").into()));
        };
        let mode = match (mode, entry.path().symlink_metadata()) {
            (Some(mode), _) => mode,
            (None, Ok(metadata)) => metadata.permissions().mode() & 0o7777,
            (None, Err(error)) => return read(&error),
        };
        let node = Node { kind, mode, owner: Owner::ROOT, group: Owner::ROOT, origin: Origin::Tree(line) };
        Ok(self.nodes.add(path, node).map_err(|error| error.to_string().into()))
    }
}
