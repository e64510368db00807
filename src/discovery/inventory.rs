//! The inventory: all entities, and what discovery found out about them. Plugins that failed before the end of the scan determine whether a
//! run continues without them.

use super::remembered::Remembered;
use crate::cli::Selection;
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::entities::resources::Resources;
use crate::error::FatalError;
use crate::host::cache::CacheDirectory;
use crate::host::root::{Root, normalise};
use crate::plan::refresh::Refreshes;
use crate::plan::select::{self, Selected};
use crate::plan::sent::SentValues;
use crate::plan::{Dangling, Plan, Requirement};
use crate::plugin::Plugin;
use crate::report::Provisional;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::API_VERSION_3;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Applies entities. Plugins get their state directories, which are created if missing.
    Apply,
    /// Finds out what an apply would do. Otherwise like [`Purpose::Inspect`].
    Check,
    /// Inspects only. Works for any user, on any root, and writes only to the cache directory.
    Inspect,
}

/// The result of discovery. The cache directory lives as long as this.
#[derive(Debug)]
pub struct Inventory {
    /// The plugins, in the order of the configuration.
    pub plugins: Table<PluginIndex, Plugin>,
    /// The entities, grouped by plugin and sorted by ID.
    pub entities: PerEntity<Entity>,
    /// The dependencies of the entities.
    pub plan: Plan,
    /// For each plugin, whether an entity may be missing because the plugin failed or reported a problem with its list.
    pub flaws: Table<PluginIndex, bool>,
    /// For each plugin, whether it was scanned for some entities only.
    pub limited: Table<PluginIndex, bool>,
    /// References to entities that do not exist.
    pub dangling: Vec<Dangling>,
    /// The IDs of plugins that failed, and without which the run continues.
    pub failed: Vec<String>,
    /// The paths at which programs of plugins are missing. The run continues without these plugins, as in version 3.
    pub missing: Vec<PathBuf>,
    /// Maps paths to those that users know.
    pub resources: Arc<Resources>,
    /// The root of the system.
    pub root: Root,
    /// What earlier applies have found out, and this run.
    pub remembered: Remembered,
    // Declared after the plugins, because sessions must end before their cache directory is removed.
    pub(crate) cache: Arc<CacheDirectory>,
}

impl Inventory {
    /// Returns the cache directory, which is removed at the end of the run.
    #[must_use]
    pub fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// Returns true if a definition is invalid, so that the command cannot be carried out completely. If there are
    /// selectors, it can: the selected entities are valid.
    #[must_use]
    pub fn is_flawed_for(&self, selection: &Selection) -> bool {
        self.flaws.iter().any(|&is_flawed| is_flawed) && selection.selectors.is_empty()
    }

    /// Returns the selected entities, if there are selectors and each of them matches.
    pub(crate) fn selected(
        entities: &PerEntity<Entity>,
        plugins: &Table<PluginIndex, Plugin>,
        selectors: &[OsString],
        root: &Root,
    ) -> Option<Selected> {
        let plugins: Vec<&str> = plugins.iter().map(|plugin| &*plugin.id).collect();
        select::select(entities, &plugins, selectors, root).ok().filter(|_| !selectors.is_empty())
    }

    /// Returns true if the selection may be incomplete, or cannot be worked on, without a plugin that has failed.
    pub(crate) fn needs(&self, failed: &Failed, purpose: Purpose, selectors: &[OsString]) -> bool {
        let Some(selected) = Inventory::selected(&self.entities, &self.plugins, selectors, &self.root) else {
            return true;
        };
        let is_id = |selector: &OsString| {
            let mut entities = self.selected_of(&selected);
            let plugins = self.plugins.iter().map(|plugin| &*plugin.id).filter(|id| *id != failed.plugin_id);
            plugins.clone().any(|id| selector == id) || entities.any(|(_, entity)| entity.id() == selector.as_bytes())
        };
        let may_select =
            |selector: &&OsString| self.resources.may_select(selector.as_bytes().as_bstr(), &failed.plugin_id);
        let ids: HashSet<&BStr> = self.entities.iter().map(Entity::id).collect();
        let needs = |(index, entity): (EntityIndex, &Entity)| {
            if purpose == Purpose::Inspect || !entity.has_edges() {
                return false;
            }
            let edges = entity.report().edges;
            // The failed plugin may define it.
            let is_unknown = |requirement: &Requirement| matches!(requirement, Requirement::Unknown(_));
            self.plan.requirements(index).iter().any(is_unknown)
                // Its refresh would be lost.
                || (purpose == Purpose::Apply && edges.notifies.iter().any(|id| !ids.contains(id.as_bstr())))
                // An entity of the failed plugin may take over from the orphan.
                || (edges.orphan && !edges.owns.is_empty() && failed.version != Some(API_VERSION_3))
        };
        let mut of_selection = self.selected_of(&selected);
        selectors.iter().filter(|selector| !is_id(selector)).any(|selector| may_select(&selector))
            || of_selection.any(needs)
    }

    /// Returns the selected entities.
    pub fn selected_of(&self, selected: &Selected) -> impl Iterator<Item = (EntityIndex, &Entity)> {
        self.entities.entries().filter(|(index, _)| selected.contains(*index))
    }

    /// Returns the files that define entities but are in no resource directory, such as files that a definition refers
    /// to.
    #[must_use]
    pub fn sources_elsewhere(&self, root: &Root) -> Vec<PathBuf> {
        let known =
            [root.resources(), root.own_resources(), root.join("etc/holo"), self.resources.virtual_root().to_owned()];
        let top = root.join("");
        let below_root = |path: &Path| if path.starts_with(&top) { path.to_owned() } else { root.join(path) };
        let sources = self.entities.iter().flat_map(|entity| entity.report().sources);
        let paths = sources.map(|source| below_root(&normalise(&source.to_path_lossy())));
        let paths = paths.filter(|path| !known.iter().any(|known| path.starts_with(known)) && path.exists());
        let mut paths: BTreeSet<PathBuf> = paths.collect();
        if !paths.is_empty() {
            // An entity recreates the paths that it provides.
            let provided =
                self.entities.iter().filter(|entity| entity.has_edges()).flat_map(|entity| entity.edges().provides);
            let provided = provided.filter(|asset| asset.kind == "path");
            let provided: Vec<PathBuf> = provided.map(|asset| below_root(&asset.value.to_path_lossy())).collect();
            paths.retain(|path| !provided.iter().any(|provided| path.starts_with(provided)));
        }
        paths.into_iter().collect()
    }

    /// Hands the pending refreshes of orphans over to the entities that take over from them.
    pub fn hand_over_refreshes(&self, refreshes: &mut Refreshes) {
        for (orphan, entity) in self.entities.entries() {
            let successors = self.plan.successors(orphan).iter().map(|&successor| &self.entities[successor]);
            let successors: Vec<(&BStr, &str)> = successors.map(|entity| (entity.id(), entity.plugin_id())).collect();
            if !successors.is_empty() {
                refreshes.hand_over(entity.id(), &successors);
            }
        }
    }

    /// Drops the refreshes and sent values of entities that no longer exist: their plugin has listed everything, and
    /// they are not in the list. Entities of a plugin that is missing, or whose list is incomplete, are kept. Returns the entities that were
    /// to be refreshed.
    pub fn forget_gone(&self, refreshes: &mut Refreshes, sent: &mut SentValues) -> BTreeSet<BString> {
        let ids: HashSet<&BStr> = self.entities.iter().map(Entity::id).collect();
        let whole: HashSet<&str> = self.whole_plugins().map(|(_, plugin)| &*plugin.id).collect();
        let is_gone = |entity: &BStr, plugin: &str| !ids.contains(entity) && whole.contains(plugin);
        sent.forget(is_gone);
        refreshes.forget(is_gone)
    }

    /// Removes what a killed run has left of plugins that have no entities. Call it only while holding the lock.
    pub fn tidy_idle_plugins(&self) {
        let busy: HashSet<PluginIndex> = self.entities.iter().map(|entity| entity.plugin).collect();
        let plugins = self.whole_plugins().filter(|(index, _)| !busy.contains(index));
        let plugins = plugins.map(|(_, plugin)| &*plugin.id);
        // Ignored, as the next run tries again.
        let _ = holo_change::tracked::tidy_idle(&self.root.engine_locations(), plugins);
    }

    /// Returns the plugins that have certainly listed all of their entities.
    fn whole_plugins(&self) -> impl Iterator<Item = (PluginIndex, &Plugin)> {
        self.plugins.entries().filter(|(index, _)| !self.flaws[*index] && !self.limited[*index])
    }
}

impl Drop for Inventory {
    fn drop(&mut self) {
        // All sessions end concurrently this way, and are then waited for one after the other.
        self.plugins.iter_mut().for_each(Plugin::dismiss);
    }
}

/// The failures of plugins that do not end a run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// None: every plugin matters.
    Nothing,
    /// Those of plugins known to speak version 3, whose entities cannot subscribe to others. A failed plugin of version
    /// 4 might have entities that a change must refresh.
    Version3,
    /// All failures.
    Everything,
}

/// The plugins that have failed so far.
#[derive(Debug)]
pub struct Failures {
    tolerance: Tolerance,
    plugins: Vec<Failed>,
}

/// A plugin that has failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its ID.
    pub plugin_id: String,
    /// The version of the interface that it speaks, if known.
    pub version: Option<u32>,
}

impl Failures {
    /// Returns an empty list.
    #[must_use]
    pub fn new(tolerance: Tolerance) -> Failures {
        Failures { tolerance, plugins: Vec::new() }
    }

    /// Adds a plugin whose failure has just been reported. If it is tolerated, all further remarks are held back until
    /// it is known whether the run can continue without the plugin.
    ///
    /// # Errors
    /// If the failure is not tolerated.
    pub fn add(
        &mut self,
        plugin_id: &str,
        version: Option<u32>,
        remarks: &mut Provisional<'_>,
    ) -> Result<(), FatalError> {
        let is_tolerated = match self.tolerance {
            Tolerance::Nothing => false,
            Tolerance::Version3 => version == Some(API_VERSION_3),
            Tolerance::Everything => true,
        };
        if !is_tolerated {
            return Err(FatalError::Reported);
        }
        remarks.hold();
        self.plugins.push(Failed { plugin_id: plugin_id.to_owned(), version });
        Ok(())
    }

    /// Returns the plugins, in the order in which they failed.
    #[must_use]
    pub fn into_plugins(self) -> Vec<Failed> {
        self.plugins
    }
}
