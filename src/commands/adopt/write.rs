//! Writes the administrator's resource files. Files are replaced atomically, so a killed run leaves each one old or
//! new, never partial.

use super::Request;
use super::definitions::{self, Definitions};
use super::gather::Resources;
use crate::diff::{self, Modes, Side};
use crate::error::{FatalError, IoError};
use crate::host::root::{Root, normalise};
use crate::report::{Adopted, Event, Remarks, Reporter};
use bstr::ByteSlice;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The directories whose resource files are replaced when an entity is adopted again: those that others are applied to,
/// and those that are applied last.
pub(super) const LOCAL: [&str; 2] = ["10-local", "90-local"];
/// The directory in which files are staged before they are moved into place. It cannot be the name of a plugin.
const STAGING: &str = ".adopt";

/// The files to write.
pub(super) struct Plan {
    /// The parent of all plugins' own resource directories.
    root: PathBuf,
    /// A directory with the files that are compared.
    cache: PathBuf,
    /// True if the files become part of a package, and existing ones are not considered.
    is_package: bool,
    adopted: Vec<Adopted>,
    /// What happens to each file, by path.
    steps: BTreeMap<PathBuf, Step>,
    /// The files of definitions, by path.
    definitions: BTreeMap<PathBuf, Definitions>,
}

/// The reason for which a definition is not written.
#[derive(Debug, thiserror::Error)]
enum DefinitionError {
    #[error("its plugin's definition is not valid: {0}")]
    Invalid(SyntaxError),
    #[error("its plugin's definition is not exactly one table")]
    NotOneTable,
    #[error("a line of its plugin's definition looks like the name of another entity")]
    Ambiguous,
    #[error("its ID is not UTF-8")]
    Id,
    #[error("{} would not be valid: {reason}", path.display())]
    WouldBeInvalid { path: PathBuf, reason: SyntaxError },
    #[error("{} was not written by holo adopt; move it away, or add the definition by hand", .0.display())]
    Foreign(PathBuf),
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The text is not valid TOML.
#[derive(Debug, thiserror::Error)]
enum SyntaxError {
    #[error("it is not UTF-8")]
    Encoding,
    #[error("{}", .0.message())]
    Toml(#[from] toml::de::Error),
}

/// What happens to a file.
pub(super) enum Step {
    /// It becomes a copy of this file.
    Copy(PathBuf),
    Write(Vec<u8>),
    Remove,
}

impl Plan {
    pub(super) fn new(root: &Root, cache: &Path, is_package: bool) -> Plan {
        Plan {
            is_package,
            root: root.own_resources(),
            cache: cache.to_owned(),
            adopted: Vec::new(),
            steps: BTreeMap::new(),
            definitions: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.adopted.is_empty()
    }

    /// Adds the resource files of an entity. Returns false if they cannot be written, which has been reported.
    pub(super) fn add(
        &mut self,
        request: &Request,
        resources: &Resources,
        reporter: &mut dyn Reporter,
    ) -> Result<bool, FatalError> {
        let directory = self.root.join(&resources.plugin);
        let mut adopted = request.to_adopted(&resources.plugin);
        let mut steps = BTreeMap::new();
        for (below, made) in &resources.files {
            if let Some(reason) = hindrance(below, made).filter(|_| self.is_package) {
                reporter.error(format!("cannot adopt {}: {reason}, so a description cannot contain it", request.id));
                return Ok(false);
            }
            let path = directory.join(below);
            let is_removal = made.symlink_metadata().is_ok_and(|made| made.is_file() && made.len() == 0);
            let exists = !self.is_package && path.symlink_metadata().is_ok();
            if exists && !is_replaced(below) {
                self.refuse(request, &path, made, reporter);
                return Ok(false);
            }
            if !is_removal {
                adopted.written.push(path.clone());
                steps.insert(path, Step::Copy(made.clone()));
            } else if exists {
                adopted.removed.push(path.clone());
                steps.insert(path, Step::Remove);
            }
        }
        if !resources.definition.trim().is_empty() {
            match self.define(request, &directory, &resources.definition) {
                Ok((path, changed)) => {
                    steps.extend(changed);
                    adopted.written.push(path);
                }
                Err(reason) => {
                    reporter.error(format!("cannot adopt {}: {reason}", request.id));
                    return Ok(false);
                }
            }
        }
        self.steps.extend(steps);
        self.adopted.push(adopted);
        Ok(true)
    }

    /// Reports that a file is not replaced, with the difference.
    fn refuse(&self, request: &Request, path: &Path, made: &Path, reporter: &mut dyn Reporter) {
        let shown = path.display();
        reporter.error(format!("cannot adopt {}: {shown} exists already; move it away, or edit it", request.id));
        let side = |file: &Path, suffix: &str| {
            let name = [path.as_os_str().as_bytes(), suffix.as_bytes()].concat().into();
            diff::load(file, &self.cache, Modes::Git).map(|content| Side { name, content })
        };
        if let (Ok(old), Ok(new)) = (side(path, ""), side(made, " (adopted)")) {
            reporter.event(Event::Difference(&diff::render(&old, &new)));
        }
    }

    /// Moves a definition to the file of its group, or, without a group, to the file that already contains it, and
    /// removes it from any other. Returns the file, and the changes to all of them.
    fn define(
        &mut self,
        request: &Request,
        directory: &Path,
        definition: &[u8],
    ) -> Result<(PathBuf, Vec<(PathBuf, Step)>), DefinitionError> {
        let id = request.id.to_str().map_err(|_| DefinitionError::Id)?;
        if !is_one_table(&parse(definition).map_err(DefinitionError::Invalid)?) {
            return Err(DefinitionError::NotOneTable);
        }
        if !self.is_package {
            self.read_definitions(directory)?;
        }
        let has_it = |(path, file): &(&PathBuf, &Definitions)| path.starts_with(directory) && file.has(id);
        let earlier = self.definitions.iter().find(has_it).filter(|_| request.group.is_none());
        let path = earlier.map(|(path, _)| path.clone());
        let path = path.unwrap_or_else(|| directory.join(definitions::file_name(request.group.as_ref())));
        let exists = !self.is_package && path.symlink_metadata().is_ok();
        if exists && !self.definitions.contains_key(&path) {
            return Err(DefinitionError::Foreign(path));
        }
        let mut file = self.definitions.get(&path).cloned().unwrap_or_else(Definitions::new);
        file.set(id, request.reason.as_ref(), definition);
        let text = file.to_text();
        parse(&text).map_err(|reason| DefinitionError::WouldBeInvalid { path: path.clone(), reason })?;
        if Definitions::parse(&text).ok().as_ref() != Some(&file) {
            return Err(DefinitionError::Ambiguous);
        }
        self.definitions.insert(path.clone(), file);
        let mut steps = Vec::new();
        for (other, file) in self.definitions.iter_mut().filter(|(other, _)| other.starts_with(directory)) {
            if *other != path && file.remove(id) {
                let step = if file.is_empty() { Step::Remove } else { Step::Write(file.to_text()) };
                steps.push((other.clone(), step));
            }
        }
        steps.push((path.clone(), Step::Write(text)));
        Ok((path, steps))
    }

    /// Reads the files of definitions that earlier runs have written.
    fn read_definitions(&mut self, directory: &Path) -> Result<(), IoError> {
        if self.definitions.keys().any(|path| path.starts_with(directory)) {
            return Ok(());
        }
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| IoError::new("open", directory, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| IoError::new("open", directory, error))?;
            if entry.file_name().to_str().is_some_and(definitions::is_file_name) {
                let path = entry.path();
                let text = fs::read(&path).map_err(|error| IoError::new("open", &path, error))?;
                self.definitions.extend(Definitions::parse(&text).ok().map(|read| (path, read)));
            }
        }
        Ok(())
    }

    /// Returns the parent of all plugins' own resource directories.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns what is done to each file.
    pub(super) fn steps(&self) -> &BTreeMap<PathBuf, Step> {
        &self.steps
    }

    /// Returns everything that is adopted.
    pub(super) fn adopted(&self) -> &[Adopted] {
        &self.adopted
    }

    /// Writes the administrator's resource directories, as they would become, to an empty directory.
    pub(super) fn stage(&self, to: &Path) -> Result<(), FatalError> {
        let failed = |error| FatalError::io("open", &self.root, error);
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entries => Some(entries.map_err(failed)?),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(failed)?.path();
            if self.steps.keys().any(|changed| changed.starts_with(&path)) {
                self.stage_others(to, &path)?;
            } else if path != self.root.join(STAGING) {
                self.stage_one(to, &path, |staged| symlink(std::path::absolute(&path)?, staged))?;
            }
        }
        self.steps.iter().try_for_each(|(path, step)| self.stage_one(to, path, |staged| step.make(path, staged)))
    }

    /// Copies the unchanged files of a resource directory.
    fn stage_others(&self, to: &Path, directory: &Path) -> Result<(), FatalError> {
        for entry in WalkDir::new(directory) {
            let entry = entry.map_err(|error| FatalError::walk(directory, error))?;
            let is_resource = entry.file_type().is_file() || entry.file_type().is_symlink();
            if is_resource && !self.steps.contains_key(entry.path()) {
                self.stage_one(to, entry.path(), |staged| copy(entry.path(), staged))?;
            }
        }
        Ok(())
    }

    fn stage_one(&self, to: &Path, path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), FatalError> {
        let staged = to.join(path.strip_prefix(&self.root).unwrap_or(path));
        let made = staged.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| make(&staged));
        made.map_err(|error| FatalError::io("copy", path, error))
    }

    /// Returns everything that is adopted, without writing it.
    pub(super) fn into_adopted(self) -> Vec<Adopted> {
        self.adopted
    }

    /// Returns the adoptions as pending, for a dry run.
    pub(super) fn preview(self) -> Vec<Adopted> {
        self.adopted.into_iter().map(|adopted| Adopted { is_pending: true, ..adopted }).collect()
    }

    /// Writes all files. All of them are staged first, so that they are complete before the first one is moved into
    /// place.
    pub(super) fn carry_out(self) -> Result<Vec<Adopted>, FatalError> {
        let staging = self.root.join(STAGING);
        // An earlier run may have been killed.
        remove_all(&staging)?;
        if self.steps.is_empty() {
            return Ok(self.adopted);
        }
        fs::create_dir_all(&staging).map_err(|error| FatalError::io("mkdir", &staging, error))?;
        let private = Permissions::from_mode(0o700);
        fs::set_permissions(&staging, private).map_err(|error| FatalError::io("chmod", &staging, error))?;
        let mut moves = Vec::new();
        for (number, (path, step)) in self.steps.iter().enumerate() {
            let staged = staging.join(number.to_string());
            let written = step.make(path, &staged).and_then(|()| match staged.symlink_metadata() {
                Ok(metadata) if metadata.is_file() => File::open(&staged)?.sync_all(),
                _ => Ok(()),
            });
            written.map_err(|error| FatalError::io("write", path, error))?;
            moves.push((path, (!matches!(step, Step::Remove)).then_some(staged)));
        }
        for (path, staged) in moves {
            put(path, staged.as_deref()).map_err(|error| FatalError::io("write", path, error))?;
        }
        remove_all(&staging)?;
        Ok(self.adopted)
    }
}

/// Returns true if the file at this path below a resource directory was written by an earlier adoption.
fn is_replaced(below: &Path) -> bool {
    let is_direct = below.components().count() == 1;
    LOCAL.iter().any(|local| below.starts_with(local))
        || is_direct && below.as_os_str().as_bytes().starts_with(b"adopted-")
}

fn parse(text: &[u8]) -> Result<toml::Table, SyntaxError> {
    Ok(text.to_str().map_err(|_| SyntaxError::Encoding)?.parse()?)
}

/// Returns true if a definition consists of a single table, so that it cannot define other entities.
fn is_one_table(text: &toml::Table) -> bool {
    let mut values = text.values();
    let is_table = match values.next() {
        Some(toml::Value::Array(tables)) => matches!(&tables[..], [toml::Value::Table(_)]),
        Some(value) => value.is_table(),
        None => false,
    };
    is_table && values.next().is_none()
}

impl Step {
    /// Creates the new file at another path. A text gets the mode of the file that it replaces.
    fn make(&self, replaced: &Path, to: &Path) -> io::Result<()> {
        match self {
            Step::Copy(made) => copy(made, to),
            Step::Write(text) => {
                fs::write(to, text)?;
                let mode = replaced.metadata().map_or(0o644, |replaced| replaced.permissions().mode() & 0o777);
                fs::set_permissions(to, Permissions::from_mode(mode))
            }
            Step::Remove => Ok(()),
        }
    }
}

fn copy(made: &Path, to: &Path) -> io::Result<()> {
    let metadata = made.symlink_metadata()?;
    if metadata.is_symlink() {
        return symlink(fs::read_link(made)?, to);
    }
    fs::copy(made, to)?;
    fs::set_permissions(to, Permissions::from_mode(metadata.permissions().mode() & 0o777))
}

/// Moves a staged file into place, or removes the file.
fn put(path: &Path, staged: Option<&Path>) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    match staged {
        Some(staged) => {
            let missing = folder.ancestors().take_while(|folder| !folder.is_dir()).count();
            fs::create_dir_all(folder)?;
            fs::rename(staged, path)?;
            // Each new directory is an entry of its parent, which must be synced too.
            for folder in folder.ancestors().take(missing + 1) {
                sync(folder)?;
            }
            Ok(())
        }
        None => {
            fs::remove_file(path)?;
            sync(folder)
        }
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(normalise(folder))?.sync_all()
}

fn remove_all(directory: &Path) -> Result<(), FatalError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FatalError::io("remove", directory, error)),
        _ => Ok(()),
    }
}

/// Returns the reason why a description cannot contain a file, if there is one.
fn hindrance(below: &Path, made: &Path) -> Option<&'static str> {
    let target = fs::read_link(made).unwrap_or_default();
    match (below.to_str(), target.to_str()) {
        (None, _) => Some("a path of its resource files is not UTF-8"),
        (_, None) => Some("the target of a symlink is not UTF-8"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn paths_and_targets_have_to_be_utf8() {
        let directory = tempfile::tempdir().unwrap();
        let link = |target: &[u8]| {
            let link = directory.path().join(format!("{}", target.len()));
            symlink(OsStr::from_bytes(target), &link).unwrap();
            link
        };
        assert_eq!(hindrance(Path::new("a"), &link(b"b")), None);
        assert_eq!(hindrance(Path::new("a"), Path::new("/nonexistent")), None);
        assert!(hindrance(Path::new("a"), &link(b"\xff\xff")).is_some());
        assert!(hindrance(Path::new(OsStr::from_bytes(b"\xff")), Path::new("/nonexistent")).is_some());
    }
}
