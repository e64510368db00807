//! The record of a scaffold.

use bstr::BString;
use holo_change::tracked::{HasTracks, State, Tracks};
use holo_plugin::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The record of a scaffold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The states before the first apply, and the provisioned states.
    tracks: Tracks,
    /// The files whose programs have not all succeeded since the file was written.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    due: BTreeSet<Text>,
    /// The rendered states of the files that programs have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rendered: Vec<Rendered>,
}

/// The rendered state of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rendered {
    path: Text,
    state: State,
}

impl HasTracks for Record {
    fn tracks(&mut self) -> &mut Tracks {
        &mut self.tracks
    }
}

impl Record {
    /// Returns the states before the first apply, and the provisioned states.
    pub(crate) fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Like [`Record::tracks`], but mutable.
    pub(crate) fn tracks_mut(&mut self) -> &mut Tracks {
        &mut self.tracks
    }

    /// Returns true if a file's programs have not all succeeded since it was written.
    pub(crate) fn is_due(&self, path: &Path) -> bool {
        self.due.contains(&Text(bytes(path)))
    }

    /// Sets the files whose programs must be run.
    pub(crate) fn set_due(&mut self, paths: &BTreeSet<&Path>) {
        self.due = paths.iter().map(|path| Text(bytes(path))).collect();
    }

    /// Returns the rendered state of a file, if a program has changed it since.
    pub(crate) fn rendered(&self, path: &Path) -> Option<&State> {
        self.rendered.iter().find(|rendered| rendered.path.0 == bytes(path)).map(|rendered| &rendered.state)
    }

    /// Records the rendered state of a file, and its state after its programs were run.
    pub(crate) fn set_rendered(&mut self, path: &Path, rendered: State, made: State) {
        self.tracks.set_provisioned(path, made);
        self.rendered.push(Rendered { path: Text(bytes(path)), state: rendered });
    }

    /// Removes the rendered states of all files except these.
    pub(crate) fn forget_rendered(&mut self, keep: &BTreeSet<&Path>) {
        let keep: BTreeSet<BString> = keep.iter().map(|path| bytes(path)).collect();
        self.rendered.retain(|rendered| keep.contains(&rendered.path.0));
    }
}

fn bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}
