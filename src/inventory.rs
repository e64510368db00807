//! The entities that there are, and what is known of all of them.

use crate::cache::CacheDirectory;
use crate::cli::Selection;
use crate::entity::Entity;
use crate::failures::Failed;
use crate::index::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::plan::{Plan, Requirement};
use crate::plugin::Plugin;
use crate::references::Dangling;
use crate::refresh::Refreshes;
use crate::resources::Resources;
use crate::root::{Root, normalise};
use crate::select::{self, Selected};
use crate::sent::SentValues;
use bstr::{BStr, ByteSlice};
use holo_protocol::API_VERSION_3;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It applies entities. Plugins get their state directories, which are made where they are missing.
    Apply,
    /// It finds out what an apply would do. Otherwise it is as [`Purpose::Inspect`].
    Check,
    /// It only inspects, as anybody may, on any root. Nothing is written but in the cache.
    Inspect,
}

/// Everything there is to work on. The cache directory lives as long as this.
#[derive(Debug)]
pub struct Inventory {
    /// The plugins, in the order of the configuration.
    pub plugins: Table<PluginIndex, Plugin>,
    /// The entities: plugin after plugin, each plugin's by their IDs.
    pub entities: PerEntity<Entity>,
    /// The dependencies of the entities.
    pub plan: Plan,
    /// For each plugin, true if an entity may be missing: it has failed, or said that something is wrong with what it lists.
    pub flaws: Table<PluginIndex, bool>,
    /// For each plugin, true if it was asked for some entities only.
    pub limited: Table<PluginIndex, bool>,
    /// Names of entities that people have written, and that no entity has.
    pub dangling: Vec<Dangling>,
    /// The IDs of plugins that failed, and that the run goes on without.
    pub failed: Vec<String>,
    /// The names that paths are shown by.
    pub resources: Arc<Resources>,
    // Plugins come first: their sessions end before their cache goes.
    pub(crate) cache: Arc<CacheDirectory>,
}

impl Inventory {
    /// Returns the directory that is gone when the run has ended.
    #[must_use]
    pub fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// Returns true if a definition cannot be used, so that the command is not done in full. With selectors it is: those entities are good.
    #[must_use]
    pub fn is_flawed_for(&self, selection: &Selection) -> bool {
        self.flaws.iter().any(|&is_flawed| is_flawed) && selection.selectors.is_empty()
    }

    /// Returns the entities that are selected, if there are selectors and each of them selects something.
    pub(crate) fn selected(
        entities: &PerEntity<Entity>,
        plugins: &Table<PluginIndex, Plugin>,
        selectors: &[OsString],
    ) -> Option<Selected> {
        let plugins: Vec<&str> = plugins.iter().map(|plugin| &*plugin.id).collect();
        select::select(entities, &plugins, selectors).ok().filter(|_| !selectors.is_empty())
    }

    /// Returns true if what is selected is not all there, or cannot be worked on, without a plugin that has failed.
    pub(crate) fn needs(&self, failed: &Failed, purpose: Purpose, selectors: &[OsString]) -> bool {
        let Some(selected) = Inventory::selected(&self.entities, &self.plugins, selectors) else { return true };
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
            // It may be defined there.
            let is_unknown = |requirement: &Requirement| matches!(requirement, Requirement::Unknown(_));
            self.plan.requirements(index).iter().any(is_unknown)
                // Its refresh would be forgotten.
                || (purpose == Purpose::Apply && edges.notifies.iter().any(|id| !ids.contains(id.as_bstr())))
                // Somebody may take over from it.
                || (edges.orphan && !edges.owns.is_empty() && failed.version != Some(API_VERSION_3))
        };
        let mut of_selection = self.selected_of(&selected);
        selectors.iter().filter(|selector| !is_id(selector)).any(|selector| may_select(&selector))
            || of_selection.any(needs)
    }

    /// Returns the entities that are selected.
    pub fn selected_of(&self, selected: &Selected) -> impl Iterator<Item = (EntityIndex, &Entity)> {
        self.entities.entries().filter(|(index, _)| selected.contains(*index))
    }

    /// Returns the files that define entities and are in no directory of resource files, such as those that a definition names.
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
            // An entity makes its things again.
            let provided =
                self.entities.iter().filter(|entity| entity.has_edges()).flat_map(|entity| entity.edges().provides);
            let provided = provided.filter(|asset| asset.kind == "path");
            let provided: Vec<PathBuf> = provided.map(|asset| below_root(&asset.value.to_path_lossy())).collect();
            paths.retain(|path| !provided.iter().any(|provided| path.starts_with(provided)));
        }
        paths.into_iter().collect()
    }

    /// Hands the refreshes of orphans to the entities that take over from them.
    pub fn hand_over_refreshes(&self, refreshes: &mut Refreshes) {
        for (orphan, entity) in self.entities.entries() {
            let successors = self.plan.successors(orphan).iter().map(|&successor| &self.entities[successor]);
            let successors: Vec<(&BStr, &str)> = successors.map(|entity| (entity.id(), entity.plugin_id())).collect();
            if !successors.is_empty() {
                refreshes.hand_over(entity.id(), &successors);
            }
        }
    }

    /// Forgets the refreshes of entities that are gone, and the values that they have sent: their plugin has listed everything, and does not
    /// have them any more. Of a plugin that is missing, or could not list everything, nobody knows.
    pub fn forget_gone(&self, refreshes: &mut Refreshes, sent: &mut SentValues) {
        let ids: HashSet<&BStr> = self.entities.iter().map(Entity::id).collect();
        let missing = self.flaws.iter().zip(&self.limited).map(|(is_flawed, is_limited)| *is_flawed || *is_limited);
        let plugins = self.plugins.iter().zip(missing).filter(|(_, may_miss_some)| !may_miss_some);
        let whole: HashSet<&str> = plugins.map(|(plugin, _)| &*plugin.id).collect();
        let is_gone = |entity: &BStr, plugin: &str| !ids.contains(entity) && whole.contains(plugin);
        refreshes.forget(is_gone);
        sent.forget(is_gone);
    }
}

impl Drop for Inventory {
    fn drop(&mut self) {
        // Then they end at the same time, and are waited for one after the other.
        self.plugins.iter_mut().for_each(Plugin::dismiss);
    }
}
