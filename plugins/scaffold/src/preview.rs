//! Previews: the current and the desired versions of the files that would change.

use crate::entity::Scaffold;
use crate::error::Result;
use crate::plan::SENSITIVE_MODE;
use crate::source::Item;
use bstr::ByteSlice;
use holo_change::Kind;
use holo_change::error::PathError;
use holo_change::tracked::{State, Tracker};
use holo_plugin::{FilePair, Host, Output, Preview, SENSITIVE, Shown};
use std::path::{Path, PathBuf};

/// The desired version of a path.
pub(crate) enum After {
    /// The rendered content, and the mode of a file.
    Item(Item, u32),
    /// The state before the first apply; `None` if it is unknown, or if the path is removed.
    State(Option<State>),
    /// Content that must not be displayed, and the mode, unless it is the current one.
    Sensitive(Option<u32>),
}

/// Writes both directories. Returns `None` if both are empty.
pub(crate) fn write(
    entity: &Scaffold,
    host: &Host,
    target: &Path,
    tracker: &Tracker,
    files: &[(PathBuf, After)],
) -> Result<Option<FilePair>> {
    let failed = |error| PathError::new("write", host.cache_dir(), error);
    let preview = Preview::new(host, entity.id().as_bytes()).map_err(failed)?;
    let mut is_empty = true;
    for (path, after) in files {
        let below = path.strip_prefix(target).unwrap_or(path);
        let shown = match after {
            After::Sensitive(mode) => {
                let before = tracker.place(path).stat()?.map(|stat| stat.mode);
                let after = mode.or(before).unwrap_or(SENSITIVE_MODE);
                [(preview.from(below), before.map(sensitive)), (preview.to(below), Some(sensitive(after)))]
            }
            after => [
                (preview.from(below), Shown::found(&tracker.place(path))?),
                (preview.to(below), wanted(after, tracker)?),
            ],
        };
        for (path, shown) in shown {
            if let Some(shown) = shown {
                shown.write(&path).map_err(failed)?;
                is_empty = false;
            }
        }
    }
    Ok((!is_empty).then(|| preview.pair(Path::new(""), &host.below_root(target)).with_modes()))
}

/// Saves files that are about to be changed for the record of the run.
pub(crate) fn keep_replaced<'p>(
    paths: impl Iterator<Item = &'p Path>,
    tracker: &Tracker,
    host: &Host,
    output: &mut Output<'_>,
) {
    for path in paths {
        let place = tracker.place(path);
        // Directories have no content to save.
        let is_directory = || place.stat().is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == Kind::Directory));
        if !is_directory() {
            host.keep_replaced(path, || Shown::found(&place), output);
        }
    }
}

fn wanted(after: &After, tracker: &Tracker) -> Result<Option<Shown>> {
    Ok(match after {
        After::Item(Item::File { bytes, .. }, mode) => Some(Shown::File { content: bytes.clone(), mode: *mode }),
        After::Item(Item::Symlink(target), _) => Some(Shown::Symlink(target.to_path_lossy().into_owned())),
        After::State(Some(State::Symlink { target, .. })) => {
            Some(Shown::Symlink(target.0.to_path_lossy().into_owned()))
        }
        After::State(Some(state)) => match (state.content(), state.attributes()) {
            (Some(digest), Some(attributes)) => {
                Some(Shown::File { content: tracker.content(digest)?, mode: attributes.mode })
            }
            _ => None,
        },
        After::Sensitive(_) | After::Item(Item::Directory, _) | After::State(None) => None,
    })
}

/// Returns the replacement for sensitive content, with the mode of its file.
fn sensitive(mode: u32) -> Shown {
    Shown::File { content: SENSITIVE.to_vec(), mode }
}
