//! The desired state of a declared path, given its current state.

use super::definition::{Ensure, FileDefinition, OWN, SHARED, SourceKind};
use bstr::ByteSlice;
use holo_change::Tree;
use holo_change::tracked::{Attributes, Digest, State, Tracker};
use holo_plugin::definitions::ResourceDirs;
use holo_plugin::{Applied, ForceTo, Host, Output};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The suffix of a source that is a template.
pub(super) const TEMPLATE_SUFFIX: &str = ".holotemplate";
/// Directories that must not be removed recursively, in addition to all directories in the root directory.
const PROTECTED: [&str; 6] = ["/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share", "/var/lib", "/var/log"];

/// Why a path cannot be brought into its desired state.
#[derive(Clone, Debug)]
pub(super) enum DeclaredError {
    /// `--force` is required; contains the reason.
    NeedsForce(String),
    /// `--force` is required, because the path was changed after it was inspected.
    Meanwhile,
    /// It is impossible; contains the reason.
    Never(String),
}

impl DeclaredError {
    /// Prints the error and returns the result of the apply.
    pub(super) fn tell(self, output: &mut Output<'_>) -> Applied {
        match self {
            DeclaredError::NeedsForce(reason) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            DeclaredError::Meanwhile => Applied::NeedsForce(ForceTo::Overwrite),
            DeclaredError::Never(reason) => {
                output.error(format!("skipping target: {reason}"));
                Applied::FAILED
            }
        }
    }
}

impl<E: std::fmt::Display> From<E> for DeclaredError {
    fn from(error: E) -> Self {
        DeclaredError::Never(error.to_string())
    }
}

/// The desired states of the entity's paths. The contents of a removed directory come first, its own path last.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) states: Vec<(PathBuf, State)>,
    /// The content of the file, which is not stored yet.
    pub(super) bytes: Option<Vec<u8>>,
}

impl Wanted {
    /// Returns the desired state of the entity's own path.
    pub(super) fn desired(&self) -> State {
        self.states.last().map_or(State::Absent, |(_, state)| state.clone())
    }
}

/// Determines the desired state of a path without changing anything.
pub(super) fn of(
    definition: &FileDefinition,
    path: &Path,
    current: &State,
    force: bool,
    host: &Host,
    tracker: &Tracker,
) -> Result<Wanted, DeclaredError> {
    let shown = host.below_root(definition.path()).display().to_string();
    match (definition.ensure, current) {
        (Ensure::Absent, State::Directory { .. }) => return everything_gone(definition, path, tracker),
        (Ensure::Directory, State::File { .. } | State::Symlink { .. }) if !force => {
            return Err(DeclaredError::NeedsForce(format!(
                "{shown} is a {} and would become a directory",
                current.kind()
            )));
        }
        (Ensure::Present | Ensure::Symlink, State::Directory { .. }) => {
            return Err(DeclaredError::Never(format!("{shown} is a directory; declare it absent first")));
        }
        _ => {}
    }
    if definition.ensure != Ensure::Absent {
        // A dangling symlink is not a directory either.
        tracker.place(definition.path()).check_way()?;
    }
    let attributes = || attributes(definition, current, host);
    let mut bytes = None;
    let state = match definition.ensure {
        Ensure::Absent => State::Absent,
        Ensure::Directory => State::Directory { attributes: attributes()? },
        Ensure::Symlink => {
            let Attributes { uid, gid, .. } = attributes()?;
            State::Symlink { target: definition.target.clone().unwrap_or_default().into(), uid, gid }
        }
        Ensure::Present => {
            let content = match content(definition, host)? {
                Some(new) => {
                    let digest = Digest::of_bytes(&new);
                    bytes = Some(new);
                    digest
                }
                // Only attributes are managed, or the existence of the file.
                None => current.content().cloned().unwrap_or_else(|| {
                    bytes = Some(Vec::new());
                    Digest::of_bytes(b"")
                }),
            };
            State::File { content, attributes: attributes()? }
        }
    };
    Ok(Wanted { states: vec![(path.to_owned(), state)], bytes })
}

/// Returns a provisioned state with undeclared attributes replaced by the current ones, which may change freely. A content that would be
/// lost always counts as a manual change.
pub(super) fn as_far_as_declared(definition: &FileDefinition, made: &State, current: &State, desired: &State) -> State {
    let attributes = |made: Attributes, current: Attributes| Attributes {
        mode: if definition.mode.is_some() || definition.sensitive { made.mode } else { current.mode },
        uid: if definition.owner.is_some() { made.uid } else { current.uid },
        gid: if definition.group.is_some() { made.gid } else { current.gid },
    };
    match (made, current) {
        (State::File { content: made_of, attributes: made }, State::File { content, attributes: current }) => {
            let loses_content = desired.content() != Some(content);
            let content = if loses_content { made_of } else { content }.clone();
            State::File { content, attributes: attributes(*made, *current) }
        }
        (State::Directory { attributes: made }, State::Directory { attributes: current }) => {
            State::Directory { attributes: attributes(*made, *current) }
        }
        (State::Symlink { target, uid: made_uid, gid: made_gid }, State::Symlink { uid, gid, .. }) => State::Symlink {
            target: target.clone(),
            uid: if definition.owner.is_some() { *made_uid } else { *uid },
            gid: if definition.group.is_some() { *made_gid } else { *gid },
        },
        (made, _) => made.clone(),
    }
}

/// Returns the declared attributes, and for the rest the current ones. New files belong to the user who runs holo.
fn attributes(definition: &FileDefinition, current: &State, host: &Host) -> Result<Attributes, DeclaredError> {
    let ours = Attributes::of_new(match definition.ensure {
        Ensure::Directory => 0o755,
        _ if definition.sensitive => 0o600,
        _ => 0o644,
    });
    let is_same_kind = matches!(
        (definition.ensure, current),
        (Ensure::Present, State::File { .. }) | (Ensure::Directory, State::Directory { .. })
    );
    let found = match current {
        State::Symlink { uid, gid, .. } if definition.ensure == Ensure::Symlink => {
            Attributes { uid: *uid, gid: *gid, ..ours }
        }
        current if is_same_kind => current.attributes().unwrap_or(ours),
        _ => ours,
    };
    let mode = match definition.mode().map_err(|_| DeclaredError::Never("the mode is not a number".to_owned()))? {
        Some(mode) => mode,
        None if definition.sensitive => ours.mode,
        None => found.mode,
    };
    let (uid, gid) = owners(definition, host)?;
    Ok(Attributes { mode, uid: uid.unwrap_or(found.uid), gid: gid.unwrap_or(found.gid) })
}

/// Returns the declared owner and group.
pub(super) fn owners(definition: &FileDefinition, host: &Host) -> Result<(Option<u32>, Option<u32>), DeclaredError> {
    Ok(host.accounts().owners(definition.owner.as_deref(), definition.group.as_deref())?)
}

/// Returns the directories in which a source is searched, and its path below them.
pub(super) fn source_directories<'a>(source: &'a str, host: &Host) -> (ResourceDirs, &'a Path) {
    let (kind, below) = SourceKind::of(Path::new(source));
    // The inputs in use may be those of an earlier run, in another directory.
    let root = host.resources().weakest().to_string_lossy().strip_suffix(&format!("{SHARED}/files")).map(PathBuf::from);
    let root = root.unwrap_or_else(|| host.root().to_owned());
    let [own, shared] = [OWN, SHARED].map(|directory| root.join(directory.trim_start_matches('/')));
    let directories = match kind {
        SourceKind::Relative => host.resources().clone(),
        SourceKind::Own => own.into(),
        SourceKind::Shared => ResourceDirs::new(vec![own, shared.clone()]).unwrap_or_else(|| shared.into()),
    };
    (directories, below)
}

/// Returns the declared content of the file, if any.
pub(super) fn content(definition: &FileDefinition, host: &Host) -> Result<Option<Vec<u8>>, DeclaredError> {
    let Some(source) = &definition.source else {
        return Ok(definition.content.as_ref().map(|content| content.clone().into_bytes()));
    };
    let wrong = |error| DeclaredError::Never(format!("the source {source} {error}"));
    let (directories, below) = source_directories(source, host);
    let place = Tree::open(directories.directory_of(below).map_err(wrong)?)?.place(below).followed()?;
    let Some(mut file) = place.open_if_file()? else {
        let shown = place.shown().display().to_string();
        let places: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
        return Err(DeclaredError::Never(match &*places {
            _ if place.exists()? => format!("the source {shown} is not a file"),
            [_, _, ..] if SourceKind::of(Path::new(source)).0 == SourceKind::Relative => {
                format!("the source {source} does not exist in {}", places.join(" or "))
            }
            _ => format!("the source {shown} does not exist"),
        }));
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| {
        let reason = holo_change::error::PathError::new("read", place.shown(), error);
        DeclaredError::Never(reason.to_string())
    })?;
    if !source.ends_with(TEMPLATE_SUFFIX) {
        return Ok(Some(bytes));
    }
    let name = place.shown().display().to_string();
    let text = bytes.to_str().map_err(|_| DeclaredError::Never(format!("the template {name} is not UTF-8")))?;
    let rendered = host.templates().render(&name, text, &serde_json::Map::new())?;
    if rendered.is_sensitive() && !definition.sensitive {
        let problem = "the template contains an encrypted value; set sensitive = true";
        return Err(DeclaredError::Never(format!("{name}: {problem}")));
    }
    Ok(Some(rendered.text.into_bytes()))
}

/// Returns the states for the removal of a directory and its contents.
fn everything_gone(definition: &FileDefinition, path: &Path, tracker: &Tracker) -> Result<Wanted, DeclaredError> {
    let mut states = Vec::new();
    let shown = tracker.place(path).shown().display().to_string();
    let is_protected = path.parent() == Some(Path::new("/")) || PROTECTED.iter().any(|kept| path == Path::new(kept));
    let is_empty = tracker.entries(path)?.is_empty();
    if !is_empty && !definition.force {
        return Err(DeclaredError::Never(format!(
            "{shown} is a directory that is not empty; set force = true to remove it"
        )));
    }
    if !is_empty && is_protected {
        return Err(DeclaredError::Never(format!("{shown} is a system directory and cannot be removed")));
    }
    collect(path, tracker, None, &mut states)?;
    Ok(Wanted { states, bytes: None })
}

/// Adds a directory and everything below it, deepest paths first.
fn collect(
    directory: &Path,
    tracker: &Tracker,
    device: Option<u64>,
    states: &mut Vec<(PathBuf, State)>,
) -> Result<(), DeclaredError> {
    let place = tracker.place(directory);
    let here = place.stat()?.map(|looks| looks.device);
    if device.is_some_and(|device| here != Some(device)) {
        return Err(DeclaredError::Never(format!("{} is on another file system", place.shown().display())));
    }
    for name in tracker.entries(directory)? {
        let path = directory.join(name);
        match tracker.state(&path)? {
            State::Directory { .. } => collect(&path, tracker, here, states)?,
            _ => states.push((path, State::Absent)),
        }
    }
    states.push((directory.to_owned(), State::Absent));
    Ok(())
}
