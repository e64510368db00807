//! The way from the configuration to the entities, which every command takes first.

use crate::cache::CacheDirectory;
use crate::cli::Selection;
use crate::concurrently::concurrently;
use crate::config::{self, ConfigError, Configuration, PluginLine};
use crate::declarations::Declarations;
use crate::descriptors;
use crate::entity::Entity;
use crate::error::{self, Fatal};
use crate::failures::{Failed, Failures, Tolerance};
use crate::generators;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::plan::{Cycle, Plan, Requirement};
use crate::plugin::handshake::{self, Handshake};
use crate::plugin::{Directories, OperationError, Plugin, RunOptions};
use crate::references::{self, Dangling};
use crate::refresh::Refreshes;
use crate::report::Console;
use crate::resources::Resources;
use crate::root::clean;
use crate::scan::{self, Scanned};
use crate::select;
use crate::settings::Settings;
use bstr::{BStr, ByteSlice};
use holo_protocol::API_VERSION_3;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It applies entities. Plugins get their state directories, which are made where they are missing.
    Apply,
    /// It finds out what an apply would do. Otherwise it is as [`Purpose::Look`].
    Check,
    /// It only looks, as anybody may, on any root. Nothing is written but in the cache.
    Look,
}

/// Everything there is to work on. The cache directory lives as long as this.
#[derive(Debug)]
pub struct Inventory {
    /// The plugins, in the order of the configuration.
    pub plugins: Vec<Plugin>,
    /// The entities: plugin after plugin, each plugin's by their IDs.
    pub entities: Vec<Entity>,
    /// The dependencies of the entities.
    pub plan: Plan,
    /// For each plugin, whether it has failed, or said that something is wrong with what it lists: then something may be missing.
    pub flaws: Vec<bool>,
    /// Names of entities that people have written, and that no entity has.
    pub dangling: Vec<Dangling>,
    /// The names that paths are shown by.
    pub resources: Arc<Resources>,
    // Plugins come first: their sessions end before their cache goes.
    _cache: CacheDirectory,
}

impl Inventory {
    /// Returns true if a definition cannot be used, so that the command is not done in full. With selectors it is: those entities are good.
    #[must_use]
    pub fn is_flawed_for(&self, selection: &Selection) -> bool {
        self.flaws.contains(&true) && selection.selectors.is_empty()
    }

    /// Returns true if what is selected is not all there, or cannot be worked on, without a plugin that has failed.
    fn needs(&self, failed: &Failed, purpose: Purpose, selectors: &[OsString]) -> bool {
        let Some(selected) = select(&self.entities, &self.plugins, selectors) else { return true };
        let is_id = |selector: &OsString| {
            let entities = self.entities.iter().zip(&selected).filter(|(_, is_selected)| **is_selected);
            let plugins = self.plugins.iter().map(|plugin| &*plugin.id).filter(|id| *id != failed.plugin_id);
            plugins.clone().any(|id| selector == id)
                || entities.clone().any(|(entity, _)| entity.id() == selector.as_bytes())
        };
        let may_select =
            |selector: &&OsString| self.resources.may_select(selector.as_bytes().as_bstr(), &failed.plugin_id);
        let ids: HashSet<&BStr> = self.entities.iter().map(Entity::id).collect();
        let needs = |(place, entity): (usize, &Entity)| {
            if purpose == Purpose::Look || !entity.has_edges() {
                return false;
            }
            let edges = entity.report().edges;
            // It may be defined there.
            let is_unknown = |requirement: &Requirement| matches!(requirement, Requirement::Unknown(_));
            self.plan.requirements(place).iter().any(is_unknown)
                // Its refresh would be forgotten.
                || (purpose == Purpose::Apply && edges.notifies.iter().any(|id| !ids.contains(id.as_bstr())))
                // Somebody may take over from it.
                || (edges.orphan && !edges.owns.is_empty() && failed.version != Some(API_VERSION_3))
        };
        let mut of_selection =
            self.entities.iter().enumerate().filter(|(place, _)| selected.get(*place) == Some(&true));
        selectors.iter().filter(|selector| !is_id(selector)).any(|selector| may_select(&selector))
            || of_selection.any(needs)
    }

    /// Hands the refreshes of orphans to the entities that take over from them.
    pub fn hand_over_refreshes(&self, refreshes: &mut Refreshes) {
        for (orphan, entity) in self.entities.iter().enumerate() {
            let successors = self.plan.successors(orphan).iter().filter_map(|&successor| self.entities.get(successor));
            let successors: Vec<(&BStr, &str)> = successors.map(|entity| (entity.id(), entity.plugin_id())).collect();
            if !successors.is_empty() {
                refreshes.hand_over(entity.id(), &successors);
            }
        }
    }

    /// Forgets the refreshes of entities that are gone: their plugin has listed everything, and does not have them any more. Of a plugin
    /// that is missing, or could not list everything, nobody knows.
    pub fn forget_refreshes(&self, refreshes: &mut Refreshes) {
        let ids: HashSet<&BStr> = self.entities.iter().map(Entity::id).collect();
        let plugins = self.plugins.iter().zip(&self.flaws).filter(|(_, is_flawed)| !**is_flawed);
        let whole: HashSet<&str> = plugins.map(|(plugin, _)| &*plugin.id).collect();
        refreshes.forget(|target, plugin| !ids.contains(target) && whole.contains(plugin));
    }
}

impl Drop for Inventory {
    fn drop(&mut self) {
        // Then they end side by side, and are waited for one after the other.
        self.plugins.iter_mut().for_each(Plugin::dismiss);
    }
}

/// Reads the configuration, meets the plugins, runs the generators and scans.
///
/// A plugin that fails, and a cycle, end the run, unless the selectors are about others alone.
///
/// # Errors
/// Whatever makes the run end before its command began.
pub fn discover(
    settings: &Settings,
    purpose: Purpose,
    selectors: &[OsString],
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Inventory, Fatal> {
    let mut failures = Failures::new(match purpose {
        _ if selectors.is_empty() => Tolerance::Nothing,
        Purpose::Apply => Tolerance::Version3,
        Purpose::Check | Purpose::Look => Tolerance::Everything,
    });
    let discovered = discover_all(settings, purpose, selectors, &mut failures, interrupt, console);
    let Some(held) = console.take_held() else { return discovered };
    match discovered {
        Ok(inventory) if !failures.plugins().iter().any(|failed| inventory.needs(failed, purpose, selectors)) => {
            for Failed { plugin_id, .. } in failures.plugins() {
                console.warning(format!(
                    "Going on without plugin {plugin_id}, as nothing that is selected is of it or needs it"
                ));
            }
            console.replay(held);
            console.end_paragraph();
            Ok(inventory)
        }
        Err(fatal @ (Fatal::Interrupted { .. } | Fatal::TimeIsOver { .. })) => {
            console.replay(held);
            Err(fatal)
        }
        // The first failure was the end of it.
        Ok(_) | Err(_) => Err(Fatal::Reported),
    }
}

fn discover_all(
    settings: &Settings,
    purpose: Purpose,
    selectors: &[OsString],
    failures: &mut Failures,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Inventory, Fatal> {
    let cache = CacheDirectory::create(&settings.temporary_directory)?;
    let Configuration { plugins: lines, leftovers } =
        config::read(&settings.root).map_err(|error| configuration_error(&error, console))?;
    for file in leftovers {
        console.warning(format!("Skipping {}: its name is that of a leftover or a backup", file.display()));
    }
    let asked_for = lines.len();
    let at_once = descriptors::make_room(lines.len());
    let room_for_all = at_once >= lines.len();
    let met = meet_all(lines, at_once, settings, failures, interrupt, console)?;
    check_resource_directories(settings, &met, console)?;
    // Generators find them, too, and they stay if one of those fails.
    let candidates = met.into_iter().map(|(id, met)| Slot::prepare(id, met, purpose, settings, &cache, console));
    let candidates: Vec<Slot> = candidates.collect::<Result<_, _>>()?;
    let generated = generators::run(settings, &cache, interrupt, console)?;
    let ids = candidates.iter().map(|session| session.id.as_str());
    let resources = Arc::new(Resources::prepare(&settings.root, &cache, generated, ids)?);
    let options = RunOptions {
        verify: settings.verify,
        hints: console.person_reads_errors(),
        read_only: purpose != Purpose::Apply,
        jobs: settings.jobs,
        room_for_all,
        limit: settings.limit,
    };
    let mut plugins: Vec<Plugin> =
        candidates.into_iter().map(|session| session.take(settings, &resources, options)).collect();
    let Scanned { entities, flaws } = scan::all(&mut plugins, at_once, &resources, failures, interrupt, console)?;
    let declarations = Declarations::of(&entities);
    let nodes = declarations.nodes(&entities);
    let plan = plan(&nodes, || select(&entities, &plugins, selectors), console)?;
    // If something is missing, names may well be right.
    let is_whole = plugins.len() == asked_for && !flaws.contains(&true);
    let dangling = if is_whole { references::dangling(&nodes) } else { Vec::new() };
    drop(nodes);
    Ok(Inventory { plugins, entities, plan, flaws, dangling, resources, _cache: cache })
}

/// Returns the entities that are selected, if there are selectors and each of them selects something.
fn select(entities: &[Entity], plugins: &[Plugin], selectors: &[OsString]) -> Option<Vec<bool>> {
    let plugins: Vec<&str> = plugins.iter().map(|plugin| &*plugin.id).collect();
    select::select(entities, &plugins, selectors).ok().filter(|_| !selectors.is_empty())
}

/// Plans all entities, or all but those that a cycle keeps from having an order if none of those is selected.
fn plan(
    nodes: &[Node<'_>],
    selected: impl FnOnce() -> Option<Vec<bool>>,
    console: &mut Console,
) -> Result<Plan, Fatal> {
    let could_not_run = |cycle: Cycle| Fatal::CouldNotRun(cycle.to_string());
    let cycle = match Plan::new(nodes) {
        Ok(plan) => return Ok(plan),
        Err(cycle) => cycle,
    };
    let Some(selected) = selected() else { return Err(could_not_run(cycle)) };
    let plan = Plan::of_selected(nodes, &selected).map_err(could_not_run)?;
    console.error(cycle.to_string());
    console.warning("Going on, as nothing that is selected is in the cycle or waits for it");
    console.end_paragraph();
    Ok(plan)
}

fn configuration_error(error: &ConfigError, console: &mut Console) -> Fatal {
    console.error(error.to_string());
    if let ConfigError::UnknownCommand(bad) = error {
        let place = &bad.location;
        console.advise(format!("{place}: a line is empty, a comment (# …), `plugin ID` or `plugin ID=PATH`"));
    }
    Fatal::Reported
}

fn meet_all(
    lines: Vec<PluginLine>,
    at_once: usize,
    settings: &Settings,
    failures: &mut Failures,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Vec<(String, Handshake)>, Fatal> {
    let located: Vec<(PluginLine, PathBuf)> =
        lines.into_iter().filter_map(|line| locate(line, settings, console)).collect();
    let ids: Vec<String> = located.iter().map(|(line, _)| line.id.clone()).collect();
    let met = concurrently(
        located,
        at_once,
        console,
        |(line, program), on_output| {
            let met = handshake::shake_hands(&line.id, &program, settings, interrupt, on_output);
            met.map(|met| (line.id, met))
        },
        |_, stream, bytes, console| console.write(stream, bytes),
        |index, met, console| match met {
            Ok(met) => Ok(Some(met)),
            Err(OperationError::Failed(reason)) => {
                console.error(reason);
                // The version that it speaks is not known yet.
                failures.add(ids.get(index).map_or("", String::as_str), None, console)?;
                Ok(None)
            }
            Err(OperationError::Fatal(fatal)) => Err(fatal),
        },
    )?;
    Ok(met.into_iter().flatten().collect())
}

/// Returns the path of the line's plugin. A missing one is no error: its package may have been removed, and its configuration stayed.
fn locate(line: PluginLine, settings: &Settings, console: &mut Console) -> Option<(PluginLine, PathBuf)> {
    match handshake::locate(&line, settings) {
        Ok(program) => Some((line, program)),
        Err(missing) => {
            console.error(format!("{}: file not found", missing.display()));
            let path = line.program.map_or_else(String::new, |path| format!("={}", path.display()));
            console.warning(format!("Skipping plugin: {}{path}", line.id));
            None
        }
    }
}

fn check_resource_directories(
    settings: &Settings,
    met: &[(String, Handshake)],
    console: &mut Console,
) -> Result<(), Fatal> {
    let mut all_there = true;
    for (id, _) in met {
        let path = settings.root.resources().join(id);
        let problem = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => continue,
            Ok(_) => format!("{} is not a directory", path.display()),
            Err(error) => error::at("stat", &path, &error),
        };
        console.error(format!("cannot open {}: {problem}", path.display()));
        all_there = false;
    }
    if all_there { Ok(()) } else { Err(Fatal::Reported) }
}

/// A plugin that was met, with the directories that are its own.
struct Slot {
    id: String,
    met: Handshake,
    state: PathBuf,
    cache: PathBuf,
}

impl Slot {
    fn prepare(
        id: String,
        met: Handshake,
        purpose: Purpose,
        settings: &Settings,
        cache: &CacheDirectory,
        console: &mut Console,
    ) -> Result<Slot, Fatal> {
        let state = settings.root.state(&id);
        let state = match purpose {
            Purpose::Apply => {
                create_directories(&state).map_err(|error| Fatal::io("mkdir", &state, &error))?;
                state
            }
            Purpose::Check | Purpose::Look => match check_readable(&state) {
                Ok(()) => state,
                Err(error) => {
                    if error.kind() != io::ErrorKind::NotFound {
                        let reason = error::at("open", &state, &error);
                        console.warning(format!("{reason}; what {id} has applied before is not known"));
                    }
                    cache.state_stand_in(&id)?
                }
            },
        };
        Ok(Slot { cache: cache.subdirectory(&id)?, id, met, state })
    }

    fn take(self, settings: &Settings, resources: &Resources, options: RunOptions) -> Plugin {
        let Slot { id, met, state, cache } = self;
        let directories = Directories {
            root: settings.root.as_given().to_owned(),
            resources: clean(&resources.directory(&id)),
            state,
            cache,
        };
        Plugin::new(id, &met, directories, options)
    }
}

/// Fails unless there is something that we may read as a directory. What is there and is none, the plugin finds out.
fn check_readable(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(path, Access::READ_OK | Access::EXEC_OK)?)
}

fn create_directories(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}
