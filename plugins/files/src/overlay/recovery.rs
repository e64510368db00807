//! Putting in order what an apply that was killed has left behind.

use crate::overlay::change;
use crate::overlay::entity::FileEntity;
use crate::overlay::layout::{BASE, Layout, PROVISIONED, intent_name};
use crate::overlay::scan;
use crate::overlay::stock::TEMPORARY_SUFFIX;
use holo_change::Image;
use holo_change::error::Result;
use holo_plugin::{Host, Output, Sink, Stream};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The intents that a killed apply has left; nearly always none.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    intents: HashSet<OsString>,
    /// True if there was anything at all, be it an empty folder.
    pub(crate) was_needed: bool,
}

impl Recovery {
    /// Looks for what was left behind, and removes what is of no use to any entity.
    pub(crate) fn begin(host: &Host, layout: &Layout) -> Result<Recovery> {
        let Some(names) = layout.all_staged()? else { return Ok(Recovery::default()) };
        let entities = scan::all(host, &mut Output::new(&mut Silence)).unwrap_or_default();
        let useful: HashSet<OsString> = entities.iter().map(|entity| intent_name(&entity.path).into()).collect();
        let mut intents = HashSet::new();
        for name in names {
            if useful.contains(&name) {
                intents.insert(name);
            } else {
                layout.staged(&name).remove()?;
            }
        }
        // Some may have been the targets' own files, and it was not checked whether they are open elsewhere.
        let bases: Vec<PathBuf> = files_below(&host.state_dir().join(BASE));
        change::separate_open_bases(&bases, layout);
        for folder in [BASE, PROVISIONED] {
            remove_empty_folders(&host.state_dir().join(folder), folder, layout);
        }
        Ok(Recovery { intents, was_needed: true })
    }

    /// Puts an entity in order that an apply was at when it was killed: if its target is what it was going to be, that is recorded.
    pub(crate) fn settle(&self, entity: &FileEntity, layout: &Layout) -> Result<()> {
        if !self.intents.contains(&OsString::from(intent_name(&entity.path))) {
            return Ok(());
        }
        let intent = layout.intent(&entity.path);
        let target = layout.target(&entity.path);
        target.temporary(TEMPORARY_SUFFIX).remove()?;
        let (Ok(Some(intended)), Ok(Some(current))) = (Image::load(&intent), Image::load(&target)) else {
            return intent.remove();
        };
        if !current.equals(&intended)? {
            return intent.remove();
        }
        let provisioned = layout.provisioned(&entity.path);
        provisioned.create_folder()?;
        intent.rename_to(&provisioned)
    }
}

/// The apply that follows says what there is to say.
struct Silence;

impl Sink for Silence {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}

/// The regular files below a folder, as if it were the root.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let files = WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let below = files.filter_map(|entry| entry.path().strip_prefix(folder).map(|path| Path::new("/").join(path)).ok());
    below.collect()
}

fn remove_empty_folders(folder: &Path, keep: &str, layout: &Layout) {
    let below = |path: PathBuf| path.strip_prefix(folder).map(Path::to_owned).ok();
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true).into_iter().flatten() {
        if entry.file_type().is_dir()
            && let Some(below) = below(entry.into_path())
        {
            // Only empty ones can be removed.
            layout.state(&Path::new(keep).join(below).join("x")).remove_empty_folders(Path::new(keep));
        }
    }
}
