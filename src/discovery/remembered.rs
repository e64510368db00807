//! What earlier applies have found out about plugins and their entities, with the files that it rests on. It is used
//! again as long as these *witnesses* are unchanged:
//!
//! - The handshake rests on the program of the plugin.
//! - The scan report rests on the inputs of the run, the records of the plugin, and the witnesses that it names.
//! - An entity in its desired state rests on its report, its record, its resource files, and the witnesses that its
//!   plugin names; if one of these is a claim of other entities, on the reports of all. As long as they are unchanged,
//!   its plugin need not be asked.
//!
//! Only applies write it, while they hold the lock. It may be lost at any time: then all plugins are asked.

use super::generators;
use super::manifest::{Builder, FileIndex, Manifest, digest};
use crate::entities::Entity;
use crate::entities::node::{EntityIndex, PerEntity, PluginIndex, Table};
use crate::generations::Fingerprint;
use crate::host::settings::Settings;
use crate::plugin::Plugin;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::{OutlinedReport, ReportReader};
use holo_protocol::{Info, Witness, WitnessKind};
use holo_state::Database;
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, mem};

/// What is remembered, and what this run finds out.
#[derive(Debug)]
pub struct Remembered {
    database: PathBuf,
    /// The start of the run.
    began: SystemTime,
    /// The digest of the inputs; `None` if this run uses and finds nothing.
    inputs: Option<u64>,
    context: u64,
    /// By plugin ID.
    plugins: BTreeMap<String, PluginMemory>,
    /// The keys of changed records when this was read, by plugin ID.
    changed_records: BTreeMap<String, BTreeSet<String>>,
    /// The entities whose witnesses were unchanged at the beginning.
    unchanged: HashMap<EntityIndex, Vec<FileIndex>>,
    /// The entities that were found to be in their desired state.
    found: HashMap<EntityIndex, Finding>,
    /// The entities that were found not to be, or that have no witnesses.
    dismissed: HashSet<EntityIndex>,
    /// The plugins with an entity that this run has changed.
    changed: HashSet<PluginIndex>,
}

/// What a plugin has told of an entity in its desired state.
#[derive(Debug)]
pub struct Finding {
    /// The files on which it rests that the entity is in its desired state.
    pub witnesses: Vec<Witness>,
    /// The values to keep of this state.
    pub kept: Vec<BString>,
}

/// What is known about a plugin.
#[derive(Debug, Default)]
struct PluginMemory {
    memory: Memory,
    /// Whether there was a memory at the beginning, so that changes of records have been noted since.
    is_old: bool,
    /// Whether the memory differs from the stored one.
    has_news: bool,
    /// Whether the key of a changed record is not the ID of an entity, so that it may concern any of them.
    records_concern_all: bool,
    /// For each file of the manifest, whether it is unchanged.
    unchanged: Vec<bool>,
    /// Whether the remembered scan report is used in this run.
    is_replayed: bool,
}

/// What is stored about a plugin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memory {
    /// The digest of the system as a whole.
    context: u64,
    /// The digest of the paths of the plugin's resource directories.
    resources: u64,
    /// When it was written, in seconds since the epoch.
    made: u64,
    /// The stamp of the plugin's program.
    program: u64,
    /// The answer to the handshake.
    info: String,
    scan: Option<Scan>,
    /// The entities in their desired state, by ID.
    entities: BTreeMap<BString, EntityMemory>,
    /// The stamps of all witnesses, which are stored apart.
    #[serde(skip)]
    manifest: Manifest,
}

/// A scan report.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Scan {
    inputs: u64,
    report: BString,
    /// The files that the scan has written to the cache directory of the plugin, by name.
    published: Vec<(BString, BString)>,
    witnesses: Vec<FileIndex>,
}

/// An entity in its desired state.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EntityMemory {
    /// The digest of its report.
    report: u64,
    /// The digest of the reports of all entities, if it rests on what others claim.
    all_reports: Option<u64>,
    witnesses: Vec<FileIndex>,
    /// The values to keep.
    kept: Vec<BString>,
}

/// What is stored about all entities, if an apply has found them in their desired state and had nothing to tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settled {
    /// The digest of what is not in the manifests of the plugins.
    basis: u64,
    /// When it was written, in seconds since the epoch.
    made: u64,
    /// The number of entities.
    pub(super) entities: usize,
}

impl Settled {
    /// Returns what to store about the entities of these plugins, each with the stamp of its program; `None` if
    /// generators may make other entities each time.
    fn new(
        settings: &Settings,
        inputs: u64,
        began: SystemTime,
        programs: Vec<(&str, u64)>,
        entities: usize,
    ) -> Option<Settled> {
        let has_no_generators = generators::find(&settings.root.generators()).is_ok_and(|found| found.is_empty());
        let basis = basis(settings, inputs, programs);
        has_no_generators.then(|| Settled { basis, made: seconds(began), entities })
    }

    /// Returns true if it rests on these inputs and programs.
    pub(super) fn holds_with(&self, settings: &Settings, inputs: u64, programs: Vec<(&str, u64)>) -> bool {
        self.made <= seconds(SystemTime::now()) && self.basis == basis(settings, inputs, programs)
    }

    /// Returns true if this is stored already.
    fn is_in(&self, database: &Database) -> bool {
        let stored = database.settled_value().ok().flatten().and_then(|value| Settled::parse(&value));
        stored.is_some_and(|stored| (stored.basis, stored.entities) == (self.basis, self.entities))
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        postcard::to_stdvec(self).ok()
    }

    pub(super) fn parse(value: &[u8]) -> Option<Settled> {
        postcard::from_bytes(value).ok()
    }
}

/// Returns the digest of the inputs and of the programs of the plugins, in any order.
fn basis(settings: &Settings, inputs: u64, mut programs: Vec<(&str, u64)>) -> u64 {
    programs.sort_unstable();
    digest(&(context(settings), inputs, programs))
}

impl Remembered {
    /// Reads what is remembered. Without inputs, this run uses and finds nothing.
    pub(super) fn load(settings: &Settings, inputs: Option<&Fingerprint>) -> Remembered {
        let database = settings.root.state_database();
        let began = SystemTime::now();
        let inputs = inputs.filter(|_| is_usable(settings)).map(Fingerprint::digest);
        let mut remembered = Remembered {
            database,
            began,
            inputs,
            context: context(settings),
            plugins: BTreeMap::new(),
            changed_records: BTreeMap::new(),
            unchanged: HashMap::new(),
            found: HashMap::new(),
            dismissed: HashSet::new(),
            changed: HashSet::new(),
        };
        if inputs.is_some() {
            remembered.read();
        }
        remembered
    }

    fn database(&self) -> Database {
        Database::read_only(self.database.clone())
    }

    fn read(&mut self) {
        let now = seconds(self.began);
        for row in self.database().remembered().unwrap_or_default() {
            let holo_state::Remembered { plugin, value, manifest, changed } = row;
            let memory: Option<Memory> = postcard::from_bytes(&value).ok();
            let memory =
                memory.and_then(|memory| Some(Memory { manifest: postcard::from_bytes(&manifest).ok()?, ..memory }));
            // If the clock was set back, files that change now may get the times that they had.
            let memory = memory.filter(|memory| memory.context == self.context && memory.made <= now);
            let mut known = PluginMemory { is_old: true, ..PluginMemory::default() };
            if let Some(memory) = memory {
                let (unchanged, is_outdated) = memory.manifest.compare();
                let is_id = |key: &String| memory.entities.contains_key(BStr::new(key));
                let records_concern_all = !changed.iter().all(is_id);
                known = PluginMemory { memory, unchanged, has_news: is_outdated, records_concern_all, ..known };
            }
            self.changed_records.insert(plugin.clone(), changed);
            self.plugins.insert(plugin, known);
        }
    }

    /// Returns the answer of a plugin's program to the handshake, unless the program has changed.
    pub(super) fn info(&self, plugin_id: &str, program: &Path) -> Option<Info> {
        let known = self.plugins.get(plugin_id)?;
        let is_same = !known.memory.info.is_empty() && program_stamp(program) == Some(known.memory.program);
        Info::parse(known.memory.info.as_bytes()).ok().filter(|_| is_same)
    }

    /// Takes the answer to a handshake.
    pub(super) fn note_info(&mut self, plugin_id: &str, program: &Path, info: &Info) {
        let Some(stamp) = program_stamp(program).filter(|_| self.inputs.is_some() && info.witnesses) else {
            self.plugins.remove(plugin_id);
            return;
        };
        let known = self.plugins.entry(plugin_id.to_owned()).or_default();
        let (context, made) = (self.context, seconds(self.began));
        let memory = Memory { context, made, program: stamp, info: info.to_text(), ..Memory::default() };
        *known = PluginMemory { memory, is_old: known.is_old, has_news: true, ..PluginMemory::default() };
    }

    /// Returns the scan report of a plugin, if the plugin need not be asked for it, and writes the files that belong to
    /// it to the plugin's cache directory.
    pub(super) fn replay(&mut self, plugin: &Plugin) -> Option<OutlinedReport> {
        let inputs = self.inputs?;
        let known = self.plugins.get_mut(&plugin.id)?;
        let resources = resources(plugin);
        if known.memory.resources != resources {
            // Any file may now be in another directory.
            let (scan, entities) = (None, BTreeMap::new());
            known.memory = Memory { resources, scan, entities, ..mem::take(&mut known.memory) };
            known.has_news = true;
        }
        let has_same_records = self.changed_records.get(&plugin.id).is_none_or(BTreeSet::is_empty);
        let scan = known.memory.scan.as_ref().filter(|scan| scan.inputs == inputs && has_same_records)?;
        // A plugin that is started anyway scans at little cost, and its report is then known to be up to date.
        let entities = known.memory.entities.values().flat_map(|entity| &entity.witnesses);
        if !scan.witnesses.iter().chain(entities).all(|&index| is_unchanged(&known.unchanged, index)) {
            return None;
        }
        let mut reader = ReportReader::new(plugin.api_version());
        reader.take(scan.report.as_ref());
        let report = reader.finish().ok()?;
        for (name, content) in &scan.published {
            fs::write(plugin.cache().join(name.to_path_lossy()), content).ok()?;
        }
        known.is_replayed = true;
        Some(report)
    }

    /// Determines the entities whose plugins need not be asked.
    pub(super) fn recognize(&mut self, entities: &PerEntity<Entity>) {
        if self.inputs.is_none() {
            return;
        }
        let all_reports = LazyCell::new(|| digest_of_all(entities));
        for (index, entity) in entities.entries() {
            let plugin_id = entity.plugin_id();
            let Some(known) = self.plugins.get(plugin_id) else { continue };
            let Some(remembered) = known.memory.entities.get(entity.id()) else { continue };
            let has_same_record = self.changed_records.get(plugin_id).is_none_or(|changed| {
                changed.is_empty() || !known.records_concern_all && !changed.contains(&*entity.id().to_str_lossy())
            });
            if has_same_record
                && remembered.report == entity.digest()
                && remembered.all_reports.is_none_or(|reports| reports == *all_reports)
                && remembered.witnesses.iter().all(|&index| is_unchanged(&known.unchanged, index))
            {
                self.unchanged.insert(index, remembered.witnesses.clone());
            }
        }
    }

    /// Forgets everything if another run may have changed something since this was read.
    pub fn confirm(&mut self) {
        let is_same = || self.database().record_changes().is_ok_and(|changes| changes == self.changed_records);
        if self.inputs.is_some() && !is_same() {
            self.unchanged.clear();
            self.inputs = None;
        }
    }

    /// Prevents this run from being remembered.
    pub(super) fn save_nothing(&mut self) {
        self.inputs = None;
    }

    /// Returns true if the entity was in its desired state, and its witnesses were unchanged at the beginning of the run.
    #[must_use]
    pub fn was_unchanged(&self, index: EntityIndex) -> bool {
        self.unchanged.contains_key(&index)
    }

    /// Returns true if the entity is in its desired state, so that its plugin need not be asked. `again` compares the
    /// witnesses with the present state, because this run has changed something.
    #[must_use]
    pub fn is_unchanged(&self, index: EntityIndex, entity: &Entity, again: bool) -> bool {
        let Some(witnesses) = self.unchanged.get(&index) else { return false };
        !again
            || self.plugins.get(entity.plugin_id()).is_some_and(|known| known.memory.manifest.compare_some(witnesses))
    }

    /// Returns the values to keep of an entity whose plugin is not asked.
    #[must_use]
    pub fn kept(&self, entity: &Entity) -> &[BString] {
        self.memory_of(entity).map_or(&[], |remembered| &remembered.kept)
    }

    fn memory_of(&self, entity: &Entity) -> Option<&EntityMemory> {
        self.plugins.get(entity.plugin_id())?.memory.entities.get(entity.id())
    }

    /// Returns true once for a plugin whose scan report was remembered, and which must be scanned before it is asked.
    pub fn needs_scan(&mut self, plugin_id: &str) -> bool {
        self.plugins.get_mut(plugin_id).is_some_and(|known| mem::take(&mut known.is_replayed))
    }

    /// Takes the outcome of the work on an entity, with the finding that it is in its desired state.
    pub fn note(&mut self, index: EntityIndex, plugin: PluginIndex, has_changed: bool, finding: Option<Finding>) {
        if self.inputs.is_none() {
            return;
        }
        self.unchanged.remove(&index);
        if has_changed {
            self.changed.insert(plugin);
        }
        match finding {
            Some(finding) => drop(self.found.insert(index, finding)),
            None => drop(self.dismissed.insert(index)),
        }
    }

    /// Stores what this run has found out, for the next one. Call it only while holding the lock. `is_idle` means that
    /// the run had nothing to do and nothing to tell.
    pub fn save(
        &mut self,
        plugins: &Table<PluginIndex, Plugin>,
        entities: &PerEntity<Entity>,
        database: &Database,
        settings: &Settings,
        is_idle: bool,
    ) {
        let Some(inputs) = self.inputs else { return };
        let mut programs = Vec::new();
        let mut by_plugin: HashMap<PluginIndex, Vec<(EntityIndex, &Entity)>> = HashMap::new();
        for (index, entity) in entities.entries() {
            by_plugin.entry(entity.plugin).or_default().push((index, entity));
        }
        let all_reports = LazyCell::new(|| digest_of_all(entities));
        let mut rows = Vec::new();
        let mut is_settled = is_idle;
        for (index, plugin) in plugins.entries() {
            let own = by_plugin.remove(&index).unwrap_or_default();
            let Some(known) = self.plugins.get(&plugin.id) else {
                is_settled = false;
                continue;
            };
            let scan_is_new = !known.is_replayed && plugin.scan_witnesses().is_some();
            programs.push((plugin.id.as_str(), known.memory.program));
            let is_touched = |(index, _): &(EntityIndex, &Entity)| self.found.contains_key(index);
            let is_gone = own.iter().any(|(index, entity)| {
                self.dismissed.contains(index) && known.memory.entities.contains_key(entity.id())
            });
            let changed = self.changed_records.get(&plugin.id).cloned().unwrap_or_default();
            let has_news = scan_is_new || is_gone || !changed.is_empty() || own.iter().any(is_touched);
            if !(known.has_news || known.is_old && has_news) {
                is_settled &= known.is_replayed && own.iter().all(|(index, _)| self.was_unchanged(*index));
                continue;
            }
            // Until there was a row, changes of records were not noted.
            let memory = if known.is_old {
                self.memory(known, (plugin, index), &own, inputs, &all_reports)
            } else {
                known.memory.clone()
            };
            is_settled &= memory.scan.is_some() && memory.entities.len() == own.len();
            if let (Ok(value), Ok(manifest)) = (postcard::to_stdvec(&memory), postcard::to_stdvec(&memory.manifest)) {
                rows.push(holo_state::Remembered { plugin: plugin.id.clone(), value, manifest, changed });
            }
        }
        let settled = || Settled::new(settings, inputs, self.began, programs, entities.len());
        let settled = is_settled.then(settled).flatten();
        if rows.is_empty() && settled.as_ref().is_none_or(|settled| settled.is_in(database)) {
            return;
        }
        // Without it, the next run asks all plugins.
        let _ = database.remember(&rows, settled.and_then(|settled| settled.to_bytes()).as_deref());
    }

    /// Returns what is known about a plugin now.
    fn memory(
        &self,
        known: &PluginMemory,
        (plugin, index): (&Plugin, PluginIndex),
        entities: &[(EntityIndex, &Entity)],
        inputs: u64,
        all_reports: &u64,
    ) -> Memory {
        let mut builder = Builder::new(self.began);
        let mut found: BTreeMap<BString, EntityMemory> = BTreeMap::new();
        for &(index, entity) in entities {
            let old = |index: &FileIndex| builder.copy(&known.memory.manifest, *index);
            let remembered = known.memory.entities.get(entity.id());
            let mut rests_on_claims = remembered.is_some_and(|remembered| remembered.all_reports.is_some());
            let witnesses: Option<Vec<FileIndex>> = match (self.unchanged.get(&index), self.found.get(&index)) {
                (Some(files), _) => files.iter().map(old).collect(),
                (None, Some(Finding { witnesses, .. })) => {
                    let sources = entity.sources_as_given().map(|path| Witness::new(WitnessKind::File, path));
                    let sources: Option<Vec<FileIndex>> = sources.map(|source| builder.add(&source, true)).collect();
                    rests_on_claims = witnesses.iter().any(|witness| witness.kind == WitnessKind::Claims);
                    let files = witnesses.iter().filter(|witness| witness.kind != WitnessKind::Claims);
                    let others = files.map(|witness| builder.add(witness, false));
                    sources.and_then(|sources| sources.into_iter().map(Some).chain(others).collect())
                }
                (None, None) => None,
            };
            if let Some(witnesses) = witnesses {
                let all_reports = rests_on_claims.then_some(*all_reports);
                let kept = match self.found.get(&index) {
                    Some(finding) => finding.kept.clone(),
                    None => remembered.map(|remembered| remembered.kept.clone()).unwrap_or_default(),
                };
                let memory = EntityMemory { report: entity.digest(), all_reports, witnesses, kept };
                found.insert(entity.id().to_owned(), memory);
            }
        }
        let is_complete = found.len() == entities.len() && !self.changed.contains(&index);
        let scan = if known.is_replayed {
            known.memory.scan.as_ref().and_then(|scan| {
                let witnesses = scan.witnesses.iter().map(|&index| builder.copy(&known.memory.manifest, index));
                Some(Scan { witnesses: witnesses.collect::<Option<_>>()?, ..scan.clone() })
            })
        } else if is_complete {
            new_scan(plugin, entities, inputs, &mut builder)
        } else {
            None
        };
        let (manifest, indexes) = builder.finish();
        let renumber = |files: &mut Vec<FileIndex>| {
            for index in files {
                *index =
                    usize::try_from(*index).ok().and_then(|old| indexes.get(old).copied()).unwrap_or(FileIndex::MAX);
            }
        };
        found.values_mut().for_each(|entity| renumber(&mut entity.witnesses));
        let scan = scan.map(|mut scan| {
            renumber(&mut scan.witnesses);
            scan
        });
        let Memory { resources, program, .. } = known.memory;
        let (context, made, info) = (self.context, seconds(self.began), known.memory.info.clone());
        Memory { context, resources, made, program, info, scan, entities: found, manifest }
    }
}

/// Returns the digest of the paths of a plugin's resource directories. A directory of the run has another path in each
/// run.
fn resources(plugin: &Plugin) -> u64 {
    let run = plugin.cache().parent();
    let shown = |path: &Path| run.and_then(|run| path.strip_prefix(run).ok()).unwrap_or(path).to_owned();
    digest(&plugin.resource_dirs().map(shown).collect::<Vec<_>>())
}

fn digest_of_all(entities: &PerEntity<Entity>) -> u64 {
    digest(&entities.iter().map(Entity::digest).collect::<Vec<_>>())
}

/// Returns the scan report of a plugin for the next run, if it has witnesses.
fn new_scan(plugin: &Plugin, entities: &[(EntityIndex, &Entity)], inputs: u64, builder: &mut Builder) -> Option<Scan> {
    let witnesses = plugin.scan_witnesses()?.iter().map(|witness| builder.add(witness, false));
    let witnesses = witnesses.collect::<Option<Vec<_>>>()?;
    let report: BString = entities.first().map(|(_, entity)| entity.whole_report().into()).unwrap_or_default();
    let cache = plugin.cache();
    // The cache directory is another one in each run.
    if report.contains_str(cache.parent()?.as_os_str().as_encoded_bytes()) {
        return None;
    }
    let mut published = Vec::new();
    for entry in fs::read_dir(cache).ok()? {
        let entry = entry.ok()?;
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            let content = fs::read(entry.path()).ok()?;
            published.push((entry.file_name().into_encoded_bytes().into(), content.into()));
        }
    }
    Some(Scan { inputs, report, published, witnesses })
}

fn is_unchanged(unchanged: &[bool], index: FileIndex) -> bool {
    usize::try_from(index).is_ok_and(|index| unchanged.get(index) == Some(&true))
}

/// Returns false if a run with these settings must use nothing that is remembered.
pub(super) fn is_usable(settings: &Settings) -> bool {
    !settings.verify && settings.inputs.is_none() && settings.root.substitute().is_none()
}

/// Returns a digest of what everything rests on: this boot, as devices may have other numbers in the next one, and this
/// program.
fn context(settings: &Settings) -> u64 {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let own = std::env::current_exe().ok().and_then(|program| program_stamp(&program));
    digest(&(boot, own, settings.root.as_given(), rustix::process::geteuid().as_raw()))
}

/// Returns the stamp of a program.
pub(super) fn program_stamp(path: &Path) -> Option<u64> {
    let stat = fs::metadata(path).ok()?;
    let times = (stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec());
    Some(digest(&(path, stat.dev(), stat.ino(), stat.size(), times)))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
