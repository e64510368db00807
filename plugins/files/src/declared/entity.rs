//! The entity of a declared file.

use crate::declared::FileDefinition;
use crate::declared::definition::Ensure;
use crate::overlay::FileEntity;
use holo_change::acl::Tag;
use holo_plugin::system::package_manager::INDEX;
use holo_plugin::{Asset, EntityReport};
use std::path::PathBuf;
use std::time::Duration;

/// A declared path, or an orphan.
#[derive(Debug)]
pub(crate) struct DeclaredFile {
    pub(crate) path: PathBuf,
    /// The path without symlinks in its parents, as of the scan.
    pub(crate) canonical: PathBuf,
    /// The files that declare it, as shown to the user.
    pub(crate) sources: Vec<PathBuf>,
    /// The template of its content, if any, as shown to the user.
    pub(crate) template: Option<PathBuf>,
    /// The timeout of programs.
    pub(crate) timeout: Option<Duration>,
    /// The declaration, or `None` for an orphan.
    pub(crate) definition: Option<FileDefinition>,
    /// The package manager that it configures. Packages come after it, unless it may have to come after a package.
    pub(crate) configures: Option<&'static str>,
    /// Its place among nested paths that are to be absent.
    pub(crate) nesting: Nesting,
    /// A former overlay of the path that has not been scrubbed yet.
    pub(crate) overlay: Option<Box<FileEntity>>,
    /// The stored report of an orphan.
    pub(crate) orphan: Option<Box<EntityReport>>,
}

/// The place of a path among nested paths that are to be absent. The inner ones go first, and come back last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    /// The IDs of the declarations directly in this one.
    pub(crate) inner: Vec<String>,
    /// Whether it is in another one.
    pub(crate) is_inner: bool,
}

/// The kind of the assets of directories that determine the permissions of everything below.
pub(super) const ACCESS: &str = "path-access";

impl DeclaredFile {
    pub(super) fn to_report(&self) -> EntityReport {
        let path = self.path.display().to_string();
        let Some(definition) = &self.definition else {
            return self.orphan.as_deref().cloned().unwrap_or_else(|| EntityReport::new(self.id()));
        };
        let mut report = EntityReport::new(self.id());
        match definition.ensure {
            Ensure::Absent => report.inform("ensure", "absent"),
            _ => report.inform("with", definition.summary()),
        }
        self.template.iter().for_each(|template| report.inform("render", template.display().to_string()));
        report.edges.provides.push(Asset::new("path", path.as_str()));
        report.edges.owns.push(Asset::new("path", self.canonical.display().to_string()));
        if definition.recurse {
            // What orphans restore below has these permissions, too.
            report.edges.owns.push(Asset::new(ACCESS, self.canonical.display().to_string()));
        }
        let parents = [&self.path, &self.canonical].into_iter().filter_map(|path| path.parent());
        if !self.nesting.is_inner {
            report.edges.needs.extend(parents.map(|parent| Asset::new("path", parent.display().to_string())));
        }
        report.edges.after.extend(self.nesting.inner.iter().map(|id| id.as_str().into()));
        if self.canonical != self.path {
            // Other declarations may spell the path of the same file differently.
            report.edges.provides.push(Asset::new("path", self.canonical.display().to_string()));
        } else {
            report.edges.needs.dedup();
        }
        for (kind, name) in [("user", &definition.owner), ("group", &definition.group)] {
            report.edges.needs.extend(name.iter().map(|name| Asset::new(kind, name.as_str())));
        }
        for entry in definition.acl_entries().into_iter().flatten() {
            match entry.tag {
                Tag::User(name) => report.edges.needs.push(Asset::new("user", name)),
                Tag::Group(name) => report.edges.needs.push(Asset::new("group", name)),
                Tag::UserObj | Tag::GroupObj | Tag::Mask | Tag::Other => {}
            }
        }
        report.edges.provides.extend(self.configures.map(|manager| Asset::new(INDEX, manager)));
        report.edges.watch.push(path.into());
        report
    }

    pub(crate) fn id(&self) -> String {
        format!("file:{}", self.path.display())
    }
}

impl FileDefinition {
    /// Describes the declaration without its content.
    fn summary(&self) -> String {
        let mut words = vec![
            match self.ensure {
                Ensure::Present => "file",
                Ensure::Absent => "nothing",
                Ensure::Directory => "directory",
                Ensure::Symlink => "symlink",
            }
            .to_owned(),
        ];
        let mut say =
            |key: &str, value: &Option<String>| words.extend(value.iter().map(|value| format!("{key}: {value}")));
        say("to", &self.target);
        say("source", &self.source);
        say("mode", &self.mode);
        say("owner", &self.owner);
        say("group", &self.group);
        say("mode of files", &self.file_mode);
        say("acl", &self.acl.as_ref().map(|entries| entries.join(" ")));
        say("selinux", &self.selinux);
        if self.recurse {
            words.push("with everything below".to_owned());
        }
        words.join(", ")
    }
}
