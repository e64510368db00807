//! Entities: their reports, their indexes, how people name them, and the resource files that define them.

pub mod node;
pub mod resources;

use crate::host::root::{Root, normalise};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::{self, Outline};
use holo_protocol::{API_VERSION_4, Controls, Edges, EntityReport};
use node::PluginIndex;
use resources::Resources;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An entity ID, a name shared by one or more entities, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The text as given.
    pub given: BString,
    /// The absolute path below the root, if the text is a path.
    pub path: BString,
}

impl Subject {
    /// Parses a subject. A relative path is relative to the working directory; an absolute one may include the root.
    #[must_use]
    pub fn new(given: &OsString, root: &Root) -> Subject {
        let absolute = |path: &Path| std::path::absolute(path).map(|path| normalise(&path)).unwrap_or_default();
        let (path, base) = (absolute(Path::new(given)), absolute(&root.join("")));
        let path = path.strip_prefix(&base).map_or(path.clone(), |below| Path::new("/").join(below));
        Subject { given: given.clone().into_vec().into(), path: path.as_os_str().as_bytes().into() }
    }

    /// Returns the path below the root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        OsStr::from_bytes(&self.path).into()
    }

    /// Returns true if the text can only be a path.
    #[must_use]
    pub fn is_path(&self) -> bool {
        let has_kind = self.given.split_once_str(":").is_some_and(|(kind, _)| !kind.contains(&b'/'));
        self.given.contains(&b'/') && !has_kind
    }

    /// Returns the names by which plugins may know it.
    #[must_use]
    pub fn names(&self) -> Vec<BString> {
        let mut names = vec![self.given.clone()];
        if self.path != self.given {
            names.push(self.path.clone());
        }
        names
    }

    /// Returns true if an entity with this ID and these edges matches.
    #[must_use]
    pub fn is_of(&self, id: &BStr, edges: &Edges<&BStr>) -> bool {
        let name = id.split_once_str(":").map_or(id, |(_, name)| name.as_bstr());
        let has = |value: &&BStr| **value == self.path;
        id == self.given
            || name == self.given
            || name == self.path
            || edges.provides.iter().chain(&edges.owns).any(|asset| has(&asset.value))
    }
}

/// An entity. It refers to its lines in the plugin's report, which are parsed again on each access to save memory.
#[derive(Clone)]
pub struct Entity {
    /// Its plugin.
    pub plugin: PluginIndex,
    account: Arc<Account>,
    outline: Outline,
}

/// A resource file of an entity.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path, as shown to users.
    pub path: PathBuf,
    /// The line in which the definition begins.
    pub line: Option<usize>,
}

/// A plugin's report of all its entities.
#[derive(Debug)]
pub struct Account {
    /// The plugin's ID.
    pub plugin_id: String,
    /// The version of the interface that the plugin speaks.
    pub version: u32,
    /// The scan report, as received.
    pub report: Vec<u8>,
    /// Maps paths to those that users know.
    pub resources: Arc<Resources>,
}

impl Entity {
    /// Returns the entities of an account, given their outlines.
    pub fn of_account(plugin: PluginIndex, account: Account, outlines: Vec<Outline>) -> Vec<Entity> {
        let account = Arc::new(account);
        let entity = |outline| Entity { plugin, account: Arc::clone(&account), outline };
        outlines.into_iter().map(entity).collect()
    }

    /// Returns its ID.
    #[must_use]
    pub fn id(&self) -> &BStr {
        self.account.report.get(self.outline.id.clone()).unwrap_or_default().as_bstr()
    }

    /// Returns the ID of its plugin.
    #[must_use]
    pub fn plugin_id(&self) -> &str {
        &self.account.plugin_id
    }

    /// Returns true if no definition is left, so that applying the entity means scrubbing it. Plugins of version 3
    /// report that only in the text of the action.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        // Orphans are rare, and there may be hundreds of thousands of entities: check cheaply first.
        if self.account.version >= API_VERSION_4 {
            self.has_edges() && self.lines().contains_str("ORPHAN:") && self.edges().orphan
        } else {
            self.lines().contains_str("ACTION:") && self.report_as_given().action.verb.starts_with(b"Scrubbing")
        }
    }

    /// Returns true if lists include the entity. Others appear only when they are selected.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.outline.is_listed
    }

    /// Returns true if the entity declares any dependency, in either direction.
    #[must_use]
    pub fn has_edges(&self) -> bool {
        self.outline.has_edges
    }

    /// Returns the limits on when and how often the entity may be worked on.
    #[must_use]
    pub fn controls(&self) -> Controls {
        if self.outline.has_controls { report::controls(self.lines()) } else { Controls::NONE }
    }

    /// Returns its plugin's report, with paths as the user knows them.
    #[must_use]
    pub fn report(&self) -> EntityReport {
        let mut report = self.report_as_given();
        let resources = &self.account.resources;
        let values = report.information.iter_mut().map(|information| &mut information.value);
        for text in report.sources.iter_mut().chain(values) {
            if let Cow::Owned(shown) = resources.show(text.as_bstr()) {
                *text = shown;
            }
        }
        report
    }

    /// Returns its resource files, each with the line in which the definition begins, if known.
    #[must_use]
    pub fn report_sources(&self) -> Vec<Source> {
        sources_of(&self.report())
    }

    /// Returns its declared dependencies.
    #[must_use]
    pub fn edges(&self) -> Edges<&BStr> {
        let knows_edges = self.account.version >= API_VERSION_4;
        if knows_edges { Edges::from_lines(self.lines()) } else { Edges::NONE }
    }

    /// Returns the first of its resource files; empty if there is none.
    #[must_use]
    pub fn origin(&self) -> Cow<'_, BStr> {
        self.sources().next().unwrap_or_default()
    }

    /// Returns every string that selects the entity: its ID, its plugin's ID, its resource files and their generators.
    #[must_use]
    pub fn selectors(&self) -> Vec<BString> {
        let sources = report::sources(self.lines());
        let of_sources = sources.flat_map(|source| self.account.resources.selectors(source));
        [self.id().to_owned(), self.plugin_id().into()].into_iter().chain(of_sources).collect()
    }

    /// Returns the paths of its resource files as users know them.
    pub fn sources(&self) -> impl Iterator<Item = Cow<'_, BStr>> {
        report::sources(self.lines()).map(|source| self.account.resources.show(source))
    }

    /// Returns the version of the interface that its plugin speaks.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.account.version
    }

    /// Returns a digest of its plugin's report about it.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lines().hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the paths of its resource files as its plugin reported them.
    pub fn sources_as_given(&self) -> impl Iterator<Item = &BStr> {
        report::sources(self.lines())
    }

    /// Returns its plugin's report of all entities.
    #[must_use]
    pub fn whole_report(&self) -> &[u8] {
        &self.account.report
    }

    fn report_as_given(&self) -> EntityReport {
        EntityReport::from_lines(self.lines(), self.account.version)
    }

    fn lines(&self) -> &[u8] {
        self.account.report.get(self.outline.lines.clone()).unwrap_or_default()
    }
}

/// Returns the resource files of a report, each with the line in which the definition begins, if known.
#[must_use]
pub fn sources_of(report: &EntityReport) -> Vec<Source> {
    let own = report.edges.written.iter().find(|written| written.id == report.id);
    let source = |path: &BString| {
        // `PATH:LINE`, or `PATH:LINE as rendered`.
        let line = own.and_then(|own| own.location.strip_prefix(&path[..])?.strip_prefix(b":"));
        let line = line.and_then(|line| line.fields().next()?.to_str().ok()?.parse().ok());
        Source { path: path.to_path_lossy().into_owned(), line }
    };
    report.sources.iter().map(source).collect()
}

impl fmt::Debug for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entity").field("plugin", &self.plugin).field("report", &self.report_as_given()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_matches_id_name_or_path() {
        let root = Root::new(Some("/srv/root".into()));
        let subject = |given: &str| Subject::new(&given.into(), &root);
        let is_of = |given: &str, id: &str, lines: &str| {
            let report = EntityReport::parse_all(format!("ENTITY: {id}\n{lines}").as_bytes(), 4).unwrap();
            subject(given).is_of(id.into(), &report[0].edges.borrowed())
        };
        assert!(is_of("nginx", "package:nginx", "") && is_of("package:nginx", "package:nginx", ""));
        assert!(!is_of("nginx", "package:nginx-common", "") && !is_of("package", "package:nginx", ""));
        for path in ["/etc/motd", "/srv/root/etc/motd", "/srv/root/etc/../etc//motd"] {
            assert!(is_of(path, "file:/etc/motd", "") && is_of(path, "x:y", "PROVIDES: path /etc/motd\n"), "{path}");
        }
        assert!(subject("/etc/motd").is_path() && subject("./x").is_path());
        assert!(!subject("file:/etc/motd").is_path() && !subject("nginx").is_path());
        assert_eq!(subject("/srv/root").path, "/");
    }
}
