//! Plans the steps that provision a target, without changing anything.

use crate::change::{Change, Circumstances};
use crate::definition::ScaffoldDefinition;
use crate::error::{Result, ScaffoldError};
use crate::purge;
use crate::source::Item;
use holo_change::in_shares;
use holo_change::tracked::{Attributes, Decision, Digest, Found, State, Track, Tracker};
use holo_plugin::definitions::values;
use holo_plugin::{Accounts, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::path::PathBuf;

const FILE_MODE: u32 = 0o644;
const SENSITIVE_MODE: u32 = 0o600;
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
            plan.clear.extend(purge::purge(circumstances, &wanted, &mut plan.changes)?);
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
        let purges = circumstances.definition.purge && is_inside && purge::may_go(circumstances, &path)?;
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
                if purge::empties(circumstances, &self.changes, &path)? {
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
                && !purge::empties(circumstances, &self.changes, path)?
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
        let (known, record, is_apply) = (self.known, self.record, self.is_apply);
        let (host, tracker) = (self.host, self.tracker);
        let look = |(path, item): &(PathBuf, &Item), tracker: &Tracker| {
            let track = record.tracks().get(path);
            let current = known.state(path, track, tracker)?;
            if matches!(item, Item::Directory) && tracker.is_overlaid(path) {
                let shown = host.below_root(path);
                let problem =
                    format!("{} would become a directory, and has resource files of its own", shown.display());
                return Err(ScaffoldError::Never(problem));
            }
            if is_apply && track.is_none() {
                tracker.reject_edited(path)?;
            }
            let rendered = attributes.state(item, track.map_or(&current, |track| &track.base));
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
        let (mut uid, mut gid) = (None, None);
        if definition.owner.is_some() || definition.group.is_some() {
            let accounts = Accounts::open(host)?;
            uid = definition.owner.as_deref().map(|owner| accounts.user(owner)).transpose()?;
            gid = definition.group.as_deref().map(|group| accounts.group(group)).transpose()?;
        }
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
