//! `holo adopt`: writes resource files that describe the current state, and records it. The entities themselves are not
//! changed.

mod choices;
mod definitions;
mod gather;
mod package;
mod verify;
mod write;

use super::check::{Findings, Told};
use super::history::edited;
use super::{Context, apply};
use crate::cli::{Adopt, Apply, Selection};
use crate::discovery::discover;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::scan::{Heard, concurrently};
use crate::entities::node::PluginIndex;
use crate::error::{FatalError, IoError, exit};
use crate::host::interrupt::Interrupt;
use crate::host::lock::Lock;
use crate::host::root::{Root, normalise};
use crate::host::settings::Settings;
use crate::plan::{assets, select};
use crate::plugin::{OperationError, Plugin};
use crate::report::{Adopted, End, Event, NotAdopted, Remarks, Reporter};
use bstr::{BStr, BString, ByteSlice};
use choices::{Choices, Included};
use gather::{Gathered, Resources};
use holo_protocol::{Candidate, CandidateKind};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use verify::{Unfit, Verified};
use write::Plan;

pub(super) fn run(arguments: &Adopt, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    // Declared first, so that it is released after the plugins' sessions have ended.
    let mut lock = None;
    let selectors = for_scan(&arguments.selectors);
    let inventory = discover(settings, Purpose::Check, selectors, None, interrupt, *reporter)?;
    if !arguments.dry_run && arguments.package.is_none() {
        lock = Some(apply::acquire(&settings.root.lock(), *reporter)?);
    }
    let mut run = Run {
        arguments,
        settings,
        interrupt,
        reporter: *reporter,
        inventory,
        not_adopted: Vec::new(),
        has_failed: false,
    };
    let requests = run.requests()?;
    let adoptions = run.gather_all(requests)?;
    let (plan, in_order) = run.settle(adoptions)?;
    let is_pending = arguments.dry_run && !plan.is_empty();
    let adopted = match (&arguments.package, &arguments.description) {
        (Some(name), Some(output)) => package::describe(plan, name, output)?,
        _ if arguments.dry_run => plan.preview(),
        _ => plan.carry_out()?,
    };
    let Run { not_adopted, has_failed, inventory, .. } = run;
    drop(inventory);
    let are_recorded = match lock {
        Some(lock) if !in_order.is_empty() => record(in_order, context, lock),
        _ => Ok(true),
    };
    show(&adopted, context.reporter);
    show_not_adopted(not_adopted, context.reporter);
    Ok(match (has_failed || !are_recorded?, is_pending) {
        (true, _) => exit::FAILED,
        (false, true) => exit::PENDING,
        (false, false) => exit::DONE,
    })
}

/// Applies adopted entities that are in the desired state. Nothing changes, but their state is recorded, so that later manual
/// changes are recognized. Returns false if one could not be recorded.
fn record(ids: Vec<BString>, context: &mut Context<'_>, lock: Lock) -> Result<bool, FatalError> {
    let selection = Selection { selectors: ids.into_iter().map(|id| OsString::from_vec(id.into())).collect() };
    let arguments = Apply { selection, ..Apply::default() };
    let mut told = Told::default();
    let mut findings = Findings::new(context.reporter, &mut told);
    apply::apply(&arguments, &context.settings, context.interrupt, &mut findings, Some(lock))?;
    let mut is_complete = true;
    let is_recorded = |end| matches!(end, End::Unchanged | End::ConditionNotMet | End::Changed);
    for finding in findings.into_found().iter().filter(|finding| !is_recorded(finding.end)) {
        let reason = finding.error.as_ref().or(finding.refusals.first()).cloned().unwrap_or_else(|| "see above".into());
        context.reporter.error(format!("{} was adopted, but its state could not be recorded: {reason}", finding.id));
        is_complete = false;
    }
    Ok(is_complete)
}

/// An entity to adopt, with its resource files.
struct Adoption {
    request: Request,
    resources: Resources,
}

/// The state of the command.
struct Run<'a> {
    arguments: &'a Adopt,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    reporter: &'a mut dyn Reporter,
    inventory: Inventory,
    /// Candidates that are not adopted.
    not_adopted: Vec<NotAdopted>,
    /// True if an entity could not be adopted.
    has_failed: bool,
}

impl Run<'_> {
    fn requests(&mut self) -> Result<Vec<Request>, FatalError> {
        if !self.arguments.all {
            return named(&self.arguments.selectors, &self.inventory, &self.settings.root);
        }
        let root = &self.settings.root;
        let choices = Choices::read(root)?;
        let Included { directories: mut include, others, missing } = choices.included(root);
        for path in missing {
            self.reporter.warning(format!("{} includes {path}, which does not exist", choices::PATH));
        }
        self.reporter.end_paragraph();
        include.extend(included(&self.arguments.include, root)?);
        let mut found = candidates(&include, &choices, &mut self.inventory, self.interrupt, self.reporter)?;
        self.has_failed |= found.has_failed;
        found.excluded.retain(|excluded| !choices.includes(excluded.id.as_bstr()));
        self.not_adopted.extend(found.excluded);
        found.requests.extend(named(&others, &self.inventory, root)?);
        Ok(found.requests)
    }

    fn gather_all(&mut self, requests: Vec<Request>) -> Result<Vec<Adoption>, FatalError> {
        let mut adoptions: Vec<Adoption> = Vec::new();
        for request in requests {
            let adoption = self.gather(request)?;
            // Two arguments can name the same entity.
            let is_new = |adoption: &Adoption| adoptions.iter().all(|other| other.request.id != adoption.request.id);
            adoptions.extend(adoption.filter(is_new));
        }
        Ok(adoptions)
    }

    /// Requests the resource files of one entity. Returns `None` if it is not adopted.
    fn gather(&mut self, mut request: Request) -> Result<Option<Adoption>, FatalError> {
        let editor = self.settings.editor.as_deref().filter(|_| self.arguments.edit);
        let edited = match self.arguments.edited {
            true => Some(edited_content(&request, &self.inventory, self.settings, self.reporter)?),
            false => None,
        };
        let preferred = gather::Preferred { editor, resolved: edited.as_deref() };
        let answer = gather::gather(&mut request, &mut self.inventory, preferred, self.interrupt, self.reporter)?;
        let adoption = match answer {
            Gathered::Failed | Gathered::Unknown | Gathered::Unchanged if self.arguments.edited => {
                let id = &request.id;
                self.reporter.error(format!("no resource file was made of the edited version of {id}"));
                self.reporter.advise(format!("to see what was edited: holo history edited {id}"));
                self.has_failed = true;
                None
            }
            Gathered::Resources(resources) => Some(Adoption { request, resources }),
            Gathered::Unknown if self.arguments.all => {
                self.leave_out(request.id.as_bstr(), "its plugin does not recognise it".into());
                None
            }
            Gathered::Unknown => {
                self.reporter.event(Event::UnknownSelector(request.id.as_ref()));
                return Err(FatalError::Reported);
            }
            Gathered::Unchanged if !self.arguments.all => {
                self.reporter.warning(format!("Nothing to adopt: {} has no manual changes", request.id));
                None
            }
            Gathered::Unchanged => None,
            Gathered::Failed => {
                self.list_as_not_adopted(request.id.as_bstr(), REPORTED.into());
                None
            }
        };
        self.reporter.end_paragraph();
        Ok(adoption)
    }

    /// Reports that an entity is not adopted.
    fn leave_out(&mut self, id: &BStr, reason: &BStr) {
        self.reporter.error(format!("cannot adopt {id}: {reason}"));
        self.list_as_not_adopted(id, reason);
    }

    /// Lists a failed candidate with those that are not adopted. The error has been reported.
    fn list_as_not_adopted(&mut self, id: &BStr, reason: &BStr) {
        self.has_failed = true;
        if self.arguments.all {
            self.not_adopted.push(NotAdopted { id: id.to_owned(), reason: reason.to_owned(), command: None });
        }
    }

    /// Drops entities whose resource files cannot be written, or that fail the verification, until the rest passes.
    /// Returns the plan, and the entities that are in the state that the new files describe.
    fn settle(&mut self, mut adoptions: Vec<Adoption>) -> Result<(Plan, Vec<BString>), FatalError> {
        loop {
            self.gather_again(&mut adoptions)?;
            let (plan, is_whole) = self.plan(&mut adoptions)?;
            if !is_whole {
                continue;
            }
            if plan.is_empty() {
                return Ok((plan, Vec::new()));
            }
            let Verified { unfit, in_order } = self.verify(&plan)?;
            if unfit.is_empty() {
                return Ok((plan, in_order));
            }
            adoptions.retain(|adoption| unfit.iter().all(|unfit| unfit.id != adoption.request.id));
        }
    }

    /// Plans the files to write. Returns false if any entity was dropped because its files cannot be written.
    fn plan(&mut self, adoptions: &mut Vec<Adoption>) -> Result<(Plan, bool), FatalError> {
        let is_package = self.arguments.package.is_some();
        let mut plan = Plan::new(&self.settings.root, self.inventory.cache(), is_package);
        let count = adoptions.len();
        let mut kept = Vec::new();
        for adoption in adoptions.drain(..) {
            if plan.add(&adoption.request, &adoption.resources, self.reporter)? {
                kept.push(adoption);
            } else {
                self.reporter.end_paragraph();
                self.list_as_not_adopted(adoption.request.id.as_bstr(), REPORTED.into());
            }
        }
        *adoptions = kept;
        Ok((plan, adoptions.len() == count))
    }

    /// Reports and returns the entities that fail the verification. If an apply would act on an entity, that is a failure with `--all`, and a
    /// warning if the entity was named.
    fn verify(&mut self, plan: &Plan) -> Result<Verified, FatalError> {
        let directory = gather::fresh_directory(self.inventory.cache())?;
        // Without selectors, every entity is scanned, so that all conflicts are found.
        let named = plan.adopted().iter().filter(|_| !self.arguments.all);
        let selectors: Vec<OsString> = named.map(|adopted| OsString::from_vec(adopted.id.to_vec())).collect();
        let Verified { unfit, in_order } =
            verify::verify(plan, &directory, &selectors, self.settings, self.interrupt, self.reporter)?;
        let (left_out, noted): (Vec<Unfit>, Vec<Unfit>) =
            unfit.into_iter().partition(|unfit| unfit.is_broken || self.arguments.all);
        for Unfit { id, reason, details, .. } in &left_out {
            self.leave_out(id.as_bstr(), reason.as_bstr());
            details.iter().for_each(|line| self.reporter.explain(line));
            self.reporter.end_paragraph();
        }
        // That an apply would write the edited version is what was asked for.
        if left_out.is_empty() && !self.arguments.edited {
            for Unfit { id, reason, .. } in noted {
                self.reporter.warning(format!("{id}: {reason}"));
                self.reporter.end_paragraph();
            }
        }
        Ok(Verified { unfit: left_out, in_order })
    }

    /// Requests resource files again that may refer to dropped entities.
    fn gather_again(&mut self, adoptions: &mut Vec<Adoption>) -> Result<(), FatalError> {
        loop {
            let adopted = adoptions.iter().map(|adoption| adoption.request.id.clone());
            let defined = self.inventory.entities.iter().map(|entity| entity.id().to_owned());
            let known: HashSet<BString> = adopted.chain(defined).collect();
            let (sound, stale): (Vec<Adoption>, Vec<Adoption>) =
                adoptions.drain(..).partition(|adoption| adoption.request.with.iter().all(|id| known.contains(id)));
            *adoptions = sound;
            if stale.is_empty() {
                return Ok(());
            }
            for Adoption { mut request, .. } in stale {
                request.with.retain(|id| known.contains(id));
                adoptions.extend(self.gather(request)?);
            }
        }
    }
}

/// Writes the content of the latest edited version of an entity to a file in the cache directory.
fn edited_content(
    request: &Request,
    inventory: &Inventory,
    settings: &Settings,
    reporter: &mut dyn Reporter,
) -> Result<PathBuf, FatalError> {
    let version = edited::find(&settings.root, request.id.as_bstr(), None, reporter)?;
    let directory = gather::fresh_directory(inventory.cache())?;
    let path = directory.join("edited");
    version.write(&path, reporter)?;
    Ok(path)
}

/// Shows what was adopted, group by group.
fn show(adopted: &[Adopted], reporter: &mut dyn Reporter) {
    let mut sorted: Vec<&Adopted> = adopted.iter().collect();
    sorted.sort_by(|one, other| (&one.group, &one.plugin, &one.id).cmp(&(&other.group, &other.plugin, &other.id)));
    sorted.into_iter().for_each(|adopted| reporter.event(Event::Adopted(adopted)));
}

/// Shows what was not adopted, reason by reason.
fn show_not_adopted(mut not_adopted: Vec<NotAdopted>, reporter: &mut dyn Reporter) {
    not_adopted.sort_by(|one, other| (&one.reason, &one.id).cmp(&(&other.reason, &other.id)));
    for group in not_adopted.chunk_by(|one, other| one.reason == other.reason) {
        reporter.event(Event::NotAdopted(group));
    }
}

impl Request {
    /// Returns the adoption as it is shown.
    fn to_adopted(&self, plugin: &str) -> Adopted {
        Adopted {
            id: self.id.clone(),
            plugin: plugin.to_owned(),
            reason: self.reason.clone(),
            group: self.group.clone(),
            written: Vec::new(),
            removed: Vec::new(),
            is_pending: false,
        }
    }
}

/// An entity or a path to adopt.
struct Request {
    /// The ID of an entity, which need not exist yet, or the path of a file below the root.
    id: BString,
    /// The plugin that it belongs to, if known.
    plugin: Option<PluginIndex>,
    reason: Option<BString>,
    group: Option<BString>,
    /// The IDs of other entities in the same group.
    with: Vec<BString>,
}

/// The reason to not adopt an entity if an error has explained it.
const REPORTED: &str = "its resource files could not be made, as an error above explains";

/// The candidates of all plugins.
struct Found {
    requests: Vec<Request>,
    /// Those that plugins or the administrator exclude.
    excluded: Vec<NotAdopted>,
    /// Whether the list of a plugin is missing or incomplete.
    has_failed: bool,
}

/// Returns the selectors for the scan. Unless all of them are IDs there are none, so that every entity is scanned.
fn for_scan(selectors: &[OsString]) -> &[OsString] {
    let are_ids = selectors.iter().all(|selector| select::looks_like_id(selector.as_bytes().as_bstr()));
    if are_ids { selectors } else { &[] }
}

/// Returns a request for each selector on the command line.
fn named(selectors: &[OsString], inventory: &Inventory, root: &Root) -> Result<Vec<Request>, FatalError> {
    let mut seen = BTreeSet::new();
    let mut requests = Vec::new();
    for selector in selectors {
        let named = BString::from(selector.as_bytes());
        let request = if inventory.entities.iter().any(|entity| entity.id() == named) {
            of_entity(named, inventory)
        } else if selector.as_bytes().contains(&b'/') && !select::looks_like_id(named.as_bstr()) {
            let path = below_root(selector, root)?;
            let path = BString::from(path.as_os_str().as_bytes());
            match entity_at(&path, inventory) {
                Some(id) => of_entity(id, inventory),
                None => Request::new(path),
            }
        } else {
            Request::new(named)
        };
        if seen.insert(request.id.clone()) {
            requests.push(request);
        }
    }
    Ok(requests)
}

fn of_entity(id: BString, inventory: &Inventory) -> Request {
    let entity = inventory.entities.iter().find(|entity| entity.id() == id);
    Request { plugin: entity.map(|entity| entity.plugin), ..Request::new(id) }
}

impl Request {
    fn new(id: BString) -> Request {
        Request { id, plugin: None, reason: None, group: None, with: Vec::new() }
    }
}

/// Returns the ID of the entity at a path below the root.
fn entity_at(path: &BString, inventory: &Inventory) -> Option<BString> {
    let is_at = |asset: &holo_protocol::Asset| assets::path(asset).is_some_and(|at| *at == **path);
    let mut living = inventory.entities.iter().filter(|entity| entity.has_edges());
    let entity = living.find(|entity| {
        let edges = entity.report().edges;
        !edges.orphan && edges.owns.iter().chain(&edges.provides).any(is_at)
    });
    entity.map(|entity| entity.id().to_owned())
}

/// Returns the path below the root that a selector stands for. A relative path refers to a file on this machine.
fn below_root(selector: &OsStr, root: &Root) -> Result<PathBuf, FatalError> {
    let path = Path::new(selector);
    let absolute = |path: &Path| {
        std::path::absolute(path).map(|path| normalise(&path)).map_err(|error| IoError::new("find", path, error))
    };
    let (given, root) = match (absolute(path), absolute(root.as_given())) {
        (Ok(given), Ok(root)) => (given, root),
        (Err(error), _) | (_, Err(error)) => return Err(FatalError::could_not_run(error)),
    };
    Ok(given.strip_prefix(&root).map_or_else(|_| given.clone(), |below| Path::new("/").join(below)))
}

/// Returns the additional directories to search, as paths below the root.
fn included(directories: &[PathBuf], root: &Root) -> Result<Vec<PathBuf>, FatalError> {
    let mut below = Vec::new();
    for directory in directories {
        let path = below_root(directory.as_os_str(), root)?;
        let found = fs::read_dir(root.join(&path));
        found.map_err(|error| FatalError::io("open", directory, error))?;
        below.push(path);
    }
    Ok(below)
}

/// Requests the candidates of all plugins that support adoption. Failures are reported.
fn candidates(
    include: &[PathBuf],
    choices: &Choices,
    inventory: &mut Inventory,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Found, FatalError> {
    let (mut indexes, mut ids, mut plugins) = (Vec::new(), Vec::new(), Vec::new());
    for (index, plugin) in inventory.plugins.iter_mut().enumerate().filter(|(_, plugin)| plugin.adopts()) {
        indexes.push(PluginIndex::from(index));
        ids.push(plugin.id.clone());
        plugins.push(plugin);
    }
    let ask =
        |plugin: &mut Plugin, on_output: &mut dyn FnMut(_, &[u8])| plugin.candidates(include, interrupt, on_output);
    let mut listed = Vec::new();
    let mut has_failed = false;
    let at_once = plugins.len();
    concurrently(plugins, at_once, ask, |asked, heard| {
        match heard {
            Heard::Output(stream, bytes) => reporter.output(stream, bytes),
            Heard::Answer(Ok(candidates)) => {
                let plugin = indexes.get(asked).copied();
                listed.extend(candidates.into_iter().map(|candidate| (plugin, candidate)));
            }
            Heard::Answer(Err(OperationError::Fatal(fatal))) => return Err(fatal),
            Heard::Answer(Err(OperationError::Failed(error))) => {
                let id = ids.get(asked).map(String::as_str).unwrap_or_default();
                reporter.error(format!("cannot list the candidates of plugin {id}: {error}"));
                has_failed = true;
            }
        }
        Ok(())
    })?;
    reporter.end_paragraph();
    let mut seen = BTreeSet::new();
    listed.retain(|(_, candidate)| seen.insert(candidate.id.clone()));
    let mut excluded = Vec::new();
    listed.retain(|(_, Candidate { id, reason, kind, .. })| match kind {
        CandidateKind::Excluded { command } => {
            excluded.push(NotAdopted { id: id.clone(), reason: reason.clone(), command: command.clone() });
            false
        }
        CandidateKind::Usual | CandidateKind::Companion if choices.excludes(id.as_bstr()) => {
            let reason = format!("{} excludes it", choices::PATH).into();
            excluded.push(NotAdopted { id: id.clone(), reason, command: None });
            false
        }
        CandidateKind::Usual | CandidateKind::Companion => true,
    });
    Ok(Found { requests: with_their_groups(listed), excluded, has_failed })
}

/// Returns requests for all candidates, except companions without another member of their group.
fn with_their_groups(listed: Vec<(Option<PluginIndex>, Candidate)>) -> Vec<Request> {
    let mut groups: BTreeMap<BString, Vec<BString>> = BTreeMap::new();
    for (_, candidate) in listed.iter().filter(|(_, candidate)| candidate.kind == CandidateKind::Usual) {
        if let Some(group) = &candidate.group {
            groups.entry(group.clone()).or_default().push(candidate.id.clone());
        }
    }
    let request = |(plugin, candidate): (Option<PluginIndex>, Candidate)| {
        let Candidate { id, reason, group, kind } = candidate;
        let mut with = group.as_ref().and_then(|group| groups.get(group)).cloned().unwrap_or_default();
        with.retain(|other| *other != id);
        (kind == CandidateKind::Usual || !with.is_empty()).then_some(Request {
            id,
            plugin,
            reason: Some(reason),
            group,
            with,
        })
    };
    listed.into_iter().filter_map(request).collect()
}

#[cfg(test)]
mod request_tests {
    use super::*;

    #[test]
    fn companions_require_other_members_of_their_group() {
        let candidates = [
            Candidate::new("package:nginx", "by hand").in_group("nginx"),
            Candidate::new("service:nginx", "enabled").in_group("nginx").as_companion(),
            Candidate::new("service:cron", "enabled").in_group("cron").as_companion(),
            Candidate::new("service:cron-too", "enabled").in_group("cron").as_companion(),
            Candidate::new("service:lost", "enabled").as_companion(),
            Candidate::new("service:mine", "enabled"),
        ];
        let requests = with_their_groups(candidates.map(|candidate| (None, candidate)).to_vec());
        let found: Vec<_> = requests.iter().map(|request| (request.id.to_string(), request.with.clone())).collect();
        let expected = [
            ("package:nginx".to_owned(), vec![]),
            ("service:nginx".to_owned(), vec![BString::from("package:nginx")]),
            ("service:mine".to_owned(), vec![]),
        ];
        assert_eq!(found, expected);
    }
}
