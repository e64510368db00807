//! Previews: a declared path before and after an apply.

use super::entity::DeclaredFile;
use super::inspection::{Inspection, own_path};
use super::wanted::DeclaredError;
use bstr::ByteSlice;
use holo_change::tracked::{Decision, State};
use holo_change::{Image, Tree};
use holo_plugin::{FilePair, Host, MAX_REPLACED, Preview, SENSITIVE, Shown};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A change of a path.
struct Change {
    path: PathBuf,
    current: State,
    desired: State,
    /// The new content, if it is not stored yet.
    bytes: Option<Vec<u8>>,
    sensitive: bool,
}

/// Returns the two files, or `None` if they are equal or cannot be shown.
pub(super) fn preview(entity: &DeclaredFile, inspection: &Inspection<'_>) -> Result<Option<FilePair>, DeclaredError> {
    let change = match &entity.definition {
        Some(_) => declared(entity, inspection)?,
        None => scrubbed(entity, inspection)?,
    };
    change.map_or(Ok(None), |change| pair(entity, inspection, &change))
}

fn declared(entity: &DeclaredFile, inspection: &Inspection<'_>) -> Result<Option<Change>, DeclaredError> {
    let Some(definition) = &entity.definition else { return Ok(None) };
    let mut subject = inspection.subject(entity, inspection.recall(entity)?)?;
    let (decision, wanted, current) = inspection.decide(&mut subject, definition, true)?;
    if decision == Decision::Nothing {
        return Ok(None);
    }
    let desired = wanted.desired();
    Ok(Some(Change { path: subject.path, current, desired, bytes: wanted.bytes, sensitive: definition.sensitive }))
}

fn scrubbed(entity: &DeclaredFile, inspection: &Inspection<'_>) -> Result<Option<Change>, DeclaredError> {
    let Some(remembered) = inspection.recall(entity)? else { return Ok(None) };
    let path = own_path(&remembered.base, &entity.path);
    let Some(track) = remembered.base.get(&path).filter(|_| !inspection.tracker.is_overlaid(&path)) else {
        return Ok(None);
    };
    let current = inspection.tracker.state_of(&remembered.base, &path)?;
    let (desired, sensitive) = (track.beside(&current).base, track.sensitive);
    Ok((current != desired).then_some(Change { path, current, desired, bytes: None, sensitive }))
}

/// Returns the image of an orphan's path after scrubbing, or `None` if it will not exist. The outer option is `None` if
/// the path stays as it is, because a killed run has restored it.
pub(super) fn restored(entity: &DeclaredFile, host: &Host) -> Result<Option<Option<Image>>, DeclaredError> {
    let inspection = Inspection::open(host)?;
    let Some(remembered) = inspection.recall(entity)? else { return Ok(None) };
    let path = own_path(&remembered.base, &entity.path);
    let Some(base) = remembered.base.get(&path).map(|track| track.base.clone()) else { return Ok(None) };
    let (shown, attributes) = match &base {
        State::Symlink { target, .. } => (Shown::Symlink(target.0.to_path_lossy().into_owned()), None),
        State::File { content, attributes } => {
            let content = inspection.tracker.content(content)?;
            (Shown::File { content, mode: 0o600 }, Some(attributes))
        }
        _ => return Ok(Some(None)),
    };
    let preview = Preview::new(host, format!("{} before", entity.id()).as_bytes())?;
    shown.write(&preview.from(Path::new("file")))?;
    let image = Image::load(&Tree::open(&preview.from(Path::new("")))?.place(Path::new("file")))?;
    let with = |image: Image| match attributes {
        Some(attributes) => Image { mode: attributes.mode, uid: attributes.uid, gid: attributes.gid, ..image },
        None => image,
    };
    Ok(Some(image.map(with)))
}

/// Returns the current content of a path for the history of the run, or `None` if there is none.
pub(super) fn live(path: &Path, state: &State, inspection: &Inspection<'_>) -> Result<Option<Shown>, DeclaredError> {
    Ok(match state {
        State::File { attributes, .. } => {
            let mut content = Vec::new();
            inspection.tracker.place(path).open()?.take(MAX_REPLACED + 1).read_to_end(&mut content)?;
            Some(Shown::File { content, mode: attributes.mode })
        }
        State::Symlink { target, .. } => Some(Shown::Symlink(target.0.to_path_lossy().into_owned())),
        _ => None,
    })
}

fn pair(
    entity: &DeclaredFile,
    inspection: &Inspection<'_>,
    change: &Change,
) -> Result<Option<FilePair>, DeclaredError> {
    let Change { path, current, desired, bytes, sensitive } = change;
    let preview = Preview::new(inspection.host, entity.id().as_bytes())?;
    match (current, desired) {
        (State::Directory { attributes: from }, State::Directory { attributes: to }) if from.mode != to.mode => {
            let below = Path::new("directory");
            Shown::Directory(from.mode).write(&preview.from(below))?;
            Shown::Directory(to.mode).write(&preview.to(below))?;
            return Ok(Some(preview.pair(below, &inspection.host.below_root(path)).with_modes()));
        }
        // Directories have no content to compare.
        (State::Directory { .. }, _) | (_, State::Directory { .. }) => return Ok(None),
        _ => {}
    }
    let (live, below) = (inspection.host.below_root(path), Path::new("file"));
    let content = |state: &State| -> Result<Vec<u8>, DeclaredError> {
        let Some(digest) = state.content() else { return Ok(Vec::new()) };
        if let Some(bytes) = bytes {
            return Ok(bytes.clone());
        }
        if current.content() == Some(digest) {
            return Ok(inspection.tracker.place(path).read_if_file()?.unwrap_or_default());
        }
        Ok(inspection.tracker.content(digest)?)
    };
    let shown = |state: &State,
                 content: &dyn Fn(&State) -> Result<Vec<u8>, DeclaredError>|
     -> Result<Option<Shown>, DeclaredError> {
        Ok(match state {
            State::File { attributes, .. } => {
                let content = if *sensitive { SENSITIVE.to_vec() } else { content(state)? };
                Some(Shown::File { content, mode: attributes.mode })
            }
            State::Symlink { target, .. } => Some(Shown::Symlink(target.0.to_path_lossy().into_owned())),
            _ => None,
        })
    };
    if let Some(shown) = shown(desired, &content)? {
        shown.write(&preview.to(below))?;
    }
    let from = if *sensitive {
        if let Some(shown) = shown(current, &|_| Ok(Vec::new()))? {
            shown.write(&preview.from(below))?;
        }
        preview.from(below)
    } else {
        live.clone()
    };
    let pair = FilePair::new(from, preview.to(below)).with_modes();
    Ok(Some(pair.with_from_label(live.as_os_str().as_bytes())))
}
