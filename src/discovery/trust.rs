//! The trust in everything that decides what a run does: files that other users may modify are refused. Those that version 3 used without a
//! check are used with a warning, unless the settings say otherwise.
//!
//! The configuration, data, facts, generators and programs of plugins are checked before they are used. If one is refused, the run ends.
//! Resource files are checked by entity, after the scan: of an untrusted file, only its entities are left out.

use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PerEntity};
use crate::error::FatalError;
use crate::generations;
use crate::host::engine::{EngineSettings, TrustMode};
use crate::host::root::Root;
use crate::plan::ownership::{Conflict, Contested};
use crate::report::Remarks;
use bstr::ByteSlice;
use holo_protocol::API_VERSION_4;
use holo_system::{Trust, Violation};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The end of warnings and errors about untrusted files.
const CONSEQUENCE: &str = ", so other users can change what root does";
/// The plugins whose resource files version 3 used too.
const PLUGINS_OF_VERSION_3: [&str; 4] = ["files", "run-scripts", "ssh-keys", "users-groups"];
/// The maximum number of warnings about resource files, as a whole directory may be untrusted.
const SHOWN: usize = 20;

/// Checks files, and remembers the results for directories.
pub struct Inspector<'a> {
    root: &'a Root,
    trust: Trust,
    mode: Option<TrustMode>,
    directories: HashMap<PathBuf, Option<Violation>>,
    /// The paths that have been warned of. A directory may concern several files.
    warned: HashSet<PathBuf>,
}

/// The version that introduced the use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Version3,
    Version4,
}

/// The untrusted resource files of entities.
#[derive(Default)]
pub struct Untrusted {
    /// Those that are refused.
    pub conflicts: Vec<Conflict>,
    /// Those that are used with a warning.
    tolerated: Vec<Violation>,
}

impl Untrusted {
    /// Returns true if all files are trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conflicts.is_empty() && self.tolerated.is_empty()
    }

    /// Reports the files that are used nevertheless.
    pub fn report(&self, remarks: &mut (impl Remarks + ?Sized)) {
        for violation in self.tolerated.iter().take(SHOWN) {
            warn(violation, remarks);
        }
        match self.tolerated.len().checked_sub(SHOWN) {
            None | Some(0) => {}
            Some(more) => {
                remarks.warning(format!("{more} more resource files are not trusted; holo doctor lists them"));
            }
        }
    }
}

/// Returns true if a remark is about an untrusted file.
#[must_use]
pub fn is_remark(text: &[u8]) -> bool {
    text.ends_with_str(CONSEQUENCE)
}

/// Describes an untrusted file.
#[must_use]
pub fn describe(violation: &Violation) -> String {
    format!("{violation}{CONSEQUENCE}")
}

fn warn(violation: &Violation, remarks: &mut (impl Remarks + ?Sized)) {
    remarks.warning(describe(violation));
    remarks.advise(violation.remedy());
}

impl<'a> Inspector<'a> {
    /// Returns an inspector of the inputs below a root, with the mode that the settings have now: a watch keeps running
    /// when they change.
    #[must_use]
    pub fn new(root: &'a Root) -> Inspector<'a> {
        let trust = Trust::new(root.as_given());
        // Untrusted settings must not disable the checks.
        let is_trusted = trust.examine(&root.engine_settings()).is_ok();
        let mode = if is_trusted { EngineSettings::read(root).0.trust.mode } else { None };
        Inspector { root, trust, mode, directories: HashMap::new(), warned: HashSet::new() }
    }

    /// Checks the configuration, data, facts and generators.
    ///
    /// # Errors
    /// If one of them is refused.
    pub fn check_inputs(&mut self, remarks: &mut (impl Remarks + ?Sized)) -> Result<(), FatalError> {
        let root = self.root;
        let of_version_3 = [root.holorc(), root.holorc_snippets(), root.generators()];
        let others = generations::followed(root).chain([root.engine_settings()]);
        let others: Vec<PathBuf> = others.filter(|path| !of_version_3.contains(path)).collect();
        for path in of_version_3 {
            self.check_tree(&path, Since::Version3, remarks)?;
        }
        for path in others {
            self.check_tree(&path, Since::Version4, remarks)?;
        }
        Ok(())
    }

    /// Checks the program of a plugin.
    ///
    /// # Errors
    /// If it is refused.
    pub fn check_program(&mut self, path: &Path, remarks: &mut (impl Remarks + ?Sized)) -> Result<(), FatalError> {
        match self.violation(path) {
            Some(violation) => self.treat(&violation, Since::Version3, remarks),
            None => Ok(()),
        }
    }

    /// Checks the resource files of all entities. An untrusted directory of a plugin also concerns its orphans, whose
    /// definitions another user may have removed. Entities whose files are known to be trusted are left out.
    #[must_use]
    pub fn check_entities(
        &mut self,
        entities: &PerEntity<Entity>,
        is_known: impl Fn(EntityIndex) -> bool,
    ) -> Untrusted {
        let root = self.root;
        let mut refused: BTreeMap<PathBuf, (Violation, Vec<EntityIndex>)> = BTreeMap::new();
        let mut tolerated = BTreeMap::new();
        // Many entities may be defined in one file.
        let mut last: Option<(PathBuf, Option<Violation>)> = None;
        for (index, entity) in entities.entries().filter(|(index, _)| !is_known(*index)) {
            let mut paths: Vec<PathBuf> = entity.sources().map(|source| source.to_path_lossy().into_owned()).collect();
            if entity.is_orphan() {
                paths.extend([root.resources(), root.own_resources()].map(|parent| parent.join(entity.plugin_id())));
            }
            for path in paths {
                let known = last.take().filter(|(seen, _)| *seen == path).map(|(_, violation)| violation);
                let violation = known.unwrap_or_else(|| self.violation(&root.as_read(&path)));
                last = Some((path.clone(), violation.clone()));
                let Some(violation) = violation else { continue };
                if !self.refuses(self.since(entity, &path)) {
                    tolerated.entry(violation.path.clone()).or_insert(violation);
                    continue;
                }
                let (_, owners) = refused.entry(violation.path.clone()).or_insert_with(|| (violation, Vec::new()));
                if owners.last() != Some(&index) {
                    owners.push(index);
                }
            }
        }
        let conflict = |(violation, owners)| Conflict { about: Contested::Untrusted(violation), owners };
        Untrusted {
            conflicts: refused.into_values().map(conflict).collect(),
            tolerated: tolerated.into_values().collect(),
        }
    }

    /// Returns all untrusted files and directories among the inputs, for a report to the administrator.
    #[must_use]
    pub fn find_all(&mut self) -> Vec<Violation> {
        let root = self.root;
        let trees = [root.resources(), root.own_resources(), root.engine_settings(), root.states()];
        let trees: Vec<PathBuf> = trees.into_iter().chain(generations::followed(root)).collect();
        let mut found: BTreeMap<PathBuf, Violation> = BTreeMap::new();
        for tree in trees {
            let violations = self.violations_below(&tree);
            found.extend(violations.into_iter().map(|violation| (violation.path.clone(), violation)));
        }
        found.into_values().collect()
    }

    fn since(&self, entity: &Entity, source: &Path) -> Since {
        let directories = [self.root.resources(), self.root.own_resources()].map(|parent| parent.join("files"));
        // Overlays are in subdirectories, the definitions of version 4 are not.
        let is_definition = source.parent().is_some_and(|parent| directories.iter().any(|files| files == parent));
        let is_of_version_3 = PLUGINS_OF_VERSION_3.contains(&entity.plugin_id()) && !is_definition;
        if entity.api_version() < API_VERSION_4 || is_of_version_3 { Since::Version3 } else { Since::Version4 }
    }

    fn check_tree(
        &mut self,
        path: &Path,
        since: Since,
        remarks: &mut (impl Remarks + ?Sized),
    ) -> Result<(), FatalError> {
        self.violations_below(path).iter().try_for_each(|violation| self.treat(violation, since, remarks))
    }

    /// Reports a violation, as an error if the file is refused.
    fn treat(
        &mut self,
        violation: &Violation,
        since: Since,
        remarks: &mut (impl Remarks + ?Sized),
    ) -> Result<(), FatalError> {
        if !self.refuses(since) {
            if self.warned.insert(violation.path.clone()) {
                warn(violation, remarks);
            }
            return Ok(());
        }
        remarks.error(describe(violation));
        remarks.advise(violation.remedy());
        Err(FatalError::Reported)
    }

    fn refuses(&self, since: Since) -> bool {
        self.mode.map_or(since == Since::Version4, |mode| mode == TrustMode::Enforce)
    }

    /// Returns the violations of a path, which need not exist, and of everything below it. Symlinks are followed.
    fn violations_below(&mut self, path: &Path) -> Vec<Violation> {
        let entries = WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter().filter_map(Result::ok);
        let mut found: Vec<Violation> = entries.filter_map(|entry| self.violation(entry.path())).collect();
        found.dedup();
        found
    }

    /// Returns the violation of a file or directory; `None` for a path that cannot be resolved.
    fn violation(&mut self, path: &Path) -> Option<Violation> {
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_symlink() || metadata.is_dir() {
            return self.violation_of_directory(path);
        }
        let own = self.trust.judge(path, &metadata).err();
        own.or_else(|| self.violation_of_directory(path.parent()?))
    }

    /// Returns the first violation on the path to a directory, or to the target of a symlink.
    fn violation_of_directory(&mut self, path: &Path) -> Option<Violation> {
        if let Some(known) = self.directories.get(path) {
            return known.clone();
        }
        let path_or_here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let violation = self.trust.violation(path_or_here);
        self.directories.insert(path.to_owned(), violation.clone());
        violation
    }
}
