//! Permissions that are not part of a path's state: ACLs, the SELinux context, and owner and mode of everything below a directory.
//!
//! They are changed in place. The original and the desired values are on disk before anything is changed, and each value is changed with
//! one system call. Therefore a kill leaves either the old or the new value, both of which are known.

mod changed_along;
mod wanted;

pub(super) use changed_along::ChangedAlong;

use super::definition::{Ensure, FileDefinition};
use super::entity::DeclaredFile;
use super::inspection::Inspection;
use super::wanted::{self as states, DeclaredError};
use crate::edits;
use crate::overlay::PREFIX;
use bstr::{BString, ByteSlice};
use holo_change::access::{Access, AccessTrack, AccessTracks};
use holo_change::acl::Acl;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::claims::{Claim, Claims};
use holo_change::error::PathError;
use holo_change::tracked::{Decision, State, Track, Tracker, Tracks};
use holo_change::{FileStat, Kind, PathHandle, Tree, path_bytes};
use holo_plugin::{Entity, FilePair, Host, Output, Preview, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The permissions of declared files, and their records.
pub(super) struct Accesses<'a> {
    inspection: &'a Inspection<'a>,
    records: BaseStore,
}

/// Returns true if there may be permission records.
pub(super) fn has_records(host: &Host) -> bool {
    records(host).ids().map_or(true, |ids| !ids.is_empty())
}

/// Returns the permission records.
pub(super) fn records(host: &Host) -> BaseStore {
    BaseStore::open_kind(host.locations(), "access")
}

/// Returns those of some entities that have changed permissions of something in their directories.
pub(super) fn changed_below(host: &Host, among: &HashSet<String>) -> BTreeSet<String> {
    let records = records(host);
    // A record that cannot be read is an error of the scrub.
    let recall = |id: &String| records.recall::<AccessTracks>(id).ok().flatten();
    let ids = records.ids().unwrap_or_default();
    ids.into_iter().filter(|id| among.contains(id) && recall(id).is_some_and(|record| is_recursive(&record))).collect()
}

fn is_recursive(record: &Remembered<AccessTracks>) -> bool {
    let owns = record.orphan_report().edges.owns;
    let is_own = |path: &Path| owns.iter().any(|own| own.value == path_bytes(path));
    record.base.iter().any(|(path, _)| path.ancestors().skip(1).any(is_own))
}

impl<'a> Accesses<'a> {
    pub(super) fn open(inspection: &'a Inspection<'a>) -> Result<Accesses<'a>, DeclaredError> {
        Ok(Accesses { inspection, records: records(inspection.host) })
    }

    /// Returns true if an entity manages permissions.
    pub(super) fn concern(entity: &DeclaredFile, has_records: impl FnOnce() -> bool) -> bool {
        // A directory may have been recursive.
        let may_have = |definition: &FileDefinition| definition.ensure == Ensure::Directory;
        let declares = entity.definition.as_ref().is_some_and(FileDefinition::declares_access);
        declares || (entity.definition.as_ref().is_none_or(may_have) && has_records())
    }

    fn recall(&self, id: &str) -> Result<Option<Remembered<AccessTracks>>, DeclaredError> {
        Ok(self.records.recall(id)?)
    }

    fn remembered(&self, entity: &DeclaredFile) -> Result<Remembered<AccessTracks>, DeclaredError> {
        let known = self.recall(&entity.id())?;
        Ok(known.unwrap_or_else(|| Remembered::new(&entity.report(), AccessTracks::default())))
    }

    /// Returns the modes that the entity's path has had as a part of its state.
    fn modes(&self, entity: &DeclaredFile, path: &Path) -> Result<Vec<u32>, DeclaredError> {
        let record = self.inspection.recall(entity)?;
        Ok(record.iter().filter_map(|record| record.base.get(path)).flat_map(Track::modes).collect())
    }

    /// Records the permissions of the entity's path before the path is replaced, and takes over the records of other entities.
    pub(super) fn keep_base(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        path: &Path,
        takes_over: &[String],
    ) -> Result<(), DeclaredError> {
        let before = self.recall(&entity.id())?;
        let mut record = self.remembered(entity)?;
        for other in takes_over {
            if let Some(theirs) = self.recall(other)? {
                record.base.take_over(theirs.base);
            }
        }
        let place = self.inspection.tracker.place(path);
        if let Some(stat) = manageable(&place)? {
            let wanted = self.wanted(entity, definition, &place, &stat)?;
            if !wanted.is_empty() {
                let current = Access::of_attributes(&place, &stat)?;
                record.base.get_or_insert(path, || current.limited_to(&wanted));
            }
        }
        if !record.base.is_empty() && before.as_ref() != Some(&record) {
            self.records.keep(&record)?;
        }
        takes_over.iter().try_for_each(|other| Ok(self.records.forget(other)?))
    }

    /// Returns the declared permissions of the entity's path, except for owner and mode.
    fn wanted(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        place: &PathHandle,
        stat: &FileStat,
    ) -> Result<Access, DeclaredError> {
        if definition.acl.is_none() && definition.selinux.is_none() {
            return Ok(Access::default());
        }
        let shown = self.inspection.shown(&entity.path);
        let wanted = wanted::own(definition, &Access::of_attributes(place, stat)?, stat, self.inspection.host)?;
        let needs_acls = wanted.acl.as_ref().is_some_and(|acl| !acl.is_minimal());
        let needs_acls = needs_acls || wanted.default_acl.as_ref().is_some_and(|acl| !acl.is_empty());
        if needs_acls && holo_change::is_without_acls(place) {
            let reason = "its file system has no ACLs; mount it with them, or leave out the key acl";
            return Err(DeclaredError::Never(format!("set the ACL of {shown}: {reason}")));
        }
        Ok(wanted)
    }

    /// Plans the changes for the current state of the path.
    pub(super) fn plan(
        &self,
        entity: &DeclaredFile,
        definition: &FileDefinition,
        path: &Path,
        force: bool,
        at: At,
    ) -> Result<Plan, DeclaredError> {
        let place = self.inspection.tracker.place(path);
        let Some(stat) = manageable(&place)? else { return Ok(Plan::default()) };
        let mut found = Vec::new();
        if definition.recurse && stat.kind == Kind::Directory {
            let restored = Restored::below(path, entity, self.inspection, at)?;
            collect(entity, definition, path, (self.inspection, &restored), &mut |path, place, current, desired| {
                found.push((path, place, current, desired));
            })?;
        }
        let own = self.wanted(entity, definition, &place, &stat)?;
        if !own.is_empty() {
            found.push((path.to_owned(), place.clone(), Access::of_attributes(&place, &stat)?, own));
        }
        let mut record = self.remembered(entity)?;
        let modes = self.modes(entity, path)?;
        let (released, left) = self.release(definition, path, &modes, &record, at)?;
        let mut steps = Vec::new();
        for (path, place, current, desired) in found {
            let missing = desired.missing_in(&current);
            let track = record.base.get(&path);
            if !force && track.is_some_and(|track| track.decide(&current, &missing, &modes) == Decision::NeedsForce) {
                return Err(changed_by_others(&place, &missing));
            }
            if !missing.is_empty() {
                record.base.get_or_insert(&path, || current.limited_to(&missing)).intend(&current, &missing);
                steps.push(Step { path, place, current, missing });
            }
        }
        let record = (!steps.is_empty() || !left.is_empty()).then_some(record);
        Ok(Plan { steps, released, left, record })
    }

    /// Returns the steps that restore the permissions of paths below that the entity does not cover any more, and all those paths.
    fn release(
        &self,
        definition: &FileDefinition,
        top: &Path,
        modes: &[u32],
        record: &Remembered<AccessTracks>,
        at: At,
    ) -> Result<(Vec<Step>, Vec<PathBuf>), DeclaredError> {
        let below = || record.base.iter().filter(|(path, _)| path != top && path.starts_with(top));
        if below().next().is_none() {
            return Ok(Default::default());
        }
        let others = Others::new(self.inspection.claims(), &record.id, top);
        let (mut released, mut left) = (Vec::new(), Vec::new());
        for (path, track) in below() {
            let is_of_others = others.decide(&path) || others.decide_around(&path, top);
            if definition.recurse && !is_of_others && !self.inspection.has_overlay(&path) {
                continue;
            }
            if others.are_declared(&path, top) {
                // The declaration does so itself, as it may come before this entity.
                continue;
            }
            let place = self.inspection.tracker.place(&path);
            let goes = || at == At::Check && matches!(edits::without_orphans(&path, self.inspection.host), Some(None));
            released.extend(Step::releasing(&path, place, track, modes)?.filter(|_| !goes()));
            left.push(path);
        }
        Ok((released, left))
    }

    /// Carries out a plan. A failed step does not stop the others.
    pub(super) fn make(&self, plan: &Plan) -> Result<(), DeclaredError> {
        if let Some(record) = &plan.record {
            self.records.keep(record)?;
        }
        plan.take()?;
        if let Some(mut record) = plan.record.clone().filter(|_| !plan.left.is_empty()) {
            plan.left.iter().for_each(|path| record.base.remove(path));
            self.records.keep(&record)?;
        }
        Ok(())
    }

    /// Plans how to restore the original permissions of all paths of an entity.
    pub(super) fn restoration(&self, entity: &DeclaredFile, force: bool) -> Result<Plan, DeclaredError> {
        let Some(record) = self.recall(&entity.id())? else { return Ok(Plan::default()) };
        let tracker = &self.inspection.tracker;
        let top = tracker.canonical(&entity.path)?;
        let tree = match tracker.place(&top).as_tree() {
            Err(error) if !error.is_missing() => return Err(error.into()),
            tree => tree.ok(),
        };
        let modes = self.modes(entity, &top)?;
        let is_taken_over = self.inspection.recall(entity)?.is_none_or(|record| record.base.get(&top).is_none());
        let mut steps = Vec::new();
        for (path, track) in record.base.iter() {
            // Paths below are not followed through symlinks that were created since.
            let place = match (path.strip_prefix(&top), &tree) {
                // An overlay has the permissions of its base.
                _ if tracker.is_overlaid(&path) => tracker.place(&path),
                (Ok(rest), Some(tree)) if !rest.as_os_str().is_empty() => tree.place(rest),
                (Ok(rest), None) if !rest.as_os_str().is_empty() => continue,
                _ => tracker.place(&path),
            };
            let Some((stat, current)) = current(&place, track)? else { continue };
            // The new owner determines the mode, which is part of an ACL.
            let with_mode = (is_taken_over && path == top).then(|| track.with_mode(stat.mode));
            let track = with_mode.as_ref().unwrap_or(track);
            let missing = track.restoration(&current, stat.kind == Kind::File);
            if !force && track.decide(&current, &missing, &modes) == Decision::NeedsForce {
                return Err(changed_by_others(&place, &missing));
            }
            if !missing.is_empty() {
                steps.push(Step { path, place, current, missing });
            }
        }
        Ok(Plan { steps, ..Plan::default() })
    }

    /// Returns true if another entity takes over the path of an orphan that restores permissions below. A directory that was there before
    /// is restored at once; a file that was there instead would be in the way of the other entity.
    pub(super) fn hands_over(&self, entity: &DeclaredFile) -> Result<bool, DeclaredError> {
        if entity.definition.is_some() || !self.recall(&entity.id())?.is_some_and(|record| is_recursive(&record)) {
            return Ok(false);
        }
        let path = self.inspection.tracker.canonical(&entity.path)?;
        let record = self.inspection.recall(entity)?;
        let base = record.as_ref().and_then(|record| Some(&record.base.get(&path)?.base));
        let was_file = matches!(base, Some(State::File { .. } | State::Symlink { .. }));
        Ok(was_file && self.inspection.claims().to(&path).next().is_some())
    }

    /// Restores the original permissions and removes the record.
    pub(super) fn put_back(&self, entity: &DeclaredFile, plan: &Plan) -> Result<(), DeclaredError> {
        plan.take()?;
        Ok(self.records.forget(&entity.id())?)
    }

    /// Returns the provisioned and the actual permissions as two listings.
    pub(super) fn difference(&self, entity: &DeclaredFile) -> Result<Option<FilePair>, DeclaredError> {
        let Some(record) = self.recall(&entity.id())? else { return Ok(None) };
        let mut paths = Vec::new();
        for (path, track) in record.base.iter() {
            let place = self.inspection.tracker.place(&path);
            if let Some((_, current)) = current(&place, track)? {
                let current = current.limited_to(&track.made);
                paths.push((place.shown(), track.made.clone(), current));
            }
        }
        wanted::pair(entity, &paths, self.inspection.host, "applied")
    }

    /// Returns the actual and the desired permissions as two listings.
    pub(super) fn preview(&self, entity: &DeclaredFile) -> Result<Option<FilePair>, DeclaredError> {
        let steps = self.expected(entity, true)?.steps.into_iter().map(|step| {
            let current = step.current.limited_to(&step.missing);
            (step.place.shown(), current, step.missing)
        });
        wanted::pair(entity, &steps.collect::<Vec<_>>(), self.inspection.host, "")
    }

    /// Combines the verdict on the path with that on its permissions.
    pub(super) fn verdict(&self, entity: &DeclaredFile, path: Verdict) -> Result<Verdict, DeclaredError> {
        if !matches!(path, Verdict::InDesiredState | Verdict::WouldChange(_) | Verdict::NeedsForce(_)) {
            return Ok(path);
        }
        let is_orphan = entity.definition.is_none();
        let path = if self.hands_over(entity)? { Verdict::InDesiredState } else { path };
        let plan = self.expected(entity, false)?;
        let word = if is_orphan { "would restore" } else { "would change" };
        let changes = plan.changes((word, "would restore"), &self.inspection.host.below_root(&entity.path));
        Ok(match path {
            Verdict::WouldChange(path) => Verdict::WouldChange(path.into_iter().chain(changes).collect()),
            Verdict::InDesiredState if !changes.is_empty() => Verdict::WouldChange(changes),
            path => path,
        })
    }

    /// Returns the plan for an entity whose path keeps its current state.
    fn expected(&self, entity: &DeclaredFile, force: bool) -> Result<Plan, DeclaredError> {
        let Some(definition) = &entity.definition else { return self.restoration(entity, force) };
        let path = self.inspection.tracker.canonical(&entity.path)?;
        self.plan(entity, definition, &path, force, At::Check)
    }
}

fn changed_by_others(place: &PathHandle, missing: &Access) -> DeclaredError {
    let shown = place.shown().display().to_string();
    DeclaredError::NeedsForce(format!("manual change of {} of {shown}", missing.parts()))
}

/// Returns the metadata of a file or directory, or `None` for other types and missing paths.
fn manageable(place: &PathHandle) -> Result<Option<FileStat>, DeclaredError> {
    Ok(place.stat()?.filter(|stat| matches!(stat.kind, Kind::File | Kind::Directory)))
}

/// Returns the current values of the recorded permissions, or `None` if the path does not exist.
fn current(place: &PathHandle, track: &AccessTrack) -> Result<Option<(FileStat, Access)>, DeclaredError> {
    let Some(stat) = place.stat()?.filter(|stat| stat.kind != Kind::Other) else { return Ok(None) };
    let owner_and_mode = Access::of_stat(&stat);
    let has_attributes = track.made.acl.is_some() || track.made.default_acl.is_some() || track.made.selinux.is_some();
    let current = match has_attributes && stat.kind != Kind::Symlink {
        true => owner_and_mode.or(&Access::of_attributes(place, &stat)?),
        false => owner_and_mode,
    };
    Ok(Some((stat, current)))
}

/// Removes the records of entities without any other record, because their paths belong to other entities now.
pub(super) fn tidy(host: &Host, bases: &BaseStore, output: &mut Output<'_>) -> holo_change::error::Result<()> {
    let records = records(host);
    let all: BTreeMap<String, Remembered<AccessTracks>> = records.all(output)?;
    for id in all.keys() {
        if bases.recall::<Tracks>(id)?.is_none() {
            records.forget(id)?;
        }
    }
    Ok(())
}

/// The maximum number of paths that are listed individually for the same change.
const NAMED: usize = 3;

/// A permission change of a path.
struct Step {
    path: PathBuf,
    place: PathHandle,
    current: Access,
    /// The values to set.
    missing: Access,
}

impl Step {
    /// Returns the step that restores the original permissions of a path, unless it is missing or has them. Those that somebody has changed
    /// since are left to the entity that the path belongs to now.
    fn releasing(
        path: &Path,
        place: PathHandle,
        track: &AccessTrack,
        modes: &[u32],
    ) -> Result<Option<Step>, DeclaredError> {
        let Some((stat, current)) = current(&place, track)? else { return Ok(None) };
        let missing = track.restoration(&current, stat.kind == Kind::File);
        let is_ours = !missing.is_empty() && track.decide(&current, &missing, modes) != Decision::NeedsForce;
        Ok(is_ours.then(|| Step { path: path.to_owned(), place, current, missing }))
    }

    fn take(&self) -> Result<(), PathError> {
        match self.missing.give(&self.place) {
            // A user of the directory may have removed the path since.
            Err(error) if error.is_missing() => Ok(()),
            given => given,
        }
    }
}

/// The steps that establish the desired permissions, or restore the original ones.
#[derive(Default)]
pub(in crate::declared) struct Plan {
    steps: Vec<Step>,
    /// The steps that restore the permissions of paths that belong to other entities now.
    released: Vec<Step>,
    /// The paths that are recorded no longer after the steps.
    left: Vec<PathBuf>,
    /// The record before the steps, or `None` if it does not change.
    record: Option<Remembered<AccessTracks>>,
}

impl Plan {
    pub(in crate::declared) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.left.is_empty()
    }

    /// Returns the mode that results from the new ACL of a path, if it gets one.
    pub(in crate::declared) fn mode_by_acl(&self, path: &Path) -> Option<u32> {
        let own = self.steps.iter().find(|step| step.path == path)?;
        own.missing.acl.as_ref().map(Acl::mode)
    }

    /// Describes the changes. `word` is a verb such as `changed`, and `back` one such as `restored`.
    pub(in crate::declared) fn changes(&self, (word, back): (&str, &str), directory: &Path) -> Vec<String> {
        let made = Plan::described(&self.steps, word, directory);
        made.into_iter().chain(Plan::described(&self.released, back, directory)).collect()
    }

    fn described(steps: &[Step], word: &str, directory: &Path) -> Vec<String> {
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for step in steps {
            alike.entry(step.missing.parts()).or_default().push(step.place.shown().display().to_string());
        }
        let said = |(parts, paths): (String, Vec<String>)| match paths.len() {
            0..=NAMED => paths.iter().map(|path| format!("{word} {parts} of {path}")).collect(),
            many => vec![format!("{word} {parts} of {many} paths in {}", directory.display())],
        };
        alike.into_iter().flat_map(said).collect()
    }

    /// Carries out the steps. A failed step does not stop the others.
    fn take(&self) -> Result<(), DeclaredError> {
        let mut problems = Vec::new();
        for step in self.steps.iter().chain(&self.released) {
            problems.extend(step.take().err().map(|error| error.to_string()));
        }
        match problems.split_first() {
            None => Ok(()),
            Some((first, [])) => Err(DeclaredError::Never(first.clone())),
            Some((first, rest)) => Err(DeclaredError::Never(format!("{first} (and {} more)", rest.len()))),
        }
    }
}

/// Calls `found` for each path with other permissions than desired. Directories come after their contents: as long as a directory belongs
/// to someone else, its future owner cannot interfere with the paths in it. Paths of other entities are skipped.
fn collect(
    entity: &DeclaredFile,
    definition: &FileDefinition,
    path: &Path,
    (inspection, restored): (&Inspection<'_>, &Restored),
    found: &mut dyn FnMut(PathBuf, PathHandle, Access, Access),
) -> Result<(), DeclaredError> {
    let others = Others::of(entity, path, inspection)?;
    let has_overlay = |path: &Path| restored.tracker.is_overlaid(path) || inspection.has_overlay(path);
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
        let mut names: BTreeSet<OsString> = tree.place(&directory.join("x")).siblings()?.into_iter().collect();
        names.extend(restored.names(&path.join(&directory)));
        for name in names {
            let below = directory.join(name);
            let place = tree.place(&below);
            let whole = path.join(&below);
            let Some(stat) = restored.stat(&whole, &place, device)? else { continue };
            if Some(stat.device) != device || stat.kind == Kind::Other || others.decide_below(&whole) {
                continue;
            }
            let (current, desired) = (Access::of_stat(&stat), wanted::below(definition, owners, mode, &stat));
            let differs = !desired.missing_in(&current).is_empty();
            let is_ours = differs && !others.decide(&whole) && !has_overlay(&whole);
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

/// Returns a directory, and all below it on the same file system, each with a trailing slash.
pub(super) fn directories(shown: &Path, path: &Path) -> Vec<BString> {
    let device = |path: &Path| fs::symlink_metadata(path).ok().filter(Metadata::is_dir).map(|stat| stat.dev());
    let (top, mut found) = (device(shown), Vec::new());
    let mut left = Vec::from_iter(top.map(|_| PathBuf::new()));
    while let Some(below) = left.pop() {
        // One that vanishes or may not be read has no entries.
        let entries = fs::read_dir(shown.join(&below)).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = entries.filter(|entry| device(&entry.path()) == top).map(|entry| below.join(entry.file_name()));
        left.extend(names);
        let path = path_bytes(&path.join(&below));
        found.push([path.trim_end_with(|letter| letter == '/').as_bytes(), b"/"].concat().into());
    }
    found
}

/// The time of a look at what is below a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Check,
    Apply,
}

/// The paths below a directory that orphans hold. They are restored before, unless other entities take over from the same orphans.
struct Restored {
    /// The metadata of the originals in a check; there is none if the path did not exist. In an apply, none is known.
    originals: BTreeMap<PathBuf, Option<FileStat>>,
    /// In a check, sees only the overlays that the run does not remove.
    tracker: Tracker,
}

impl Restored {
    fn below(
        path: &Path,
        entity: &DeclaredFile,
        inspection: &Inspection<'_>,
        at: At,
    ) -> Result<Restored, DeclaredError> {
        let (claims, tracker) = (inspection.claims(), inspection.tracker.clone());
        let tracker = if at == At::Check { tracker.foreseeing(false) } else { tracker };
        let mut originals = BTreeMap::new();
        for held in tracker.held_below(path, claims)?.into_iter().chain(tracker.uncovered_below(path)) {
            let original = match at {
                At::Apply => None,
                At::Check => {
                    let copies = Preview::new(inspection.host, &path_bytes(&held))?.from(Path::new(""));
                    let copy = Tree::open(&copies)?.place(Path::new("original"));
                    let original = tracker.original(&held, &entity.id(), claims, &copy)?;
                    original.map(|original| original.stat()).transpose()?.flatten()
                }
            };
            originals.insert(held, original);
        }
        Ok(Restored { originals, tracker })
    }

    /// Returns the names of what is restored in a directory.
    fn names(&self, directory: &Path) -> Vec<OsString> {
        let mut names = Vec::new();
        let below = self.originals.range(directory.to_owned()..).take_while(|(path, _)| path.starts_with(directory));
        for (path, _) in below.filter(|(path, stat)| stat.is_some() && path.parent() == Some(directory)) {
            names.extend(path.file_name().map(OsStr::to_owned));
        }
        names
    }

    /// Returns the metadata of a path. What does not exist yet is restored to the file system of the directory, `device`.
    fn stat(&self, path: &Path, place: &PathHandle, device: Option<u64>) -> Result<Option<FileStat>, DeclaredError> {
        let Some(original) = self.originals.get(path) else { return Ok(place.stat()?) };
        let device = place.stat()?.map(|stat| stat.device).or(device);
        Ok(original.zip(device).map(|(stat, device)| FileStat { device, ..stat }))
    }
}

/// The paths below that belong to other entities.
struct Others {
    /// Including everything below them.
    whole: HashSet<PathBuf>,
    single: HashSet<PathBuf>,
    /// The paths among both that are declared files.
    declared: HashSet<PathBuf>,
}

impl Others {
    fn of(entity: &DeclaredFile, path: &Path, inspection: &Inspection<'_>) -> Result<Others, DeclaredError> {
        let claims = inspection.claims();
        let trees = claims.to(path).filter(|claim| claim.is_tree && claim.id != entity.id());
        if let Some(tree) = trees.min_by_key(|tree| &tree.id) {
            return Err(DeclaredError::Never(format!(
                "{} is made by {}, which manages everything below; remove recurse",
                inspection.shown(path),
                tree.shown()
            )));
        }
        Ok(Others::new(claims, &entity.id(), path))
    }

    /// Sorts out the claims of others below a path.
    fn new(claims: &Claims, own: &str, path: &Path) -> Others {
        let others = || claims.below(path).filter(|claim| claim.id != own);
        let declared = others().filter(|claim| claim.id.as_bytes().starts_with(PREFIX)).map(Claim::path).collect();
        let (whole, single): (Vec<_>, Vec<_>) = others().partition(|claim| claim.is_tree || claim.recursive.is_some());
        let paths = |claims: Vec<&Claim>| claims.into_iter().map(Claim::path).collect();
        Others { whole: paths(whole), single: paths(single), declared }
    }

    /// Returns true if a path is a declared file, or below a directory of which another declaration determines all permissions.
    fn are_declared(&self, path: &Path, top: &Path) -> bool {
        let mut around = path.ancestors().take_while(|above| *above != top);
        self.declared.contains(path) || around.any(|above| self.whole.contains(above) && self.declared.contains(above))
    }

    /// Returns true if another entity owns everything from a directory on that is around a path, or the path itself.
    fn decide_around(&self, path: &Path, top: &Path) -> bool {
        path.ancestors().take_while(|above| *above != top).any(|above| self.decide_below(above))
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
