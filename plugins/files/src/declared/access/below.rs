//! Walks everything below a declared directory, without following symlinks or leaving the file system.

use super::super::definition::FileDefinition;
use super::super::entity::DeclaredFile;
use super::super::inspection::Inspection;
use super::super::wanted::{self as states, DeclaredError};
use super::wanted;
use holo_change::access::Access;
use holo_change::claims::{self, Claim};
use holo_change::{Kind, PathHandle};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Calls `found` for each path with other permissions than desired. Directories come after their contents: as long as a directory belongs
/// to someone else, its future owner cannot interfere with the paths in it. Paths of other entities are skipped.
pub(super) fn collect(
    entity: &DeclaredFile,
    definition: &FileDefinition,
    path: &Path,
    inspection: &Inspection<'_>,
    found: &mut dyn FnMut(PathBuf, PathHandle, Access, Access),
) -> Result<(), DeclaredError> {
    let others = Others::of(entity, path, inspection)?;
    let owners = states::owners(definition, inspection.host)?;
    let mode = definition.fixed_mode();
    let top = inspection.tracker.place(path);
    let device = top.stat()?.map(|stat| stat.device);
    let tree = top.as_tree()?;
    // A stack of directories whose contents are still to be processed (`None`), or have been.
    let mut open = vec![(PathBuf::new(), None)];
    while let Some((directory, own)) = open.pop() {
        if let Some((current, desired)) = own {
            found(path.join(&directory), tree.place(&directory), current, desired);
            continue;
        }
        for name in tree.place(&directory.join("x")).siblings()? {
            let below = directory.join(name);
            let place = tree.place(&below);
            let whole = path.join(&below);
            let Some(stat) = place.stat()? else { continue };
            if Some(stat.device) != device || stat.kind == Kind::Other || others.decide_below(&whole) {
                continue;
            }
            let (current, desired) = (Access::of_stat(&stat), wanted::below(definition, owners, mode, &stat));
            let differs = !desired.missing_in(&current).is_empty();
            let is_ours = differs && !others.decide(&whole) && !inspection.tracker.is_overlaid(&whole);
            if stat.kind == Kind::Directory {
                open.extend(is_ours.then(|| (below.clone(), Some((current, desired)))));
                open.push((below, None));
            } else if is_ours {
                found(whole, place, current, desired);
            }
        }
    }
    Ok(())
}

/// The paths below that belong to other entities.
struct Others {
    /// Including everything below them.
    whole: HashSet<PathBuf>,
    single: HashSet<PathBuf>,
}

impl Others {
    fn of(entity: &DeclaredFile, path: &Path, inspection: &Inspection<'_>) -> Result<Others, DeclaredError> {
        let mut others = claims::all(inspection.host.locations());
        others.retain(|claim| claim.id != entity.id());
        if let Some(tree) = others.iter().find(|claim| claim.is_tree && claim.covers(path)) {
            return Err(DeclaredError::Never(format!(
                "{} is made by {}, which manages everything below; remove recurse",
                inspection.shown(path),
                tree.shown()
            )));
        }
        others.retain(|claim| claim.path().starts_with(path));
        let (whole, single): (Vec<_>, Vec<_>) = others.iter().partition(|claim| claim.is_tree || claim.is_recursive);
        let paths = |claims: Vec<&Claim>| claims.into_iter().map(Claim::path).collect();
        Ok(Others { whole: paths(whole), single: paths(single) })
    }

    /// Returns true if another entity owns a path.
    fn decide(&self, path: &Path) -> bool {
        self.single.contains(path)
    }

    /// Returns true if another entity owns a path and everything below it.
    fn decide_below(&self, path: &Path) -> bool {
        self.whole.contains(path)
    }
}
