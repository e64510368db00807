//! Plans the steps that provision a target, without changing anything, including the removal of paths that its source does not contain.

use crate::definition::ScaffoldDefinition;
use crate::error::{Result, ScaffoldError};
use crate::record::Record;
use crate::render::Rendered;
use crate::source::Item;
use holo_change::tracked::{Attributes, Decision, Digest, Found, State, Track, Tracker};
use holo_change::{Kind, in_shares};
use holo_plugin::Host;
use holo_plugin::definitions::values;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::iter::once;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o644;
pub(crate) const SENSITIVE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// The steps of an apply.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The paths to remove, the deepest first: purged paths, and obstacles to other paths.
    pub(crate) clear: Vec<PathBuf>,
    /// The paths to remove that users created where a file had been removed before. They become the new base states.
    pub(crate) found_anew: Vec<PathBuf>,
    /// The paths to restore, as the source no longer contains them.
    pub(crate) restore: Vec<PathBuf>,
    /// All desired states; each directory precedes its entries.
    pub(crate) make: Vec<(PathBuf, State)>,
    /// The changes to display, sorted by path.
    pub(crate) changes: BTreeMap<PathBuf, Change>,
    /// Files that are in their desired states, but whose programs must still be run.
    pub(crate) due: BTreeSet<PathBuf>,
    /// The states that the plan is based on.
    pub(crate) found: Found,
    /// The paths at which manual changes would be lost.
    refused: Vec<PathBuf>,
}

impl Plan {
    /// Determines the steps.
    pub(crate) fn new(circumstances: &Circumstances<'_>) -> Result<Plan> {
        let mut plan = Plan::default();
        let target = circumstances.target;
        let attributes = Wanted::from_definition(circumstances.definition, circumstances.host)?;
        let below = circumstances.rendered.iter().map(|(path, item)| (target.join(path), item));
        let all: Vec<(PathBuf, &Item)> = once((target.to_owned(), &Item::Directory)).chain(below).collect();
        let looks = circumstances.look_at(&all, &attributes);
        let mut in_the_way = Vec::new();
        for ((path, item), look) in all.into_iter().zip(looks) {
            plan.want(circumstances, path, item, look?, &mut in_the_way);
        }
        let wanted: BTreeSet<PathBuf> = plan.make.iter().map(|(path, _)| path.clone()).collect();
        let is_gone = |path: &PathBuf| path != target && !wanted.contains(path);
        for (path, track) in circumstances.record.tracks().iter().rev().filter(|(path, _)| is_gone(path)) {
            plan.give_up(circumstances, path, track)?;
        }
        if circumstances.definition.purge {
            plan.clear.extend(purge(circumstances, &wanted, &mut plan.changes)?);
        }
        plan.make_way(circumstances, &in_the_way)?;
        // Sorted by name, a directory precedes its entries.
        plan.clear.sort();
        plan.clear.dedup();
        plan.clear.reverse();
        Ok(plan)
    }

    /// Returns true if the target is in its desired state.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.refused.is_empty()
    }

    /// Returns the paths at which manual changes are lost.
    pub(crate) fn edited(&self) -> impl Iterator<Item = &Path> {
        self.refused.iter().map(PathBuf::as_path)
    }

    /// Returns true if there is a file or symlink at a path.
    pub(crate) fn has_content(&self, path: &Path) -> bool {
        matches!(self.found.get(path), Some(State::File { .. } | State::Symlink { .. }))
    }

    /// Returns the reason why the plan needs force, if it does.
    pub(crate) fn refusal(&self, host: &Host) -> Option<String> {
        let words = |path: &PathBuf| format!("{} has been changed", host.below_root(path).display());
        (!self.refused.is_empty()).then(|| self.refused.iter().map(words).collect::<Vec<_>>().join(", "))
    }

    /// Returns all changes, each with a verb before its path.
    pub(crate) fn shown(&self, host: &Host, words: fn(Change) -> String) -> Vec<String> {
        let shown =
            |(path, change): (&PathBuf, &Change)| format!("{} {}", words(*change), host.below_root(path).display());
        self.changes.iter().map(shown).collect()
    }

    /// Adds the steps for a desired path.
    fn want(
        &mut self,
        circumstances: &Circumstances<'_>,
        path: PathBuf,
        item: &Item,
        look: Look,
        in_the_way: &mut Vec<PathBuf>,
    ) {
        let Look { current, rendered, programs_made, decision } = look;
        let is_file = matches!(item, Item::File { .. });
        let is_due = is_file && circumstances.record.is_due(&path) && (circumstances.has_programs)(&path);
        if decision == Decision::Nothing {
            if is_due {
                self.due.insert(path.clone());
                self.changes.insert(path.clone(), Change::RunPrograms);
            }
            self.make.push((path.clone(), programs_made.unwrap_or(rendered)));
        } else {
            if decision == Decision::NeedsForce && !is_due {
                self.refused.push(path.clone());
            }
            self.changes.insert(path.clone(), Change::between(&current, &rendered));
            let is_directory = |state: &State| matches!(state, State::Directory { .. });
            if current != State::Absent && is_directory(&current) != is_directory(&rendered) {
                in_the_way.push(path.clone());
            }
            self.make.push((path.clone(), rendered));
        }
        self.found.insert(path, current);
    }

    /// Adds the steps for a path that the source no longer contains.
    fn give_up(&mut self, circumstances: &Circumstances<'_>, path: PathBuf, track: &Track) -> Result<()> {
        if circumstances.tracker.is_overlaid(&path) {
            // The path is restored when there is no overlay on it any more.
            return Ok(());
        }
        let current = circumstances.tracker.state_of(circumstances.record.tracks(), &path)?;
        self.found.insert(path.clone(), current.clone());
        let is_inside = path.starts_with(circumstances.target);
        let purges = circumstances.definition.purge && is_inside && may_go(circumstances, &path)?;
        let wanted = if purges { &State::Absent } else { &track.base };
        if current == *wanted {
            // Only the record of the path must be removed, and this can wait for another change.
            if current == track.base {
                self.restore.push(path);
            }
            return Ok(());
        }
        let is_directory = matches!(current, State::Directory { .. });
        if *wanted == State::Absent && is_directory {
            // The directory is kept if it contains files of others. Whether purging empties it is not known yet.
            if !purges {
                if empties(circumstances, &self.changes, &path)? {
                    self.changes.insert(path.clone(), Change::Remove);
                }
                self.restore.push(path);
            }
            return Ok(());
        }
        let was_removed = purges && track.provisioned == Some(State::Absent);
        if was_removed {
            self.found_anew.push(path.clone());
        } else if circumstances.tracker.decide(&path, Some(track), &current, wanted)? == Decision::NeedsForce {
            self.refused.push(path.clone());
        }
        let change = if *wanted == State::Absent { Change::Remove } else { Change::Restore };
        self.changes.insert(path.clone(), change);
        if purges { &mut self.clear } else { &mut self.restore }.push(path);
        Ok(())
    }

    /// Adds the steps that remove obstacles. A directory may only be replaced by a file if no content is lost.
    fn make_way(&mut self, circumstances: &Circumstances<'_>, in_the_way: &[PathBuf]) -> Result<()> {
        for path in in_the_way {
            if matches!(circumstances.tracker.state(path)?, State::Directory { .. })
                && !empties(circumstances, &self.changes, path)?
            {
                let shown = circumstances.host.below_root(path);
                return Err(ScaffoldError::Never(format!(
                    "{} is a directory that is not empty, and would become a file",
                    shown.display()
                )));
            }
            self.clear.push(path.clone());
        }
        Ok(())
    }
}

/// The current and desired states of a path, and the decision about it.
struct Look {
    current: State,
    rendered: State,
    /// The file after its programs were run on the rendered one, which is accepted as well.
    programs_made: Option<State>,
    decision: Decision,
}

impl Circumstances<'_> {
    /// Inspects all desired paths.
    fn look_at(&self, all: &[(PathBuf, &Item)], attributes: &Wanted) -> Vec<Result<Look>> {
        let (record, is_apply) = (self.record, self.is_apply);
        let (host, tracker) = (self.host, self.tracker);
        let look = |(path, item): &(PathBuf, &Item), tracker: &Tracker| {
            let track = record.tracks().get(path);
            let current = tracker.state(path)?;
            if matches!(item, Item::Directory) && tracker.is_overlaid(path) {
                let shown = host.below_root(path);
                let problem =
                    format!("{} would become a directory, and has resource files of its own", shown.display());
                return Err(ScaffoldError::Never(problem));
            }
            if is_apply && track.is_none() {
                tracker.reject_edited(path)?;
            }
            let base = match track {
                Some(track) => &track.base,
                None if tracker.has_made(path, &current)? => &State::Absent,
                None => &current,
            };
            let rendered = attributes.state(item, base);
            let made = track.and_then(|track| track.provisioned.as_ref());
            let is_as_before = record.rendered(path).is_some_and(|before| *before == rendered);
            let programs_made = made.filter(|_| is_as_before).cloned();
            let decision = tracker.decide(path, track, &current, programs_made.as_ref().unwrap_or(&rendered))?;
            Ok(Look { current, rendered, programs_made, decision })
        };
        in_shares(all, host.jobs(), tracker, || tracker.reopen(), look)
    }
}

/// The declared modes and owners.
struct Wanted {
    /// The default attributes of files.
    ours: Attributes,
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
    dir_mode: Option<u32>,
}

impl Wanted {
    fn from_definition(definition: &ScaffoldDefinition, host: &Host) -> Result<Wanted> {
        let mode = |key, text: &Option<String>| text.as_deref().and_then(|text| values::mode(key, text).ok());
        let (uid, gid) = host.accounts().owners(definition.owner.as_deref(), definition.group.as_deref())?;
        let (mode, dir_mode) = (mode("mode", &definition.mode), mode("dir_mode", &definition.dir_mode));
        let (own_uid, own_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let ours = Attributes { mode: FILE_MODE, uid: own_uid, gid: own_gid };
        Ok(Wanted { ours, uid, gid, mode, dir_mode })
    }

    /// Returns the desired state. Undeclared attributes are those from before the first apply, or the defaults.
    fn state(&self, item: &Item, base: &State) -> State {
        let usual = Attributes {
            mode: match item {
                Item::Directory => DIRECTORY_MODE,
                Item::File { sensitive: true, .. } => SENSITIVE_MODE,
                _ => FILE_MODE,
            },
            ..self.ours
        };
        let found = match (item, base) {
            (Item::Directory, State::Directory { attributes })
            | (Item::File { .. }, State::File { attributes, .. }) => Some(*attributes),
            (Item::Symlink(_), State::Symlink { uid, gid, .. }) => Some(Attributes { uid: *uid, gid: *gid, ..usual }),
            _ => None,
        };
        let start = found.unwrap_or(usual);
        let (uid, gid) = (self.uid.unwrap_or(start.uid), self.gid.unwrap_or(start.gid));
        match item {
            Item::Directory => {
                State::Directory { attributes: Attributes { mode: self.dir_mode.unwrap_or(start.mode), uid, gid } }
            }
            Item::Symlink(target) => State::Symlink { target: target.clone().into(), uid, gid },
            Item::File { bytes, executable, .. } => {
                let mode = self.mode.unwrap_or(start.mode);
                // Users who may read an executable file may also execute it.
                let mode = if *executable { mode | (mode & 0o444) >> 2 } else { mode };
                State::File { content: Digest::of_bytes(bytes), attributes: Attributes { mode, uid, gid } }
            }
        }
    }
}

/// A change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Make,
    Write,
    /// A change of these attributes, as a fragment such as `the mode`.
    Attributes(&'static str),
    Remove,
    Restore,
    RunPrograms,
}

impl Change {
    /// Returns the verb in the past tense.
    pub(crate) fn done(self) -> String {
        let words = match self {
            Change::Make => "made",
            Change::Write => "wrote",
            Change::Attributes(which) => return format!("changed {which} of"),
            Change::Remove => "removed",
            Change::Restore => "restored",
            Change::RunPrograms => "ran the programs for",
        };
        words.to_owned()
    }

    /// Returns the verb in the conditional: `would …`.
    pub(crate) fn doing(self) -> String {
        let words = match self {
            Change::Make => "would make",
            Change::Write => "would write",
            Change::Attributes(which) => return format!("would change {which} of"),
            Change::Remove => "would remove",
            Change::Restore => "would restore",
            Change::RunPrograms => "would run the programs for",
        };
        words.to_owned()
    }

    pub(crate) fn between(current: &State, desired: &State) -> Change {
        match (current, desired) {
            (_, State::Absent) => Change::Remove,
            (State::Absent, _) => Change::Make,
            _ => current.differs_by(desired).map_or(Change::Write, Change::Attributes),
        }
    }
}

/// The input of a plan.
pub(crate) struct Circumstances<'a> {
    pub(crate) host: &'a Host,
    pub(crate) definition: &'a ScaffoldDefinition,
    /// The canonical path of the directory that is rendered.
    pub(crate) target: &'a Path,
    /// A tracker that cannot leave the target.
    pub(crate) tracker: &'a Tracker,
    pub(crate) record: &'a Record,
    pub(crate) rendered: &'a Rendered,
    /// The paths inside the target that belong to other entities, and are not purged.
    pub(crate) others: &'a BTreeSet<PathBuf>,
    /// True if the plan is made by an apply. By then, orphaned edits are reverted, unless that was refused.
    pub(crate) is_apply: bool,
    /// Returns true if a program must be run for a file.
    pub(crate) has_programs: &'a dyn Fn(&Path) -> bool,
}

impl Circumstances<'_> {
    /// Returns true if a file is not purged, because it has an overlay or edits, or goes with its last edit.
    pub(crate) fn has_layers(&self, path: &Path) -> Result<bool> {
        let is_overlaid = self.tracker.is_overlaid(path) || self.tracker.goes_with_edits(path);
        Ok(is_overlaid || (self.is_apply && self.tracker.is_edited(path)?))
    }

    /// Returns true if a path belongs to another entity, which owns a path inside the target.
    pub(crate) fn is_others(&self, path: &Path) -> bool {
        path.ancestors().take_while(|above| *above != self.target).any(|above| self.others.contains(above))
    }
}

/// Returns true if a path that the source no longer contains is purged: it neither belongs to another entity nor is
/// at or below a mount point.
fn may_go(circumstances: &Circumstances<'_>, path: &Path) -> Result<bool> {
    if circumstances.is_others(path) || circumstances.has_layers(path)? {
        return Ok(false);
    }
    let target = circumstances.target;
    for part in path.ancestors().take_while(|part| *part != target) {
        let place = circumstances.tracker.place(part);
        if place.exists()? && place.is_mount_point()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds the removal of all undesired paths to the changes, and returns these paths. The changes already contain the
/// tracked paths.
pub(crate) fn purge(
    circumstances: &Circumstances<'_>,
    wanted: &BTreeSet<PathBuf>,
    changes: &mut BTreeMap<PathBuf, Change>,
) -> Result<Vec<PathBuf>> {
    let mut purged = Vec::new();
    let mut foreign_directories = Vec::new();
    let mut open = vec![circumstances.target.to_owned()];
    while let Some(directory) = open.pop() {
        for name in circumstances.tracker.entries(&directory)? {
            let path = directory.join(name);
            let place = circumstances.tracker.place(&path);
            let is_known = wanted.contains(&path) || circumstances.record.tracks().get(&path).is_some();
            let Some(looks) = place.stat()? else { continue };
            // A file can be a mount point, too.
            if circumstances.is_others(&path) || circumstances.has_layers(&path)? || place.is_mount_point()? {
                continue;
            }
            match looks.kind {
                Kind::Directory => {
                    if !wanted.contains(&path) {
                        foreign_directories.push(path.clone());
                    }
                    open.push(path);
                }
                Kind::File | Kind::Symlink if !is_known && !is_temporary(circumstances, wanted, &path)? => {
                    changes.insert(path.clone(), Change::Remove);
                    purged.push(path);
                }
                // Sockets, FIFOs and devices belong to programs.
                Kind::File | Kind::Symlink | Kind::Other => {}
            }
        }
    }
    // The deepest directories come first: a directory is empty if its subdirectories are removed.
    foreign_directories.sort();
    for directory in foreign_directories.into_iter().rev() {
        if empties(circumstances, changes, &directory)? {
            changes.insert(directory.clone(), Change::Remove);
            purged.push(directory);
        }
    }
    Ok(purged)
}

/// Returns true if this is a temporary file of a killed apply, which the next apply of its entity removes.
fn is_temporary(circumstances: &Circumstances<'_>, wanted: &BTreeSet<PathBuf>, path: &Path) -> Result<bool> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of = bytes.strip_suffix(b".holonew").map(|of| Path::new(OsStr::from_bytes(of)));
    Ok(circumstances.record.tracks().is_temporary(path)
        || of.is_some_and(|of| wanted.contains(of) || circumstances.is_others(of))
        || of.map_or(Ok(false), |of| circumstances.has_layers(of))?)
}

/// Returns true if all entries of a directory are removed.
fn empties(circumstances: &Circumstances<'_>, changes: &BTreeMap<PathBuf, Change>, directory: &Path) -> Result<bool> {
    let names = circumstances.tracker.entries(directory)?;
    Ok(names.into_iter().all(|name| changes.get(&directory.join(name)) == Some(&Change::Remove)))
}
