//! The answer about an entity or an unmanaged path: the data that its resource files use, and the entities before and
//! after it.

use super::bytes;
use crate::discovery::inventory::Inventory;
use crate::entities;
use crate::entities::node::EntityIndex;
use crate::history::EntityRecord;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plan::Edge;
use crate::plan::edges::Declarations;
use crate::report::{Event, Reporter, Severity};
use bstr::{BString, ByteSlice};
use holo_events::{DatumLine, Information as InformationLine, NeighbourLine, PackagedLine, SourceLine, WhyLine};
use holo_facts::is_template;
use holo_protocol::report::Information;
use holo_protocol::{Action, FilePair};
use holo_system::System;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The answer about an entity or an unmanaged path.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// The ID of the entity, if there is one.
    pub(super) id: Option<BString>,
    pub(super) plugin: String,
    /// The action of applying it, unless it is the usual one.
    pub(super) action: Option<Action>,
    /// The path that it manages, or that was given.
    pub(super) path: Option<PathBuf>,
    /// Whether the given path exists.
    pub(super) exists: Option<bool>,
    pub(super) package: Option<Packaged>,
    pub(super) sources: Vec<Source>,
    /// The data used by templates among the resource files.
    pub(super) data: Vec<Datum>,
    pub(super) information: Vec<Information>,
    pub(super) around: Around,
    /// The entity that provides a directory above the path.
    pub(super) within: Option<BString>,
    /// A description of the base, if the plugin has kept it.
    pub(super) before_us: Option<String>,
    pub(super) last_change: Option<EntityRecord>,
    /// The manual change, or `Some(None)` if there is none; `None` if that is unknown.
    pub(super) edited: Option<Option<Edit>>,
}

/// A manual change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// A difference shows it.
    Shown,
    /// The content is unchanged, apart from permissions other than the executable bit.
    Permissions { made: Permissions, found: Permissions },
}

/// The owner, group and mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permissions {
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

impl Permissions {
    fn of_file(path: &Path) -> Option<Permissions> {
        let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Permissions { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 })
    }
}

impl Edit {
    /// Returns the change of permissions between two files with the same content. If the first file could not be given
    /// its original owner, only the modes are compared.
    pub(super) fn of_permissions(pair: &FilePair, has_owner: bool) -> Option<Edit> {
        let (made, found) = (Permissions::of_file(&pair.from)?, Permissions::of_file(&pair.to)?);
        let made = if has_owner { made } else { Permissions { mode: made.mode, ..found } };
        (made != found).then_some(Edit::Permissions { made, found })
    }
}

/// A resource file.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// The line in which the definition begins.
    pub(super) line: Option<usize>,
    pub(super) package: Option<Packaged>,
}

/// A value of data that a template uses.
#[derive(Clone, Debug)]
pub(super) struct Datum {
    pub(super) key: String,
    /// The file that contains it.
    pub(super) file: PathBuf,
    pub(super) line: Option<usize>,
}

/// The package that owns a path.
#[derive(Clone, Debug)]
pub(super) struct Packaged {
    pub(super) name: String,
    /// Whether the file differs from the packaged version, if known.
    pub(super) is_modified: Option<bool>,
}

impl Answer {
    pub(super) fn of_entity(index: EntityIndex, inventory: &Inventory, around: Around, root: &Root) -> Answer {
        let entity = &inventory.entities[index];
        let report = entity.report();
        let source = |entities::Source { path, line }| Source { path, line, package: None };
        let is_source = |information: &Information| report.sources.contains(&information.value);
        let path = report.edges.provides.iter().chain(&report.edges.owns).find(|asset| asset.kind == "path");
        Answer {
            id: Some(entity.id().to_owned()),
            plugin: entity.plugin_id().to_owned(),
            action: Some(report.action.clone()).filter(|action| *action != Action::default()),
            path: path.map(|asset| asset.value.to_path_lossy().into_owned()),
            sources: entities::sources_of(&report).into_iter().map(source).collect(),
            information: report.information.iter().filter(|information| !is_source(information)).cloned().collect(),
            around,
            before_us: report.information.iter().find_map(|line| kept(&line.value, &root.state(entity.plugin_id()))),
            ..Answer::default()
        }
    }

    /// Returns the JSON line.
    pub(super) fn line(&self) -> WhyLine<'_> {
        WhyLine {
            managed: self.id.is_some(),
            id: self.id.as_ref().map(Into::into),
            plugin: self.id.is_some().then(|| (&self.plugin).into()),
            path: self.path.as_ref().map(|path| bytes(path).into()),
            package: self.package.as_ref().map(Packaged::line),
            sources: self.sources.iter().map(Source::line).collect(),
            data: self.data.iter().map(Datum::line).collect(),
            information: self
                .information
                .iter()
                .map(|line| InformationLine { key: (&line.key).into(), value: (&line.value).into() })
                .collect(),
            after: self.around.after.iter().map(Neighbour::line).collect(),
            before: self.around.before.iter().map(Neighbour::line).collect(),
            within: self.within.as_ref().map(Into::into),
            changed_by: self.last_change.as_ref().map(|record| record.run.as_str().into()),
            changed_at: self.last_change.as_ref().map(|record| record.time.to_string()),
            edited: self.edited.map(|edit| edit.is_some()),
        }
    }
}

/// Describes the base that a plugin has kept at a path in its state directory.
fn kept(value: &BString, state: &Path) -> Option<String> {
    let path = value.to_path().ok()?;
    let metadata = path.starts_with(state).then(|| path.symlink_metadata().ok())??;
    if metadata.is_symlink() {
        return Some(format!("a symlink to {}", fs::read_link(path).ok()?.display()));
    }
    metadata.is_file().then(|| format!("a file of {} bytes, which is kept", metadata.len()))
}

impl Source {
    fn line(&self) -> SourceLine<'_> {
        SourceLine {
            path: bytes(&self.path).into(),
            line: self.line,
            package: self.package.as_ref().map(Packaged::line),
        }
    }
}

impl Datum {
    fn line(&self) -> DatumLine<'_> {
        DatumLine { key: (&self.key).into(), file: bytes(&self.file).into(), line: self.line }
    }
}

impl Neighbour {
    fn line(&self) -> NeighbourLine<'_> {
        NeighbourLine {
            id: (&self.id).into(),
            key: self.key.into(),
            asset: self.asset.clone(),
            location: self.location.as_ref().map(Into::into),
        }
    }
}

impl Packaged {
    fn line(&self) -> PackagedLine<'_> {
        PackagedLine { name: (&self.name).into(), modified: self.is_modified }
    }

    /// Finds the packages of all paths in these answers at once.
    pub(super) fn find(system: &System, root: &Root, answers: &mut [Answer]) {
        let base = root.join("");
        let below = |path: &Path| Path::new("/").join(path.strip_prefix(&base).unwrap_or(path));
        let sources = answers.iter().flat_map(|answer| answer.sources.iter().map(|source| below(&source.path)));
        let paths: Vec<PathBuf> = answers.iter().filter_map(|answer| answer.path.clone()).chain(sources).collect();
        let found = system.packaged_files(&paths);
        let packaged = |path: &Path| {
            let file = found.get(path)?;
            let content = || fs::read(root.join(path)).ok();
            let is_modified = file.digest.as_ref().and_then(|digest| digest.is_of(&content()?)).map(|is_same| !is_same);
            Some(Packaged { name: file.package.clone(), is_modified })
        };
        for answer in answers {
            answer.package = answer.path.as_deref().and_then(packaged);
            answer.sources.iter_mut().for_each(|source| source.package = packaged(&below(&source.path)));
        }
    }
}

/// The key of scan report lines that name a template, or a directory of templates.
const RENDER: &str = "render";

/// Returns the values of data that an entity's templates use, sorted by key.
pub(super) fn read_by(answer: &Answer, settings: &Settings, reporter: &mut dyn Reporter) -> Vec<Datum> {
    let files = templates(answer, &settings.root);
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let knowledge = settings.knowledge();
    let mut data = BTreeMap::new();
    for text in texts {
        match knowledge.read_by(&text) {
            Ok(read) => data.extend(read),
            Err(error) => {
                reporter.event(Event::Aside(Severity::Warning, &error.to_string()));
                return Vec::new();
            }
        }
    }
    let values = data.into_iter().flat_map(|(key, origin)| {
        origin.from.into_iter().map(move |place| (key.clone(), place.file.to_owned(), place.line))
    });
    values.map(|(key, file, line)| Datum { key, file, line }).collect()
}

/// Returns the templates of an entity: those among its resource files, and those that its plugin reports.
fn templates(answer: &Answer, root: &Root) -> Vec<PathBuf> {
    let sources = answer.sources.iter().map(|source| root.as_read(&source.path)).filter(|path| is_template(path));
    let rendered = answer.information.iter().filter(|line| line.key == RENDER);
    let rendered = rendered.map(|line| root.as_read(&line.value.to_path_lossy()));
    // In a directory of templates, every file counts, whatever its name.
    let files = rendered.flat_map(|path| WalkDir::new(path).sort_by_file_name()).filter_map(Result::ok);
    sources.chain(files.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path)).collect()
}

/// An entity that precedes or follows another one.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub(super) id: BString,
    /// The key that declares it.
    pub(super) key: &'static str,
    /// The asset that one of them needs or owns: `path /etc`.
    pub(super) asset: Option<String>,
    /// The file that declares it, with the line if known.
    pub(super) location: Option<BString>,
}

/// The neighbours of an entity.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    pub(super) after: Vec<Neighbour>,
    pub(super) before: Vec<Neighbour>,
}

/// The plan, with the declarations behind its edges.
pub(super) struct Neighbours<'a> {
    inventory: &'a Inventory,
    declarations: Declarations<'a>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Neighbours<'a> {
        Neighbours { inventory, declarations: Declarations::new(&inventory.entities) }
    }

    pub(super) fn of(&self, entity: EntityIndex) -> Around {
        let mut around = Around::default();
        for edge in self.inventory.plan.edges() {
            if edge.to == entity {
                around.after.push(self.neighbour(edge, edge.from));
            } else if edge.from == entity {
                around.before.push(self.neighbour(edge, edge.to));
            }
        }
        around
    }

    fn neighbour(&self, edge: &Edge, other: EntityIndex) -> Neighbour {
        let entities = &self.inventory.entities;
        let nodes = self.declarations.nodes(entities);
        let declaring = &nodes[edge.declared_by()];
        let named = if edge.declared_by() == edge.from { edge.to } else { edge.from };
        let written = declaring.edges.written.iter();
        let place = |id| written.clone().find(|written| written.id == id).map(|written| written.location.to_owned());
        let location = place(entities[named].id()).or_else(|| place(declaring.id));
        let origin = Some(declaring.origin.to_owned()).filter(|origin| !origin.is_empty());
        Neighbour {
            id: entities[other].id().to_owned(),
            key: edge.kind.key(),
            asset: edge.asset(&nodes).map(|asset| format!("{} {}", asset.kind.as_bstr(), asset.value.as_bstr())),
            location: location.or(origin),
        }
    }
}
