//! Discovery, the first phase of every command: from the configuration to the plan of all entities.

pub mod generators;
pub mod inventory;
pub mod limited;
mod manifest;
pub mod misplaced;
pub mod remembered;
pub mod scan;
pub mod settled;
pub mod trust;

use crate::entities::Entity;
use crate::entities::node::{Node, PerEntity, PluginIndex, Table};
use crate::entities::resources::Resources;
use crate::error::{FatalError, IoError};
use crate::generations::{self, Fingerprint};
use crate::host::cache::{self, CacheDirectory};
use crate::host::config::{self, ConfigError, MissingProgram, PluginLine};
use crate::host::interrupt::Interrupt;
use crate::host::root::normalise;
use crate::host::settings::Settings;
use crate::plan::edges::Declarations;
use crate::plan::{self, Plan, sent};
use crate::plugin::handshake::{self, Handshake};
use crate::plugin::{Directories, OperationError, Plugin, RunOptions};
use crate::report::{Provisional, Remark, Remarks, Reporter};
use holo_protocol::Info;
use holo_state::Database;
use inventory::{Failed, Failures, Inventory, Purpose, Tolerance};
use limited::Interest;
use remembered::Remembered;
use scan::{Answered, Heard, Scanned, concurrently, make_room};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use trust::Inspector;

/// Reads the configuration, performs the handshakes, runs the generators, and scans the plugins.
///
/// A failed plugin and a cycle end the run unless the selectors concern other entities only. With the fingerprint of the
/// inputs, plugins whose answers are known from earlier applies are not asked.
///
/// # Errors
/// The reason for which the run ends before its command begins.
pub fn discover(
    settings: &Settings,
    purpose: Purpose,
    selectors: &[OsString],
    inputs: Option<&Fingerprint>,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Inventory, FatalError> {
    let tolerance = match purpose {
        _ if selectors.is_empty() => Tolerance::Nothing,
        Purpose::Apply => Tolerance::Version3,
        Purpose::Check | Purpose::Inspect => Tolerance::Everything,
    };
    let interest = Interest::Selectors(selectors);
    let discovered = Discovery::run(settings, (purpose, inputs), interest, tolerance, interrupt, reporter);
    let Discovered { inventory, failed, held: Some(held) } = discovered else { return discovered.inventory };
    match inventory {
        Ok(inventory) if !failed.iter().any(|failed| inventory.needs(failed, purpose, selectors)) => {
            for Failed { plugin_id, .. } in failed {
                reporter.warning(format!("Continuing without plugin {plugin_id}, which no selected entity needs"));
            }
            held.into_iter().for_each(|remark| reporter.remark(remark));
            reporter.end_paragraph();
            Ok(inventory)
        }
        Err(fatal @ (FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. })) => {
            held.into_iter().for_each(|remark| reporter.remark(remark));
            Err(fatal)
        }
        // The first failure has ended the discovery.
        Ok(_) | Err(_) => Err(FatalError::Reported),
    }
}

/// Like [`discover`], but leaves out every plugin that fails, for commands that show as much as possible. Incomplete
/// selectors are accepted.
///
/// # Errors
/// If the run cannot continue at all, for example without a configuration.
pub fn discover_what_answers(
    settings: &Settings,
    purpose: Purpose,
    interest: Interest<'_>,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Inventory, FatalError> {
    let discovered = Discovery::run(settings, (purpose, None), interest, Tolerance::Everything, interrupt, reporter);
    let Discovered { inventory, failed, held } = discovered;
    for Failed { plugin_id, .. } in &failed {
        reporter.warning(format!("Continuing without plugin {plugin_id}"));
    }
    if let Some(held) = held {
        held.into_iter().for_each(|remark| reporter.remark(remark));
        reporter.end_paragraph();
    }
    let failed = failed.into_iter().map(|failed| failed.plugin_id).collect();
    inventory.map(|mut inventory| {
        inventory.failed = failed;
        inventory
    })
}

/// The result of a discovery.
struct Discovered {
    inventory: Result<Inventory, FatalError>,
    /// The plugins that failed. The failures have been reported.
    failed: Vec<Failed>,
    /// The remarks that are held back since the first of these failures.
    held: Option<Vec<Remark<'static>>>,
}

/// A discovery in progress.
struct Discovery<'a> {
    settings: &'a Settings,
    purpose: Purpose,
    /// The inputs, if what is remembered may be used.
    inputs: Option<&'a Fingerprint>,
    interest: Interest<'a>,
    interrupt: &'a Interrupt,
    failures: Failures,
    /// The paths at which programs of plugins are missing.
    missing: Vec<PathBuf>,
    remarks: Provisional<'a>,
}

impl<'a> Discovery<'a> {
    /// Runs all steps.
    fn run(
        settings: &'a Settings,
        (purpose, inputs): (Purpose, Option<&'a Fingerprint>),
        interest: Interest<'a>,
        tolerance: Tolerance,
        interrupt: &'a Interrupt,
        reporter: &'a mut dyn Reporter,
    ) -> Discovered {
        let (failures, remarks) = (Failures::new(tolerance), Provisional::new(reporter));
        let missing = Vec::new();
        let mut discovery = Discovery { settings, purpose, inputs, interest, interrupt, failures, missing, remarks };
        let inventory = discovery.inventory();
        let Discovery { failures, mut remarks, .. } = discovery;
        Discovered { inventory, failed: failures.into_plugins(), held: remarks.take_held() }
    }

    fn inventory(&mut self) -> Result<Inventory, FatalError> {
        let cache = CacheDirectory::create(&self.settings.temporary_directory)?;
        generations::write_kept(&self.settings.root, &cache.path().join(cache::KEPT))
            .map_err(FatalError::could_not_run)?;
        sent::publish(&Database::snapshot(self.settings.root.state_database()), cache.path())
            .map_err(FatalError::could_not_run)?;
        let mut inspector = Inspector::new(&self.settings.root);
        inspector.check_inputs(&mut self.remarks)?;
        let lines = self.configuration()?;
        let asked_for = lines.len();
        let at_once = make_room(asked_for);
        let mut remembered = Remembered::load(self.settings, self.inputs);
        let handshakes = self.shake_hands(lines, at_once, &mut inspector, &mut remembered)?;
        self.check_resource_directories(&handshakes)?;
        // The directories exist before the generators run, which use them too, and stay if a generator fails.
        let prepared = self.prepare(handshakes, &cache)?;
        let generated = generators::run(self.settings, &cache, self.interrupt, &mut self.remarks)?;
        let versions = prepared.iter().map(|plugin| (plugin.id.as_str(), plugin.handshake.api_version));
        let resources = Arc::new(Resources::prepare(&self.settings.root, &cache, generated, versions)?);
        let remembers = self.inputs.is_some() && remembered::is_usable(self.settings) && self.purpose == Purpose::Apply;
        let options = RunOptions { remembers, ..self.options(at_once >= asked_for) };
        let plugins = prepared.into_iter().map(|plugin| plugin.into_plugin(self.settings, &resources, options));
        let mut plugins: Table<PluginIndex, Plugin> = plugins.collect();
        let mut answered = limited::scan(&mut plugins, self.interest, at_once, self.interrupt)?;
        for (index, plugin) in plugins.iter().enumerate() {
            let report = remembered.replay(plugin);
            let answer = |report| Answered { output: Vec::new(), answer: Ok(report), is_limited: false };
            answered.extend(report.map(|report| (index, answer(report))));
        }
        let (failures, remarks) = (&mut self.failures, &mut self.remarks);
        let Scanned { entities, flaws, limited } =
            scan::all(&mut plugins, answered, at_once, &resources, failures, self.interrupt, remarks)?;
        remembered.recognize(&entities);
        let declarations = Declarations::new(&entities);
        let nodes = declarations.nodes(&entities);
        let is_known = |index| remembered.was_unchanged(index);
        let (plan, untrusted) = thread::scope(|scope| {
            let untrusted = scope.spawn(|| inspector.check_entities(&entities, is_known));
            (self.plan(&nodes, &entities, &plugins), untrusted.join())
        });
        let untrusted = untrusted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        untrusted.report(&mut self.remarks);
        if !untrusted.is_empty() {
            // They must be reported again by the next run.
            remembered.save_nothing();
        }
        let mut plan = plan?;
        plan.add_conflicts(untrusted.conflicts);
        // If a plugin or an entity is missing, unknown names may be correct.
        let is_whole = plugins.len() == asked_for && !flaws.iter().any(|&is_flawed| is_flawed);
        let dangling = if is_whole { plan::dangling(&nodes) } else { Vec::new() };
        drop(nodes);
        drop(declarations);
        Ok(Inventory {
            plugins,
            entities,
            plan,
            flaws,
            limited,
            dangling,
            failed: Vec::new(),
            missing: mem::take(&mut self.missing),
            resources,
            root: self.settings.root.clone(),
            remembered,
            cache: Arc::new(cache),
        })
    }

    fn configuration(&mut self) -> Result<Vec<PluginLine>, FatalError> {
        let configuration = config::read(&self.settings.root).map_err(|error| {
            self.remarks.error(error.to_string());
            if let ConfigError::UnknownCommand(bad) = error {
                self.remarks.advise(bad.remedy());
            }
            FatalError::Reported
        })?;
        for file in &configuration.leftovers {
            self.remarks.warning(configuration.passed_over(file));
        }
        for MissingProgram { line, program } in &configuration.missing {
            self.skip(line, program);
        }
        Ok(configuration.plugins)
    }

    /// Performs the handshakes of all plugins concurrently.
    fn shake_hands(
        &mut self,
        lines: Vec<PluginLine>,
        at_once: usize,
        inspector: &mut Inspector<'_>,
        remembered: &mut Remembered,
    ) -> Result<Vec<(String, Handshake)>, FatalError> {
        let located: Vec<(PluginLine, PathBuf)> = lines.into_iter().filter_map(|line| self.locate(line)).collect();
        for (_, program) in &located {
            inspector.check_program(program, &mut self.remarks)?;
        }
        let known = |(line, program): (PluginLine, PathBuf)| {
            let info = remembered.info(&line.id, &program);
            (line.id, program, info)
        };
        let located: Vec<(String, PathBuf, Option<Info>)> = located.into_iter().map(known).collect();
        let ids: Vec<(String, bool)> = located.iter().map(|(id, _, info)| (id.clone(), info.is_some())).collect();
        let (settings, interrupt) = (self.settings, self.interrupt);
        let ask = |(id, program, info): (String, PathBuf, Option<Info>), on_output: &mut dyn FnMut(_, &[u8])| {
            let info = match info {
                Some(info) => info,
                None => handshake::ask(&id, &program, settings, interrupt, on_output)?,
            };
            Ok(Handshake::new(&id, program, info)?)
        };
        let mut handshakes = Vec::new();
        concurrently(located, at_once, ask, |index, heard| {
            let (id, is_known) = ids.get(index).cloned().unwrap_or_default();
            match heard {
                Heard::Output(stream, bytes) => self.remarks.output(stream, bytes),
                Heard::Answer(Ok(handshake)) => {
                    if !is_known {
                        remembered.note_info(&id, &handshake.program, &handshake.info);
                    }
                    handshakes.push((id, handshake));
                }
                Heard::Answer(Err(OperationError::Failed(error))) => {
                    self.remarks.error(error.to_string());
                    // The version of the plugin's interface is not known yet.
                    self.failures.add(&id, None, &mut self.remarks)?;
                }
                Heard::Answer(Err(OperationError::Fatal(fatal))) => return Err(fatal),
            }
            Ok(())
        })?;
        Ok(handshakes)
    }

    /// Returns the path of the plugin's program. A missing program is only a warning: its package may have been removed
    /// without its configuration.
    fn locate(&mut self, line: PluginLine) -> Option<(PluginLine, PathBuf)> {
        match handshake::locate(&line, self.settings) {
            Ok(program) => Some((line, program)),
            Err(missing) => {
                let path = line.program.map_or_else(String::new, |path| format!("={}", path.display()));
                self.skip(format!("{}{path}", line.id), &missing);
                None
            }
        }
    }

    fn skip(&mut self, line: impl fmt::Display, missing: &Path) {
        self.missing.push(missing.to_owned());
        self.remarks.error(format!("{}: file not found", missing.display()));
        self.remarks.warning(format!("Skipping plugin: {line}"));
    }

    /// Fails unless each plugin has a directory of resource files, either that of packages or that of the
    /// administrator.
    fn check_resource_directories(&mut self, handshakes: &[(String, Handshake)]) -> Result<(), FatalError> {
        let mut all_there = true;
        for (id, _) in handshakes {
            let path = self.settings.root.resources().join(id);
            let problem = match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => continue,
                Err(_) if self.settings.root.own_resources().join(id).is_dir() => continue,
                Ok(_) => format!("{} is not a directory", path.display()),
                Err(error) => IoError::new("stat", &path, error).to_string(),
            };
            self.remarks.error(format!("cannot open {}: {problem}", path.display()));
            all_there = false;
        }
        if all_there { Ok(()) } else { Err(FatalError::Reported) }
    }

    /// Finds or creates the directories of the plugins.
    fn prepare(
        &mut self,
        handshakes: Vec<(String, Handshake)>,
        cache: &CacheDirectory,
    ) -> Result<Vec<Prepared>, FatalError> {
        let is_root = rustix::process::geteuid().is_root();
        if self.purpose == Purpose::Apply && !is_root && !self.settings.root.is_test() {
            self.remarks.warning("holo does not run as root, so it cannot change most of the system: sudo holo apply");
        }
        let mut unreadable = Vec::new();
        let asked_for = handshakes.len();
        let prepared = handshakes.into_iter().map(|(id, handshake)| {
            let state = self.state_directory(&id, cache, &mut unreadable)?;
            Ok(Prepared { cache: cache.subdirectory(&id)?, id, handshake, state })
        });
        let prepared = prepared.collect::<Result<_, _>>();
        if let Some((_, reason)) = unreadable.first() {
            let ids: Vec<&str> = unreadable.iter().map(|(id, _)| id.as_str()).collect();
            let have = match &ids[..] {
                [others @ .., last] if !others.is_empty() => format!("{} and {last} have", others.join(", ")),
                ids => format!("{} has", ids.concat()),
            };
            self.remarks.warning(format!("{reason}; what {have} applied before is not known"));
        }
        let database = self.settings.root.state_database();
        if unreadable.len() < asked_for
            && let Err(error @ rustix::io::Errno::ACCESS) = rustix::fs::access(&database, rustix::fs::Access::READ_OK)
        {
            let reason = IoError::new("open", &database, error.into());
            self.remarks.warning(format!("{reason}; what was applied before is not known"));
        }
        if self.purpose == Purpose::Apply {
            self.close_states();
        }
        prepared
    }

    /// Returns the state directory of a plugin, or an empty substitute if it cannot be read.
    fn state_directory(
        &self,
        id: &str,
        cache: &CacheDirectory,
        unreadable: &mut Vec<(String, IoError)>,
    ) -> Result<PathBuf, FatalError> {
        let state = self.settings.root.state(id);
        if self.purpose == Purpose::Apply {
            let created = self.settings.root.create_states().and_then(|()| create_directories(&state));
            created.map_err(|error| FatalError::io("mkdir", &state, error))?;
            return Ok(state);
        }
        let Err(error) = check_readable(&state) else { return Ok(state) };
        if error.kind() != io::ErrorKind::NotFound {
            unreadable.push((id.to_owned(), IoError::new("open", &state, error)));
        }
        cache.state_substitute(id, &self.settings.root.state_database())
    }

    /// Removes other users' access from state directories, both new ones and those of earlier versions.
    fn close_states(&mut self) {
        for (path, mode) in self.settings.root.open_states() {
            if let Err(error) = fs::set_permissions(&path, Permissions::from_mode(mode)) {
                let reason = IoError::new("chmod", &path, error);
                self.remarks
                    .warning(format!("{reason}; other users may be able to read copies of private files there"));
            }
        }
    }

    fn options(&self, room_for_all: bool) -> RunOptions {
        RunOptions {
            verify: self.settings.verify,
            hints: self.settings.gives_hints,
            differences: self.settings.shows_differences,
            gives_memory_back: self.settings.gives_memory_back,
            read_only: self.purpose != Purpose::Apply,
            keeps_replaced: self.purpose == Purpose::Apply && self.settings.keeps_history,
            on_edit: self.settings.on_edit,
            jobs: self.settings.jobs,
            room_for_all,
            remembers: false,
            watches: self.settings.watches,
            limit: self.settings.limit,
            max_output: self.settings.max_output,
        }
    }

    /// Plans all entities. If there is a cycle and none of its entities is selected, plans all but those that the cycle
    /// blocks.
    fn plan(
        &mut self,
        nodes: &PerEntity<Node<'_>>,
        entities: &PerEntity<Entity>,
        plugins: &Table<PluginIndex, Plugin>,
    ) -> Result<Plan, FatalError> {
        let cycle = match Plan::new(nodes) {
            Ok(plan) => return Ok(plan),
            Err(cycle) => cycle,
        };
        let Some(selected) = Inventory::selected(entities, plugins, self.interest.selectors(), &self.settings.root)
        else {
            return Err(FatalError::could_not_run(cycle));
        };
        let plan = Plan::for_selected(nodes, &selected).map_err(FatalError::could_not_run)?;
        self.remarks.error(cycle.to_string());
        self.remarks.warning("Continuing, because no selected entity is in the cycle or depends on it");
        self.remarks.end_paragraph();
        Ok(plan)
    }
}

/// A plugin that has answered the handshake, with its own directories.
struct Prepared {
    id: String,
    handshake: Handshake,
    state: PathBuf,
    cache: PathBuf,
}

impl Prepared {
    fn into_plugin(self, settings: &Settings, resources: &Resources, options: RunOptions) -> Plugin {
        let Prepared { id, handshake, state, cache } = self;
        let directories = Directories {
            root: settings.root.as_given().to_owned(),
            inputs: settings.root.inputs().map(Path::to_owned),
            resources: normalise(&resources.directory(&id)),
            own_resources: resources.own_directory(&id),
            state,
            cache,
        };
        Plugin::new(id, handshake, directories, options)
    }
}

/// Fails unless the path exists and can be read as a directory. If it is not one, the plugin reports that.
fn check_readable(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(path, Access::READ_OK | Access::EXEC_OK)?)
}

/// Creates the state directory of a plugin with version 3's mode; the directory above it is private.
fn create_directories(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}
