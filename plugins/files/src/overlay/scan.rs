//! Scans for overlays: targets with resource files, and orphans. Hints for missing targets explain the usual cause, which is a misplaced
//! resource file.

use crate::overlay::entity::{FileEntity, PATCH_SUFFIX, PREFIX, Resource, SCRIPT_SUFFIX, TEMPLATE_SUFFIX};
use crate::overlay::layout::Layout;
use bstr::{BStr, BString, ByteSlice};
use holo_change::PathHandle;
use holo_change::error::PathError;
use holo_change::image_store::{BASE, PROVISIONED};
use holo_plugin::definitions::{ListError, ResourceFile};
use holo_plugin::{Asset, Host, Output, ScanError, Silence};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use walkdir::{DirEntry, WalkDir};

/// Lists all overlays.
pub(crate) fn all(host: &Host, output: &mut Output<'_>) -> Result<Vec<FileEntity>, ScanError> {
    below(host, b"", output)
}

/// Lists the overlays whose IDs begin with a prefix.
pub(crate) fn beginning(host: &Host, prefix: &BStr, output: &mut Output<'_>) -> Result<Vec<FileEntity>, ScanError> {
    match prefix.strip_prefix(PREFIX) {
        Some(path) => below(host, path.strip_prefix(b"/").unwrap_or(path), output),
        None if PREFIX.starts_with(prefix) => all(host, output),
        None => Ok(Vec::new()),
    }
}

/// Returns the overlays with these IDs or paths.
pub(crate) fn some(host: &Host, ids: &[BString], output: &mut Output<'_>) -> Result<Vec<FileEntity>, ScanError> {
    let id = |given: &BString| if given.starts_with(b"/") { [PREFIX, given].concat().into() } else { given.clone() };
    let ids: BTreeSet<BString> = ids.iter().map(id).collect();
    let found = ids.iter().map(|id| one(host, id.as_bstr(), output));
    found.filter_map(Result::transpose).collect()
}

/// Returns the overlays whose paths are needed, or which may need what is provided.
pub(crate) fn neighbours(
    host: &Host,
    needs: &[Asset],
    provides: &[Asset],
    output: &mut Output<'_>,
) -> Result<Vec<FileEntity>, ScanError> {
    let paths = |assets: &[Asset]| -> Vec<BString> {
        assets.iter().filter(|asset| asset.kind == "path").map(|asset| asset.value.clone()).collect()
    };
    let (needed, provided) = (paths(needs), paths(provides));
    // A file at the parent path of a needed one would conflict.
    let above = needed.iter().flat_map(|path| Path::new(OsStr::from_bytes(path)).ancestors());
    let above = above.map(|path| path.as_os_str().as_bytes().into());
    let mut found = some(host, &above.chain(provided.iter().cloned()).collect::<Vec<BString>>(), output)?;
    for path in provided {
        let path = path.trim_with(|letter| letter == '/');
        let within = if path.is_empty() { BString::default() } else { [path, b"/"].concat().into() };
        // The walk also finds a file at the path of the directory itself, and other targets with similar paths.
        let is_within =
            |entity: &FileEntity| entity.path.as_os_str().as_bytes().get(1..).unwrap_or_default().starts_with(&within);
        found.extend(below(host, &within, output)?.into_iter().filter(is_within));
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}

/// Returns targets without a base in directories that are the names of entities of other plugins.
pub(crate) fn pending_in(host: &Host, ids: &[BString]) -> Vec<PathBuf> {
    let others = ids.iter().filter(|id| !id.starts_with(PREFIX)).filter_map(|id| Some(id.split_once_str(":/")?.1));
    let found = others.flat_map(|path| {
        let within = [path.trim_end_with(|letter| letter == '/'), b"/"].concat();
        below(host, &within, &mut Output::new(&mut Silence)).unwrap_or_default()
    });
    found.filter(|entity| !entity.is_orphan() && !entity.has_base).map(|entity| entity.path).collect()
}

/// Lists the overlays whose paths, without the leading slash, begin with `beginning`.
fn below(host: &Host, beginning: &[u8], output: &mut Output<'_>) -> Result<Vec<FileEntity>, ScanError> {
    let shared = Arc::new(host.clone());
    // Strings compare faster than paths.
    let mut entities: BTreeMap<OsString, FileEntity> = BTreeMap::new();
    for file in resource_files(host, beginning, output)? {
        if let Some((target, resource)) = Resource::parse(&file.below, file.directory) {
            let entity = entities.entry(target.into_os_string());
            let entity = entity.or_insert_with_key(|target| FileEntity::new(target.into(), &shared));
            entity.resources.push(resource);
        }
    }
    let layout = open(host, output)?;
    // A killed apply may have restored a base without removing the record of the target.
    let folders = if layout.images.is_untidy() { &[BASE, PROVISIONED][..] } else { &[BASE] };
    for folder in folders {
        for path in files_below(&host.state_dir().join(folder), beginning, output)? {
            let target = Path::new("/").join(path);
            match entities.get_mut(target.as_os_str()) {
                Some(entity) => entity.has_base |= *folder == BASE,
                None => drop(entities.insert(target.clone().into(), orphan(target, &shared, &layout, output))),
            }
        }
    }
    let mut entities: Vec<FileEntity> = entities.into_values().collect();
    for entity in &mut entities {
        entity.resources.sort_by(|one, other| one.order().cmp(&other.order()));
    }
    Ok(entities)
}

/// Finds one overlay by testing the possible paths of its resource files.
pub(crate) fn one(host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<FileEntity>, ScanError> {
    let Some(path) = path_of(id) else { return Ok(None) };
    let layout = open(host, output)?;
    let shared = Arc::new(host.clone());
    let mut entity = FileEntity::new(path.clone(), &shared);
    for disambiguator in disambiguators(host, output)? {
        for suffix in [&b""[..], SCRIPT_SUFFIX, TEMPLATE_SUFFIX, PATCH_SUFFIX] {
            let name = [path.as_os_str().as_bytes().trim_start_with(|letter| letter == '/'), suffix].concat();
            let candidate = disambiguator.join(name.to_path_lossy());
            let directory = host.resources().index_of(&candidate).ok();
            let parsed = directory.and_then(|directory| Resource::parse(&candidate, directory));
            if let Some((_, resource)) = parsed.filter(|(target, _)| *target == path)
                && layout.resource(&resource).is_file_or_symlink().unwrap_or(false)
            {
                entity.resources.push(resource);
            }
        }
    }
    entity.resources.sort_by(|one, other| one.order().cmp(&other.order()));
    if !entity.is_orphan() {
        return Ok(Some(entity));
    }
    let is_there = |image: PathHandle| image.is_file_or_symlink().unwrap_or(false);
    let is_known =
        is_there(layout.images.base(&path)) || layout.images.is_untidy() && is_there(layout.images.provisioned(&path));
    Ok(is_known.then(|| orphan(path, &shared, &layout, output)))
}

/// Returns the directories of bases. `None` if they cannot be listed.
pub(crate) fn base_directories(host: &Host) -> Option<Vec<PathBuf>> {
    let base = host.state_dir().join(BASE);
    if !base.exists() {
        return Some(vec![base]);
    }
    let entries: Vec<DirEntry> = WalkDir::new(base).into_iter().collect::<Result<_, _>>().ok()?;
    let directories = entries.into_iter().filter(|entry| entry.file_type().is_dir());
    Some(directories.map(DirEntry::into_path).collect())
}

fn path_of(id: &BStr) -> Option<PathBuf> {
    let path = id.strip_prefix(PREFIX)?.to_path().ok()?;
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && is_plain && path.file_name().is_some()).then(|| path.components().collect())
}

fn open(host: &Host, output: &mut Output<'_>) -> Result<Layout, ScanError> {
    Layout::open(host).map_err(|error| {
        output.error(error.to_string());
        ScanError
    })
}

fn orphan(path: PathBuf, host: &Arc<Host>, layout: &Layout, output: &mut Output<'_>) -> FileEntity {
    let mut orphan = FileEntity::new(path, host);
    orphan.target_exists = layout.images.target(&orphan.path).is_file_or_symlink().unwrap_or_else(|error| {
        output.error(error.to_string());
        true
    });
    orphan
}

/// Returns the files and symlinks in the resource directories whose targets begin with `beginning`. Missing directories are empty.
fn resource_files(host: &Host, beginning: &[u8], output: &mut Output<'_>) -> Result<Vec<ResourceFile>, ScanError> {
    match host.resources().walk_where(|below| leads_to(below.as_os_str().as_bytes(), 1, beginning)) {
        Ok(mut files) => {
            let is_resource = |kind: &FileType| kind.is_file() || kind.is_symlink();
            files.retain(|file| {
                is_resource(&file.file_type) && can_be_named(file.below.as_os_str().as_bytes(), &file.path, output)
            });
            Ok(files)
        }
        Err(error) if error.error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unlisted(error, output)),
    }
}

/// Returns the relative paths of files and symlinks below a directory that begin with `beginning`. A missing directory is empty.
fn files_below(folder: &Path, beginning: &[u8], output: &mut Output<'_>) -> Result<Vec<PathBuf>, ScanError> {
    if fs::symlink_metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    let leads_there = |entry: &DirEntry| {
        let below = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        beginning.is_empty() || leads_to(below.as_os_str().as_bytes(), 0, beginning)
    };
    for entry in WalkDir::new(folder).into_iter().filter_entry(leads_there) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                let reason = error.into_io_error().unwrap_or_else(|| io::Error::other("it leads back to itself"));
                output.error(PathError::new("open", path, reason).to_string());
                return Err(ScanError);
            }
        };
        let kind = entry.file_type();
        if let Some(path) = entry.path().as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes())
            && (kind.is_file() || kind.is_symlink())
            && can_be_named(path, entry.path(), output)
        {
            files.push(OsStr::from_bytes(path.trim_start_with(|letter| letter == '/')).into());
        }
    }
    Ok(files)
}

/// Returns true if a path, without its first `folders` components, begins with `beginning` or contains such paths.
fn leads_to(path: &[u8], folders: usize, beginning: &[u8]) -> bool {
    let Some(path) = path.splitn(folders + 1, |&byte| byte == b'/').nth(folders) else { return true };
    path.is_empty()
        || path.starts_with(beginning)
        || beginning.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Scan reports have one line per path, so a path must not contain a newline.
fn can_be_named(path: &[u8], shown: &Path, output: &mut Output<'_>) -> bool {
    let can_be = !path.contains(&b'\n');
    if !can_be {
        output.error(format!("cannot manage {shown:?}: a file's name must not hold a newline; rename it"));
    }
    can_be
}

fn disambiguators(host: &Host, output: &mut Output<'_>) -> Result<Vec<PathBuf>, ScanError> {
    let folders = host.resources().list(Path::new("")).map_err(|error| unlisted(error, output))?;
    Ok(folders.into_iter().filter(|file| file.file_type.is_dir()).map(|folder| folder.below).collect())
}

fn unlisted(ListError { path, error }: ListError, output: &mut Output<'_>) -> ScanError {
    output.error(PathError::new("open", path, error).to_string());
    ScanError
}

/// Suffixes of files that editors and package managers leave behind.
const LEFTOVERS: [&str; 12] = [
    "~",
    ".bak",
    ".dpkg-dist",
    ".dpkg-new",
    ".dpkg-old",
    ".orig",
    ".pacnew",
    ".pacsave",
    ".rpmnew",
    ".rpmsave",
    ".save",
    ".swp",
];
/// Directories of a root that contain targets. None of them is a likely disambiguator.
pub(crate) const DIRECTORIES: [&str; 12] =
    ["boot", "efi", "etc", "home", "lib", "lib64", "opt", "root", "run", "srv", "usr", "var"];

/// Prints a hint about an entity whose target is missing. In addition to this, version 3 only reports that it cannot be managed.
pub(crate) fn missing_target(entity: &FileEntity, output: &mut Output<'_>) {
    if !entity.gives_hints() {
        return;
    }
    let target = entity.shown_target();
    let target = target.display();
    let hint = entity.resources.last().and_then(|resource| {
        let shown = entity.shown_resource(resource);
        is_leftover(&resource.path)
            .then(|| format!("{} looks like a backup: remove it", shown.display()))
            .or_else(|| misplaced(entity, resource))
    });
    output.warning(hint.unwrap_or_else(|| {
        format!("{target} does not exist: install its package first, or replace this file with a [[file]] definition")
    }));
}

fn is_leftover(resource: &Path) -> bool {
    let name = resource.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    LEFTOVERS.iter().any(|ending| name.ends_with(ending)) || (name.starts_with('#') && name.ends_with('#'))
}

fn misplaced(entity: &FileEntity, resource: &Resource) -> Option<String> {
    let Some(Component::Normal(disambiguator)) = resource.path.components().next() else { return None };
    let disambiguator = disambiguator.to_str().filter(|name| DIRECTORIES.contains(name))?;
    let directory = entity.resource_directory(resource);
    let directory = directory.display();
    let meant = entity.shown_from_root(&Path::new("/").join(disambiguator).join(entity.path.strip_prefix("/").ok()?));
    Some(format!(
        "{directory}/{disambiguator}/… is for what is below {}: for {}, put the file below {directory}/NAME/{disambiguator}, with a NAME of \
         your choice",
        entity.shown_from_root(Path::new("/")).display(),
        meant.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_recognized_by_name() {
        for name in ["10-x/etc/motd~", "10-x/etc/#motd#", "10-x/etc/.motd.swp", "10-x/etc/motd.dpkg-old"] {
            assert!(is_leftover(Path::new(name)), "{name}");
        }
        for name in ["10-x/etc/motd", "10-x/etc/#motd", "10-x/etc~/motd"] {
            assert!(!is_leftover(Path::new(name)), "{name}");
        }
    }
}
