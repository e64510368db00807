//! The entity of an overlay: a target and its resource files.

use bstr::{BString, ByteSlice};
use holo_change::PathHandle;
use holo_change::error::{PathError, Result};
use holo_change::image_store::{BASE, ImageStore, PROVISIONED, below, path_digest};
use holo_plugin::definitions::{Command, Definition, Invalid, values};
use holo_plugin::facts::Knowledge;
use holo_plugin::{Action, Asset, EntityReport, Host, Validation};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The prefix of the IDs of this plugin.
pub(crate) const PREFIX: &[u8] = b"file:";
/// The suffix of resource files that are programs.
pub(crate) const SCRIPT_SUFFIX: &[u8] = b".holoscript";
/// The suffix of resource files that are templates.
pub(crate) const TEMPLATE_SUFFIX: &[u8] = b".holotemplate";
/// The suffix of resource files that are patches.
pub(crate) const PATCH_SUFFIX: &[u8] = b".holopatch";

/// A target with its resource files.
#[derive(Clone, Debug)]
pub(crate) struct FileEntity {
    /// The path below the root, with a leading slash.
    pub(crate) path: PathBuf,
    /// The resource files in the order of application. Empty for an orphan.
    pub(crate) resources: Vec<Resource>,
    /// True if the target is a file or symlink. Set for orphans only.
    pub(crate) target_exists: bool,
    /// True if the scan found a base.
    pub(crate) has_base: bool,
    /// The settings from a sidecar, if any.
    pub(crate) sidecar: Option<Arc<Sidecar>>,
    /// The host, for paths and settings.
    host: Arc<Host>,
}

/// A resource file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The path below the resource directory.
    pub(crate) path: PathBuf,
    /// The index of that directory.
    pub(crate) directory: usize,
    pub(crate) kind: Kind,
}

impl Resource {
    pub(crate) fn is_plain(&self) -> bool {
        self.kind == Kind::Plain
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Its content replaces that of the target.
    Plain,
    /// A program that reads the current content and prints the new one.
    Script,
    /// A template with facts, data and the current content as input.
    Template,
    /// A unified diff of the current content.
    Patch,
}

impl FileEntity {
    pub(crate) fn new(path: PathBuf, host: &Arc<Host>) -> FileEntity {
        FileEntity {
            path,
            resources: Vec::new(),
            target_exists: false,
            has_base: false,
            sidecar: None,
            host: Arc::clone(host),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the facts and data of the host.
    pub(crate) fn knowledge(&self) -> &Knowledge {
        self.host.knowledge()
    }

    pub(crate) fn id(&self) -> BString {
        [PREFIX, self.path.as_os_str().as_bytes()].concat().into()
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.resources.is_empty()
    }

    /// Returns the resource files that determine the target's content without running programs: the last plain one, if any, and patches
    /// after it. Returns `None` if programs or templates are involved.
    pub(crate) fn deciding_resources(&self) -> Option<&[Resource]> {
        let patches = self.resources.iter().rev().take_while(|resource| resource.kind == Kind::Patch).count();
        let before = self.resources.len() - patches;
        let first = match before.checked_sub(1) {
            Some(last) if self.resources.get(last)?.kind == Kind::Plain => last,
            Some(_) => return None,
            None => 0,
        };
        self.resources.get(first..).filter(|deciding| !deciding.is_empty())
    }

    /// Returns the program that validates the new content.
    pub(crate) fn validation(&self) -> Option<Validation<'_>> {
        let sidecar = self.sidecar.as_deref()?;
        let Sidecar { validate, sensitive, timeout } = sidecar;
        validate.as_ref().map(|command| Validation { command, sensitive: *sensitive, timeout: *timeout })
    }

    /// Returns true if the content is secret.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.sidecar.as_ref().is_some_and(|sidecar| sidecar.sensitive) || is_known(&self.host, &self.path)
    }

    /// Returns a warning if the content is sensitive, and everyone can read a file with this mode.
    pub(crate) fn exposure(&self, mode: u32) -> Option<String> {
        if self.is_sensitive() { holo_plugin::exposure(self.id(), &self.shown_target(), mode) } else { None }
    }

    /// Returns true if programs produce or validate the target's content.
    pub(crate) fn runs_programs(&self) -> bool {
        self.validation().is_some() || self.runs_scripts()
    }

    fn runs_scripts(&self) -> bool {
        let mut decide = self.resources.iter().rev().take_while(|resource| resource.kind != Kind::Plain);
        decide.any(|resource| resource.kind == Kind::Script)
    }

    pub(crate) fn to_report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.id());
        let base = bytes(&self.shown_base());
        if !self.is_orphan() {
            report.inform("store at", base);
        } else if self.target_exists {
            report.action = Action::because("Scrubbing", "all repository files were deleted");
            report.inform("restore", base);
        } else {
            report.action = Action::because("Scrubbing", "target was deleted");
            report.inform("delete", base);
        }
        for resource in &self.resources {
            let path = bytes(&self.shown_resource(resource));
            report.sources.push(path.clone());
            let key = match resource.kind {
                Kind::Plain => "apply",
                Kind::Script => "passthru",
                Kind::Template => "render",
                Kind::Patch => "patch",
            };
            report.inform(key, path);
        }
        let edges = &mut report.edges;
        edges.orphan = self.is_orphan();
        edges.provides.push(Asset::new("path", bytes(&self.path)));
        edges.needs.extend(self.path.parent().map(|parent| Asset::new("path", bytes(parent))));
        report
    }

    /// Returns the path of the base as shown to the user. All `shown` paths are of this kind.
    pub(crate) fn shown_base(&self) -> PathBuf {
        self.host.state_dir().join(below(BASE, &self.path))
    }

    pub(crate) fn shown_provisioned(&self) -> PathBuf {
        self.host.state_dir().join(below(PROVISIONED, &self.path))
    }

    pub(crate) fn shown_target(&self) -> PathBuf {
        self.shown_from_root(&self.path)
    }

    pub(crate) fn shown_from_root(&self, path: &Path) -> PathBuf {
        self.host.below_root(path)
    }

    pub(crate) fn resource_directory(&self, resource: &Resource) -> &Path {
        self.host.resources().directory(resource.directory)
    }

    pub(crate) fn gives_hints(&self) -> bool {
        self.host.gives_hints()
    }

    /// Returns the list of the resource files.
    pub(crate) fn shown_resources(&self) -> String {
        let shown = |resource| self.shown_resource(resource).display().to_string();
        self.resources.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn shown_resource(&self, resource: &Resource) -> PathBuf {
        self.resource_directory(resource).join(&resource.path)
    }
}

impl Resource {
    /// Parses a path below the resource directory of the form `DISAMBIGUATOR/path/to/target[.holoscript|.holotemplate|.holopatch]` into the
    /// target's path and the resource file. Returns `None` for a file directly in the resource directory.
    pub(crate) fn parse(path: &Path, directory: usize) -> Option<(PathBuf, Resource)> {
        let bytes = path.as_os_str().as_bytes();
        let (_, target) = bytes.split_at_checked(bytes.find_byte(b'/')?)?;
        // A file name that consists of the suffix only has no suffix.
        let suffix = |suffix, kind| {
            let target = target.strip_suffix(suffix).filter(|target| !target.ends_with(b"/"))?;
            Some((target, kind))
        };
        let suffixed = suffix(SCRIPT_SUFFIX, Kind::Script).or_else(|| suffix(TEMPLATE_SUFFIX, Kind::Template));
        let suffixed = suffixed.or_else(|| suffix(PATCH_SUFFIX, Kind::Patch));
        let (target, kind) = suffixed.unwrap_or((target, Kind::Plain));
        Some((OsStr::from_bytes(target).into(), Resource { path: path.to_owned(), directory, kind }))
    }

    /// Returns the sort key of an entity's resource files: `01-foo` comes before `01-foo-bar`.
    pub(crate) fn order(&self) -> (&OsStr, Kind) {
        let disambiguator = self.path.iter().next().unwrap_or_default();
        (disambiguator, self.kind)
    }
}

pub(crate) fn bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// The settings of an overlay.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OverlayDefinition {
    /// The absolute path of the target.
    pub(crate) path: String,
    /// A program that validates the new content before it replaces the old one. `{}` stands for the path of a copy.
    pub(crate) validate: Option<Command>,
    /// Whether the content is secret. It is not shown in diffs.
    #[serde(default)]
    pub(crate) sensitive: bool,
}

impl Definition for OverlayDefinition {
    const TABLE: &'static str = "overlay";
    const ENTITY_TYPE: &'static str = "file";
    const KEY: &'static str = "path";

    fn doubts(&self) -> Vec<Invalid> {
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([values::target("path", &self.path).map(drop)])
    }
}

/// The settings that determine how a target is written.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) validate: Option<Command>,
    pub(crate) sensitive: bool,
    /// The timeout of a program.
    pub(crate) timeout: Option<Duration>,
}

/// The directory with an empty file for each such target, named by the digest of its path.
const FOLDER: &str = ".sensitive";

/// Returns true if the target at a path was sensitive.
pub(crate) fn is_known(host: &Host, path: &Path) -> bool {
    // In case of an error, assume that it was.
    host.state_dir().join(FOLDER).join(path_digest(path)).try_exists().unwrap_or(true)
}

/// Records that the target at a path is sensitive.
pub(crate) fn remember(path: &Path, images: &ImageStore) -> Result<()> {
    let place = place(images, path);
    if place.exists()? {
        return Ok(());
    }
    place.create_folder()?;
    let created = place.create()?;
    let folder = place.shown().parent().map(Path::to_owned).unwrap_or_default();
    let state = folder.parent().unwrap_or(&folder);
    let sync = |folder: &Path| File::open(folder)?.sync_all();
    let synced = created.sync_all().and_then(|()| sync(&folder)).and_then(|()| sync(state));
    synced.map_err(|error| PathError::new("fsync", place.shown(), error))
}

/// Removes the records of those targets that have been restored, and have no base any more.
pub(crate) fn forget<'p>(orphans: impl Iterator<Item = &'p Path>, host: &Host, images: &ImageStore) {
    if fs::symlink_metadata(host.state_dir().join(FOLDER)).is_err() {
        return;
    }
    for path in orphans.filter(|path| images.base(path).exists().is_ok_and(|exists| !exists)) {
        let place = place(images, path);
        // A leftover record does no harm.
        let _ = place.remove();
        place.remove_empty_folders(Path::new(""));
    }
}

pub(crate) fn place(images: &ImageStore, path: &Path) -> PathHandle {
    images.state(&Path::new(FOLDER).join(path_digest(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_paths_are_parsed_into_targets() {
        let parse = |path: &str| {
            Resource::parse(Path::new(path), 0)
                .map(|(target, resource)| (target.to_str().unwrap().to_owned(), resource.kind))
        };
        assert_eq!(parse("01-x/etc/motd"), Some(("/etc/motd".into(), Kind::Plain)));
        assert_eq!(parse("01-x/etc/motd.holoscript"), Some(("/etc/motd".into(), Kind::Script)));
        assert_eq!(parse("01-x/etc/motd.holotemplate"), Some(("/etc/motd".into(), Kind::Template)));
        assert_eq!(parse("01-x/etc/motd.holopatch"), Some(("/etc/motd".into(), Kind::Patch)));
        assert_eq!(parse("01-x/etc/.holoscript"), Some(("/etc/.holoscript".into(), Kind::Plain)));
        assert_eq!(parse("01-x/top"), Some(("/top".into(), Kind::Plain)));
        assert_eq!(parse("README"), None);
    }

    #[test]
    fn deciding_resources_exclude_programs() {
        let deciding = |paths: &[&str]| {
            let mut entity =
                FileEntity::new("/etc/x".into(), &Arc::new(Host::from_environment(|_| Some("/".into())).unwrap()));
            entity.resources = paths.iter().map(|path| Resource::parse(Path::new(path), 0).unwrap().1).collect();
            entity.deciding_resources().map(<[Resource]>::len)
        };
        assert_eq!(deciding(&[]), None);
        assert_eq!(deciding(&["1/x"]), Some(1));
        assert_eq!(deciding(&["1/x.holoscript", "2/x", "3/x"]), Some(1));
        assert_eq!(deciding(&["1/x", "2/x.holopatch", "3/x.holopatch"]), Some(3));
        assert_eq!(deciding(&["2/x.holopatch"]), Some(1));
        assert_eq!(deciding(&["1/x.holoscript", "2/x.holopatch"]), None);
        assert_eq!(deciding(&["1/x", "2/x.holotemplate"]), None);
    }

    #[test]
    fn resources_are_ordered_by_disambiguator() {
        let resource = |path: &str| Resource::parse(Path::new(path), 0).unwrap().1;
        let mut resources = [
            "01-foo-bar/etc/x",
            "01-foo/etc/x.holopatch",
            "01-foo/etc/x.holotemplate",
            "01-foo/etc/x.holoscript",
            "01-foo/etc/x",
            "00/z",
        ]
        .map(resource);
        resources.sort_by(|one, other| one.order().cmp(&other.order()));
        let paths = resources.map(|resource| resource.path.to_str().unwrap().to_owned());
        assert_eq!(
            paths,
            [
                "00/z",
                "01-foo/etc/x",
                "01-foo/etc/x.holoscript",
                "01-foo/etc/x.holotemplate",
                "01-foo/etc/x.holopatch",
                "01-foo-bar/etc/x"
            ]
        );
    }
}
